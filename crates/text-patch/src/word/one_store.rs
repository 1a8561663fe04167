//! Patches that one store makes. No system call, but where something is amiss.
//!
//! ```text
//! all bytes in one aligned word    compare, lock cmpxchg of the word
//! all bytes in one cache line      the same with 8 bytes of the line at any place, if the bytes that differ lie in one
//!                                  aligned word, or the CPU fetches lines whole (`fetches_lines_whole`)
//! bytes in two lines, those that   take the address' stripe; compare the other word; as above;
//! differ in one aligned word       give the stripe back
//! ```
//!
//! A locked store within a line locks the line and not the machine. The comparison covers all bytes of the patch, so of
//! two patches of one instruction one only is made. Across lines that takes the stripe: two patches that differ in
//! different words would each find its own word as it expects, and both together would make an instruction that neither
//! has asked for. It is tried once and never waited for.
//!
//! What an instruction fetch sees: AMD promises that a store to an aligned 8-byte word is seen whole by other CPUs'
//! fetches (APM, volume 2, cross-modifying code); Intel promises nothing without serialization. For a locked store elsewhere
//! within a line nobody promises it. It rests on the way of the caches: the writer owns the line at the store, a fetch
//! from a line that was lost meanwhile starts anew. Tried by PLDI '16 on Intel, and on AMD's family 19h here: none of
//! 6 · 10⁸ patches at all places in a line, hot and cold, was seen mixed (`examples/safety.rs`). Other CPUs get INT3.

use core::sync::atomic::{AtomicU32, Ordering};

use super::{WordPatch, slot};
use crate::arch::cpu_fetches_lines_whole;
use crate::arch::guarded::{self, Exchanged};
use crate::batch::table;
use crate::{Refusal, alias, fork};

const LINE: u64 = 64;

static STRIPES: [AtomicU32; 256] = [const { AtomicU32::new(0) }; 256];

#[inline]
fn stripe(address: u64) -> &'static AtomicU32 {
    &STRIPES[(address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize]
}

/// True if a patch of two words by one store is being made at `address`.
pub fn is_at_work(address: u64) -> bool {
    stripe(address).load(Ordering::SeqCst) != 0
}

/// In a fork's child: the threads that held them don't exist here.
pub fn free_all() {
    STRIPES.iter().for_each(|stripe| stripe.store(0, Ordering::Relaxed));
}

/// Bytes of a patch in one word, as it is executed.
#[derive(Debug, Clone, Copy)]
struct Part {
    text: u64,
    mask: u64,
    old: u64,
}

/// The one store that makes a patch.
#[derive(Debug, Clone, Copy)]
pub struct OneStore {
    /// Eight bytes within a line, with all that differ, as they are executed.
    text: u64,
    /// Bits of them that are the patch's.
    mask: u64,
    old: u64,
    new: u64,
    /// What the patch has in another line.
    other: Option<Part>,
}

impl Part {
    /// Whether the old bytes stand there; `None` if nothing does.
    #[inline]
    fn stands(&self) -> Option<bool> {
        guarded::load_8(self.text).map(|word| word & self.mask == self.old)
    }
}

/// What 64 bits from `start` on are in the aligned word that holds `start`, and in the one behind it.
#[inline]
fn parts(bits: u64, start: u64) -> (u64, u64) {
    let shift = start % 8 * 8;
    (bits << shift, bits >> 1 >> (63 - shift))
}

/// Line-wise fetch: 0 if the CPU was not asked yet, 1 no, 2 yes.
static LINES: AtomicU32 = AtomicU32::new(0);
const WHOLE: u32 = 2;

/// True if a locked store within a cache line is seen whole by instruction fetch, as far as trials tell: Intel, and AMD
/// from family 19h on. Asks the CPU once.
#[inline]
pub fn fetches_lines_whole() -> bool {
    match LINES.load(Ordering::Relaxed) {
        0 => ask_cpu(),
        known => known == WHOLE,
    }
}

#[cold]
fn ask_cpu() -> bool {
    let whole = cpu_fetches_lines_whole();
    LINES.store(1 + u32::from(whole), Ordering::Relaxed);
    whole
}

/// Eight bytes within the line of `address`, from it on if there are so many.
#[inline]
fn window(address: u64) -> u64 {
    address.min((address | (LINE - 1)) - 7)
}

impl OneStore {
    /// The store that makes this patch, if one does, and [`fetches_lines_whole`] was called before.
    #[inline]
    pub fn of(patch: &WordPatch) -> Option<Self> {
        let (address, length) = (patch.address, u64::from(patch.length));
        let (in_word, in_line) = (address % 8 + length <= 8, address % LINE + length <= LINE);
        if !in_word && (!in_line || LINES.load(Ordering::Relaxed) != WHOLE) {
            return Self::of_two_words(patch, in_line);
        }
        let (old, new, bits) = patch.bits();
        let text = if in_word { address & !7 } else { window(address) };
        let shift = (address - text) * 8;
        Some(Self { text, mask: bits << shift, old: old << shift, new: new << shift, other: None })
    }

