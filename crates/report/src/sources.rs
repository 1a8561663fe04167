//! Lines of source files, read by whoever may read files.

use std::collections::HashMap;

/// Source files by the names that debug information gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    /// The text of a file.
    pub fn insert(&mut self, name: &str, text: &str) {
        self.files.insert(name.to_owned(), text.lines().map(str::to_owned).collect());
    }

    /// Lines of a file; `None` if it was not found.
    pub fn lines(&self, name: &str) -> Option<&[String]> {
        self.files.get(name).map(Vec::as_slice)
    }
}
