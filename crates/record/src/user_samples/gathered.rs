//! From what was seen of a user's own processes to what the kernel's records would say of them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::CodeMapping;
use transect_bpf_collect::record::{sched_wait, task_event};
use transect_bpf_collect::thread_samples::{Seen, ThreadRecord};

use super::activity::Activity;
use super::call_walk::Values;
use super::jitter;
use super::look::Look;
use super::process_code::{ProcessCode, UnwindImages, Unwound};
use super::stopped_samples::Stopped;
use super::thread::{Looked, Thread};
use super::thread_times::ThreadTimes;
use super::waits_for::WaitsFor;
use crate::clock::monotonic_ns;
use crate::error::RecordError;
use crate::sched::call_stack::{NO_STACK, StackNumber};
use crate::sched::cause::time_limit;
use crate::sched::collection::Collection;
use crate::sched::mapped_file::has_names;
use crate::sched::sample::RawTimedSample;
use crate::sched::{Collected, Totals};

/// What happened to a thread.
#[derive(Debug)]
pub(crate) enum What {
    /// As the source tells it.
    Seen(Seen),
    /// It was found waiting.
    /// `until`: it was so at some instant from then to now; `gap`: between two looks at it, ns.
    Waits { stack: StackNumber, record: Box<sched_wait>, until: u64, gap: u64 },
    /// It was stopped while it ran.
    Stopped { stack: StackNumber, in_call: bool },
}

/// When it was looked at a thread, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookTime {
    pub from: u64,
    pub until: u64,
    /// Since the look before.
    pub gap: u64,
}

/// See [`What`].
#[derive(Debug)]
pub(crate) struct Noted {
    time: u64,
    tgid: i32,
    tid: i32,
    what: What,
}

impl From<ThreadRecord> for Noted {
    fn from(record: ThreadRecord) -> Self {
        let ThreadRecord { time, tgid, tid, seen } = record;
        Self { time, tgid, tid, what: What::Seen(seen) }
    }
}

/// All of it.
pub(crate) struct Gathered {
    collection: Collection,
    activity: Activity,
    /// Read, but older ones of other CPUs may come.
    waiting: Vec<Noted>,
    processes: HashMap<i32, ProcessCode>,
    /// Whose program is known by its name.
    named: HashMap<i32, bool>,
    images: UnwindImages,
    threads: Vec<Thread>,
    /// The latest thread of each number.
    living: HashMap<i32, usize>,
    /// Where the calls of each were last followed to their end.
    followed: HashMap<i32, (Look, StackNumber)>,
    random: u64,
    /// Between two looks at a thread, ns.
    period: f64,
    /// Switches are not told: what threads did is known at the end of each round.
    rounds: bool,
    slices: u64,
    lost: u64,
}

impl Gathered {
    /// Nothing; it is looked at waiting threads each `period` ns, and in `rounds` at all of them.
    pub fn new(collection: Collection, period: f64, rounds: bool) -> Self {
        Self {
            collection,
            activity: Activity::default(),
            waiting: Vec::new(),
            processes: HashMap::default(),
            named: HashMap::default(),
            images: UnwindImages::default(),
            threads: Vec::new(),
            living: HashMap::default(),
            followed: HashMap::default(),
            random: monotonic_ns() | 1,
            period,
            rounds,
            slices: 0,
            lost: 0,
        }
    }

    /// Records that came, in any order.
    pub fn add(&mut self, records: impl IntoIterator<Item = ThreadRecord>) {
        self.waiting.extend(records.into_iter().map(Noted::from));
    }

    /// Takes in what came up to a time, in its order.
    pub fn take(&mut self, horizon: u64) {
        self.waiting.sort_by_key(|noted| noted.time);
        let ready = self.waiting.partition_point(|noted| noted.time <= horizon);
        let rest = self.waiting.split_off(ready);
        let mut ready: VecDeque<Noted> = std::mem::replace(&mut self.waiting, rest).into();
        while let Some(noted) = ready.pop_front() {
            self.one(noted, &ready);
        }
    }

    /// Who has ended the time in which nobody was active, if by `thread` that was not. Where switches are not told, those of a
    /// round come in no order: but a thread that waits for others does not go on before one of them does.
    fn ended_by(&self, thread: usize, later: &VecDeque<Noted>) -> usize {
        let begun = |noted: &Noted| {
            let thread = self.living.get(&noted.tid).filter(|_| matches!(noted.what, What::Seen(Seen::Runs)))?;
            self.threads[*thread].times.is_waiting().then_some(*thread)
        };
        let all = std::iter::once(thread).chain(later.iter().filter(|_| self.rounds).filter_map(begun));
        // The first of those that are alike.
        all.min_by_key(|&thread| std::cmp::Reverse(self.threads[thread].waits_for())).unwrap_or(thread)
    }

