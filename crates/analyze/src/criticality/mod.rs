//! Which code runs while the others wait: views of the scheduler's events.
//!
//! While *n* > 0 threads are active, each gains an instant / *n* (criticality); while none is, the time goes to the wait
//! that ends it. So the elapsed time is `busy_ns` + `idle_ns`, and both are distributed over paths ("GAPP: A Fast
//! Profiler for Detecting Serialization Bottlenecks in Parallel Linux Applications", ICPE '20, made exact).

mod apportion;
mod awaited;
mod call_path;
mod contention;
mod crowd;
mod function;
mod graph;
mod hold_time;
mod holder;
mod idle_owner;
mod lock_call;
mod meanwhile;
mod over_time;
mod parallelism;
mod part;
mod path;
mod place;
mod place_wait;
mod requests;
mod root;
mod runtime_library;
mod script;
mod shared_gain;
mod short_lived;
mod spin;
mod tally;
#[cfg(test)]
mod testing;
mod thread;
mod unplaced;
mod wait;
mod what_if;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use transect_profile_model::{
    Origin, Profile, SchedSample, SchedSession, SchedTables, SchedWait, StackId, TIME_LIMIT, WaitKind,
};

pub(crate) use apportion::apportion;
pub use contention::Contention;
pub use function::CriticalFunctionRow;
pub use graph::{NodeKind, WaitEdge, WaitGraph, WaitNode};
pub(crate) use lock_call::{is_lock_call, lets_go, takes_slowly};
pub use over_time::OverTimeRow;
pub use parallelism::ParallelismRow;
pub use path::{CriticalPathRow, LineRow, PathState};
pub use place::{Callee, Leaf, LibraryCallRow, PlaceRow};
pub use place_wait::PlaceWait;
pub(crate) use root::{begins_there, is_root};
pub(crate) use runtime_library::{
    GO_MONITOR, GO_SCHEDULER, is_agent, is_c_library, is_runtime_function, public_name, qualified,
};
pub use thread::{CriticalGroupRow, CriticalThreadRow};
pub(crate) use unplaced::idle_without_stack_ns;
pub(crate) use unplaced::unplaced_group;
pub use wait::{CriticalWaitRow, HolderShare, OtherThreadRow};
pub(crate) use what_if::{CONTENTION, CPUS, PINNED};
pub use what_if::{WhatIfRow, WhatIfScope};

use crate::names::file_name;
use crate::sharing::Sharing;
use crate::{Names, Selection};
use call_path::{CallPaths, FunctionId, PathId, StackFacts};
use hold_time::HoldTimes;
use holder::Holders;
use requests::{Servers, is_serving};
use short_lived::ShortLived;
use spin::Correction;

/// The stack of rows for what no sample or stack covers.
pub const UNATTRIBUTED: &str = "[unattributed]";

