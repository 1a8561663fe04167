//! From what was gathered to the tables of the profile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::thread;

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use transect_bpf_collect::SchedSettings;
use transect_bpf_collect::record::{FRACTION_BITS, stack_flags};
use transect_profile_model::{
    CODE_WITHOUT_FILE, Component, FrameId, Loss, LossKind, Origin, Parallelism, Process, ProcessId, Profile,
    SchedSample, SchedSession, SchedTables, SchedWait, Slice, StackFrame, StackId, Task, TaskId, TimedSample,
};

use super::affinity::{allowed_cpus, nice};
use super::agent_time::{AgentTime, room_of_work};
use super::brief::BriefWaits;
use super::call_stack::{RawStacks, StackNumber};
use super::cause::Causes;
use super::collection::Totals;
use super::kernel_symbols::SymbolSource;
use super::mapped_file::MappedFiles;
use super::module::ReadFiles;
use super::naming::Naming;
use super::object::Objects;
use super::place::Places;
use super::processes::Processes;
use super::sample::{SampleKey, SampleSum, Samples};
use super::short_threads::stand_in;
use super::slowdown::{self, ThreadLife};
use super::stack_instructions::MetStacks;
use super::stack_names::NamedStacks;
use super::task::{RawTask, RawTasks};
use super::timeline::{RawWaits, SliceRuns};
use super::wait_rows::{Seen, WaitNames};
use crate::component_rows::place;
use crate::error::RecordError;
use crate::process_cost::processes_ns;
use crate::session::counting_ns;
use crate::{thread_ends, thread_starts};

/// Everything that came, before it is named.
#[derive(Debug)]
pub(super) struct Gathered {
    pub settings: SchedSettings,
    /// Time between the timer's samples now, ns.
    pub sample_period: u64,
    /// The recording's start, ns of the monotonic clock.
    pub origin: u64,
    pub tasks: RawTasks,
    pub places: Places,
    pub stacks: RawStacks,
    pub files: MappedFiles,
    pub kernel: SymbolSource,
    /// Files that others have read for names.
    pub read: ReadFiles,
    pub objects: Objects,
    pub causes: Causes,
    pub seen: Seen,
    /// Waits by task number and stack: how many, and how long, ns.
    pub waited: HashMap<(u32, StackNumber), (u64, u64)>,
    /// Of them in sleeps that a time ends, by task number, ns.
    pub slept: HashMap<u32, u64>,
    /// By stack: time in which no thread was active that its waits ended, ns.
    pub idle: HashMap<StackNumber, u64>,
    pub samples: Samples,
    pub waits: RawWaits,
    pub slices: SliceRuns,
    pub brief: BriefWaits,
    /// Waits that were summed up without detail.
    pub brief_waits: u64,
    /// Records that could not be read.
    pub malformed: u64,
    pub critical_slices: u64,
    pub slice_count: u64,
}

/// The processes that were met, and what is known of their memory.
#[derive(Debug)]
pub(super) struct MetProcesses {
    pub processes: Processes,
    /// Users of processes with code without a file.
    pub owners: std::collections::HashMap<i32, u32>,
    /// Addresses of processes that could not be looked at.
    pub unseen: u64,
}

/// A finished recording of scheduler events.
#[derive(Debug)]
pub struct Collected {
    /// The tables, without waits and slices.
    pub tables: SchedTables,
    /// Facts about the recording.
    pub session: SchedSession,
    /// Processes that the tables refer to.
    pub processes: Vec<Process>,
    /// Components that the tables refer to.
    pub components: Vec<Component>,
    /// Of them, by process id, those that serve requests.
    listening: Vec<i32>,
    /// What was not seen.
    pub loss: Vec<Loss>,
    /// Waits and slices.
    pub timeline: Timeline,
    /// Time in the agent, on a CPU and waiting, ns; `None` where too few samples tell.
    agent: Option<AgentTime>,
    /// Of the waits that were described, time in sleeps that a time ends, ns.
    slept: HashMap<TaskId, u64>,
    /// What a sample's interrupt costs here; 0 where that can't be told, or there are few.
    interrupt_ns: f64,
}

