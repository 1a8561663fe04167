//! x86-64: the trampoline, system calls, the time stamp counter, 16-byte compare-and-swap.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use transect_event_abi::process::SLOT_CAPACITY;
use transect_event_abi::thread::{FlowCounters, LockRecord, ThreadHeader};

use crate::frame::Frame;
use crate::hold::Holds;
use crate::thread::ThreadState;

pub mod syscall;

global_asm!(
    include_str!("trampoline.s"),
    SLOTS = const SLOT_CAPACITY,
    F_NEXT = const offset_of!(Frame, next),
    F_PARENT = const offset_of!(Frame, parent),
    F_RET = const offset_of!(Frame, ret),
    F_SP = const offset_of!(Frame, sp),
    F_RBX = const offset_of!(Frame, rbx),
    F_RECORD = const offset_of!(Frame, record),
    F_START = const offset_of!(Frame, start),
    F_CHILD = const offset_of!(Frame, child),
    F_INTEGRAL = const offset_of!(Frame, integral),
    F_RAX = const offset_of!(Frame, rax),
    F_RDX = const offset_of!(Frame, rdx),
    F_TARGET = const offset_of!(Frame, target),
    F_SLOT = const offset_of!(Frame, slot),
    F_FLAGS = const offset_of!(Frame, flags),
    PRESERVE = const crate::frame::PRESERVING,
    F_KEPT = const offset_of!(Frame, kept),
    F_WEIGHT = const offset_of!(Frame, weight),
    F_OPEN = const offset_of!(Frame, open),
    F_SCRATCH = const offset_of!(Frame, scratch),
    C_LAST = const offset_of!(FlowCounters, last),
    C_ISSUED = const offset_of!(FlowCounters, issued),
    C_TIMED = const offset_of!(FlowCounters, timed),
    C_TOTAL = const offset_of!(FlowCounters, total),
    C_OWN = const offset_of!(FlowCounters, own),
    C_ATTRIBUTED = const offset_of!(FlowCounters, attributed),
    C_PERIOD = const offset_of!(FlowCounters, period),
    C_DEPTH = const offset_of!(FlowCounters, depth),
    T_FREE = const offset_of!(ThreadState, free),
    T_TOP = const offset_of!(ThreadState, top),
    T_TAU = const offset_of!(ThreadState, tau),
    T_HOLD = const offset_of!(ThreadState, hold_countdown),
    T_RELEASE = const offset_of!(ThreadState, release_countdown),
    T_HELD = const offset_of!(ThreadState, holds) + offset_of!(Holds, held),
    T_RELEASED = const offset_of!(ThreadState, holds) + offset_of!(Holds, released),
    T_DITHER = const offset_of!(ThreadState, holds) + offset_of!(Holds, dither),
    T_STAMP = const offset_of!(ThreadState, holds) + offset_of!(Holds, stamp),
    T_QUICK = const offset_of!(ThreadState, quick),
    NUMBERS = const crate::system_call::NUMBERS,
    RWLOCK_WRITER = const crate::lock::RWLOCK_WRITER,
    Q_FACTOR = const crate::lock::QUICK_FACTOR.cast_signed(),
    Q_SHIFT = const crate::lock::QUICK_SHIFT,
    L_ACQUISITIONS = const offset_of!(LockRecord, acquisitions),
    T_HEADER = const offset_of!(ThreadState, header),
    H_OUTERMOST = const offset_of!(ThreadHeader, outermost_ticks),
    H_OUTERMOST_ATTRIBUTED = const offset_of!(ThreadHeader, outermost_attributed),
    slow_enter = sym crate::enter::slow_enter,
    slow_exit = sym crate::exit::slow_exit,
    static_enter = sym crate::static_entry::static_enter,
    system_calls = sym crate::system_call::ENTERS,
    loader_event = sym crate::loader::loader_event,
    enter_region = sym crate::context::enter_region,
    thread_started = sym crate::thread::thread_started,
);

// The expressions of the unwind information hold these two in one byte, and `slot` with `flags` is one store.
const _: () = assert!(offset_of!(Frame, ret) < 64 && offset_of!(Frame, rbx) < 64);
const _: () = assert!(offset_of!(Frame, flags) == offset_of!(Frame, slot) + 4);
// The quick paths of locks scale by these sizes.
const _: () = assert!(size_of::<crate::hold::Held>() == 24 && size_of::<crate::lock::Quick>() == 32);

