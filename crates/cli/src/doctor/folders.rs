//! Folders that recording writes to or reads from.

use std::fs;
use std::path::Path;

use transect_binary_info::PlanCache;

use super::{Check, Status};

pub fn checks() -> Vec<Check> {
    vec![proc(), cache(), temporary(), here()]
}

fn proc() -> Check {
    let meaning = "The recorder reads from /proc which objects and threads a process has.";
    let check = Check::ok("/proc", "mounted", meaning).required();
    match fs::read_to_string("/proc/self/maps") {
        Ok(_) => check,
        Err(error) => Check { finding: format!("/proc/self/maps: {error}"), ..check }
            .with(Status::Missing, Some("sudo mount -t proc proc /proc")),
    }
}

fn cache() -> Check {
    let meaning = "Linkage plans and unwind rules are kept there, so that a program's second recording starts faster.";
    let limited = |why: String| {
        Check::ok("cache", why, meaning).with(Status::Limited, Some("export XDG_CACHE_HOME=$(mktemp -d)"))
    };
    match PlanCache::open_default() {
        Ok(cache) => Check::ok("cache", cache.folder().display().to_string(), meaning),
        Err(error) => limited(error.to_string()),
    }
}

fn temporary() -> Check {
    let folder = std::env::temp_dir();
    let meaning = "The agent finds its configuration in a folder there while a program runs.";
    match writable(&folder) {
        Ok(()) => Check::ok("temporary files", folder.display().to_string(), meaning).required(),
        Err(error) => Check::ok("temporary files", error, meaning)
            .required()
            .with(Status::Missing, Some("export TMPDIR=$HOME/tmp")),
    }
}

fn here() -> Check {
    let meaning = "Without -o, a profile is written into the current folder.";
    match writable(Path::new(".")) {
        Ok(()) => Check::ok("current folder", "writable", meaning),
        Err(error) => Check::ok("current folder", error, meaning)
            .with(Status::Limited, Some("transect record -o ~/profile.transect -- COMMAND")),
    }
}

fn writable(folder: &Path) -> Result<(), String> {
    tempfile::tempfile_in(folder).map(|_| ()).map_err(|error| format!("{}: {error}", folder.display()))
}