/// So many samples tell how much of the time is the agent's.
const LEAST_SAMPLES: i64 = 30;

/// CPU time that a slice costs: a block, the wake-up that ends it and the switches about it, ns. These three are what
/// `benches/criticality.py` measures, and for the estimate of the overhead only.
const SLICE_NS: f64 = 350.0;
/// The same for a wait that is described, with stacks.
const WAIT_NS: f64 = 500.0;
/// The same for a sample.
const SAMPLE_NS: f64 = 2000.0;

/// The same for a sample that needs no privileges: a copy of the stack's top is made, and an interrupt of its own.
const USER_SAMPLE_NS: f64 = 12_000.0;

/// Of the time on CPUs the agent's calibrated costs can explain this part at most: they are not known better.
const CERTAIN_PART: f64 = 0.85;

/// Waits and slices, in files.
#[derive(Debug)]
pub struct Timeline {
    waits: RawWaits,
    slices: SliceRuns,
    names: WaitNames,
    /// Row of each thread by its task number.
    tasks: HashMap<u32, TaskId>,
    origin: u64,
    /// Row of each wait that is kept by itself.
    rows: RefCell<Vec<i32>>,
    stacks: StackFacts,
}

/// What is known of stacks beside their frames.
#[derive(Debug, Default)]
pub(crate) struct StackFacts {
    /// Waits of a thread with a stack.
    pub waited: Vec<Waited>,
    /// How often threads lost their CPU, where that is known by no stacks.
    pub preemptions: Option<HashMap<TaskId, u64>>,
}

/// See [`StackFacts::waited`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub task: TaskId,
    pub stack: StackId,
    pub count: u64,
    pub ns: u64,
}

impl Timeline {
    /// How often threads lost their CPU, by task number.
    pub(super) fn know_preemptions(&mut self, counts: impl Iterator<Item = (u32, u64)>) {
        let row = |(task, count): (u32, u64)| Some((*self.tasks.get(&task)?, count));
        self.stacks.preemptions = Some(counts.filter_map(row).collect());
    }

    /// What is known of the stacks that the tables hold.
    pub(crate) fn stacks(&self) -> &StackFacts {
        &self.stacks
    }

    /// Rows of waits, in order of their end, and then rows of slices: the latter are to be read after the former, whose
    /// row numbers they hold.
    pub fn tables(&mut self) -> (impl Iterator<Item = io::Result<SchedWait>>, impl Iterator<Item = io::Result<Slice>>) {
        let Self { waits, slices, names, tasks, origin, rows, .. } = self;
        let (tasks, rows, origin, names) = (&*tasks, &*rows, *origin, &*names);
        *rows.borrow_mut() = vec![-1; waits.numbered as usize];
        let mut next = 0;
        let waits = waits.sorted().filter_map(move |row| {
            let (sum, number) = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let wait = names.wait(&sum, tasks, origin)?;
            if let Some(number) = number
                && let Some(row) = rows.borrow_mut().get_mut(number as usize)
            {
                *row = next;
            }
            next += 1;
            Some(Ok(wait))
        });
        let slices = slices.sorted().filter_map(move |row| {
            let slice = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let wait = slice.wait.and_then(|number| rows.borrow().get(number as usize).copied());
            Some(Ok(Slice {
                task: *tasks.get(&slice.task)?,
                start_ns: since(origin, slice.start),
                active_ns: (slice.end - slice.start) as i64,
                runnable_ns: slice.runnable_ns as i64,
                criticality_ns: slice.criticality_ns as i64,
                wait: wait.unwrap_or(-1),
            }))
        });
        (waits, slices)
    }

    /// Puts waits, and slices if they are wanted, into memory.
    ///
    /// # Errors
    /// If they can't be read again.
    pub fn load_into(&mut self, tables: &mut SchedTables, with_slices: bool) -> io::Result<()> {
        let (waits, slices) = self.tables();
        tables.waits = waits.collect::<io::Result<_>>()?;
        tables.slices = if with_slices { slices.collect::<io::Result<_>>()? } else { Vec::new() };
        Ok(())
    }
}