/// What the scheduler's events tell about a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalityView {
    /// Nothing was seen of the scheduler: numbers come from the agent's times of waiting APIs.
    pub estimate: bool,
    /// Each process counts as an application of its own.
    pub per_process: bool,
    /// CPUs that the program was allowed to use.
    pub cpus: i64,
    /// `busy_ns` + `idle_ns`.
    pub elapsed_ns: i64,
    /// The launched program's time from start to end, 0 if unknown, for the findings, ns: children may go on after it.
    #[serde(skip)]
    pub wall_ns: i64,
    /// Time with at least one active thread, ns, summed over applications.
    pub busy_ns: i64,
    /// Time in which all threads waited, ns, summed over applications.
    pub idle_ns: i64,
    /// Part of `idle_ns` in which servers waited for requests from outside of the recording, ns: it is no place's.
    pub requests_ns: i64,
    /// Part of `busy_ns` that no path has, ns.
    pub unattributed_ns: i64,
    /// Criticality of threads that only waited for others in a loop, ns.
    pub spin_ns: i64,
    /// Sum of the paths' `corrected_ns`.
    pub corrected_ns: i64,
    /// Mean number of active threads while any was.
    pub parallelism_mean: Option<f64>,
    /// Largest difference found between counted and real number of active threads.
    pub drift: i64,
    /// Times that a thread stopped being active.
    pub slices: i64,
    /// Of them, with low parallelism.
    pub critical_slices: i64,
    /// First instant observed, since the recording's start, ns.
    pub start_ns: i64,
    /// Last instant observed, ns.
    pub end_ns: i64,
    /// Threads, most critical first.
    pub threads: Vec<CriticalThreadRow>,
    /// Thread groups, most critical first.
    pub groups: Vec<CriticalGroupRow>,
    /// Running and waiting call paths, most critical first.
    pub paths: Vec<CriticalPathRow>,
    /// Functions, by the criticality gained in them as the place.
    pub functions: Vec<CriticalFunctionRow>,
    /// The elapsed time divided among the places that ran or waited, for the findings; not a key of the JSON object.
    #[serde(skip)]
    pub places: Vec<PlaceRow>,
    /// Calls by which libraries were entered, for the findings.
    #[serde(skip)]
    pub library_calls: Vec<LibraryCallRow>,
    /// Processes that lived only a moment, for the findings.
    #[serde(skip)]
    pub short_lived_processes: usize,
    /// The program whose processes started most of them, and how many, for the findings.
    #[serde(skip)]
    pub short_lived_parent: Option<(String, usize)>,
    /// Threads of other processes that lived only a moment, for the findings.
    #[serde(skip)]
    pub short_lived_threads: usize,
    /// Criticality of both, met by a sample or not, for the findings, ns.
    #[serde(skip)]
    pub short_lived_ns: i64,
    /// Samples a second and CPU, for the findings; 0 where stacks were not sampled.
    #[serde(skip)]
    pub sample_hz: i64,
    /// Time at each number of active threads.
    pub parallelism: Vec<ParallelismRow>,
    /// Parallelism over time, in some hundred steps.
    pub over_time: Vec<OverTimeRow>,
    /// What threads waited for, most critical first.
    pub waits: Vec<CriticalWaitRow>,
    /// Who waits for whom; empty in an estimate.
    pub graph: WaitGraph,
    /// What other programs took of the run: savings are known as much less exactly.
    pub contention: Contention,
    /// The threads that share too few CPUs since they are pinned to them, for the findings.
    #[serde(skip)]
    pub pinned: Option<Pinned>,
    /// What speed-ups would save, most first; empty in an estimate.
    pub what_if: Vec<WhatIfRow>,
}

/// Threads that may not leave some CPUs, of which there are less than of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// The CPUs, as the kernel lists them.
    pub cpus: String,
    /// How many threads.
    pub threads: usize,
    /// Time that they, and others pinned elsewhere, waited for another, while the program had other CPUs, ns.
    pub ns: i64,
}

impl CriticalityView {
    /// What findings are shares of, ns: nothing that is repaired saves more of a run than the run takes.
    pub(crate) fn run_ns(&self) -> i64 {
        if self.wall_ns > 0 { self.elapsed_ns.min(self.wall_ns) } else { self.elapsed_ns }
    }
}

/// The tables with what all parts of the view need of them.
struct Source<'a> {
    session: &'a SchedSession,
    tables: &'a SchedTables,
    paths: CallPaths,
    /// Stack of each wait: its own, or that of most waits of its thread for the same thing.
    wait_stacks: Vec<Option<u32>>,
    objects: wait::Objects<'a>,
    holders: Holders,
    holds: HoldTimes<'a>,
    /// Paths at which threads wait until others have something for them.
    awaiting: FxHashSet<PathId>,
    /// What each wait's holder, or else its waker, gained meanwhile: its part of that, ns.
    gains: Vec<i64>,
    correction: Correction,
    /// Part of the run that the recording itself is estimated to have taken.
    overhead: f64,
    contention: Contention,
    sharing: Sharing,
    servers: Servers,
    /// File name of each process's program.
    programs: Vec<&'a str>,
}

impl<'a> Source<'a> {
    fn new(profile: &'a Profile, names: &Names, session: &'a SchedSession) -> Self {
        let tables = &profile.sched;
        let paths = CallPaths::new(profile, names);
        let objects = wait::Objects::new(tables);
        let wait_stacks = wait::stacks(tables, &objects);
        let holds = HoldTimes::of(profile);
        let holders = Holders::new(tables, &paths, &wait_stacks, &objects, &holds);
        let awaiting = awaiting(tables, &paths, &wait_stacks);
        let gains = shared_gain::shares(tables);
        let overhead = profile.meta.overhead_estimate.clamp(0.0, 0.9);
        let contention = Contention::of(profile);
        let sharing = Sharing::new(&tables.tasks, session.cpus);
        let servers = Servers::of(profile);
        let programs = profile.processes.iter().map(|process| file_name(&process.executable)).collect();
        let mut source = Self {
            session,
            tables,
            paths,
            wait_stacks,
            objects,
            holders,
            holds,
            awaiting,
            gains,
            correction: Correction::default(),
            overhead,
            contention,
            sharing,
            servers,
            programs,
        };
        let place = |stack| source.paths.stack(stack).and_then(|facts| source.paths.place(facts.path));
        source.correction = Correction::new(session, tables, &place, &|row| source.ends_by_itself(row));
        source
    }

