//! Threads that end before a sample met them, or soon after: what they gained is not seen, though they may be all of the
//! program. Where many of one kind are short, the samples of those that were met say what the others did. A sample meets
//! whoever runs at its moment, so each stands for the same time, and for that time's criticality by the number of threads
//! that were active; the weight since the thread's last sample, which adds up for long threads, tells a short one's
//! beginning only.

use std::cmp::Reverse;

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{Origin, SchedSample, StackId, Task};

/// A thread with fewer samples than this is a short one. What others lack is an end of less than this part of theirs.
const SHORT: i64 = 8;
/// With fewer samples of a kind of thread nothing is said of it.
const LEAST_SAMPLES: i64 = 10;

/// What was sampled of a kind of thread.
struct Seen {
    stack: StackId,
    n: i32,
    spin: bool,
    samples: i64,
    criticality_ns: i64,
}

/// Adds rows for short threads' criticality that no sample covers, of the threads themselves but without samples, at the
/// stacks where samples met others of their kind; takes it off [`Task::unattributed_ns`]. What a short thread's last stack
/// stood for is among it: it has blocked there, which says little of where it ran. `kinds` has a number for each task's
/// kind; `name` orders stacks by what they are, so that the rows are the same in whatever order records came.
pub(super) fn stand_in<N: Ord>(
    tasks: &mut [Task],
    kinds: &[usize],
    samples: &mut Vec<SchedSample>,
    name: impl Fn(StackId) -> N,
) {
    let mut own = vec![(0_i64, 0_i64); tasks.len()];
    for sample in samples.iter() {
        let (count, active_ns) = &mut own[sample.task as usize];
        *count += sample.samples;
        *active_ns += sample.active_ns;
    }
    let mut told: HashMap<usize, i64> = HashMap::default();
    for sample in samples.iter().filter(|sample| own[sample.task as usize].0 < SHORT) {
        *told.entry(kinds[sample.task as usize]).or_default() += sample.samples;
    }
    let is_told = |task: usize| own[task].0 < SHORT && told.get(&kinds[task]).is_some_and(|&met| met >= LEAST_SAMPLES);
    samples.retain(|sample| {
        let task = sample.task as usize;
        let keep = sample.origin != Origin::StackTop || !is_told(task);
        if !keep {
            tasks[task].unattributed_ns += sample.criticality_ns;
        }
        keep
    });
    let mut seen: HashMap<usize, HashMap<(StackId, i32), Seen>> = HashMap::default();
    for &SchedSample { task, stack, n, spin, samples, criticality_ns, .. } in samples.iter() {
        if !is_told(task as usize) {
            continue;
        }
        let rows = seen.entry(kinds[task as usize]).or_default();
        let nothing = || Seen { stack, n, spin, samples: 0, criticality_ns: 0 };
        let row = rows.entry((stack, n)).or_insert_with(nothing);
        row.samples += samples;
        row.criticality_ns += criticality_ns;
    }
    let mut unseen: HashMap<usize, Vec<usize>> = HashMap::default();
    for task in (0..tasks.len()).filter(|&task| tasks[task].unattributed_ns > 0 && is_told(task)) {
        unseen.entry(kinds[task]).or_default().push(task);
    }
    for (kind, unseen) in unseen {
        let mut rows: Vec<Seen> = seen.remove(&kind).into_iter().flat_map(HashMap::into_values).collect();
        rows.sort_by_cached_key(|row| (Reverse(row.samples), row.n, Reverse(row.criticality_ns), name(row.stack)));
        let left = unseen.iter().map(|&task| tasks[task].unattributed_ns).sum();
        let mut parts = rows.iter().zip(wanting(&rows, left)).filter(|(_, part)| *part > 0);
        let Some((mut row, mut part)) = parts.next() else { continue };
        // Threads one after the other, each as much of the rows in turn as it lacks.
        for task in unseen {
            let whole = tasks[task].unattributed_ns;
            let active_ns = (tasks[task].running_ns + tasks[task].runnable_ns - own[task].1).max(0);
            while tasks[task].unattributed_ns > 0 {
                if part == 0 {
                    let Some(next) = parts.next() else { break };
                    (row, part) = next;
                }
                let piece = part.min(tasks[task].unattributed_ns);
                part -= piece;
                tasks[task].unattributed_ns -= piece;
                samples.push(SchedSample {
                    task: task as u32,
                    stack: row.stack,
                    n: row.n,
                    origin: Origin::Sample,
                    samples: 0,
                    criticality_ns: piece,
                    active_ns: (active_ns as f64 * piece as f64 / whole as f64) as i64,
                    spin: row.spin,
                });
            }
        }
    }
}

