//! How long locks were held by the calls that took them and gave them back, where these were recorded.

use rustc_hash::FxHashMap;
use transect_profile_model::{ProcessId, Profile, SchedTables};

/// An interval that reaches beyond the time by this factor.
const FAR: i64 = 4;
/// A wait longer than its lock's mean hold by this factor was for more than one hold.
const LONGER: i64 = 4;

/// The holds of one lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct HoldTime {
    /// All of them together, ns, and the ends of their 95 % interval.
    pub ns: i64,
    pub low_ns: i64,
    pub high_ns: i64,
    /// At least one.
    acquisitions: i64,
}

impl HoldTime {
    /// The time if it is known to half of it; else what is sure: a few holds without a CPU may stand for most of it.
    pub fn likely_ns(&self) -> i64 {
        if self.ns.saturating_sub(self.low_ns) <= self.ns / 2 { self.ns } else { self.low_ns }
    }

    /// The most that it was: where the interval reaches far beyond it, that is for long holds of which none was seen.
    pub fn most_ns(&self) -> i64 {
        if self.high_ns / FAR > self.ns { self.ns } else { self.high_ns }
    }

    /// Whether who held the lock when a wait of `ns` began may have done so to its end.
    pub fn may_last(&self, ns: i64) -> bool {
        ns / LONGER <= self.high_ns / self.acquisitions
    }
}

/// The holds of all locks, by process and name.
#[derive(Debug, Default)]
pub(super) struct HoldTimes<'a>(FxHashMap<(ProcessId, &'a str), HoldTime>);

impl<'a> HoldTimes<'a> {
    pub fn of(profile: &'a Profile) -> Self {
        let mut times: FxHashMap<(ProcessId, &str), HoldTime> = FxHashMap::default();
        for lock in &profile.locks {
            // The kind of the lock comes before its name.
            let Some((_, name)) = lock.object.split_once(' ') else { continue };
            let time = times.entry((lock.process, name)).or_default();
            time.ns = time.ns.saturating_add(lock.hold_ns);
            time.low_ns = time.low_ns.saturating_add(lock.hold_ns_low.unwrap_or(0));
            time.high_ns = time.high_ns.saturating_add(lock.hold_ns_high.unwrap_or(i64::MAX));
            time.acquisitions = time.acquisitions.saturating_add(lock.acquisitions);
        }
        times.retain(|_, time| time.ns > 0 && time.acquisitions > 0);
        Self(times)
    }

    /// Of the lock that a wait is for.
    pub fn waited_for(&self, tables: &SchedTables, row: usize) -> Option<HoldTime> {
        let wait = &tables.waits[row];
        let process = tables.tasks.get(wait.task as usize)?.process;
        self.0.get(&(process, &*wait.object)).copied()
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::Lock;

    use super::*;

    #[test]
    fn holds_of_all_paths_to_a_lock_are_one() {
        let lock = |path: &str, acquisitions, hold_ns, high| Lock {
            process: 0,
            object: "mutex 0x10 (m)".into(),
            path: path.into(),
            acquisitions,
            contended: 0,
            wait_ns: 0,
            hold_ns,
            hold_ns_low: Some(0),
            hold_ns_high: high,
        };
        let mut profile = crate::synthetic::empty();
        profile.locks = vec![lock("a", 10, 1_000, Some(2_000)), lock("b", 30, 5_000, Some(6_000))];
        let time = HoldTimes::of(&profile).0[&(0, "0x10 (m)")];
        assert_eq!((time.ns, time.low_ns, time.high_ns), (6_000, 0, 8_000));
        assert_eq!(time.likely_ns(), 0);
        assert_eq!((time.most_ns(), HoldTime { high_ns: 90_000, ..time }.most_ns()), (8_000, 6_000));
        assert_eq!(HoldTime { low_ns: 3_000, ..time }.likely_ns(), 6_000);
        assert!(time.may_last(800) && !time.may_last(900));
        profile.locks.iter_mut().for_each(|lock| lock.hold_ns_high = None);
        assert!(HoldTimes::of(&profile).0[&(0, "0x10 (m)")].may_last(1_000_000));
    }
}
