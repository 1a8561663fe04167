//! Features of running processes beside the scheduler's events.

use transect_profile_model::{Profile, RegionMethod};

use super::running::RunningProcesses;
use super::session::check_selection;
use super::settings::FeatureSettings;
use super::with_flows::FeatureRows;
use crate::RecordError;
use crate::attached_collector::{AttachedCollector, AttachedOutcome, FEATURE};
use crate::clock::Clock;
use crate::lead::Lead;

/// Records the regions of running processes until it is told that it is enough; times count from the start of `clock`.
///
/// # Errors
/// If none has regions, or no thread can be had; or a tracer is needed and the processes will have another (`traced`).
pub(crate) fn start(settings: FeatureSettings, clock: Clock, traced: bool) -> Result<AttachedCollector, RecordError> {
    check_selection(&settings)?;
    let running = RunningProcesses::of(&settings)?;
    if traced && running.method == RegionMethod::Probe {
        return Err(RecordError::ProbesBesideLatency);
    }
    AttachedCollector::start(FEATURE, move |orders| {
        let outcome = running.attach(&settings, &Lead::beside(orders, clock))?;
        Ok(AttachedOutcome { profile: outcome.profile, left_behind: Vec::new() })
    })
}

/// Puts the features into the profile of the same run.
pub(crate) fn merge(into: &mut Profile, features: Profile) {
    FeatureRows::alone(features).merge_into(into, &[]);
}