    /// Whether a wait at a known place is one that no thread of the program ends, and none for the recorder or the next request.
    fn ends_by_itself(&self, row: usize) -> bool {
        let wait = &self.tables.waits[row];
        wait.waker.is_none()
            && wait.holder.is_none()
            && idle_owner::ends_by_itself(wait.kind, self.session.estimate)
            && self.waiting_place(row).is_some()
            && !self.is_recorders(row)
            && !self.is_for_requests(row)
    }

    /// Where a thread waited, as far as a stack tells it.
    fn waiting_place(&self, row: usize) -> Option<(StackFacts, FunctionId)> {
        let facts = self.wait_stacks[row].and_then(|stack| self.paths.stack(stack))?;
        Some((facts, self.paths.place(facts.path)?))
    }

    fn group(&self, task: u32) -> &str {
        self.tables.tasks.get(task as usize).map_or("", |task| task.group.as_str())
    }

    fn program(&self, task: u32) -> &'a str {
        let process = self.tables.tasks.get(task as usize).map(|task| task.process as usize);
        process.and_then(|process| self.programs.get(process)).copied().unwrap_or_default()
    }

    /// The program whose processes have most of what is counted by process, and how much.
    fn most_frequent_program(&self, counts: &FxHashMap<u32, usize>) -> Option<(String, usize)> {
        let mut programs: FxHashMap<&str, usize> = FxHashMap::default();
        for (&process, count) in counts {
            *programs.entry(self.programs.get(process as usize)?).or_default() += count;
        }
        let most = programs.into_iter().max_by_key(|&(program, count)| (count, Reverse(program)));
        most.map(|(program, count)| (program.to_owned(), count))
    }

    /// Whether a thread waited in this row for its recorder: at its start, or while a library was hooked.
    fn is_recorders(&self, row: usize) -> bool {
        let facts = self.wait_stacks[row].and_then(|stack| self.paths.stack(stack));
        place::is_agents(&self.tables.waits[row].object) || facts.is_some_and(|facts| facts.preparing)
    }

    /// Whether a server waited in this row for the next request from outside.
    fn is_for_requests(&self, row: usize) -> bool {
        let wait = &self.tables.waits[row];
        let functions = self.wait_stacks[row].and_then(|stack| self.paths.stack(stack)).map(|facts| facts.path);
        let functions = functions.map_or(&[][..], |path| &self.paths.paths[path as usize].functions);
        let named =
            |is_it: fn(&str) -> bool| functions.iter().any(|&id| is_it(&self.paths.functions[id as usize].name));
        // Go asks for events until the next timer of a goroutine: if that comes, somebody slept.
        if *wait.object == *TIME_LIMIT && named(|name| name == GO_SCHEDULER) {
            return false;
        }
        let accepts = || named(is_serving);
        let process = self.tables.tasks.get(wait.task as usize).map(|task| task.process);
        process.is_some_and(|process| self.servers.is_idle(process, wait, accepts()))
    }

    /// Whether a thread was woken only to wait again: it queued for a CPU, and did nothing where it waits.
    fn is_idle(&self, sample: &SchedSample, path: PathId) -> bool {
        sample.origin == Origin::StackTop && self.awaiting.contains(&path)
    }

    /// Whether an instant at `n` active threads left CPUs unused.
    fn is_low(&self, n: i32) -> bool {
        i64::from(n) < self.session.cpus
    }
}

/// Paths at which threads wait until others have something for them.
fn awaiting(tables: &SchedTables, paths: &CallPaths, wait_stacks: &[Option<StackId>]) -> FxHashSet<PathId> {
    let is_it = |wait: &SchedWait| matches!(wait.kind, WaitKind::Condition | WaitKind::Semaphore | WaitKind::Futex);
    let rows = tables.waits.iter().zip(wait_stacks).filter(|(wait, _)| is_it(wait));
    let found = rows.filter_map(|(_, stack)| paths.stack((*stack)?)).map(|facts| facts.path);
    found.filter(|&path| !paths.is_at_lock(path)).collect()
}

