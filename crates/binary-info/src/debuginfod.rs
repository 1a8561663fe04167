//! Debug files of debuginfod's client (elfutils, `debuginfod-find(1)`): those that it keeps, and those that it fetches from the
//! servers in `DEBUGINFOD_URLS`.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Object, debug_file};

/// What a recording waits for servers in all, ms: who looks at its report wants it soon.
const LONGEST_MS: u64 = 10_000;
/// How often the client is asked whether it is done.
const STEP: Duration = Duration::from_millis(5);

/// What was waited for servers.
static SPENT_MS: AtomicU64 = AtomicU64::new(0);

/// Where the client keeps the debug file of a build-id.
pub(crate) fn kept(id: &str) -> Option<PathBuf> {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache =
        || Some(given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")))?.join("debuginfod_client"));
    Some(given("DEBUGINFOD_CACHE_PATH").or_else(cache)?.join(id).join("debuginfo"))
}

/// What became of a wish for a debug file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// No server is named in `DEBUGINFOD_URLS`.
    NoServer,
    /// `debuginfod-find` can't be started.
    NoClient,
    /// It was not had in time, or no server has it.
    NotFound,
    /// It is among those that the client keeps.
    Kept,
}

/// Has `debuginfod-find` fetch the debug file with a build-id. It is waited for as long as the client takes
/// (`DEBUGINFOD_TIMEOUT`), or for `longest`.
pub fn fetch_debug_file(build_id: &str, longest: Option<Duration>) -> Fetched {
    if env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        return Fetched::NoServer;
    }
    let began = Instant::now();
    let client = Command::new("debuginfod-find")
        .args(["debuginfo", build_id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut client) = client else { return Fetched::NoClient };
    loop {
        match client.try_wait() {
            Ok(None) if longest.is_some_and(|longest| began.elapsed() >= longest) => {
                let _ = client.kill();
                let _ = client.wait();
                return Fetched::NotFound;
            }
            Ok(None) => thread::sleep(STEP),
            Ok(Some(status)) if status.success() => return Fetched::Kept,
            _ => return Fetched::NotFound,
        }
    }
}

impl Object {
    /// Has the debug file of a stripped object fetched, so that it is found from now on. Does nothing without `DEBUGINFOD_URLS` or
    /// `debuginfod-find`, nor once servers were waited for for ten seconds.
    pub fn fetch_debug_file(&self) {
        if env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
            return;
        }
        let described = self.section_list().iter().any(|section| section.name == ".debug_info");
        let Some(id) = self.build_id().filter(|_| !described && debug_file::separate(self).is_none()) else { return };
        let left = LONGEST_MS.saturating_sub(SPENT_MS.load(Ordering::Relaxed));
        if left == 0 {
            return;
        }
        let began = Instant::now();
        fetch_debug_file(&id, Some(Duration::from_millis(left)));
        SPENT_MS.fetch_add(began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}
