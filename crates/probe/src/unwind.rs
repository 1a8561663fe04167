//! Exceptions and stack walks: an unwinder that meets one of our return sites finds no unwind information there. So
//! an entry probe on the unwinders' own entries (`_Unwind_RaiseException`, `_Unwind_ForcedUnwind`, `_Unwind_Resume`,
//! `_Unwind_Resume_or_Rethrow`, `_Unwind_Backtrace`) puts the return addresses of the whole stack back first. The
//! calls concerned go on untimed; they are counted as abandoned.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::probe_arena::ProbeHeader;

use crate::arch::x86_64::syscall;
use crate::descriptor::{Descriptor, Registers};
use crate::frame::{self, transect_probe_globals};
use crate::scope;
use crate::trampoline;

/// Names of the functions that need the probe, in whatever object they are defined.
pub const UNWINDERS: [&str; 5] = [
    "_Unwind_RaiseException",
    "_Unwind_ForcedUnwind",
    // A destructor that an exception runs may be where timing begins.
    "_Unwind_Resume",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_Backtrace",
];

/// Furthest that a stack is searched, bytes.
const SEARCH: u64 = 1 << 30;
/// The same on a stack whose end is unknown (a coroutine's).
const SEARCH_UNKNOWN: u64 = 1 << 20;
/// From this distance on, pages that have frames are looked up instead of all: between a coroutine's stack and the end of
/// the thread's own one may lie a gigabyte.
const FAR: u64 = 8 << 20;

/// The handler (vector tier, entry): restores the return addresses above the probe.
pub extern "C" fn restore(_id: u32, registers: &Registers, _vectors: u64, _cookie: u64) -> u64 {
    let slot = &raw const registers.return_address as u64;
    let restored = restore_above(slot, stack_end(slot));
    if let Some(header) = header() {
        header.abandoned.fetch_add(restored, Ordering::Relaxed);
    }
    if restored > 0 {
        scope::thrown(slot, thread_pointer());
    }
    0
}

fn header() -> Option<&'static ProbeHeader> {
    let address = transect_probe_globals.header.load(Ordering::Relaxed);
    // SAFETY: `Globals::set` was given the arena's header, which is never unmapped.
    (address != 0).then(|| unsafe { &*(address as *const ProbeHeader) })
}

/// Where the stack that holds `slot` ends, as far as can be told: the thread control block stands at the end of a
/// thread's stack in glibc and musl.
fn stack_end(slot: u64) -> u64 {
    let block = thread_pointer();
    let main = transect_probe_globals.stack_end.load(Ordering::Relaxed);
    [block, main]
        .into_iter()
        .filter(|&end| end > slot && end - slot < SEARCH)
        .min()
        .unwrap_or(slot.saturating_add(SEARCH_UNKNOWN))
}

fn thread_pointer() -> u64 {
    let block: u64;
    // SAFETY: a program that unwinds has thread-local storage, whose first word points to itself (x86-64 psABI).
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly, preserves_flags)) };
    block
}

/// Puts return addresses back in all slots from `slot` up to `end`; how many.
fn restore_above(slot: u64, end: u64) -> u64 {
    let mut restored = 0;
    if end - slot > FAR {
        frame::each_stack_page(|page| {
            if page + 4096 > slot && page < end && syscall::is_mapped(page) {
                restored += restore_between(page.max(slot), end.min(page + 4096));
            }
        });
        return restored;
    }
    let mut at = slot;
    while at < end {
        let next = (at | 4095) + 1;
        // Only pages that hold frames are read. One that was unmapped since lies on another stack.
        if frame::find(at).is_some() {
            if !syscall::is_mapped(at) {
                break;
            }
            restored += restore_between(at, next.min(end));
        }
        at = next;
    }
    restored
}

/// Puts return addresses back on all stacks of the process, for one that takes all its probes out: afterwards no call
/// leads through a trampoline but those that begin meanwhile. How many were put back.
///
/// Other threads may go on: each address is put back by one atomic exchange, and a call may return directly as well as
/// through its trampoline. A stack must not be unmapped meanwhile.
pub fn restore_everywhere() -> u64 {
    let mut restored = 0;
    frame::each_stack_page(|page| {
        if syscall::is_mapped(page) {
            restored += restore_between(page, page + 4096);
        }
    });
    restored
}

/// The same within one page, which is mapped.
fn restore_between(from: u64, to: u64) -> u64 {
    (from..to).step_by(8).map(|slot| u64::from(restore_slot(slot))).sum()
}

fn restore_slot(slot: u64) -> bool {
    // SAFETY: the caller has seen the page mapped; slots are 8-aligned.
    let word = unsafe { &*(slot as *const AtomicU64) };
    let value = word.load(Ordering::Relaxed);
    let Some(frame) = frame::find(slot) else { return false };
    let descriptor = frame.descriptor.load(Ordering::Relaxed);
    if descriptor == 0 || value.wrapping_sub(descriptor) > trampoline::CAPACITY as u64 {
        return false;
    }
    // SAFETY: a descriptor that a handler has stored in a frame is never unmapped.
    let exit = unsafe { &*(descriptor as *const Descriptor) }.exit.load(Ordering::Relaxed);
    // A stale frame may share its slot with some other value near the trampoline only if that is a return site.
    let address = frame.return_address.load(Ordering::Relaxed);
    let restored = exit != 0 && word.compare_exchange(value, address, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if restored {
        frame.descriptor.store(0, Ordering::Relaxed);
    }
    restored
}
