//! The common ground of a cut: weighted stretches of threads' lives, made of samples, waits and what is known exactly.
//!
//! A thread's time running and runnable is known exactly; samples say where it was. So samples are weights that are calibrated
//! to these margins, and, where time matters, laid along the slices in which the thread was active ([`super::placed`]).
//! Waits are known one by one. What no sample and no wait covers is a stretch without a stack: the remainder.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{Profile, SchedTables, SchedWait, StackId, TaskId};

use super::placed::{self, Active, SharedClock, lay};
use crate::criticality::apportion;

/// What a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum State {
    Running,
    Runnable,
    Blocked,
}

impl State {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Running, Self::Runnable, Self::Blocked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
        }
    }
}

/// A part of a thread's life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    pub task: TaskId,
    pub state: State,
    pub stack: Option<StackId>,
    /// Row of the wait.
    pub wait: Option<u32>,
    /// Running in a loop that waits for another thread.
    pub spin: bool,
    /// When, since the recording's start, ns; a sample has one instant.
    pub begin_ns: i64,
    pub end_ns: i64,
    /// How much of the measure it stands for.
    pub weight: i64,
    /// Samples of the timer that it is made of.
    pub samples: i64,
    /// Weight of one of them; where there are none, of all.
    pub per_sample: f64,
    /// The weight is an estimate from samples.
    pub estimated: bool,
    /// Number of the active set of features, 0 without any.
    pub features: u32,
}

impl Stretch {
    /// Of a thread's whole life.
    fn of_life(tables: &SchedTables, task: TaskId, state: State, weight: i64) -> Self {
        let life = tables.tasks.get(task as usize);
        let (begin_ns, end_ns) = life.map_or((0, 0), |life| (life.start_ns, life.end_ns.max(life.start_ns)));
        Self {
            task,
            state,
            stack: None,
            wait: None,
            spin: false,
            begin_ns,
            end_ns,
            weight,
            samples: 0,
            per_sample: 0.0,
            estimated: false,
            features: 0,
        }
    }

    /// So much of what `samples` samples stand for.
    fn estimate(self, weight: i64, samples: i64) -> Self {
        Self { samples, ..self.of_rows(weight, samples) }
    }

    /// So much of what is known from `rows` samples that are not the timer's: of a thread without a CPU there are none.
    fn of_rows(self, weight: i64, rows: i64) -> Self {
        Self { weight, samples: 0, per_sample: weight as f64 / rows.max(1) as f64, estimated: true, ..self }
    }

    /// How much of it lies before `time`, of `weight`. Differences of this add up exactly.
    pub fn before(&self, time: i64, weight: i64) -> i64 {
        if time <= self.begin_ns {
            return 0;
        }
        if time >= self.end_ns {
            return weight;
        }
        let (part, whole) = (i128::from(time - self.begin_ns), i128::from(self.end_ns - self.begin_ns));
        (i128::from(weight) * part / whole) as i64
    }
}

/// Where the program's threads spent their lifetime, ns. `placed`: along their slices, where these were read.
pub(super) fn lifetimes(profile: &Profile, wait_stacks: &[Option<StackId>], placed: bool) -> Vec<Stretch> {
    let tables = &profile.sched;
    let mut stretches = Vec::with_capacity(2 * tables.moments.len() + tables.waits.len());
    let moments = by_task(tables, tables.moments.iter().enumerate().map(|(row, moment)| (moment.task, row)));
    let samples = by_task(tables, tables.samples.iter().enumerate().map(|(row, sample)| (sample.task, row)));
    let slices = by_task(tables, tables.slices.iter().enumerate().map(|(row, slice)| (slice.task, row)));
    let waits = by_task(tables, tables.waits.iter().enumerate().map(|(row, wait)| (wait.task, row)));
    let spins = spinning(tables);
    let looked = is_estimate(profile);
    for task in 0..tables.tasks.len() {
        let parts = active(tables, task as TaskId, (&moments[task], &samples[task]), &spins);
        match placed.then(|| timeline(tables, &slices[task], &moments[task])).filter(|slices| !slices.is_empty()) {
            Some(slices) => {
                let (running, runnable) = parts.into_iter().partition(|part| part.state == State::Running);
                stretches.extend(lay(running, &slices, |slice| slice.running_ns, None));
                stretches.extend(lay(runnable, &slices, |slice| slice.runnable_ns, None));
            }
            None => stretches.extend(parts),
        }
        blocked(tables, task as TaskId, &waits[task], wait_stacks, looked, &mut stretches);
    }
    stretches
}

