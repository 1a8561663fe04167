//! Waits that threads spin for: nobody works meanwhile, and what ends the spinning is a timer, a device or another program that
//! lets a thread go on.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{SchedTables, StackId, TaskId, TimedSample};

use super::what_if::timeline::Timelines;

/// Samples of work in a thread's waits, from which they tell whether it waits for them.
const LEAST_WORK: f64 = 5.0;
/// Standard errors by which it works more after their begin than before their end.
const ERRORS: f64 = 2.0;
/// Samples of a thread that are held against another one's waits.
const LOOKED_AT: usize = 2_000;

/// Per spinning thread those whose waits it spins for.
pub(super) struct Awaited<'a> {
    tables: &'a SchedTables,
    /// Of each thread, rows of waits that no thread ends, in order of time.
    rows: Vec<Vec<u32>>,
    sleepers: FxHashMap<TaskId, Vec<TaskId>>,
}

impl<'a> Awaited<'a> {
    /// `spins`: stacks that spin. `ends_by_itself`: rows of waits that no thread of the program ends.
    pub fn new(
        tables: &'a SchedTables,
        timelines: &Timelines,
        (moments, spins): (&FxHashMap<TaskId, Vec<&TimedSample>>, &FxHashSet<StackId>),
        ends_by_itself: &dyn Fn(usize) -> bool,
        application: &dyn Fn(TaskId) -> u32,
    ) -> Self {
        let own = |rows: &Vec<u32>| rows.iter().copied().filter(|&row| ends_by_itself(row as usize)).collect();
        let rows: Vec<Vec<u32>> = timelines.single.iter().map(own).collect();
        let mut awaited = Self { tables, rows, sleepers: FxHashMap::default() };
        let sleeping: Vec<TaskId> =
            (0..tables.tasks.len() as TaskId).filter(|&task| !awaited.rows[task as usize].is_empty()).collect();
        for (&task, moments) in moments.iter().filter(|(_, of)| of.iter().any(|at| spins.contains(&at.stack))) {
            let others = sleeping.iter().filter(|&&other| other != task && application(other) == application(task));
            let depends = others.copied().filter(|&other| awaited.goes_on_after(moments, spins, other)).collect();
            awaited.sleepers.insert(task, depends);
        }
        awaited
    }

    /// The wait that a thread spins for at that time: of those that go on, the one that ends first.
    pub fn at(&self, task: TaskId, time_ns: i64) -> Option<u32> {
        let rows = self.sleepers.get(&task)?.iter().filter_map(|&other| self.during(other, time_ns));
        rows.min_by_key(|&row| (self.tables.waits[row as usize].end_ns, row))
    }

    /// Whether a thread works when a wait of `other` is over, and spins until the next one is: by then it has done what that let it
    /// do. One that spins for something else is as often at work early in these waits as late; one that was hardly seen at work
    /// waits for whatever ends.
    fn goes_on_after(&self, moments: &[&TimedSample], spins: &FxHashSet<StackId>, other: TaskId) -> bool {
        // Early and late: all samples, and those of work.
        let (mut all, mut work) = ([0.0; 2], [0.0; 2]);
        for moment in moments.iter().step_by(moments.len().div_ceil(LOOKED_AT).max(1)) {
            let Some(row) = self.during(other, moment.time_ns) else { continue };
            let wait = &self.tables.waits[row as usize];
            let late = usize::from(moment.time_ns - wait.begin_ns > wait.end_ns - moment.time_ns);
            all[late] += 1.0;
            work[late] += f64::from(u8::from(!spins.contains(&moment.stack)));
        }
        let [early, late] = all;
        if work[0] + work[1] < LEAST_WORK || early == 0.0 || late == 0.0 {
            return early + late > 0.0;
        }
        let part = (work[0] + work[1]) / (early + late);
        let error = (part * (1.0 - part) * (1.0 / early + 1.0 / late)).sqrt();
        work[0] / early - work[1] / late > ERRORS * error
    }

    fn during(&self, task: TaskId, time_ns: i64) -> Option<u32> {
        let (rows, waits) = (self.rows.get(task as usize)?, &self.tables.waits);
        let after = rows.partition_point(|&row| waits[row as usize].begin_ns <= time_ns);
        rows[..after].last().copied().filter(|&row| waits[row as usize].end_ns > time_ns)
    }
}
