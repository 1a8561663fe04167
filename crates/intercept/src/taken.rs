//! Slots that hold function pointers which programs may compare.
//!
//! They are read long after their object was loaded, by threads that know nothing of it, so that another thread may be
//! unloading it: the loader says so before it unmaps anything, and waits here for those who read. Who wants to read
//! meanwhile waits for the loader. Neither waits for long: a reader may have left by longjmp out of a signal handler.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::arch::syscall as sys;

/// A slot's address, and the index of the object that it lies in plus one; 0 in free entries. Written under the
/// loader's lock only.
struct Entry {
    at: AtomicU64,
    owner: AtomicU32,
}

static ENTRIES: [Entry; 1 << 16] = [const { Entry { at: AtomicU64::new(0), owner: AtomicU32::new(0) } }; 1 << 16];
/// Entries that were ever used.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// No entry before this one is free.
static FIRST_FREE: AtomicU32 = AtomicU32::new(0);
static READERS: AtomicU32 = AtomicU32::new(0);
static UNLOADING: AtomicBool = AtomicBool::new(false);
/// How often each side lets others run before it goes on.
const PATIENCE: u32 = 1000;

fn used() -> &'static [Entry] {
    ENTRIES.get(..COUNT.load(Ordering::Acquire) as usize).unwrap_or(&ENTRIES)
}

/// Notes a slot of a loaded object. In the loader's event or before other threads.
pub fn note(at: u64, object: u16) {
    let mut n = FIRST_FREE.load(Ordering::Relaxed) as usize;
    while used().get(n).is_some_and(|e| e.owner.load(Ordering::Relaxed) != 0) {
        n += 1;
    }
    let Some(entry) = ENTRIES.get(n) else { return };
    entry.at.store(at, Ordering::Relaxed);
    entry.owner.store(u32::from(object) + 1, Ordering::Release);
    FIRST_FREE.store(n as u32 + 1, Ordering::Relaxed);
    COUNT.fetch_max(n as u32 + 1, Ordering::Release);
}

/// Forgets the slots of an object that has been unloaded: loaded again it lies elsewhere. In the loader's event.
pub fn forget(object: u16) {
    for (n, e) in used().iter().enumerate() {
        if e.owner.load(Ordering::Relaxed) == u32::from(object) + 1 {
            e.owner.store(0, Ordering::Release);
            FIRST_FREE.fetch_min(n as u32, Ordering::Relaxed);
        }
    }
}

/// The loader is about to unmap objects.
pub fn unloading() {
    UNLOADING.store(true, Ordering::SeqCst);
    for _ in 0..PATIENCE {
        if READERS.load(Ordering::SeqCst) == 0 {
            return;
        }
        sys::sched_yield();
    }
}

/// The loader's list is consistent again, and what it unloaded is forgotten.
pub fn unloaded() {
    UNLOADING.store(false, Ordering::SeqCst);
}

/// True if some loaded object holds this function's address as a pointer, or if that can't be told now.
pub fn is_taken(address: u64) -> bool {
    for _ in 0..PATIENCE {
        READERS.fetch_add(1, Ordering::SeqCst);
        if !UNLOADING.load(Ordering::SeqCst) {
            let taken = used().iter().any(|e| {
                e.owner.load(Ordering::Acquire) != 0
                    // SAFETY: the object is loaded: its entry goes before `unloaded`, and READERS, counted before
                    // UNLOADING was read, keeps the loader from unmapping it.
                    && unsafe { *(e.at.load(Ordering::Relaxed) as *const u64) } == address
            });
            READERS.fetch_sub(1, Ordering::SeqCst);
            return taken;
        }
        READERS.fetch_sub(1, Ordering::SeqCst);
        sys::sched_yield();
    }
    true
}

/// In the child of a fork nobody reads or unloads.
pub fn forked() {
    READERS.store(0, Ordering::Relaxed);
    UNLOADING.store(false, Ordering::Relaxed);
}
