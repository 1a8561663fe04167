//! Where files with symbols are looked for: those that were named, the system's debug files, those of debuginfod's client, and the
//! path that was recorded. A file counts if its build-id is the component's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use transect_binary_info::{Fetched, Object, debug_file_in, debug_file_of, fetch_debug_file};
use transect_profile_model::Component;

use crate::SymbolizeError;
use crate::component_symbols::ComponentSymbols;
use crate::outcome::Missing;

/// Hexadecimal digits of a build-id that recordings know of components that the agent alone saw.
const SHORT_BUILD_ID: usize = 64;

/// Files and folders that are searched for symbols, beside those that always are.
#[derive(Debug, Default)]
pub struct SymbolPlaces {
    folders: Vec<PathBuf>,
    /// Files by build-id: named ones, and those that lie in a folder.
    files: HashMap<String, Vec<PathBuf>>,
}

/// What is found of a component.
pub(crate) struct Found {
    pub symbols: ComponentSymbols,
    /// What to say if names are missing in the end.
    pub missing: Missing,
}

impl SymbolPlaces {
    /// Searches `folders` (each laid out as `/usr/lib/debug` is, or with the files in it) and `files` for symbols of
    /// `components`.
    ///
    /// # Errors
    /// [`SymbolizeError::OtherBuild`] if a file's build-id is no component's; the others if a file or folder can't be read, or is
    /// not what it should be.
    pub fn new(folders: Vec<PathBuf>, files: &[PathBuf], components: &[Component]) -> Result<Self, SymbolizeError> {
        let mut places = Self { folders, files: HashMap::new() };
        for path in files {
            let found = Object::open(path)?.build_id();
            let found = found.ok_or_else(|| SymbolizeError::NoBuildId { path: path.clone() })?;
            if !components.iter().any(|component| is_of_build(component, &found)) {
                let nearest = nearest(path, components);
                return Err(SymbolizeError::OtherBuild { path: path.clone(), found, nearest });
            }
            places.files.entry(found).or_default().push(path.clone());
        }
        for folder in &places.folders {
            let failed = |source| SymbolizeError::Folder { path: folder.clone(), source };
            for entry in std::fs::read_dir(folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                if let Some(id) = Object::open(&path).ok().and_then(|object| object.build_id()) {
                    places.files.entry(id).or_default().push(path);
                }
            }
        }
        Ok(places)
    }

    /// Files of a component's build.
    pub(crate) fn find(&self, component: &Component) -> Found {
        let mut symbols = ComponentSymbols::default();
        if component.build_id.is_empty() {
            return Found { symbols, missing: Missing::NoBuildId };
        }
        let id = component.build_id.as_str();
        for folder in &self.folders {
            let by_path = folder.join(component.path.trim_start_matches('/'));
            let mut name = by_path.clone().into_os_string();
            name.push(".debug");
            let by_path = [PathBuf::from(name), by_path].into_iter().filter_map(|path| of_build(&path, component));
            debug_file_in(folder, id).into_iter().chain(by_path).for_each(|object| symbols.add(object));
        }
        let named = self.files.iter().filter(|(found, _)| is_of_build(component, found));
        for object in named.flat_map(|(_, paths)| paths).filter_map(|path| of_build(path, component)) {
            add_with_debug_file(&mut symbols, object);
        }
        debug_file_of(id).into_iter().for_each(|object| symbols.add(object));
        let at_path = Object::open(&component.path).ok();
        let is_other = at_path.as_ref().is_some_and(|object| !is_build_of(component, object));
        let other_build = is_other.then(|| PathBuf::from(&component.path));
        if let Some(object) = at_path.filter(|_| !is_other) {
            add_with_debug_file(&mut symbols, object);
        }
        let mut fetched = Fetched::NotFound;
        if !symbols.has_lines() {
            fetched = fetch_debug_file(id, None);
            if fetched == Fetched::Kept {
                // The one that knows most goes first.
                let others = std::mem::take(&mut symbols);
                debug_file_of(id).into_iter().for_each(|object| symbols.add(object));
                symbols.append(others);
            }
        }
        let missing = match symbols.has_lines() {
            true => Missing::NotDescribed,
            false => Missing::NoFile { build_id: id.to_owned(), other_build, fetched },
        };
        Found { symbols, missing }
    }
}

/// Adds a file, and before it its debug file.
fn add_with_debug_file(symbols: &mut ComponentSymbols, object: Object) {
    object.debug_object().into_iter().chain([object]).for_each(|object| symbols.add(object));
}

fn of_build(path: &Path, component: &Component) -> Option<Object> {
    Object::open(path).ok().filter(|object| is_build_of(component, object))
}

fn is_build_of(component: &Component, object: &Object) -> bool {
    object.build_id().is_some_and(|found| is_of_build(component, &found))
}

fn is_of_build(component: &Component, found: &str) -> bool {
    let id = component.build_id.as_str();
    !id.is_empty() && (found == id || id.len() == SHORT_BUILD_ID && found.starts_with(id))
}

/// The component of a file's name, in words.
fn nearest(path: &Path, components: &[Component]) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".debug").unwrap_or(&name);
    let same = components.iter().find(|component| component.path.rsplit('/').next() == Some(name));
    same.map_or_else(String::new, |component| match component.build_id.as_str() {
        "" => format!(" ({} was recorded without one)", component.path),
        id => format!(" ({} has {id})", component.path),
    })
}
