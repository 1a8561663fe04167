//! Threads: registration at first call or start, the private state behind the TLS words, the end.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::arena::{EXTENT_SIZE, EXTENT_THREAD};
use transect_event_abi::thread::{COUNTERS_OFFSET, FlowCounters, THREAD_ENDED, THREAD_LIVE, ThreadHeader};

use crate::arch::syscall as sys;
use crate::context::{self, Contexts};
use crate::frame::{self, Frame};
use crate::hold::Holds;
use crate::lock::{Gap, QUICK_ENTRIES, Quick};
use crate::{active, arch, arena, extent_map, process, published, state_pool};

/// Rounds of destructors after which a thread is taken to be at its end (PTHREAD_DESTRUCTOR_ITERATIONS).
const DESTRUCTOR_ROUNDS: u32 = 4;

/// A thread's private state; never shared with the recorder, copied by fork.
#[repr(C)]
pub struct ThreadState {
    /// Free frames.
    pub free: *mut Frame,
    /// Innermost open frame; the sentinel if there is none.
    pub top: *mut Frame,
    /// The thread's extent.
    pub header: *mut ThreadHeader,
    /// Shortest time between two timed calls of a flow that needs no longer period, in 256 ticks.
    pub tau: u32,
    /// Destructor rounds left.
    pub rounds: u32,
    /// Own stack, lowest address.
    pub stack_low: u64,
    /// Own stack, highest address.
    pub stack_high: u64,
    /// Start of the window in which the cost of timing is held against the budget.
    pub window_start: u64,
    /// The thread's CPU time at its start, ns.
    pub window_cpu_ns: u64,
    /// How often it had lost its CPU then.
    pub switches: u64,
    /// When τ was last adjusted.
    pub steered: u64,
    /// Part of its time in which the thread has a CPU, see [`crate::period::on_cpu`].
    pub on_cpu: u32,
    /// What a timed call costs here, ticks.
    pub call_cost: u32,
    /// What the timed calls in the window cost, ticks.
    pub window_cost: u32,
    /// State of the random generator.
    pub random: u32,
    /// Searches of the frame pool.
    pub reclaims: u32,
    /// 1: the clock may no longer be read on this thread.
    pub stopped: u32,
    /// Its thread control block (a `pthread_t`, with glibc).
    pub control_block: u64,
    /// 1 while in use.
    pub used: AtomicU32,
    /// Uncontended acquisitions until the next one whose hold time is taken.
    pub hold_countdown: u32,
    /// Releases until the next one that is timed.
    pub release_countdown: u32,
    /// The gap that `hold_countdown` counts down.
    pub hold_gap: Gap,
    /// The gap that `release_countdown` counts down.
    pub release_gap: Gap,
    /// Locks held whose acquisition time was taken.
    pub holds: Holds,
    /// For environments passed on to children.
    pub environment: crate::environment::Buffer,
    /// Cache of lock records.
    pub quick: [Quick; QUICK_ENTRIES],
    /// Its record in the [`crate::published`] pages; null if it has none.
    pub published: *const transect_event_abi::published::Thread,
    /// The regions in which it is.
    pub contexts: Option<&'static Contexts>,
    /// 1 once frames were given to it; they stay with the state, whichever thread it serves.
    pub has_frames: u32,
    /// While it is free: the next free one.
    pub next_free: AtomicU32,
    /// Bottom of the open frames.
    pub sentinel: Frame,
}

static REFUSED: AtomicU32 = AtomicU32::new(0);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
static SET_SPECIFIC: AtomicU64 = AtomicU64::new(0);

/// Notes the key whose destructor tells us of a thread's end, and `pthread_setspecific`.
pub fn set_end_key(key: u32, set_specific: u64) {
    SET_SPECIFIC.store(set_specific, Ordering::Relaxed);
    KEY.store(key, Ordering::Release);
}

fn arm_destructor(state: *mut ThreadState) {
    let key = KEY.load(Ordering::Acquire);
    let set = SET_SPECIFIC.load(Ordering::Relaxed);
    if key != u32::MAX && set != 0 {
        // SAFETY: the address of pthread_setspecific in the program's own libc.
        let set: extern "C" fn(u32, *mut ThreadState) -> i32 = unsafe { core::mem::transmute(set) };
        set(key, state);
    }
}

