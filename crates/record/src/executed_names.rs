//! Programs by the names that they were executed by: one file may have several (`redis-server` is a link to `redis-check-rdb`), and
//! the kernel tells of a running program the file's own.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::Profile;

/// The kernel keeps so many bytes of a name.
const NAME: usize = 15;

/// Gives each program whose processes were all executed by one other name of its file that name.
pub fn apply(profile: &mut Profile) {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).filter(|folder| folder.is_absolute()).collect();
    let names = first_threads(profile);
    let mut programs: BTreeMap<&str, Vec<Option<PathBuf>>> = BTreeMap::new();
    for (process, name) in profile.processes.iter().zip(&names) {
        let file = Path::new(&process.executable);
        let other = name.and_then(|name| other_name(file, name, &folders));
        programs.entry(&process.executable).or_default().push(other);
    }
    let one = |(file, names): (&str, Vec<Option<PathBuf>>)| {
        let first = names.first()?.as_ref()?;
        let is_one = names.iter().all(|name| name.as_ref() == Some(first));
        is_one.then(|| Some((file.to_owned(), first.to_str()?.to_owned())))?
    };
    let renamed: HashMap<String, String> = programs.into_iter().filter_map(one).collect();
    for process in &mut profile.processes {
        process.executable =
            renamed.get(&process.executable).cloned().unwrap_or(std::mem::take(&mut process.executable));
    }
    for component in &mut profile.components {
        component.path = renamed.get(&component.path).cloned().unwrap_or(std::mem::take(&mut component.path));
    }
}

/// Of each process the name of its first thread: a program's is that by which it was executed, unless it gave itself another.
fn first_threads(profile: &Profile) -> Vec<Option<&str>> {
    let threads = profile.threads.iter().map(|thread| (thread.process, thread.tid, thread.name.as_str()));
    let tasks = profile.sched.tasks.iter().map(|task| (task.process, task.tid, task.name.as_str()));
    let mut names = vec![None; profile.processes.len()];
    for (process, tid, name) in threads.chain(tasks) {
        let id = process as usize;
        if profile.processes.get(id).is_some_and(|process| process.pid == tid) && !name.is_empty() {
            names[id] = Some(name);
        }
    }
    names
}

/// Another name of `file`, beside it or where programs are looked for, that is `name`. `python3` says less than `python3.11`, and is
/// none.
fn other_name(file: &Path, name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let own = file.file_name()?.to_str()?;
    if own.starts_with(name) || name.contains('/') || [".", ".."].contains(&name) {
        return None;
    }
    let identity =
        |path: &Path| path.metadata().ok().filter(|found| found.is_file()).map(|found| (found.dev(), found.ino()));
    let same = identity(file)?;
    let beside = file.parent().filter(|folder| folder.is_absolute())?;
    let mut candidates: Vec<PathBuf> =
        std::iter::once(beside).chain(folders.iter().map(PathBuf::as_path)).map(|folder| folder.join(name)).collect();
    if name.len() >= NAME {
        // Only its beginning is known.
        let begins =
            |path: &PathBuf| path.file_name().is_some_and(|own| own.as_encoded_bytes().starts_with(name.as_bytes()));
        let entries = beside.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let mut longer: Vec<PathBuf> = entries.filter(begins).collect();
        longer.sort();
        candidates.extend(longer);
    }
    candidates.into_iter().find(|path| identity(path) == Some(same))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn named(folder: &Path, name: &str) -> Option<String> {
        let found = other_name(&folder.join("check-rdb"), name, &[])?;
        Some(found.file_name()?.to_str()?.to_owned())
    }

    #[test]
    fn links_of_either_kind_are_names_of_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("check-rdb"), "program").unwrap();
        fs::write(at("other"), "program").unwrap();
        std::os::unix::fs::symlink("check-rdb", at("server")).unwrap();
        fs::hard_link(at("check-rdb"), at("sentinel")).unwrap();
        fs::hard_link(at("check-rdb"), at("a-name-of-more-than-fifteen-bytes")).unwrap();
        std::os::unix::fs::symlink("check-rdb", at("check")).unwrap();
        let name = |name| named(folder.path(), name);
        assert_eq!(name("server").as_deref(), Some("server"));
        assert_eq!(name("sentinel").as_deref(), Some("sentinel"));
        assert_eq!(name("a-name-of-more-").as_deref(), Some("a-name-of-more-than-fifteen-bytes"));
        assert_eq!(name("other"), None, "another file");
        assert_eq!(name("check"), None, "the beginning of its own name");
        assert_eq!(name("worker: idle"), None, "it named itself");
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(at("check-rdb"), elsewhere.path().join("agent")).unwrap();
        assert_eq!(
            other_name(&at("check-rdb"), "agent", &[elsewhere.path().to_owned()]),
            Some(elsewhere.path().join("agent"))
        );
    }
}
