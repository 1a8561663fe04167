//! Criticality without those who only spin.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{SchedSession, SchedTables, StackId, TaskId, TimedSample};

use super::apportion::apportion;
use super::awaited::Awaited;
use super::call_path::FunctionId;
use super::what_if::timeline::Timelines;

/// Another thread's sample counts as of the same instant if it is no further away than so many sampling intervals ...
const NEAR: f64 = 1.5;
/// ... or than so many, if the thread did not wait at that instant: on a crowded machine it may just not have run.
const NEAR_ACTIVE: i64 = 20;
/// Samples of spinning whose neighbours are looked up, times threads.
const LOOK_UPS: usize = 4_000_000;

/// A thread at a stack.
type At = (TaskId, StackId);

/// Criticality as it would be if spinning threads did not count as active. What they gained goes to what the other
/// threads were sampled working on at about the same instant (or, without times of samples, at the same number of active
/// threads): with one worker and three spinners, each instant's four quarters all become the worker's. An estimate; the
/// sum does not change. Where nobody was seen working, spinners keep it.
#[derive(Default)]
pub(super) struct Correction {
    /// Per row of [`SchedTables::samples`], ns.
    pub corrected_ns: Vec<i64>,
    /// Of it, spun until the wait of another thread was over, ns.
    pub slept_ns: Vec<i64>,
    /// The same by row of that wait.
    pub until: FxHashMap<u32, i64>,
    /// Parts of the time that each thread spun, by row of the wait that it spun for.
    pub sleepers: FxHashMap<TaskId, Vec<(u32, f64)>>,
    /// Who worked while each thread spun: parts of the time that it spun, which add up to 1 or, where nobody worked, less.
    pub workers: FxHashMap<TaskId, Vec<(At, f64)>>,
    /// Who worked most while a stack spun.
    most: FxHashMap<StackId, At>,
}

/// Which parts of an application's spinning went to whom.
#[derive(Default)]
struct Parts {
    gains: FxHashMap<At, f64>,
    by_spinner: FxHashMap<(At, At), f64>,
    spun: FxHashMap<TaskId, f64>,
    /// Spun while nobody worked.
    kept: f64,
    /// Of that, until the wait in that row was over.
    slept: FxHashMap<(At, u32), f64>,
}

impl Parts {
    fn add(&mut self, spinner: At, worker: At, part: f64) {
        *self.gains.entry(worker).or_default() += part;
        *self.by_spinner.entry((spinner, worker)).or_default() += part;
        *self.spun.entry(spinner.0).or_default() += part;
    }

    fn keep(&mut self, spinner: At, part: f64) {
        self.kept += part;
        *self.spun.entry(spinner.0).or_default() += part;
    }
}

impl Correction {
    /// `place` names the function that a stack is in; `ends_by_itself` is true of rows of waits that no thread of the program ends.
    pub fn new(
        session: &SchedSession,
        tables: &SchedTables,
        place: &dyn Fn(StackId) -> Option<FunctionId>,
        ends_by_itself: &dyn Fn(usize) -> bool,
    ) -> Self {
        let corrected_ns = tables.samples.iter().map(|sample| sample.criticality_ns).collect();
        let mut correction = Self { corrected_ns, slept_ns: vec![0; tables.samples.len()], ..Self::default() };
        let spun: i64 = tables.samples.iter().filter(|sample| sample.spin).map(|sample| sample.criticality_ns).sum();
        if spun <= 0 {
            return correction;
        }
        let application = |task: TaskId| {
            let process = tables.tasks.get(task as usize).map_or(0, |task| task.process);
            if session.per_process { process } else { 0 }
        };
        let mut parts = by_instants(tables, &application, place, ends_by_itself);
        if parts.is_empty() {
            parts = by_levels(tables, &application);
        }
        let mut best: FxHashMap<StackId, (f64, At)> = FxHashMap::default();
        for (number, parts) in parts {
            correction.hand_over(tables, &parts, &|task| application(task) == number);
            let mut stacks: FxHashMap<(StackId, At), f64> = FxHashMap::default();
            for (&(spinner, worker), &part) in &parts.by_spinner {
                let spun = parts.spun[&spinner.0].max(f64::MIN_POSITIVE);
                correction.workers.entry(spinner.0).or_default().push((worker, part / spun));
                *stacks.entry((spinner.1, worker)).or_default() += part;
            }
            for (&(spinner, row), &part) in &parts.slept {
                let spun = parts.spun[&spinner.0].max(f64::MIN_POSITIVE);
                correction.sleepers.entry(spinner.0).or_default().push((row, part / spun));
                let wait = &tables.waits[row as usize];
                if let Some(stack) = wait.stack {
                    *stacks.entry((spinner.1, (wait.task, stack))).or_default() += part;
                }
            }
            for ((spinner, at), part) in stacks {
                let most = best.entry(spinner).or_insert((part, at));
                if (part, at) > *most {
                    *most = (part, at);
                }
            }
        }
        correction.workers.values_mut().for_each(|of| of.sort_by_key(|&(at, _)| at));
        correction.sleepers.values_mut().for_each(|of| of.sort_by_key(|&(row, _)| row));
        correction.most = best.into_iter().map(|(spinner, (_, at))| (spinner, at)).collect();
        correction
    }