/// ns since the recording's start.
pub(super) fn since(origin: u64, time: u64) -> i64 {
    time.wrapping_sub(origin) as i64
}

fn whole_ns(fixed: u64) -> i64 {
    (fixed >> FRACTION_BITS) as i64
}

impl Gathered {
    /// A copy, while more comes; without files.
    pub(super) fn so_far(&self) -> Self {
        Self {
            tasks: self.tasks.clone(),
            places: self.places.clone(),
            stacks: self.stacks.clone(),
            files: MappedFiles::default(),
            kernel: SymbolSource::default(),
            read: ReadFiles::default(),
            objects: self.objects.clone(),
            causes: self.causes.clone(),
            seen: self.seen.clone(),
            waited: self.waited.clone(),
            slept: self.slept.clone(),
            idle: self.idle.clone(),
            samples: self.samples.clone(),
            waits: self.waits.so_far(),
            slices: self.slices.so_far(),
            brief: self.brief.clone(),
            ..*self
        }
    }

    pub(super) fn collected(mut self, totals: &Totals, met: MetProcesses) -> Result<Collected, RecordError> {
        let MetProcesses { processes, owners, unseen } = met;
        self.samples.settle();
        // Beside what takes as long.
        let sampled = self.samples.sums.values().map(|sum| sum.count as i64).sum::<i64>() >= LEAST_SAMPLES;
        let interrupt =
            sampled.then(|| thread::Builder::new().spawn(transect_bpf_collect::interrupt_ns).ok()).flatten();
        let mut naming = Naming::new(
            std::mem::take(&mut self.files),
            std::mem::take(&mut self.kernel),
            processes.ns_tgids.clone(),
            processes.rows.iter().map(|process| process.executable.clone()).collect(),
        );
        naming.know_owners(owners);
        naming.prepare(self.places.all().iter().copied(), &mut self.read);
        let met = MetStacks::of(&self.samples, &self.waited);
        let mut stacks = NamedStacks::of(&self.stacks, &self.places, &mut naming, &met);
        let (causes, objects) = (std::mem::take(&mut self.causes), std::mem::take(&mut self.objects));
        let names = WaitNames::of(causes, objects, &self.seen, &stacks, &mut naming);
        let (mut tasks, rows) = self.tasks(&processes, totals.now);
        let (samples, unattributed_ns) = self.samples(&mut tasks, &processes, &rows, &stacks, &naming.frames);
        let busy_ns: u64 = totals.applications.iter().map(|application| application.busy_ns).sum();
        let session = SchedSession {
            estimate: false,
            per_process: self.settings.per_process,
            cpus: self.settings.cpus.into(),
            sample_hz: self.settings.sample_hz.into(),
            min_parallelism: self.settings.min_parallelism.into(),
            stack_depth: self.settings.stack_depth.into(),
            busy_ns: busy_ns as i64,
            idle_ns: totals.applications.iter().map(|application| application.idle_ns).sum::<u64>() as i64,
            // Threads that were lost are in it.
            unattributed_ns: (busy_ns as i64
                - (tasks.iter().map(|task| task.criticality_ns).sum::<i64>() - unattributed_ns))
                .max(0),
            drift: totals.drift as i64,
            slices: (self.slice_count + totals.lost.waits) as i64,
            critical_slices: self.critical_slices as i64,
            start_ns: tasks.iter().map(|task| task.start_ns).min().unwrap_or(0),
            end_ns: since(self.origin, totals.now),
        };
        let waited = self.waited.iter().filter_map(|(&(task, stack), &(count, ns))| {
            Some(Waited { task: *rows.get(&task)?, stack: stacks.row(stack)?, count, ns })
        });
        let facts = StackFacts { waited: waited.collect(), preemptions: None };
        let slept = self.slept.iter().filter_map(|(task, &ns)| Some((*rows.get(task)?, ns))).collect();
        let running = tasks.iter().map(|task| task.running_ns).sum();
        let agent = sampled.then(|| self.agent(&samples, &stacks, session.busy_ns, running)).flatten();
        let interrupt_ns = interrupt.and_then(|cost| cost.join().ok().flatten()).unwrap_or(0.0);
        let tables = SchedTables {
            tasks,
            parallelism: self.parallelism(totals, &processes),
            samples,
            moments: self.moments(&rows, &stacks),
            instructions: stacks.instructions.take_rows(),
            stacks: std::mem::take(&mut stacks.rows),
            addresses: std::mem::take(&mut stacks.addresses),
            frames: std::mem::take(&mut naming.frames),
            waits: Vec::new(),
            slices: Vec::new(),
        };
        let loss = self.loss(totals, &naming, &stacks, names.refused, unseen);
        let components = std::mem::take(&mut naming.components);
        let serving = self.tasks.all().filter(|(_, task)| task.listens).map(|(_, task)| task.record.tgid);
        let listening = serving.filter_map(|tgid| processes.ns_tgids.get(&tgid).copied()).collect();
        Ok(Collected {
            tables,
            session,
            listening,
            processes: processes.rows,
            components,
            loss,
            timeline: Timeline {
                waits: self.waits,
                slices: self.slices,
                names,
                tasks: rows,
                origin: self.origin,
                rows: RefCell::default(),
                stacks: facts,
            },
            agent,
            slept,
            interrupt_ns,
        })
    }

