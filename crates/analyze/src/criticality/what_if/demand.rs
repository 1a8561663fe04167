//! How much CPU time pieces of work take.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::Origin;

use super::super::Source;
use super::pooling::Pooling;
use super::timeline::Timelines;
use super::trace::{Piece, Trace};

/// Classes of the number of active threads: so many and up to the next.
const CLASS_FROM: [i32; CLASSES] = [1, 2, 3, 4, 6, 10];
/// Number of [`CLASS_FROM`].
pub(super) const CLASSES: usize = 6;

/// Class of a number of active threads.
pub(super) fn class(n: i32) -> usize {
    CLASS_FROM.iter().rposition(|&from| n >= from).unwrap_or(0)
}

/// Fills in the pieces' demand. While *n* threads share *P* CPUs, each gets min(1, P / n) of one; or what its place leaves it.
pub(super) fn measure(trace: &mut Trace, source: &Source<'_>, timelines: &Timelines, queues: &Queues) {
    let sharing = &source.sharing;
    let groups = sharing.groups();
    let mut edges: Vec<(i64, i32, usize)> = Vec::with_capacity(trace.pieces.len() * 2);
    for piece in &trace.pieces {
        edges.push((piece.start_ns, 1, sharing.group(piece.task)));
        edges.push((piece.end_ns, -1, sharing.group(piece.task)));
    }
    edges.sort_unstable();
    let mut times: Vec<i64> = Vec::new();
    // Of each instant one for each group.
    let mut sums: Vec<[f64; CLASSES]> = Vec::new();
    let mut sum = vec![[0.0; CLASSES]; groups];
    let (mut n, mut active, mut rates) = (0, vec![0_usize; groups], vec![1.0; groups]);
    for (at, change, group) in edges {
        if let Some(&before) = times.last().filter(|&&before| before < at)
            && n > 0
        {
            sharing.rates(&active, &mut rates);
            for (sum, rate) in sum.iter_mut().zip(&rates) {
                sum[class(n)] += (at - before) as f64 * rate;
            }
        }
        if times.last() != Some(&at) {
            times.push(at);
            sums.extend(&sum);
        }
        n += change;
        active[group] = active[group].saturating_add_signed(change as isize);
    }
    let merged = merged_density(trace, source, timelines);
    for (piece, merged) in trace.pieces.iter_mut().zip(merged) {
        let group = sharing.group(piece.task);
        let find = |at: i64| times.binary_search(&at).map_or([0.0; CLASSES], |place| sums[place * groups + group]);
        let (from, to) = (find(piece.start_ns), find(piece.end_ns));
        for class in 0..CLASSES {
            piece.demand[class] = ((to[class] - from[class]) * (1.0 - merged)) as f32;
        }
        piece.pause = ((piece.end_ns - piece.start_ns) as f64 * merged) as f32;
    }
    trace.pieces.chunk_by_mut(|a, b| a.task == b.task).for_each(|pieces| fit(pieces, source, queues));
}

/// Where threads queued for a CPU.
pub(super) struct Queues {
    pub pooling: Pooling,
    /// Of each thread, or of those looked at together, the part of its queueing that it did elsewhere than where it waits, 0.0–1.0: it
    /// had lost its CPU.
    preempted: FxHashMap<u32, f64>,
}

impl Queues {
    pub fn new(source: &Source<'_>) -> Self {
        let pooling = Pooling::new(source.tables);
        let path = |stack: u32| source.paths.stack(stack).map(|facts| facts.path);
        let waits: FxHashSet<u32> = source.wait_stacks.iter().flatten().filter_map(|&stack| path(stack)).collect();
        let mut sums: FxHashMap<u32, (f64, f64)> = FxHashMap::default();
        for sample in source.tables.samples.iter().filter(|sample| sample.origin == Origin::StackTop) {
            let woken = path(sample.stack).is_some_and(|path| waits.contains(&path));
            let (whole, lost) = sums.entry(pooling.of(sample.task)).or_default();
            *whole += sample.active_ns as f64;
            *lost += if woken { 0.0 } else { sample.active_ns as f64 };
        }
        let part = |(task, (whole, lost)): (u32, (f64, f64))| (task, if whole > 0.0 { lost / whole } else { 0.0 });
        Self { preempted: sums.into_iter().map(part).collect(), pooling }
    }
}

/// Fits the demand of one thread's pieces to the CPU time that it had of the time for which it was active; the rest is lag.
fn fit(pieces: &mut [Piece], source: &Source<'_>, queues: &Queues) {
    let task = &source.tables.tasks[pieces[0].task as usize];
    let active = |piece: &Piece| (piece.end_ns - piece.start_ns) as f64 - f64::from(piece.pause);
    let (whole, demand) = pieces.iter().fold((0.0, 0.0), |(a, d), piece| (a + active(piece), d + piece.work()));
    let had = task.running_ns as f64 / task.running_ns.saturating_add(task.runnable_ns).max(1) as f64;
    if task.running_ns <= 0 || whole <= 0.0 || demand <= 0.0 {
        return;
    }
    let part = (had * whole / demand).min(1.0);
    let lost = queues.preempted.get(&queues.pooling.of(pieces[0].task)).copied().unwrap_or(0.0);
    for piece in pieces {
        let queued = active(piece) * (1.0 - part);
        (piece.lag, piece.preempted) = ((queued * (1.0 - lost)) as f32, (queued * lost) as f32);
        piece.demand.iter_mut().for_each(|demand| *demand *= part as f32);
    }
}

/// Which part of each piece its thread waited in merged rows.
fn merged_density(trace: &Trace, source: &Source<'_>, timelines: &Timelines) -> Vec<f64> {
    let mut density = vec![0.0; trace.pieces.len()];
    let mut first = 0;
    while first < trace.pieces.len() {
        let task = trace.pieces[first].task;
        let count = trace.pieces[first..].iter().take_while(|piece| piece.task == task).count();
        let pieces = &trace.pieces[first..first + count];
        for &row in &timelines.merged[task as usize] {
            let wait = &source.tables.waits[row as usize];
            let overlap =
                |piece: &Piece| (piece.end_ns.min(wait.end_ns) - piece.start_ns.max(wait.begin_ns)).max(0) as f64;
            let inside = (wait.end_ns.min(trace.end_ns) - wait.begin_ns.max(trace.start_ns)).max(0) as f64;
            let ns = wait.ns as f64 * inside / (wait.end_ns - wait.begin_ns) as f64;
            let from = pieces.partition_point(|piece| piece.end_ns <= wait.begin_ns);
            let hit = || pieces[from..].iter().take_while(|piece| piece.start_ns < wait.end_ns);
            let free: f64 = hit().map(overlap).sum();
            for (place, piece) in hit().enumerate().filter(|_| free > 0.0) {
                let length = (piece.end_ns - piece.start_ns).max(1) as f64;
                density[first + from + place] += (ns / free).min(1.0) * overlap(piece) / length;
            }
        }
        first += count;
    }
    density.iter_mut().for_each(|part| *part = part.min(0.98));
    density
}
