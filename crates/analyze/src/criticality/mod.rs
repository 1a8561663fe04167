//! Which code runs while the others wait.

mod rows;

use transect_profile_model::Profile;

pub use rows::*;

use crate::Selection;

/// The criticality view; `None` without the scheduler collector.
pub fn criticality(profile: &Profile, _selection: &Selection) -> Option<CriticalityView> {
    let session = profile.meta.criticality.as_ref()?;
    Some(CriticalityView {
        estimate: session.estimate,
        per_process: session.per_process,
        cpus: session.cpus,
        busy_ns: session.busy_ns,
        idle_ns: session.idle_ns,
        elapsed_ns: session.busy_ns.saturating_add(session.idle_ns),
        start_ns: session.start_ns,
        end_ns: session.end_ns,
        unattributed_ns: session.unattributed_ns,
        drift: session.drift,
        slices: session.slices,
        critical_slices: session.critical_slices,
        ..CriticalityView::default()
    })
}
