//! What the collector's records tell a walk: sums by thread and stack, gathered in the collector's thread and handed over
//! in steps, so that names are looked up elsewhere while records go on coming.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::{
    FRACTION_BITS, Record, Stack, sched_preempted, sched_sample, sched_task, sched_wait, stack_flags, task_event, text,
    waker_context,
};
use transect_bpf_collect::{MappingEvents, OpenThread, SampledEvent};

use super::loss::NotKept;
use crate::sched::address_space::AddressSpaces;
use crate::sched::call_stack::{NO_STACK, StackNumber};
use crate::sched::cause::{CauseNumber, Causes};
use crate::sched::kind::Call;
use crate::sched::mapped_file::{MappedFile, MappedFiles};
use crate::sched::mapping_log::MappingLog;
use crate::sched::module::ReadFiles;
use crate::sched::object::Objects;
use crate::sched::place::Place;
use crate::sched::system_call_budget::CountedCalls;
use crate::sched::task::{RawTask, RawTasks};

/// A stack as places, each half leaf first.
#[derive(Debug, Clone)]
pub(crate) struct NewStack {
    /// Its number in other records.
    pub number: StackNumber,
    /// It was followed to its beginning.
    pub complete: bool,
    /// In the kernel.
    pub kernel: Vec<Place>,
    /// In the program.
    pub user: Vec<Place>,
}

/// Times of one kind, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub ns: f64,
    /// Sum of their squares.
    pub squares: f64,
}

impl Times {
    /// One of them.
    pub fn one(ns: u64) -> Self {
        let ns = ns as f64;
        Self { count: 1, ns, squares: ns * ns }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.ns += other.ns;
        self.squares += other.squares;
    }
}

/// What was seen of one thread with one stack.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sum {
    /// Samples, by the time on a CPU (or the number of the event) that they stand for.
    pub samples: Times,
    /// Waits.
    pub waits: Times,
    /// Times without a CPU that followed waits.
    pub runnable: Times,
    /// Times without a CPU after it was lost there.
    pub preempted: Times,
    /// Weights: of the event that was sampled or, by time, criticality of the samples, and idle time of the application
    /// that the waits ended, ns.
    pub critical: Times,
}

impl Sum {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.samples.add(&other.samples);
        self.waits.add(&other.waits);
        self.runnable.add(&other.runnable);
        self.preempted.add(&other.preempted);
        self.critical.add(&other.critical);
    }
}

/// What sums are of: a thread, its stack, and the system call whose exact time holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SumKey {
    /// Task number.
    pub task: u32,
    /// Its stack; [`NO_STACK`] where none was taken.
    pub stack: StackNumber,
    /// As in the records: see [`transect_bpf_collect::SystemCall::of_record`].
    pub call: u32,
    /// It is a wait that the walk itself ended: where it stands to be traced, its tracer is the walk.
    pub by_walk: bool,
}

/// What waits were for, and who ended them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WaitKey {
    /// Where.
    pub at: SumKey,
    /// Why.
    pub cause: CauseNumber,
    /// Task number of the waker, 0 if it is no thread that is followed.
    pub waker: u32,
    /// Its stack.
    pub waker_stack: StackNumber,
    /// [`transect_bpf_collect::record::waker_context`].
    pub context: u32,
    /// Name of a waker that is not followed.
    pub comm: [u8; 16],
}

/// What waits were for: handed over at the end.
#[derive(Debug, Default)]
pub(crate) struct WaitsSeen {
    /// Their time, ns.
    pub times: HashMap<WaitKey, f64>,
    /// Their causes.
    pub causes: Causes,
    /// Their objects.
    pub objects: Objects,
    /// Waits for which there was no room.
    pub refused: u64,
}

/// What came since the last time.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Files that stacks lie in, in order of their numbers: those that are new.
    pub files: Vec<MappedFile>,
    /// Stacks that are new.
    pub stacks: Vec<NewStack>,
    /// Those of them that were too deep: outer calls are missing.
    pub truncated: Vec<StackNumber>,
    /// Sums.
    pub sums: Vec<(SumKey, Sum)>,
    /// Threads of which something new is known.
    pub tasks: Vec<(u32, RawTask)>,
    /// Threads that live, with totals up to now and the waits that they are in.
    pub open: Vec<OpenThread>,
    /// Exact times in system calls, since the beginning.
    pub calls: CountedCalls,
    /// What waits were for; at the end only.
    pub waits: WaitsSeen,
    /// Programs of processes.
    pub executables: Vec<(i32, String)>,
    /// Processes that run another program than before.
    pub replaced: Vec<i32>,
    /// Files that were read already; at the end only.
    pub read: ReadFiles,
    /// What could not be kept, since the beginning.
    pub not_kept: NotKept,
}

