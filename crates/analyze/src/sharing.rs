//! How the scheduler shares CPUs among threads of which some may not run everywhere, or count for more than others.
//!
//! Each thread gets CPU time in proportion to its weight, as far as its CPUs have it, and no more than one CPU. Sets of CPUs may lie
//! in one another or apart, as `taskset` and pinning make them; of sets that overlap otherwise each is kept to, but not all together.

use rustc_hash::FxHashMap;
use transect_profile_model::{REAL_TIME, SchedTables, Task};

/// Groups of threads that are told apart; where there are more, all count alike and may run everywhere.
const MOST_GROUPS: usize = 16;
/// What each step of the nice value is worth, and how much a real-time thread counts for.
const NICE_STEP: f64 = 1.25;
const REAL_TIME_WEIGHT: f64 = 1e6;
/// The rate of a group that is not known yet.
const OPEN: f64 = -1.0;

/// CPUs that some threads may not leave.
#[derive(Debug, Clone, Default, PartialEq)]
struct Limit {
    cpus: f64,
    /// Groups of threads that may run nowhere else.
    groups: Vec<usize>,
    /// Its CPUs as the kernel lists them, and the number of these threads.
    list: String,
    threads: usize,
}

/// Who shares which CPUs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sharing {
    of_task: Vec<u16>,
    /// Of each group what one thread counts for.
    weights: Vec<f64>,
    /// The last is of all CPUs.
    limits: Vec<Limit>,
}

impl Sharing {
    /// All threads alike, on so many CPUs.
    pub fn even(cpus: i64) -> Self {
        let all = Limit { cpus: cpus.max(1) as f64, groups: vec![0], ..Limit::default() };
        Self { of_task: Vec::new(), weights: vec![1.0], limits: vec![all] }
    }

    pub fn new(tasks: &[Task], cpus: i64) -> Self {
        let even = Self::even(cpus);
        let mut sets: FxHashMap<&str, (Vec<u32>, usize)> = FxHashMap::default();
        for task in tasks {
            sets.entry(&task.allowed_cpus).or_insert_with(|| (parse(&task.allowed_cpus), 0)).1 += 1;
        }
        // A set that has a CPU for each of its threads, or all CPUs, keeps nobody from running.
        let within = |inner: &[u32], outer: &[u32]| !inner.is_empty() && inner.iter().all(|cpu| outer.contains(cpu));
        let crowded = |set: &&Vec<u32>| {
            let threads: usize =
                sets.values().filter(|(other, _)| within(other, set)).map(|(_, threads)| threads).sum();
            !set.is_empty() && (set.len() as i64) < cpus && threads > set.len()
        };
        let list = |wanted: &Vec<u32>| {
            sets.iter()
                .filter(|(_, (set, _))| set == wanted)
                .map(|(list, _)| *list)
                .min()
                .unwrap_or_default()
                .to_owned()
        };
        let mut limits: Vec<&Vec<u32>> = sets.values().map(|(set, _)| set).filter(crowded).collect();
        limits.sort_unstable();
        limits.dedup();
        if limits.len() >= MOST_GROUPS {
            return even;
        }
        let inside = |task: &Task| {
            let set = &sets[task.allowed_cpus.as_str()].0;
            limits
                .iter()
                .enumerate()
                .filter(|(_, limit)| within(set, limit))
                .fold(0_u32, |bits, (at, _)| bits | 1 << at)
        };
        let mut groups: Vec<(u32, i32)> = Vec::new();
        let mut of_task = Vec::with_capacity(tasks.len());
        for task in tasks {
            let key = (inside(task), task.nice);
            let found = groups.iter().position(|group| *group == key);
            of_task.push(found.unwrap_or(groups.len()) as u16);
            if found.is_none() {
                groups.push(key);
            }
            if groups.len() > MOST_GROUPS {
                return even;
            }
        }
        if groups.len() < 2 && limits.is_empty() {
            return even;
        }
        let mut limits: Vec<Limit> = limits
            .iter()
            .enumerate()
            .map(|(at, set)| Limit {
                cpus: set.len() as f64,
                groups: (0..groups.len()).filter(|&group| groups[group].0 >> at & 1 == 1).collect(),
                list: list(set),
                threads: tasks.iter().filter(|task| inside(task) >> at & 1 == 1).count(),
            })
            .collect();
        limits.push(Limit { cpus: cpus.max(1) as f64, groups: (0..groups.len()).collect(), ..Limit::default() });
        Self { of_task, weights: groups.iter().map(|&(_, nice)| weight(nice)).collect(), limits }
    }

    /// Whether all threads count alike and may run everywhere.
    pub fn is_even(&self) -> bool {
        self.weights.len() == 1 && self.limits.len() == 1
    }

    /// The same threads, where those that are pinned may use N times as many CPUs.
    pub fn unpinned(&self, times: f64) -> Self {
        let mut sharing = self.clone();
        if let Some((_, pinned)) = sharing.limits.split_last_mut() {
            pinned.iter_mut().for_each(|limit| limit.cpus *= times);
        }
        sharing
    }

