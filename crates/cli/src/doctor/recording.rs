//! Whether a program can be recorded: by doing it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Check, Status};

/// Programs that every system has, of a few milliseconds.
const PROGRAMS: [&str; 3] = ["/bin/true", "/usr/bin/true", "/bin/ls"];

/// Records a small program in a process of its own, as a user would.
pub fn check() -> Check {
    let meaning = "The agent must lie beside the command, or in ../lib/transect, and be loadable.";
    let missing = |finding: String, fix: Option<&str>| {
        Check::ok("recording", finding, meaning).required().with(Status::Missing, fix)
    };
    let Some(program) = PROGRAMS.iter().map(PathBuf::from).find(|path| path.is_file()) else {
        return missing("no small program to try it with".to_owned(), None);
    };
    let trial = std::env::current_exe().and_then(|transect| {
        let folder = tempfile::tempdir()?;
        let output = Command::new(transect)
            .args(["record", "--quiet", "--timing", "count", "-o"])
            .arg(folder.path().join("trial.transect"))
            .arg("--")
            .arg(&program)
            .stdin(Stdio::null())
            .output()?;
        Ok((output, transect_profile_store::read(&folder.path().join("trial.transect"))))
    });
    let program = program.display();
    match trial {
        Err(error) => missing(format!("cannot try it: {error}"), None),
        Ok((output, _)) if output.status.code() != Some(0) => {
            let words = String::from_utf8_lossy(&output.stderr);
            let words = words.trim().trim_start_matches("transect: ").replace('\n', "; ");
            let words = if words.is_empty() { format!("{program} ended with {}", output.status) } else { words };
            let agent_missing = words.contains("agent");
            missing(
                words,
                agent_missing.then_some("make build (in the source tree), or make install PREFIX=/usr/local"),
            )
        }
        Ok((_, Err(error))) => missing(format!("{program} ran and left no profile: {error}"), None),
        Ok((_, Ok(profile))) => {
            let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
            if calls > 0 {
                Check::ok("recording", format!("{program}: {calls} calls between components"), meaning).required()
            } else {
                missing(format!("{program} ran and the agent saw no call; is LD_PRELOAD ignored here?"), None)
            }
        }
    }
}
