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
    fn kernel_set_wait_budget(ns: u32);
    fn kernel_brief(index: u32, count: *mut u64, ns: *mut u64, active_ns: *mut u64);
    fn kernel_set_ring_full(full: i32);
    fn kernel_switch(preempt: i32, prev: u32, next: u32);
    fn kernel_waking(waker: u32, index: u32);
    fn kernel_prepare_race(waker: u32, index: u32, time: u64);
    fn kernel_race();
    fn kernel_wakeup(index: u32, first: i32);
    fn kernel_newtask(maker: u32, index: u32, flags: u64);
    fn kernel_exec(index: u32);
    fn kernel_sample(index: u32);
    fn kernel_iterate(index: u32, what: i32, tgid: i32);
    fn kernel_iterate_end(what: i32);
    fn kernel_strays() -> u64;
    fn kernel_live_threads() -> i32;
    fn kernel_clock(application: u32, at: u64, values: *mut ClockValues);
    fn kernel_histogram(application: u32, n: u32) -> u64;
    fn kernel_published(application: u32) -> i32;
    fn kernel_thread(index: u32, values: *mut ThreadValues);
    fn kernel_record(size: *mut u64) -> *const c_void;
    fn kernel_set_user_words(words: *const u32, count: u32);
    fn kernel_set_call(index: u32, number: i64, first: u64, second: u64);
    fn kernel_set_ran(index: u32, ns: u64);
    fn kernel_connect(address: u32, port: u16);
    fn kernel_set_with_stacks(stacks: i32);
    fn kernel_set_with_queued(queued: i32);
    fn kernel_set_queued_stack(index: u32, wait: u64, preempted: u64);
    fn kernel_set_burst_stack(index: u32, id: u64);
    fn kernel_answer(index: u32) -> u64;
    fn kernel_fill_published();
    fn kernel_unpublished() -> u64;
    fn kernel_named(tgid: i32, tid: i32) -> u32;
}

/// `CLONE_THREAD`.
const CLONE_THREAD: u64 = 0x10000;
/// Where the memory lies that `kernel.c` has for the program.
pub const USER_WORDS: u64 = 0x10000;
/// The descriptor of its only socket.
pub const SOCKET: u64 = 5;
/// Tasks that `kernel.c` has room for.
pub const TASKS: usize = 4096;

/// Applications that its maps have room for: `SCHED_MAX_APPLICATIONS`.
const APPLICATIONS: u32 = 256;

fn known(application: u32) -> u32 {
    assert!(application < APPLICATIONS);
    application
}

fn at(index: usize) -> u32 {
    assert!(index < TASKS);
    index as u32
}

impl Kernel {
    pub fn new(cpus: u32, processes_apart: bool) -> Self {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held, so no other thread is in `kernel.c`, whose state this makes anew.
        unsafe { kernel_reset(cpus, processes_apart.into()) };
        Self { _held: held }
    }

    pub fn new_task(&mut self, index: usize, tid: u32, leader: usize, parent: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps indices in its table.
        unsafe { kernel_new_task(at(index), tid, at(leader), at(parent)) }
    }