    /// The same with N times as many CPUs.
    pub fn times(&self, times: f64) -> Self {
        let limit = |limit: &Limit| Limit { cpus: limit.cpus * times, ..limit.clone() };
        Self { limits: self.limits.iter().map(limit).collect(), ..self.clone() }
    }

    /// Whether some threads may not run where others do, and so have to share what is left.
    pub fn is_pinned(&self) -> bool {
        self.limits.len() > 1
    }

    /// The CPUs that most threads are pinned to, as the kernel lists them, and how many threads.
    pub fn most_pinned(&self) -> Option<(&str, usize)> {
        let pinned = self.limits.split_last().map_or(&[][..], |(_, pinned)| pinned);
        pinned.iter().map(|limit| (limit.list.as_str(), limit.threads)).max_by_key(|&(_, threads)| threads)
    }

    pub fn groups(&self) -> usize {
        self.weights.len()
    }

    pub fn group(&self, task: u32) -> usize {
        self.of_task.get(task as usize).map_or(0, |&group| usize::from(group))
    }

    /// Which part of a CPU each thread of a group gets while as many of each are active. Of groups without any it is what one
    /// would get at most.
    pub fn rates(&self, active: &[usize], rates: &mut [f64]) {
        if let ([rate], [n], [limit]) = (&mut *rates, active, &self.limits[..]) {
            *rate = if *n == 0 { 1.0 } else { (limit.cpus / *n as f64).min(1.0) };
            return;
        }
        for (rate, &n) in rates.iter_mut().zip(active) {
            *rate = if n == 0 { 1.0 } else { OPEN };
        }
        // All get more, by their weights, until somebody has a CPU of its own or some CPUs have no more; the others go on.
        loop {
            let open = |group: usize| rates[group] == OPEN;
            let one = |group: usize| (1.0 / self.weights[group], None);
            let ones = (0..rates.len()).filter(|&group| open(group)).map(one);
            let full = self.limits.iter().filter_map(|limit| {
                let sum = |counts: &dyn Fn(usize) -> f64| {
                    limit.groups.iter().map(|&group| active[group] as f64 * counts(group)).sum::<f64>()
                };
                let taken = sum(&|group| if open(group) { 0.0 } else { rates[group] });
                let wanted = sum(&|group| if open(group) { self.weights[group] } else { 0.0 });
                (wanted > 0.0).then(|| ((limit.cpus - taken).max(0.0) / wanted, Some(limit)))
            });
            let Some((level, limit)) = full.chain(ones).min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
            let closes = |group: usize| match limit {
                Some(limit) => limit.groups.contains(&group),
                None => level * self.weights[group] >= 1.0 - 1e-9,
            };
            let closed: Vec<usize> = (0..rates.len()).filter(|&group| open(group) && closes(group)).collect();
            for group in closed {
                rates[group] = (level * self.weights[group]).min(1.0);
            }
        }
    }

    /// For how long threads could have run and had no CPU because other threads of the program had theirs, ns, and for how long in
    /// spans of time of single threads.
    pub fn queued(&self, tables: &SchedTables, spans: &[Span]) -> (f64, Vec<f64>) {
        let mut edges: Vec<(i64, usize, i64)> = Vec::new();
        for (task, active) in active(tables).iter().enumerate() {
            let group = self.group(task as u32);
            edges.extend(active.iter().flat_map(|&(from, to)| [(from, group, 1), (to, group, -1)]));
        }
        edges.sort_unstable();
        let mut now = vec![0_usize; self.groups()];
        let mut rates = vec![1.0; self.groups()];
        let mut sum = 0.0;
        let (mut times, mut sums): (Vec<i64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        let mut each = vec![0.0; self.groups()];
        let mut before = None;
        for (at, group, change) in edges {
            if let Some(before) = before.filter(|&before| before < at) {
                self.rates(&now, &mut rates);
                for group in 0..now.len() {
                    let without = (at - before) as f64 * (1.0 - rates[group]);
                    sum += without * now[group] as f64;
                    each[group] += if now[group] > 0 { without } else { 0.0 };
                }
            }
            if before != Some(at) && !spans.is_empty() {
                times.push(at);
                sums.push(each.clone());
            }
            before = Some(at);
            now[group] = now[group].saturating_add_signed(change as isize);
        }
        let upto = |group: usize, at: i64| {
            let after = times.partition_point(|&time| time <= at);
            let Some(first) = after.checked_sub(1) else { return 0.0 };
            let Some(&next) = times.get(after) else { return sums[first][group] };
            let part = (at - times[first]) as f64 / (next - times[first]).max(1) as f64;
            sums[first][group] + (sums[after][group] - sums[first][group]) * part
        };
        let span = |&(task, (from, to)): &Span| upto(self.group(task), to) - upto(self.group(task), from);
        (sum, spans.iter().map(span).collect())
    }
}

/// A thread, from and to when.
pub(crate) type Span = (u32, (i64, i64));

/// When each thread was active, as far as its waits were seen one by one.
fn active(tables: &SchedTables) -> Vec<Vec<(i64, i64)>> {
    let mut active: Vec<Vec<(i64, i64)>> = tables.tasks.iter().map(|_| Vec::new()).collect();
    let mut since: Vec<i64> = tables.tasks.iter().map(|task| task.start_ns).collect();
    let mut waits: Vec<(u32, i64, i64)> =
        tables.waits.iter().filter(|wait| !wait.is_sum()).map(|wait| (wait.task, wait.begin_ns, wait.end_ns)).collect();
    waits.sort_unstable();
    for (task, begin, end) in waits {
        let Some(since) = since.get_mut(task as usize) else { continue };
        if begin > *since {
            active[task as usize].push((*since, begin));
        }
        *since = end.max(*since);
    }
    for ((active, since), task) in active.iter_mut().zip(since).zip(&tables.tasks) {
        if task.end_ns > since {
            active.push((since, task.end_ns));
        }
    }
    active
}

fn weight(nice: i32) -> f64 {
    if nice == REAL_TIME { REAL_TIME_WEIGHT } else { NICE_STEP.powi(-nice.clamp(-20, 19)) }
}

/// CPUs in a list of the kernel's.
fn parse(list: &str) -> Vec<u32> {
    /// More than any machine has: a damaged list does not take all memory.
    const MOST_CPUS: u32 = 8192;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(MOST_CPUS))
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(allowed_cpus: &str, nice: i32) -> Task {
        Task { allowed_cpus: allowed_cpus.into(), nice, ..Task::default() }
    }