    /// Takes from the spinning rows of an application what others gain.
    fn hand_over(&mut self, tables: &SchedTables, parts: &Parts, mine: &dyn Fn(TaskId) -> bool) {
        let rows = || (0..tables.samples.len()).filter(|&row| mine(tables.samples[row].task));
        let weight = |row: usize| tables.samples[row].criticality_ns;
        let spinning: Vec<usize> = rows().filter(|&row| tables.samples[row].spin).collect();
        let spun: i64 = spinning.iter().map(|&row| weight(row)).sum();
        let gained: f64 = parts.gains.values().sum();
        let mut known: FxHashMap<At, i64> = FxHashMap::default();
        for sample in rows().map(|row| &tables.samples[row]).filter(|sample| !sample.spin) {
            *known.entry((sample.task, sample.stack)).or_default() += sample.criticality_ns;
        }
        // In parts per thousand million, so that the rest is integers.
        let share = |row: usize| {
            let sample = &tables.samples[row];
            let at = (sample.task, sample.stack);
            let part = parts.gains.get(&at).filter(|_| !sample.spin)? / gained;
            let of_row = sample.criticality_ns as f64 / known.get(&at).copied().filter(|&ns| ns > 0)? as f64;
            Some((row, (part * of_row * 1e9).round() as i64))
        };
        let shares: Vec<(usize, i64)> = rows().filter_map(share).collect();
        if shares.iter().any(|&(_, share)| share > 0) {
            self.give(&spinning, (spun, gained / (gained + parts.kept)), &shares, &weight);
        }
        self.leave_to_waits(&spinning, spun, parts);
    }

    /// `part` of what was spun to those who worked.
    fn give(
        &mut self,
        spinning: &[usize],
        (spun, part): (i64, f64),
        shares: &[(usize, i64)],
        weight: &dyn Fn(usize) -> i64,
    ) {
        let given = (spun as f64 * part).round() as i64;
        let gains = apportion(given, &shares.iter().map(|&(_, share)| share).collect::<Vec<_>>());
        let losses = apportion(given, &spinning.iter().map(|&row| weight(row)).collect::<Vec<_>>());
        shares.iter().zip(gains).for_each(|(&(row, _), gain)| self.corrected_ns[row] += gain);
        spinning.iter().zip(losses).for_each(|(&row, loss)| self.corrected_ns[row] -= loss);
    }

