//! How much of a run its threads could have run and did not, since others had the CPUs.

use serde::Serialize;
use transect_profile_model::{LossKind, Profile};

use crate::totals::scheduled;

/// What other programs, and the host of a virtual machine, took of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Contention {
    /// Part of the elapsed time in which threads had no CPU for that reason, 0.0–1.0.
    pub of_run: f64,
    /// Whether so much of the run that savings are a rough guess.
    pub much: bool,
    /// Part of all the time that threads were runnable without a CPU, 0.0–1.0: the rest is their own number.
    #[serde(skip)]
    pub of_queue: f64,
}

/// Part of the run from which on savings are a rough guess: beside two busy loops on two CPUs runs of one program differed by
/// half.
const MUCH: f64 = 0.25;

impl Contention {
    pub(super) fn of(profile: &Profile) -> Self {
        let Some((times, session)) = scheduled(profile).zip(profile.meta.criticality.as_ref()) else {
            return Self::default();
        };
        let part = |part: i64, whole: i64| if whole > 0 { (part as f64 / whole as f64).clamp(0.0, 1.0) } else { 0.0 };
        let stolen = |loss: &&transect_profile_model::Loss| loss.what == LossKind::StealTime;
        let stolen_ns: i64 = profile.loss.iter().filter(stolen).map(|loss| loss.count * 1_000_000).sum();
        let stolen = part(stolen_ns, stolen_ns + profile.meta.machine_busy_ns.unwrap_or(0));
        let others = part(times.others_ns, times.on_cpu_ns + times.runnable_ns);
        let busy = part(session.busy_ns, session.busy_ns + session.idle_ns);
        // What is stolen stretches the time on a CPU.
        let lost = others + (1.0 - others) * stolen;
        let of_run = lost * busy;
        Self { of_run, much: of_run >= MUCH, of_queue: part(times.others_ns, times.runnable_ns) }
    }
}
