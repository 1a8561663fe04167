use serde::{Deserialize, Serialize};

/// What a recording cost the program and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Time that the program's threads spent in the agent, on a CPU or waiting for the recorder, summed over them, ns. By
    /// samples and waits where stacks were recorded, else calls times their calibrated cost.
    pub agent_ns: i64,
    /// Of it by calibrated costs, for the agent's preparation of each process, by the wall clock, ns: more where others had the
    /// CPUs meanwhile. Not written.
    #[serde(skip)]
    pub setup_ns: i64,
    /// What timed calls cost by their calibrated cost, ns. Not written.
    #[serde(skip)]
    pub timed_ns: i64,
    /// The same in the kernel's programs, in interrupts for samples and for the agent's mappings, ns: events times their cost.
    pub kernel_ns: i64,
    /// CPU time of the recorder's own process, from its start until the profile was assembled, ns.
    pub recorder_ns: i64,
    /// Wall time until the program was started, ns.
    pub start_ns: i64,
    /// Wall time from the recording's end until the profile was written, ns.
    pub end_ns: i64,
    /// By how much all of it made the run longer than it would have been, 0.1 for a tenth: an estimate, in which time of
    /// the program's threads counts as if each had as much of it.
    pub share: f64,
}

impl Overhead {
    /// Sets `share` for a run of `wall_ns`, of which the program's own threads were slowed down by the share `recurring`.
    pub fn over(&mut self, wall_ns: i64, recurring: f64) {
        let own = wall_ns as f64 * (1.0 - recurring.clamp(0.0, 0.99));
        let whole = (wall_ns + self.start_ns + self.end_ns) as f64;
        self.share = if own > 0.0 { whole / own - 1.0 } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::Overhead;

    #[test]
    fn the_share_is_of_what_the_run_would_have_taken() {
        let mut overhead = Overhead { start_ns: 30, end_ns: 20, ..Overhead::default() };
        // 100 ns, of which 20 % are ours, and 50 more.
        overhead.over(100, 0.2);
        assert!((overhead.share - (150.0 / 80.0 - 1.0)).abs() < 1e-9);
        overhead.over(0, 0.0);
        assert_eq!(overhead.share, 0.0);
        overhead.over(100, 5.0);
        assert!(overhead.share.is_finite());
    }
}
