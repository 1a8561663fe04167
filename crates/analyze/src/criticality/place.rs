//! The elapsed time divided among places in the program: what each ran itself, what libraries did for it, and what it
//! waited for while nothing else ran.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{FrameId, Origin, SchedSample, SchedWait, WaitKind};

use super::Source;
use super::call_path::{FunctionId, InliningId, LibraryCall, NOT_INLINED, PathId, StackFacts};
use super::crowd;
use super::idle_owner;
use super::meanwhile::Idle;
use super::part::{Parts, frame_of};
use super::place_wait::{PlaceWait, Waited, waits};
use super::requests::answering;
use super::script;
use super::short_lived::ShortLived;
use super::tally::Tally;
use super::unplaced::{self, Unplaced};

/// A thread that waited for a CPU for less is left to the samples (`sched_queued.h`).
const QUEUED_NS: i64 = 2_000_000;
/// Part of a place's time that makes it one thread's.
const OF_ONE_THREAD: f64 = 0.9;

/// One place: a function that is no runtime library's, with what runtime libraries did on its behalf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlaceRow {
    /// The function, or one that was inlined into it and is told apart.
    pub function: String,
    /// The function that stands in the symbol table, where it is another one.
    pub inlined_into: String,
    /// Component of the function; empty if it has none.
    pub component: String,
    /// Source file of the line with most of the time, empty if unknown.
    pub file: String,
    /// The line, 0 if unknown.
    pub line: i32,
    /// Criticality with spinning left out, and idle time, ns; while there are more threads than CPUs the time is that of those
    /// on a CPU. Adds up over all places to the elapsed time, less what servers waited for requests, and less what threads
    /// queued for a CPU that had nothing to do.
    pub ns: i64,
    /// Of it criticality, ns.
    pub running_ns: i64,
    /// Of `running_ns`, with a CPU, ns.
    pub on_cpu_ns: i64,
    /// Of `on_cpu_ns`, in the kernel, ns.
    pub kernel_ns: i64,
    /// Of `running_ns`, while there were CPUs without work, ns.
    pub low_parallelism_ns: i64,
    /// Time active in it, not divided among threads, while there were CPUs without work, ns.
    pub low_active_ns: i64,
    /// The timer's samples in it, as the cut's measure `samples` counts them.
    pub samples: i64,
    /// Of these in loops that wait for another thread.
    pub spin_samples: i64,
    /// Stacks with which threads left a CPU that they had mostly queued for: the last of a stretch of work.
    pub switches: i64,
    /// Of `running_ns`, in the handling of page faults, ns.
    pub fault_ns: i64,
    /// Idle time by what was waited for, longest first.
    pub waiting: Vec<PlaceWait>,
    /// What it called in runtime libraries, by `ns`, longest first.
    pub callees: Vec<Callee>,
    /// The runtime libraries' function that most of the time ends in, where that is called by another one of theirs.
    pub leaf: Option<Leaf>,
    /// Functions of the program above it on most of its time's stacks, root first.
    pub callers: Vec<String>,
    /// The innermost of these that a runtime has made or interprets from a script of the program's, with `file:line`.
    pub script: Option<(String, String)>,
    /// Thread groups, by `ns`, longest first.
    pub groups: Vec<(String, i64)>,
    /// Threads.
    pub threads: usize,
    /// Processes of these threads.
    pub processes: usize,
    /// Of `ns`, by threads that lived only a moment, ns.
    pub short_lived_ns: i64,
    /// Time in which it waited for child processes, ns.
    pub child_wait_ns: i64,
    /// `ns` with that of the places that it calls directly, ns.
    pub near_ns: i64,
    /// The thread that nearly all of it is in.
    pub tid: Option<i32>,
    /// The function of the program that called it for most of its time, and that time, ns.
    pub caller: (String, i64),
    /// It is a function of a runtime library or of the kernel: the program has no part in its stacks.
    pub runtime: bool,
    /// Time in functions of its library that have no names, ns: it is the last one with a name on the way to them.
    pub nameless_ns: i64,
    /// Of these the one with most, and its time, ns.
    pub nameless: (String, i64),
    /// File name of the program of the process that has most of its time.
    pub program: String,
    /// Component of the innermost function with one that called it on most of its time's stacks; empty if there is none.
    pub calling_component: String,
}

