//! A process that can be attached to.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::address_space::Mapping;
use crate::call_site::CallSite;
use crate::check;
use crate::error::AttachError;
use crate::memory::Memory;
use crate::priority::Urgent;
use crate::process::{Status, find_thread, is_alive, is_ending, is_not_ending, runs, threads};
use crate::ptrace;
use crate::seccomp::{self, SECCOMP_STRICT};
use crate::stop::{Stop, StopTimes, Which, is_another_controller};

/// Something that happened to a kept process while its threads were being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub tid: i32,
    /// A `PTRACE_EVENT_`, or -1 for the end, with the status as message.
    pub event: i32,
    pub message: u64,
}

/// How often a thread is held until it stands outside of restartable sequences, which take nanoseconds.
const SEQUENCE_TRIES: usize = 16;
/// How often it is looked whether a thread that is on its way out takes the process along.
const ENDING_LOOKS: usize = 100;
/// How often it is tried to open a process that another controller has stopped.
const OPENING_TRIES: u32 = 1000;
/// How long a thread is sought that does not end before it is held, or looked at.
const CALLER_PATIENCE: Duration = Duration::from_secs(5);
/// Between two stops for calls.
const BETWEEN_STOPS: Duration = Duration::from_millis(1);

/// A process that passed the checks. It is not traced except during a [`Stop`], or as long as it is kept by a
/// [`crate::Launch`].
#[derive(Debug)]
pub struct Target {
    pid: i32,
    memory: Memory,
    /// Address of an instruction `syscall`.
    pub(crate) system_call_at: Cell<u64>,
    pub(crate) call_site: Cell<Option<CallSite>>,
    times: Cell<StopTimes>,
    kept: Rc<Cell<bool>>,
    resting: Rc<RefCell<BTreeSet<i32>>>,
    /// Where a launch collects what happens during stops.
    events: RefCell<Events>,
    unfinished: RefCell<BTreeSet<i32>>,
    /// Where handlers of signals return to.
    pub(crate) signal_returns: OnceCell<Vec<u64>>,
    /// The kernel binds tracing to a thread.
    _not_send: PhantomData<*const ()>,
}

impl Target {
    /// Looks at a process; refuses it with the reason if it can't be attached to. Touches nothing.
    ///
    /// # Errors
    /// See the variants of [`AttachError`]. What only an attempt can show (a security policy) comes from the first
    /// stop.
    pub fn open(pid: i32) -> Result<Target, AttachError> {
        let mut tries = OPENING_TRIES;
        loop {
            match check::check(pid) {
                // Another thread of this process, or another recorder, has it stopped, which is as short as our own stops.
                Err(AttachError::Traced { tracer, ref name, .. })
                    if is_another_controller(tracer, name) && tries > 0 =>
                {
                    tries -= 1;
                    std::thread::sleep(BETWEEN_STOPS);
                }
                checked => {
                    checked?;
                    break;
                }
            }
        }
        let memory = by_task(pid, Memory::open).map_err(|error| match error {
            AttachError::System { ref source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                check::explain_permission(pid, "open /proc/PID/mem")
            }
            error => error,
        })?;
        Ok(Target {
            pid,
            memory,
            system_call_at: Cell::new(0),
            call_site: Cell::default(),
            times: Cell::default(),
            kept: Rc::default(),
            resting: Rc::default(),
            events: RefCell::default(),
            unfinished: RefCell::default(),
            signal_returns: OnceCell::new(),
            _not_send: PhantomData,
        })
    }

    /// Another handle for the same process, which knows as this one does which threads stand: what stands for one goes
    /// on for both.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn share(&self) -> Result<Target, AttachError> {
        let mut target = Target::open(self.pid)?;
        target.kept = self.kept.clone();
        target.resting = self.resting.clone();
        target.events.replace(self.events.borrow().clone());
        Ok(target)
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// A thread of it that has memory: its first one may have ended while others go on. Use it for files of `/proc`.
    pub fn task(&self) -> i32 {
        task_with_memory(self.pid)
    }

    /// Its memory. Reading and writing needs no stop.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What is mapped at the moment.
    ///
    /// # Errors
    /// [`AttachError::Exited`] if it has ended.
    pub fn mappings(&self) -> Result<Vec<Mapping>, AttachError> {
        self.by_task(Mapping::all)
    }

    /// What `look` finds by a thread's files of `/proc`, by another thread's where that one ends meanwhile.
    ///
    /// # Errors
    /// As `look` says; [`AttachError::Exited`] of this process if it has ended.
    pub fn by_task<T>(&self, look: impl Fn(i32) -> Result<T, AttachError>) -> Result<T, AttachError> {
        by_task(self.pid, look)
    }