    /// Of a run in which threads were active for `busy` ns, and `running` ns on CPUs altogether. `None` without samples of the timer:
    /// those of switches have the time without a CPU, of which much is where others woke the thread.
    fn agent(&self, samples: &[SchedSample], stacks: &NamedStacks, busy: i64, running: i64) -> Option<AgentTime> {
        let in_agent = |stack: StackNumber| stacks.row(stack).is_some_and(|row| stacks.is_agents(row));
        let waited: u64 = self.waited.iter().filter(|((_, stack), _)| in_agent(*stack)).map(|(_, (_, ns))| ns).sum();
        let idle: u64 = self.idle.iter().filter(|(stack, _)| in_agent(**stack)).map(|(_, ns)| ns).sum();
        // By the time that each stands for: a recording takes fewer later.
        let timed = |counts: &dyn Fn(&SchedSample) -> bool| {
            let rows = samples.iter().filter(|sample| sample.origin == Origin::Sample && counts(sample));
            rows.fold((0, 0.0, 0.0), |(count, summed, shared), row| {
                let ns = row.active_ns as f64;
                (count + row.samples, summed + ns, shared + ns / f64::from(row.n.max(1)))
            })
        };
        let (count, all_summed, all_shared) = timed(&|_| true);
        let of_all = |(_, summed, shared): (i64, f64, f64)| {
            let of = |part: f64, all: f64, ns: i64| (ns as f64 * part / all.max(1.0)) as i64;
            (of(summed, all_summed, running), of(shared, all_shared, busy))
        };
        let agents = timed(&|sample| stacks.is_agents(sample.stack));
        let (summed_ns, wall_ns) = of_all(agents);
        (count > 0).then(|| AgentTime {
            samples: agents.0,
            counting: of_all(timed(&|sample| stacks.is_agents(sample.stack) && stacks.is_counting(sample.stack))),
            summed_ns: summed_ns + waited as i64,
            wall_ns: wall_ns + idle as i64,
            idle_ns: idle as i64,
        })
    }

    /// Rows of threads, and where each task number's is.
    fn tasks(&self, processes: &Processes, now: u64) -> (Vec<Task>, HashMap<u32, TaskId>) {
        let known = self.tasks.all().filter(|(_, task)| task.known);
        let main_groups = self.main_groups(processes);
        let rows: HashMap<u32, TaskId> = (0..).zip(known.clone()).map(|(row, (number, _))| (number, row)).collect();
        let tasks = known.map(|(number, task)| {
            let record = &task.record;
            let name = transect_bpf_collect::record::text(&record.comm);
            let main = record.tid == record.tgid;
            Task {
                parent: rows.get(&record.parent).copied().filter(|_| !task.seeded),
                process: processes.of_task[&number],
                tid: if record.ns_tid != 0 { record.ns_tid } else { record.tid },
                group: if main { main_groups[&number].clone() } else { crate::assemble::group(&name, "", "") },
                name,
                start_ns: since(self.origin, task.begin),
                end_ns: since(self.origin, if task.end != 0 { task.end } else { now.max(task.begin) }),
                criticality_ns: whole_ns(record.criticality),
                running_ns: record.running_ns as i64,
                runnable_ns: record.runnable_ns as i64,
                blocked_ns: record.blocked_ns as i64,
                unattributed_ns: whole_ns(record.criticality),
                allowed_cpus: allowed_cpus(record),
                nice: nice(record),
            }
        });
        (tasks.collect(), rows)
    }