    /// Threads to look at, `most` of them, as process and thread. What is known of them is some milliseconds old: whoever ran
    /// then may wait now. A look at those alone that waited would meet long waits more often than their time tells.
    pub fn next_looks(&mut self, now: u64, most: usize) -> Vec<(i32, i32)> {
        let living = self.living.values().map(|&index| &self.threads[index]);
        let awake = living.filter(|thread| !thread.sleeps_on(now));
        let mut threads: Vec<_> = awake.map(|thread| (thread.tgid, thread.tid)).collect();
        if threads.len() > most {
            let first = jitter::random(&mut self.random) as usize % threads.len();
            threads.rotate_left(first);
            threads.truncate(most);
        }
        threads
    }

    /// Threads that run, with the time on CPUs that no sample stands for and all of it, ns.
    pub fn running(&self, now: u64) -> Vec<(i32, i32, f64, f64)> {
        let living = self.living.values().map(|&index| &self.threads[index]);
        let running = living.filter(|thread| thread.times.has_cpu());
        let with_times = running.map(|thread| {
            let (unsampled, all) = thread.unsampled_ns(now);
            (thread.tgid, thread.tid, unsampled, all)
        });
        with_times.collect()
    }

    /// When it is looked at a thread, from now on: the time since it was before, ns.
    pub fn begin_look(&mut self, tid: i32, now: u64) -> u64 {
        let thread = self.living.get(&tid).and_then(|&index| self.threads.get_mut(index));
        let before = thread.and_then(|thread| thread.tried.replace(now));
        before.map_or(self.period as u64, |before| now.saturating_sub(before).max(1))
    }

    /// Follows the calls of a thread that waits; whether a register was missing for that, and nothing was noted.
    pub fn look(&mut self, thread: (i32, i32), look: &Look, when: LookTime) -> bool {
        let (tgid, tid) = thread;
        let known = self.followed.get(&tid).filter(|(followed, _)| followed == look).map(|(_, stack)| *stack);
        let open = self.living.get(&tid).is_some_and(|&index| self.threads[index].is_looked_at_now());
        if let Some(stack) = known.filter(|_| open) {
            self.look_at_known(thread, look, stack, when);
            return false;
        }
        let found = self.unwind(tgid, look.values(), (look.sp(), &[]));
        // It may have gone on meanwhile: short waits would not count if they were left out then.
        let unchanged = Look::at(tgid, tid).as_ref() == Some(look);
        if found.lacks_register && unchanged {
            return true;
        }
        if unchanged {
            let stack = self.collection.user_stack(&found.places, found.complete, look.call());
            self.followed.insert(tid, (*look, stack));
            self.look_at_known(thread, look, stack, when);
        } else {
            self.look_in_passing(thread, look, when);
        }
        false
    }

    /// Notes a wait whose calls can't be followed: it most likely is where the thread waited the same way before, and it is in
    /// this system call.
    pub fn look_in_passing(&mut self, thread: (i32, i32), look: &Look, when: LookTime) {
        let known =
            self.followed.get(&thread.1).filter(|(followed, _)| followed.is_there(look)).map(|(_, stack)| *stack);
        let stack = known.unwrap_or_else(|| {
            let found = self.unwind(thread.0, look.values(), (look.sp(), &[]));
            let innermost = found.places.get(..1).unwrap_or_default();
            self.collection.user_stack(innermost, false, look.call())
        });
        self.look_at_known(thread, look, stack, when);
    }

    /// The same with the registers and the stack of a moment in which it was stopped; gives the stack's number.
    pub fn look_at_stopped(
        &mut self,
        thread: (i32, i32),
        look: &Look,
        stopped: &Stopped,
        when: LookTime,
    ) -> StackNumber {
        let values = Values::of_sample(stopped.registers);
        let found = self.unwind(thread.0, values, (stopped.registers.sp, &stopped.stack));
        let stack = self.collection.user_stack(&found.places, found.complete, look.call());
        self.followed.insert(thread.1, (*look, stack));
        self.look_at_known(thread, look, stack, when);
        stack
    }

    /// A thread waits where it has waited before.
    pub fn look_at_known(&mut self, (tgid, tid): (i32, i32), look: &Look, stack: StackNumber, when: LookTime) {
        let Some(&thread) = self.living.get(&tid) else { return };
        let record = Box::new(look.record(tgid, self.threads[thread].task));
        let LookTime { from, until, gap } = when;
        self.waiting.push(Noted { time: from, tgid, tid, what: What::Waits { stack, record, until, gap } });
    }

