//! Word patches under way: what the handler of SIGTRAP, and whoever finishes a patch, must know of each.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::{Pacing, WordPatch};
use crate::arch::guarded;
use crate::arch::ticks;
use crate::batch::table;
use crate::emulate::Effect;
use crate::form::INT3;
use crate::serialize::serialize_all;
use crate::word::one_store;
use crate::{Refusal, fork};

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const ACTIVE: u32 = 2;

/// What was done last.
const TRAPPED: u32 = 0;
const TAIL_WRITTEN: u32 = 1;

/// Stands for [`Pacing::Serialize`].
const SERIALIZE: u64 = u64::MAX;

/// A patch under way.
#[derive(Debug)]
pub struct Slot {
    state: AtomicU32,
    stage: AtomicU32,
    /// 1 while a thread takes the next step.
    stepping: AtomicU32,
    address: AtomicU64,
    alias: AtomicU64,
    length: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    moved: AtomicU64,
    wait: AtomicU64,
    since: AtomicU64,
}

static SLOTS: [Slot; 64] = [const {
    Slot {
        state: AtomicU32::new(FREE),
        stage: AtomicU32::new(TRAPPED),
        stepping: AtomicU32::new(0),
        address: AtomicU64::new(0),
        alias: AtomicU64::new(0),
        length: AtomicU64::new(0),
        old: AtomicU64::new(0),
        new: AtomicU64::new(0),
        moved: AtomicU64::new(0),
        wait: AtomicU64::new(SERIALIZE),
        since: AtomicU64::new(0),
    }
}; 64];

/// Slots that are not free.
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// True if no word patch is under way that takes more than one store.
#[inline]
pub fn none_in_use() -> bool {
    IN_USE.load(Ordering::SeqCst) == 0
}

/// The address of a word patch under way in this range.
pub fn under_way(start: u64, end: u64) -> Option<u64> {
    let slot = SLOTS.iter().find(|slot| slot.state.load(Ordering::SeqCst) != FREE && slot.overlaps(start, end))?;
    Some(slot.address.load(Ordering::SeqCst))
}

/// The slot of the patch under way at an address.
pub fn at(address: u64) -> Option<&'static Slot> {
    let is_it = |slot: &&Slot| slot.is_at(address);
    if none_in_use() { None } else { SLOTS.iter().find(is_it) }
}

/// For the handler of SIGTRAP: what to do about INT3 at `address`.
pub fn lead(address: u64) -> Option<Effect> {
    for slot in SLOTS.iter().filter(|slot| slot.is_at(address)) {
        let patch = slot.patch();
        // A slot that was given to another patch meanwhile: what we have read may be mixed.
        if slot.is_at(address) {
            return patch.effect();
        }
    }
    None
}

