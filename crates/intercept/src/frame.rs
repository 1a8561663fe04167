//! Frames of timed calls, taken from per-thread free lists so that coroutines survive.
//!
//! The pool is a static array (sparse in memory until used) and is never unmapped: reading a stale frame is always
//! safe. A frame is *open* from its call to its return. Frames left by unwinding or longjmp are found when a later
//! call on the same stack stands above their stack slot: then the stack was popped past them.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use transect_event_abi::frame as abi;
use transect_event_abi::thread::FlowCounters;

use crate::arch;
use crate::thread::ThreadState;

/// Frames in the process: 65,536, deeper recursion is counted but not timed.
pub const FRAME_CAPACITY: usize = abi::CAPACITY;
/// Frames handed to a thread at once.
const CHUNK: u32 = abi::CHUNK as u32;
/// Frames that one jump is expected to leave at most; beyond, they are found when the pool is exhausted.
const LEFT_MAX: usize = 1024;
/// Tail calls timed within one frame.
pub const INNER_CAPACITY: usize = 4;

/// [`Frame::flags`]: return through [`crate::exit::slow_exit`].
pub const SLOW: u32 = 1;
/// The thread counts as waiting until return.
pub const WAITING: u32 = 2;
/// The target is to be looked up after return.
pub const RESOLVE: u32 = 4;
/// A lock acquisition.
pub const LOCKING: u32 = 8;
/// The lock was found held.
pub const CONTENDED: u32 = 16;
/// `pthread_create` with a wrapped start in `size`.
pub const THREADING: u32 = 32;
/// The environment was lent.
pub const LENT: u32 = 64;
/// Add `size` to the slot's bytes.
pub const SIZED: u32 = 128;
/// A sampled call: its own cost is known, and what of it is hidden.
pub const SAMPLED_CALL: u32 = 256;
/// A wait on a condition: the mutex, whose hold time is being taken, is held again at its return.
pub const RELOCKING: u32 = 1024;
/// A function of a static component: its return preserves every register.
pub const PRESERVING: u32 = 512;
/// Calls of the same flow directly inside are timed, too (module `nesting`).
pub const WATCHING: u32 = 2048;
/// Entered through Rust with a call of the same flow open: when is noted.
pub const ENTERED: u32 = 4096;

/// One timed call.
#[repr(C, align(16))]
pub struct Frame {
    /// Next in the free list.
    pub next: *mut Frame,
    /// The open frame around this one.
    pub parent: *mut Frame,
    /// Return address of the call.
    pub ret: u64,
    /// Address of the stack slot the return address stood in.
    pub sp: u64,
    /// The caller's rbx.
    pub rbx: u64,
    /// The flow's counters.
    pub record: *mut FlowCounters,
    /// Time stamp at the call.
    pub start: u64,
    /// Ticks in calls that the callee made into other components.
    pub child: u64,
    /// Integral of the agent's own active-thread clock at the call.
    pub integral: u64,
    /// rax around the time stamp.
    pub rax: u64,
    /// rdx around the time stamp.
    pub rdx: u64,
    /// Address of the word that holds the target.
    pub target: u64,
    /// Slot; 0 in a thread's sentinel.
    pub slot: u32,
    /// [`SLOW`] and the others.
    pub flags: u32,
    /// Calls this one stands for: none if it is timed for the call around it only (module `nesting`).
    pub weight: u32,
    /// 1 from call to return.
    pub open: u32,
    /// A register for the trampoline.
    pub scratch: u64,
    /// First argument.
    pub object: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Tail calls made out of this call: slot in the low half, calls it stands for in the high half.
    pub inner: [u64; INNER_CAPACITY],
    /// Their start times.
    pub inner_start: [u64; INNER_CAPACITY],
    /// Calls left of the gap in force while the next call of the flow ends this one; 0 where it does not.
    pub inner_rest: [u32; INNER_CAPACITY],
    /// Number of them.
    pub inner_count: u32,
    /// Slot of the last tail call; 0 = none. Also of those beyond [`INNER_CAPACITY`].
    pub tail: u32,
    /// The caller's r11 ([`PRESERVING`]).
    pub kept: u64,
    /// Where the kernel's clock is used ([`crate::published`]): the record of the thread that called.
    pub published: *const transect_event_abi::published::Thread,
    /// The time at which the clocks were read for the call, `CLOCK_MONOTONIC` ns.
    pub entered: u64,
    /// The thread's criticality then, fixed point.
    pub criticality: u64,
    /// The kernel's ∫ dt / max(1, active) then, fixed point.
    pub attribution: u64,
    /// Calls of the same flow inside.
    pub nested: crate::nesting::Nested,
    /// Calls that callbacks made inside. Nothing in a frame of the free list.
    pub called_back: CalledBack,
}