    fn rates(tasks: &[Task], cpus: i64, which: &[usize]) -> Vec<f64> {
        let sharing = Sharing::new(tasks, cpus);
        let mut active = vec![0; sharing.groups()];
        which.iter().for_each(|&task| active[sharing.group(task as u32)] += 1);
        let mut rates = vec![0.0; sharing.groups()];
        sharing.rates(&active, &mut rates);
        which.iter().map(|&task| (rates[sharing.group(task as u32)] * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn threads_on_one_cpu_share_it_while_another_idles() {
        let pinned = [task("0", 0), task("0", 0), task("0-1", 0)];
        assert_eq!(rates(&pinned, 2, &[0, 1]), [0.5, 0.5]);
        assert_eq!(rates(&pinned, 2, &[0, 1, 2]), [0.5, 0.5, 1.0]);
        assert_eq!(rates(&pinned, 2, &[0, 2]), [1.0, 1.0]);
        assert!(Sharing::new(&[task("0", 0), task("1", 0)], 2).is_even(), "each has one");
        assert!(Sharing::new(&[task("", 0), task("", 0), task("0-1", 0)], 2).is_even());
        assert_eq!(
            rates(&[task("0-3", 0), task("0-3", 0), task("0", 0), task("0", 0)], 4, &[0, 1, 2, 3]),
            [1.0, 1.0, 0.5, 0.5]
        );
    }

    #[test]
    fn who_is_nice_gets_less_where_there_is_not_enough() {
        let mixed = [task("0", 19), task("0", 0), task("", 0)];
        let found = rates(&mixed, 2, &[0, 1, 2]);
        assert!(found[0] < 0.02 && found[1] > 0.98 && found[2] == 1.0, "{found:?}");
        assert_eq!(rates(&mixed, 2, &[0, 2]), [1.0, 1.0]);
        let real_time = rates(&[task("", REAL_TIME), task("", 0), task("", 0)], 2, &[0, 1, 2]);
        assert_eq!(real_time, [1.0, 0.5, 0.5]);
    }

    proptest! {
        /// No CPU does more than it can, nobody has more than one, and none idles while somebody who may use it lacks one.
        #[test]
        fn cpus_are_all_used_and_none_twice(
            threads in prop::collection::vec((0..4_usize, prop::sample::select(vec![-5, 0, 10, REAL_TIME])), 1..12),
        ) {
            let sets = ["0", "1", "0-1", "0-3"];
            let tasks: Vec<Task> = threads.iter().map(|&(set, nice)| task(sets[set], nice)).collect();
            let all: Vec<usize> = (0..tasks.len()).collect();
            let sharing = Sharing::new(&tasks, 4);
            let mut active = vec![0; sharing.groups()];
            all.iter().for_each(|&task| active[sharing.group(task as u32)] += 1);
            let mut rates = vec![0.0; sharing.groups()];
            sharing.rates(&active, &mut rates);
            let rate = |task: usize| rates[sharing.group(task as u32)];
            for (set, cpus) in [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0)] {
                let inside = |&task: &usize| threads[task].0 == set || set == 2 && threads[task].0 < 2 || set == 3;
                let used: f64 = all.iter().copied().filter(inside).map(rate).sum();
                prop_assert!(used <= cpus + 1e-6, "{used} of {cpus}");
            }
            let starved = all.iter().any(|&task| threads[task].0 == 3 && rate(task) < 1.0 - 1e-6);
            let used: f64 = all.iter().copied().map(rate).sum();
            prop_assert!(!starved || used > 4.0 - 1e-6);
            prop_assert!(all.iter().all(|&task| (0.0..=1.0).contains(&rate(task))));
        }
    }
}
