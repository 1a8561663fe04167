//! The shadow table: one stub, one target word and one record per hooked linkage slot.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use transect_event_abi::api_table::{ApiEntry, NO_SIZE, RETURNED_SIZE, RETURNED_TIMES, class, handler};
use transect_event_abi::arena::{OPTION_HISTOGRAM, TIMING_ADAPTIVE, TIMING_COUNT, TIMING_EVERY, TIMING_FULL};
use transect_event_abi::process::{NAMES_CAPACITY, NAMES_OFFSET, SLOT_CAPACITY, SLOT_FRAMED, SLOTS_OFFSET, SlotRecord};
use transect_event_abi::thread::HISTOGRAM_CAPACITY;

use crate::{arch, arena, object, process, published, static_component};

/// See [`time_all`].
static ALL_TIMED: AtomicBool = AtomicBool::new(false);
/// Private copy of class, handler, flags and size argument of each slot, one byte each, lowest first.
static KINDS: [AtomicU32; SLOT_CAPACITY] = [const { AtomicU32::new(0) }; SLOT_CAPACITY];
/// Of the last integer argument.
const RETURNED_TIMES_LAST: u8 = RETURNED_TIMES + 5;
/// Highest bit of the size byte: the slot's calls are traced.
const TRACED: u32 = 1 << 31;

/// What the agent does with a slot's calls.
#[derive(Clone, Copy)]
pub struct Kind {
    /// A [`class`] value.
    pub class: u8,
    /// A [`handler`] value.
    pub handler: u8,
    /// `SLOT_` flags.
    pub flags: u8,
    /// Argument that holds a size, as in [`ApiEntry::size_arg`], without its highest bit.
    pub size_arg: u8,
    /// Trace its calls.
    pub traced: bool,
}

impl Kind {
    /// True if every call is to pass through [`crate::enter::slow_enter`], whatever the timing mode.
    pub fn always_enters(self) -> bool {
        self.traced || self.flags & SLOT_FRAMED != 0 || !matches!(self.handler, handler::NONE | handler::REFUSE)
    }
    /// True if what is done beside counting its calls is all about locks.
    fn is_lock_only(self) -> bool {
        let handler = crate::lock::acquires(self.handler) || self.handler == handler::LOCK_RELEASE;
        handler && !self.traced && self.flags & SLOT_FRAMED == 0
    }
    /// What a call's arguments say of its bytes: their number, or what its result is to be multiplied with. Handlers of exec find
    /// another argument by the same number.
    pub fn size(self, r: &crate::enter::Registers) -> Option<u64> {
        if self.handler == handler::EXEC_ENV {
            return None;
        }
        match self.size_arg {
            argument @ 0..RETURNED_SIZE => Some(r.argument(argument)),
            RETURNED_SIZE => Some(1),
            times @ RETURNED_TIMES..=RETURNED_TIMES_LAST => Some(r.argument(times - RETURNED_TIMES)),
            _ => None,
        }
    }
    /// Bytes of a call that has returned `result`; `size` is from [`Kind::size`]. Errors are below 0.
    pub fn bytes(self, size: u64, result: u64) -> u64 {
        match self.size_arg {
            0..RETURNED_SIZE => size,
            _ => size.saturating_mul((result as i64).max(0) as u64),
        }
    }
    /// False for those that take a lock only if it is free.
    pub fn waits_for_lock(self) -> bool {
        self.class == class::LOCK
    }
    /// True if its calls are timed in this recording.
    pub fn is_timed(self) -> bool {
        self.class != class::COUNT_ONLY && arena::header().timing != TIMING_COUNT
    }
}

/// The slot's record in the process extent.
pub fn record(slot: u32) -> &'static SlotRecord {
    // SAFETY: the table lies within the process extent, which is never unmapped.
    unsafe { &*(process::base().add(SLOTS_OFFSET) as *const SlotRecord).add(slot as usize) }
}

/// The slot's kind.
pub fn kind(slot: u32) -> Kind {
    let word = KINDS[slot as usize].load(Ordering::Relaxed);
    let [class, handler, flags, size] = word.to_le_bytes();
    Kind { class, handler, flags, size_arg: size & 0x7f, traced: word & TRACED != 0 }
}

