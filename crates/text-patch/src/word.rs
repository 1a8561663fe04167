//! Word patching: up to eight bytes at any address, one instruction by another, by any thread.
//!
//! ```text
//! the bytes that differ lie in one aligned 8-byte word:
//!     lock cmpxchg of that word
//! else:                                              a thread that comes by
//!     CC at the first byte, by lock cmpxchg of the aligned word that holds it      meets INT3, is led on
//!     serialize, or wait
//!     bytes 1.. := new                               meets INT3
//!     serialize, or wait
//!     byte 0 := new                                  meets INT3, or executes the new instruction
//! ```
//!
//! After "Living on the Edge" (PLDI '16). There the writer *waits* between the steps, for as long as stores are taken
//! to need to reach the other processors ([`Pacing::Wait`]). That is not safe: with cold lines, instructions mixed of
//! old and new bytes were executed after waits of 12,000 ticks. The default serializes all threads instead, after which
//! no thread can execute what it fetched before.
//!
//! A thread that meets INT3 goes on at a place that the caller names, or the old instruction is emulated; it doesn't
//! wait. Who wants to patch where somebody else is patching is told so.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::arch::signal::SIGURG;
use crate::arch::{shadow_stack_active, store, ticks};
use crate::batch::table;
use crate::emulate::{self, Effect};
use crate::form::INT3;
use crate::serialize::serialize_all;
use crate::{Refusal, trap};

/// A word to patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordPatch {
    /// Where it is executed.
    pub address: u64,
    /// Where it is written (may be the same).
    pub alias: u64,
    /// Bytes that count, 1 to 8.
    pub length: u8,
    /// What must stand there.
    pub old: [u8; 8],
    /// What shall stand there.
    pub new: [u8; 8],
    /// Where a thread goes on that meets the word meanwhile, a copy of the old or of the new instruction; 0 if the
    /// old or the new instruction can be emulated (calls, jumps, branches, returns, no-ops).
    pub moved: u64,
}

/// What stands between the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pacing {
    /// Serialization of all threads.
    #[default]
    Serialize,
    /// Nothing but time, in ticks: the paper's T_max. **Not safe**; kept to be measured.
    Wait(u64),
}

/// Which step a patch under way is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Trapped,
    TailWritten,
    Done,
}

/// A patch that was started and not finished: INT3 stands at its first byte.
#[derive(Debug)]
#[must_use = "an unfinished patch leaves INT3 in the code: call finish_patch"]
pub struct Pending {
    patch: WordPatch,
    pacing: Pacing,
    stage: Stage,
    slot: usize,
    since: u64,
}

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const ACTIVE: u32 = 2;

/// A patch under way, as the handler of SIGTRAP sees it.
struct Slot {
    state: AtomicU32,
    address: AtomicU64,
    alias: AtomicU64,
    length: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    moved: AtomicU64,
}

static SLOTS: [Slot; 64] = [const {
    Slot {
        state: AtomicU32::new(FREE),
        address: AtomicU64::new(0),
        alias: AtomicU64::new(0),
        length: AtomicU64::new(0),
        old: AtomicU64::new(0),
        new: AtomicU64::new(0),
        moved: AtomicU64::new(0),
    }
}; 64];

impl Slot {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        let address = self.address.load(Ordering::SeqCst);
        address < end && start < address + self.length.load(Ordering::SeqCst)
    }
}

impl WordPatch {
    fn effect(&self) -> Option<Effect> {
        if self.moved != 0 {
            return Some(Effect::Go(self.moved));
        }
        let length = usize::from(self.length);
        emulate::effect(&self.old[..length], self.address)
            .or_else(|| emulate::effect(&self.new[..length], self.address))
    }

    fn check(&self) -> Result<(), Refusal> {
        let address = self.address;
        if self.length == 0 || self.length > 8 || self.alias % 4096 != address % 4096 {
            return Err(Refusal::Malformed { address });
        }
        Ok(())
    }

    /// The aligned word that holds all bytes that differ: its alias, and the site's old and new bits and mask in it.
    fn one_word(&self) -> Option<(u64, u64, u64, u64)> {
        let length = u64::from(self.length);
        let differs = |i: &u64| self.old[*i as usize] != self.new[*i as usize];
        let first = (0..length).find(differs).unwrap_or(0);
        let last = (0..length).rev().find(differs).unwrap_or(first);
        let word = (self.alias + first) & !7;
        if (self.alias + last) & !7 != word {
            return None;
        }
        let (mut mask, mut old, mut new) = (0, 0, 0);
        for i in 0..length {
            let position = (self.alias + i).wrapping_sub(word);
            if position < 8 {
                mask |= 0xFF << (position * 8);
                old |= u64::from(self.old[i as usize]) << (position * 8);
                new |= u64::from(self.new[i as usize]) << (position * 8);
            }
        }
        Some((word, mask, old, new))
    }

    fn foreign(&self) -> Refusal {
        for i in 0..u64::from(self.length) {
            // SAFETY: the caller of `patch` vouches that the alias is mapped.
            let found = unsafe { store::load_1(self.alias + i) };
            let expected = self.old[i as usize];
            if found != expected {
                return Refusal::ForeignBytes { address: self.address + i, expected, found };
            }
        }
        Refusal::Contended { address: self.address } // the bytes are back by now
    }
}

