use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{OtherThread, SchedTables, SchedWait, StackId, WaitKind};

use super::Source;
use super::apportion::apportion;
use super::call_path::PathId;
use super::tally::Tally;

/// Holders named beside the first.
const HOLDERS: usize = 4;
/// Waits whose holders' samples are looked at, and samples of each.
const FOLLOWED: usize = 50_000;
const SAMPLES: usize = 64;
/// Rows that keep their object apart; beyond, rows of a kind and place are summed over objects.
const MOST_ROWS: usize = 2_000;

/// A thread that a wait depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OtherThreadRow {
    /// Thread id.
    pub tid: i32,
    /// Name of the thread.
    pub thread: String,
    /// The place where it was: innermost function that is no runtime library's. Empty if unknown.
    pub function: String,
    /// Its functions, root first; empty if unknown.
    pub stack: Vec<String>,
}

/// Part of a wait's time that one thread held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HolderShare {
    /// Name of the thread.
    pub thread: String,
    /// The place where it was.
    pub function: String,
    /// Time waited for it, ns.
    pub ns: i64,
}

/// Waits for the same thing, at the same place, held or else ended at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CriticalWaitRow {
    /// What for.
    pub kind: WaitKind,
    /// File name, peer, address with symbol; empty if there is none, `[n objects]` where rows were summed.
    pub object: String,
    /// The thread group that waited most.
    pub group: String,
    /// Threads that waited.
    pub threads: i64,
    /// Who held the lock when the wait began: the thread and stack of most of the time.
    pub holder: Option<OtherThreadRow>,
    /// Who ended it: the thread and stack of most of the time.
    pub waker: Option<OtherThreadRow>,
    /// What the holder, or else the waker, was seen doing most meanwhile; kind `spin`: who worked most. From samples.
    pub meanwhile: Option<OtherThreadRow>,
    /// Threads that held it, or else ended it, longest first; a few.
    pub holders: Vec<HolderShare>,
    /// Waits.
    pub count: i64,
    /// Time waited, ns.
    pub ns: i64,
    /// Idle time charged to it, ns.
    pub idle_ns: i64,
    /// Criticality that its holder, or else its waker, gained meanwhile at low parallelism, ns.
    pub holder_gain_ns: i64,
    /// `idle_ns` + `holder_gain_ns`. Kind `run-queue`: criticality that fell to threads without a CPU. Kind
    /// `spin`: criticality gained by spinning.
    pub critical_ns: i64,
    /// The waiter's functions, root first; empty if unknown.
    pub stack: Vec<String>,
    /// Most of its waits have a stack that reaches `main` or the start of a thread.
    pub complete: bool,
}

/// Objects of waits as numbers.
pub(super) struct Objects<'a> {
    names: Vec<&'a str>,
    of_wait: Vec<u32>,
}

impl<'a> Objects<'a> {
    pub fn new(tables: &'a SchedTables) -> Self {
        let mut index: FxHashMap<&str, u32> = FxHashMap::default();
        let mut names = Vec::new();
        let number = |wait: &'a transect_profile_model::SchedWait| {
            *index.entry(&*wait.object).or_insert_with(|| {
                names.push(&*wait.object);
                names.len() as u32 - 1
            })
        };
        let of_wait = tables.waits.iter().map(number).collect();
        Self { names, of_wait }
    }

    /// Number of a wait's object, by row.
    pub fn of(&self, wait: usize) -> u32 {
        self.of_wait[wait]
    }

    /// Its name.
    pub fn name(&self, object: u32) -> &'a str {
        self.names.get(object as usize).copied().unwrap_or("")
    }
}

/// The stack of each wait: its own, or, where none was taken, that of most waits of its thread (else of its group) for
/// the same thing.
pub(super) fn stacks(tables: &SchedTables, objects: &Objects<'_>) -> Vec<Option<StackId>> {
    let own: Vec<Option<StackId>> = tables.waits.iter().map(|wait| wait.stack).collect();
    if own.iter().all(Option::is_some) {
        return own;
    }
    let group = |task: u32| tables.tasks.get(task as usize).map_or("", |task| task.group.as_str());
    let mut counts: FxHashMap<(WaitKind, u32, u32, StackId), i64> = FxHashMap::default();
    for (row, wait) in tables.waits.iter().enumerate() {
        if let Some(stack) = wait.stack {
            *counts.entry((wait.kind, objects.of(row), wait.task, stack)).or_default() += wait.count;
        }
    }
    let mut of_thread: FxHashMap<(WaitKind, u32, u32), (i64, Reverse<StackId>)> = FxHashMap::default();
    let mut of_group: FxHashMap<(WaitKind, u32, &str), (i64, Reverse<StackId>)> = FxHashMap::default();
    for ((kind, object, task, stack), count) in counts {
        let best = (count, Reverse(stack));
        let most = of_thread.entry((kind, object, task)).or_insert(best);
        *most = best.max(*most);
        let most = of_group.entry((kind, object, group(task))).or_insert(best);
        *most = best.max(*most);
    }
    let similar = |(row, stack): (usize, Option<StackId>)| {
        let wait = &tables.waits[row];
        stack.or_else(|| {
            let object = objects.of(row);
            let found = of_thread.get(&(wait.kind, object, wait.task));
            found.or_else(|| of_group.get(&(wait.kind, object, group(wait.task)))).map(|&(_, Reverse(stack))| stack)
        })
    };
    own.into_iter().enumerate().map(similar).collect()
}

