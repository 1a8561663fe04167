//! Processes that run already: which of them have regions, and how these are observed.

use std::path::PathBuf;

use transect_profile_model::{Loss, RegionMethod};

use super::session::suitable;
use super::settings::{FeatureOutcome, FeatureSettings, FeatureTarget};
use super::{probe_recording, sampling, usdt};
use crate::RecordError;
use crate::command_line;
use crate::lead::Lead;
use crate::session::left_out;

/// Those with regions, and how they are observed.
#[derive(Debug)]
pub(super) struct RunningProcesses {
    pids: Vec<i32>,
    /// One that sees the sites of all of them.
    pub method: RegionMethod,
    /// Why others are not recorded.
    loss: Vec<Loss>,
}

impl RunningProcesses {
    /// Looks at the programs that they run.
    ///
    /// # Errors
    /// If none has regions, or not those that are wanted.
    pub fn of(settings: &FeatureSettings) -> Result<Self, RecordError> {
        let FeatureTarget::Attach { pids, .. } = &settings.target else { return Err(RecordError::NoCommand) };
        let (mut with_regions, mut loss, mut methods, mut first_error) = (Vec::new(), Vec::new(), Vec::new(), None);
        for &pid in pids {
            match suitable(program_of(pid), settings, false) {
                Ok(method) => {
                    with_regions.push(pid);
                    methods.push(method);
                }
                Err(error) => {
                    loss.push(not_recorded(pid, &error));
                    first_error.get_or_insert(error);
                }
            }
        }
        if let (true, Some(error)) = (with_regions.is_empty(), first_error) {
            return Err(error);
        }
        // What sees more kinds of sites comes first. Sites of compiled-in events can only be switched on.
        let more = [RegionMethod::Sample, RegionMethod::Usdt];
        let method = more.into_iter().find(|method| methods.contains(method)).unwrap_or(RegionMethod::Probe);
        Ok(Self { pids: with_regions, method, loss })
    }

    /// Records them until they have ended, the time is up, or `lead` says that it is enough.
    ///
    /// # Errors
    /// If nothing can be recorded.
    pub fn attach(self, settings: &FeatureSettings, lead: &Lead<'_>) -> Result<FeatureOutcome, RecordError> {
        let mut outcome = match self.method {
            RegionMethod::Usdt => usdt::attach(settings, &self.pids, lead),
            RegionMethod::Sample => sampling::record(settings, &self.pids, lead),
            RegionMethod::Trace | RegionMethod::Probe => probe_recording::attach(settings, &self.pids, lead),
        }?;
        outcome.profile.loss.extend(self.loss);
        Ok(outcome)
    }
}

fn program_of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A process that others were recorded without.
pub(super) fn not_recorded(pid: i32, why: &RecordError) -> Loss {
    left_out(&format!("feature of process {pid}"), why)
}

/// Command lines of processes: the words of one, and of several a line each; their numbers where they have none.
pub(crate) fn commands(pids: &[i32]) -> Vec<String> {
    match pids {
        [only] => command_line::words(*only),
        several => several.iter().map(|&pid| command_line::words(pid).join(" ")).collect(),
    }
}
