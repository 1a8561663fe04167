//! Where a recording's profile goes.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// A profile folder that can be written. A profile that stood there is kept aside; it comes back if none takes its place.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    aside: Option<PathBuf>,
    quiet: bool,
}

impl Place {
    /// Makes sure of it before the program runs, and says what became of a profile that stood there.
    pub fn prepare(folder: PathBuf, quiet: bool) -> Result<Self, Failure> {
        transect_record::clear_leftovers();
        // It makes a folder and removes it.
        transect_record::hold_back(|| transect_profile_store::check_writable(&folder)).map_err(Failure::Keep)?;
        // Once what a link leads to is kept aside, it leads nowhere.
        let is_link = std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink());
        let resolved = is_link.then(|| std::fs::canonicalize(&folder).ok()).flatten();
        let folder = resolved.unwrap_or(folder);
        let aside = transect_profile_store::keep_aside(&folder).map_err(Failure::Keep)?;
        if let Some(aside) = aside.as_ref().filter(|_| !quiet) {
            output::say(&format!("the profile that was at {} is kept as {}", folder.display(), aside.display()));
        }
        Ok(Self { folder, aside, quiet })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside
            && !self.folder.exists()
            && std::fs::rename(aside, &self.folder).is_ok()
            && !self.quiet
        {
            output::say(&format!("nothing takes its place: the profile is at {} again", self.folder.display()));
        }
    }
}
