//! Word patching: up to eight bytes at any address, one instruction by another, by any thread.
//!
//! ```text
//! the bytes that differ lie in one aligned 8-byte word, or cache line:
//!     lock cmpxchg                                                                 no system call
//! else:                                              a thread that comes by
//!     CC at the first byte, by lock cmpxchg of the aligned word that holds it      meets INT3, is led on
//!     serialize, or wait
//!     bytes 1.. := new                               meets INT3
//!     serialize, or wait
//!     byte 0 := new                                  meets INT3, or executes the new instruction
//! ```
//!
//! After "Living on the Edge" (PLDI '16). There the writer *waits* between the steps, for as long as stores are taken
//! to need to reach the other CPUs ([`Pacing::Wait`]). That is not safe: with cold lines, instructions mixed of
//! old and new bytes were executed after waits of 12,000 ticks. The default serializes all threads instead, after which
//! no thread can execute what it fetched before.
//!
//! A thread that meets INT3 goes on at a place that the caller names, or the old instruction is emulated; it doesn't
//! wait. Who wants to patch where somebody else is patching is told so.
//!
//! What one store may change is in `word/one_store.rs`: an aligned 8-byte word everywhere, any bytes of a cache line on
//! most CPUs ([`fetches_lines_whole`]). The alias must be mapped; of memory that the program may unmap, see
//! [`crate::page`].

mod one_store;
mod slot;

use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::guarded::{self, Exchanged};
use crate::arch::shadow_stack_active;
use crate::arch::signal::SIGURG;
use crate::emulate::{self, Effect};
use crate::form::INT3;
use crate::serialize::serialize_all;
use crate::{Refusal, fork, trap};
use one_store::OneStore;
use slot::Slot;

pub use one_store::fetches_lines_whole;
pub(crate) use slot::{complete_after_fork, lead};

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

/// A patch that was started and not finished: INT3 stands at its first byte.
#[derive(Debug)]
#[must_use = "an unfinished patch leaves INT3 in the code: call finish_patch"]
pub struct Pending {
    address: u64,
    /// `None`: complete.
    slot: Option<&'static Slot>,
    held: bool,
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

    #[inline]
    fn check(&self) -> Result<(), Refusal> {
        let address = self.address;
        if self.length == 0 || self.length > 8 || self.alias % 4096 != address % 4096 {
            return Err(Refusal::Malformed { address });
        }
        Ok(())
    }

    /// Old and new bytes, and ones for the bits that count.
    #[inline]
    fn bits(&self) -> (u64, u64, u64) {
        let bits = u64::MAX >> (64 - u32::from(self.length) * 8);
        (u64::from_le_bytes(self.old) & bits, u64::from_le_bytes(self.new) & bits, bits)
    }

    /// Why the bytes are not as expected.
    #[cold]
    fn foreign(&self) -> Refusal {
        for i in 0..u64::from(self.length) {
            let at = self.address + i;
            let Some(word) = guarded::load_8(at) else { return Refusal::Unmapped { address: self.address } };
            let (found, expected) = (word.to_le_bytes()[(at % 8) as usize], self.old[i as usize]);
            if found != expected {
                return Refusal::ForeignBytes { address: at, expected, found };
            }
        }
        Refusal::Contended { address: self.address } // the bytes are back by now
    }
}

/// True if a word patch is under way in this range.
pub(crate) fn overlaps(start: u64, end: u64) -> bool {
    slot::under_way(start, end).is_some()
}

/// Patches a word, synchronously. False if another thread is patching there, or has just done so.
///
/// # Errors
/// Foreign bytes, overlap with a patch under way, not emulatable, no serialization.
///
/// # Safety
/// `alias` is a writable mapping of the memory at `address`, or was one and [`crate::fault`] is in place; one instruction begins at `address` in both forms and
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

