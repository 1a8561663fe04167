//! Names of addresses and symbols, from the ELF files, while they are still there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use transect_binary_info::{Object, demangle, unnamed_function};

use crate::extent;

/// Objects opened so far, by path and build-id.
#[derive(Default)]
pub struct Names {
    objects: HashMap<(PathBuf, String), Option<Rc<Object>>>,
    demangled: HashMap<String, Rc<str>>,
    /// Addresses and symbols without a name so far.
    pub unresolved: i64,
}

impl Names {
    fn open(&mut self, object: &extent::Object) -> Option<Rc<Object>> {
        let key = (object.file.clone(), object.build_id.clone());
        self.objects
            .entry(key)
            .or_insert_with(|| {
                let file = Object::open(&object.file).ok()?;
                // A file replaced since it was loaded would give wrong names: better none.
                let mut found = file.build_id().unwrap_or_default();
                // Agents know the first 32 bytes.
                found.truncate(64);
                let same = found == object.build_id;
                same.then(|| Rc::new(file))
            })
            .clone()
    }

    /// Raw name and version of a dynamic symbol.
    pub fn dynamic(&mut self, object: &extent::Object, index: u32) -> (String, String) {
        let found =
            self.open(object).and_then(|o| o.dynamic_symbol(index).map(|s| (s.name.to_owned(), s.version.to_owned())));
        found.unwrap_or_else(|| {
            self.unresolved += 1;
            (format!("symbol#{index}"), String::new())
        })
    }

    /// Demangled name.
    pub fn demangle(&mut self, raw: &str) -> String {
        if let Some(known) = self.demangled.get(raw) {
            return known.to_string();
        }
        let name = demangle(raw);
        self.demangled.insert(raw.to_owned(), name.as_str().into());
        name
    }

    /// Demangled name of the function or variable at an address of an object.
    pub fn at(&mut self, object: &extent::Object, address: u64) -> Option<String> {
        let file = self.open(object)?;
        let raw = file.symbol_at(address.wrapping_sub(object.base))?.name.to_owned();
        Some(self.demangle(&raw))
    }

    /// Raw name of the function at an address of an object.
    pub fn symbol_at(&mut self, object: &extent::Object, address: u64) -> String {
        let vaddr = address.wrapping_sub(object.base);
        let found = self.open(object).and_then(|file| file.symbol_at(vaddr).map(|s| s.name.to_owned()));
        found.unwrap_or_else(|| {
            self.unresolved += 1;
            unnamed_function(vaddr)
        })
    }

    /// True if the object defines a dynamic symbol of this name.
    pub fn defines(&mut self, object: &extent::Object, name: &str) -> bool {
        self.open(object).is_some_and(|file| file.defines(name))
    }
}
