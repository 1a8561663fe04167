//! Which functions are measured.

use transect_probe_plan::Function;
use wildmatch::WildMatch;

use super::LatencySettings;
use super::hot::Hot;
use crate::probe_session::LoadedObject;

/// Globs over functions and components; see [`LatencySettings`].
#[derive(Debug)]
pub struct Wanted {
    functions: Vec<WildMatch>,
    components: Vec<WildMatch>,
    /// Where a sample of the CPU time fell; `None`: not asked for.
    pub hot: Option<Hot>,
}

impl Wanted {
    /// Compiles the settings' globs.
    pub fn new(settings: &LatencySettings) -> Wanted {
        let compile = |globs: &[String]| globs.iter().map(|glob| WildMatch::new(glob)).collect();
        Wanted { functions: compile(&settings.functions), components: compile(&settings.components), hot: None }
    }

    /// Whether the function is measured.
    pub fn wants(&self, object: &LoadedObject, function: &Function) -> bool {
        self.wants_object(object) && self.wants_name(function) && self.wants_hot(object, function)
    }

    fn wants_object(&self, object: &LoadedObject) -> bool {
        let path = object.path.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or(&path);
        // The agent of another collector is not part of the program, and its code keeps conventions of its own.
        if name.starts_with("libtransect") {
            return false;
        }
        if self.components.is_empty() {
            // The loader's functions run with a convention and at times of their own.
            return !is_loader(name);
        }
        let stem = name.split_once(".so").map_or(name, |(stem, _)| stem);
        self.components.iter().any(|glob| [&*path, name, stem].into_iter().any(|text| glob.matches(text)))
    }

    fn wants_name(&self, function: &Function) -> bool {
        let plain = function.name.split('(').next().unwrap_or(&function.name);
        let names = [&*function.name, &*function.symbol, plain];
        self.functions.is_empty() || self.functions.iter().any(|glob| names.into_iter().any(|name| glob.matches(name)))
    }

    fn wants_hot(&self, object: &LoadedObject, function: &Function) -> bool {
        let Some(hot) = &self.hot else { return true };
        let offset = object.object.file_offset(function.vaddr);
        offset.is_some_and(|offset| hot.contains(object.identity, offset, function.size))
    }
}

/// Whether a file name is a dynamic loader's.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld-2.") || name == "ld.so"
}