/// Takes in records between two steps.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    event: SampledEvent,
    tasks: RawTasks,
    changed: HashMap<u32, ()>,
    files: MappedFiles,
    files_sent: usize,
    spaces: AddressSpaces,
    numbers: HashMap<u64, (StackNumber, bool)>,
    stacks: Vec<NewStack>,
    truncated: Vec<StackNumber>,
    sums: HashMap<SumKey, Sum>,
    /// Stack of each thread's last wait, which what it then waits for a CPU belongs to.
    last_waits: HashMap<u32, SumKey>,
    /// Of each thread's time without a CPU since its last wait, what was recorded as preemption, ns.
    preempted: HashMap<u32, u64>,
    waits: WaitsSeen,
    /// Waits under way of which a part was counted: their begin, and up to when.
    counted: HashMap<u32, (u64, u64)>,
    executables: HashMap<i32, String>,
    executables_new: Vec<(i32, String)>,
    replaced: Vec<i32>,
    refused: u64,
    stackless: u64,
    malformed: u64,
    /// The last times in which samples don't count, from and to; the open one ends with the end of time.
    blind: [(u64, u64); 2],
    /// What such samples of each thread stood for: its next ones stand for that, too.
    owed: HashMap<u32, u64>,
}

/// Whether a thread of this name is the walk's own.
pub(super) fn is_walk(name: &str) -> bool {
    name.starts_with("transect")
}

/// More are not kept.
const MAX_STACKS: usize = 120_000;
const MAX_SUMS: usize = 200_000;
const MAX_WAITS: usize = 50_000;
/// A thread that was on a CPU for so long between two waits may have been preempted there: what it then waited for
/// a CPU is not its wake-up's.
const PREEMPTED_AFTER_NS: u64 = 3_000_000;
/// A sample stands for at most this multiple of its own time of what didn't count: none is to decide by itself.
const MOST_OWED: u64 = 3;

impl Gatherer {
    /// The kernel tells of processes' mappings there: also of processes that end before they are looked at.
    pub fn follow_mappings(&mut self, events: Rc<RefCell<MappingEvents>>) {
        self.spaces.follow(MappingLog::of(events));
    }

    /// Takes in samples of an event.
    pub fn new(event: SampledEvent) -> Self {
        Self { event, ..Self::default() }
    }

    /// Takes in one record.
    pub fn accept(&mut self, record: &Record<'_>) {
        match record {
            Record::Task(task) => self.task(task),
            Record::Stack(stack) => self.stack(stack),
            Record::Wait(wait) => self.wait(wait),
            // Waits and preemptions have the time without a CPU.
            Record::Sample(sample) if sample.queued != 0 => {}
            Record::Sample(sample) => self.sample(sample),
            // The walk has every wait told.
            Record::Brief(_) => {}
            Record::Preempted(preempted) => self.preempted(preempted),
            Record::UnknownCode(unknown) => self.spaces.meet(unknown.tgid, unknown.address, &mut self.files),
        }
    }

    /// Counts a record that could not be read.
    pub fn reject(&mut self) {
        self.malformed += 1;
    }

    /// What has time until the ring is empty.
    pub fn between(&mut self) {
        self.spaces.forget_ended();
    }