    /// Groups of main threads: `main` if all run one program, else the name that each program has or gave itself, since
    /// they do different things.
    fn main_groups(&self, processes: &Processes) -> HashMap<u32, String> {
        let name = |task: &RawTask| transect_bpf_collect::record::text(&task.record.comm);
        let known = self.tasks.all().filter(|(_, task)| task.known);
        let (main, others): (Vec<_>, Vec<_>) = known.partition(|(_, task)| task.record.tid == task.record.tgid);
        let names: BTreeSet<String> = main.iter().map(|(_, task)| name(task)).collect();
        let others: BTreeSet<String> =
            others.iter().map(|(_, task)| crate::assemble::group(&name(task), "", "")).collect();
        let group = |number: u32, task: &RawTask| {
            if names.len() < 2 {
                return "main".to_owned();
            }
            let name = name(task);
            let executable = &processes.rows[processes.of_task[&number] as usize].executable;
            // `cc1` is a name, `worker 1` one of many.
            let own = executable.rsplit('/').next().is_some_and(|file| file.starts_with(&name));
            let group = if own { name } else { crate::assemble::group(&name, "", "") };
            // Threads without a name of their own have the program's.
            if others.contains(&group) { format!("{group} main") } else { group }
        };
        main.into_iter().map(|(number, task)| (number, group(number, task))).collect()
    }

    /// Rows of samples; takes their criticality off the threads' unattributed one. Returns what then is left of it.
    fn samples(
        &self,
        tasks: &mut [Task],
        processes: &Processes,
        rows: &HashMap<u32, TaskId>,
        stacks: &NamedStacks,
        frames: &[StackFrame],
    ) -> (Vec<SchedSample>, i64) {
        let mut sums: HashMap<(TaskId, StackId, SampleKey), SampleSum> = HashMap::default();
        for (key, sum) in &self.samples.sums {
            let Some((task, stack)) = rows.get(&key.task).copied().zip(stacks.row(key.stack)) else { continue };
            // Different stacks may have the same names.
            let row = sums.entry((task, stack, SampleKey { stack: 0, task: 0, ..*key })).or_default();
            row.count += sum.count;
            row.criticality += sum.criticality;
            row.active_ns += sum.active_ns;
        }
        let mut samples: Vec<SchedSample> = sums
            .into_iter()
            .map(|((task, stack, key), sum)| SchedSample {
                task,
                stack,
                n: i32::try_from(key.n).unwrap_or(i32::MAX),
                origin: if key.stack_top { Origin::StackTop } else { Origin::Sample },
                samples: sum.count as i64,
                criticality_ns: whole_ns(sum.criticality),
                active_ns: sum.active_ns as i64,
                spin: stacks.spins(stack),
            })
            .collect();
        for sample in &samples {
            tasks[sample.task as usize].unattributed_ns -= sample.criticality_ns;
        }
        // Sums came in no order.
        samples.sort_unstable_by_key(|sample| (sample.task, sample.stack, sample.n, sample.origin));
        let mut numbers: HashMap<(&str, &str), usize> = HashMap::default();
        let mut kinds = Vec::with_capacity(tasks.len());
        for task in tasks.iter() {
            let next = numbers.len();
            let program = processes.rows[task.process as usize].executable.as_str();
            kinds.push(*numbers.entry((program, &task.group)).or_insert(next));
        }
        drop(numbers);
        let frame =
            |&frame: &FrameId| frames.get(frame as usize).map(|frame| (&frame.function, &frame.file, frame.line));
        stand_in(tasks, &kinds, &mut samples, |stack| {
            stacks.rows.get(stack as usize).map(|stack| stack.frames.iter().map(frame).collect::<Vec<_>>())
        });
        // Rows of one key, a thread's own and what others stand for, become one.
        samples.sort_by_key(|sample| (sample.task, sample.stack, sample.n, sample.origin));
        samples.dedup_by(|row, kept| {
            let key = |sample: &SchedSample| (sample.task, sample.stack, sample.n, sample.origin);
            let same = key(row) == key(kept);
            if same {
                kept.samples += row.samples;
                kept.criticality_ns += row.criticality_ns;
                kept.active_ns += row.active_ns;
            }
            same
        });
        let left = tasks.iter().map(|task| task.unattributed_ns).sum();
        (samples, left)
    }

