//! The slow half of a timed call's entry: first calls, sampled calls, blocking APIs, special handlers, tail calls.

use core::sync::atomic::Ordering;

use transect_event_abi::api_table::{class, handler};
use transect_event_abi::process::{SLOT_FRAMED, SLOT_STATIC};
use transect_event_abi::thread::{COUNTERS_OFFSET, FlowCounters, TRACE_CAPACITY, TRACE_OFFSET, TraceRecord};

use crate::frame::{self, Frame};
use crate::nesting::{self, Nested};
use crate::slot::{self, Kind};
use crate::thread::{self, ThreadState};
use crate::{
    address_limit, arch, confinement, dlsym, hold, lock, object, process, published, spawn, static_component,
    system_call, tail, wait,
};

/// Countdown of flows that are never timed: a new lease after 2^30 calls.
const LEASE: i64 = 1 << 30;

/// The caller's argument registers as the trampoline saved them; the return address stands above them.
#[repr(C)]
pub struct Registers {
    /// First integer argument.
    pub rdi: u64,
    /// Second.
    pub rsi: u64,
    /// Third.
    pub rdx: u64,
    /// Fourth.
    pub rcx: u64,
    /// Fifth.
    pub r8: u64,
    /// Sixth.
    pub r9: u64,
    /// Number of vector arguments of a variadic call, in al.
    pub rax: u64,
    /// Static chain.
    pub r10: u64,
    /// Slot whose target is entered on pass-through.
    pub slot: u64,
    /// Return address of the call.
    pub ret: u64,
}

impl Registers {
    /// Integer argument by position.
    pub fn argument(&self, index: u8) -> u64 {
        match index {
            0 => self.rdi,
            1 => self.rsi,
            2 => self.rdx,
            3 => self.rcx,
            4 => self.r8,
            _ => self.r9,
        }
    }

    /// Address of the stack slot that holds the return address.
    pub fn sp(&self) -> u64 {
        &raw const self.ret as u64
    }
}