/// When a thread was active.
fn timeline(tables: &SchedTables, slices: &[usize], moments: &[usize]) -> Vec<Active> {
    let slices: Vec<_> = slices.iter().map(|&row| &tables.slices[row]).collect();
    placed::active(&slices, &moments.iter().map(|&row| &tables.moments[row]).collect::<Vec<_>>())
}

/// Rows of each thread.
fn by_task(tables: &SchedTables, rows: impl Iterator<Item = (TaskId, usize)>) -> Vec<Vec<usize>> {
    let mut of_task = vec![Vec::new(); tables.tasks.len()];
    for (task, row) in rows {
        if let Some(rows) = of_task.get_mut(task as usize) {
            rows.push(row);
        }
    }
    of_task
}

/// Threads at stacks at which they only wait for others in a loop.
fn spinning(tables: &SchedTables) -> FxHashSet<(TaskId, StackId)> {
    tables.samples.iter().filter(|sample| sample.spin).map(|sample| (sample.task, sample.stack)).collect()
}

/// Time running and runnable, by samples.
fn active(
    tables: &SchedTables,
    task: TaskId,
    (moments, samples): (&[usize], &[usize]),
    spins: &FxHashSet<(TaskId, StackId)>,
) -> Vec<Stretch> {
    let life = &tables.tasks[task as usize];
    let mut parts: Vec<Stretch> = Vec::new();
    let base = |stack: StackId, state: State| {
        let spin = state == State::Running && spins.contains(&(task, stack));
        Stretch { stack: Some(stack), spin, ..Stretch::of_life(tables, task, state, 0) }
    };
    if moments.is_empty() {
        // Too short for the timer: where it blocked, and what stands for threads of its kind.
        let samples = samples.iter().map(|&row| &tables.samples[row]).filter(|sample| sample.active_ns > 0);
        let rows: Vec<_> = samples.collect();
        let weights: Vec<i64> = rows.iter().map(|sample| sample.active_ns).collect();
        let (running, runnable) = (apportion(life.running_ns, &weights), apportion(life.runnable_ns, &weights));
        for (at, sample) in rows.into_iter().enumerate() {
            parts.push(base(sample.stack, State::Running).of_rows(running[at], sample.samples));
            parts.push(base(sample.stack, State::Runnable).of_rows(runnable[at], sample.samples));
        }
    } else {
        let queued = Queued::new(tables, task, moments, samples);
        let met_ns = queued.divide(life.runnable_ns, |unmet, ns| {
            parts.push(base(unmet.stack, State::Runnable).of_rows(ns, unmet.samples));
        });
        let moments: Vec<_> = moments.iter().map(|&row| &tables.moments[row]).collect();
        let periods: Vec<i64> = moments.iter().map(|moment| moment.period_ns.max(1)).collect();
        let queue: Vec<i64> =
            moments.iter().zip(&periods).map(|(moment, period)| queued.weight(moment.stack, *period)).collect();
        let queue = if queue.iter().any(|weight| *weight > 0) { &queue } else { &periods };
        let (running, runnable) = (apportion(life.running_ns, &periods), apportion(met_ns, queue));
        for (at, moment) in moments.into_iter().enumerate() {
            let instant =
                |state| Stretch { begin_ns: moment.time_ns, end_ns: moment.time_ns, ..base(moment.stack, state) };
            parts.push(instant(State::Running).estimate(running[at], 1));
            parts.push(instant(State::Runnable).estimate(runnable[at], 0));
        }
    }
    parts.retain(|part| part.weight > 0 || part.samples > 0);
    // What no sample covers.
    for (state, ns) in [(State::Running, life.running_ns), (State::Runnable, life.runnable_ns)] {
        let covered: i64 = parts.iter().filter(|part| part.state == state).map(|part| part.weight).sum();
        parts.extend((covered < ns).then(|| Stretch::of_life(tables, task, state, ns - covered)));
    }
    parts
}

/// Where a thread queued for a CPU: at each stack the active time that its rows stand for, less its time on a CPU by the
/// timer's samples.
struct Queued {
    /// Time without a CPU for each ns on one, by stack that a sample met.
    rates: FxHashMap<StackId, f64>,
    /// Time without a CPU at those.
    met: i64,
    /// And at stacks at which the thread never ran long enough for a sample of the timer.
    unmet: Vec<Unmet>,
}