/// Ticks in calls inside a call that its callee did not make through linkage: a function that it was given made them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CalledBack {
    /// All of them.
    pub ticks: u64,
    /// Of `ticks`, between the same two components.
    pub same_edge: u64,
}

impl CalledBack {
    /// Adds those of another call.
    pub fn add(&mut self, other: CalledBack) {
        self.ticks = self.ticks.wrapping_add(other.ticks);
        self.same_edge = self.same_edge.wrapping_add(other.same_edge);
    }
}

const _: () = assert!(size_of::<Frame>() == abi::SIZE);
const _: () = assert!(core::mem::offset_of!(Frame, sp) == abi::SLOT && core::mem::offset_of!(Frame, open) == abi::OPEN);

#[repr(C)]
struct Pool(UnsafeCell<[core::mem::MaybeUninit<Frame>; FRAME_CAPACITY]>);
// SAFETY: frames are handed out by an atomic counter; each then belongs to one thread's list.
unsafe impl Sync for Pool {}

// The name is [`abi::SYMBOL`], by which the recorder finds it.
#[unsafe(export_name = "transect_frames")]
static POOL: Pool = Pool(UnsafeCell::new([const { core::mem::MaybeUninit::zeroed() }; FRAME_CAPACITY]));
static POOL_NEXT: AtomicU32 = AtomicU32::new(0);

fn pool_start() -> *mut Frame {
    POOL.0.get().cast()
}

/// True if `frame` is one of ours.
pub fn is_frame(frame: *mut Frame) -> bool {
    let offset = (frame as u64).wrapping_sub(pool_start() as u64);
    offset < (FRAME_CAPACITY * size_of::<Frame>()) as u64 && offset.is_multiple_of(size_of::<Frame>() as u64)
}

/// Takes a frame for the thread, refilling or reclaiming if its list is empty; null if there is none.
///
/// # Safety
/// `thread` is the calling thread's state.
pub unsafe fn take(thread: *mut ThreadState) -> *mut Frame {
    // SAFETY: the list is touched only by its thread. A signal handler between load and exchange changes the head, or
    // has put back what it took: then the link read is still the frame's.
    unsafe {
        for _ in 0..2 {
            loop {
                let frame = (&raw const (*thread).free).read_volatile();
                if frame.is_null() {
                    break;
                }
                if arch::compare_exchange_own(&raw mut (*thread).free, frame, (*frame).next) {
                    return frame;
                }
            }
            let first = POOL_NEXT.fetch_add(CHUNK, Ordering::Relaxed);
            if first as usize + CHUNK as usize <= FRAME_CAPACITY {
                (*thread).has_frames = 1;
                for i in 0..CHUNK {
                    give(thread, pool_start().add((first + i) as usize));
                }
                continue;
            }
            POOL_NEXT.fetch_sub(CHUNK, Ordering::Relaxed);
            reclaim(thread);
        }
        core::ptr::null_mut()
    }
}

/// Returns a frame to the thread's list.
///
/// # Safety
/// `thread` is the calling thread's state; nobody refers to `frame` any more.
pub unsafe fn give(thread: *mut ThreadState, frame: *mut Frame) {
    // SAFETY: see above.
    unsafe {
        (*frame).open = 0;
        loop {
            let head = (&raw const (*thread).free).read_volatile();
            (*frame).next = head;
            if arch::compare_exchange_own(&raw mut (*thread).free, head, frame) {
                return;
            }
        }
    }
}

/// Frees the frames that were left by a jump to inside the call that returns now: they lie above it in the chain, and
/// below it on the same stack. Those of coroutines stay.
///
/// # Safety
/// `thread` is the calling thread's state and `returning` the frame of the call that returns on it.
pub unsafe fn leave_above(thread: *mut ThreadState, returning: *mut Frame, now: u64) {
    // SAFETY: the chain's links are frames of the pool or the sentinel, which is its own parent; never unmapped.
    unsafe {
        let found = |mut at: *mut Frame| {
            for _ in 0..LEFT_MAX {
                if at == returning || !is_frame(at) {
                    break;
                }
                at = (*at).parent;
            }
            at == returning
        };
        if (*thread).top == returning || !found((*thread).top) {
            return;
        }
        while (*thread).top != returning {
            let left = (*thread).top;
            (*thread).top = (*left).parent;
            let same_stack = crate::thread::on_own_stack(thread, (*returning).sp)
                && crate::thread::on_own_stack(thread, (*left).sp)
                && (*left).sp < (*returning).sp;
            if (*left).open != 0 && same_stack {
                abandon(thread, left, now);
            }
        }
    }
}