    fn moments(&self, rows: &HashMap<u32, TaskId>, stacks: &NamedStacks) -> Vec<TimedSample> {
        let named = self.samples.moments.iter().filter_map(|moment| {
            let (task, stack) = rows.get(&moment.task).copied().zip(stacks.row(moment.stack))?;
            Some(TimedSample { time_ns: since(self.origin, moment.time), task, stack, period_ns: moment.period as i64 })
        });
        let mut moments: Vec<TimedSample> = named.collect();
        moments.sort_by_key(|moment| moment.time_ns);
        moments
    }

    fn parallelism(&self, totals: &Totals, processes: &Processes) -> Vec<Parallelism> {
        let mut rows = Vec::new();
        for application in &totals.applications {
            let first =
                || self.tasks.all().find(|(_, task)| task.known && task.record.application == application.application);
            let process = first().filter(|_| self.settings.per_process).map(|(number, _)| processes.of_task[&number]);
            let times = (0..).zip(&application.histogram).filter(|(_, ns)| **ns > 0);
            rows.extend(times.map(|(n, &ns)| Parallelism { process, n, ns: ns as i64 }));
        }
        rows
    }

    fn loss(
        &self,
        totals: &Totals,
        naming: &Naming,
        stacks: &NamedStacks,
        unnamed_waits: u64,
        unseen: u64,
    ) -> Vec<Loss> {
        let mut loss = Vec::new();
        if let Some(reason) = &totals.without_samples {
            loss.push(Loss {
                what: LossKind::DroppedEvents,
                place: "samples".to_owned(),
                count: 1,
                reason: reason.clone(),
            });
        }
        let mut add = |what: LossKind, place: &str, count: u64, reason: &str| {
            if count > 0 {
                loss.push(Loss { what, place: place.to_owned(), count: count as i64, reason: reason.to_owned() });
            }
        };
        let scheduler = "scheduler";
        let lost = &totals.lost;
        let full = "the ring buffer was full";
        add(LossKind::UnrecordedThreads, scheduler, lost.threads, "too many threads at once");
        add(LossKind::UnrecordedThreads, scheduler, self.tasks.refused, "too many threads: records of more");
        add(LossKind::UnrecordedThreads, scheduler, lost.applications, "too many processes: counted with the first");
        add(LossKind::UnrecordedThreads, scheduler, lost.unpublished, "no room for more: flows without criticality");
        add(LossKind::DroppedEvents, "scheduler: waits", lost.waits, full);
        add(LossKind::DroppedEvents, "scheduler: samples", lost.samples, full);
        add(LossKind::DroppedEvents, "scheduler: stacks", lost.stacks, full);
        add(LossKind::DroppedEvents, "scheduler: threads", lost.tasks, full);
        add(LossKind::DroppedEvents, "scheduler: mappings", lost.mappings, full);
        add(
            LossKind::DroppedEvents,
            "scheduler: samples",
            lost.busy_samples,
            "taken while the clock was being changed",
        );
        add(LossKind::DroppedEvents, scheduler, self.malformed, "records that could not be read");
        add(LossKind::DroppedEvents, "scheduler: samples", self.samples.refused, "too many different stacks");
        add(LossKind::DroppedEvents, "scheduler: waits", self.waits.lost(), "no space left on the disk");
        add(LossKind::DroppedEvents, "scheduler: slices", self.slices.lost(), "no space left on the disk");
        add(LossKind::DroppedEvents, "scheduler: waits", self.waits.coarse, "too many: summed up without stacks");
        add(
            LossKind::SummedEvents,
            "brief waits",
            self.brief_waits,
            "summed up without detail; times are exact, kinds and stacks those of waits chosen at random",
        );
        add(LossKind::UnresolvedNames, "scheduler: waits", unnamed_waits, "too many different objects");
        add(LossKind::TruncatedStacks, scheduler, self.stacks.refused, "too many different stacks");
        add(LossKind::TruncatedStacks, scheduler, stacks.missing, "named by records but never came");
        let refused = stacks.instructions.refused;
        add(LossKind::SummedEvents, "instructions", refused, "too many: their time is in functions and lines");
        for (flag, reason) in [
            (stack_flags::TRUNCATED, "deeper than was wanted"),
            (stack_flags::UNKNOWN_CODE, "unwinding stopped at code without a table"),
            (stack_flags::UNREADABLE, "unwinding stopped at memory that is not resident"),
        ] {
            add(LossKind::TruncatedStacks, scheduler, stacks.stopped(flag), reason);
        }
        add(LossKind::UnresolvedNames, scheduler, unseen, "code of processes that ended before it was looked at");
        let mut unnamed: Vec<_> = naming.unnamed.iter().collect();
        unnamed.sort();
        for (path, count) in unnamed {
            let place = if path.is_empty() { CODE_WITHOUT_FILE } else { path };
            add(LossKind::UnresolvedNames, place, count.unsigned_abs(), "addresses without a symbol");
        }
        let hidden = "the kernel hides its addresses (kernel.kptr_restrict)";
        add(LossKind::UnresolvedNames, "[kernel]", naming.hidden.unsigned_abs(), hidden);
        loss
    }
}

