//! Features of a running process beside its scheduler's events.

use transect_profile_model::{Profile, RegionMethod};

use super::session::{Lead, attach, check_selection, method_of_running};
use super::settings::{FeatureSettings, FeatureTarget};
use super::with_flows::FeatureRows;
use crate::RecordError;
use crate::attached_collector::AttachedCollector;
use crate::clock::Clock;
use crate::signals::Signals;

/// Records the regions of a running process until it is told that it is enough; times count from the start of `clock`.
///
/// # Errors
/// If it has no regions, or no thread can be had; or a tracer is needed and the process will have another (`traced`).
pub(crate) fn start(
    mut settings: FeatureSettings,
    pid: i32,
    clock: Clock,
    traced: bool,
) -> Result<AttachedCollector<Profile>, RecordError> {
    check_selection(&settings)?;
    settings.target = FeatureTarget::Attach { pid, duration: None };
    let method = method_of_running(&settings, pid)?;
    if traced && method == RegionMethod::Probe {
        return Err(RecordError::ProbesBesideLatency);
    }
    AttachedCollector::start("feature", move |enough, begun| {
        let begin = || {
            // Whoever waits may have given up.
            let _ = begun.send(());
        };
        let outcome = attach(&settings, method, &Lead { signals: &Signals::led(enough), clock, beside: Some(&begin) })?;
        Ok(outcome.profile)
    })
}

/// Puts the features into the profile of the same run.
pub(crate) fn merge(into: &mut Profile, features: Profile) {
    FeatureRows::alone(features).merge_into(into, &[]);
}