    /// Hands over what came since the last time.
    pub fn take(&mut self, open: Vec<OpenThread>, last: bool) -> Evidence {
        for open in &open {
            if let Some(wait) = &open.wait {
                self.wait_so_far(open.task.task, wait, last);
            }
        }
        let files = self.files.since(self.files_sent);
        self.files_sent += files.len();
        let tasks = std::mem::take(&mut self.changed).into_keys();
        Evidence {
            files,
            stacks: std::mem::take(&mut self.stacks),
            truncated: std::mem::take(&mut self.truncated),
            sums: std::mem::take(&mut self.sums).into_iter().collect(),
            tasks: tasks.filter_map(|number| Some((number, self.tasks.get(number)?.clone()))).collect(),
            open,
            executables: std::mem::take(&mut self.executables_new),
            replaced: std::mem::take(&mut self.replaced),
            not_kept: NotKept {
                unseen: self.spaces.unseen,
                stacks: self.refused,
                threads: self.tasks.refused,
                stackless: self.stackless,
                malformed: self.malformed,
                ..NotKept::default()
            },
            waits: if last { std::mem::take(&mut self.waits) } else { WaitsSeen::default() },
            ..Evidence::default()
        }
    }

    fn task(&mut self, record: &sched_task) {
        self.tasks.update(record);
        self.changed.insert(record.task, ());
        let leader = record.tid == record.tgid;
        match record.event {
            task_event::SEEDED if leader => self.spaces.met(record.tgid, record.time, &mut self.files),
            task_event::BORN if leader => self.spaces.born(record.tgid, record.parent_tgid, &mut self.files),
            task_event::EXEC => {
                self.spaces.replaced(record.tgid, record.time, &mut self.files);
                self.replaced.push(record.tgid);
            }
            task_event::EXIT if leader => self.spaces.ended(record.tgid),
            _ => {}
        }
        if leader && (record.event == task_event::EXEC || !self.executables.contains_key(&record.tgid)) {
            let program = self.spaces.executable(record.tgid, &mut self.files).to_string();
            if !program.is_empty() {
                self.executables.insert(record.tgid, program.clone());
                self.executables_new.push((record.tgid, program));
            }
        }
    }

    fn number(&mut self, hash: u64) -> StackNumber {
        if hash == 0 {
            return NO_STACK;
        }
        if let Some(&(number, _)) = self.numbers.get(&hash) {
            return number;
        }
        if self.numbers.len() >= MAX_STACKS {
            self.refused += 1;
            return NO_STACK;
        }
        let number = self.numbers.len() as StackNumber + 1;
        self.numbers.insert(hash, (number, false));
        number
    }

    fn stack(&mut self, stack: &Stack<'_>) {
        let number = self.number(stack.id);
        // Sent again where the kernel's part could not remember that it had been.
        let Some((_, came)) = self.numbers.get_mut(&stack.id).filter(|(_, came)| !*came) else { return };
        *came = true;
        let kernel = stack.kernel().enumerate();
        let kernel = kernel.map(|(depth, address)| Place::Kernel { address, returns: depth > 0 }).collect();
        let mut user = Vec::with_capacity(stack.user().len());
        for (depth, address) in stack.user().enumerate() {
            user.push(self.spaces.place(stack.tgid, address, depth > 0, &mut self.files));
        }
        if stack.flags & stack_flags::TRUNCATED != 0 {
            self.truncated.push(number);
        }
        self.stacks.push(NewStack { number, complete: stack.flags & stack_flags::COMPLETE != 0, kernel, user });
    }