impl PlaceRow {
    /// Idle time of all its waits, ns.
    pub fn idle_ns(&self) -> i64 {
        self.waiting.iter().map(|wait| wait.idle_ns).sum()
    }

    /// The function whose code it is, by which views are asked for it: of an inlined one the whole.
    pub fn symbol(&self) -> &str {
        if self.inlined_into.is_empty() { &self.function } else { &self.inlined_into }
    }

    /// How often it was seen at work, by the timer or at context switches.
    pub fn seen(&self) -> i64 {
        self.samples - self.spin_samples + self.switches
    }
}

/// What a shared library took that is no runtime, by the call with which the program entered it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LibraryCallRow {
    /// The function that called it, with all of that time: `callees` has only the call.
    pub caller: PlaceRow,
    /// The library's function.
    pub entry: String,
    /// Its component.
    pub component: String,
    /// Functions of the library, and their time by this call, ns.
    pub parts: Vec<(String, i64)>,
}

/// A function of a runtime library that a place called.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Callee {
    /// Its name.
    pub function: String,
    /// Its component.
    pub component: String,
    /// Criticality and idle time in it, ns.
    pub ns: i64,
    /// The function that most of that ends in, where it is another one.
    pub leaf: Option<Leaf>,
}

/// A function of a runtime library that does what another one was called for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leaf {
    /// Its name.
    pub function: String,
    /// The function of a runtime library that the place called on the way to most of that time.
    pub through: String,
    /// Criticality in it, ns.
    pub ns: i64,
}

/// Part of the time from which on a leaf is what takes it.
const MOST_OF_IT: f64 = 0.6;

/// The time of a place, or of one part of it.
#[derive(Default)]
pub(super) struct Sum {
    running_ns: i64,
    on_cpu_ns: i64,
    kernel_ns: i64,
    low_ns: i64,
    low_active_ns: i64,
    samples: i64,
    spin_samples: i64,
    switches: i64,
    fault_ns: i64,
    waiting: FxHashMap<(WaitKind, u32), Waited>,
    inlinings: FxHashMap<(InliningId, Option<FrameId>), i64>,
    callees: Tally<FunctionId>,
    /// Time by the last function of a stack, and the first one of a runtime library on the way to it.
    leaves: FxHashMap<(FunctionId, FunctionId), i64>,
    nameless: Tally<FunctionId>,
    paths: Tally<PathId>,
    tasks: Tally<u32>,
    child_wait_ns: i64,
}

impl Sum {
    /// Time by what was inlined, and by line.
    pub fn inlinings(&self) -> &FxHashMap<(InliningId, Option<FrameId>), i64> {
        &self.inlinings
    }

    /// `call`: the row is that of the library's caller.
    fn add(&mut self, source: &Source<'_>, facts: StackFacts, call: Option<LibraryCall>, task: u32, ns: i64) {
        let path = &source.paths.paths[facts.path as usize];
        let below = path.functions.get(path.place + 1..).unwrap_or_default();
        let runtime = || below.iter().copied().find(|&callee| source.paths.is_runtime_function(callee));
        let (within, callee) = match call {
            Some(call) => ((NOT_INLINED, facts.call_line), Some(call.entry)),
            None => ((facts.inlining, facts.own_line), runtime()),
        };
        *self.inlinings.entry(within).or_default() += ns;
        if let Some(callee) = callee {
            self.callees.add(callee, ns);
            // What the kernel does was asked for by the callee, whatever wraps the system call.
            let leaf = below.last().copied().filter(|&leaf| source.paths.is_runtime_function(leaf) && !facts.kernel);
            if let Some(leaf) = leaf.filter(|_| call.is_none()) {
                *self.leaves.entry((leaf, callee)).or_default() += ns;
            }
        }
        let nameless = |id: &FunctionId| source.paths.functions[*id as usize].name.starts_with("sub_");
        if let Some(&inner) = below.iter().rev().find(|id| nameless(id)).filter(|_| call.is_none()) {
            self.nameless.add(inner, ns);
        }
        self.paths.add(facts.path, ns);
        self.tasks.add(task, ns);
    }

