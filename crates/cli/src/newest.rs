//! The profile that a command without one means: the newest in the current folder, as with perf.data.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use transect_profile_store::META_FILE;

use crate::failure::Failure;
use crate::output;

/// The folder that was named, else the newest `*.transect` here, whose name goes to standard error.
///
/// # Errors
/// [`Failure::Usage`] if there is none.
pub fn profile(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let newest = newest(Path::new(".")).ok_or_else(|| {
        Failure::Usage("there is no profile in this folder (NAME.transect); name one: transect report DIR".to_owned())
    })?;
    output::say(&format!("the newest profile here: {}", newest.display()));
    Ok(newest)
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let profiles =
        entries.filter(|entry| Path::new(&entry.file_name()).extension().is_some_and(|end| end == "transect"));
    let written = |path: &Path| -> Option<SystemTime> { path.join(META_FILE).metadata().ok()?.modified().ok() };
    let dated = profiles.filter_map(|entry| Some((written(&entry.path())?, entry.file_name())));
    dated.max().map(|(_, name)| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_profile_that_was_written_last_is_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()), None);
        for (name, age) in [("a.transect", 5), ("b.transect", 1), ("c.transect", 9), ("d.other", 0)] {
            let profile = folder.path().join(name);
            fs::create_dir(&profile).unwrap();
            let meta = fs::File::create(profile.join(META_FILE)).unwrap();
            meta.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        // One that is being written.
        fs::create_dir(folder.path().join("e.transect")).unwrap();
        assert_eq!(newest(folder.path()), Some(PathBuf::from("b.transect")));
    }
}