/// Reserves `count` slot numbers; `None` if there are not so many left.
pub fn reserve(count: u32) -> Option<u32> {
    let used = &process::header().slot_count;
    let first = used.fetch_add(count, Ordering::Relaxed);
    if first as usize + count as usize > SLOT_CAPACITY {
        used.fetch_sub(count, Ordering::Relaxed);
        process::header().slots_refused.fetch_add(count as u64, Ordering::Relaxed);
        return None;
    }
    Some(first)
}

/// Describes a slot before its stub can be called.
pub fn describe(slot: u32, caller: u16, symbol: u32, address: u64, api: Option<&ApiEntry>, name: &[u8], flags: u8) {
    let r = record(slot);
    let default = if is_sanitizer(name) { class::COUNT_ONLY } else { class::COMPUTE };
    let (class, handler, size_arg) =
        api.map_or((default, handler::NONE, NO_SIZE), |a| (a.class, a.handler, a.size_arg));
    let mut word = u32::from_le_bytes([class, handler, flags, size_arg & 0x7f]);
    if arena::is_traced(name) {
        word |= TRACED;
    }
    r.caller.store(caller, Ordering::Relaxed);
    r.symbol.store(symbol, Ordering::Relaxed);
    r.address.store(address, Ordering::Relaxed);
    r.kind.store(word & !TRACED, Ordering::Release);
    KINDS[slot as usize].store(word, Ordering::Release);
    set_edge(slot, caller, 0xfffe);
    // SAFETY: a static of the agent.
    unsafe { arch::transect_flags[slot as usize].store(entry(kind(slot)), Ordering::Release) };
    if entry(kind(slot)) == QUICK_RELEASE {
        crate::lock::note_release(slot);
    }
}

/// Entry points of sanitizer runtimes take their return address as the place of the access.
fn is_sanitizer(name: &[u8]) -> bool {
    name.strip_prefix(b"__").is_some_and(|n| {
        [&b"tsan_"[..], b"asan_", b"ubsan_", b"sanitizer_", b"msan_", b"lsan_", b"hwasan_", b"sanitizer_cov_"]
            .iter()
            .any(|p| n.starts_with(p))
    })
}

/// How the trampoline enters acquisitions that are mostly counted.
const QUICK_ACQUIRE: u8 = 2;
/// How it enters releases that are mostly counted.
pub const QUICK_RELEASE: u8 = 3;

/// How it enters acquisitions of rwlocks that are taken to read.
const QUICK_READ: u8 = 4;

/// How it enters `syscall`, whose calls are mostly counted.
const QUICK_SYSTEM_CALL: u8 = 5;

/// How the trampoline enters a slot: 0 plain timing, 1 through Rust, 2 to 4 the quick paths of locks and 5 that of system calls,
/// which fall back to Rust when there is more to do than to count.
fn entry(kind: Kind) -> u8 {
    let plain = kind.class == class::COMPUTE
        && kind.handler == handler::NONE
        && kind.size_arg == NO_SIZE & 0x7f
        && !kind.traced
        && arena::header().options & OPTION_HISTOGRAM == 0
        && !published::on();
    match kind.handler {
        _ if plain => 0,
        handler::LOCK_ACQUIRE if crate::lock::knows() && !kind.traced && !is_full() => QUICK_ACQUIRE,
        handler::READ_ACQUIRE if crate::lock::knows() && !kind.traced && !is_full() => QUICK_READ,
        // In it the trampoline notes when the lock was released.
        handler::LOCK_RELEASE if crate::lock::knows() && !kind.traced => QUICK_RELEASE,
        handler::SYSCALL if !kind.traced && kind.flags & SLOT_FRAMED == 0 && !is_full() => QUICK_SYSTEM_CALL,
        _ => 1,
    }
}

fn set_edge(slot: u32, caller: u16, callee: u16) {
    // SAFETY: a static of the agent.
    unsafe { arch::transect_edges[slot as usize].store(caller as u32 | (callee as u32) << 16, Ordering::Relaxed) };
}

/// Calling and called object; the latter is 0xfffe while unknown.
pub fn edge(slot: u32) -> (u16, u16) {
    // SAFETY: a static of the agent.
    let e = unsafe { arch::transect_edges[slot as usize].load(Ordering::Relaxed) };
    (e as u16, (e >> 16) as u16)
}

/// The word the stub jumps through.
pub fn target_word(slot: u32) -> u64 {
    // SAFETY: a static of the agent.
    unsafe { &raw const arch::transect_targets[slot as usize] as u64 }
}