/// The address of a word patch under way in this range.
fn under_way(start: u64, end: u64) -> Option<u64> {
    let slot = SLOTS.iter().find(|slot| slot.state.load(Ordering::SeqCst) != FREE && slot.overlaps(start, end))?;
    Some(slot.address.load(Ordering::SeqCst))
}

/// True if a word patch is under way in this range.
pub(crate) fn overlaps(start: u64, end: u64) -> bool {
    under_way(start, end).is_some()
}

/// For the handler of SIGTRAP: what to do about INT3 at `address`.
pub(crate) fn lead(address: u64) -> Option<Effect> {
    for slot in &SLOTS {
        if slot.state.load(Ordering::Acquire) != ACTIVE || slot.address.load(Ordering::Acquire) != address {
            continue;
        }
        let patch = WordPatch {
            address,
            alias: address,
            length: slot.length.load(Ordering::Acquire) as u8,
            old: slot.old.load(Ordering::Acquire).to_le_bytes(),
            new: slot.new.load(Ordering::Acquire).to_le_bytes(),
            moved: slot.moved.load(Ordering::Acquire),
        };
        // A slot that was given to another patch meanwhile: what we have read may be mixed.
        if slot.state.load(Ordering::Acquire) == ACTIVE && slot.address.load(Ordering::Acquire) == address {
            return patch.effect();
        }
    }
    None
}

/// What came of an attempt to take a slot.
enum Claim {
    Slot(usize),
    Contended,
}

