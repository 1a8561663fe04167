//! Forks: the child has copies of counters, frames, and private trampolines; what is shared with the parent is given
//! anew before the child goes on.

use std::cell::RefCell;
use std::sync::Once;

use crate::registry::{self, Locked};

thread_local! {
    /// The lock, held by the forking thread from before the fork until after it, so that the child finds everything
    /// consistent.
    static HELD: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

extern "C" fn prepare() {
    let lock = registry::lock();
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(lock));
}

extern "C" fn parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

extern "C" fn child() {
    let _ = HELD.try_with(|held| {
        if let Some(library) = held.borrow_mut().take() {
            // Should memory be short, the child's own toggles are refused or meet its parent's code, but it runs.
            let _ = library.regions.after_fork();
            let _ = transect_text_patch::fork::after_fork();
            crate::toggle::gate::forked();
        }
    });
}

/// Registers the handlers, once.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the functions stay where they are: the library is never unloaded (`-z nodelete`).
        unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}