impl Collected {
    /// Adds everything to a profile, whose processes and components are used where they are the same. Waits and slices
    /// are what is returned.
    pub fn merge_into(mut self, profile: &mut Profile) -> Timeline {
        self.add_overhead(profile);
        let components: Vec<u32> =
            self.components.iter().map(|component| place(&mut profile.components, component)).collect();
        let before = profile.processes.len();
        let row = |process| process_row(&mut profile.processes, before, process);
        let processes: Vec<ProcessId> = self.processes.into_iter().map(row).collect();
        thread_ends::join(profile);
        for task in &mut self.tables.tasks {
            task.process = processes[task.process as usize];
        }
        thread_starts::join(profile, &self.tables.tasks);
        for process in self.tables.parallelism.iter_mut().flat_map(|row| &mut row.process) {
            *process = processes[*process as usize];
        }
        for component in self.tables.frames.iter_mut().flat_map(|frame| &mut frame.component) {
            *component = components[*component as usize];
        }
        profile.sched = self.tables;
        profile.meta.listening = self.listening;
        let name = if self.session.estimate { "samples" } else { "sched" };
        profile.meta.criticality = Some(self.session);
        profile.meta.collectors.push(name.to_owned());
        profile.loss.extend(self.loss);
        self.timeline
    }
}

