//! The collector's programs compiled for user space, with the kernel of `kernel.c` around them. One at a time.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transect_bpf_collect::record::Record;

/// The only kernel; whoever holds it drives it.
pub struct Kernel {
    _held: MutexGuard<'static, ()>,
}

static HELD: Mutex<()> = Mutex::new(());

/// An application's clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockValues {
    pub time: u64,
    pub criticality: u64,
    pub low: u64,
    pub busy: u64,
    pub idle: u64,
    pub active: u32,
}

/// A live thread that is followed; `task` is 0 if it isn't.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadValues {
    pub criticality: u64,
    pub task: u32,
    pub application: u32,
    pub active: u32,
}

/// What a run over all tasks is for: `enum sched_request`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i32)]
pub enum Request {
    Follow = 1,
    Audit = 2,
}

/// Fields of a task that the programs read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    pub state: u32,
    pub on_cpu: bool,
    pub on_rq: bool,
    /// Blocked but still queued, since 6.12.
    pub delayed: bool,
    pub exiting: bool,
}

unsafe extern "C" {
    fn kernel_reset(cpus: u32, processes_apart: u32);
    fn kernel_new_task(index: u32, tid: u32, leader: u32, parent: u32);
    fn kernel_take_over(index: u32);
    fn kernel_set_task(index: u32, state: u32, on_cpu: i32, on_rq: i32, delayed: i32, exit_state: i32);
    fn kernel_set_now(time: u64);
    fn kernel_set_ring_full(full: i32);
    fn kernel_switch(preempt: i32, prev: u32, next: u32);
    fn kernel_waking(waker: u32, index: u32);
    fn kernel_wakeup(index: u32, first: i32);
    fn kernel_newtask(maker: u32, index: u32, flags: u64);
    fn kernel_exec(index: u32);
    fn kernel_sample(index: u32);
    fn kernel_iterate(index: u32, what: i32, tgid: i32);
    fn kernel_iterate_end(what: i32);
    fn kernel_strays() -> u64;
    fn kernel_clock(application: u32, at: u64, values: *mut ClockValues);
    fn kernel_histogram(application: u32, n: u32) -> u64;
    fn kernel_published(application: u32) -> i32;
    fn kernel_thread(index: u32, values: *mut ThreadValues);
    fn kernel_record(size: *mut u64) -> *const c_void;
}

/// `CLONE_THREAD`.
const CLONE_THREAD: u64 = 0x10000;
/// Tasks that `kernel.c` has room for.
pub const TASKS: usize = 4096;

fn at(index: usize) -> u32 {
    assert!(index < TASKS);
    index as u32
}

// SAFETY of every call below: `kernel.c` keeps its state in statics, which the guard gives to one thread; indices are
// checked by `at`.
impl Kernel {
    pub fn new(cpus: u32, processes_apart: bool) -> Self {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        unsafe { kernel_reset(cpus, processes_apart.into()) };
        Self { _held: held }
    }

    pub fn new_task(&mut self, index: usize, tid: u32, leader: usize, parent: usize) {
        unsafe { kernel_new_task(at(index), tid, at(leader), at(parent)) }
    }

    pub fn take_over(&mut self, index: usize) {
        unsafe { kernel_take_over(at(index)) }
    }

    pub fn set_task(&mut self, index: usize, fields: Fields) {
        let Fields { state, on_cpu, on_rq, delayed, exiting } = fields;
        unsafe { kernel_set_task(at(index), state, on_cpu.into(), on_rq.into(), delayed.into(), exiting.into()) }
    }

    pub fn set_now(&mut self, time: u64) {
        unsafe { kernel_set_now(time) }
    }

    pub fn set_ring_full(&mut self, full: bool) {
        unsafe { kernel_set_ring_full(full.into()) }
    }

    pub fn switch(&mut self, preempt: bool, prev: usize, next: usize) {
        unsafe { kernel_switch(preempt.into(), at(prev), at(next)) }
    }

    pub fn waking(&mut self, waker: usize, index: usize) {
        unsafe { kernel_waking(at(waker), at(index)) }
    }

    pub fn wakeup(&mut self, index: usize, first: bool) {
        unsafe { kernel_wakeup(at(index), first.into()) }
    }

    pub fn newtask(&mut self, maker: usize, index: usize, thread: bool) {
        unsafe { kernel_newtask(at(maker), at(index), if thread { CLONE_THREAD } else { 0 }) }
    }

    pub fn exec(&mut self, index: usize) {
        unsafe { kernel_exec(at(index)) }
    }

    pub fn sample(&mut self, index: usize) {
        unsafe { kernel_sample(at(index)) }
    }

    pub fn iterate(&mut self, index: usize, what: Request, tgid: u32) {
        unsafe { kernel_iterate(at(index), what as i32, tgid as i32) }
    }

    pub fn iterate_end(&mut self, what: Request) {
        unsafe { kernel_iterate_end(what as i32) }
    }

    /// Since the last call.
    pub fn strays(&mut self) -> u64 {
        unsafe { kernel_strays() }
    }

    /// Brought up to `now`.
    pub fn clock(&mut self, application: u32, now: u64) -> ClockValues {
        let mut values = ClockValues::default();
        unsafe { kernel_clock(application, now, &mut values) };
        values
    }

    pub fn histogram(&self, application: u32, n: u32) -> u64 {
        assert!(n < 1024);
        unsafe { kernel_histogram(application, n) }
    }

    /// Whether the published number of active threads is the clock's.
    pub fn is_published(&self, application: u32) -> bool {
        unsafe { kernel_published(application) != 0 }
    }

    pub fn thread(&self, index: usize) -> ThreadValues {
        let mut values = ThreadValues::default();
        unsafe { kernel_thread(at(index), &mut values) };
        values
    }

    /// Records that were not taken yet.
    pub fn records(&mut self, mut take: impl FnMut(Record<'_>)) {
        loop {
            let mut size = 0;
            let data = unsafe { kernel_record(&mut size) };
            if data.is_null() {
                return;
            }
            // SAFETY: so many bytes are there, and nothing is written to the ring until the next call.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size as usize) };
            take(Record::decode(bytes).unwrap());
        }
    }
}