/// Key: kind, object, waiter's path, place of the holder or else of the waker, and which of the two it is.
type Key = (WaitKind, u32, Option<PathId>, Option<u32>, bool);
/// A thread at a path.
type At = (u32, Option<PathId>);

#[derive(Default)]
struct Sum {
    count: i64,
    complete: i64,
    ns: i64,
    idle_ns: i64,
    gain_ns: i64,
    objects: i64,
    tasks: Tally<u32>,
    holders: Tally<At>,
    wakers: Tally<At>,
    meanwhile: Tally<At>,
}

impl Sum {
    fn critical_ns(&self) -> i64 {
        self.idle_ns + self.gain_ns
    }

    fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.complete += other.complete;
        self.ns += other.ns;
        self.idle_ns += other.idle_ns;
        self.gain_ns += other.gain_ns;
        self.objects += other.objects;
        other.tasks.iter().for_each(|(task, ns)| self.tasks.add(task, ns));
        other.holders.iter().for_each(|(at, ns)| self.holders.add(at, ns));
        other.wakers.iter().for_each(|(at, ns)| self.wakers.add(at, ns));
        other.meanwhile.iter().for_each(|(at, samples)| self.meanwhile.add(at, samples));
    }
}

/// Waits, spinning and waiting for a CPU, most critical first.
pub(super) fn rows(source: &Source<'_>) -> Vec<CriticalWaitRow> {
    let mut rows: Vec<CriticalWaitRow> = blocked(source);
    rows.extend(spinning(source));
    rows.extend(run_queue(source));
    bound(&mut rows, source.session.busy_ns + source.session.idle_ns);
    rows.sort_by(|a, b| {
        (b.critical_ns, b.ns, b.count)
            .cmp(&(a.critical_ns, a.ns, a.count))
            .then_with(|| (a.kind, &a.object, &a.stack, &a.group).cmp(&(b.kind, &b.object, &b.stack, &b.group)))
    });
    rows
}

/// Takes off what holders gained if all rows add up to more than the run: a holder's time without a CPU is the run queue's, too.
fn bound(rows: &mut [CriticalWaitRow], elapsed_ns: i64) {
    let sum = |of: fn(&CriticalWaitRow) -> i64| rows.iter().map(of).sum::<i64>();
    let (all, gained) = (sum(|row| row.critical_ns), sum(|row| row.holder_gain_ns));
    if all <= elapsed_ns || gained == 0 {
        return;
    }
    let left = (gained - (all - elapsed_ns)).max(0) as f64 / gained as f64;
    for row in rows {
        let gain_ns = (row.holder_gain_ns as f64 * left) as i64;
        row.critical_ns -= row.holder_gain_ns - gain_ns;
        row.holder_gain_ns = gain_ns;
    }
}