    /// What was spun while nobody worked to the waits that it was spun for.
    fn leave_to_waits(&mut self, spinning: &[usize], spun: i64, parts: &Parts) {
        let mut waits: FxHashMap<u32, f64> = FxHashMap::default();
        parts.slept.iter().for_each(|(&(_, row), part)| *waits.entry(row).or_default() += part);
        let mut waits: Vec<(u32, f64)> = waits.into_iter().collect();
        waits.sort_unstable_by_key(|&(row, _)| row);
        let slept: f64 = waits.iter().map(|(_, part)| part).sum();
        let whole = parts.gains.values().sum::<f64>() + parts.kept;
        let kept: Vec<i64> = spinning.iter().map(|&row| self.corrected_ns[row]).collect();
        let left = ((spun as f64 * slept / whole.max(f64::MIN_POSITIVE)) as i64).min(kept.iter().sum());
        if left <= 0 {
            return;
        }
        // In parts per thousand million, so that the rest is integers.
        let shares: Vec<i64> = waits.iter().map(|(_, part)| (part / slept * 1e9).round() as i64).collect();
        waits
            .iter()
            .zip(apportion(left, &shares))
            .for_each(|(&(row, _), ns)| *self.until.entry(row).or_default() += ns);
        spinning.iter().zip(apportion(left, &kept)).for_each(|(&row, ns)| self.slept_ns[row] += ns);
    }

    /// What a place has of a row of samples, ns.
    pub fn own_ns(&self, row: usize) -> i64 {
        self.corrected_ns[row] - self.slept_ns[row]
    }

    /// Who worked most while `stack` spun.
    pub fn meanwhile(&self, stack: StackId) -> Option<At> {
        self.most.get(&stack).copied()
    }
}

/// Stacks that spin more often than not.
pub(super) fn spinning_stacks(tables: &SchedTables) -> FxHashSet<StackId> {
    let mut spins: FxHashMap<StackId, i64> = FxHashMap::default();
    for sample in &tables.samples {
        *spins.entry(sample.stack).or_default() += if sample.spin { sample.samples } else { -sample.samples };
    }
    spins.into_iter().filter(|&(_, most)| most > 0).map(|(stack, _)| stack).collect()
}

/// By the samples of other threads nearest in time.
fn by_instants(
    tables: &SchedTables,
    application: &dyn Fn(TaskId) -> u32,
    place: &dyn Fn(StackId) -> Option<FunctionId>,
    ends_by_itself: &dyn Fn(usize) -> bool,
) -> FxHashMap<u32, Parts> {
    let spins = spinning_stacks(tables);
    let mut by_task: FxHashMap<TaskId, Vec<&TimedSample>> = FxHashMap::default();
    for moment in &tables.moments {
        by_task.entry(moment.task).or_default().push(moment);
    }
    let mut gaps: Vec<i64> =
        by_task.values().flat_map(|of| of.windows(2)).map(|pair| pair[1].time_ns - pair[0].time_ns).collect();
    let mut parts: FxHashMap<u32, Parts> = FxHashMap::default();
    if gaps.is_empty() {
        return parts;
    }
    let timelines = Timelines::new(tables);
    let awaited = Awaited::new(tables, &timelines, (&by_task, &spins), ends_by_itself, application);
    let middle = gaps.len() / 2;
    let near = (*gaps.select_nth_unstable(middle).1 as f64 * NEAR) as i64;
    let spun: Vec<&TimedSample> = tables.moments.iter().filter(|moment| spins.contains(&moment.stack)).collect();
    let step = (spun.len() * by_task.len()).div_ceil(LOOK_UPS).max(1);
    // Who works where others spin has what they spin for: a lock. It may have no CPU meanwhile.
    let works = |moment: &&TimedSample| !spins.contains(&moment.stack);
    let guarded: FxHashSet<FunctionId> =
        tables.moments.iter().filter(works).filter_map(|moment| place(moment.stack)).collect();
    let holder = |moments: &[&TimedSample], moment: &TimedSample| {
        let here = place(moment.stack).filter(|here| guarded.contains(here))?;
        let reach = near.saturating_mul(NEAR_ACTIVE);
        let from = moments.partition_point(|other| other.time_ns < moment.time_ns - reach);
        let until = moments.partition_point(|other| other.time_ns <= moment.time_ns + reach);
        let inside = |other: &&&TimedSample| !spins.contains(&other.stack) && place(other.stack) == Some(here);
        let distance = |other: &&TimedSample| (other.time_ns - moment.time_ns).abs();
        moments[from..until].iter().filter(inside).copied().min_by_key(distance).map(|at| (distance(&at), at.stack))
    };
    let mut working: Vec<At> = Vec::new();
    for moment in spun.into_iter().step_by(step) {
        let number = application(moment.task);
        working.clear();
        let others = || by_task.iter().filter(|&(&task, _)| task != moment.task && application(task) == number);
        let holders = others().filter_map(|(&task, moments)| Some((holder(moments, moment)?, task)));
        if let Some(((_, stack), task)) = holders.min() {
            parts.entry(number).or_default().add((moment.task, moment.stack), (task, stack), 1.0);
            continue;
        }
        for (&task, moments) in others() {
            let after = moments.partition_point(|other| other.time_ns < moment.time_ns);
            let around = moments[after.saturating_sub(1)..].iter().take(2);
            let nearest = around.min_by_key(|other| (other.time_ns - moment.time_ns).abs());
            let same_instant = nearest.filter(|other| {
                let distance = (other.time_ns - moment.time_ns).abs();
                let active = || timelines.active(tables, task, moment.time_ns) == Some(moment.time_ns);
                distance <= near || distance <= near.saturating_mul(NEAR_ACTIVE) && active()
            });
            working.extend(same_instant.filter(|o| !spins.contains(&o.stack)).map(|o| (task, o.stack)));
        }
        let of = parts.entry(number).or_default();
        if working.is_empty() {
            of.keep((moment.task, moment.stack), 1.0);
            if let Some(row) = awaited.at(moment.task, moment.time_ns) {
                *of.slept.entry(((moment.task, moment.stack), row)).or_default() += 1.0;
            }
        }
        working.iter().for_each(|&at| of.add((moment.task, moment.stack), at, 1.0 / working.len() as f64));
    }
    parts
}

