//! A file that says which regions are to be observed, and is looked at all through the recording.
//!
//! One line each: `feature NAME` or `region N`; lines that begin with `#` are left out. No line: all regions.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use transect_profile_model::Dependence;

use super::choice::Choice;
use crate::RecordError;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The file.
#[derive(Debug)]
pub struct Selection {
    path: PathBuf,
    dependence: Dependence,
    text: Option<String>,
    looked: Instant,
}

impl Selection {
    /// To be looked at.
    pub fn new(path: PathBuf, dependence: Dependence) -> Self {
        let long_ago = Instant::now().checked_sub(LOOK_EVERY).unwrap_or_else(Instant::now);
        Self { path, dependence, text: None, looked: long_ago }
    }

    /// What it says now, if that is something else than before; an error if a line can't be read, or the file.
    pub fn changed(&mut self) -> Option<Result<Choice, String>> {
        if self.looked.elapsed() < LOOK_EVERY {
            return None;
        }
        self.looked = Instant::now();
        let text = match transect_binary_info::read_plain(&self.path) {
            Ok(text) => text,
            Err(error) => return self.text.is_none().then(|| Err(error.to_string())),
        };
        if self.text.as_ref() == Some(&text) {
            return None;
        }
        let read = read(&text).map(|choice| choice.at(self.dependence));
        self.text = Some(text);
        Some(read)
    }

    /// What it says at first.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn first(&mut self) -> Result<Choice, RecordError> {
        let changed = self.changed().unwrap_or_else(|| Ok(Choice::default().at(self.dependence)));
        changed.map_err(|reason| RecordError::Selection { path: self.name(), reason })
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn read(text: &str) -> Result<Choice, String> {
    let (mut features, mut regions) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(word), ..) if word.starts_with('#') => {}
            (Some("feature"), Some(name), None) => features.push(name.to_owned()),
            (Some("region"), Some(region), None) if region.parse::<u32>().is_ok() => {
                regions.extend(region.parse::<u32>());
            }
            _ => return Err(format!("line {number} is neither `feature NAME` nor `region N`: {line}")),
        }
    }
    Ok(Choice::new(features, regions))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_features_and_regions() {
        let choice = read("# of interest\nfeature A\n\nregion 3\n  region 4 \n").unwrap();
        assert_eq!(choice, Choice::new(vec!["A".to_owned()], vec![3, 4]));
        assert_eq!(read("").unwrap(), Choice::new(Vec::new(), Vec::new()));
        let error = read("feature A\nregion x\n").unwrap_err();
        assert!(error.starts_with("line 2 "), "{error}");
    }

    #[test]
    fn it_is_told_once_that_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("selection");
        let mut selection = Selection::new(path.clone(), Dependence::default());
        let mut look = || {
            selection.looked = Instant::now().checked_sub(2 * LOOK_EVERY).unwrap();
            selection.changed()
        };
        assert!(look().is_some_and(|read| read.is_err()));
        fs::write(&path, "region 1\n").unwrap();
        assert_eq!(look(), Some(Ok(Choice::new(Vec::new(), vec![1]))));
        assert_eq!(look(), None);
        // Between being emptied and written anew by an editor it is not there for a moment.
        fs::remove_file(&path).unwrap();
        assert_eq!(look(), None);
    }
}
