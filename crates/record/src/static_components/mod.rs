//! Static components: parts of an ELF object (a statically linked library, a namespace, a folder of sources) that are
//! profiled as components of their own. A future work of Scaler (ASE '24).
//!
//! [`StaticComponents`] reads the file that names them, finds their functions, and writes a plan for each object that
//! holds some; the agent does what the plan says (see [`transect_event_abi::static_plan`]).

mod calls;
mod config;
mod error;
mod link_map;
mod membership;
mod namespace;
mod pattern;
mod plan;
mod region;
mod stretch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use transect_binary_info::Object;

use config::ComponentRule;
pub use error::StaticError;
use membership::Inventory;
use pattern::Pattern;
use plan::Membership;

use crate::own_folder::OwnFolder;

/// Functions of an object's static components that are not intercepted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedFunctions {
    /// The component.
    pub component: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub count: i64,
}

/// The static components of a recording.
#[derive(Debug)]
pub struct StaticComponents {
    rules: Vec<ComponentRule>,
    folder: OwnFolder,
    /// What was refused, by object; objects without static components have an empty list.
    known: Mutex<HashMap<PathBuf, Vec<RefusedFunctions>>>,
    /// The names that libraries give themselves.
    sonames: Mutex<Vec<String>>,
}

impl StaticComponents {
    /// Reads the file at `path`; plans go into a folder of their own.
    ///
    /// # Errors
    /// [`StaticError::Read`], [`StaticError::Wrong`], [`StaticError::Write`].
    pub fn load(path: &Path) -> Result<StaticComponents, StaticError> {
        let rules = config::load(path)?;
        let folder = OwnFolder::create().map_err(|source| StaticError::Write { path: std::env::temp_dir(), source })?;
        Ok(StaticComponents { rules, folder, known: Mutex::default(), sonames: Mutex::default() })
    }

    /// Where the plans are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the plans of the program that is to be launched, and of the libraries that the file names.
    ///
    /// # Errors
    /// If a pattern names nothing, an object is not found, or a plan can't be written. Nothing was launched then.
    pub fn prepare(&self, program: &Path) -> Result<(), StaticError> {
        let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
        self.make(&program, true)?;
        for rule in &self.rules {
            if let Some(within) = &rule.within
                && !Pattern::new(within).matches_path(&program.to_string_lossy())
            {
                for path in self.find(rule, within, &program)? {
                    self.make(&path, true)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the plan of an object that a program has loaded. What can't be made is a loss.
    pub fn ensure(&self, object: &Object) {
        let path = object.path();
        if let Err(error) = self.make_of(object, false) {
            let refused = RefusedFunctions { component: String::new(), reason: error.to_string(), count: 1 };
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), vec![refused]);
        }
    }

    /// Functions of an object's static components that are not intercepted.
    pub fn refused(&self, path: &Path) -> Vec<RefusedFunctions> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().unwrap_or_default()
    }

    /// Components whose object (`within`) no program has loaded, and that object.
    pub fn unseen(&self) -> Vec<(String, String)> {
        let seen = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = |within: &str| {
            let pattern = Pattern::new(within);
            seen.keys().any(|path| pattern.matches_path(&path.to_string_lossy()))
                || self.sonames.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|s| pattern.matches_path(s))
        };
        let named = self.rules.iter().filter_map(|rule| Some((rule.name.clone(), rule.within.clone()?)));
        named.filter(|(_, within)| !loaded(within)).collect()
    }

    /// Writes the plan of one object, an empty file if it has no static components.
    fn make(&self, path: &Path, strict: bool) -> Result<(), StaticError> {
        self.make_of(&Object::open(path)?, strict)
    }

    fn make_of(&self, object: &Object, strict: bool) -> Result<(), StaticError> {
        let path = object.path();
        let file = self.folder.path().join(file_name(object));
        // Another file may be at the path by now.
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path) && file.exists() {
            return Ok(());
        }
        if let Some(name) = object.soname() {
            self.sonames.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        }
        let rules: Vec<&ComponentRule> = self.rules.iter().filter(|rule| applies(rule, object)).collect();
        let (mut bytes, mut refused) = (Vec::new(), Vec::new());
        if !rules.is_empty() {
            let inventory = Inventory::of(object);
            let mut members = Membership::new();
            let mut names = Vec::new();
            for rule in rules {
                let found = match inventory.members(rule) {
                    Ok(found) => found,
                    // Another program than the one that the file is about.
                    Err(StaticError::NoMatch { .. }) if !strict && rule.within.is_none() => continue,
                    Err(error) => return Err(error),
                };
                names.push(rule.name.clone());
                for vaddr in found {
                    // Of two components that claim a function, the first in the file has it.
                    members.entry(vaddr).or_insert(names.len() as u8);
                }
            }
            if !names.is_empty() {
                let made = plan::make(object, &inventory.symbols, &names, &members);
                bytes = made.bytes;
                refused = made
                    .refused
                    .into_iter()
                    .map(|((id, reason), count)| RefusedFunctions {
                        component: names[id as usize - 1].clone(),
                        reason,
                        count,
                    })
                    .collect();
            }
        }
        let draft = file.with_extension("draft");
        std::fs::write(&draft, bytes)
            .and_then(|()| std::fs::rename(&draft, &file))
            .map_err(|source| StaticError::Write { path: file.clone(), source })?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), refused);
        Ok(())
    }

    /// The libraries that `within` names: a path, or what the program's loader finds.
    fn find(&self, rule: &ComponentRule, within: &str, program: &Path) -> Result<Vec<PathBuf>, StaticError> {
        let given = Path::new(within);
        if given.is_file() {
            return Ok(given.canonicalize().into_iter().collect());
        }
        let missing = |looked: &str| StaticError::NoObject {
            component: rule.name.clone(),
            within: within.to_owned(),
            looked: looked.to_owned(),
        };
        if given.is_absolute() {
            return Err(missing("no such file"));
        }
        // A library that the program loads later can't be looked at yet: whether its patterns fit shows then.
        let object = Object::open(program)?;
        let pattern = Pattern::new(within);
        let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
            .map(|paths| std::env::split_paths(&paths).collect())
            .unwrap_or_default();
        folders.extend(program.parent().map(Path::to_owned));
        folders.extend(
            ["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
                .map(PathBuf::from),
        );
        let needed = object.needed().iter().filter(|name| pattern.matches_path(name));
        Ok(needed
            .filter_map(|name| folders.iter().map(|f| f.join(name)).find(|p| p.is_file()))
            .filter_map(|p| p.canonicalize().ok())
            .collect())
    }
}

/// True if a component is to be looked for in an object.
fn applies(rule: &ComponentRule, object: &Object) -> bool {
    match &rule.within {
        None => object.interpreter().is_some() && object.soname().is_none(),
        Some(within) => {
            let pattern = Pattern::new(within);
            pattern.matches_path(&object.path().to_string_lossy())
                || object.soname().is_some_and(|name| pattern.matches_path(name))
        }
    }
}

#[cfg(feature = "fuzzing")]
pub use link_map::fuzz as fuzz_link_map;

/// The name under which the agent looks for an object's plan.
fn file_name(object: &Object) -> String {
    object.kept_name() + ".static"
}
