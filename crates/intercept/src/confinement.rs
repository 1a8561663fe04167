//! Whether the program has asked for a filter of its system calls: it may be ended for one that it does not know, so from then on
//! the agent makes none. Objects that are loaded later are left alone, programs that are started run without the agent.

use core::sync::atomic::{AtomicU32, Ordering};

static CONFINED: AtomicU32 = AtomicU32::new(0);

/// The program is about to ask.
pub fn confine() {
    CONFINED.store(1, Ordering::Relaxed);
}

/// Whether it has.
pub fn confined() -> bool {
    CONFINED.load(Ordering::Relaxed) != 0
}
