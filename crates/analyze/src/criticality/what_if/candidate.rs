//! What could be sped up: the functions and waits that hold most.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::WaitKind;

use super::super::Source;
use super::super::call_path::{FunctionId, PathId};
use super::super::root::is_root;
use super::super::tally::Tally;
use super::super::unplaced;
use super::WhatIfScope;
use super::density::Code;

/// Functions of each scope.
const FUNCTIONS: usize = 10;
/// Places that wait.
const WAITS: usize = 6;
/// A function below this part of the busy time, or a wait below this part of the elapsed time, is not asked about.
const LEAST: f64 = 0.005;
/// The path of what is waited for a CPU, and the object of what is because threads are pinned.
pub(crate) const CPUS: &str = "[CPUs]";
pub(crate) const PINNED: &str = "pinned";
/// The path of what threads wait for locks.
pub(crate) const CONTENTION: &str = "[contention]";
/// Locks, and the part of the elapsed time for which threads wait for one at least.
const LOCKS: usize = 3;
const LEAST_CONTENTION: f64 = 0.05;

/// What a candidate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// Code.
    Code(Code),
    /// Waits by row, and the call that waits, if it is known: what it takes of a CPU, and the queue for one after it.
    Waits(Vec<u32>, Option<Code>),
    /// Waits for a lock by row, and the calls that are slow because of them, while what is done under it takes its time still: a
    /// lock that is split, or given back earlier.
    Contention(Vec<u32>, Code),
    /// More CPUs.
    Cpus,
    /// All CPUs for threads that are pinned to some.
    Unpinned,
}

/// One thing to speed up.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub what: What,
    pub path: String,
    pub scope: WhatIfScope,
    pub kind: Option<WaitKind>,
    pub object: String,
    pub stack: Vec<String>,
}

#[derive(Default)]
struct Sum {
    running_ns: i64,
    spin_ns: i64,
    low_ns: i64,
    most: Option<(i64, PathId)>,
}

impl Sum {
    fn add(&mut self, other: &Sum, path: PathId) {
        self.running_ns += other.running_ns;
        self.spin_ns += other.spin_ns;
        self.low_ns += other.low_ns;
        self.most = self.most.max(Some((other.running_ns, path)));
    }
}

pub(super) fn candidates(source: &Source<'_>) -> Vec<Candidate> {
    let mut by_path: FxHashMap<PathId, Sum> = FxHashMap::default();
    for sample in &source.tables.samples {
        let Some(facts) = source.paths.stack(sample.stack) else { continue };
        if source.is_idle(sample, facts.path) {
            continue;
        }
        let sum = by_path.entry(facts.path).or_default();
        sum.running_ns += sample.criticality_ns;
        sum.spin_ns += if sample.spin { sample.criticality_ns } else { 0 };
        sum.low_ns += if source.is_low(sample.n) { sample.criticality_ns } else { 0 };
    }
    let mut own: FxHashMap<FunctionId, Sum> = FxHashMap::default();
    let mut inclusive: FxHashMap<FunctionId, Sum> = FxHashMap::default();
    let mut functions: Vec<FunctionId> = Vec::new();
    for (&path, sum) in &by_path {
        // Nobody can speed up the calls of a contended lock, only what is done under it.
        let path = source.holders.held_at(path).unwrap_or(path);
        if let Some(place) = source.paths.place(path) {
            own.entry(place).or_default().add(sum, path);
        }
        functions.clear();
        functions.extend(&source.paths.paths[path as usize].functions);
        functions.sort_unstable();
        functions.dedup();
        functions.iter().for_each(|&function| inclusive.entry(function).or_default().add(sum, path));
    }
    let least = source.session.busy_ns as f64 * LEAST;
    let mut found = Vec::new();
    let own_of = |function: FunctionId| own.get(&function).map_or(0, |sum| sum.running_ns);
    for function in heaviest(source, &own, least) {
        found.push(code(source, Code::Own(function), function, &own[&function], WhatIfScope::Own));
    }
    // The same as its own time tells nothing new.
    inclusive.retain(|&function, sum| {
        let same = own_of(function) as f64 >= sum.running_ns as f64 * 0.98;
        !same && !is_root(&source.paths.functions[function as usize].name)
    });
    for function in heaviest(source, &inclusive, least) {
        found.push(code(source, Code::Inclusive(function), function, &inclusive[&function], WhatIfScope::Inclusive));
    }
    found.extend(waits(source));
    found.extend(contention(source));
    let cpus = |what, object: &str| Candidate {
        what,
        path: CPUS.to_owned(),
        scope: WhatIfScope::Wait,
        kind: Some(WaitKind::RunQueue),
        object: object.to_owned(),
        stack: Vec::new(),
    };
    if source.tables.parallelism.iter().any(|row| i64::from(row.n) > source.session.cpus) {
        found.push(cpus(What::Cpus, ""));
    }
    if source.sharing.is_pinned() {
        found.push(cpus(What::Unpinned, PINNED));
    }
    found
}

