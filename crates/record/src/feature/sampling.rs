//! Time per region by samples of call stacks: nothing in the program changes, and no event is written.
//!
//! ```text
//! stacks  → kernel_stacks   the scheduler's collector: samples and waits with stacks, exact times of each thread
//!         or own_samples    without privileges: samples of user code and times on a CPU (user_samples)
//!         → translation     frames → objects → open regions of each frame → one stack of regions
//!         → estimate        shares of the thread's exact time, with 95 % intervals
//! ```
//!
//! Beside events (beside) samples tell of regions that have no sites, or whose sites were too hot.

mod estimate;
mod gathered;
mod kernel_stacks;
mod own_samples;
mod supplementary;
mod tables;
mod translation;

pub use estimate::{DEVIATIONS, row};
pub use gathered::StackSamples;
pub use supplementary::{SeenSupplementary, SupplementarySamples, SupplementaryTimes};
use transect_bpf_collect::privilege::Privileges;

use super::settings::{FeatureOutcome, FeatureSettings, FeatureTarget};
use crate::RecordError;
use crate::lead::Lead;

/// Records a program by samples, or running processes, if `pids` names some.
///
/// # Errors
/// If the kernel gives no stacks, the program can't be launched, or nothing that it loads has regions.
pub(super) fn record(settings: &FeatureSettings, pids: &[i32], lead: &Lead<'_>) -> Result<FeatureOutcome, RecordError> {
    let recorded = match privileges() {
        Ok(()) => kernel_stacks::record(settings, pids, lead)?,
        Err(why) => own_samples::record(settings, pids, lead, &why)?,
    };
    if recorded.objects.tables.is_empty() {
        return Err(RecordError::NoRegions { program: program_of(settings) });
    }
    let status = recorded.status;
    Ok(FeatureOutcome { profile: tables::profile(&lead.clock, recorded), status })
}

/// Why the scheduler can't be followed, if so.
fn privileges() -> Result<(), String> {
    let privileges = Privileges::of_this_thread().map_err(|why| why.to_string())?;
    privileges.verdict().map_err(|why| why.to_string())
}

fn program_of(settings: &FeatureSettings) -> String {
    match &settings.target {
        FeatureTarget::Launch { command, .. } => {
            command.first().map_or_else(String::new, |program| program.to_string_lossy().into_owned())
        }
        FeatureTarget::Attach { pids, .. } => {
            pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(", ")
        }
    }
}
