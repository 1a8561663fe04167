//! Holding the threads of a process for a moment.
//!
//! 1. All threads are seized (`seizing.rs`), which disturbs none of them. Threads born later are seized by the kernel, for
//!    `PTRACE_O_TRACECLONE` is set; those that were being born meanwhile are found once the others stand.
//! 2. The stop begins: each is interrupted, then each is waited for. A signal that was on its way is delivered first:
//!    the thread then stops at its handler's first instruction.
//! 3. When the [`Stop`] is dropped, the kernel is told to forget that it ever traced them.
//!
//! A thread that sleeps uninterruptibly (the parent of a vfork child, which runs in the same memory!) can't be stopped;
//! then all are let go and it is tried again a little later.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::call_site::Occupied;
use crate::child_signal::ChildSignal;
use crate::error::AttachError;
use crate::interrupted_call::{self, Asleep};
use crate::priority::{Urgent, cpus, is_crowded};
use crate::process::{state, threads, wait_place};
use crate::ptrace::{self, Registers, Waited};
use crate::seccomp;
use crate::seizing::Listings;
use crate::signal_frame::Interrupted;
use crate::target::{Event, Target, USER_CODE_64};
use crate::vfork;

/// How long one attempt may wait for threads that sleep uninterruptibly.
const ATTEMPT: Duration = Duration::from_millis(3);
/// Longest sleep until it is looked again whether a thread stands. The signal that says so goes to the whole process, and
/// may be lost to a thread that doesn't wait for it.
const LOOK: Duration = Duration::from_micros(200);
/// The same at first: a thread that is on a CPU, or sleeps, stands after some ten microseconds.
const LOOK_AT_FIRST: Duration = Duration::from_micros(20);
/// How long it is looked without a sleep, where a CPU is to spare: a thread that runs a system call for us stands
/// sooner than a timer, or a wake-up of ours, ends a sleep.
const LOOK_ON: Duration = Duration::from_micros(60);
/// How long it is tried in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a thread that could stop is given to be scheduled.
const STARVED: Duration = Duration::from_secs(10);

/// Times for which threads were held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopTimes {
    /// Number of stops.
    pub count: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
    /// All together, nanoseconds.
    pub total_ns: u64,
}

/// Registers of a held thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldRegisters {
    /// The thread.
    pub tid: i32,
    /// Its next instruction.
    pub rip: u64,
    /// By their DWARF numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// The thread pointer.
    pub fs_base: u64,
    /// It stands in or behind a system call.
    pub in_call: bool,
    /// The number of that call.
    pub call: i64,
}

/// One held thread.
pub(crate) struct Held {
    pub tid: i32,
    /// As they were, with a restart mark put in where the kernel left it out.
    pub registers: Registers,
    /// They must be written back before it goes on.
    pub changed: bool,
    /// The mask of blocked signals, if it makes system calls for us.
    pub mask: Option<u64>,
    /// Where it makes them.
    pub site: Option<Occupied>,
    /// Ours beyond this stop.
    pub kept: bool,
    /// Was stopped before this stop.
    pub resting: bool,
    /// It belongs to a stopped (Ctrl-Z) process.
    pub group_stop: bool,
    /// Where it goes on after signal handlers that it is in.
    pub interrupted: Vec<Interrupted>,
}

impl Held {
    /// What it is traced with.
    pub fn options(&self) -> i32 {
        if self.kept { ptrace::FOLLOWED } else { ptrace::TRACE_SYSTEM_CALLS_MARKED }
    }

    /// It stands in or behind a system call that the kernel may restart.
    pub fn in_call(&self) -> bool {
        (self.registers.orig_rax as i64) >= 0
    }
}

/// Threads held; dropping it lets them go.
pub struct Stop<'a> {
    pub(crate) target: &'a Target,
    pub(crate) threads: Vec<Held>,
    began: Instant,
    pub(crate) news: ChildSignal,
    /// A CPU is to spare for looking again and again, which is faster than being woken.
    looks: bool,
    /// Dropped after the threads have been let go.
    urgent: Urgent,
}

/// Which threads to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    One(i32),
}

