//! Lines of source files, read by whoever may read files.

use std::collections::{HashMap, HashSet};

/// Source files by the names that debug information gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    files: HashMap<String, Vec<String>>,
    changed: HashSet<String>,
}

impl Sources {
    /// The text of a file; `changed`: since the program was recorded.
    pub fn insert(&mut self, name: &str, text: &str, changed: bool) {
        self.changed.extend(changed.then(|| name.to_owned()));
        self.files.insert(name.to_owned(), text.lines().map(str::to_owned).collect());
    }

    /// Whether a file is another one than the program was built from.
    pub fn is_changed(&self, name: &str) -> bool {
        self.changed.contains(name)
    }

    /// Lines of a file; `None` if it was not found.
    pub fn lines(&self, name: &str) -> Option<&[String]> {
        self.files.get(name).map(Vec::as_slice)
    }
}