    fn add_sample(
        &mut self,
        source: &Source<'_>,
        facts: StackFacts,
        call: Option<LibraryCall>,
        sample: &SchedSample,
        ns: i64,
    ) {
        let low = source.is_low(sample.n) && !sample.spin;
        self.running_ns += ns;
        // A thread that was preempted stands in the kernel, and is not at work there.
        if sample.origin == Origin::Sample {
            self.on_cpu_ns += ns;
            self.kernel_ns += if facts.kernel { ns } else { 0 };
        }
        self.fault_ns += if facts.fault { ns } else { 0 };
        self.low_ns += if low { ns } else { 0 };
        self.low_active_ns += if low { sample.active_ns } else { 0 };
        match sample.origin {
            Origin::Sample => {
                self.samples += sample.samples;
                self.spin_samples += if sample.spin { sample.samples } else { 0 };
            }
            // One that did not wait for a CPU for long is left to the samples.
            Origin::StackTop if !sample.spin => self.switches += sample.samples.min(sample.active_ns / QUEUED_NS),
            Origin::StackTop => {}
        }
        self.add(source, facts, call, sample.task, ns);
    }

    fn add_wait(
        &mut self,
        source: &Source<'_>,
        facts: StackFacts,
        call: Option<LibraryCall>,
        (wait, idle_ns): (&SchedWait, i64),
        object: u32,
    ) {
        self.waiting.entry((wait.kind, object)).or_default().idle_ns += idle_ns;
        self.add(source, facts, call, wait.task, idle_ns);
    }

    /// The function that at least [`MOST_OF_IT`] of `whole` ends in, if others of its kind stand between it and the place. `by`:
    /// of calls of that function alone.
    fn leaf(&self, source: &Source<'_>, by: Option<FunctionId>, whole: i64) -> Option<Leaf> {
        let of_calls = || self.leaves.iter().filter(|((_, through), _)| by.is_none_or(|by| *through == by));
        let mut leaves: Tally<FunctionId> = Tally::default();
        of_calls().for_each(|(&(leaf, _), &ns)| leaves.add(leaf, ns));
        let (leaf, ns) = leaves.iter().max_by_key(|&(id, ns)| (ns, Reverse(id)))?;
        let on_the_way = of_calls().filter(|((last, _), _)| *last == leaf);
        let &(_, through) = on_the_way.max_by_key(|&(key, &ns)| (ns, Reverse(key)))?.0;
        let name = |id: FunctionId| source.paths.functions[id as usize].name.as_str();
        let has_name = !name(leaf).starts_with(['[', '0']) && !name(leaf).starts_with("sub_");
        let is_it = ns as f64 >= MOST_OF_IT * whole as f64 && leaf != through && has_name;
        is_it.then(|| Leaf { function: name(leaf).to_owned(), through: name(through).to_owned(), ns })
    }

    /// Functions of the program that called the place.
    fn callers(&self, source: &Source<'_>) -> Tally<FunctionId> {
        let mut callers = Tally::default();
        for (path, ns) in self.paths.iter() {
            if let Some(caller) = source.paths.paths[path as usize].caller {
                callers.add(caller, ns);
            }
        }
        callers
    }
}

/// Places and calls of libraries, longest first, and what servers waited for requests, ns, which is no place's.
pub(super) fn rows(source: &Source<'_>, short_lived: &ShortLived) -> (Vec<PlaceRow>, Vec<LibraryCallRow>, i64) {
    let own = crowd::own_ns(source);
    let Sums { places: wholes, calls, requests_ns, unplaced } = gather(source, &own, |place, _| (place, 0));
    let parts: FxHashMap<FunctionId, Parts> =
        wholes.iter().map(|(&(place, _), sum)| (place, Parts::of(source, place, sum))).collect();
    let mut near: FxHashMap<FunctionId, i64> =
        wholes.iter().map(|(&(place, _), sum)| (place, sum.paths.total())).collect();
    for sum in wholes.values() {
        for (caller, ns) in sum.callers(source).iter() {
            *near.entry(caller).or_default() += ns;
        }
    }
    let sums = if parts.values().all(Parts::is_whole) {
        wholes
    } else {
        let part = |place, inlining| (place, parts.get(&place).map_or(0, |parts| parts.number(source, inlining)));
        gather(source, &own, part).places
    };
    let one = |((place, part), sum): ((FunctionId, usize), Sum)| {
        let chain = parts.get(&place).map_or(&[][..], |parts| parts.chain(part));
        let mut row = row(source, short_lived, place, chain, sum);
        if part == 0 {
            row.near_ns = near.get(&place).copied().unwrap_or_default();
        }
        row
    };
    let mut rows: Vec<PlaceRow> = sums.into_iter().map(one).collect();
    rows.extend(unplaced.into_iter().map(|(group, sum)| unplaced::row(source, short_lived, group, sum)));
    rows.sort_by(|a, b| (Reverse(a.ns), &a.function, &a.component).cmp(&(Reverse(b.ns), &b.function, &b.component)));
    let mut calls: Vec<LibraryCallRow> =
        calls.into_iter().map(|(call, sum)| library_call(source, short_lived, call, sum)).collect();
    calls.sort_by(|a, b| (Reverse(a.caller.ns), &a.entry).cmp(&(Reverse(b.caller.ns), &b.entry)));
    (rows, calls, requests_ns)
}