/// Folds the open calls of a thread that ends the process: they do not return. Their frames stay, for a handler of `exit` may
/// leave it by a jump; then they count no more.
///
/// # Safety
/// `thread` is the calling thread's state.
pub unsafe fn fold_open(thread: *mut ThreadState, now: u64) {
    // SAFETY: as in `leave_above`; counters of this thread.
    unsafe {
        let mut at = (*thread).top;
        for _ in 0..FRAME_CAPACITY {
            if !is_frame(at) {
                break;
            }
            let own = crate::thread::on_own_stack(thread, (*at).sp) && crate::thread::owns(thread, (*at).record);
            // One that is older than what the kernel publishes of this thread, as after exec, is left as it is.
            let own = own && (!crate::published::on() || crate::published::knows(thread, &*at));
            if (*at).open != 0 && (*at).weight > 0 && own {
                crate::exit::fold_abandoned(thread, at, now);
                let depth = &(*(*at).record).depth;
                depth.store(depth.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                (*at).weight = 0;
                (*at).flags &= !(WAITING | LENT);
            }
            at = (*at).parent;
        }
    }
}

/// The counters of another slot that belong together with those of an open frame.
///
/// # Safety
/// `frame` is an open frame.
pub unsafe fn counters(frame: *const Frame, slot: u32) -> *mut FlowCounters {
    // SAFETY: a frame's record lies in its thread's array of counters, except where nothing is counted.
    unsafe {
        let record = (*frame).record;
        let first =
            if record == crate::thread::uncounted() { arch::counters() } else { record.sub((*frame).slot as usize) };
        first.add(slot as usize)
    }
}

/// Notes that an open frame was left without return, and frees it.
///
/// # Safety
/// The stack slot of `frame` has been popped; `thread` is the calling thread's.
pub unsafe fn abandon(thread: *mut ThreadState, frame: *mut Frame, now: u64) {
    // SAFETY: see above.
    unsafe {
        crate::exit::fold_abandoned(thread, frame, now);
        give(thread, frame);
    }
}

/// Searches the whole pool for frames of this thread that are certainly dead: popped off its own stack, or of a
/// coroutine whose stack slot no longer holds our return site. Runs only when the pool is exhausted, and only on the
/// thread's own stack: what a signal interrupted between taking a frame and the call stands above it there.
unsafe fn reclaim(thread: *mut ThreadState) {
    // SAFETY: frames are never unmapped; the stack slot is read only after the kernel said it is readable. A frame of
    // another thread is left alone: its owner tag is compared first.
    unsafe {
        let sp = arch::stack_pointer();
        if (*thread).has_frames == 0 || (*thread).reclaims > 16 || !crate::thread::on_own_stack(thread, sp) {
            return;
        }
        (*thread).reclaims += 1;
        let now = arch::ticks();
        for i in 0..FRAME_CAPACITY {
            let frame = pool_start().add(i);
            if (*frame).open == 0 || !crate::thread::owns(thread, (*frame).record) {
                continue;
            }
            let at = (*frame).sp;
            let dead = if crate::thread::on_own_stack(thread, at) {
                at < sp
            } else {
                arch::syscall::readable(at) && *(at as *const u64) != arch::return_site()
            };
            if dead {
                unlink(thread, frame);
                abandon(thread, frame, now);
            }
        }
    }
}

/// Takes a frame out of the chain of open frames, if it is there.
unsafe fn unlink(thread: *mut ThreadState, frame: *mut Frame) {
    // SAFETY: as in `leave_above`.
    unsafe {
        if (*thread).top == frame {
            (*thread).top = (*frame).parent;
            return;
        }
        let mut at = (*thread).top;
        for _ in 0..FRAME_CAPACITY {
            if !is_frame(at) {
                return;
            }
            if (*at).parent == frame {
                (*at).parent = (*frame).parent;
                return;
            }
            at = (*at).parent;
        }
    }
}