/// A stack with which a thread left its CPU while it was queued most of the time.
struct Unmet {
    stack: StackId,
    queued_ns: i64,
    /// How often it was seen.
    samples: i64,
}

impl Queued {
    fn new(tables: &SchedTables, task: TaskId, moments: &[usize], samples: &[usize]) -> Self {
        let life = &tables.tasks[task as usize];
        let mut on_cpu: BTreeMap<StackId, f64> = BTreeMap::new();
        let mut active: BTreeMap<StackId, (f64, i64)> = BTreeMap::new();
        for moment in moments.iter().map(|&row| &tables.moments[row]) {
            *on_cpu.entry(moment.stack).or_default() += moment.period_ns.max(1) as f64;
        }
        for sample in samples.iter().map(|&row| &tables.samples[row]) {
            let (ns, seen) = active.entry(sample.stack).or_default();
            (*ns, *seen) = (*ns + sample.active_ns.max(0) as f64, *seen + sample.samples);
        }
        let scale = |sum: f64, total: i64| if sum > 0.0 { total as f64 / sum } else { 0.0 };
        let running = scale(on_cpu.values().sum(), life.running_ns);
        let length = scale(active.values().map(|(ns, _)| ns).sum(), life.running_ns + life.runnable_ns);
        let mut queued = Self { rates: FxHashMap::default(), met: 0, unmet: Vec::new() };
        for (&stack, &(ns, samples)) in &active {
            let ran = on_cpu.get(&stack).map(|ns| ns * running);
            let rest = (ns * length - ran.unwrap_or(0.0)).max(0.0);
            match ran {
                Some(ran) => {
                    queued.rates.insert(stack, rest / ran.max(1.0));
                    queued.met += rest as i64;
                }
                None => queued.unmet.push(Unmet { stack, queued_ns: rest as i64, samples }),
            }
        }
        queued
    }

    /// Gives the stacks that no sample met their part of `ns`; the rest is the others'.
    fn divide(&self, ns: i64, mut give: impl FnMut(&Unmet, i64)) -> i64 {
        let weights: Vec<i64> = [self.met].into_iter().chain(self.unmet.iter().map(|unmet| unmet.queued_ns)).collect();
        let parts = apportion(ns, &weights);
        self.unmet.iter().zip(&parts[1..]).filter(|(_, part)| **part > 0).for_each(|(unmet, part)| give(unmet, *part));
        ns - parts[1..].iter().sum::<i64>()
    }

    /// How much a sample of so long a period counts.
    fn weight(&self, stack: StackId, period_ns: i64) -> i64 {
        (self.rates.get(&stack).copied().unwrap_or(0.0) * period_ns as f64) as i64
    }
}

/// Time blocked, wait by wait.
fn blocked(
    tables: &SchedTables,
    task: TaskId,
    waits: &[usize],
    wait_stacks: &[Option<StackId>],
    looked: bool,
    stretches: &mut Vec<Stretch>,
) {
    let per_look = if looked { per_look(tables, waits) } else { 0.0 };
    let blocked_ns = tables.tasks[task as usize].blocked_ns;
    let known: Vec<i64> = waits.iter().map(|&row| tables.waits[row].ns.max(0)).collect();
    let sum: i64 = known.iter().sum();
    let known = if sum > blocked_ns { apportion(blocked_ns, &known) } else { known };
    for (&row, ns) in waits.iter().zip(known) {
        let wait = &tables.waits[row];
        let stretch = of_wait(tables, row, wait, wait_stacks, wait.begin_ns);
        let estimated = looked && wait.is_sum();
        let per_sample = if estimated { per_look } else { 0.0 };
        stretches.push(Stretch { weight: ns, estimated, per_sample, ..stretch });
    }
    stretches.push(Stretch::of_life(tables, task, State::Blocked, (blocked_ns - sum).max(0)));
}

/// Whether it was looked at waits now and then, without the scheduler's events.
pub(super) fn is_estimate(profile: &Profile) -> bool {
    profile.meta.criticality.as_ref().is_some_and(|session| session.estimate)
}

/// A longer wait is met by every look, ns.
const BETWEEN_LOOKS: i64 = 7_500_000;

