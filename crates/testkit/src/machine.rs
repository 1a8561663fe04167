//! How quiet the machine was while something was measured, and verdicts that take it into account.

use std::fmt;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shares of the machine's CPU time above which a measurement that is off says nothing about what is tested.
const OTHERS: f64 = 0.10;
const STEAL: f64 = 0.02;
/// The same for a known amount of work against the best time seen.
const SPIN: f64 = 1.15;
/// How long one process waits in all for the machine to become quiet, and how long between two runs.
const PATIENCE: Duration = Duration::from_secs(20);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Runs that are off on a quiet machine fail a test; so many on a busy one leave it without a verdict.
const OFF_QUIET: usize = 3;
const OFF_BUSY: usize = 4;

/// What others did to the machine from the creation of this value until [`Watch::stop`].
pub struct Watch {
    all: u64,
    busy: u64,
    stolen: u64,
    own: u64,
    spin: f64,
}

/// Shares of the CPU time that others had, that the host of a virtual machine stole, and the slow-down of known work.
pub struct Disturbance {
    others: f64,
    steal: f64,
    spin: f64,
}

impl Watch {
    /// Begins to watch.
    pub fn start() -> Watch {
        let spin = spin_ratio();
        let (all, busy, stolen) = ticks();
        Watch { all, busy, stolen, own: own_ticks(), spin }
    }

    /// What happened since.
    pub fn stop(self) -> Disturbance {
        let (all, busy, stolen) = ticks();
        // The kernel's sums may go back by a tick.
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let whole = since(all, self.all).max(1) as f64;
        let others = since(since(busy, self.busy), since(own_ticks(), self.own)) as f64 / whole;
        Disturbance { others, steal: since(stolen, self.stolen) as f64 / whole, spin: self.spin.max(spin_ratio()) }
    }
}

impl Disturbance {
    /// Whether a measurement that is off meanwhile is what is tested being wrong.
    pub fn quiet(&self) -> bool {
        self.others <= OTHERS && self.steal <= STEAL && self.spin <= SPIN
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "others {:.0} %, steal {:.1} %, spin x{:.2}", self.others * 100.0, self.steal * 100.0, self.spin)
    }
}

/// Judges what others at work on the machine can put off. `attempt` panics at what is wrong whatever the machine does, and
/// returns what is off.
///
/// The first run decides if it is right. Else runs go on until three on a quiet machine are off or enough are right; those
/// that are off on a busy one count for nothing, and after four of them the line `NOT JUDGED: name: …` says so.
///
/// # Panics
/// With what was off, if three runs on a quiet machine were.
pub fn judged(name: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let (mut right, mut off, mut busy) = (0, Vec::new(), Vec::new());
    loop {
        let watch = Watch::start();
        let outcome = attempt();
        let disturbance = watch.stop();
        match outcome {
            Ok(()) => right += 1,
            Err(what) if disturbance.quiet() => off.push(format!("{what} ({disturbance})")),
            Err(what) => {
                println!("{name}: off on a busy machine ({disturbance}): {what}");
                busy.push(disturbance.to_string());
            }
        }
        if right > 0 && (off.is_empty() || right >= OFF_QUIET) {
            return;
        }
        assert!(
            off.len() < OFF_QUIET,
            "{name}: off in {} of {} runs on a quiet machine: {}",
            off.len(),
            off.len() + right,
            off.join("; ")
        );
        if busy.len() >= OFF_BUSY {
            println!("NOT JUDGED: {name}: the machine was never quiet: {}", busy.join(", then "));
            return;
        }
        await_quiet();
    }
}

/// Waits until half a second passes in which the machine is quiet, as long as this process has patience left.
fn await_quiet() {
    static SPENT: Mutex<Duration> = Mutex::new(Duration::ZERO);
    let mut spent = SPENT.lock().unwrap_or_else(PoisonError::into_inner);
    let end = *spent + LONGEST_WAIT.min(PATIENCE.saturating_sub(*spent));
    while *spent < end {
        let (begin, watch) = (Instant::now(), Watch::start());
        std::thread::sleep(Duration::from_millis(500));
        let quiet = watch.stop().quiet();
        *spent += begin.elapsed();
        if quiet {
            return;
        }
    }
}

/// (all, busy, stolen) ticks of all CPUs since boot; stolen ones are not busy ones.
fn ticks() -> (u64, u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> =
        stat.lines().next().unwrap_or("").split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let busy = field(0) + field(1) + field(2) + field(5) + field(6);
    (busy + field(3) + field(4) + field(7), busy, field(7))
}

/// Ticks that this process and those of its children that ended have used.
fn own_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before the fields may hold anything; the third field is the first after it.
    let rest = stat.rsplit_once(')').map_or("", |parts| parts.1);
    rest.split_whitespace().skip(11).take(4).map(|word| word.parse::<u64>().unwrap_or(0)).sum()
}

/// Time of a fixed amount of work, the median of five, against the shortest that this process has seen.
fn spin_ratio() -> f64 {
    static BEST: Mutex<Option<f64>> = Mutex::new(None);
    let mut best = BEST.lock().unwrap_or_else(PoisonError::into_inner);
    let before = best.unwrap_or_else(|| (0..5).map(|_| spin()).fold(f64::INFINITY, f64::min));
    let now = spin();
    *best = Some(before.min(now));
    now / before.min(now)
}

fn spin() -> f64 {
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            let mut state = 1_u64;
            for _ in 0..200_000 {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            black_box(state);
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_right_runs_once() {
        let runs = Cell::new(0);
        judged("right", || {
            runs.set(runs.get() + 1);
            Ok(())
        });
        assert_eq!(runs.get(), 1);
    }

    /// On a quiet machine it fails, on a busy one it has no verdict; in neither case does it run for ever.
    #[test]
    fn what_is_always_off_ends() {
        let runs = Cell::new(0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judged("off", || {
                runs.set(runs.get() + 1);
                Err("off".to_owned())
            });
        }));
        assert!(outcome.is_err() || runs.get() >= OFF_BUSY);
        assert!((OFF_QUIET..OFF_QUIET + OFF_BUSY).contains(&runs.get()), "{}", runs.get());
    }

    #[test]
    #[should_panic(expected = "wrong")]
    fn what_is_wrong_is_wrong_at_once() {
        judged("wrong", || panic!("wrong"));
    }
}