/// Distance between two stubs in bytes; the assembler aligns each to 16.
pub const STUB_SIZE: usize = 48;

unsafe extern "C" {
    /// First stub.
    pub static transect_stubs: [u8; SLOT_CAPACITY * STUB_SIZE];
    /// Counters of threads that have none of their own.
    pub static transect_boot_counters: [FlowCounters; SLOT_CAPACITY];
    /// Counters of threads that have ended and still run code.
    pub static transect_ended_counters: [FlowCounters; SLOT_CAPACITY];
    /// Where each stub goes.
    pub static transect_targets: [AtomicU64; SLOT_CAPACITY];
    /// Non-zero: the slot enters through Rust.
    pub static transect_flags: [AtomicU8; SLOT_CAPACITY];
    /// Calling and called object of each slot.
    pub static transect_edges: [AtomicU32; SLOT_CAPACITY];
    /// 2^20 / max(1, n).
    pub static transect_reciprocals: [AtomicU64; 4096];
    /// Address of the active-thread clock.
    pub static transect_active: AtomicU64;
    /// Time stamp at the start of the recording.
    pub static transect_epoch: AtomicU64;
    /// Ticks that an empty timed call shows; taken off every duration.
    pub static transect_empty: AtomicU64;
    /// Non-zero once a second thread exists.
    pub static transect_parallel: AtomicU64;
    /// Where timed calls return to.
    pub static transect_return_site: u8;
    /// Where open calls return once the clock may not be read.
    pub static transect_quiet_return_site: u8;
    /// Replacement of the loader's event hook.
    pub fn transect_loader_event();
    /// Start routine of wrapped threads.
    pub fn transect_thread_start();
    /// Where sites of feature regions report; see `trampoline.s`.
    pub fn transect_flow_region();
    /// Where the entry code of static components' functions goes.
    pub fn transect_static_enter();
    static _DYNAMIC: u8;
}

/// Address of the agent's own dynamic section: tells which link map is ours.
pub fn own_dynamic() -> u64 {
    &raw const _DYNAMIC as u64
}

/// Address of a slot's stub.
pub fn stub(slot: u32) -> u64 {
    &raw const transect_stubs as u64 + slot as u64 * STUB_SIZE as u64
}

/// The slot whose stub this is.
pub fn slot_of_stub(address: u64) -> Option<u32> {
    let offset = address.wrapping_sub(&raw const transect_stubs as u64);
    (offset < (SLOT_CAPACITY * STUB_SIZE) as u64).then(|| (offset / STUB_SIZE as u64) as u32)
}

/// Address of the return site.
pub fn return_site() -> u64 {
    &raw const transect_return_site as u64
}

/// Address of the return site that reads no clock.
pub fn quiet_return_site() -> u64 {
    &raw const transect_quiet_return_site as u64
}

/// When a thread gave up reading the time stamp counter (`PR_SET_TSC`, strict seccomp), 0 while none has. Threads that it
/// makes may not, either, and it is not known which those are.
static CLOCK_GONE: AtomicU64 = AtomicU64::new(0);

/// Time stamp counter; stands still for threads that may not read it.
#[inline]
pub fn ticks() -> u64 {
    let gone = CLOCK_GONE.load(Ordering::Relaxed);
    if gone != 0 {
        let state = thread();
        // SAFETY: null or the calling thread's own state.
        if state.is_null() || unsafe { (*state).stopped } != 0 {
            return gone;
        }
    }
    // SAFETY: rdtsc has no preconditions in user space unless the kernel disabled it, which was looked at.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// As [`ticks`], after all that the program has done before.
pub fn ticks_in_order() -> u64 {
    // SAFETY: in every x86-64 CPU; waits for earlier instructions.
    unsafe { core::arch::x86_64::_mm_lfence() };
    ticks()
}

/// The calling thread may read the counter no more, nor may threads that are born from now on.
pub fn give_up_clock() {
    let now = ticks().max(1);
    let _ = CLOCK_GONE.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    crate::process::header().clock_gone.store(1, Ordering::Relaxed);
}

/// Whether threads that are born now may not read it.
pub fn clock_is_gone() -> bool {
    CLOCK_GONE.load(Ordering::Relaxed) != 0
}

/// This thread's counters (the TLS word of the stubs).
#[inline]
pub fn counters() -> *mut FlowCounters {
    let value: *mut FlowCounters;
    // SAFETY: the TLS block is in the initial (static) TLS of every thread, since the agent is loaded at start.
    unsafe {
        asm!("mov {0}, qword ptr [rip + transect_tls_counters@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) value,
            options(nostack, readonly, preserves_flags))
    };
    value
}

/// Sets this thread's counters.
#[inline]
pub fn set_counters(value: *mut FlowCounters) {
    // SAFETY: as in `counters`; one store, so that a signal handler sees the old or the new value.
    unsafe {
        asm!("mov {1}, qword ptr [rip + transect_tls_counters@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) value,
            out(reg) _, options(nostack, preserves_flags))
    };
}

/// Thread-local offset of the word that [`counters`] reads: what entry code puts behind `fs:`.
pub fn counters_offset() -> i64 {
    let value: i64;
    // SAFETY: reads a constant of the agent's global offset table.
    unsafe {
        asm!("mov {0}, qword ptr [rip + transect_tls_counters@GOTTPOFF]", out(reg) value,
            options(nostack, readonly, preserves_flags))
    };
    value
}

/// This thread's state, null if it has none.
#[inline]
pub fn thread() -> *mut ThreadState {
    let value: *mut ThreadState;
    // SAFETY: as in `counters`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + transect_tls_thread@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) value,
            options(nostack, readonly, preserves_flags))
    };
    value
}

