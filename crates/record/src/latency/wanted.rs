//! Which functions are measured.

use std::sync::atomic::{AtomicBool, Ordering};

use transect_probe_plan::Function;
use wildmatch::WildMatch;

use super::LatencySettings;
use super::hot::Hot;
use crate::probe_session::LoadedObject;

/// Globs over functions and components; see [`LatencySettings`].
#[derive(Debug)]
pub struct Wanted {
    functions: Vec<Glob>,
    components: Vec<Glob>,
    /// Where a sample of the CPU time fell; `None`: not asked for.
    pub hot: Option<Hot>,
}

impl Wanted {
    /// Compiles the settings' globs.
    pub fn new(settings: &LatencySettings) -> Wanted {
        let compile = |globs: &[String]| globs.iter().map(|glob| Glob::new(glob)).collect();
        Wanted { functions: compile(&settings.functions), components: compile(&settings.components), hot: None }
    }

    /// Whether the function is measured.
    pub fn wants(&self, object: &LoadedObject, function: &Function) -> bool {
        self.wants_object(object) && self.wants_name(function) && self.wants_hot(object, function)
    }

    /// Globs over functions and over components that nothing has matched so far.
    pub fn unmatched(&self) -> Unmatched {
        let of = |globs: &[Glob]| {
            let unmatched = globs.iter().filter(|glob| !glob.met.load(Ordering::Relaxed));
            unmatched.map(|glob| glob.text.clone()).collect()
        };
        Unmatched { functions: of(&self.functions), components: of(&self.components) }
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
        any(&self.components, &[&path, name, stem])
    }

    fn wants_name(&self, function: &Function) -> bool {
        let plain = function.name.split('(').next().unwrap_or(&function.name);
        self.functions.is_empty() || any(&self.functions, &[&function.name, &function.symbol, plain])
    }

    fn wants_hot(&self, object: &LoadedObject, function: &Function) -> bool {
        let Some(hot) = &self.hot else { return true };
        let offset = object.object.file_offset(function.vaddr);
        offset.is_some_and(|offset| hot.contains(object.identity, offset, function.size))
    }
}

/// What was asked for and is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Globs over functions.
    pub functions: Vec<String>,
    /// Globs over components.
    pub components: Vec<String>,
}

#[derive(Debug)]
struct Glob {
    text: String,
    pattern: WildMatch,
    /// Something has matched it.
    met: AtomicBool,
}

impl Glob {
    fn new(text: &str) -> Glob {
        Glob { text: text.to_owned(), pattern: WildMatch::new(text), met: AtomicBool::new(false) }
    }
}

/// Whether any glob matches any of these texts. All are asked: each is to know whether it is met.
fn any(globs: &[Glob], texts: &[&str]) -> bool {
    let matching = globs.iter().filter(|glob| texts.iter().any(|text| glob.pattern.matches(text)));
    matching.fold(false, |_, glob| {
        glob.met.store(true, Ordering::Relaxed);
        true
    })
}

/// Whether a file name is a dynamic loader's.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld-2.") || name == "ld.so"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_glob_knows_whether_it_is_met() {
        let settings = |functions: &[&str]| functions.iter().map(|glob| Glob::new(glob)).collect::<Vec<_>>();
        let wanted = Wanted { functions: settings(&["work", "w*", "nosuch*"]), components: Vec::new(), hot: None };
        assert!(!any(&wanted.functions, &["idle"]));
        assert_eq!(wanted.unmatched().functions, ["work", "w*", "nosuch*"]);
        assert!(any(&wanted.functions, &["app::work(int)", "work"]));
        assert_eq!(wanted.unmatched(), Unmatched { functions: vec!["nosuch*".to_owned()], components: Vec::new() });
    }
}