    fn add(&mut self, mut key: SumKey, sum: Sum) {
        if self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key) {
            self.refused += 1;
            key.stack = NO_STACK;
        }
        self.sums.entry(key).or_default().add(&sum);
    }

    fn wait(&mut self, record: &sched_wait) {
        let by_walk = record.waker_context == waker_context::OTHER_TASK && is_walk(&text(&record.waker_comm));
        let key = SumKey { task: record.task, stack: self.number(record.stack), call: record.call, by_walk };
        let preempted = self.preempted.remove(&record.task).unwrap_or(0);
        let woken_ns = record.slice_runnable_ns.saturating_sub(preempted);
        if record.slice_begin != 0 && record.slice_begin < record.begin && woken_ns > 0 {
            let on_ns = (record.begin - record.slice_begin).saturating_sub(record.slice_runnable_ns);
            let before = self.last_waits.get(&record.task).copied().filter(|_| on_ns < PREEMPTED_AFTER_NS);
            if let Some(before) = before {
                let runnable = Times::one(woken_ns);
                self.add(before, Sum { runnable, ..Sum::default() });
            }
        }
        self.last_waits.insert(record.task, key);
        let counted = self.counted.remove(&record.task).filter(|(begin, _)| *begin == record.begin);
        let mut waits = Times::one(record.end.saturating_sub(record.begin));
        if let Some((_, until)) = counted {
            waits = Times { count: 0, ..Times::one(record.end.saturating_sub(until)) };
        }
        let idle = if self.event == SampledEvent::CpuClock { record.idle } else { 0 };
        let critical = Times::one(idle);
        self.add(key, Sum { waits, critical, ..Sum::default() });
        self.note(key, record, record.end.saturating_sub(record.begin));
    }

    fn preempted(&mut self, record: &sched_preempted) {
        let ns = record.end.saturating_sub(record.begin);
        *self.preempted.entry(record.task).or_default() += ns;
        let stack = self.number(record.stack);
        let key = SumKey { task: record.task, stack, call: record.call, by_walk: false };
        self.add(key, Sum { preempted: Times::one(ns), ..Sum::default() });
    }

    /// A wait that is under way counts up to now.
    fn wait_so_far(&mut self, task: u32, wait: &sched_wait, last: bool) {
        // Evidence is taken while the walk holds nobody.
        let key = SumKey { task, stack: self.number(wait.stack), call: wait.call, by_walk: false };
        let before = self.counted.insert(task, (wait.begin, wait.end)).filter(|(begin, _)| *begin == wait.begin);
        let from = before.map_or(wait.begin, |(_, until)| until);
        let more = Times { count: u64::from(before.is_none()), ..Times::one(wait.end.saturating_sub(from)) };
        self.add(key, Sum { waits: more, ..Sum::default() });
        if last {
            let nobody = sched_wait { waker: 0, waker_stack: 0, waker_context: waker_context::NONE, ..*wait };
            self.note(key, &nobody, wait.end.saturating_sub(wait.begin));
        }
    }

    /// What a wait was for, and who ended it.
    fn note(&mut self, at: SumKey, record: &sched_wait, ns: u64) {
        if at.stack == NO_STACK {
            return;
        }
        let tgid = self.tasks.get(record.task).map_or(0, |task| task.record.tgid);
        let objects = &mut self.waits.objects;
        let object = match Call::of(record.system_call) {
            Call::Futex => objects.word(tgid, record.arguments[0], &mut self.spaces, &mut self.files),
            _ => objects.descriptor(tgid, &record.object),
        };
        let cause = self.waits.causes.number(record, object);
        let waker_stack = if record.waker != 0 { self.number(record.waker_stack) } else { NO_STACK };
        let mut comm = [0; 16];
        if record.waker_context == waker_context::OTHER_TASK {
            comm = record.waker_comm.map(|byte| byte as u8);
        }
        let (waker, context) = (record.waker, record.waker_context);
        let key = WaitKey { at, cause, waker, waker_stack, context, comm };
        if self.waits.times.len() < MAX_WAITS || self.waits.times.contains_key(&key) {
            *self.waits.times.entry(key).or_default() += ns as f64;
        } else {
            self.waits.refused += 1;
        }
    }

    /// Samples count from `now` on (ns of the monotonic clock), or don't. Records may come some milliseconds later.
    pub fn sampling(&mut self, on: bool, now: u64) {
        match (&mut self.blind, on) {
            ([_, last], true) => last.1 = last.1.min(now),
            (blind, false) => *blind = [blind[1], (now, u64::MAX)],
        }
    }

    fn sample(&mut self, record: &sched_sample) {
        if self.blind.iter().any(|(from, until)| (*from..*until).contains(&record.time)) {
            *self.owed.entry(record.task).or_default() += u64::from(record.period);
            return;
        }
        let own = u64::from(record.period);
        let owed = self.owed.get_mut(&record.task).map_or(0, |owed| {
            let taken = (*owed).min(MOST_OWED * own);
            *owed -= taken;
            taken
        });
        self.stackless += u64::from(record.stack == 0);
        let stack = self.number(record.stack);
        let key = SumKey { task: record.task, stack, call: record.call, by_walk: false };
        // One sample all the same, whatever it stands for: its interval is as wide as that makes it.
        let samples = Times::one(own + owed);
        let critical = Times::one(match self.event {
            SampledEvent::CpuClock => record.criticality >> FRACTION_BITS,
            _ => record.period.into(),
        });
        self.add(key, Sum { samples, critical, ..Sum::default() });
    }
}

#[cfg(test)]
mod tests;