/// How `left` is shared out among the rows so that each comes as near as it can to its part of the whole.
fn wanting(rows: &[Seen], left: i64) -> Vec<i64> {
    let weight = |row: &Seen| row.samples as f64 / f64::from(row.n.max(1));
    let all: f64 = rows.iter().map(weight).sum();
    let whole = (left + rows.iter().map(|row| row.criticality_ns).sum::<i64>()) as f64;
    let lacks: Vec<f64> =
        rows.iter().map(|row| (whole * weight(row) / all - row.criticality_ns as f64).max(0.0)).collect();
    // Never less than `left`: what some have too much, others lack.
    let lacking: f64 = lacks.iter().sum();
    if lacking <= 0.0 {
        return vec![0; rows.len()];
    }
    let mut reached = 0.0;
    let mut given = 0;
    let part = |lack: &f64| {
        reached += lack;
        let until = (left as f64 * (reached / lacking)).round() as i64;
        let part = until.min(left) - given;
        given += part;
        part
    };
    lacks.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: StackId = 1;
    const SECOND: StackId = 2;

    fn task(criticality_ns: i64, unattributed_ns: i64) -> Task {
        Task {
            parent: None,
            process: 0,
            tid: 0,
            name: String::new(),
            group: String::new(),
            start_ns: 0,
            end_ns: 0,
            criticality_ns,
            running_ns: criticality_ns,
            runnable_ns: 0,
            blocked_ns: 0,
            unattributed_ns,
            ..Task::default()
        }
    }

    fn sample(task: u32, stack: StackId, criticality_ns: i64) -> SchedSample {
        let (origin, active_ns) = (Origin::Sample, criticality_ns);
        SchedSample { task, stack, n: 1, origin, samples: 1, criticality_ns, active_ns, spin: false }
    }

    /// Threads of `length` ns that are at one stack for the first part of it and at another for the second; a timer of a
    /// thousand times a second meets few. Returns the sums of both stacks.
    fn share_of(threads: usize, length: i64, first: i64) -> (i64, i64) {
        let period = 1_037_129;
        let (mut tasks, mut samples) = (Vec::new(), Vec::new());
        for number in 0..threads {
            let begin = number as i64 * length;
            let met = (begin + period - 1) / period * period - begin;
            let mut sampled = 0;
            if met < length {
                let stack = if met < first { FIRST } else { SECOND };
                samples.push(sample(number as u32, stack, met));
                sampled = met;
            }
            tasks.push(task(length, length - sampled));
        }
        let kinds = vec![0; threads];
        stand_in(&mut tasks, &kinds, &mut samples, |stack| stack);
        assert!(tasks.iter().all(|task| task.unattributed_ns == 0));
        for (number, task) in tasks.iter().enumerate() {
            let of_task = samples.iter().filter(|sample| sample.task as usize == number);
            assert_eq!(of_task.clone().map(|sample| sample.criticality_ns).sum::<i64>(), task.criticality_ns);
            let active_ns = of_task.map(|sample| sample.active_ns).sum::<i64>();
            assert!((active_ns - length).abs() <= samples.len() as i64, "{active_ns} of {length}");
        }
        let sum = |stack| samples.iter().filter(|sample| sample.stack == stack).map(|s| s.criticality_ns).sum();
        (sum(FIRST), sum(SECOND))
    }

    #[test]
    fn short_threads_are_told_by_those_that_were_met() {
        for (length, first) in [(100_000, 75_000), (370_000, 37_000), (900_000, 600_000)] {
            let (one, two) = share_of(4_000, length, first);
            let share = one as f64 / (one + two) as f64;
            let right = first as f64 / length as f64;
            assert!((share - right).abs() < 0.03, "{share} instead of {right} of {length}");
        }
    }

    /// Threads that block at the end: where they did is not where they ran.
    #[test]
    fn last_stacks_give_way() {
        let mut tasks: Vec<Task> = (0..40).map(|_| task(100, 0)).collect();
        let mut samples: Vec<SchedSample> = (0..20).map(|number| sample(number, FIRST, 50)).collect();
        let last = |task: u32| SchedSample {
            origin: Origin::StackTop,
            samples: 0,
            active_ns: 0,
            ..sample(task, SECOND, if task < 20 { 50 } else { 100 })
        };
        samples.extend((0..40).map(last));
        stand_in(&mut tasks, &[0; 40], &mut samples, |stack| stack);
        assert!(samples.iter().all(|sample| sample.stack == FIRST), "{samples:?}");
        assert_eq!(samples.iter().map(|sample| sample.criticality_ns).sum::<i64>(), 4_000);
        // Unless too few of their kind were met.
        let mut samples: Vec<SchedSample> = (0..5).map(|number| sample(number, FIRST, 50)).collect();
        samples.extend((0..5).map(last));
        stand_in(&mut tasks[..5], &[0; 5], &mut samples, |stack| stack);
        assert_eq!(samples.len(), 10);
    }

    #[test]
    fn few_samples_tell_nothing() {
        let mut tasks = vec![task(100, 90), task(100, 100)];
        let mut samples = vec![sample(0, FIRST, 10)];
        stand_in(&mut tasks, &[0, 0], &mut samples, |stack| stack);
        assert_eq!((samples.len(), tasks[0].unattributed_ns, tasks[1].unattributed_ns), (1, 90, 100));
    }

    #[test]
    fn other_kinds_tell_nothing() {
        let mut tasks: Vec<Task> = (0..40).map(|number| task(100, if number < 20 { 50 } else { 100 })).collect();
        let mut samples: Vec<SchedSample> = (0..20).map(|number| sample(number, FIRST, 50)).collect();
        let kinds: Vec<usize> = (0..40).map(|number| number / 20).collect();
        stand_in(&mut tasks, &kinds, &mut samples, |stack| stack);
        assert!(tasks[..20].iter().all(|task| task.unattributed_ns == 0));
        assert!(tasks[20..].iter().all(|task| task.unattributed_ns == 100));
    }
}