/// Time by place, each with the number of its part, and by calls of libraries.
struct Sums<'a> {
    places: FxHashMap<(FunctionId, usize), Sum>,
    calls: FxHashMap<LibraryCall, Sum>,
    /// Idle time in which servers waited for requests.
    requests_ns: i64,
    /// Waits whose place is not known, by thread group.
    unplaced: FxHashMap<&'a str, Unplaced>,
}

/// Adds up all samples, each with its `own` time, and waits; `part` tells to which part of a place it belongs what ran or waited in so and so an inlining.
fn gather<'a>(
    source: &'a Source<'_>,
    own: &[i64],
    part: impl Fn(FunctionId, InliningId) -> (FunctionId, usize),
) -> Sums<'a> {
    let mut sums: FxHashMap<(FunctionId, usize), Sum> = FxHashMap::default();
    let mut calls: FxHashMap<LibraryCall, Sum> = FxHashMap::default();
    for (sample, &own_ns) in source.tables.samples.iter().zip(own) {
        let Some(facts) = source.paths.stack(sample.stack).filter(|facts| !facts.preparing) else { continue };
        if source.is_idle(sample, facts.path) {
            continue;
        }
        let Some(place) = source.paths.place(facts.path) else { continue };
        let key = part(place, facts.inlining);
        sums.entry(key).or_default().add_sample(source, facts, None, sample, own_ns);
        if let Some(call) = source.paths.library_call(facts.path) {
            calls.entry(call).or_default().add_sample(source, facts, Some(call), sample, own_ns);
        }
    }
    let others = idle_owner::others(source.tables, source.session.estimate);
    let answering = answering(source.tables, source.session.end_ns);
    let mut unplaced: FxHashMap<&str, Unplaced> = FxHashMap::default();
    let mut requests_ns = 0;
    for (row, wait) in source.tables.waits.iter().enumerate().filter(|(_, wait)| wait.idle_ns > 0) {
        if source.is_recorders(row) {
            continue;
        }
        let idle_ns = wait.idle_ns;
        // While a request is worked on, that another thread of the server waits for the next one says nothing.
        let works = || answering.get(wait.task as usize) == Some(&true) && !source.is_for_requests(row);
        let other = others.get(&row).copied().filter(|&other| !(source.is_for_requests(other) && works()));
        let row = other.unwrap_or(row);
        if source.is_for_requests(row) {
            requests_ns += idle_ns;
            continue;
        }
        let wait = &source.tables.waits[row];
        let facts = source.wait_stacks[row].and_then(|stack| source.paths.stack(stack));
        if facts.is_some_and(|facts| facts.preparing) {
            continue;
        }
        let object = source.objects.of(row);
        let found = facts.and_then(|facts| Some((facts, source.paths.place(facts.path)?)));
        let Some((facts, place)) = found else {
            unplaced.entry(source.group(wait.task)).or_default().add(wait, object, idle_ns);
            continue;
        };
        let key = part(place, facts.inlining);
        sums.entry(key).or_default().add_wait(source, facts, None, (wait, idle_ns), object);
        if let Some(call) = source.paths.library_call(facts.path) {
            calls.entry(call).or_default().add_wait(source, facts, Some(call), (wait, idle_ns), object);
        }
    }
    // What others spin for, while nobody works, is waited for as if they slept, too.
    for (&row, &ns) in &source.correction.until {
        let row = row as usize;
        let Some((facts, place)) = source.waiting_place(row) else { continue };
        let (key, object, wait) = (part(place, facts.inlining), source.objects.of(row), &source.tables.waits[row]);
        sums.entry(key).or_default().add_wait(source, facts, None, (wait, ns), object);
        if let Some(call) = source.paths.library_call(facts.path) {
            calls.entry(call).or_default().add_wait(source, facts, Some(call), (wait, ns), object);
        }
    }
    // One that ended no idle time is a wait of its place all the same.
    let idle = Idle::new(source.tables, source.session.per_process);
    for (row, wait) in source.tables.waits.iter().enumerate() {
        let what = (wait.kind, source.objects.of(row));
        let beside_ns = || idle.beside(source.tables, wait);
        let Some((facts, place)) = source.waiting_place(row) else {
            if let Some(waited) = unplaced.get_mut(source.group(wait.task)).and_then(|sum| sum.waiting.get_mut(&what)) {
                waited.add(wait, beside_ns());
            }
            continue;
        };
        let sum = sums.get_mut(&part(place, facts.inlining));
        let call = source.paths.library_call(facts.path).and_then(|call| calls.get_mut(&call));
        for sum in sum.into_iter().chain(call) {
            sum.child_wait_ns += if wait.kind == WaitKind::Child { wait.ns } else { 0 };
            if let Some(waited) = sum.waiting.get_mut(&what)
                && !source.is_recorders(row)
                && !source.is_for_requests(row)
            {
                waited.add(wait, beside_ns());
            }
        }
    }
    Sums { places: sums, calls, requests_ns, unplaced }
}

