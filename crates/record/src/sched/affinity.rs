//! CPUs that the threads followed may run on: P.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use transect_bpf_collect::record::{sched_task, task_event};
use transect_profile_model::REAL_TIME;

/// Programs pin their threads as they start, so these are looked at again soon, then ever more seldom.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Of more threads the first ones stand for all.
const MAX_THREADS: usize = 4096;

/// Where each live thread may run, cgroups' limits included, and how many CPUs that is in all.
#[derive(Debug)]
pub struct Affinities {
    threads: HashMap<u32, (Pid, CpuSet)>,
    cpus: u32,
    /// Since when; until the first thread is seen it does not count.
    since: Option<Instant>,
    /// For how long P was what.
    held: BTreeMap<u32, Duration>,
    next_look: Instant,
    pause: Duration,
    changed: bool,
}

impl Affinities {
    /// None yet; P is this until a thread is seen.
    pub fn new(cpus: u32) -> Self {
        let now = Instant::now();
        Self {
            threads: HashMap::default(),
            cpus,
            since: None,
            held: BTreeMap::new(),
            next_look: now + FIRST_LOOK,
            pause: FIRST_LOOK,
            changed: false,
        }
    }

    /// A thread came, changed or went.
    pub fn see(&mut self, record: &sched_task) {
        if record.event == task_event::EXIT {
            self.threads.remove(&record.task);
        } else if self.threads.len() < MAX_THREADS || self.threads.contains_key(&record.task) {
            let Some(thread) = Pid::from_raw(record.tid) else { return };
            // One that has ended by now was too short to tell anything.
            let Ok(set) = sched_getaffinity(Some(thread)) else { return };
            self.threads.insert(record.task, (thread, set));
        }
        self.changed = true;
    }

    /// P, if it has changed since the last call.
    pub fn changed(&mut self) -> Option<u32> {
        let now = Instant::now();
        if now >= self.next_look {
            self.pause = (self.pause * 2).min(LAST_LOOK);
            self.next_look = now + self.pause;
            for (thread, set) in self.threads.values_mut() {
                *set = sched_getaffinity(Some(*thread)).unwrap_or(*set);
            }
            self.changed = true;
        }
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        if !self.threads.is_empty() && self.since.is_none() {
            self.since = Some(now);
        }
        let union = union(self.threads.values().map(|(_, set)| *set)).filter(|cpus| *cpus != self.cpus)?;
        if let Some(since) = self.since.replace(now) {
            *self.held.entry(self.cpus).or_default() += now - since;
        }
        self.cpus = union;
        Some(union)
    }

    /// What P was for the longest time.
    pub fn usual(&self) -> u32 {
        let mut held = self.held.clone();
        if let Some(since) = self.since {
            *held.entry(self.cpus).or_default() += since.elapsed();
        }
        held.into_iter().max_by_key(|(_, time)| *time).map_or(self.cpus, |(cpus, _)| cpus)
    }
}

/// CPUs that a thread may use, as the kernel lists them; empty if not all of them are known. Behind those of the machine a mask of
/// the kernel's holds anything: so many as are allowed count.
pub fn allowed_cpus(record: &sched_task) -> String {
    let bits =
        |(place, word): (u32, u64)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place * 64 + bit);
    let cpus: Vec<u32> = (0..).zip(record.allowed).flat_map(bits).take(record.allowed_count as usize).collect();
    if cpus.len() < record.allowed_count as usize {
        return String::new();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut().filter(|(_, last)| *last + 1 == cpu) {
            Some((_, last)) => *last = cpu,
            None => ranges.push((cpu, cpu)),
        }
    }
    let range = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// A thread's nice value, or that it is a real-time one; 0 if unknown.
pub fn nice(record: &sched_task) -> i32 {
    match record.priority {
        _ if record.allowed_count == 0 => 0,
        priority @ 100..140 => priority - 120,
        _ => REAL_TIME,
    }
}

/// Writes down where a thread that lives may run, and how much it counts beside others.
pub fn place(task: &mut sched_task) {
    let Some(set) = Pid::from_raw(task.tid).and_then(|tid| sched_getaffinity(Some(tid)).ok()) else { return };
    let Some(priority) = priority(task.tid) else { return };
    for (place, word) in task.allowed.iter_mut().enumerate() {
        *word = (0..64).filter(|bit| set.is_set(place * 64 + bit)).fold(0, |word, bit| word | 1 << bit);
    }
    (task.allowed_count, task.priority) = (set.count(), priority);
}

/// See [`sched_task::priority`].
fn priority(tid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The name may hold anything; after it the priority is the sixteenth field.
    let priority: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(15)?.parse().ok()?;
    Some(priority + 100)
}

/// CPUs in any of the sets; `None` without sets.
fn union(sets: impl Iterator<Item = CpuSet>) -> Option<u32> {
    let mut all = CpuSet::new();
    let mut last = None;
    for set in sets.filter(|set| set.count() > 0) {
        // Most threads may run where the others may.
        if last.replace(set) == Some(set) {
            continue;
        }
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).for_each(|cpu| all.set(cpu));
    }
    last.map(|_| all.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        set
    }

    #[test]
    fn cpus_are_counted_once() {
        assert_eq!(union([set(&[0]), set(&[0]), set(&[0, 3])].into_iter()), Some(2));
        assert_eq!(union([set(&[1]), set(&[2])].into_iter()), Some(2), "threads that are pinned apart");
        assert_eq!(union(std::iter::empty()), None);
    }

    #[test]
    fn cpus_are_listed_as_the_kernel_does_and_only_if_all_are_known() {
        let task =
            |allowed, allowed_count, priority| sched_task { allowed, allowed_count, priority, ..Default::default() };
        let some = task([0b1_0000_1111, 1, 0, 1 << 63], 7, 135);
        assert_eq!((allowed_cpus(&some).as_str(), nice(&some)), ("0-3,8,64,255", 15));
        assert_eq!(allowed_cpus(&task([u64::MAX; 4], 300, 120)), "", "the machine has more than are told");
        assert_eq!(allowed_cpus(&task([2, u64::MAX, 0, 0], 1, 120)), "1", "a machine of less than 64 CPUs");
        assert_eq!(nice(&task([1, 0, 0, 0], 1, 49)), REAL_TIME);
        assert_eq!(nice(&task([0; 4], 0, 0)), 0, "unknown");
        let mut own = sched_task { tid: rustix::thread::gettid().as_raw_nonzero().get(), ..Default::default() };
        place(&mut own);
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let listed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        assert_eq!(allowed_cpus(&own), listed);
    }

    #[test]
    fn a_thread_tells_where_it_may_run() {
        let mut affinities = Affinities::new(1000);
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        affinities.see(&sched_task { task: 1, tid: own, event: task_event::SEEDED, ..Default::default() });
        let here = sched_getaffinity(None).unwrap().count();
        assert_eq!(affinities.changed(), Some(here));
        assert_eq!(affinities.changed(), None);
        affinities.see(&sched_task { task: 1, tid: own, event: task_event::EXIT, ..Default::default() });
        assert_eq!(affinities.changed(), None, "what was known is kept when all have ended");
    }
}
