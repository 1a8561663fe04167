//! What the scheduler collector's programs in the kernel publish while a program runs: pages that the agent maps
//! read-only. The kernel's side, which also says who writes when, is `bpf-collect/bpf/sched_published.h`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Applications at once.
pub const APPLICATION_CAPACITY: usize = 256;
/// Threads published at once (power of two).
pub const THREAD_CAPACITY: usize = 1 << THREAD_CAPACITY_LOG2;
/// See [`THREAD_CAPACITY`].
pub const THREAD_CAPACITY_LOG2: u32 = 15;
/// Places where a thread's record may be: see [`place`].
pub const PROBES: usize = 16;
/// The first of them, in one window.
pub const NEAR_PROBES: usize = 12;
/// Records that the agent maps at once. Ids that follow each other lie side by side, so that one window serves most processes:
/// mapping all of the records costs each program that is started, and each fork, more than the rest of its start.
pub const WINDOW: usize = 1024;
/// Windows in the table.
pub const WINDOWS: usize = THREAD_CAPACITY / WINDOW;
/// From one place to the next in a window: other processes' ids are as dense as one's own.
const STRIDE: usize = 67;
/// From one window to the next.
const WINDOW_STRIDE: usize = 5;
/// Fraction bits of fixed-point times.
pub const FRACTION_BITS: u32 = 16;
/// Record flag: a slice is open.
pub const ACTIVE: u32 = 1;
/// Record flag: the thread is gone, and the record final.
pub const ENDED: u32 = 2;

/// What the agent has in r15, which the kernel leaves alone, when it makes a system call: those are none of the program's.
pub const OWN_CALL_MARK: u64 = 0xa9e7_05b1_7a5e_c7ed;

/// File name, beside the agent, of the socket that hands out a descriptor of the pages.
pub const SOCKET_FILE: &str = "published";

/// All threads that count together. `sequence` is odd while it changes.
#[repr(C)]
pub struct Application {
    /// Changes twice with every change of the rest.
    pub sequence: AtomicU32,
    /// Active threads.
    pub active: AtomicU32,
    /// Time of the last change, `CLOCK_MONOTONIC` ns.
    pub time: AtomicU64,
    /// ∫ dt / active while active > 0, fixed point.
    pub criticality: AtomicU64,
    /// Time with active = 0, ns.
    pub idle: AtomicU64,
    /// Zero.
    pub reserved: [AtomicU64; 4],
}

/// One thread. What it holds is kept after the thread's end until the place is taken again.
#[repr(C)]
pub struct Thread {
    /// [`key`]; 0 = free.
    pub key: AtomicU64,
    /// Changes twice with every change of what follows.
    pub sequence: AtomicU32,
    /// [`ACTIVE`], [`ENDED`].
    pub flags: AtomicU32,
    /// Names the thread for the whole recording.
    pub task: AtomicU32,
    /// Index of its application.
    pub application: AtomicU32,
    /// Criticality of the slices that have ended, fixed point.
    pub gained: AtomicU64,
    /// The application's criticality when the open slice began, fixed point.
    pub since: AtomicU64,
    /// Time of the last change, `CLOCK_MONOTONIC` ns.
    pub time: AtomicU64,
    /// The application's criticality plus its idle time at `time`, fixed point.
    pub attribution: AtomicU64,
    /// Zero.
    pub reserved: AtomicU64,
}

/// The pages.
#[repr(C)]
pub struct Published {
    /// By application number.
    pub applications: [Application; APPLICATION_CAPACITY],
    /// Hash table by [`key`].
    pub threads: [Thread; THREAD_CAPACITY],
}

const _: () = assert!(size_of::<Application>() == 64 && size_of::<Thread>() == 64);
const _: () = assert!(size_of::<[Application; APPLICATION_CAPACITY]>().is_multiple_of(4096));
const _: () = assert!(size_of::<[Thread; WINDOW]>().is_multiple_of(4096));

/// Names a thread as it knows itself: number of its pid namespace (the inode of `/proc/self/ns/pid`) and its id there.
pub fn key(pid_namespace: u32, tid: u32) -> u64 {
    (pid_namespace as u64) << 32 | tid as u64
}

/// Index of the `probe`-th place where a thread's record may be.
pub fn place(key: u64, probe: usize) -> usize {
    let namespace = ((key >> 32) as u32).wrapping_mul(2_654_435_761) >> (32 - THREAD_CAPACITY_LOG2);
    let start = (key as u32).wrapping_add(namespace) as usize % THREAD_CAPACITY;
    let (window, offset) = (start / WINDOW, start % WINDOW);
    if probe < NEAR_PROBES {
        window * WINDOW + (offset + probe * STRIDE) % WINDOW
    } else {
        (window + (probe - NEAR_PROBES + 1) * WINDOW_STRIDE) % WINDOWS * WINDOW + offset
    }
}

impl Published {
    /// The record of a thread.
    pub fn find(&self, key: u64) -> Option<&Thread> {
        let at = |probe| &self.threads[place(key, probe)];
        (0..PROBES).map(at).find(|thread| thread.key.load(Ordering::Acquire) == key)
    }
}