/// Where the stub goes now.
pub fn target(slot: u32) -> u64 {
    // SAFETY: a static of the agent.
    unsafe { arch::transect_targets[slot as usize].load(Ordering::Relaxed) }
}

/// Sets where the stub goes. Calls through it are counted here, so a function of a static component is entered past
/// its entry code.
pub fn set_target(slot: u32, address: u64) {
    let address = match object::find(address) {
        Some(object) => static_component::past_entry(object, address),
        None => address,
    };
    // SAFETY: a static of the agent.
    unsafe { arch::transect_targets[slot as usize].store(address, Ordering::Release) };
}

/// Publishes the object that holds the slot's target, once known.
pub fn set_callee(slot: u32, object: u16, address: u64) {
    publish_callee(slot, static_component::component_at(object, address), address);
}

/// As [`set_callee`], for the component itself, not the object that holds it.
pub fn publish_callee(slot: u32, component: u16, address: u64) {
    let r = record(slot);
    r.target.store(address, Ordering::Release);
    r.callee_plus_one.store(component + 1, Ordering::Release);
    set_edge(slot, edge(slot).0, component);
}

/// Completes the slot of a static component's function: `target` is where its code goes on.
pub fn enter_static(slot: u32, target: u64, component: u16, address: u64) {
    // SAFETY: a static of the agent.
    unsafe { arch::transect_targets[slot as usize].store(target, Ordering::Release) };
    publish_callee(slot, component, address);
}

/// First period of a slot in the timing mode of this recording; `u32::MAX` = it need not be entered at all.
pub fn first_period(kind: Kind) -> u32 {
    let h = arena::header();
    let sampled = kind.handler == handler::SYSCALL;
    if kind.always_enters() && !sampled && !(kind.is_lock_only() && h.timing == TIMING_COUNT) {
        return 1;
    }
    match h.timing {
        _ if !kind.is_timed() => u32::MAX,
        _ => fixed_period_of(kind).unwrap_or(1),
    }
}

/// Calls per timed call where that is fixed and more than one.
pub fn fixed_period() -> Option<u32> {
    let h = arena::header();
    (h.timing == TIMING_EVERY && h.every > 1 && !ALL_TIMED.load(Ordering::Relaxed)).then_some(h.every)
}

/// The same for calls of one kind. Those that wait are all timed: few of them take long, and no other tells how long.
pub fn fixed_period_of(kind: Kind) -> Option<u32> {
    fixed_period().filter(|_| kind.class != class::WAIT)
}

/// Whether every call is timed for now, whatever the fixed period: while it is measured what that costs.
pub fn time_all(all: bool) {
    ALL_TIMED.store(all, Ordering::Relaxed);
}

/// True if every call is timed.
pub fn is_full() -> bool {
    arena::header().timing == TIMING_FULL
}

/// True if periods follow the overhead budget.
pub fn adaptive() -> bool {
    arena::header().timing == TIMING_ADAPTIVE
}

/// Keeps a name asked for with dlsym; `None` if the pool is full.
pub fn keep_name(name: &[u8]) -> Option<u32> {
    let used = &process::header().names_used;
    let at = used.fetch_add(name.len() as u32 + 1, Ordering::Relaxed);
    if at as usize + name.len() + 1 > NAMES_CAPACITY {
        used.fetch_sub(name.len() as u32 + 1, Ordering::Relaxed);
        return None;
    }
    // SAFETY: the range was reserved above and lies within the pool; fresh memory is zero, so the name is terminated.
    unsafe {
        core::ptr::copy_nonoverlapping(name.as_ptr(), process::base().add(NAMES_OFFSET + at as usize), name.len());
    }
    Some(at)
}

/// The slot's histogram number, handed out at first use.
pub fn histogram(slot: u32) -> Option<u32> {
    let cell = &record(slot).histogram_plus_one;
    match cell.load(Ordering::Relaxed) {
        0 => {
            let number = process::header().histogram_count.fetch_add(1, Ordering::Relaxed) + 1;
            if number as usize > HISTOGRAM_CAPACITY {
                cell.store(u32::MAX, Ordering::Relaxed);
                return None;
            }
            match cell.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Some(number - 1),
                Err(other) => Some(other - 1),
            }
        }
        u32::MAX => None,
        n => Some(n - 1),
    }
}