fn library_call(source: &Source<'_>, short_lived: &ShortLived, call: LibraryCall, sum: Sum) -> LibraryCallRow {
    let entry = &source.paths.functions[call.entry as usize];
    let mut parts: Tally<FunctionId> = Tally::default();
    for (path, ns) in sum.paths.iter() {
        if let Some(place) = source.paths.place(path) {
            parts.add(place, ns);
        }
    }
    let name = |(id, ns): (FunctionId, i64)| (source.paths.functions[id as usize].name.clone(), ns);
    LibraryCallRow {
        entry: entry.name.clone(),
        component: entry.component.clone(),
        parts: parts.iter().map(name).collect(),
        caller: row(source, short_lived, call.caller, &[], sum),
    }
}

/// The socket by which programs reach their recorder.
pub(super) fn is_agents(object: &str) -> bool {
    object.starts_with("unix /tmp/transect-") || object.contains("/transect-") && object.contains("/publis")
}

fn row(source: &Source<'_>, short_lived: &ShortLived, place: FunctionId, chain: &[FunctionId], sum: Sum) -> PlaceRow {
    let paths = &source.paths;
    let whole = &paths.functions[place as usize];
    let waiting = waits(source, &sum.waiting);
    let ns = sum.running_ns + waiting.iter().map(|wait| wait.idle_ns).sum::<i64>();
    let (function, line) = (chain.last().copied().unwrap_or(place), line_of(source, place, chain, &sum));
    let frame = line.and_then(|id| source.tables.frames.get(id as usize));
    let name = &paths.functions[function as usize].name;
    let calling = sum.callers(source);
    let caller = calling.iter().max_by_key(|&(id, ns)| (ns, Reverse(id)));
    let nameless = sum.nameless.iter().max_by_key(|&(id, ns)| (ns, Reverse(id)));
    let leaf = sum.leaf(source, None, ns);
    let mut callees: Vec<Callee> = sum
        .callees
        .iter()
        .map(|(id, ns)| {
            let function = &paths.functions[id as usize];
            let leaf = sum.leaf(source, Some(id), ns);
            Callee { function: function.name.clone(), component: function.component.clone(), ns, leaf }
        })
        .collect();
    callees.sort_by(|a, b| (Reverse(a.ns), &a.function).cmp(&(Reverse(b.ns), &b.function)));
    let above: Vec<FunctionId> = sum.paths.most().map_or_else(Vec::new, |path| {
        let path = &paths.paths[path as usize];
        let at = path.functions.iter().take(path.place + 1).rposition(|&function| function == place);
        let outer = path.functions[..at.unwrap_or(path.place)].iter().copied();
        outer.filter(|&id| !paths.is_runtime_function(id)).collect()
    });
    let script = Some(&whole.component)
        .filter(|component| !component.is_empty())
        .and_then(|_| script::innermost(source, &above));
    let callers = above.iter().map(|&id| paths.functions[id as usize].name.clone()).collect();
    let calling_component = sum.paths.most().and_then(|path| {
        let path = &paths.paths[path as usize];
        let mut outer = path.functions[..path.place].iter().rev().map(|&id| &paths.functions[id as usize].component);
        outer.find(|component| !component.is_empty()).cloned()
    });
    let mut by_program: FxHashMap<&str, i64> = FxHashMap::default();
    sum.tasks.iter().for_each(|(task, ns)| *by_program.entry(source.program(task)).or_default() += ns);
    let program = by_program.into_iter().max_by_key(|&(program, ns)| (ns, Reverse(program)));
    let mut by_group: FxHashMap<&str, i64> = FxHashMap::default();
    sum.tasks.iter().for_each(|(task, ns)| *by_group.entry(source.group(task)).or_default() += ns);
    let mut groups: Vec<(String, i64)> = by_group.into_iter().map(|(group, ns)| (group.to_owned(), ns)).collect();
    groups.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    PlaceRow {
        function: name.clone(),
        inlined_into: if function == place { String::new() } else { whole.name.clone() },
        component: whole.component.clone(),
        file: frame.map_or_else(String::new, |frame| frame.file.clone()),
        line: frame.map_or(0, |frame| frame.line),
        ns,
        running_ns: sum.running_ns,
        on_cpu_ns: sum.on_cpu_ns,
        kernel_ns: sum.kernel_ns,
        fault_ns: sum.fault_ns,
        low_parallelism_ns: sum.low_ns,
        low_active_ns: sum.low_active_ns,
        samples: sum.samples,
        spin_samples: sum.spin_samples,
        switches: sum.switches,
        waiting,
        callees,
        leaf,
        callers,
        script,
        groups,
        threads: sum.tasks.len(),
        processes: sum
            .tasks
            .iter()
            .filter_map(|(task, _)| source.tables.tasks.get(task as usize))
            .map(|task| task.process)
            .collect::<FxHashSet<_>>()
            .len(),
        tid: sum
            .tasks
            .iter()
            .find(|&(_, ns)| ns as f64 >= OF_ONE_THREAD * sum.tasks.total() as f64)
            .and_then(|(task, _)| source.tables.tasks.get(task as usize))
            .map(|task| task.tid),
        short_lived_ns: sum.tasks.iter().filter(|&(task, _)| short_lived.tasks.contains(&task)).map(|(_, ns)| ns).sum(),
        child_wait_ns: sum.child_wait_ns,
        near_ns: ns,
        caller: caller.map_or_else(Default::default, |(id, ns)| (paths.functions[id as usize].name.clone(), ns)),
        runtime: sum.paths.most().is_some_and(|path| source.paths.is_runtime(path)),
        program: program.map_or_else(String::new, |(program, _)| program.to_owned()),
        calling_component: calling_component.unwrap_or_default(),
        nameless_ns: sum.nameless.total(),
        nameless: nameless.map_or_else(Default::default, |(id, ns)| (paths.functions[id as usize].name.clone(), ns)),
    }
}