fn blocked(source: &Source<'_>) -> Vec<CriticalWaitRow> {
    let paths = &source.paths;
    let path_of = |stack: Option<StackId>| stack.and_then(|stack| paths.stack(stack)).map(|facts| facts.path);
    let at = |party: OtherThread| (party.task, path_of(party.stack));
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut sums: Vec<(Key, Sum)> = Vec::new();
    let seen = Seen::new(source);
    let step = source.tables.waits.len().div_ceil(FOLLOWED).max(1);
    let of_program = |&(row, _): &(usize, &SchedWait)| !source.is_recorders(row);
    for (row, wait) in source.tables.waits.iter().enumerate().filter(of_program) {
        let (holder, waker) = (wait.holder.map(at), wait.waker.map(at));
        let place = holder.or(waker).and_then(|(_, path)| path).and_then(|path| paths.place(path));
        let key = (wait.kind, source.objects.of(row), path_of(source.wait_stacks[row]), place, holder.is_some());
        let at = *index.entry(key).or_insert_with(|| {
            sums.push((key, Sum { objects: 1, ..Sum::default() }));
            sums.len() - 1
        });
        let sum = &mut sums[at].1;
        sum.count += wait.count;
        let stack = source.wait_stacks[row].and_then(|stack| source.tables.stacks.get(stack as usize));
        sum.complete += if stack.is_some_and(|stack| stack.complete) { wait.count } else { 0 };
        sum.ns += wait.ns;
        sum.idle_ns += wait.idle_ns;
        sum.gain_ns += source.gains[row];
        sum.tasks.add(wait.task, wait.ns);
        if let Some((task, _)) = holder.or(waker).filter(|_| row.is_multiple_of(step)) {
            seen.between(task, wait.begin_ns, wait.end_ns).for_each(|path| sum.meanwhile.add((task, Some(path)), 1));
        }
        // Waits of no length still name their parties.
        if let Some(holder) = holder {
            sum.holders.add(holder, wait.ns.max(1));
        }
        if let Some(waker) = waker {
            sum.wakers.add(waker, wait.ns.max(1));
        }
    }
    sums.sort_by_key(|(key, sum)| (Reverse(sum.critical_ns()), Reverse(sum.ns), *key));
    if sums.len() > MOST_ROWS {
        let mut rest: FxHashMap<Key, Sum> = FxHashMap::default();
        for ((kind, _, path, ..), sum) in sums.drain(MOST_ROWS..) {
            rest.entry((kind, u32::MAX, path, None, false)).or_default().add(sum);
        }
        sums.extend(rest);
    }
    sums.into_iter().map(|(key, sum)| row(source, key, sum)).collect()
}

/// Where threads were sampled, by time.
struct Seen<'a> {
    source: &'a Source<'a>,
    by_task: Vec<Vec<(i64, StackId)>>,
}

impl<'a> Seen<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        let mut by_task = vec![Vec::new(); source.tables.tasks.len()];
        for moment in &source.tables.moments {
            if let Some(of) = by_task.get_mut(moment.task as usize) {
                of.push((moment.time_ns, moment.stack));
            }
        }
        Self { source, by_task }
    }

    /// Paths of a thread's samples in a stretch of time; a few of them.
    fn between(&self, task: u32, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = PathId> + '_ {
        let of = self.by_task.get(task as usize).map_or(&[][..], Vec::as_slice);
        let of = &of[of.partition_point(|&(at, _)| at < begin_ns)..];
        let of = &of[..of.partition_point(|&(at, _)| at < end_ns)];
        let step = of.len().div_ceil(SAMPLES).max(1);
        of.iter().step_by(step).filter_map(|&(_, stack)| self.source.paths.stack(stack)).map(|facts| facts.path)
    }
}

fn row(source: &Source<'_>, key: Key, sum: Sum) -> CriticalWaitRow {
    let (kind, object, path, ..) = key;
    let mut groups: FxHashMap<&str, i64> = FxHashMap::default();
    for (task, ns) in sum.tasks.iter() {
        *groups.entry(source.group(task)).or_default() += ns;
    }
    let parties = if sum.holders.is_empty() { &sum.wakers } else { &sum.holders };
    let object = match object {
        u32::MAX if sum.objects > 1 => format!("[{} objects]", sum.objects),
        u32::MAX => String::new(),
        object => source.objects.name(object).to_owned(),
    };
    CriticalWaitRow {
        kind,
        object,
        group: groups.into_iter().max_by_key(|&(group, ns)| (ns, Reverse(group))).map_or("", |(g, _)| g).to_owned(),
        threads: sum.tasks.len() as i64,
        holder: most(source, &sum.holders),
        waker: most(source, &sum.wakers),
        meanwhile: sum.meanwhile.most().map(|at| party(source, at)),
        holders: shares(source, parties),
        count: sum.count,
        ns: sum.ns,
        idle_ns: sum.idle_ns,
        holder_gain_ns: sum.gain_ns,
        critical_ns: sum.critical_ns(),
        stack: path.map_or_else(Vec::new, |path| source.paths.names(path)),
        complete: path.is_some() && sum.complete.saturating_mul(2) >= sum.count,
    }
}

/// The thread with most of the time, where it was most of its time.
fn most(source: &Source<'_>, parties: &Tally<At>) -> Option<OtherThreadRow> {
    let mut by_task: FxHashMap<u32, i64> = FxHashMap::default();
    for ((task, _), ns) in parties.iter() {
        *by_task.entry(task).or_default() += ns;
    }
    let (task, _) = by_task.into_iter().max_by_key(|&(task, ns)| (ns, Reverse(task)))?;
    let of_task = parties.iter().filter(|&((other, _), _)| other == task);
    // A known place says more than an unknown one that lasted longer.
    let rank = |&((_, path), ns): &(At, i64)| (path.is_some(), ns, Reverse(path));
    let path = of_task.max_by_key(rank).and_then(|((_, path), _)| path);
    Some(party(source, (task, path)))
}

