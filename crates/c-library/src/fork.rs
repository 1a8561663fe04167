//! Forks: the child has copies of counters, frames, and private trampolines; what is shared with the parent is given
//! anew before the child goes on.

use std::cell::UnsafeCell;
use std::sync::{Once, OnceLock};

use crate::registry::{self, Locked};

/// The lock, held by the forking thread from before the fork until after it, so that the child finds everything
/// consistent. (A thread-local would register a destructor, under the loader's lock.)
struct Held(UnsafeCell<Option<Locked>>);
// SAFETY: touched by the thread alone that holds the lock that it holds.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

fn take() -> Option<Locked> {
    // SAFETY: as above; the handlers run in the forking thread, one after the other.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn prepare() {
    let lock = registry::lock();
    // SAFETY: we hold the lock.
    unsafe { *HELD.0.get() = Some(lock) };
}

extern "C" fn parent() {
    drop(take());
}

extern "C" fn child() {
    if let Some(library) = take() {
        // Should memory be short, the child's own toggles are refused or meet its parent's code, but it runs.
        let _ = library.regions.after_fork();
        let _ = transect_text_patch::fork::after_fork();
        crate::toggle::gate::forked();
        if let Some(action) = ON_CHILD.get() {
            action();
        }
    }
}

static ON_CHILD: OnceLock<fn()> = OnceLock::new();

/// Has `action` run in children, under the lock.
pub fn on_child(action: fn()) {
    let _ = ON_CHILD.set(action);
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