/// Makes a patch if one store does, and nothing is amiss: true if it is made. Otherwise nothing was changed, and [`patch`]
/// says why, or does it. This is the part of [`patch`] that is worth having inline.
///
/// # Safety
/// As [`patch`].
#[inline]
pub unsafe fn patch_at_once(patch: &WordPatch) -> bool {
    // SAFETY: the caller's.
    patch.check().is_ok() && OneStore::of(patch).is_some_and(|store| unsafe { store.make_at_once(patch) })
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
#[inline]
pub unsafe fn start_patch(patch: &WordPatch, pacing: Pacing) -> Result<Option<Pending>, Refusal> {
    patch.check()?;
    fetches_lines_whole(); // asks the CPU, if that was not done yet
    if let Some(store) = OneStore::of(patch) {
        // SAFETY: the caller's.
        let made = unsafe { store.make(patch)? };
        return Ok(made.then_some(Pending { address: patch.address, slot: None, held: false }));
    }
    // SAFETY: the caller's.
    unsafe { start_by_trap(patch, pacing) }
}

/// Puts INT3 at the first byte.
unsafe fn start_by_trap(patch: &WordPatch, pacing: Pacing) -> Result<Option<Pending>, Refusal> {
    static SERIALIZES: AtomicBool = AtomicBool::new(false);
    let address = patch.address;
    match patch.effect() {
        None => return Err(Refusal::NotEmulatable { address }),
        Some(effect) if effect.uses_return_address() && shadow_stack_active() => {
            return Err(Refusal::ShadowStack { address });
        }
        Some(_) => {}
    }
    if patch.alias != address && fork::is_foreign_child() {
        return Err(Refusal::Forked { address });
    }
    if pacing == Pacing::Serialize && !SERIALIZES.load(Ordering::Relaxed) {
        serialize_all()?; // before INT3 stands, in case that it is forbidden
        SERIALIZES.store(true, Ordering::Relaxed);
    }
    trap::take_over(SIGURG)?;
    let Some(slot) = slot::claim(patch, pacing)? else { return Ok(None) };
    // SAFETY: the caller's; the slot is published.
    match unsafe { put_trap(patch) } {
        Ok(true) => {
            slot.trapped();
            Ok(Some(Pending { address, slot: Some(slot), held: false }))
        }
        other => {
            slot.release(); // a neighbour's byte has changed, or our first one
            other.map(|_| None)
        }
    }
}

/// Compares all bytes, and replaces the first by INT3, by a locked store of its aligned word.
unsafe fn put_trap(patch: &WordPatch) -> Result<bool, Refusal> {
    let address = patch.address;
    let (old, _, bits) = patch.bits();
    let (text, shift) = (address & !7, address % 8 * 8);
    let behind = if shift == 0 { 0 } else { bits >> (64 - shift) };
    if behind != 0 {
        let Some(word) = guarded::load_8(text + 8) else { return Err(Refusal::Unmapped { address }) };
        if word & behind != old >> (64 - shift) {
            return Err(patch.foreign());
        }
    }
    let difference = u64::from(patch.old[0] ^ INT3) << shift;
    let alias = text.wrapping_sub(address).wrapping_add(patch.alias);
    // SAFETY: the aligned word that holds the first byte, which the caller may write.
    match unsafe { guarded::exchange(text, alias, bits << shift, old << shift, difference) } {
        Exchanged::Done => Ok(true),
        Exchanged::Differs => Err(patch.foreign()),
        other => one_store::unusual(patch, other),
    }
}

/// Takes the next step of a patch, if its time has come; true if the patch is complete. Never waits for another thread
/// or for time to pass: with [`Pacing::Serialize`], each of the two steps is one call of membarrier and the stores behind
/// it; with [`Pacing::Wait`], a step whose time has not come is left for the next call. Call it until it is true.
///
/// # Errors
/// [`Refusal::NoSerialization`]: INT3 is left in place, and threads are led around it; call again. [`Refusal::Unmapped`]: the page
/// has gone, and the patch with it; or it was protected, then as before, once it is prepared again.
///
/// # Safety
/// As [`patch`].
pub unsafe fn finish_patch(pending: &mut Pending) -> Result<bool, Refusal> {
    let Some(slot) = pending.slot else { return Ok(true) };
    // SAFETY: the caller's.
    let done = unsafe { advance(slot, pending.address)? };
    if done {
        pending.slot = None;
    }
    Ok(done)
}

/// [`finish_patch`] of the patch that was started at `address`, by any thread; true if none is under way there.
///
/// # Errors
/// As [`finish_patch`].
///
/// # Safety
/// As [`patch`].
pub unsafe fn finish_patch_at(address: u64) -> Result<bool, Refusal> {
    // SAFETY: the caller's.
    slot::at(address).map_or(Ok(true), |slot| unsafe { advance(slot, address) })
}

unsafe fn advance(slot: &Slot, address: u64) -> Result<bool, Refusal> {
    match slot.hold(address) {
        None => Ok(true),
        Some(false) => Ok(false),
        Some(true) => {
            // SAFETY: the caller's.
            let stepped = unsafe { slot.step() };
            slot.let_go();
            stepped
        }
    }
}

/// Completes many patches with two serializations altogether.
///
/// # Errors
/// As [`finish_patch`].
///
/// # Safety
/// As [`patch`], for each.
pub unsafe fn finish_patches(pending: &mut [Pending]) -> Result<(), Refusal> {
    while pending.iter().any(|one| one.slot.is_some()) {
        for one in pending.iter_mut() {
            let held = one.slot.and_then(|slot| slot.hold(one.address));
            one.held = held == Some(true);
            one.slot = one.slot.filter(|_| held.is_some());
        }
        let mut result = serialize_all();
        for one in pending.iter_mut() {
            let Some(slot) = one.slot.filter(|_| one.held) else { continue };
            if result.is_ok() {
                // SAFETY: the caller's; all threads were serialized since the step before.
                match unsafe { slot.write_next() } {
                    Ok(true) => one.slot = None,
                    Ok(false) => {}
                    Err(refusal) => result = Err(refusal),
                }
            }
            slot.let_go();
            one.held = false;
        }
        result?;
    }
    Ok(())
}
