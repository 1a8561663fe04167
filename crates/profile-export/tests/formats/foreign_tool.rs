//! Runs readers that this project did not write.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Standard output of `program args`, fed with `input`; `None`, after a line `NOT RUN: …` on standard error, if the
/// program cannot be had here. With `TRANSECT_REQUIRE_TOOLS=1` that is a failure.
///
/// # Panics
/// If the tool runs and refuses the input: that is what the tests are for.
pub fn read_with<S: AsRef<OsStr>>(program: &str, args: &[S], input: &[u8]) -> Option<String> {
    let started =
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            not_run(program, &error.to_string());
            return None;
        }
    };
    // A reader that quits early closes the pipe; its exit status tells.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("the child ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} refused the export: {}\n{errors}", output.status);
    Some(String::from_utf8(output.stdout).expect("tools print UTF-8"))
}

/// Says that a check was not made.
pub fn not_run(what: &str, why: &str) {
    // Past the test harness' capture: a skipped check must be seen also when everything passes.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {what}: {why}");
    let required = std::env::var_os("TRANSECT_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(!required, "{what} is required here: {why}");
}

/// Folder that holds `node_modules` with the npm package `name` at `version`, installed once under `target/`; `None`,
/// after a line `NOT RUN: …`, if npm or its registry cannot be had here.
pub fn npm_package(name: &str, version: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npm");
    if folder.join("node_modules").join(name).join("package.json").is_file() {
        return Some(folder);
    }
    let installed = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"])
        .args(["--fetch-timeout=20000", "--prefix"])
        .arg(&folder)
        .arg(format!("{name}@{version}"))
        .stdin(Stdio::null())
        .output();
    match installed {
        Ok(output) if output.status.success() => Some(folder),
        Ok(output) => {
            not_run(name, &format!("npm install: {}", String::from_utf8_lossy(&output.stderr).trim()));
            None
        }
        Err(error) => {
            not_run(name, &format!("npm: {error}"));
            None
        }
    }
}