/// By the number of active threads.
fn by_levels(tables: &SchedTables, application: &dyn Fn(TaskId) -> u32) -> FxHashMap<u32, Parts> {
    let mut worked: FxHashMap<(u32, i32), FxHashMap<At, f64>> = FxHashMap::default();
    for sample in tables.samples.iter().filter(|sample| !sample.spin && sample.criticality_ns > 0) {
        let level = worked.entry((application(sample.task), sample.n)).or_default();
        *level.entry((sample.task, sample.stack)).or_default() += sample.criticality_ns as f64;
    }
    let mut parts: FxHashMap<u32, Parts> = FxHashMap::default();
    for sample in tables.samples.iter().filter(|sample| sample.spin) {
        let of = parts.entry(application(sample.task)).or_default();
        let (weight, spinner) = (sample.criticality_ns as f64, (sample.task, sample.stack));
        let Some(level) = worked.get(&(application(sample.task), sample.n)) else {
            of.keep(spinner, weight);
            continue;
        };
        let total: f64 = level.values().sum();
        level.iter().for_each(|(&at, part)| of.add(spinner, at, weight * part / total));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_profile_model::SchedWait;

    use crate::criticality::testing::{sample, session, sleep, task};

    #[test]
    fn the_worker_gets_what_three_spinners_gained() {
        let samples = vec![
            sample(0, 0, 4, 25, false),
            sample(1, 1, 4, 25, true),
            sample(2, 1, 4, 25, true),
            sample(3, 1, 4, 25, true),
            sample(4, 2, 1, 40, false),
        ];
        let tables = SchedTables { samples, ..SchedTables::default() };
        let correction = Correction::new(&session(4), &tables, &|_| None, &|_| true);
        assert_eq!(correction.corrected_ns, [100, 0, 0, 0, 40]);
        assert_eq!(correction.meanwhile(1), Some((0, 0)));
        assert_eq!(correction.meanwhile(2), None);
    }

    #[test]
    fn who_worked_is_seen_by_time() {
        // Thread 0 works all the time, thread 1 works and then spins, thread 2 spins alone at the end.
        let mut tables = SchedTables {
            samples: vec![
                sample(0, 0, 2, 40, false),
                sample(1, 0, 2, 20, false),
                sample(1, 1, 2, 20, true),
                sample(2, 1, 1, 20, true),
            ],
            ..SchedTables::default()
        };
        let moment = |time_ns, task, stack| TimedSample { time_ns, task, stack, period_ns: 1 };
        for at in 0..40 {
            tables.moments.push(moment(at * 10, 0, 0));
            tables.moments.push(moment(at * 10 + 1, 1, u32::from(at >= 20)));
        }
        tables.moments.extend((60..80).map(|at| moment(at * 10, 2, 1)));
        let correction = Correction::new(&session(4), &tables, &|_| None, &|_| true);
        assert_eq!(correction.corrected_ns.iter().sum::<i64>(), 100);
        assert_eq!(correction.corrected_ns[..2], [60, 20]);
        assert_eq!(correction.meanwhile(1), Some((0, 0)));
    }

    #[test]
    fn who_works_where_others_spin_has_the_lock() {
        // Thread 0 holds the lock and has no CPU; thread 1 spins for it; thread 2 computes elsewhere.
        let mut tables = SchedTables {
            samples: vec![sample(0, 0, 3, 40, false), sample(1, 1, 3, 40, true), sample(2, 2, 3, 40, false)],
            ..SchedTables::default()
        };
        let moment = |time_ns, task, stack| TimedSample { time_ns, task, stack, period_ns: 1 };
        for at in 0..40 {
            tables.moments.push(moment(at * 10 + 1, 1, 1));
            tables.moments.push(moment(at * 10 + 2, 2, 2));
        }
        tables.moments.extend([moment(95, 0, 0), moment(295, 0, 0)]);
        tables.moments.sort_by_key(|moment| moment.time_ns);
        let lock = |stack: StackId| Some(if stack == 2 { 7 } else { 5 });
        assert_eq!(Correction::new(&session(2), &tables, &lock, &|_| true).corrected_ns, [80, 0, 40]);
        let apart = |stack: StackId| Some(stack);
        // But for the two moments at which both were seen working.
        assert_eq!(Correction::new(&session(2), &tables, &apart, &|_| true).corrected_ns, [43, 0, 77]);
    }

    /// Thread 0 spins until thread 1 has slept, ten times, and then works for a tenth of the time.
    fn slept(works_at: i64) -> SchedTables {
        let samples = vec![sample(0, 0, 1, 900, true), sample(0, 1, 1, 100, false)];
        let moments = (0..200).map(|at| {
            let stack = u32::from(at % 20 / 2 == works_at);
            TimedSample { time_ns: at * 5 + 1, task: 0, stack, period_ns: 5 }
        });
        let waits = (0..10).map(|nap| SchedWait {
            begin_ns: nap * 100,
            end_ns: nap * 100 + 99,
            ns: 99,
            stack: Some(2),
            ..sleep(1)
        });
        let tasks = (0..2).map(|_| task(1_000)).collect();
        SchedTables { samples, moments: moments.collect(), waits: waits.collect(), tasks, ..SchedTables::default() }
    }

    #[test]
    fn a_sleep_has_what_was_spun_until_it_was_over() {
        let tables = slept(0);
        let correction = Correction::new(&session(2), &tables, &|_| None, &|_| true);
        assert_eq!(correction.corrected_ns, [900, 100], "nobody else worked");
        assert_eq!((correction.own_ns(0), correction.own_ns(1)), (0, 100));
        assert_eq!(correction.until.len(), 10);
        assert_eq!(correction.until.values().sum::<i64>(), 900);
        assert_eq!(correction.meanwhile(0), Some((1, 2)));
        let parts: f64 = correction.sleepers[&0].iter().map(|(_, part)| part).sum();
        assert!((parts - 1.0).abs() < 1e-9, "{parts}");
        // A wait for another thread of the program is none of its own.
        let other = Correction::new(&session(2), &tables, &|_| None, &|_| false);
        assert_eq!((other.own_ns(0), other.until.len()), (900, 0));
    }

    #[test]
    fn a_sleep_that_ends_while_a_thread_spins_on_is_not_what_it_spins_for() {
        // It is at work in the middle of each sleep, or before it is over.
        for works_at in [5, 9] {
            let correction = Correction::new(&session(2), &slept(works_at), &|_| None, &|_| true);
            assert_eq!((correction.own_ns(0), correction.until.len()), (900, 0), "{works_at}");
        }
    }
}