/// Sets this thread's state.
#[inline]
pub fn set_thread(value: *mut ThreadState) {
    // SAFETY: as in `set_counters`.
    unsafe {
        asm!("mov {1}, qword ptr [rip + transect_tls_thread@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) value,
            out(reg) _, options(nostack, preserves_flags))
    };
}

/// The thread control block's address (`%fs:0`), which lies just above a pthread's stack.
#[inline]
pub fn thread_pointer() -> u64 {
    let value: u64;
    // SAFETY: the psABI puts the thread pointer's own address at %fs:0.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) value, options(nostack, readonly, preserves_flags)) };
    value
}

/// The stack pointer, roughly.
#[inline]
pub fn stack_pointer() -> u64 {
    let value: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {0}, rsp", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Adds to a counter that the calling thread (and its signal handlers) alone writes: one instruction, so a signal handler comes
/// before or after it, and not locked, so it does not wait for the program's stores.
#[inline]
pub fn add_own_u32(to: &AtomicU32, by: u32) {
    // SAFETY: the word is there; what others read meanwhile is the old value or the new one.
    unsafe { asm!("add dword ptr [{}], {:e}", in(reg) to.as_ptr(), in(reg) by, options(nostack)) };
}

/// As [`add_own_u32`].
#[inline]
pub fn add_own_u64(to: &AtomicU64, by: u64) {
    // SAFETY: as there.
    unsafe { asm!("add qword ptr [{}], {}", in(reg) to.as_ptr(), in(reg) by, options(nostack)) };
}

/// Compares the word at `at` with `old` and, if equal, stores `new`: one instruction, so a signal handler comes before
/// or after it, and not locked, so it costs little. Returns success.
///
/// # Safety
/// `at` is aligned and written by the calling thread (and its signal handlers) alone.
#[inline]
pub unsafe fn compare_exchange_own<T>(at: *mut *mut T, old: *mut T, new: *mut T) -> bool {
    let ok: u8;
    // SAFETY: see above.
    unsafe {
        asm!("cmpxchg qword ptr [{at}], {new}", "setz {ok}", at = in(reg) at, new = in(reg) new, ok = lateout(reg_byte) ok,
            inout("rax") old => _, options(nostack));
    }
    ok != 0
}

/// Compares the 16 bytes at `at` with `old` and, if equal, stores `new`. Returns success.
///
/// # Safety
/// `at` is 16-byte aligned and writable.
pub unsafe fn compare_exchange_16(at: *mut u64, old: (u64, u64), new: (u64, u64)) -> bool {
    let ok: u8;
    // SAFETY: rbx is reserved by the compiler, so it is exchanged around the instruction; cmpxchg16b is in every
    // x86-64 CPU since 2006.
    unsafe {
        asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b xmmword ptr [rdi]",
            "setz r8b",
            "mov rbx, rsi",
            inout("rsi") new.0 => _,
            in("rdi") at,
            out("r8b") ok,
            in("rcx") new.1,
            inout("rax") old.0 => _,
            inout("rdx") old.1 => _,
            options(nostack)
        );
    }
    ok != 0
}