/// True if `record` lies in this thread's counters.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn owns(state: *const ThreadState, record: *const FlowCounters) -> bool {
    // SAFETY: `state` is the caller's own.
    unsafe {
        (record as u64).wrapping_sub((*state).header as u64) < EXTENT_SIZE as u64
            || (*state)
                .contexts
                .is_some_and(|contexts| extent_map::number_at(record.cast()).is_some_and(|e| contexts.has(e)))
    }
}

/// True if an address lies on the thread's own stack (not a coroutine's, not an alternate signal stack).
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn on_own_stack(state: *const ThreadState, address: u64) -> bool {
    // SAFETY: see above.
    unsafe { address >= (*state).stack_low && address < (*state).stack_high }
}

/// Gives the calling thread a record. `start_routine` is 0 for main and unknown threads. Null if there is no memory.
pub fn register(start_routine: u64, main: bool, stack_high: u64, stack_size: u64) -> *mut ThreadState {
    if refuses_all() || process::base().is_null() {
        return core::ptr::null_mut();
    }
    let Some(state) = state_pool::take() else { return core::ptr::null_mut() };
    let Some(index) = arena::allocate(EXTENT_THREAD) else {
        // SAFETY: taken just now. The thread does not ask again at its next call.
        unsafe {
            state_pool::give(state);
            arch::set_counters((&raw const arch::transect_ended_counters).cast_mut().cast());
        }
        return core::ptr::null_mut();
    };
    let base = extent_map::address(index);
    let now = arch::ticks();
    // SAFETY: the state and the extent belong to this thread alone until it ends.
    unsafe {
        let h = base as *mut ThreadHeader;
        let sentinel = &raw mut (*state).sentinel;
        (*sentinel).sp = u64::MAX;
        (*sentinel).slot = 0;
        (*sentinel).parent = sentinel;
        (*state).top = sentinel;
        (*state).header = h;
        (*state).tau = crate::period::first_tau();
        (*state).rounds = DESTRUCTOR_ROUNDS;
        (*state).stack_high = stack_high;
        (*state).stack_low = stack_high.saturating_sub(stack_size);
        (*state).window_start = now;
        (*state).window_cpu_ns = 0;
        (*state).switches = 0;
        (*state).steered = now;
        (*state).on_cpu = crate::period::ALWAYS_ON_CPU;
        (*state).window_cost = 0;
        (*state).call_cost = crate::period::current().cost_of(0);
        (*state).random = (now as u32) | 1;
        (*state).holds = Holds::none();
        (*state).quick = [const { Quick::none() }; QUICK_ENTRIES];
        (*h).process.store(process::extent(), Ordering::Relaxed);
        (*h).start_ticks
            .store(if main { process::header().start_ticks.load(Ordering::Relaxed) } else { now }, Ordering::Relaxed);
        (*h).start_routine.store(start_routine, Ordering::Relaxed);
        if let Some(contexts) = (*state).contexts {
            contexts.clear();
        }
        (*state).stopped = arch::clock_is_gone().into();
        (*state).hold_countdown = 0;
        (*state).release_countdown = 0;
        (*state).hold_gap = Gap::none();
        (*state).release_gap = Gap::none();
        (*state).control_block = arch::thread_pointer();
        if main {
            note_name(h);
        } else {
            // A new thread has its creator's name; asking the kernel might offend a system call filter.
            (*h).name[0].store(MAIN_NAME[0].load(Ordering::Relaxed), Ordering::Relaxed);
            (*h).name[1].store(MAIN_NAME[1].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if !main {
            active::start_parallel();
            active::change(1);
        }
        (*h).tid.store(number(), Ordering::Relaxed);
        (*state).published = published::find(h);
        (*h).start_integral.store(integral(state, now), Ordering::Relaxed);
        (*h).state.store(THREAD_LIVE, Ordering::Release);
        // A signal between these two stores still counts into the boot counters: its calls are the only ones lost.
        arch::set_thread(state);
        arch::set_counters(base.add(COUNTERS_OFFSET).cast());
    }
    state
}

/// The clock of active threads at a time stamp: the kernel's, or the agent's own.
unsafe fn integral(state: *const ThreadState, ticks: u64) -> u64 {
    // SAFETY: `state` is the calling thread's.
    if published::on() { unsafe { published::attribution(state, ticks) } } else { active::integral(ticks) }
}

/// Registers a thread whose start was not seen.
pub fn register_unseen() -> *mut ThreadState {
    let state = {
        let tp = arch::thread_pointer();
        let sp = arch::stack_pointer();
        let near = tp > sp && tp - sp < 64 << 20;
        register(0, false, if near { tp } else { 0 }, if near { stack_limit().min(8 << 20) } else { 0 })
    };
    if !state.is_null() {
        arm_destructor(state);
    }
    state
}

/// Where in a thread's control block its number is, 0 if that is not known.
static NUMBER_OFFSET: AtomicU64 = AtomicU64::new(0);
/// The places in those of glibc and musl.
const NUMBER_OFFSETS: [u64; 3] = [0x2d0, 0x30, 0x38];
/// Soft limit of the stack at the process' start: the C library makes threads' stacks of this size.
static STACK_LIMIT: AtomicU64 = AtomicU64::new(8 << 20);

/// Looks, in the main thread, at what the kernel would have to be asked for later: a filter of system calls may have come by
/// then that ends the program for it.
pub fn prepare() {
    STACK_LIMIT.store(sys::stack_limit(), Ordering::Relaxed);
    let (block, number) = (arch::thread_pointer(), sys::gettid());
    // SAFETY: the control block of a C library that is larger than that; its first word points to itself.
    let is_at = |offset: &u64| unsafe {
        block != 0 && *(block as *const u64) == block && *((block + offset) as *const u32) == number
    };
    NUMBER_OFFSET.store(NUMBER_OFFSETS.into_iter().find(is_at).unwrap_or(0), Ordering::Relaxed);
}

/// Stack that the program allows new threads, bytes.
pub fn stack_limit() -> u64 {
    STACK_LIMIT.load(Ordering::Relaxed)
}

/// The calling thread's number.
pub fn number() -> u32 {
    // What was made by a bare clone has its maker's control block: the kernel is asked where it may be.
    if !crate::confinement::confined() {
        return sys::gettid();
    }
    let (block, offset) = (arch::thread_pointer(), NUMBER_OFFSET.load(Ordering::Relaxed));
    // SAFETY: the first word of what a thread pointer leads to is mapped; where it points to itself it begins a C library's
    // control block, in which the kernel has put the number before the thread ran.
    let known = if offset == 0 || block == 0 || unsafe { *(block as *const u64) } != block {
        0
    } else {
        // SAFETY: as above.
        unsafe { *((block + offset) as *const u32) }
    };
    if known == 0 { sys::gettid() } else { known }
}

/// The process' name as of its start.
static MAIN_NAME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Copies the kernel's name of the calling main thread into its record.
unsafe fn note_name(header: *mut ThreadHeader) {
    let mut name = [0u8; 16];
    sys::thread_name(&mut name);
    let (low, high) = name.split_at(8);
    for (i, part) in [low, high].into_iter().enumerate() {
        MAIN_NAME[i].store(word(part), Ordering::Relaxed);
        // SAFETY: the calling thread's header.
        unsafe { (*header).name[i].store(word(part), Ordering::Relaxed) };
    }
}

/// Sets the name in a thread's record from a zero-terminated string of the program.
///
/// # Safety
/// `name` is what the program passes to the kernel as a name; `state` is in use.
pub unsafe fn set_name(state: *mut ThreadState, name: u64) {
    if name < 4096 {
        return;
    }
    let mut bytes = [0u8; 16];
    // SAFETY: see above; reading stops at the end of the string or after 15 bytes, as the kernel's does.
    unsafe {
        for (i, b) in bytes.iter_mut().take(15).enumerate() {
            *b = *((name + i as u64) as *const u8);
            if *b == 0 {
                break;
            }
        }
        let (low, high) = bytes.split_at(8);
        (*(*state).header).name[0].store(word(low), Ordering::Relaxed);
        (*(*state).header).name[1].store(word(high), Ordering::Relaxed);
    }
}

/// `pthread_setname_np(thread, name)`: the thread may be another one. Returns no flags.
pub fn renaming(r: &crate::enter::Registers) -> u32 {
    for state in state_pool::all() {
        // SAFETY: a state in use has a header until it ends, and a thread that is being named has not ended.
        unsafe {
            if (*state).used.load(Ordering::Acquire) != 0 && (*state).control_block == r.rdi {
                set_name(state, r.rsi);
                return 0;
            }
        }
    }
    0
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |w, &b| w << 8 | b as u64)
}

/// A start routine with its argument, between `pthread_create` and the new thread.
#[repr(C)]
pub struct Start {
    routine: AtomicU64,
    argument: AtomicU64,
    stack_size: AtomicU64,
    used: AtomicU32,
}

static STARTS: [Start; 4096] = [const {
    Start {
        routine: AtomicU64::new(0),
        argument: AtomicU64::new(0),
        stack_size: AtomicU64::new(0),
        used: AtomicU32::new(0),
    }
}; 4096];

/// Wraps a start routine: the pair to pass to the wrapper, or `None` if too many threads are being started.
pub fn wrap(routine: u64, argument: u64, stack_size: u64) -> Option<*const Start> {
    let start = STARTS.iter().find(|s| s.used.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok())?;
    start.routine.store(routine, Ordering::Relaxed);
    start.argument.store(argument, Ordering::Relaxed);
    start.stack_size.store(stack_size, Ordering::Release);
    Some(start)
}

/// Frees a wrapped start that no thread took because pthread_create failed. Other addresses are ignored.
pub fn unwrap_failed(argument: u64) {
    let offset = argument.wrapping_sub(STARTS.as_ptr() as u64);
    if let Some(start) = STARTS.get(offset as usize / size_of::<Start>())
        && offset.is_multiple_of(size_of::<Start>() as u64)
    {
        start.used.store(0, Ordering::Release);
    }
}

/// First code of a wrapped thread, on its own stack: registers it and hands out `[routine, argument]`.
///
/// # Safety
/// Called by `transect_thread_start` only: `start` came from [`wrap`], `out` is on the calling thread's stack.
pub unsafe extern "C" fn thread_started(start: *const Start, out: *mut [u64; 2]) {
    // SAFETY: `start` came through pthread_create from `wrap`; `out` is on the wrapper's stack.
    unsafe {
        let routine = (*start).routine.load(Ordering::Acquire);
        *out = [routine, (*start).argument.load(Ordering::Relaxed)];
        let size = (*start).stack_size.load(Ordering::Relaxed);
        (*start).used.store(0, Ordering::Release);
        if arch::thread().is_null() {
            let state = register(routine, false, out as u64 + 4096, size);
            if !state.is_null() {
                arm_destructor(state);
            }
        }
    }
}

/// Destructor of our key: ends the record in the last round, so that other destructors are still counted.
///
/// # Safety
/// Called by libc with the value set for our key: null or the state of the thread that ends.
pub unsafe extern "C" fn thread_ending(state: *mut ThreadState) {
    if state.is_null() || state != arch::thread() {
        return;
    }
    // SAFETY: the calling thread's own state.
    unsafe {
        if (*state).rounds > 1 {
            (*state).rounds -= 1;
            arm_destructor(state);
            return;
        }
        end(state);
    }
}

/// Ends the calling thread's record.
unsafe fn end(state: *mut ThreadState) {
    // SAFETY: the caller's own state; the TLS words are cleared before the state is given back.
    unsafe {
        let now = arch::ticks();
        let h = (*state).header;
        let mut bound = frame::FRAME_CAPACITY;
        while frame::is_frame((*state).top) && bound > 0 {
            bound -= 1;
            let top = (*state).top;
            (*state).top = (*top).parent;
            if (*top).open == 0 {
                continue;
            }
            if on_own_stack(state, (*top).sp) {
                frame::abandon(state, top, now);
            } else {
                // A coroutine's call may yet return, on another thread.
                sink(top);
            }
        }
        crate::wait::leave_all(state, now);
        (*h).end_integral.store(integral(state, now), Ordering::Relaxed);
        (*h).end_ticks.store(now, Ordering::Relaxed);
        active::change(-1);
        // What it calls from here on must neither reach the record, which the recorder may give to another thread, nor
        // make a new one, whose end nobody would see.
        arch::set_counters((&raw const arch::transect_ended_counters).cast_mut().cast());
        arch::set_thread(core::ptr::null_mut());
        (*state).control_block = 0;
        (*h).state.store(THREAD_ENDED, Ordering::Release);
        state_pool::give(state);
    }
}

/// True if the calling thread's record has ended.
pub fn has_ended() -> bool {
    arch::counters().cast_const() == (&raw const arch::transect_ended_counters).cast()
}

/// Counters in no record.
pub fn uncounted() -> *mut FlowCounters {
    (&raw const SINK).cast_mut()
}

/// Lets the return of an open call go uncounted.
unsafe fn sink(frame: *mut Frame) {
    // SAFETY: an open frame of the calling thread.
    unsafe {
        (*frame).record = uncounted();
        (*frame).flags &= frame::PRESERVING;
        (*frame).inner_count = 0;
        (*frame).tail = 0;
    }
}

/// Where calls are folded that were entered in the parent of a fork and return in the child, or on a thread that has
/// ended and return on another.
static SINK: FlowCounters = FlowCounters {
    countdown: AtomicU32::new(0),
    last: AtomicU32::new(0),
    issued: AtomicU64::new(0),
    timed: AtomicU64::new(0),
    total: AtomicU64::new(0),
    own: AtomicU64::new(0),
    attributed: AtomicU64::new(0),
    variance: AtomicU64::new(0),
    period: AtomicU32::new(1),
    depth: core::sync::atomic::AtomicU16::new(0),
    abandoned: core::sync::atomic::AtomicU16::new(0),
};

/// In the child of a fork: takes the calling thread away from its parent's record. Returns its state.
pub fn detach() -> *mut ThreadState {
    let state = arch::thread();
    arch::set_counters((&raw const arch::transect_boot_counters).cast_mut().cast());
    arch::set_thread(core::ptr::null_mut());
    for s in &STARTS {
        s.used.store(0, Ordering::Relaxed);
    }
    if state.is_null() {
        return state;
    }
    // SAFETY: the child has this one thread; `state` and the frames are its private copies.
    unsafe {
        let mut open = (*state).top;
        let mut bound = frame::FRAME_CAPACITY;
        while frame::is_frame(open) && bound > 0 {
            sink(open);
            open = (*open).parent;
            bound -= 1;
        }
    }
    state
}

/// In the child of a fork: gives a detached thread a record in the child's process.
///
/// # Safety
/// `state` is what [`detach`] returned.
pub unsafe fn attach(state: *mut ThreadState) {
    let Some(index) = (!state.is_null()).then(|| arena::allocate(EXTENT_THREAD)).flatten() else { return };
    let base = extent_map::address(index);
    // SAFETY: as in `register`.
    unsafe {
        let h = base as *mut ThreadHeader;
        let start = process::header().start_ticks.load(Ordering::Relaxed);
        (*state).header = h;
        (*state).holds = Holds::none();
        (*state).quick = [const { Quick::none() }; QUICK_ENTRIES];
        (*h).process.store(process::extent(), Ordering::Relaxed);
        (*h).start_ticks.store(start, Ordering::Relaxed);
        (*h).tid.store(sys::gettid(), Ordering::Relaxed);
        (*state).published = published::find(h);
        (*h).start_integral.store(integral(state, start), Ordering::Relaxed);
        note_name(h);
        (*h).state.store(THREAD_LIVE, Ordering::Release);
        arch::set_thread(state);
        arch::set_counters(base.add(COUNTERS_OFFSET).cast());
        context::reopen(state);
    }
}

/// Whether no thread of this process gets a record.
pub fn refuses_all() -> bool {
    REFUSED.load(Ordering::Relaxed) != 0
}

/// No thread of this process gets a record any more.
pub fn refuse_all() {
    REFUSED.store(1, Ordering::Relaxed);
}
