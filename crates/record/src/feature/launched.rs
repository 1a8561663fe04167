//! A program that is launched to be recorded by probes.

use std::collections::HashSet;

use transect_attach::Target;
use transect_feature_region::RegionTable;

use crate::probe_session::load;

/// Ends the wait of a launch by this thread: that is for SIGCHLD, which it has blocked.
pub(super) fn waker_of_launch() -> impl Fn() + Send + 'static {
    let controller = nix::sys::pthread::pthread_self();
    move || {
        // It has ended, and waits for nothing.
        let _ = nix::sys::pthread::pthread_kill(controller, nix::sys::signal::Signal::SIGCHLD);
    }
}

/// Whether any object that a process has mapped has regions.
pub(super) fn has_regions(target: &Target) -> bool {
    let Ok(mappings) = target.mappings() else { return false };
    let (objects, _) = load(target.task(), &mappings, &mut HashSet::new());
    objects.iter().any(|loaded| RegionTable::of(&loaded.object).is_ok())
}