/// The line of a part: one of the function itself if there is one, else one in which it calls, else of what was inlined into it.
fn line_of(source: &Source<'_>, place: FunctionId, chain: &[FunctionId], sum: &Sum) -> Option<FrameId> {
    let mut lines: FxHashMap<(&str, i32), (bool, i64, FrameId)> = FxHashMap::default();
    for (&(inlining, line), &ns) in &sum.inlinings {
        let frame = line.and_then(|id| Some((id, source.tables.frames.get(id as usize)?)));
        let Some(deeper) = source.paths.inlinings[inlining as usize].strip_prefix(chain) else { continue };
        // Line 0 is what the compiler made up itself (DWARF 5, 6.2.2).
        if let Some((id, frame)) = frame.filter(|(_, frame)| frame.line > 0) {
            let line = lines.entry((&frame.file, frame.line)).or_insert((false, 0, id));
            *line = (line.0 || deeper.is_empty(), line.1 + ns, line.2.min(id));
        }
    }
    let name = source.paths.functions[place as usize].name.as_str();
    let calls = || frame_of(source, name).filter(|_| chain.is_empty());
    let line = lines.into_values().max_by_key(|&(own, ns, id)| (own, ns, Reverse(id)));
    line.and_then(|(own, _, id)| if own { Some(id) } else { calls().or(Some(id)) })
}