fn claim(patch: &WordPatch) -> Result<Claim, Refusal> {
    let (start, end) = (patch.address, patch.address + u64::from(patch.length));
    let free = |slot: &&Slot| {
        slot.state.load(Ordering::Relaxed) == FREE
            && slot.state.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    let Some(mine) = SLOTS.iter().find(free) else { return Ok(Claim::Contended) };
    mine.address.store(start, Ordering::SeqCst);
    mine.length.store(patch.length.into(), Ordering::SeqCst);
    mine.alias.store(patch.alias, Ordering::SeqCst);
    mine.old.store(u64::from_le_bytes(patch.old), Ordering::SeqCst);
    mine.new.store(u64::from_le_bytes(patch.new), Ordering::SeqCst);
    mine.moved.store(patch.moved, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    // Each claims first and looks at the others then: of two that overlap, one at least sees the other.
    let mut result = if table::overlaps(start, end) { Ok(Claim::Contended) } else { Ok(Claim::Slot(0)) };
    for (i, slot) in SLOTS.iter().enumerate() {
        if core::ptr::eq(slot, mine) {
            if let Ok(Claim::Slot(index)) = &mut result {
                *index = i;
            }
        } else if slot.state.load(Ordering::SeqCst) != FREE && slot.overlaps(start, end) {
            let other = slot.address.load(Ordering::SeqCst);
            result =
                if other == start { Ok(Claim::Contended) } else { Err(Refusal::Overlap { address: start, other }) };
            break;
        }
    }
    match result {
        Ok(Claim::Slot(_)) => mine.state.store(ACTIVE, Ordering::SeqCst),
        _ => release(mine),
    }
    result
}

fn release(slot: &Slot) {
    slot.length.store(0, Ordering::SeqCst);
    slot.state.store(FREE, Ordering::SeqCst);
}

/// Patches a word, synchronously. False if another thread is patching there, or has just done so.
///
/// # Errors
/// Foreign bytes, overlap with a patch under way, not emulatable, no serialization.
///
/// # Safety
/// `alias` is a writable mapping of the memory at `address`; one instruction begins at `address` in both forms and
/// none within, or none that a thread is at or comes to; `moved` does what either does.
pub unsafe fn patch(patch: &WordPatch) -> Result<bool, Refusal> {
    // SAFETY: the caller's.
    unsafe { patch_paced(patch, Pacing::Serialize) }
}

/// [`patch`] with a choice of pacing.
///
/// # Errors
/// As [`patch`].
///
/// # Safety
/// As [`patch`]. With [`Pacing::Wait`], threads may execute instructions mixed of both forms.
pub unsafe fn patch_paced(patch: &WordPatch, pacing: Pacing) -> Result<bool, Refusal> {
    // SAFETY: the caller's.
    let Some(mut pending) = (unsafe { start_patch(patch, pacing)? }) else { return Ok(false) };
    // SAFETY: the caller's.
    while !unsafe { finish_patch(&mut pending)? } {
        core::hint::spin_loop();
    }
    Ok(true)
}

/// Starts a patch: threads are led around the word from now on, and [`finish_patch`] completes it. `None` if another
/// thread is patching there, or has just done so. Where one store does, the patch is complete, and its end returns at
/// once.
///
/// # Errors
/// As [`patch`].
///
/// # Safety
/// As [`patch`].
pub unsafe fn start_patch(patch: &WordPatch, pacing: Pacing) -> Result<Option<Pending>, Refusal> {
    patch.check()?;
    let mut pending = Pending { patch: *patch, pacing, stage: Stage::Done, slot: usize::MAX, since: 0 };
    if let Some((word, mask, old, new)) = patch.one_word() {
        let address = patch.address;
        match under_way(address, address + u64::from(patch.length)) {
            Some(other) if other != address => return Err(Refusal::Overlap { address, other }),
            Some(_) => return Ok(None),
            None if table::overlaps(address, address + u64::from(patch.length)) => return Ok(None),
            None => {}
        }
        // SAFETY: an aligned word of the alias.
        let now = unsafe { store::load_8(word) };
        if now & mask != old {
            return Err(patch.foreign());
        }
        // SAFETY: as above.
        let swapped = unsafe { store::compare_exchange_8(word, now, (now & !mask) | new) };
        return Ok(swapped.is_ok().then_some(pending));
    }
    match patch.effect() {
        None => return Err(Refusal::NotEmulatable { address: patch.address }),
        Some(effect) if effect.uses_return_address() && shadow_stack_active() => {
            return Err(Refusal::ShadowStack { address: patch.address });
        }
        Some(_) => {}
    }
    if pacing == Pacing::Serialize {
        serialize_all()?; // before INT3 stands, in case that it is forbidden
    }
    trap::take_over(SIGURG)?;
    let Claim::Slot(slot) = claim(patch)? else { return Ok(None) };
    pending.slot = slot;
    pending.stage = Stage::Trapped;
    for i in 0..u64::from(patch.length) {
        // SAFETY: the alias is mapped.
        if unsafe { store::load_1(patch.alias + i) } != patch.old[i as usize] {
            release(&SLOTS[slot]);
            return Err(patch.foreign());
        }
    }
    let (word, shift) = (patch.alias & !7, patch.alias % 8 * 8);
    // SAFETY: the aligned word that holds the first byte.
    let swapped = unsafe {
        let now = store::load_8(word);
        let trapped = (now & !(0xFF << shift)) | u64::from(INT3) << shift;
        now >> shift & 0xFF == patch.old[0].into() && store::compare_exchange_8(word, now, trapped).is_ok()
    };
    if !swapped {
        release(&SLOTS[slot]); // a neighbour's byte has changed, or our first one
        return Ok(None);
    }
    pending.since = ticks();
    Ok(Some(pending))
}

/// Goes on with a patch as far as it may now; true when it is complete. With [`Pacing::Serialize`] that is the first
/// time; with [`Pacing::Wait`], steps whose time has not come are left for the next call.
///
/// # Errors
/// [`Refusal::NoSerialization`]: INT3 stays, and threads are led around it; call again.
///
/// # Safety
/// As [`patch`].
pub unsafe fn finish_patch(pending: &mut Pending) -> Result<bool, Refusal> {
    while pending.stage != Stage::Done {
        match pending.pacing {
            Pacing::Serialize => serialize_all()?,
            Pacing::Wait(time) if ticks().wrapping_sub(pending.since) < time => return Ok(false),
            Pacing::Wait(_) => {}
        }
        // SAFETY: the caller's.
        unsafe { step(pending) };
    }
    Ok(true)
}

/// One step of a patch that is not complete.
unsafe fn step(pending: &mut Pending) {
    let patch = &pending.patch;
    if pending.stage == Stage::Trapped {
        for i in 1..u64::from(patch.length) {
            // SAFETY: threads meet INT3 before these bytes.
            unsafe { store::store_1(patch.alias + i, patch.new[i as usize]) };
        }
        pending.stage = Stage::TailWritten;
    } else {
        // SAFETY: the tail is in place.
        unsafe { store::store_1(patch.alias, patch.new[0]) };
        release(&SLOTS[pending.slot]);
        pending.stage = Stage::Done;
    }
    pending.since = ticks();
}

/// Completes many patches with two serializations altogether.
///
/// # Errors
/// As [`finish_patch`].
///
/// # Safety
/// As [`patch`], for each.
pub unsafe fn finish_patches(pending: &mut [Pending]) -> Result<(), Refusal> {
    for stage in [Stage::Trapped, Stage::TailWritten] {
        if pending.iter().any(|one| one.stage == stage) {
            serialize_all()?;
        }
        for one in pending.iter_mut().filter(|one| one.stage == stage) {
            // SAFETY: the caller's.
            unsafe { step(one) };
        }
    }
    Ok(())
}

/// In a fork's child: completes what the parent had begun.
pub(crate) fn complete_after_fork() {
    for slot in &SLOTS {
        if slot.state.load(Ordering::Acquire) == ACTIVE {
            let alias = slot.alias.load(Ordering::Relaxed);
            // SAFETY: the alias that the parent wrote through, now the child's own.
            if unsafe { store::load_1(alias) } == INT3 {
                let new = slot.new.load(Ordering::Relaxed).to_le_bytes();
                for i in (0..slot.length.load(Ordering::Relaxed)).rev() {
                    // SAFETY: this thread is alone.
                    unsafe { store::store_1(alias + i, new[i as usize]) };
                }
            }
        }
        release(slot);
    }
}