    /// Follows the calls of a thread that was stopped while it ran.
    pub fn stopped(&mut self, (tgid, tid): (i32, i32), stopped: &Stopped) {
        let registers = stopped.registers;
        let found = self.unwind(tgid, Values::of_sample(registers), (registers.sp, &stopped.stack));
        let stack = self.collection.user_stack(&found.places, found.complete, stopped.call);
        let what = What::Stopped { stack, in_call: stopped.call.is_some() };
        self.waiting.push(Noted { time: stopped.at, tgid, tid, what });
    }

    fn unwind(&mut self, tgid: i32, values: Values, stack: (u64, &[u8])) -> Unwound {
        let code = self.processes.entry(tgid).or_default();
        let files = self.collection.files();
        let found = code.unwind(tgid, values, stack, &mut self.images, files);
        if !found.is_in_unknown_code() || !code.learn(tgid, monotonic_ns(), files) {
            return found;
        }
        code.unwind(tgid, values, stack, &mut self.images, files)
    }

    fn add_thread(&mut self, tgid: i32, tid: i32, times: ThreadTimes) -> usize {
        let index = self.threads.len();
        self.living.insert(tid, index);
        self.threads.push(Thread::new(index as u32 + 1, (tgid, tid), times));
        index
    }

    fn thread(&mut self, noted: &Noted) -> usize {
        if let Some(&thread) = self.living.get(&noted.tid) {
            return thread;
        }
        let index = self.add_thread(noted.tgid, noted.tid, ThreadTimes::new(noted.time, false));
        self.collection.user_task(&self.threads[index].record(task_event::BORN, noted.time));
        index
    }

    /// Changes what a thread does, and the number of active threads with it; `later` comes after that.
    fn change_before(
        &mut self,
        index: usize,
        time: u64,
        later: &VecDeque<Noted>,
        change: impl FnOnce(&mut ThreadTimes),
    ) {
        if self.activity.active() == 0 {
            let ender = self.ended_by(index, later);
            if ender != index {
                let open = self.activity.take_open();
                self.threads[ender].has_ended(open);
            }
        }
        self.change(index, time, change);
    }

    /// Changes what a thread does, and the number of active threads with it.
    fn change(&mut self, index: usize, time: u64, change: impl FnOnce(&mut ThreadTimes)) {
        let Self { threads, activity, collection, .. } = self;
        let thread = &mut threads[index];
        let was = thread.times.is_active();
        change(&mut thread.times);
        match (was, thread.times.is_active()) {
            (false, true) => {
                let idle = activity.begins();
                thread.becomes_active(activity.gained);
                thread.ends_wait(time, idle, collection);
            }
            (true, false) => {
                thread.stops_being_active(activity.gained);
                activity.ends();
                if thread.times.is_waiting() {
                    self.slices += 1;
                    thread.begins_wait(time);
                }
            }
            _ => {}
        }
    }

    fn one(&mut self, noted: Noted, later: &VecDeque<Noted>) {
        self.activity.advance(noted.time);
        let thread = match &noted.what {
            What::Seen(Seen::Lost(count)) => {
                self.lost += count;
                return;
            }
            What::Seen(Seen::Born { parent, by }) => return self.born(&noted, *parent, *by),
            _ => self.thread(&noted),
        };
        let Noted { time, tgid, what, .. } = noted;
        match what {
            What::Seen(Seen::Runs) => self.change_before(thread, time, later, |times| times.runs(time)),
            What::Seen(seen) => self.seen(thread, (time, tgid), seen),
            What::Waits { stack, record, until, gap } => {
                let cause = self.collection.user_cause(&record, stack);
                let limit = time_limit(&record).map(|limit| {
                    let whole = sched_wait { begin: 0, end: limit, ..*record };
                    (limit, self.collection.user_cause(&whole, stack))
                });
                let what = WaitsFor::of(&record);
                self.threads[thread].is_looked_at(Looked { stack, cause, what, gap, limit }, until);
            }
            // One that waited when it was asked to stop, be it for a CPU after that, stands where it waits; one that was
            // preempted stands where it ran.
            What::Stopped { stack, in_call } if self.threads[thread].times.is_active() => {
                let active = self.activity.active();
                self.threads[thread].is_stopped(stack, active, in_call, time);
            }
            What::Stopped { .. } => {}
        }
    }

