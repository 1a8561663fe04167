//! What several test processes use and one of them makes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Runs `make` unless what it made, of which `stamp` tells, is younger than all files of `sources` (folders: those in
/// them). One process at a time; the others wait. What `make` makes must be named by all else that it depends on.
///
/// # Panics
/// If `make` does, or the stamp can't be written.
pub fn made_once(stamp: &Path, sources: &[&Path], make: impl FnOnce()) {
    let lock = File::create(stamp.with_extension("lock")).expect("the folder of what is made can be written to");
    lock.lock().expect("locks work where tests are built");
    let made = fs::metadata(stamp).and_then(|stamp| stamp.modified()).ok();
    let changed = sources.iter().filter_map(|source| youngest(source)).max();
    if made.is_none() || made <= changed {
        let _ = fs::remove_file(stamp);
        make();
        File::create(stamp).expect("the stamp can be written");
    }
}

fn youngest(source: &Path) -> Option<SystemTime> {
    let own = fs::metadata(source).and_then(|source| source.modified()).ok();
    let inside: Vec<PathBuf> = fs::read_dir(source).into_iter().flatten().flatten().map(|file| file.path()).collect();
    inside.iter().map(|file| youngest(file)).chain([own]).max().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_again_only_after_a_change() {
        let folder = std::env::temp_dir().join(format!("transect-made-{}", std::process::id()));
        let (source, stamp) = (folder.join("source"), folder.join("stamp"));
        fs::create_dir_all(&folder).unwrap();
        let changed_at = |time: SystemTime| File::create(&source).unwrap().set_modified(time).unwrap();
        let second = std::time::Duration::from_secs(1);
        changed_at(SystemTime::now() - second);
        let mut times = 0;
        let mut make = || made_once(&stamp, &[&source], || times += 1);
        make();
        make();
        changed_at(SystemTime::now() + second);
        make();
        assert_eq!(times, 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
