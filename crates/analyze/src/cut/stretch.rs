//! The common ground of a cut: weighted stretches of threads' lives, made of samples, waits and what is known exactly.
//!
//! A thread's time running and runnable is known exactly, as a whole and (by its slices) over time; samples say where it
//! was. So samples are weights that are calibrated to these margins. Waits are known one by one. What no sample and
//! no wait covers is a stretch without a stack: the remainder.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{Profile, SchedTables, SchedWait, StackId, TaskId};

use crate::criticality::apportion;

/// What a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum State {
    Running,
    Runnable,
    Blocked,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
        }
    }
}

/// A part of a thread's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
            estimated: false,
            features: 0,
        }
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

/// Samples in a window over which they are calibrated, at least: fewer would make weights jump.
const WINDOW: usize = 16;

/// Where the program's threads spent their lifetime, ns.
pub(super) fn lifetimes(profile: &Profile, wait_stacks: &[Option<StackId>]) -> Vec<Stretch> {
    let tables = &profile.sched;
    let mut stretches = Vec::with_capacity(2 * tables.moments.len() + tables.waits.len());
    let moments = by_task(tables, tables.moments.iter().enumerate().map(|(row, moment)| (moment.task, row)));
    let samples = by_task(tables, tables.samples.iter().enumerate().map(|(row, sample)| (sample.task, row)));
    let slices = by_task(tables, tables.slices.iter().enumerate().map(|(row, slice)| (slice.task, row)));
    let waits = by_task(tables, tables.waits.iter().enumerate().map(|(row, wait)| (wait.task, row)));
    let spins = spinning(tables);
    for task in 0..tables.tasks.len() {
        active(tables, task as TaskId, (&moments[task], &samples[task], &slices[task]), &spins, &mut stretches);
        blocked(tables, task as TaskId, &waits[task], wait_stacks, &mut stretches);
    }
    stretches
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
    (moments, samples, slices): (&[usize], &[usize], &[usize]),
    spins: &FxHashSet<(TaskId, StackId)>,
    stretches: &mut Vec<Stretch>,
) {
    let life = &tables.tasks[task as usize];
    let mut parts = Vec::new();
    if moments.is_empty() {
        // Too short for the timer: where it blocked, and what stands for threads of its kind.
        let samples = samples.iter().map(|&row| &tables.samples[row]).filter(|sample| sample.active_ns > 0);
        let rows: Vec<_> = samples.collect();
        let weights: Vec<i64> = rows.iter().map(|sample| sample.active_ns).collect();
        let (running, runnable) = (apportion(life.running_ns, &weights), apportion(life.runnable_ns, &weights));
        for (at, sample) in rows.into_iter().enumerate() {
            let base = Stretch::of_life(tables, task, State::Running, 0);
            parts.push((Stretch { stack: Some(sample.stack), ..base }, running[at], runnable[at]));
        }
    } else {
        let queued = Queued::new(tables, task, moments, samples);
        let of_met = queued.divide(life.runnable_ns, |stack, ns| {
            let base = Stretch::of_life(tables, task, State::Runnable, 0);
            parts.push((Stretch { stack: Some(stack), ..base }, 0, ns));
        });
        for window in windows(tables, life.running_ns, of_met, moments, slices) {
            let periods: Vec<i64> = window.moments.iter().map(|&row| tables.moments[row].period_ns.max(1)).collect();
            let queue: Vec<i64> = window
                .moments
                .iter()
                .zip(&periods)
                .map(|(&row, period)| queued.weight(tables.moments[row].stack, *period))
                .collect();
            let queue = if queue.iter().any(|weight| *weight > 0) { queue } else { periods.clone() };
            let running = apportion(window.running_ns, &periods);
            let runnable = apportion(window.runnable_ns, &queue);
            for (at, &row) in window.moments.iter().enumerate() {
                let moment = &tables.moments[row];
                let base = Stretch::of_life(tables, task, State::Running, 0);
                let (begin_ns, end_ns) = (moment.time_ns, moment.time_ns);
                let part = Stretch { stack: Some(moment.stack), begin_ns, end_ns, samples: 1, ..base };
                parts.push((part, running[at], runnable[at]));
            }
        }
    }
    if parts.is_empty() {
        stretches.push(Stretch::of_life(tables, task, State::Running, life.running_ns));
        stretches.push(Stretch::of_life(tables, task, State::Runnable, life.runnable_ns));
        return;
    }
    for (part, running, runnable) in parts {
        let spin = part.stack.is_some_and(|stack| spins.contains(&(task, stack)));
        if running > 0 || part.samples > 0 {
            stretches.push(Stretch { state: State::Running, weight: running, spin, estimated: true, ..part });
        }
        if runnable > 0 {
            stretches.push(Stretch { state: State::Runnable, weight: runnable, samples: 0, estimated: true, ..part });
        }
    }
}

