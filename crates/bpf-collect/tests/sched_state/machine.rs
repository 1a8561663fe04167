//! The state machine as the kernel runs it: `bpf/sched_state.h`, compiled for user space by the build script.

use std::ffi::c_void;

/// One application with a fixed set of threads, all blocked at first.
pub struct Machine {
    raw: *mut c_void,
    pub threads: u32,
}

/// Fields of the application.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockValues {
    pub time: u64,
    /// Fixed point, as `low`.
    pub criticality: u64,
    pub low: u64,
    pub busy: u64,
    pub idle: u64,
    pub active: u32,
}

/// Fields of one thread, its open slice included.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadValues {
    /// Fixed point, as `low`.
    pub criticality: u64,
    pub low: u64,
    pub active_ns: u64,
    pub running_ns: u64,
    pub blocked_ns: u64,
    pub active: u32,
}

unsafe extern "C" {
    fn machine_new(threads: u32, cpus: u32) -> *mut c_void;
    fn machine_free(machine: *mut c_void);
    fn machine_activate(machine: *mut c_void, thread: u32, now: u64) -> u64;
    fn machine_block(machine: *mut c_void, thread: u32, now: u64);
    fn machine_advance(machine: *mut c_void, now: u64);
    fn machine_get_cpu(machine: *mut c_void, thread: u32, now: u64);
    fn machine_leave_cpu(machine: *mut c_void, thread: u32, now: u64);
    fn machine_sample(machine: *mut c_void, thread: u32, now: u64) -> u64;
    fn machine_clock(machine: *const c_void, values: *mut ClockValues);
    fn machine_histogram(machine: *const c_void, n: u32) -> u64;
    fn machine_thread(machine: *const c_void, thread: u32, values: *mut ThreadValues);
}

impl Machine {
    pub fn new(threads: u32, cpus: u32) -> Self {
        // SAFETY: it allocates, and gives null if it can't, which the next line asks for.
        let raw = unsafe { machine_new(threads, cpus) };
        assert!(!raw.is_null());
        Self { raw, threads }
    }

    fn at(&self, thread: usize) -> u32 {
        let thread = u32::try_from(thread).unwrap();
        assert!(thread < self.threads);
        thread
    }

    /// Returns the idle time that this ended.
    pub fn activate(&mut self, thread: usize, now: u64) -> u64 {
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` has checked the thread.
        unsafe { machine_activate(self.raw, thread, now) }
    }

    pub fn block(&mut self, thread: usize, now: u64) {
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` has checked the thread.
        unsafe { machine_block(self.raw, thread, now) }
    }

    pub fn advance(&mut self, now: u64) {
        // SAFETY: `raw` is what `machine_new` gave and lives until drop.
        unsafe { machine_advance(self.raw, now) }
    }

    pub fn get_cpu(&mut self, thread: usize, now: u64) {
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` has checked the thread.
        unsafe { machine_get_cpu(self.raw, thread, now) }
    }

    pub fn leave_cpu(&mut self, thread: usize, now: u64) {
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` has checked the thread.
        unsafe { machine_leave_cpu(self.raw, thread, now) }
    }

    /// Returns the sample's weight, fixed point.
    pub fn sample(&mut self, thread: usize, now: u64) -> u64 {
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` has checked the thread.
        unsafe { machine_sample(self.raw, thread, now) }
    }

    pub fn clock(&self) -> ClockValues {
        let mut values = ClockValues::default();
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `values` is `repr(C)` and outlives the call.
        unsafe { machine_clock(self.raw, &mut values) };
        values
    }

    /// Time at `n` active threads, `n` below the histogram's size.
    pub fn histogram(&self, n: u32) -> u64 {
        assert!(n < HISTOGRAM);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `n` is inside of its table.
        unsafe { machine_histogram(self.raw, n) }
    }

    pub fn thread(&self, thread: usize) -> ThreadValues {
        let mut values = ThreadValues::default();
        let thread = self.at(thread);
        // SAFETY: `raw` is what `machine_new` gave and lives until drop; `at` checked the thread; `values` is C's.
        unsafe { machine_thread(self.raw, thread, &mut values) };
        values
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: `raw` is what `machine_new` gave; this is its only end.
        unsafe { machine_free(self.raw) }
    }
}

/// `SCHED_MAX_PARALLELISM`.
pub const HISTOGRAM: u32 = 1024;
/// One nanosecond in fixed point: `1 << SCHED_FRACTION_BITS`.
pub const NS: u64 = 1 << 16;
