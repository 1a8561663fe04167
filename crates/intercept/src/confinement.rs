//! Whether the program has asked for a filter of its system calls: it may be ended for one that it does not know, so from then on
//! the agent makes none. Objects that are loaded later are left alone, programs that are started run without the agent.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::{arena, extent_map};

static CONFINED: AtomicU32 = AtomicU32::new(0);

/// The program is about to ask.
pub fn confine() {
    // Threads to come need extents, too.
    if CONFINED.swap(1, Ordering::Relaxed) == 0 && !extent_map::map_all() {
        arena::keep_spares();
    }
}

/// Whether it has.
pub fn confined() -> bool {
    CONFINED.load(Ordering::Relaxed) != 0
}