/// Takes a slot for a patch. `None` if another thread is patching there.
///
/// # Errors
/// [`Refusal::Overlap`].
pub fn claim(patch: &WordPatch, pacing: Pacing) -> Result<Option<&'static Slot>, Refusal> {
    let (start, end) = (patch.address, patch.address + u64::from(patch.length));
    let free = |slot: &&Slot| {
        slot.state.load(Ordering::Relaxed) == FREE
            && slot.state.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    let Some(mine) = SLOTS.iter().find(free) else { return Ok(None) };
    IN_USE.fetch_add(1, Ordering::SeqCst);
    mine.address.store(start, Ordering::SeqCst);
    mine.length.store(patch.length.into(), Ordering::SeqCst);
    mine.alias.store(patch.alias, Ordering::SeqCst);
    mine.old.store(u64::from_le_bytes(patch.old), Ordering::SeqCst);
    mine.new.store(u64::from_le_bytes(patch.new), Ordering::SeqCst);
    mine.moved.store(patch.moved, Ordering::SeqCst);
    mine.stage.store(TRAPPED, Ordering::SeqCst);
    let wait = match pacing {
        Pacing::Serialize => SERIALIZE,
        Pacing::Wait(ticks) => ticks.min(SERIALIZE - 1),
    };
    mine.wait.store(wait, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    // Each claims first and looks at the others then: of two that overlap, one at least sees the other.
    let other = SLOTS.iter().find(|slot| {
        !core::ptr::eq(*slot, mine) && slot.state.load(Ordering::SeqCst) != FREE && slot.overlaps(start, end)
    });
    let result = match other.map(|slot| slot.address.load(Ordering::SeqCst)) {
        Some(other) if other != start => Err(Refusal::Overlap { address: start, other }),
        None if !table::overlaps(start, end) && !one_store::is_at_work(start) => Ok(Some(mine)),
        _ => Ok(None),
    };
    match result {
        Ok(Some(_)) => mine.state.store(ACTIVE, Ordering::SeqCst),
        _ => mine.release(),
    }
    result
}

impl Slot {
    fn is_at(&self, address: u64) -> bool {
        self.state.load(Ordering::Acquire) == ACTIVE && self.address.load(Ordering::Acquire) == address
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        let address = self.address.load(Ordering::SeqCst);
        address < end && start < address + self.length.load(Ordering::SeqCst)
    }

    fn patch(&self) -> WordPatch {
        WordPatch {
            address: self.address.load(Ordering::Acquire),
            alias: self.alias.load(Ordering::Acquire),
            length: self.length.load(Ordering::Acquire) as u8,
            old: self.old.load(Ordering::Acquire).to_le_bytes(),
            new: self.new.load(Ordering::Acquire).to_le_bytes(),
            moved: self.moved.load(Ordering::Acquire),
        }
    }

    /// Gives the slot back.
    pub fn release(&self) {
        self.length.store(0, Ordering::SeqCst);
        self.state.store(FREE, Ordering::SeqCst);
        IN_USE.fetch_sub(1, Ordering::SeqCst);
    }

    /// INT3 stands from now on.
    pub fn trapped(&self) {
        self.since.store(ticks(), Ordering::Release);
    }

    /// Makes this thread the one that takes the next step of the patch at `address`: `Some(true)`; `Some(false)` if
    /// another is about it, `None` if that patch is complete.
    pub fn hold(&self, address: u64) -> Option<bool> {
        if self.stepping.swap(1, Ordering::Acquire) != 0 {
            return self.is_at(address).then_some(false);
        }
        if self.is_at(address) {
            return Some(true);
        }
        self.let_go();
        None
    }

    /// Ends what [`Self::hold`] has begun.
    pub fn let_go(&self) {
        self.stepping.store(0, Ordering::Release);
    }

    /// Takes the next step, if its time has come; true if that was the last one. The slot is held.
    ///
    /// # Errors
    /// [`Refusal::NoSerialization`], and those of [`Self::write_next`].
    ///
    /// # Safety
    /// As [`super::patch`].
    pub unsafe fn step(&self) -> Result<bool, Refusal> {
        match self.wait.load(Ordering::Relaxed) {
            SERIALIZE => serialize_all()?,
            time if ticks().wrapping_sub(self.since.load(Ordering::Acquire)) < time => return Ok(false),
            _ => {}
        }
        // SAFETY: the caller's; all threads have seen the step before, or are taken to have.
        unsafe { self.write_next() }
    }

    /// The stores of the next step; true if it was the last one. The slot is held, and the threads have been serialized.
    ///
    /// # Errors
    /// [`Refusal::Forked`], [`Refusal::Unmapped`].
    ///
    /// # Safety
    /// As [`super::patch`].
    pub unsafe fn write_next(&self) -> Result<bool, Refusal> {
        let patch = self.patch();
        let address = patch.address;
        if patch.alias != address && fork::is_foreign_child() {
            return Err(Refusal::Forked { address });
        }
        let tail_next = self.stage.load(Ordering::Relaxed) == TRAPPED;
        let bytes = if tail_next { 1..usize::from(patch.length) } else { 0..1 };
        for i in bytes {
            // SAFETY: the caller's. Threads meet INT3 before the tail; when it goes, the tail is in place.
            if !unsafe { guarded::store_1(patch.alias + i as u64, patch.new[i]) } {
                // Gone with its page, or only protected: then INT3 stands, and threads are led around it.
                if guarded::load_8(address).is_none_or(|word| word.to_le_bytes()[(address % 8) as usize] != INT3) {
                    self.release();
                }
                return Err(Refusal::Unmapped { address });
            }
        }
        self.stage.store(TAIL_WRITTEN, Ordering::Relaxed);
        self.since.store(ticks(), Ordering::Release);
        if !tail_next {
            self.release();
        }
        Ok(!tail_next)
    }
}

/// In a fork's child: completes what the parent had begun.
pub fn complete_after_fork() {
    for slot in &SLOTS {
        if slot.state.load(Ordering::Acquire) == ACTIVE {
            let patch = slot.patch();
            let word = guarded::load_8(patch.alias);
            if word.is_some_and(|word| word.to_le_bytes()[(patch.alias % 8) as usize] == INT3) {
                for i in (0..u64::from(patch.length)).rev() {
                    // SAFETY: the alias that the parent wrote through, now the child's own; this thread is alone.
                    unsafe { guarded::store_1(patch.alias + i, patch.new[i as usize]) };
                }
            }
        }
        slot.length.store(0, Ordering::Relaxed);
        slot.state.store(FREE, Ordering::Relaxed);
        slot.let_go();
    }
    IN_USE.store(0, Ordering::SeqCst);
    one_store::free_all();
}
