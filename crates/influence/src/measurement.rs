use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// Wall time of the process, ns.
    pub wall_ns: f64,
    /// Thread time by active set of features (names, ascending), ns; empty if regions were not recorded.
    pub sets: BTreeMap<Vec<String>, f64>,
}

/// Why one run gives no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

/// Runs the program once.
pub trait Measure {
    /// Runs `command` and says what it took.
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError>;
}

/// Measures by the wall clock alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WallClock(pub QuietRun);

impl Measure for WallClock {
    fn measure(&mut self, command: &[String]) -> Result<Measurement, RunError> {
        let wall_ns = self.0.run(command)?.as_nanos() as f64;
        Ok(Measurement { wall_ns, sets: BTreeMap::new() })
    }
}

/// How commands are run: their output is thrown away, and the end of what they wrote to standard error is part of the
/// message if they fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuietRun {
    /// Exit statuses that are no failure.
    pub success: Vec<i32>,
    /// What each run reads from its standard input, from the beginning; `None`: nothing.
    pub input: Option<PathBuf>,
}

impl QuietRun {
    /// Runs a command to its end and gives its wall time.
    ///
    /// # Errors
    /// If it can't be run, or does not end with a status of `success`.
    pub fn run(&self, command: &[String]) -> Result<Duration, RunError> {
        let [program, arguments @ ..] = command else { return Err(RunError("the command is empty".into())) };
        let errors = error_file();
        let stderr = match errors.as_ref().map(File::try_clone) {
            Some(Ok(file)) => Stdio::from(file),
            _ => Stdio::null(),
        };
        let stdin = match &self.input {
            None => Stdio::null(),
            Some(path) => {
                let unreadable = |error| RunError(format!("{} can't be read: {error}", path.display()));
                File::open(path).map(Stdio::from).map_err(unreadable)?
            }
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(stdin).stdout(Stdio::null()).stderr(stderr);
        let started = Instant::now();
        let status = command.status().map_err(|error| RunError(format!("{program} can't be run: {error}")))?;
        let wall = started.elapsed();
        succeeded(status, &self.success, errors)?;
        Ok(wall)
    }
}

/// A file without a name.
fn error_file() -> Option<File> {
    let path = std::env::temp_dir().join(format!("transect-influence-{}.stderr", std::process::id()));
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).ok()?;
    std::fs::remove_file(&path).ok()?;
    Some(file)
}

/// Nothing if the status is no failure, else what happened with the last line of the errors.
fn succeeded(status: ExitStatus, success: &[i32], errors: Option<File>) -> Result<(), RunError> {
    if status.code().is_some_and(|code| success.contains(&code)) {
        return Ok(());
    }
    let mut text = Vec::new();
    if let Some(mut file) = errors {
        // What can't be read is left out of the message.
        let end = file.seek(SeekFrom::End(0)).unwrap_or(0);
        let _ = file.seek(SeekFrom::Start(end.saturating_sub(4096)));
        let _ = file.take(4096).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    let last: String = last.chars().filter(|character| !character.is_control()).take(200).collect();
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program ended with status {code}"),
        (None, Some(signal)) => format!("signal {signal} killed the program"),
        (None, None) => "the program failed".to_owned(),
    };
    Err(RunError(if last.is_empty() { how } else { format!("{how}: {last}") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn each_run_reads_its_input_from_the_beginning() {
        let path = std::env::temp_dir().join(format!("transect-influence-{}.input", std::process::id()));
        std::fs::write(&path, "level 9\n").unwrap();
        let mut run = QuietRun { success: vec![0], input: Some(path.clone()) };
        for _ in 0..2 {
            run.run(&shell("read a b; test $a$b = level9")).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        assert!(run.run(&shell("true")).unwrap_err().0.contains("can't be read"));
        run.input = None;
        run.run(&shell("! read a")).unwrap();
    }
}