/// How much of a thread's waits that were not looked at one stands for that was: those are told one by one, the others as sums.
fn per_look(tables: &SchedTables, waits: &[usize]) -> f64 {
    let waits = || waits.iter().map(|&row| &tables.waits[row]);
    let unseen: i64 = waits().filter(|wait| wait.is_sum()).map(|wait| wait.ns.max(0)).sum();
    let met = waits().filter(|wait| !wait.is_sum() && wait.ns < BETWEEN_LOOKS && wait.stack.is_some()).count();
    unseen as f64 / met.max(1) as f64
}

fn of_wait(tables: &SchedTables, row: usize, wait: &SchedWait, stacks: &[Option<StackId>], begin_ns: i64) -> Stretch {
    let base = Stretch::of_life(tables, wait.task, State::Blocked, 0);
    let stack = stacks.get(row).copied().flatten();
    Stretch { stack, wait: Some(row as u32), begin_ns, end_ns: wait.end_ns.max(begin_ns), ..base }
}

/// How many equal samples one of a thread's is worth: where the rate fell, later ones stand for more time (Kish).
fn worth(tables: &SchedTables) -> FxHashMap<TaskId, f64> {
    let mut sums: FxHashMap<TaskId, (f64, f64, f64)> = FxHashMap::default();
    for moment in &tables.moments {
        let (sum, squares, count) = sums.entry(moment.task).or_default();
        let period = moment.period_ns.max(1) as f64;
        (*sum, *squares, *count) = (*sum + period, *squares + period * period, *count + 1.0);
    }
    sums.into_iter().map(|(task, (sum, squares, count))| (task, sum * sum / squares / count)).collect()
}

/// Where criticality was gained, ns: by samples; while nobody was active, by the wait that ended that. Adds up to the elapsed
/// time.
pub(super) fn criticality(profile: &Profile, wait_stacks: &[Option<StackId>], placed: bool) -> Vec<Stretch> {
    let tables = &profile.sched;
    let mut stretches = Vec::with_capacity(tables.samples.len() + tables.tasks.len());
    let samples = by_task(tables, tables.samples.iter().enumerate().map(|(row, sample)| (sample.task, row)));
    let moments = by_task(tables, tables.moments.iter().enumerate().map(|(row, moment)| (moment.task, row)));
    let slices = by_task(tables, tables.slices.iter().enumerate().map(|(row, slice)| (slice.task, row)));
    let worth = worth(tables);
    let apart = profile.meta.criticality.as_ref().is_some_and(|session| session.per_process);
    let clock = (placed && !apart).then(|| SharedClock::new(&tables.slices));
    for (task, life) in tables.tasks.iter().enumerate() {
        let worth = worth.get(&(task as TaskId)).copied().unwrap_or(1.0);
        let mut parts = vec![Stretch::of_life(tables, task as TaskId, State::Running, life.unattributed_ns)];
        let mut instants: FxHashMap<StackId, Vec<i64>> = FxHashMap::default();
        for moment in moments[task].iter().filter(|_| placed).map(|&row| &tables.moments[row]) {
            instants.entry(moment.stack).or_default().push(moment.time_ns);
        }
        for sample in samples[task].iter().map(|&row| &tables.samples[row]) {
            let base = Stretch::of_life(tables, task as TaskId, State::Running, 0);
            let base = Stretch { stack: Some(sample.stack), spin: sample.spin, ..base };
            let count = ((sample.samples as f64 * worth).round() as i64).max(1);
            let whole = base.estimate(sample.criticality_ns, count);
            match instants.get(&sample.stack) {
                None => parts.push(whole),
                Some(times) => {
                    let weights = apportion(sample.criticality_ns, &vec![1; times.len()]);
                    let part = |(&time, weight)| Stretch { begin_ns: time, end_ns: time, weight, samples: 0, ..whole };
                    parts.extend(times.iter().zip(weights).map(part));
                }
            }
        }
        parts.retain(|part| part.weight > 0);
        match placed.then(|| timeline(tables, &slices[task], &[])).filter(|slices| !slices.is_empty()) {
            Some(slices) => stretches.extend(lay(parts, &slices, |slice| slice.criticality_ns, clock.as_ref())),
            None => stretches.extend(parts),
        }
    }
    for (row, wait) in tables.waits.iter().enumerate().filter(|(_, wait)| wait.idle_ns > 0) {
        let begin_ns = if wait.is_sum() { wait.begin_ns } else { wait.end_ns - wait.idle_ns };
        stretches.push(Stretch { weight: wait.idle_ns, ..of_wait(tables, row, wait, wait_stacks, begin_ns) });
    }
    stretches
}