/// Where a thread queued for a CPU: at each stack the active time that its rows stand for, less its time on a CPU by the
/// timer's samples.
struct Queued {
    /// Time without a CPU for each ns on one, by stack that a sample met.
    rates: FxHashMap<StackId, f64>,
    /// Time without a CPU at those.
    met: i64,
    /// And at stacks at which the thread never ran long enough for a sample.
    unmet: Vec<(StackId, i64)>,
}

impl Queued {
    fn new(tables: &SchedTables, task: TaskId, moments: &[usize], samples: &[usize]) -> Self {
        let life = &tables.tasks[task as usize];
        let mut on_cpu: BTreeMap<StackId, f64> = BTreeMap::new();
        let mut active: BTreeMap<StackId, f64> = BTreeMap::new();
        for moment in moments.iter().map(|&row| &tables.moments[row]) {
            *on_cpu.entry(moment.stack).or_default() += moment.period_ns.max(1) as f64;
        }
        for sample in samples.iter().map(|&row| &tables.samples[row]) {
            *active.entry(sample.stack).or_default() += sample.active_ns.max(0) as f64;
        }
        let scale = |sum: f64, total: i64| if sum > 0.0 { total as f64 / sum } else { 0.0 };
        let running = scale(on_cpu.values().sum(), life.running_ns);
        let length = scale(active.values().sum(), life.running_ns + life.runnable_ns);
        let mut queued = Self { rates: FxHashMap::default(), met: 0, unmet: Vec::new() };
        for (&stack, &ns) in &active {
            let ran = on_cpu.get(&stack).map(|ns| ns * running);
            let rest = (ns * length - ran.unwrap_or(0.0)).max(0.0);
            match ran {
                Some(ran) => {
                    queued.rates.insert(stack, rest / ran.max(1.0));
                    queued.met += rest as i64;
                }
                None => queued.unmet.push((stack, rest as i64)),
            }
        }
        queued
    }

    /// Gives the stacks that no sample met their part of `ns`; the rest is the others'.
    fn divide(&self, ns: i64, mut give: impl FnMut(StackId, i64)) -> i64 {
        let weights: Vec<i64> = [self.met].into_iter().chain(self.unmet.iter().map(|(_, rest)| *rest)).collect();
        let parts = apportion(ns, &weights);
        self.unmet
            .iter()
            .zip(&parts[1..])
            .filter(|(_, part)| **part > 0)
            .for_each(|((stack, _), part)| give(*stack, *part));
        ns - parts[1..].iter().sum::<i64>()
    }

    /// How much a sample of so long a period counts.
    fn weight(&self, stack: StackId, period_ns: i64) -> i64 {
        (self.rates.get(&stack).copied().unwrap_or(0.0) * period_ns as f64) as i64
    }
}

/// Samples that share a stretch of time, and how long their thread was running and runnable in it.
struct Window<'a> {
    moments: &'a [usize],
    running_ns: i64,
    runnable_ns: i64,
}