    /// What is behind `error`: that the process has ended or started another program, if it has, else `error` itself. Its
    /// descriptors and mappings go before it is seen to have ended.
    pub(crate) fn cause(&self, error: AttachError) -> AttachError {
        let pid = self.pid;
        for _ in 0..ENDING_LOOKS {
            if self.memory.is_gone() {
                let replaced = Status::read(self.task()).is_ok_and(|status| status.has_memory);
                return if replaced { AttachError::Replaced { pid } } else { AttachError::Exited { pid } };
            }
            if !is_ending(self.task()) {
                return error;
            }
            std::thread::sleep(BETWEEN_STOPS);
        }
        AttachError::Exited { pid }
    }

    /// What its program's file would have given it, had it not been traced when it was executed, as a sentence's end behind
    /// the program's name. `None` if nothing is missing.
    pub fn withheld_privileges(&self) -> Option<String> {
        crate::file_privileges::withheld(self.task())
    }

    /// True while the process is there and has not ended.
    pub fn is_alive(&self) -> bool {
        runs(self.pid)
    }

    /// Holds all threads until the result is dropped.
    ///
    /// # Errors
    /// If one can't be seized or does not stop; none is held then.
    pub fn stop_all(&self) -> Result<Stop<'_>, AttachError> {
        self.finish_unfinished();
        Stop::begin(self, Which::All)
    }

    /// True if a thread is confined by a system-call filter: code that we bring in should make no system calls then.
    pub fn is_confined(&self) -> bool {
        threads(self.pid).iter().any(|tid| Status::read(*tid).is_ok_and(|s| s.seccomp != 0))
    }

    /// Makes sure that code that we bring in may make these system calls: that no thread is confined by a filter but those
    /// under which this process runs, too, which makes the calls itself.
    ///
    /// # Errors
    /// [`AttachError::Seccomp`] otherwise.
    pub fn check_own_calls(&self, calls: &'static str) -> Result<(), AttachError> {
        let own = Status::read(std::process::id() as i32).unwrap_or_default();
        let same = |status: Status| (status.seccomp, status.filters) == (own.seccomp, own.filters);
        if threads(self.pid).iter().all(|tid| Status::read(*tid).map_or(true, same)) {
            return Ok(());
        }
        Err(AttachError::Seccomp {
            pid: self.pid,
            mode: "filter",
            call: calls,
            advice: "measure wall time, which needs no call: leave --metric out",
        })
    }

    /// Holds one thread, one that sleeps if possible: enough for system calls in its name.
    ///
    /// # Errors
    /// If none can be seized or stopped, or if the threads' system-call filters forbid what has to be called.
    pub fn stop_one(&self) -> Result<Stop<'_>, AttachError> {
        self.finish_unfinished();
        // Before anything stands; what is wrong with it the first call tells.
        let _ = (self.system_call_address(), self.room_for_calls());
        let deadline = Instant::now() + CALLER_PATIENCE;
        loop {
            match self.stop_any() {
                // All that were tried have ended: they may have made others.
                Err(AttachError::Exited { .. }) if Instant::now() < deadline && self.is_alive() => {}
                result => return result,
            }
        }
    }

    fn stop_any(&self) -> Result<Stop<'_>, AttachError> {
        let mut candidates: Vec<(u32, i32)> = Vec::new();
        for tid in threads(self.pid) {
            let Ok(status) = Status::read(tid) else { continue };
            if status.seccomp == SECCOMP_STRICT {
                return Err(seccomp::strict(self.pid));
            }
            let place = match status.state {
                'Z' | 'X' => continue,
                'S' | 'T' | 't' => 0,
                'R' => 1,
                _ => 4,
            };
            candidates.push((place + if status.seccomp == 0 { 0 } else { 2 }, tid));
        }
        candidates.sort_unstable();
        let mut last = AttachError::Exited { pid: self.pid };
        for (_, tid) in candidates.into_iter().take(8) {
            match self.stop_outside_sequences(tid) {
                Ok(stop) if ptrace::dispatches_system_calls(stop.threads[0].tid) => {
                    last = AttachError::Dispatched { pid: self.pid };
                }
                Ok(stop) if stop.threads[0].registers.cs == USER_CODE_64 => {
                    seccomp::allow(self.pid, tid, stop.threads[0].options())?;
                    return Ok(stop);
                }
                Ok(_) => {}
                // One that has ended says nothing about the others.
                Err(AttachError::Exited { .. }) => {}
                Err(error @ AttachError::Unstoppable { .. }) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Holds a thread where it may be called away.
    pub(crate) fn stop_outside_sequences(&self, tid: i32) -> Result<Stop<'_>, AttachError> {
        for _ in 0..SEQUENCE_TRIES {
            let stop = Stop::begin(self, Which::One(tid))?;
            if !stop.is_in_sequence() {
                return Ok(stop);
            }
        }
        let wait = "it is in restartable sequences all the time".to_owned();
        Err(AttachError::Unstoppable { pid: self.pid, tid, wait })
    }

    /// Holds one thread for a few calls, after a pause for the program: many calls take many stops, each of them short.
    pub(crate) fn in_short_stop<T>(
        &self,
        calls: impl FnOnce(&mut Stop<'_>) -> Result<T, AttachError>,
    ) -> Result<T, AttachError> {
        let _urgent = Urgent::begin();
        self.pause();
        calls(&mut self.stop_one()?)
    }

    /// Lets the program run for a moment between two stops; one that stands at its entry point needs none.
    pub fn pause(&self) {
        if self.resting.borrow().is_empty() {
            std::thread::sleep(BETWEEN_STOPS);
        }
    }

    /// Holds one thread of the caller's choice.
    ///
    /// # Errors
    /// As [`Target::stop_one`]; [`AttachError::Exited`] if the thread is gone.
    pub fn stop_thread(&self, tid: i32) -> Result<Stop<'_>, AttachError> {
        self.finish_unfinished();
        let stop = Stop::begin(self, Which::One(tid))?;
        seccomp::allow(self.pid, tid, stop.threads[0].options())?;
        Ok(stop)
    }

    /// How long threads were held so far.
    pub fn stop_times(&self) -> StopTimes {
        self.times.get()
    }

    pub(crate) fn add_stop(&self, time: Duration) {
        let ns = time.as_nanos() as u64;
        let StopTimes { count, longest_ns, total_ns } = self.times.get();
        self.times.set(StopTimes { count: count + 1, longest_ns: longest_ns.max(ns), total_ns: total_ns + ns });
    }

    /// Its threads stay traced between stops; one of them may be standing already.
    pub(crate) fn keep(&self, events: Rc<RefCell<Vec<Event>>>, resting: Option<i32>) {
        self.kept.set(true);
        *self.events.borrow_mut() = events;
        self.resting.borrow_mut().extend(resting);
    }

    /// Its threads are let go at the end of the next stop.
    pub(crate) fn unkeep(&self) {
        self.kept.set(false);
    }

    /// The threads that were standing beyond stops are about to go on.
    pub(crate) fn wake(&self) -> Vec<i32> {
        std::mem::take(&mut *self.resting.borrow_mut()).into_iter().collect()
    }

    /// True if its threads stay traced between stops.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get()
    }

    /// True if the thread was standing before the stop.
    pub(crate) fn rests(&self, tid: i32) -> bool {
        self.resting.borrow().contains(&tid)
    }

    pub(crate) fn note(&self, event: Event) {
        self.events.borrow().borrow_mut().push(event);
    }

    pub(crate) fn note_end(&self, tid: i32, status: i32) {
        // If it is our child, nobody else will hear of its end.
        self.note(Event { tid, event: -1, message: u64::from(status as u32) });
    }

    /// Makes sure that the CPU runs the code that the process has mapped.
    ///
    /// # Errors
    /// [`AttachError::Translated`] if something translates it: even its own functions may be run as its guest's.
    pub fn check_translated(&self) -> Result<(), AttachError> {
        let executable = std::fs::read_link(format!("/proc/{}/exe", self.task())).unwrap_or_default();
        let is_named = |path: &Path, name: &str| path.file_name().is_some_and(|file| file == name);
        let mapped = |beginning: &str| {
            let name = |m: &Mapping| m.path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(beginning));
            self.mappings().is_ok_and(|mappings| mappings.iter().any(|mapping| mapping.executable && name(mapping)))
        };
        let translator = if executable.parent().is_some_and(|folder| is_named(folder, "valgrind")) {
            "valgrind"
        } else if is_named(&executable, "pinbin") {
            "Pin"
        } else if mapped("libdynamorio") {
            "DynamoRIO"
        } else {
            return Ok(());
        };
        Err(AttachError::Translated { pid: self.pid, translator })
    }

    /// Whether a sanitizer in it looks for leaks when it ends: it traces its own threads then, which we must not hold.
    pub fn finds_leaks(&self) -> bool {
        crate::launch::tracer::finds_leaks(self.task())
    }

    /// What will be heard of the process' end, also while this is dropped.
    pub fn ending(&self) -> Ending {
        Ending { pid: self.pid, events: self.events.borrow().clone() }
    }

    pub(crate) fn note_unfinished(&self, tid: i32) {
        self.unfinished.borrow_mut().insert(tid);
    }

    /// Lets go of threads that slept uninterruptibly when they should have been let go: they stand since they have woken,
    /// so whoever waits for the process has to call this now and then. False if some are asleep still.
    pub fn finish_unfinished(&self) -> bool {
        let mut unfinished = self.unfinished.borrow_mut();
        unfinished.retain(|&tid| !self.let_go(tid));
        unfinished.is_empty()
    }

    fn let_go(&self, tid: i32) -> bool {
        let_go(tid, &self.events.borrow())
    }

    /// After threads have ended while they were held: what the kernel still counts as ours is waited for, for until
    /// then the process' parent gets no notice of its end.
    pub(crate) fn bury(&self) {
        if self.is_kept() {
            return;
        }
        for _ in 0..20 {
            let ours = |tid: &i32| Status::read(*tid).is_ok_and(|s| s.tracer == check::own_thread());
            let mut left: Vec<i32> = threads(self.pid).into_iter().filter(ours).collect();
            // The first thread is reported when all others have been waited for.
            left.reverse();
            left.retain(|tid| !self.let_go(*tid));
            if left.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Lets go of a thread that was asked to stop, or hears of its end; false if it does neither yet.
fn let_go(tid: i32, events: &Events) -> bool {
    use crate::ptrace::{self, Waited};
    // Of our own child that is traced no more nothing would be heard but its end, which is another's to hear.
    if !Status::read(tid).is_ok_and(|status| status.tracer == check::own_thread()) {
        return true;
    }
    match ptrace::wait(tid, false) {
        Ok((_, Waited::Nothing)) => return false,
        Ok((_, Waited::Ended(status))) => {
            events.borrow_mut().push(Event { tid, event: -1, message: u64::from(status as u32) });
        }
        Ok((_, stop)) => {
            if let Some(born) = ptrace::detach_at(tid, stop) {
                // It stands as soon as it has had a CPU.
                let looks = std::iter::repeat_n(Duration::from_micros(100), 100);
                looks.take_while(|_| !let_go(born, events)).for_each(std::thread::sleep);
            }
        }
        Err(_) => {}
    }
    true
}

/// Where it is collected what happens to a process.
type Events = Rc<RefCell<Vec<Event>>>;

thread_local! {
    /// What targets that are gone left unfinished. The kernel binds tracing to a thread, so this is one's own.
    static LEFT_UNFINISHED: RefCell<Vec<(i32, Events)>> = const { RefCell::new(Vec::new()) };
}

/// As [`Target::finish_unfinished`], for targets that were dropped meanwhile by the calling thread.
pub fn finish_left() -> bool {
    LEFT_UNFINISHED.with_borrow_mut(|left| {
        left.retain(|(tid, events)| !let_go(*tid, events));
        left.is_empty()
    })
}

/// What was heard of a process' end.
#[derive(Debug)]
pub struct Ending {
    pid: i32,
    events: Rc<RefCell<Vec<Event>>>,
}

impl Ending {
    /// How the process ended, as wait(2) tells it, if it is our child and was held then: nobody else hears of it.
    pub fn exit_status(&self) -> Option<i32> {
        let events = self.events.borrow();
        let ended = events.iter().rev().find(|event| event.event == -1 && event.tid == self.pid);
        ended.map(|event| event.message as i32)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.finish_unfinished();
        if !self.is_alive() {
            self.bury();
        }
        let left = std::mem::take(&mut *self.unfinished.borrow_mut());
        let left = left.into_iter().map(|tid| (tid, self.events.borrow().clone()));
        // While the thread ends there is no list any more, and the kernel lets go of them itself.
        let _ = LEFT_UNFINISHED.try_with(|list| list.borrow_mut().extend(left));
    }
}

/// Code segment of 64-bit user code.
pub(crate) const USER_CODE_64: u64 = 0x33;

fn task_with_memory(pid: i32) -> i32 {
    // The first one, as a rule: it loses its memory long before it is seen to have ended where others go on.
    find_thread(pid, is_not_ending).or_else(|| find_thread(pid, is_alive)).unwrap_or(pid)
}

fn by_task<T>(pid: i32, look: impl Fn(i32) -> Result<T, AttachError>) -> Result<T, AttachError> {
    let deadline = Instant::now() + CALLER_PATIENCE;
    loop {
        let task = task_with_memory(pid);
        match look(task) {
            // It says nothing about the process that a thread of it has ended.
            Err(error) if error.is_end() => {
                if is_not_ending(task) || find_thread(pid, is_not_ending).is_none() || Instant::now() > deadline {
                    return Err(AttachError::Exited { pid });
                }
            }
            result => return result,
        }
    }
}
