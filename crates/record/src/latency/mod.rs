//! Latency profiling: every function's durations by interval sampling, at a cost that the user sets ("Living on the
//! Edge: Rapid-Toggling Probes with Cross-Modification on x86", PLDI '16, section 6).

mod assemble;
mod bucket_scale;
mod concurrent;
mod cpu_time;
mod disturbance;
mod hot;
mod measured;
mod reading;
mod rotation;
mod session;
mod settings;
mod short_lived;
mod steer;
mod time_slices;
mod unseen;
mod visit;
mod wanted;
mod window;

pub use bucket_scale::BucketScale;
pub(crate) use concurrent::{ConcurrentLatency, attach, merge};
pub use settings::{DEFAULT_BUDGET, DEFAULT_EPOCH, LatencyOutcome, LatencySettings, LatencyTarget};
pub use time_slices::TimeSlices;
pub use wanted::Unmatched;

use transect_profile_model::Profile;

use crate::RecordError;

/// Measures the latency of functions.
///
/// A launched program keeps its standard streams; nothing is printed. `snapshot` takes the profile so far: see
/// [`LatencySettings::interval`], and when SIGUSR2 asks for it.
///
/// # Errors
/// As [`crate::record`] for programs that can't be started. For processes that can't be attached to, the reason and
/// what to do about it; the process is untouched then.
pub fn record(settings: &LatencySettings, snapshot: &mut dyn FnMut(&Profile)) -> Result<LatencyOutcome, RecordError> {
    session::run(settings, snapshot)
}