/// Divides a thread's samples, in order of time, into windows and its time among them as its slices have it.
fn windows<'a>(
    tables: &SchedTables,
    running_ns: i64,
    runnable_ns: i64,
    moments: &'a [usize],
    slices: &[usize],
) -> Vec<Window<'a>> {
    let count = (moments.len() / WINDOW).max(1);
    let first_of = |window: usize| window * moments.len() / count;
    let time = |at: usize| tables.moments[moments[at]].time_ns;
    // A window ends half-way between its last sample and the next one's first.
    let ends: Vec<i64> = (1..count)
        .map(|window| {
            let first = first_of(window);
            time(first - 1) + (time(first) - time(first - 1)) / 2
        })
        .collect();
    let (mut running, mut runnable) = (vec![0; count], vec![0; count]);
    for slice in slices.iter().map(|&row| &tables.slices[row]) {
        let (begin, end) = (slice.start_ns, slice.start_ns + slice.active_ns.max(0));
        let first = ends.partition_point(|boundary| *boundary <= begin);
        let last = ends.partition_point(|boundary| *boundary < end);
        for window in first..=last {
            let from = if window == first { begin } else { ends[window - 1] };
            let to = if window == last { end } else { ends[window] };
            let share = |ns: i64| match end - begin {
                0 => ns,
                whole => (i128::from(ns) * i128::from(to - from) / i128::from(whole)) as i64,
            };
            running[window] += share((slice.active_ns - slice.runnable_ns).max(0));
            runnable[window] += share(slice.runnable_ns);
        }
    }
    // Without slices samples alone say when it ran.
    let sampled = |window: usize| -> i64 {
        let rows = first_of(window)..first_of(window + 1);
        moments[rows].iter().map(|&row| tables.moments[row].period_ns.max(1)).sum()
    };
    let by_samples: Vec<i64> = (0..count).map(sampled).collect();
    let weights = |known: Vec<i64>| if known.iter().any(|ns| *ns > 0) { known } else { by_samples.clone() };
    let (running, runnable) = (apportion(running_ns, &weights(running)), apportion(runnable_ns, &weights(runnable)));
    let window = |at: usize| Window {
        moments: &moments[first_of(at)..first_of(at + 1)],
        running_ns: running[at],
        runnable_ns: runnable[at],
    };
    (0..count).map(window).collect()
}

/// Time blocked, wait by wait.
fn blocked(
    tables: &SchedTables,
    task: TaskId,
    waits: &[usize],
    wait_stacks: &[Option<StackId>],
    stretches: &mut Vec<Stretch>,
) {
    let blocked_ns = tables.tasks[task as usize].blocked_ns;
    let known: Vec<i64> = waits.iter().map(|&row| tables.waits[row].ns.max(0)).collect();
    let sum: i64 = known.iter().sum();
    let known = if sum > blocked_ns { apportion(blocked_ns, &known) } else { known };
    for (&row, ns) in waits.iter().zip(known) {
        let wait = &tables.waits[row];
        stretches.push(Stretch { weight: ns, ..of_wait(tables, row, wait, wait_stacks, wait.begin_ns) });
    }
    stretches.push(Stretch::of_life(tables, task, State::Blocked, (blocked_ns - sum).max(0)));
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
pub(super) fn criticality(profile: &Profile, wait_stacks: &[Option<StackId>], over_time: bool) -> Vec<Stretch> {
    let tables = &profile.sched;
    let mut stretches = Vec::with_capacity(tables.samples.len() + tables.tasks.len());
    let mut instants: FxHashMap<(TaskId, StackId), Vec<i64>> = FxHashMap::default();
    if over_time {
        for moment in &tables.moments {
            instants.entry((moment.task, moment.stack)).or_default().push(moment.time_ns);
        }
    }
    let worth = worth(tables);
    for sample in &tables.samples {
        let count = (sample.samples as f64 * worth.get(&sample.task).copied().unwrap_or(1.0)).round() as i64;
        let base = Stretch::of_life(tables, sample.task, State::Running, sample.criticality_ns);
        let base = Stretch { stack: Some(sample.stack), spin: sample.spin, estimated: true, ..base };
        match instants.get(&(sample.task, sample.stack)) {
            None => stretches.push(Stretch { samples: count.max(1), ..base }),
            Some(times) => {
                let parts = apportion(sample.criticality_ns, &vec![1; times.len()]);
                let counts = apportion(count.max(1), &vec![1; times.len()]);
                let part =
                    |((&time, weight), samples)| Stretch { begin_ns: time, end_ns: time, weight, samples, ..base };
                stretches.extend(times.iter().zip(parts).zip(counts).map(part));
            }
        }
    }
    for (task, life) in tables.tasks.iter().enumerate() {
        stretches.push(Stretch::of_life(tables, task as TaskId, State::Running, life.unattributed_ns));
    }
    for (row, wait) in tables.waits.iter().enumerate().filter(|(_, wait)| wait.idle_ns > 0) {
        let begin_ns = if wait.is_sum() { wait.begin_ns } else { wait.end_ns - wait.idle_ns };
        stretches.push(Stretch { weight: wait.idle_ns, ..of_wait(tables, row, wait, wait_stacks, begin_ns) });
    }
    stretches
}
