//! Switching sites on and off: wait-free, without system calls, by any thread at any time.
//!
//! ```text
//! kind         what is stored                                          who reads it
//! TRAMPOLINE   aligned 8-byte word at the trampoline's beginning       threads that jump there
//! TEXT         the site's own bytes, one store in one aligned word     threads that run through the site
//! FLAG         a word of data                                          the library's own code
//! ```
//!
//! Trampolines are never unmapped, so a store to one is always harmless. Text may be: a toggle in the text is made
//! within [`gate`], which closes while the loader unloads objects. A toggle that finds it closed leaves its wish in the
//! slot, and whoever opens the gate fulfils it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::registry;
use crate::slot::{Slot, kind, state};
use crate::status::Status;

/// Text toggles under way, and the gate.
pub mod gate {
    use super::{AtomicU32, Ordering};

    /// Bit 31: closed. The rest: toggles inside.
    static GATE: AtomicU32 = AtomicU32::new(0);
    const CLOSED: u32 = 1 << 31;

    /// Runs `store` unless the gate is closed. True if it ran.
    #[inline]
    pub fn through(store: impl FnOnce()) -> bool {
        let before = GATE.fetch_add(1, Ordering::Acquire);
        let open = before & CLOSED == 0;
        if open {
            store();
        }
        GATE.fetch_sub(1, Ordering::Release);
        open
    }

    /// Closes it and waits until nobody is inside (a few instructions each). The loader's thread alone does this.
    pub fn close() {
        GATE.fetch_or(CLOSED, Ordering::AcqRel);
        while GATE.load(Ordering::Acquire) & !CLOSED != 0 {
            // A thread that stands inside may need this CPU.
            // SAFETY: no requirement.
            unsafe { libc::sched_yield() };
        }
    }

    /// Opens it.
    pub fn open() {
        GATE.fetch_and(!CLOSED, Ordering::Release);
    }

    /// In the child of a fork: the toggles of the parent's other threads never end here.
    pub fn forked() {
        GATE.store(0, Ordering::Release);
    }
}

/// Switches a site.
#[inline]
pub fn switch(id: u32, on: bool) -> Status {
    match registry::slot(id) {
        Some(slot) => switch_slot(slot, on),
        None => Status::NoSite,
    }
}

/// The same by its slot.
#[inline]
pub fn switch_slot(slot: &Slot, on: bool) -> Status {
    match slot.state.load(Ordering::Acquire) {
        state::INSTALLED => {}
        state::GONE => return Status::Gone,
        _ => return Status::NotInstalled,
    }
    match slot.kind.load(Ordering::Relaxed) {
        kind::TRAMPOLINE => {
            let value = if on { &slot.on } else { &slot.off }.load(Ordering::Relaxed);
            let word = slot.word.load(Ordering::Relaxed) as *const AtomicU64;
            // SAFETY: the word of an installed site lies in a region that is never unmapped, and is 8-aligned.
            transect_text_patch::toggle_word(unsafe { &*word }, value);
            Status::Ok
        }
        kind::TEXT => switch_text(slot, on),
        _ => {
            slot.wanted.store(u32::from(on), Ordering::Release);
            Status::Ok
        }
    }
}

#[inline]
fn switch_text(slot: &Slot, on: bool) -> Status {
    slot.wanted.store(u32::from(on), Ordering::Release);
    let mut result = Status::Ok;
    gate::through(|| result = follow_wish(slot));
    result
}

/// Makes the text what the slot's wish says. Two threads that wish different things leave what one of them wished:
/// each reads the wish again after its store.
fn follow_wish(slot: &Slot) -> Status {
    // SAFETY: the call site of an installed site was set before its state, from a leaked box.
    let Some(site) = (unsafe { slot.call_site.load(Ordering::Acquire).as_ref() }) else { return Status::NotInstalled };
    for _ in 0..2 {
        if slot.state.load(Ordering::Acquire) != state::INSTALLED {
            return Status::NotInstalled;
        }
        let on = slot.wanted.load(Ordering::Acquire) != 0;
        // SAFETY: the gate is open, so the site's object is mapped, and its pages were opened for toggling.
        let done = unsafe { if on { site.activate_call() } else { site.deactivate_call() } };
        if let Err(refusal) = done {
            return crate::error::patch_status(&refusal);
        }
        if (slot.wanted.load(Ordering::Acquire) != 0) == on {
            break;
        }
    }
    Status::Ok
}

/// Fulfils the wishes of sites toggled in their text that found the gate closed; it must be open again.
pub fn fulfil(ids: impl Iterator<Item = u32>) {
    for slot in ids.filter_map(crate::arena::slot) {
        if slot.kind.load(Ordering::Relaxed) == kind::TEXT && slot.state.load(Ordering::Acquire) == state::INSTALLED {
            gate::through(|| {
                let _ = follow_wish(slot);
            });
        }
    }
}

/// True if the site is switched on.
#[inline]
pub fn is_on(slot: &Slot) -> bool {
    if slot.state.load(Ordering::Acquire) != state::INSTALLED {
        return false;
    }
    match slot.kind.load(Ordering::Relaxed) {
        kind::TRAMPOLINE => {
            let word = slot.word.load(Ordering::Relaxed) as *const AtomicU64;
            // SAFETY: as in `switch_slot`.
            let word = unsafe { &*word }.load(Ordering::Relaxed);
            word != slot.off.load(Ordering::Relaxed)
        }
        _ => slot.wanted.load(Ordering::Acquire) != 0,
    }
}

/// Takes a site out of service: toggles that begin from here on are refused.
pub fn retire(slot: &Slot) {
    slot.wanted.store(0, Ordering::Release);
    slot.state.store(state::RESTORED, Ordering::Release);
}

/// Switches a retired site, or one whose object was unloaded, off.
pub fn quiet(slot: &Slot) {
    match slot.kind.load(Ordering::Relaxed) {
        kind::TRAMPOLINE if slot.descriptor.load(Ordering::Acquire) != 0 => {
            let word = slot.word.load(Ordering::Relaxed) as *const AtomicU64;
            // SAFETY: the word of a site with a descriptor lies in a region that is never unmapped.
            transect_text_patch::toggle_word(unsafe { &*word }, slot.off.load(Ordering::Relaxed));
        }
        kind::TEXT if slot.state.load(Ordering::Acquire) == state::RESTORED => {
            // SAFETY: the call site was set before the site was installed; its object is loaded, or the state were GONE.
            if let Some(site) = unsafe { slot.call_site.load(Ordering::Acquire).as_ref() } {
                // Foreign bytes are the batch's business, which refuses them.
                // SAFETY: as above.
                let _ = unsafe { site.deactivate_call() };
            }
        }
        _ => {}
    }
}