    fn born(&mut self, noted: &Noted, parent: i32, by: i32) {
        let &Noted { time, tgid, tid, .. } = noted;
        // The record of its end was lost.
        if let Some(&old) = self.living.get(&tid) {
            self.ends(old, time);
        }
        let index = self.add_thread(tgid, tid, ThreadTimes::new(time, false));
        let made_by =
            self.living.get(&by).or_else(|| self.living.get(&parent)).copied().filter(|&maker| maker != index);
        let maker = made_by.map(|maker| (self.threads[maker].task, self.threads[maker].name.clone()));
        let thread = &mut self.threads[index];
        thread.parent_tgid = if parent == tgid { 0 } else { parent };
        (thread.parent, thread.name) = maker.unwrap_or_default();
        if parent != tgid {
            let code = self.processes.get(&parent).map(ProcessCode::of_child).unwrap_or_default();
            self.processes.insert(tgid, code);
            self.named.insert(tgid, true);
        }
        let record = self.threads[index].record(task_event::BORN, time);
        self.collection.user_task(&record);
        // It waits for a CPU.
        self.change(index, time, |times| *times = ThreadTimes::new(time, true));
    }

    fn ends(&mut self, index: usize, time: u64) {
        self.threads[index].ends_wait(time, 0, &mut self.collection);
        self.change(index, time, |times| times.ends(time));
        self.threads[index].end = Some(time);
        self.living.remove(&self.threads[index].tid);
    }

    fn seen(&mut self, thread: usize, (time, tgid): (u64, i32), seen: Seen) {
        match seen {
            Seen::Named { name, program } => {
                self.threads[thread].name = name;
                if program {
                    self.processes.insert(tgid, ProcessCode::default());
                    self.named.insert(tgid, false);
                    let record = self.threads[thread].record(task_event::EXEC, time);
                    self.collection.user_task(&record);
                    self.change(thread, time, |times| times.is_running(time));
                }
            }
            Seen::Mapped(CodeMapping { start, end, offset, device: (major, minor), inode, path }) => {
                // The first code of a program is its own.
                if inode != 0 && !self.named.insert(tgid, true).unwrap_or(false) {
                    self.collection.user_program(tgid, &path);
                }
                if has_names(&path, inode) {
                    let device = rustix::fs::makedev(major, minor);
                    let range = Some((start, end));
                    let file = self.collection.files().number_mapped(tgid, &path, device, inode, range);
                    self.processes.entry(tgid).or_default().map(start, end, offset, file);
                }
            }
            Seen::Stops { preempted } => self.change(thread, time, |times| times.stops(time, preempted)),
            Seen::Ended => self.ends(thread, time),
            Seen::Sample { period, registers, stack } => {
                // Also where a record of it was lost.
                if !self.threads[thread].times.has_cpu() {
                    self.change(thread, time, |times| times.runs(time));
                }
                let found = self.unwind(tgid, Values::of_sample(registers), (registers.sp, &stack));
                let stack = self.collection.user_stack(&found.places, found.complete, None);
                if stack != NO_STACK {
                    let active = self.activity.active();
                    self.threads[thread].is_sampled(stack, active, period);
                    self.collection.user_moment(RawTimedSample {
                        time,
                        task: self.threads[thread].task,
                        stack,
                        period,
                    });
                }
            }
            Seen::Runs | Seen::Born { .. } | Seen::Lost(_) => {}
        }
    }

    /// Time that threads ran, ns.
    pub fn ran(&self) -> f64 {
        self.threads.iter().map(|thread| thread.times.exact().running).sum()
    }

    /// The tables.
    ///
    /// # Errors
    /// If rows that were put aside can't be read again.
    pub fn finish(mut self, now: u64) -> Result<Collected, RecordError> {
        self.take(u64::MAX);
        self.activity.advance(now);
        let waits = self.living.values().filter(|&&thread| self.threads[thread].times.is_waiting());
        // Nothing has ended the time since the last thread blocked.
        let last = waits.max_by_key(|&&thread| self.threads[thread].waits_since()).copied();
        let open = if last.is_some() { self.activity.take_open() } else { 0 };
        for index in self.living.values().copied().collect::<Vec<_>>() {
            let idle = if Some(index) == last { open } else { 0 };
            self.threads[index].ends_wait(now, idle, &mut self.collection);
            self.change(index, now, |times| times.ends(now));
        }
        for thread in &mut self.threads {
            thread.finish(now, self.rounds, &mut self.collection);
        }
        let activity = self.activity;
        let application = transect_bpf_collect::ApplicationTotals {
            application: 0,
            busy_ns: activity.busy,
            idle_ns: activity.idle,
            idle_open_ns: 0,
            histogram: activity.histogram,
            active: 0,
            criticality: 0,
        };
        let mut totals = Totals { applications: vec![application], now, ..Totals::default() };
        totals.lost.samples = self.lost;
        let preemptions = self.threads.iter().map(|thread| (thread.task, thread.times.preemptions));
        self.collection.user_finish(&totals, self.slices, preemptions)
    }
}

#[cfg(test)]
#[path = "gathered_tests.rs"]
mod tests;