impl Collected {
    /// The kernel's part is worked off beside the program's: in a run of so much CPU time it is the same share of the wall.
    fn add_overhead(&self, profile: &mut Profile) {
        // Those that were taken at switches had no interrupt of their own.
        let timed = |sample: &&SchedSample| sample.origin == Origin::Sample;
        let samples: i64 = self.tables.samples.iter().filter(timed).map(|sample| sample.samples).sum();
        let described = self.timeline.waits.numbered;
        let (switching, sampling) = match self.session.estimate {
            true => (0.0, samples as f64 * (USER_SAMPLE_NS + self.interrupt_ns)),
            false => (
                self.session.slices as f64 * SLICE_NS + f64::from(described) * WAIT_NS,
                samples as f64 * (SAMPLE_NS + self.interrupt_ns),
            ),
        };
        let sum = |ns: fn(&Task) -> i64| self.tables.tasks.iter().map(ns).sum::<i64>();
        let (running, runnable) = (sum(|task| task.running_ns), sum(|task| task.runnable_ns));
        let overhead = profile.meta.overhead.get_or_insert_default();
        overhead.kernel_ns += (switching + sampling) as i64;
        let (busy, whole) = (self.session.busy_ns, self.session.busy_ns + self.session.idle_ns);
        let time = room_of_work(running, busy, whole, profile.meta.wall_ns);
        let setup = overhead.setup_ns;
        let Some(agent) = self.agent.filter(|agent| agent.is_told(samples)) else {
            // Others had the CPUs for as much of the agent's preparation as of all that the program did.
            let queued = setup as f64 * runnable as f64 / (running + runnable).max(1) as f64;
            let most = CERTAIN_PART * if running > 0 { running as f64 } else { time };
            let spent = overhead.agent_ns as f64 - queued;
            let working = (overhead.kernel_ns as f64 - switching + spent).min(most);
            let share = slowdown::share(
                self.lives(switching, working),
                if whole > 0 { whole } else { profile.meta.wall_ns },
                time,
            );
            profile.meta.overhead_estimate = slowdown::possible(share, (busy, self.session.idle_ns), setup);
            return;
        };
        let agent = agent.without_overlap(counting_ns(&profile.flows));
        overhead.agent_ns = agent.summed_ns;
        // What the agent costs a program outside of its own code is in no sample of it.
        let with_agent: HashSet<ProcessId> = profile.threads.iter().map(|thread| thread.process).collect();
        overhead.kernel_ns += processes_ns(&profile.processes, |row| with_agent.contains(&row)) as i64;
        let agent_share = agent.share(overhead.timed_ns, busy, whole);
        let working = overhead.kernel_ns as f64 - switching;
        let others = slowdown::share(self.lives(switching, working), whole, time);
        // Samples were taken while the agent ran, too.
        let share = agent_share + others - agent_share * sampling / time;
        profile.meta.overhead_estimate = slowdown::possible(share, (busy, self.session.idle_ns), agent.idle_ns);
    }

    /// Threads, with what was taken of their time: `switching` ns by their waits, `working` ns by how long they ran.
    fn lives(&self, switching: f64, working: f64) -> impl Iterator<Item = ThreadLife<(&str, &str)>> {
        let mut waits: HashMap<TaskId, (u64, u64)> = HashMap::default();
        for waited in &self.timeline.stacks.waited {
            let (count, ns) = waits.entry(waited.task).or_default();
            (*count, *ns) = (*count + waited.count, *ns + waited.ns);
        }
        let all: u64 = waits.values().map(|(count, _)| count).sum();
        let running: i64 = self.tables.tasks.iter().map(|task| task.running_ns).sum();
        (0..).zip(&self.tables.tasks).map(move |(id, task): (TaskId, _)| {
            let (count, ns) = waits.get(&id).copied().unwrap_or_default();
            // Those that were only summed up were like those that were described.
            let part = self.slept.get(&id).map_or(0.0, |&slept| slept as f64 / ns.max(1) as f64);
            let program = self.processes.get(task.process as usize).map_or("", |process| process.executable.as_str());
            // Work that is in no thread's waits, or run, is all threads'.
            let share = |of: f64, all: f64| if all > 0.0 { of / all } else { 1.0 / self.tables.tasks.len() as f64 };
            ThreadLife {
                kind: (program, task.group.as_str()),
                life_ns: task.end_ns - task.start_ns,
                slept_ns: (task.blocked_ns as f64 * part.min(1.0)) as i64,
                spent_ns: switching * share(count as f64, all as f64)
                    + working * share(task.running_ns as f64, running as f64),
            }
        })
    }
}

/// Row of a process that another collector may have met, too: among the first `before`. The number of one that ended may have
/// gone to another. The kernel knows best when it ended.
pub fn process_row(processes: &mut Vec<Process>, before: usize, process: Process) -> ProcessId {
    // The last program in a process number that began before this one ended.
    let ends = process.start_ns + process.wall_ns;
    let same = |known: &Process| known.pid == process.pid && known.start_ns <= ends;
    if let Some(row) = processes[..before].iter().rposition(same) {
        let known = &mut processes[row];
        known.wall_ns = known.wall_ns.min(ends - known.start_ns);
        return row as ProcessId;
    }
    processes.push(process);
    (processes.len() - 1) as ProcessId
}
