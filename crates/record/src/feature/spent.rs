//! What an event costs the program.

use transect_profile_model::RegionMethod;

/// What a probe's event costs, beside an event alone in a loop: the way through the trampoline, and lines of the cache that the
/// program's own work has taken. In real programs it is 15 to 36 ns where that alone is 8.
pub(super) const DETOUR: f64 = 2.5;

/// One event, ns, by what an event alone in a loop takes.
pub(super) fn event_ns(method: RegionMethod, alone: f64) -> f64 {
    if method == RegionMethod::Probe { alone * DETOUR } else { alone }
}
