//! Samples of a program that the flow agent can't enter.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::UserSamples;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::launch::{shell_status, spawn_plain};
use crate::sched::empty_profile;
use crate::signals::Signals;
use crate::{Recorded, feature};

/// How often it is looked for signals to pass on.
const STEP: Duration = Duration::from_millis(20);

/// Runs the command to its end and returns what samples tell of it. Rows that are too many for memory are put aside in files
/// in `folder`.
///
/// # Errors
/// If this user may not sample, or the program can't be started.
pub fn record(command: &[OsString], folder: &Path) -> Result<Recorded, RecordError> {
    let signals = Signals::watch()?;
    let clock = Clock::start();
    let mut samples = None;
    let child = spawn_plain(command, &mut |pid| {
        samples = Some(UserSamples::start(pid, clock.started_monotonic_ns(), folder)?);
        Ok(())
    })?;
    let samples = samples.ok_or(RecordError::Ended)?;
    samples.begin();
    let pid = child.id().cast_signed();
    while !feature::task_list::is_over(pid) {
        for signal in signals.to_forward() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        std::thread::sleep(STEP);
    }
    let exit_status = shell_status(child.wait().map_err(RecordError::system("wait for the program"))?);
    let wall_ns = clock.elapsed_ns();
    let collected = samples.finish()?;
    let words = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut profile = empty_profile(&clock, words, wall_ns, Some(exit_status));
    let timeline = collected.merge_into(&mut profile);
    Ok(Recorded { profile, exit_status, timeline: Some(timeline) })
}