/// Functions with most criticality, at low parallelism or in all; not those that mostly spin. Of those that only call one
/// another the innermost stands for all: it says most.
fn heaviest(source: &Source<'_>, sums: &FxHashMap<FunctionId, Sum>, least: f64) -> Vec<FunctionId> {
    let depth = |function: FunctionId| {
        let path = sums[&function].most.map(|(_, path)| &source.paths.paths[path as usize].functions);
        path.and_then(|functions| functions.iter().rposition(|&other| other == function))
    };
    let mut found: Vec<FunctionId> = Vec::new();
    for rank in [|sum: &Sum| sum.low_ns, |sum: &Sum| sum.running_ns] {
        let heavy = |(_, sum): &(&FunctionId, &Sum)| rank(sum) as f64 >= least && sum.spin_ns * 2 <= sum.running_ns;
        let mut order: Vec<FunctionId> = sums.iter().filter(heavy).map(|(&function, _)| function).collect();
        order.sort_by_key(|&function| (Reverse(rank(&sums[&function])), Reverse(depth(function)), function));
        let mut told = FxHashSet::default();
        order.retain(|function| told.insert((sums[function].running_ns, sums[function].most)));
        found.extend(order.into_iter().take(FUNCTIONS / 2 + 2));
    }
    let mut seen = Vec::new();
    found.retain(|function| {
        let new = !seen.contains(function);
        seen.push(*function);
        new
    });
    found.truncate(FUNCTIONS);
    found
}

fn code(source: &Source<'_>, what: Code, function: FunctionId, sum: &Sum, scope: WhatIfScope) -> Candidate {
    Candidate {
        what: What::Code(what),
        path: source.paths.functions[function as usize].name.clone(),
        scope,
        kind: None,
        object: String::new(),
        stack: sum.most.map_or_else(Vec::new, |(_, path)| source.paths.names(path)),
    }
}

/// Locks that threads of the program wait for most.
fn contention(source: &Source<'_>) -> Vec<Candidate> {
    let mut locks: FxHashMap<(WaitKind, u32), (i64, Vec<u32>)> = FxHashMap::default();
    for (row, wait) in source.tables.waits.iter().enumerate() {
        if matches!(wait.kind, WaitKind::Mutex | WaitKind::Rwlock) {
            let (ns, rows) = locks.entry((wait.kind, source.objects.of(row))).or_default();
            *ns += wait.ns;
            rows.push(row as u32);
        }
    }
    let least = (source.session.busy_ns + source.session.idle_ns) as f64 * LEAST_CONTENTION;
    let mut locks: Vec<_> = locks.into_iter().filter(|(_, (ns, _))| *ns as f64 >= least).collect();
    locks.sort_by_key(|&(key, (ns, _))| (Reverse(ns), key));
    let candidate = |((kind, object), (_, rows))| Candidate {
        what: What::Contention(rows, Code::Contended(kind, object)),
        path: CONTENTION.to_owned(),
        scope: WhatIfScope::Wait,
        kind: Some(kind),
        object: source.objects.name(object).to_owned(),
        stack: Vec::new(),
    };
    locks.into_iter().take(LOCKS).map(candidate).collect()
}

/// Waits that no other thread ends: files, sockets, sleeps, time-outs.
fn waits(source: &Source<'_>) -> Vec<Candidate> {
    #[derive(Default)]
    struct Waits {
        ns: i64,
        rank: i64,
        rows: Vec<u32>,
        objects: Tally<u32>,
        paths: Tally<PathId>,
    }
    // Of conditions and the like, those whose time ran out.
    let outside = |kind| {
        use WaitKind as K;
        matches!(
            kind,
            K::Condition
                | K::Semaphore
                | K::Futex
                | K::Sleep
                | K::FileRead
                | K::FileWrite
                | K::FileSync
                | K::Socket
                | K::Pipe
                | K::Poll
                | K::PageFault
                | K::Other
        )
    };
    // Of those without a stack the group is known.
    let mut places: FxHashMap<(WaitKind, Option<FunctionId>, &str), Waits> = FxHashMap::default();
    for (row, wait) in source.tables.waits.iter().enumerate() {
        if wait.waker.is_some() || wait.holder.is_some() || !outside(wait.kind) {
            continue;
        }
        let path = source.wait_stacks[row].and_then(|stack| source.paths.stack(stack)).map(|facts| facts.path);
        let path = path.filter(|&path| source.paths.place(path).is_some());
        if path.is_none() && source.is_recorders(row) {
            continue;
        }
        let place = path.and_then(|path| source.paths.place(path));
        let group = if place.is_some() { "" } else { source.group(wait.task) };
        let sum = places.entry((wait.kind, place, group)).or_default();
        sum.ns += wait.ns;
        sum.rank += wait.idle_ns + source.gains[row] + source.correction.until.get(&(row as u32)).unwrap_or(&0);
        sum.rows.push(row as u32);
        sum.objects.add(source.objects.of(row), wait.ns);
        if let Some(path) = path {
            sum.paths.add(path, wait.ns);
        }
    }
    let least = (source.session.busy_ns + source.session.idle_ns) as f64 * LEAST;
    let mut places: Vec<_> = places.into_iter().filter(|(_, sum)| sum.ns as f64 >= least).collect();
    places.sort_by_key(|(key, sum)| (Reverse(sum.rank), Reverse(sum.ns), *key));
    let call = |place, paths: &Tally<PathId>| {
        let call = paths.most().and_then(|path| source.paths.paths[path as usize].functions.last().copied());
        Code::Call { place, call: call.unwrap_or(place) }
    };
    let name = |place: FunctionId| source.paths.functions[place as usize].name.clone();
    let candidate = |((kind, place, group), sum): ((WaitKind, Option<FunctionId>, &str), Waits)| Candidate {
        what: What::Waits(sum.rows, place.map(|place| call(place, &sum.paths))),
        path: place.map_or_else(|| unplaced::name(group), name),
        scope: WhatIfScope::Wait,
        kind: Some(kind),
        object: sum.objects.most().map_or_else(String::new, |object| source.objects.name(object).to_owned()),
        stack: sum.paths.most().map_or_else(Vec::new, |path| source.paths.names(path)),
    };
    places.into_iter().take(WAITS).map(candidate).collect()
}