    pub fn take_over(&mut self, index: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_take_over(at(index)) }
    }

    pub fn set_task(&mut self, index: usize, fields: Fields) {
        let Fields { state, on_cpu, on_rq, delayed, exiting } = fields;
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_set_task(at(index), state, on_cpu.into(), on_rq.into(), delayed.into(), exiting.into()) }
    }

    pub fn set_now(&mut self, time: u64) {
        // SAFETY: the guard gives `kernel.c` to this thread; a plain number is all that is passed.
        unsafe { kernel_set_now(time) }
    }

    pub fn set_wait_budget(&mut self, ns: u32) {
        // SAFETY: the guard gives `kernel.c` to this thread; a plain number is all that is passed.
        unsafe { kernel_set_wait_budget(ns) }
    }

    /// Count, time, and time of the slices before, of a live thread's brief waits that no record told yet.
    pub fn brief(&self, index: usize) -> (u64, u64, u64) {
        let (mut count, mut ns, mut active_ns) = (0, 0, 0);
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table; the places live on.
        unsafe { kernel_brief(at(index), &raw mut count, &raw mut ns, &raw mut active_ns) };
        (count, ns, active_ns)
    }

    pub fn set_ring_full(&mut self, full: bool) {
        // SAFETY: the guard gives `kernel.c` to this thread; a plain number is all that is passed.
        unsafe { kernel_set_ring_full(full.into()) }
    }

    pub fn switch(&mut self, preempt: bool, prev: usize, next: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps indices in its table.
        unsafe { kernel_switch(preempt.into(), at(prev), at(next)) }
    }

    pub fn waking(&mut self, waker: usize, index: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps indices in its table.
        unsafe { kernel_waking(at(waker), at(index)) }
    }

    /// As `waking`, at a time of another CPU, when the next program has let the thread's wait begin.
    pub fn prepare_race(&mut self, waker: usize, index: usize, time: u64) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps indices in its table.
        unsafe { kernel_prepare_race(at(waker), at(index), time) }
    }

    /// The prepared wake-up has happened from here on.
    pub fn race(&mut self) {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_race() }
    }

    pub fn wakeup(&mut self, index: usize, first: bool) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_wakeup(at(index), first.into()) }
    }

    pub fn newtask(&mut self, maker: usize, index: usize, thread: bool) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps indices in its table.
        unsafe { kernel_newtask(at(maker), at(index), if thread { CLONE_THREAD } else { 0 }) }
    }

    pub fn exec(&mut self, index: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_exec(at(index)) }
    }

    pub fn sample(&mut self, index: usize) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_sample(at(index)) }
    }

    pub fn iterate(&mut self, index: usize, what: Request, tgid: u32) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_iterate(at(index), what as i32, tgid as i32) }
    }

    pub fn iterate_end(&mut self, what: Request) {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_iterate_end(what as i32) }
    }

    /// Since the last call.
    pub fn strays(&mut self) -> u64 {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_strays() }
    }

    /// Brought up to `now`.
    pub fn clock(&mut self, application: u32, now: u64) -> ClockValues {
        let mut values = ClockValues::default();
        // SAFETY: the guard gives `kernel.c` to this thread; `known` keeps the number in its map; `values` is C's.
        unsafe { kernel_clock(known(application), now, &mut values) };
        values
    }

    pub fn histogram(&self, application: u32, n: u32) -> u64 {
        assert!(n < 1024);
        // SAFETY: the guard gives `kernel.c` to this thread; `known` and the line above keep both numbers in its map.
        unsafe { kernel_histogram(known(application), n) }
    }

    /// Threads that are followed and have not ended.
    pub fn live_threads(&self) -> i32 {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_live_threads() }
    }

    /// Whether the published number of active threads is the clock's.
    pub fn is_published(&self, application: u32) -> bool {
        // SAFETY: the guard gives `kernel.c` to this thread; `known` keeps the number in its map.
        unsafe { kernel_published(known(application)) != 0 }
    }

    pub fn thread(&self, index: usize) -> ThreadValues {
        let mut values = ThreadValues::default();
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table; `values` is `repr(C)`.
        unsafe { kernel_thread(at(index), &mut values) };
        values
    }

    /// What lies at [`USER_WORDS`] in the program's memory.
    pub fn set_user_words(&mut self, words: &[u32]) {
        assert!(words.len() <= 16);
        // SAFETY: the guard gives `kernel.c` to this thread, and it has room for 16 words, which are copied.
        unsafe { kernel_set_user_words(words.as_ptr(), words.len() as u32) }
    }

    pub fn set_call(&mut self, index: usize, number: i64, [first, second]: [u64; 2]) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_set_call(at(index), number, first, second) }
    }

    /// By the kernel's own account the thread has had its CPU for so long since it got it.
    pub fn set_ran(&mut self, index: usize, ns: u64) {
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table.
        unsafe { kernel_set_ran(at(index), ns) }
    }

    /// The datagram socket [`SOCKET`] has this peer from now on.
    pub fn connect(&mut self, address: u32, port: u16) {
        // SAFETY: the guard gives `kernel.c` to this thread; plain numbers are all that is passed.
        unsafe { kernel_connect(address, port) }
    }

    pub fn set_with_stacks(&mut self, stacks: bool) {
        // SAFETY: the guard gives `kernel.c` to this thread; a plain number is all that is passed.
        unsafe { kernel_set_with_stacks(stacks.into()) }
    }

    pub fn set_with_queued(&mut self, queued: bool) {
        // SAFETY: the guard gives `kernel.c` to this thread; a plain number is all that is passed.
        unsafe { kernel_set_with_queued(queued.into()) }
    }

    /// A followed thread's wait that has just ended had this stack, or it lost its CPU with the other; 0 for none.
    pub fn set_queued_stack(&mut self, index: usize, wait: u64, preempted: u64) {
        assert_ne!(self.thread(index).task, 0);
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table; the thread has a slot.
        unsafe { kernel_set_queued_stack(at(index), wait, preempted) }
    }

    /// A followed thread's last wake-up had this stack, and somebody waits for one.
    pub fn set_burst_stack(&mut self, index: usize, id: u64) {
        assert_ne!(self.thread(index).task, 0);
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table; the thread has a slot.
        unsafe { kernel_set_burst_stack(at(index), id) }
    }

    /// The stack that a followed thread gave for those who wanted one, 0 if it did not.
    pub fn answer(&self, index: usize) -> u64 {
        assert_ne!(self.thread(index).task, 0);
        // SAFETY: the guard gives `kernel.c` to this thread; `at` keeps the index in its table; the thread has a slot.
        unsafe { kernel_answer(at(index)) }
    }

    /// No thread can be published any more.
    pub fn fill_published(&mut self) {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_fill_published() }
    }

    /// Threads that could not be.
    pub fn unpublished(&self) -> u64 {
        // SAFETY: the guard gives `kernel.c` to this thread.
        unsafe { kernel_unpublished() }
    }

    /// The task number of a thread id in a process, or in any (0); 0 if none has it.
    pub fn named(&self, tgid: i32, tid: i32) -> u32 {
        // SAFETY: the guard gives `kernel.c` to this thread; plain numbers are all that is passed.
        unsafe { kernel_named(tgid, tid) }
    }

    /// Records that were not taken yet.
    pub fn records(&mut self, mut take: impl FnMut(Record<'_>)) {
        loop {
            let mut size = 0;
            // SAFETY: the guard gives `kernel.c` to this thread; `size` outlives the call.
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