/// Entry through Rust. Returns the frame of a call to be timed, or null: go straight to the target.
///
/// # Safety
/// Called by the trampoline only, with the registers of the call in progress and the caller's rbx.
pub unsafe extern "C" fn slow_enter(slot: u32, registers: *mut Registers, rbx: u64) -> *mut Frame {
    let none = core::ptr::null_mut();
    // SAFETY: the registers lie on our own stack; thread state and counters belong to this thread (module `thread`).
    unsafe {
        let r = &mut *registers;
        let kind = slot::kind(slot);
        let mut state = arch::thread();
        let unseen = state.is_null();
        if unseen {
            // The stub counted into counters shared by all threads without a record: every call is to come here.
            (*arch::counters().add(slot as usize)).countdown.store(0, Ordering::Relaxed);
            if thread::has_ended() {
                crate::process::header().late_calls.fetch_add(1, Ordering::Relaxed);
            } else {
                state = thread::register_unseen();
            }
        }
        if state.is_null() {
            special(slot, kind, r, core::ptr::null_mut());
            return none;
        }
        let known = slot::edge(slot).1 < 0xfffe;
        if !known {
            static_component::follow_primary(slot);
        }
        let mut c = arch::counters().add(slot as usize);
        if unseen {
            // The stub counted into the boot counters.
            add_countdown(c, -1);
        }
        let outer = if r.ret == arch::return_site() { rbx as *mut Frame } else { layered_outer(state, r) };
        let tail = !outer.is_null();
        if !tail && (*c).depth.load(Ordering::Relaxed) != 0 {
            leave_stale(state, r.sp());
        }
        let around = nesting::around((*state).top, c);
        let left = if (*state).stopped == 0 { tail::watched((*state).top, slot, c) } else { None };
        let entered = match around {
            Some(_) if (*state).stopped != 0 => 0,
            Some(_) if tail => arch::ticks_in_order(),
            Some(_) => arch::ticks(),
            None => 0,
        };
        let met = left.map(|left| left.meets(state, outer, c, arch::ticks_in_order()));
        let (mut weight, mut timed) = match around.and_then(|around| around.enters(c)) {
            Some(false) => (0, true),
            // It entered to end another one.
            None if met == Some(false) => (0, false),
            // It entered for a call that was left by a jump.
            _ if !kind.always_enters() && (*c).countdown.load(Ordering::Relaxed) as i32 > 0 => (0, false),
            _ if kind.handler == handler::SYSCALL => system_call::lease(c, kind, r, (*state).stopped != 0),
            _ => lease(c, kind, (*state).stopped != 0),
        };
        timed &= (*state).stopped == 0;
        if kind.traced {
            trace(state, slot, r);
        }
        let mut flags = special(slot, kind, r, state);
        // This very call may give up the clock.
        timed &= (*state).stopped == 0;
        // What was lent is taken back at the return, which only a frame sees; and only a frame tells who jumped on to a
        // function of a static component.
        let framed = flags & frame::LENT != 0 || kind.flags & SLOT_FRAMED != 0;
        let lent_only = !timed && framed && (*state).stopped == 0;
        if lent_only {
            timed = true;
            c = thread::uncounted();
        }
        if flags & frame::LENT != 0 && (!timed || tail) {
            spawn::take_back();
        }
        if !timed {
            if !known {
                resolve(slot);
            }
            return none;
        }
        if lock::acquires(kind.handler) {
            match lock::attempt(state, slot, kind, r) {
                lock::Attempt::Counted => return none,
                lock::Attempt::Timed { weight: w, contended } => {
                    weight = w;
                    flags |= frame::LOCKING | if contended { frame::CONTENDED } else { 0 };
                }
            }
        }
        if kind.handler == handler::LOCK_RELEASE {
            match lock::sample_release(state, c, slot, weight) {
                Some(w) => weight = w,
                None => return none,
            }
        }
        if tail {
            let begin = if weight == 0 { entered } else { arch::ticks() };
            tail::call(state, slot, outer, (!lent_only).then_some((weight, begin)), !kind.always_enters());
            return none;
        }
        leave_stale(state, r.sp());
        let f = frame::take(state);
        if f.is_null() {
            (*(*state).header).untimed.fetch_add(1, Ordering::Relaxed);
            crate::process::header().frames_refused.fetch_add(1, Ordering::Relaxed);
            if flags & frame::LENT != 0 {
                spawn::take_back();
            }
            return none;
        }
        (*c).depth.store((*c).depth.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if !known {
            flags |= frame::RESOLVE;
        }
        if kind.flags & SLOT_STATIC != 0 {
            flags |= frame::PRESERVING | frame::SLOW;
        }
        if flags != 0
            || weight != 1
            || kind.class != class::COMPUTE
            || arch::transect_flags[slot as usize].load(Ordering::Relaxed) != 0
        {
            flags |= frame::SLOW;
        }
        if !slot::is_full() {
            flags |= frame::SAMPLED_CALL;
        }
        (*f).flags = flags;
        (*f).slot = slot;
        (*f).weight = weight;
        (*f).record = c;
        (*f).child = 0;
        (*f).target = slot::target_word(slot);
        (*f).object = r.rdi;
        (*f).size = r.rcx;
        (*f).inner_count = 0;
        (*f).tail = 0;
        (*f).nested = Nested::new(entered);
        (*f).flags |= if around.is_some() { frame::ENTERED | frame::SLOW } else { 0 };
        if let Some(size) = kind.size(r) {
            (*f).size = size;
            (*f).flags |= frame::SIZED | frame::SLOW;
        }
        (*f).sp = r.sp();
        (*f).ret = r.ret;
        (*f).rbx = rbx;
        (*f).parent = (*state).top;
        (*f).open = 1;
        (*state).top = f;
        if weight > 1 && !kind.always_enters() && !lent_only {
            nesting::watch(f, around);
        }
        let free = flags & (frame::LOCKING | frame::CONTENDED) == frame::LOCKING && lock::knows();
        if blocks(kind) && !free && !lent_only {
            wait::enter(state, slot);
            (*f).flags |= frame::WAITING;
        }
        if published::on() {
            (*f).flags |= frame::SLOW;
            published::note(state, &mut *f);
        }
        f
    }
}

/// True if the thread does not count as active inside this API.
fn blocks(kind: Kind) -> bool {
    matches!(kind.class, class::IO | class::WAIT | class::LOCK) && kind.handler != handler::SPIN_ACQUIRE
}

unsafe fn add_countdown(c: *mut FlowCounters, by: i64) {
    // SAFETY: only this thread writes its counters; a signal handler's nested change is complete before ours goes on.
    unsafe {
        arch::add_own_u32(&(*c).countdown, by as u32);
    }
}

/// Ends the gap whose countdown ran out and grants the next one: (calls this one stands for, is it timed).
unsafe fn lease(c: *mut FlowCounters, kind: Kind, stopped: bool) -> (u32, bool) {
    // SAFETY: as in `add_countdown`.
    unsafe {
        let left = (*c).countdown.load(Ordering::Relaxed) as i32 as i64;
        let mut period = (*c).period.load(Ordering::Relaxed);
        let first = period == 0;
        if first {
            period = if stopped { u32::MAX } else { slot::first_period(kind) };
            (*c).period.store(period, Ordering::Relaxed);
        }
        // Never timed: the second call comes back here, when the target is bound and can be looked up.
        let grant = if period != u32::MAX {
            period as i64
        } else if first {
            1
        } else {
            LEASE
        };
        let by = grant - left;
        if by > 0 {
            arch::add_own_u64(&(*c).issued, by as u64);
            add_countdown(c, by);
        }
        // The first call of a longer fixed period ends no gap: it stands for itself.
        (if first { 1 } else { period }, kind.is_timed())
    }
}

/// Frees frames above which the stack has been popped. Calls of coroutines outlive the frames that they were made in, which
/// are used again: the chain may close into a ring, and then none of it is known to be open.
unsafe fn leave_stale(state: *mut ThreadState, sp: u64) {
    // SAFETY: `top` is a frame of the pool or the sentinel, whose `sp` is the highest address.
    unsafe {
        let (low, high) = ((*state).stack_low, (*state).stack_high);
        let own = |a: u64| a >= low && a < high;
        let mut bound = frame::FRAME_CAPACITY;
        while (*(*state).top).sp <= sp && own(sp) && own((*(*state).top).sp) {
            if bound == 0 {
                (*state).top = &raw mut (*state).sentinel;
                return;
            }
            bound -= 1;
            let stale = (*state).top;
            (*state).top = (*stale).parent;
            if (*stale).open != 0 {
                frame::abandon(state, stale, arch::ticks());
            }
        }
    }
}

/// The timed call that goes on by this tail call, where another tool that takes return addresses has put its own place over
/// our return site; else null. Such a place is in no object that the program has loaded.
unsafe fn layered_outer(state: *mut ThreadState, r: &Registers) -> *mut Frame {
    // SAFETY: as in `leave_stale`.
    unsafe {
        let mut f = (*state).top;
        let mut bound = frame::FRAME_CAPACITY;
        while (*f).sp < r.sp() && frame::is_frame(f) && bound > 0 {
            f = (*f).parent;
            bound -= 1;
        }
        let same = frame::is_frame(f) && (*f).sp == r.sp() && (*f).open != 0;
        if same && object::find(r.ret).is_none() { f } else { core::ptr::null_mut() }
    }
}

/// Handlers by name; returns frame flags.
unsafe fn special(slot: u32, kind: Kind, r: &mut Registers, state: *mut ThreadState) -> u32 {
    // SAFETY: the registers are the call's own.
    unsafe {
        match kind.handler {
            handler::THREAD_CREATE => {
                spawn::thread_create(r);
                frame::THREADING
            }
            handler::DLSYM => {
                dlsym::redirect(slot, r);
                0
            }
            handler::EXEC_ENV => {
                spawn::exec_with_environment(kind, r, state);
                0
            }
            handler::EXEC_OWN | handler::EXEC_OWN_PATH | handler::EXEC_LIST | handler::EXEC_LIST_PATH => {
                let in_path = matches!(kind.handler, handler::EXEC_OWN_PATH | handler::EXEC_LIST_PATH);
                let list = matches!(kind.handler, handler::EXEC_LIST | handler::EXEC_LIST_PATH);
                spawn::exec_with_own(r, in_path, list, state);
                0
            }
            handler::EXEC_LIST_ENV => {
                spawn::exec_list_with_environment(r, state);
                0
            }
            handler::EXEC_LEND if spawn::lend() => frame::LENT,
            handler::LOCK_RELEASE => {
                if !state.is_null() {
                    hold::release(state, r.rdi);
                }
                0
            }
            handler::CONDITION if !state.is_null() && hold::release_to_wait(state, r.rsi) => frame::RELOCKING,
            handler::DLADDR => {
                if let Some(slot) = arch::slot_of_stub(r.rdi) {
                    r.rdi = slot::target(slot);
                }
                0
            }
            handler::THREAD_NAME => thread::renaming(r),
            handler::PRCTL => process_control(state, r.rdi, r.rsi),
            handler::SYSCALL => system_call(state, r),
            // A child of vfork has its parent's memory; whether this is one takes a system call to know.
            handler::EXIT if !confinement::confined() && process::is_own() => {
                process::note_end();
                0
            }
            handler::END if !state.is_null() && !confinement::confined() && process::is_own() => {
                frame::fold_open(state, arch::ticks());
                0
            }
            handler::LOCK_MEMORY => {
                // The arena is far larger than what is used of it: locking must not populate it.
                const MCL_ONFAULT: u64 = 4;
                r.rdi |= MCL_ONFAULT;
                0
            }
            handler::SET_LIMIT => {
                address_limit::set_call(slot, r);
                0
            }
            handler::GET_LIMIT => {
                address_limit::get_call(slot, r);
                0
            }
            handler::PROCESS_LIMIT => {
                address_limit::process_call(slot, r);
                0
            }
            _ => 0,
        }
    }
}

/// `prctl`: names, and two calls after which the time stamp counter may no longer be read.
unsafe fn process_control(state: *mut ThreadState, option: u64, argument: u64) -> u32 {
    const PR_SET_NAME: u64 = 15;
    const PR_SET_SECCOMP: u64 = 22;
    const PR_SET_TSC: u64 = 26;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    const STRICT: u64 = 1;
    const TSC_SIGSEGV: u64 = 2;
    // SAFETY: `state` is the calling thread's or null; the name is the program's string.
    unsafe {
        if matches!(option, PR_SET_SECCOMP | PR_SET_SYSCALL_USER_DISPATCH) {
            crate::confinement::confine();
        }
        match (option, argument) {
            (PR_SET_NAME, name) if !state.is_null() => thread::set_name(state, name),
            (PR_SET_SECCOMP, STRICT) | (PR_SET_TSC, TSC_SIGSEGV) if !state.is_null() => stop_timing(state),
            _ => {}
        }
    }
    0
}

/// `syscall`: the same by number.
unsafe fn system_call(state: *mut ThreadState, r: &Registers) -> u32 {
    const STRICT: u64 = 0;
    match (r.rdi, r.rsi) {
        // SAFETY: `state` is the calling thread's or null; a name is the program's string.
        (system_call::PRCTL, option) => return unsafe { process_control(state, option, r.rdx) },
        (system_call::SECCOMP, mode) => {
            crate::confinement::confine();
            if mode == STRICT && !state.is_null() {
                // SAFETY: as above.
                unsafe { stop_timing(state) };
            }
        }
        _ => {}
    }
    0
}

/// From here on the thread's calls are counted only; open calls return without reading the clock.
unsafe fn stop_timing(state: *mut ThreadState) {
    // SAFETY: the thread's own records and frames; an open frame's stack slot holds our return site.
    unsafe {
        arch::give_up_clock();
        (*state).stopped = 1;
        (*state).holds = hold::Holds::none();
        let contexts = (*state).contexts.into_iter().flat_map(|contexts| contexts.extents());
        let extents = contexts.map(crate::extent_map::address);
        for extent in core::iter::once((*state).header.cast::<u8>()).chain(extents) {
            let counters = extent.add(COUNTERS_OFFSET).cast::<FlowCounters>();
            for slot in 0..crate::process::header().slot_count.load(Ordering::Relaxed) {
                let c = counters.add(slot as usize);
                if (*c).period.load(Ordering::Relaxed) != 0 {
                    (*c).period.store(u32::MAX, Ordering::Relaxed);
                }
            }
        }
        let mut f = (*state).top;
        let mut bound = frame::FRAME_CAPACITY;
        while frame::is_frame(f) && bound > 0 {
            if (*f).open != 0 && *((*f).sp as *const u64) == arch::return_site() {
                *((*f).sp as *mut u64) = arch::quiet_return_site();
            }
            f = (*f).parent;
            bound -= 1;
        }
    }
}

unsafe fn trace(state: *mut ThreadState, slot: u32, r: &Registers) {
    // SAFETY: the ring lies in this thread's extent.
    unsafe {
        let h = (*state).header;
        let number = (*h).trace_count.load(Ordering::Relaxed);
        let at = (h as *mut u8).add(TRACE_OFFSET) as *mut TraceRecord;
        let t = at.add(number as usize & (TRACE_CAPACITY - 1));
        (*t).slot.store(slot as u64, Ordering::Relaxed);
        (*t).ticks.store(arch::ticks(), Ordering::Relaxed);
        for (cell, value) in (*t).args.iter().zip([r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9]) {
            cell.store(value, Ordering::Relaxed);
        }
        (*h).trace_count.store(number + 1, Ordering::Release);
    }
}

/// After the first timed return of a slot its target is known: publish it, or take the hook out if the call does not
/// leave the object.
pub fn resolve(slot: u32) {
    static_component::follow_primary(slot);
    let Some(address) = bound_since(|| slot::record(slot).target.load(Ordering::Acquire), || slot::target(slot)) else {
        return;
    };
    if let Some(callee) = object::find(address) {
        let (caller, _) = slot::edge(slot);
        if callee == static_component::object_of(caller)
            && slot::kind(slot).flags & transect_event_abi::process::SLOT_DLSYM == 0
        {
            crate::hook::unhook(slot, address);
            // The object itself, so that the slot is told from one into a static component of it.
            slot::publish_callee(slot, callee, address);
            return;
        }
        slot::set_callee(slot, callee, address);
        slot::set_target(slot, address);
    }
}

/// Where a slot goes if that is not where it went when its record was written, as for lazy slots, which start out at
/// their own PLT entry.
///
/// The record is read first: once another thread has resolved the slot, it holds the binding that `now` gives as well. Read last,
/// it would let an entry that was not bound yet pass for a binding.
fn bound_since(recorded: impl FnOnce() -> u64, now: impl FnOnce() -> u64) -> Option<u64> {
    let recorded = recorded();
    let now = now();
    (now != recorded).then_some(now)
}

/// Offset check: counters lie at a fixed place behind the thread's header.
const _: () = assert!(COUNTERS_OFFSET >= 4096);

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::mem::MaybeUninit;

    use super::{Frame, ThreadState, bound_since, leave_stale};

    /// One thread binds a lazy slot and publishes that, at every point between another one's two reads.
    #[test]
    fn an_entry_that_is_not_bound_yet_is_never_taken_for_a_binding() {
        const PLT: u64 = 0x1000;
        const BOUND: u64 = 0x7000;
        for (before, between) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)] {
            // Record and word after so many of the other thread's two stores, the word's first.
            let after = |steps| [if steps == 2 { BOUND } else { PLT }, if steps >= 1 { BOUND } else { PLT }];
            let reads = Cell::new(0);
            let read = |place: usize| {
                let steps = if reads.replace(reads.get() + 1) == 0 { before } else { before + between };
                after(steps)[place]
            };
            let found = bound_since(|| read(0), || read(1));
            assert!(found.is_none_or(|address| address == BOUND), "{before} {between}: {found:x?}");
        }
    }

    #[test]
    fn a_ring_of_frames_is_left() {
        let mut memory = MaybeUninit::<ThreadState>::zeroed();
        let state = memory.as_mut_ptr();
        let mut frames = [const { MaybeUninit::<Frame>::zeroed() }; 2];
        let (first, second) = (frames[0].as_mut_ptr(), frames[1].as_mut_ptr());
        // SAFETY: fields are written and read through pointers into memory of their own, whose zero bytes are valid for
        // the fields that are read: numbers and pointers. No frame is open.
        unsafe {
            let sentinel = &raw mut (*state).sentinel;
            (*sentinel).sp = u64::MAX;
            (*sentinel).parent = sentinel;
            ((*state).stack_low, (*state).stack_high) = (0x1000, 0x10000);
            ((*first).sp, (*second).sp) = (0x2000, 0x3000);
            ((*first).parent, (*second).parent) = (second, first);
            (*state).top = first;
            leave_stale(state, 0x8000);
            assert_eq!((*state).top, sentinel);
            // One that ends is followed to what is still open.
            (*second).parent = sentinel;
            (*state).top = first;
            leave_stale(state, 0x2800);
            assert_eq!((*state).top, second);
        }
    }
}
