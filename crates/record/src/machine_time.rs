//! What all of the machine's CPUs did during a recording (proc_stat(5)): how long they worked, for whomever, and how
//! long they had work while the host of the virtual machine gave them to others (`steal`). The program stands still in
//! steal time, and no event says so: a thread's CPU clock leaves that time out, times from switch to switch have it.
//! And what the recorder itself took of them, before, during and after the run, and whom the kernel killed for want of memory.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use transect_profile_model::{Loss, LossKind, Meta, Profile};

use crate::memory_kills::KillCounts;

/// Of the time in which the CPUs had work: less is not worth a word.
const LEAST_SHARE: f64 = 0.01;
/// The kernel counts in ticks of 10 ms.
const LEAST_MS: u64 = 30;

/// Sums since the machine began, ticks.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

/// The machine's counts at the start of a recording.
#[derive(Debug)]
pub struct MachineTime {
    start: Option<Ticks>,
    begun_unix_ns: i64,
    kills: KillCounts,
}

impl MachineTime {
    /// Counts from now on; what this process has done up to now is part of its cost.
    pub fn watch() -> Self {
        Self { start: now(), begun_unix_ns: unix_ns() - age_ns(), kills: KillCounts::now() }
    }

    /// Notes in a profile what was recorded since then: the recorder's own cost; how long CPUs worked, and what was stolen
    /// if it is more than a little, if the kernel tells.
    pub fn note(&self, profile: &mut Profile) {
        self.note_overhead(&mut profile.meta);
        profile.meta.memory_kills = self.kills.since(&KillCounts::now());
        let Some((start, end)) = self.start.zip(now()) else { return };
        let (busy, stolen) = (end.busy.saturating_sub(start.busy), end.stolen.saturating_sub(start.stolen));
        let ms = |ticks: u64| ticks * 1000 / rustix::param::clock_ticks_per_second();
        profile.meta.machine_busy_ns = Some(ms(busy) as i64 * 1_000_000);
        profile.loss.extend(row(ms(stolen), stolen as f64 / (busy + stolen) as f64));
    }

    /// The profile has been written: that took its time, too.
    pub fn written(&self, meta: &mut Meta) {
        self.note_overhead(meta);
    }

    fn note_overhead(&self, meta: &mut Meta) {
        // What was running has a command too, but its end is not ours to know.
        let launched = !meta.command.is_empty() && meta.exit_status.is_some();
        let overhead = meta.overhead.get_or_insert_default();
        overhead.recorder_ns = own_ns();
        // Nobody waits for the recorder where it comes to a process that runs.
        if launched {
            overhead.start_ns = (meta.started_unix_ns - self.begun_unix_ns).max(0);
            overhead.end_ns = (unix_ns() - meta.started_unix_ns - meta.wall_ns).max(0);
        }
        overhead.over(meta.wall_ns, meta.overhead_estimate);
    }
}

fn row(stolen_ms: u64, share: f64) -> Option<Loss> {
    (stolen_ms >= LEAST_MS && share >= LEAST_SHARE).then(|| Loss {
        what: LossKind::StealTime,
        place: "all CPUs".to_owned(),
        count: stolen_ms as i64,
        reason: format!(
            "the host gave them to others for {:.1} % of the time in which they had work: everything took longer, and \
             times on a CPU have it",
            share * 100.0
        ),
    })
}

/// How long this process has lived. The kernel knows to within a tick when it was started.
fn age_ns() -> i64 {
    let by_kernel = || -> Option<i64> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let started: i64 = rest.split(' ').nth(19)?.parse().ok()?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second() as i64;
        let now = clock_gettime(ClockId::Boottime);
        Some(now.tv_sec * 1_000_000_000 + now.tv_nsec - started * tick_ns - tick_ns / 2)
    };
    by_kernel().unwrap_or(0).max(own_ns())
}

/// CPU time of this process.
fn own_ns() -> i64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    own.tv_sec * 1_000_000_000 + own.tv_nsec
}

fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}

fn now() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// `cpu user nice system idle iowait irq softirq steal …`; a guest's own time is in `user` and `nice`.
fn parse(stat: &str) -> Option<Ticks> {
    let ticks: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, stolen, ..] = ticks[..] else { return None };
    Some(Ticks { busy: user + nice + system + irq + softirq, stolen })
}

#[cfg(test)]
mod tests {
    use super::{age_ns, parse, row};

    #[test]
    fn the_kernels_line_is_read() {
        let ticks = parse("cpu  100 20 30 4000 500 6 7 80 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n").unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (163, 80));
        assert!(parse("cpu  1 2 3 4\n").is_none() && parse("").is_none() && parse("intr 1 2\n").is_none());
    }

    #[test]
    fn a_process_knows_how_long_it_has_lived() {
        let asleep = std::time::Duration::from_millis(50);
        let before = age_ns();
        std::thread::sleep(asleep);
        let passed = age_ns() - before;
        // Its start is known to within a tick, and its CPU time may be more than the rest of that.
        let tick = 10_000_000;
        let least = asleep.as_nanos() as i64 - tick;
        assert!(before >= 0 && passed >= least && before < 600_000_000_000, "{before} {passed}");
    }

    #[test]
    fn little_is_not_told() {
        assert_eq!(row(1000, 0.009), None);
        assert_eq!(row(20, 0.5), None);
        let told = row(1230, 0.184).unwrap();
        assert_eq!(told.count, 1230);
        assert!(told.reason.contains("18.4 %"), "{}", told.reason);
    }
}