/// The scheduler's view; `None` for a recording without it. `selection.api` and `selection.component` keep paths,
/// functions and waits through them; `selection.top` limits paths, functions, threads and waits.
pub fn criticality(profile: &Profile, selection: &Selection) -> Option<CriticalityView> {
    let names = Names::new(profile);
    let mut view = of(profile, &names)?;
    narrow(&mut view, profile, &names, selection);
    Some(view)
}

/// The stack of each wait: its own, or that of most waits of its thread for the same thing.
pub(crate) fn wait_stacks(tables: &SchedTables) -> Vec<Option<StackId>> {
    wait::stacks(tables, &wait::Objects::new(tables))
}

/// The view of all of the profile.
pub(crate) fn of(profile: &Profile, names: &Names) -> Option<CriticalityView> {
    let session = profile.meta.criticality.as_ref()?;
    let source = Source::new(profile, names, session);
    if session.estimate {
        // Who woke whom is not known then.
        return Some(rows(profile, &source));
    }
    std::thread::scope(|scope| {
        let (graph, what_if) = (|| graph::graph(&source), || what_if::rows(&source));
        // Where there may be no more threads, one after the other.
        let beside = std::thread::Builder::new().spawn_scoped(scope, graph);
        let other = std::thread::Builder::new().spawn_scoped(scope, what_if);
        let mut view = rows(profile, &source);
        // A part that fails is a fault in it, and says so itself.
        view.graph = match beside {
            Ok(thread) => thread.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)),
            Err(_) => graph(),
        };
        view.what_if = match other {
            Ok(thread) => thread.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)),
            Err(_) => what_if(),
        };
        Some(view)
    })
}

/// Leaves out what is not selected.
pub(crate) fn narrow(view: &mut CriticalityView, profile: &Profile, names: &Names, selection: &Selection) {
    if let Some(keeps) = path::Filter::new(profile, names, &view.functions, selection) {
        view.paths.retain(|row| keeps.path(&row.stack, &row.components));
        view.waits.retain(|row| keeps.wait(row));
        view.what_if.retain(|row| keeps.stack(&row.stack));
        let alone = std::slice::from_ref::<String>;
        view.functions.retain(|row| keeps.path(alone(&row.function), alone(&row.component)));
    }
    if let Some(top) = selection.top {
        view.paths.truncate(top);
        view.functions.truncate(top);
        view.threads.truncate(top);
        view.waits.truncate(top);
    }
}

/// All but the graph and the predictions.
fn rows(profile: &Profile, source: &Source<'_>) -> CriticalityView {
    let session = source.session;
    let paths = path::rows(source);
    let unattributed = |row: &&CriticalPathRow| row.state == PathState::Running && row.is_unattributed();
    let unattributed_ns = paths.iter().find(unattributed).map_or(0, |row| row.criticality_ns);
    let (spin_ns, corrected_ns) = paths.iter().fold((0, 0), |(s, c), row| (s + row.spin_ns, c + row.corrected_ns));
    let (threads, groups) = thread::rows(profile, source);
    let parallelism = parallelism::rows(source.tables);
    let short_lived = ShortLived::of(source.tables);
    let (places, library_calls, requests_ns) = place::rows(source, &short_lived);
    CriticalityView {
        estimate: session.estimate,
        per_process: session.per_process,
        cpus: session.cpus,
        elapsed_ns: session.busy_ns + session.idle_ns,
        wall_ns: crate::totals::wall_ns(profile),
        busy_ns: session.busy_ns,
        idle_ns: session.idle_ns,
        requests_ns,
        unattributed_ns,
        spin_ns,
        corrected_ns,
        parallelism_mean: parallelism::mean(&parallelism),
        drift: session.drift,
        slices: session.slices,
        critical_slices: session.critical_slices,
        start_ns: session.start_ns,
        end_ns: session.end_ns,
        threads,
        groups,
        paths,
        functions: function::rows(source),
        places,
        library_calls,
        short_lived_processes: short_lived.processes,
        short_lived_parent: source.most_frequent_program(&short_lived.parents),
        short_lived_threads: short_lived.threads,
        short_lived_ns: short_lived.criticality_ns,
        sample_hz: session.sample_hz,
        parallelism,
        over_time: over_time::rows(source),
        waits: wait::rows(source),
        graph: WaitGraph::default(),
        contention: source.contention,
        pinned: source.sharing.most_pinned().map(|(cpus, threads)| Pinned {
            cpus: cpus.to_owned(),
            threads,
            ns: crate::totals::scheduled(profile).map_or(0, |times| times.pinned_ns),
        }),
        what_if: Vec::new(),
    }
}