impl<'a> Stop<'a> {
    pub(crate) fn begin(target: &'a Target, which: Which) -> Result<Stop<'a>, AttachError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Stop::attempt(target, which) {
                Err(AttachError::Unstoppable { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // Another controller's stops are as short as ours: none of them may leave something half done.
                Err(AttachError::Traced { tracer, name, .. })
                    if is_another_controller(tracer, &name) && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }

    fn attempt(target: &'a Target, which: Which) -> Result<Stop<'a>, AttachError> {
        let pid = target.pid();
        let crowded = is_crowded();
        // From here on `stop` lets go of what was seized, whatever happens.
        let mut stop = Stop {
            target,
            threads: Vec::new(),
            began: Instant::now(),
            news: ChildSignal::block(),
            looks: !crowded && cpus() > 1,
            urgent: Urgent::begin(),
        };
        let mut listings = Listings::of(target, which);
        loop {
            let mut seized = Vec::new();
            let held = |tid: i32| stop.threads.iter().any(|thread| thread.tid == tid);
            if let Err(error) = listings.seize(held, &mut seized) {
                stop.let_go_seized(&seized);
                return Err(error);
            }
            if seized.is_empty() {
                break;
            }
            let asleep = seized.iter().filter_map(|(tid, _)| Some((*tid, Asleep::look(*tid)?))).collect();
            if stop.threads.is_empty() {
                stop.began = Instant::now();
            }
            stop.hold(seized, &asleep, crowded)?;
            if which != Which::All {
                break;
            }
        }
        if stop.threads.is_empty() {
            return Err(AttachError::Exited { pid });
        }
        Ok(stop)
    }

    /// Interrupts the seized threads and waits until they stand.
    fn hold(
        &mut self,
        seized: Vec<(i32, bool)>,
        asleep: &HashMap<i32, Asleep>,
        crowded: bool,
    ) -> Result<(), AttachError> {
        let pid = self.target.pid();
        let mut pending = Vec::with_capacity(seized.len());
        for (tid, kept) in seized {
            if self.target.rests(tid) {
                self.add(tid, true, true, false, None);
            } else if ptrace::interrupt(tid).is_ok() {
                pending.push((tid, kept));
            }
        }
        if crowded {
            // Now that they make no children any more, which would keep the priority.
            self.urgent.raise_all(pending.iter().map(|(tid, _)| *tid));
        }
        let began = Instant::now();
        let (mut failure, mut ended) = (None, false);
        // All have to be waited for, so one after the other takes no longer than any other order.
        pending.reverse();
        while let Some(&(tid, kept)) = pending.last() {
            let expected = match ptrace::wait(tid, false) {
                Ok((_, Waited::Nothing)) => {
                    let waited = began.elapsed();
                    if kept && waited > LOOK && state(tid) == 'D' {
                        vfork::let_children_run(self.target, tid);
                    }
                    if waited > ATTEMPT {
                        match state(tid) {
                            'Z' | 'X' => {
                                ended = true;
                                pending.pop();
                            }
                            'D' => failure = Some(AttachError::Unstoppable { pid, tid, wait: sleeping(tid) }),
                            _ if waited > STARVED => {
                                failure = Some(AttachError::Unstoppable { pid, tid, wait: sleeping(tid) });
                            }
                            _ => {
                                self.news.wait(LOOK);
                            }
                        }
                    } else {
                        self.pause(waited);
                    }
                    if failure.is_some() {
                        break;
                    }
                    continue;
                }
                Ok((_, Waited::Interrupted)) => self.add(tid, kept, false, false, asleep.get(&tid).copied()),
                Ok((_, Waited::GroupStop(_))) => self.add(tid, kept, false, true, asleep.get(&tid).copied()),
                // Delivered now; the interruption comes right after.
                Ok((_, Waited::Signal(signal))) => ptrace::go_on_to_stop(tid, signal).is_ok(),
                Ok((_, Waited::SystemCall)) => ptrace::go_on_to_stop(tid, 0).is_ok(),
                Ok((_, Waited::Event(event))) => {
                    let message = ptrace::event_message(tid).unwrap_or(0);
                    if kept {
                        self.target.note(Event { tid, event, message });
                    }
                    if event == libc::PTRACE_EVENT_EXEC {
                        failure = Some(AttachError::Replaced { pid });
                        // A launch takes it from where it stands.
                        !kept && ptrace::go_on(tid, 0).is_ok()
                    } else if event == libc::PTRACE_EVENT_EXIT {
                        // It runs nothing of its own any more, and is waited for to its end.
                        ptrace::go_on(tid, 0).is_ok()
                    } else {
                        let born = message as i32;
                        self.urgent.inherited(tid, born);
                        // It may have been on the list of threads already: it is reported once.
                        let known = pending.iter().any(|&(tid, _)| tid == born)
                            || self.threads.iter().any(|thread| thread.tid == born);
                        if !known && (!kept || threads(pid).contains(&born)) {
                            pending.insert(0, (born, kept));
                        }
                        ptrace::go_on_to_stop(tid, 0).is_ok()
                    }
                }
                Ok((_, Waited::Ended(status))) => {
                    self.target.note_end(tid, status);
                    ended = true;
                    false
                }
                Err(_) => false,
            };
            if !expected {
                pending.pop();
            }
        }
        self.let_go_pending(&pending);
        if ended {
            self.target.bury();
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Puts a standing thread on the list; gives false, for "no longer waited for".
    fn add(&mut self, tid: i32, kept: bool, resting: bool, group_stop: bool, asleep: Option<Asleep>) -> bool {
        if let Ok(mut registers) = settled_registers(tid) {
            if !resting && interrupted_call::restart(tid, &mut registers, asleep, self.target.memory()) {
                // At once: if we are killed while it stands, it goes on with them.
                let _ = ptrace::set_registers(tid, &registers);
            }
            self.threads.push(Held {
                tid,
                registers,
                changed: false,
                mask: None,
                site: None,
                kept,
                resting,
                group_stop,
                interrupted: Vec::new(),
            });
        }
        false
    }

    /// Threads that were seized but never asked to stop: only a standing thread can be let go.
    fn let_go_seized(&mut self, seized: &[(i32, bool)]) {
        for (tid, kept) in seized {
            if !kept {
                let _ = ptrace::interrupt(*tid);
            }
        }
        let seized: Vec<_> = seized.iter().copied().filter(|(_, kept)| !kept).collect();
        self.let_go_pending(&seized);
    }

    /// Waits for threads that were interrupted but are not wanted any more, and lets them go, with those that they have made
    /// meanwhile. One that sleeps uninterruptibly would take too long: it remains seized, stops when it wakes, and is let go by
    /// the next attempt, or by [`Target::finish_unfinished`].
    fn let_go_pending(&mut self, pending: &[(i32, bool)]) {
        let mut pending = pending.to_vec();
        while let Some((tid, kept)) = pending.pop() {
            let began = Instant::now();
            loop {
                match ptrace::wait(tid, false) {
                    Ok((_, Waited::Nothing)) => {
                        if began.elapsed() > ATTEMPT {
                            // A launch hears of those that it keeps, and lets them go on.
                            if !kept {
                                self.target.note_unfinished(tid);
                            }
                            break;
                        }
                        std::thread::sleep(LOOK);
                    }
                    Ok((_, Waited::Ended(status))) => {
                        self.target.note_end(tid, status);
                        break;
                    }
                    Ok((_, stop)) if !kept => {
                        if let Some(born) = ptrace::detach_at(tid, stop) {
                            self.urgent.inherited(tid, born);
                            pending.push((born, false));
                        }
                        break;
                    }
                    Ok((_, Waited::Interrupted | Waited::GroupStop(_))) => {
                        let _ = ptrace::go_on(tid, 0);
                        break;
                    }
                    Ok((_, Waited::Signal(signal))) => drop(ptrace::go_on_to_stop(tid, signal)),
                    Ok((_, Waited::Event(event))) => {
                        let message = ptrace::event_message(tid).unwrap_or(0);
                        self.target.note(Event { tid, event, message });
                        if event == libc::PTRACE_EVENT_EXEC {
                            // A launch takes it from where it stands.
                            break;
                        }
                        let _ = ptrace::go_on_to_stop(tid, 0);
                    }
                    Ok(_) => drop(ptrace::go_on_to_stop(tid, 0)),
                    Err(_) => break,
                }
            }
        }
    }

    /// Waits for news of a thread that we let run. One that was killed may never be reported: the first thread of a
    /// process is not before all others have been waited for.
    pub(crate) fn wait_for(&self, tid: i32) -> std::io::Result<Waited> {
        let began = Instant::now();
        loop {
            match ptrace::wait(tid, false)?.1 {
                Waited::Nothing if began.elapsed() > ATTEMPT && matches!(state(tid), 'Z' | 'X') => {
                    return Ok(Waited::Ended(libc::SIGKILL));
                }
                Waited::Nothing => self.pause(began.elapsed()),
                waited => return Ok(waited),
            }
        }
    }

    /// Between two looks for news of a thread, after so long a time.
    fn pause(&self, waited: Duration) {
        if self.looks && waited < LOOK_ON {
            std::hint::spin_loop();
        } else {
            self.news.wait(if waited < LOOK { LOOK_AT_FIRST } else { LOOK });
        }
    }

    /// Puts a thread first that may make system calls for us.
    ///
    /// # Errors
    /// [`AttachError::Dispatched`], [`AttachError::Seccomp`] or [`AttachError::Unstoppable`] if none may.
    pub fn choose_caller(&mut self) -> Result<(), AttachError> {
        let pid = self.target.pid();
        let mut last = AttachError::Dispatched { pid };
        for index in 0..self.threads.len() {
            self.threads.swap(0, index);
            let Held { tid, ref registers, .. } = self.threads[0];
            if registers.cs != USER_CODE_64 || ptrace::dispatches_system_calls(tid) {
                continue;
            }
            if self.is_in_sequence() {
                last = AttachError::Unstoppable { pid, tid, wait: "it is in a restartable sequence".to_owned() };
                continue;
            }
            match seccomp::allow(pid, tid, self.threads[0].options()) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long the threads have been held so far.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Number of threads held.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Registers of the held threads: (thread, instruction pointer, stack pointer).
    pub fn positions(&self) -> impl Iterator<Item = (i32, u64, u64)> {
        self.threads.iter().map(|t| (t.tid, t.registers.rip, t.registers.rsp))
    }

    /// When the threads were asked to stop.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Where they go on after the signal handlers that they are in, as far as that was looked for.
    pub fn interrupted(&self) -> impl Iterator<Item = u64> {
        self.threads.iter().flat_map(|thread| &thread.interrupted).map(|context| context.next)
    }

    /// All registers of the held threads that lead from frame to frame.
    pub fn registers(&self) -> impl Iterator<Item = HeldRegisters> {
        self.threads.iter().map(|thread| {
            let r = &thread.registers;
            HeldRegisters {
                tid: thread.tid,
                rip: r.rip,
                general: [
                    r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
                    r.r14, r.r15,
                ],
                fs_base: r.fs_base,
                in_call: thread.in_call(),
                call: r.orig_rax as i64,
            }
        })
    }

    fn release(&mut self) {
        for index in 0..self.threads.len() {
            let made_calls = self.threads[index].mask.is_some();
            self.give_back(index);
            if made_calls && self.threads[index].kept {
                let _ = ptrace::set_options(self.threads[index].tid, self.threads[index].options());
            }
            let thread = &self.threads[index];
            if thread.changed {
                let _ = ptrace::set_registers(thread.tid, &thread.registers);
            }
        }
        self.urgent.give_back_others();
        let mut lost = false;
        for thread in &self.threads {
            let gone_on = match (thread.kept, thread.resting, thread.group_stop) {
                (_, true, _) => Ok(()),
                (true, _, true) => ptrace::listen(thread.tid),
                (true, _, false) => ptrace::go_on(thread.tid, 0),
                (false, ..) => ptrace::detach(thread.tid, 0),
            };
            lost |= gone_on.is_err();
        }
        if !self.threads.is_empty() {
            self.target.add_stop(self.began.elapsed());
        }
        self.threads.clear();
        if lost {
            self.target.bury();
        }
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Why it does not stop.
fn sleeping(tid: i32) -> String {
    format!("it sleeps uninterruptibly in the kernel ({})", wait_place(tid))
}

/// Whether the tracer is a controller, or its guard, in another process, or another thread of this one.
pub(crate) fn is_another_controller(tracer: i32, name: &str) -> bool {
    name.starts_with("transect") || tracer.unsigned_abs() == std::process::id()
}

/// The registers of a thread that is reported to stand. Another CPU may still be about to leave it; a thread that
/// was killed meanwhile has none.
fn settled_registers(tid: i32) -> std::io::Result<Registers> {
    let mut tries = 0;
    loop {
        match ptrace::registers(tid) {
            Err(_) if tries < 50 && state(tid) == 't' => {
                tries += 1;
                std::thread::sleep(Duration::from_micros(20));
            }
            result => {
                if result.is_err() {
                    let _ = ptrace::detach(tid, 0);
                }
                return result;
            }
        }
    }
}
