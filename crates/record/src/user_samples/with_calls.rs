//! Samples beside a recording of calls, or an estimate from the calls where they can't be had.

use std::path::Path;

use transect_profile_model::{Loss, LossKind, Profile};

use super::UserSamples;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::sched::Timeline;
use crate::sched_estimate::estimate;

/// See above.
pub(crate) struct SamplesWithCalls<'a> {
    folder: &'a Path,
    clock: &'a Clock,
    started: Option<Result<UserSamples, RecordError>>,
}

impl<'a> SamplesWithCalls<'a> {
    /// Nothing runs yet.
    pub fn of(folder: &'a Path, clock: &'a Clock) -> Self {
        Self { folder, clock, started: None }
    }

    /// Of a process that is held.
    pub fn start(&mut self, pid: i32) {
        self.started = Some(UserSamples::start(pid, self.clock.started_monotonic_ns(), self.folder));
    }

    /// The process has become the program.
    pub fn begin(&self) {
        if let Some(Ok(samples)) = &self.started {
            samples.begin();
        }
    }

    /// What was seen goes into the profile of the calls.
    ///
    /// # Errors
    /// If it can't be read again.
    pub fn finish(self, profile: &mut Profile) -> Option<Timeline> {
        let refused = match self.started {
            Some(Ok(samples)) => match samples.finish() {
                Ok(collected) => {
                    let seen = collected.session.busy_ns + collected.session.idle_ns;
                    if !collected.tables.stacks.is_empty() && seen > profile.meta.wall_ns / 2 {
                        return Some(collected.merge_into(profile));
                    }
                    "the program was over too soon, or does not let itself be looked at".to_owned()
                }
                Err(error) => error.to_string(),
            },
            Some(Err(error)) => error.to_string(),
            None => "the program was started by who switches its regions on".to_owned(),
        };
        estimate(profile);
        profile.loss.push(Loss {
            what: LossKind::TruncatedStacks,
            place: "samples".to_owned(),
            count: 1,
            reason: format!("no call paths: {refused}"),
        });
        None
    }
}