    /// The bytes lie in two aligned words: those that differ must lie in one of them.
    #[cold]
    fn of_two_words(patch: &WordPatch, in_line: bool) -> Option<Self> {
        let (old, new, bits) = patch.bits();
        let address = patch.address;
        let [difference, mask, old_parts, new_parts] = [old ^ new, bits, old, new].map(|bits| parts(bits, address));
        if difference.0 != 0 && difference.1 != 0 {
            return None;
        }
        if in_line {
            let text = window(address);
            let shift = (address - text) * 8;
            return Some(Self { text, mask: bits << shift, old: old << shift, new: new << shift, other: None });
        }
        let word = address & !7;
        let first = Part { text: word, mask: mask.0, old: old_parts.0 };
        let second = Part { text: word + 8, mask: mask.1, old: old_parts.1 };
        let (one, other, new) =
            if difference.1 == 0 { (first, second, new_parts.0) } else { (second, first, new_parts.1) };
        Some(Self { text: one.text, mask: one.mask, old: one.old, new, other: Some(other) })
    }

    /// Makes it, if it takes no stripe and nothing is amiss. `false` has changed nothing in the text.
    ///
    /// # Safety
    /// As [`super::patch`].
    #[inline]
    pub unsafe fn make_at_once(&self, patch: &WordPatch) -> bool {
        let in_place = patch.alias == patch.address;
        if self.other.is_some() || !slot::none_in_use() || !table::is_empty() || !in_place && fork::is_foreign_child() {
            return false;
        }
        let alias = self.text.wrapping_sub(patch.address).wrapping_add(patch.alias);
        // SAFETY: bytes of the patch, which the caller may write, within a line.
        unsafe { guarded::exchange(self.text, alias, self.mask, self.old, self.old ^ self.new) == Exchanged::Done }
    }

    /// Makes it; false if another thread is patching there.
    ///
    /// # Errors
    /// As [`super::patch`].
    ///
    /// # Safety
    /// As [`super::patch`].
    #[inline]
    pub unsafe fn make(&self, patch: &WordPatch) -> Result<bool, Refusal> {
        if patch.alias != patch.address && fork::is_foreign_child() {
            return Err(Refusal::Forked { address: patch.address });
        }
        // SAFETY: the caller's.
        let Some(other) = self.other else { return unsafe { self.exchange(patch) } };
        let stripe = stripe(patch.address);
        if stripe.swap(1, Ordering::SeqCst) != 0 {
            return Ok(false);
        }
        // SAFETY: the caller's.
        let done = unsafe { self.exchange_beside(patch, other) };
        stripe.store(0, Ordering::Release);
        done
    }

    /// With the stripe held: the other word must hold old bytes, and goes on to do so.
    unsafe fn exchange_beside(&self, patch: &WordPatch, other: Part) -> Result<bool, Refusal> {
        match other.stands() {
            None => Err(Refusal::Unmapped { address: patch.address }),
            // While INT3 stands there, somebody else is at work.
            Some(false) => busy(patch)?.map_or_else(|| Err(patch.foreign()), Ok),
            // SAFETY: the caller's.
            Some(true) => unsafe { self.exchange(patch) },
        }
    }

    #[inline]
    unsafe fn exchange(&self, patch: &WordPatch) -> Result<bool, Refusal> {
        if let Some(answer) = busy(patch)? {
            return Ok(answer);
        }
        let alias = self.text.wrapping_sub(patch.address).wrapping_add(patch.alias);
        let mut attempts = 0;
        loop {
            attempts += 1;
            // SAFETY: bytes of the patch, which the caller may write, within a line.
            match unsafe { guarded::exchange(self.text, alias, self.mask, self.old, self.old ^ self.new) } {
                Exchanged::Done => return Ok(true),
                Exchanged::Differs => return busy(patch)?.map_or_else(|| Err(patch.foreign()), Ok),
                // A neighbour's byte, most likely: if it is one of ours, the next attempt differs.
                Exchanged::Raced if attempts < 8 => {}
                other => return unusual(patch, other),
            }
        }
    }
}

/// `Some(false)` if a patch that takes more than one store, or a batch, is under way there.
#[inline]
fn busy(patch: &WordPatch) -> Result<Option<bool>, Refusal> {
    if slot::none_in_use() && table::is_empty() { Ok(None) } else { look_closer(patch) }
}

#[cold]
fn look_closer(patch: &WordPatch) -> Result<Option<bool>, Refusal> {
    let (start, end) = (patch.address, patch.address + u64::from(patch.length));
    match slot::under_way(start, end) {
        Some(other) if other != start => Err(Refusal::Overlap { address: start, other }),
        Some(_) => Ok(Some(false)),
        None => Ok(table::overlaps(start, end).then_some(false)),
    }
}

/// What to say of an exchange that was not simply made or refused; asks the kernel whether the alias is still the text's
/// memory.
#[cold]
pub fn unusual(patch: &WordPatch, exchanged: Exchanged) -> Result<bool, Refusal> {
    let unmapped = Refusal::Unmapped { address: patch.address };
    if exchanged == Exchanged::Fault || patch.alias != patch.address && alias::retire_stale(patch.address)? {
        return Err(unmapped);
    }
    // Not in the text, and yet its memory: changed back by another thread in between.
    Ok(exchanged == Exchanged::NotInText)
}