fn party(source: &Source<'_>, (task, path): At) -> OtherThreadRow {
    let row = source.tables.tasks.get(task as usize);
    OtherThreadRow {
        tid: row.map_or(0, |task| task.tid),
        thread: row.map_or_else(String::new, |task| task.name.clone()),
        function: path.map_or_else(String::new, |path| source.paths.place_name(path)),
        stack: path.map_or_else(Vec::new, |path| source.paths.names(path)),
    }
}

fn shares(source: &Source<'_>, parties: &Tally<At>) -> Vec<HolderShare> {
    let mut by_place: FxHashMap<(u32, String), i64> = FxHashMap::default();
    for ((task, path), ns) in parties.iter() {
        let place = path.map_or_else(String::new, |path| source.paths.place_name(path));
        *by_place.entry((task, place)).or_default() += ns;
    }
    let mut shares: Vec<_> = by_place.into_iter().collect();
    shares.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let name = |task: u32| source.tables.tasks.get(task as usize).map_or_else(String::new, |task| task.name.clone());
    let share = |((task, function), ns)| HolderShare { thread: name(task), function, ns };
    shares.into_iter().take(HOLDERS).map(share).collect()
}

/// Waiting in a loop, from samples.
fn spinning(source: &Source<'_>) -> Vec<CriticalWaitRow> {
    #[derive(Default)]
    struct Spinning {
        sum: Sum,
        meanwhile: FxHashMap<(u32, StackId), i64>,
    }
    let path_of = |stack: StackId| source.paths.stack(stack).map(|facts| facts.path);
    let mut sums: FxHashMap<Option<PathId>, Spinning> = FxHashMap::default();
    for sample in source.tables.samples.iter().filter(|sample| sample.spin) {
        let Spinning { sum, meanwhile } = sums.entry(path_of(sample.stack)).or_default();
        sum.count += sample.samples;
        let stack = source.tables.stacks.get(sample.stack as usize);
        sum.complete += if stack.is_some_and(|stack| stack.complete) { sample.samples } else { 0 };
        sum.ns += sample.active_ns;
        sum.gain_ns += sample.criticality_ns;
        sum.tasks.add(sample.task, sample.active_ns);
        if let Some(worker) = source.correction.meanwhile(sample.stack) {
            *meanwhile.entry(worker).or_default() += sample.criticality_ns;
        }
    }
    let to_row = |(path, Spinning { sum, meanwhile }): (Option<PathId>, Spinning)| {
        let worker = meanwhile.into_iter().max_by_key(|&(at, ns)| (ns, Reverse(at)));
        let mut row = row(source, (WaitKind::Spin, u32::MAX, path, None, false), sum);
        row.holder_gain_ns = 0;
        row.meanwhile = worker.map(|((task, stack), _)| party(source, (task, path_of(stack))));
        row
    };
    sums.into_iter().map(to_row).collect()
}

/// Active threads without a CPU, per group. While *n* threads share *P* < *n* CPUs, *n* - *P* of them do
/// nothing, and so does that part of the criticality: more CPUs would save it.
fn run_queue(source: &Source<'_>) -> Vec<CriticalWaitRow> {
    let cpus = source.session.cpus.max(1);
    let crowded: i128 = source
        .tables
        .parallelism
        .iter()
        .filter(|row| i64::from(row.n) > cpus)
        .map(|row| i128::from(row.ns) * i128::from(i64::from(row.n) - cpus) / i128::from(row.n))
        .sum();
    let mut sums: FxHashMap<&str, Sum> = FxHashMap::default();
    for (id, task) in source.tables.tasks.iter().enumerate().filter(|(_, task)| task.runnable_ns > 0) {
        let sum = sums.entry(task.group.as_str()).or_default();
        sum.ns += task.runnable_ns;
        sum.tasks.add(id as u32, task.runnable_ns);
    }
    let mut sums: Vec<(&str, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|&(group, _)| group);
    let runnable: Vec<i64> = sums.iter().map(|(_, sum)| sum.ns).collect();
    let parts = apportion(crowded.min(i128::from(source.session.busy_ns)) as i64, &runnable);
    let to_row = |((_, sum), critical_ns)| {
        let mut row = row(source, (WaitKind::RunQueue, u32::MAX, None, None, false), sum);
        row.critical_ns = critical_ns;
        row
    };
    sums.into_iter().zip(parts).map(to_row).collect()
}
