//! Time in the agent, by samples and waits.

use crate::displaced::own_ns;

/// What the agent took of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentTime {
    /// Summed over threads, ns.
    pub summed_ns: i64,
    /// Each instant shared by the threads that were active, and waits that held all of them up, ns: what the run took longer.
    pub wall_ns: i64,
    /// Of that in waits, ns.
    pub idle_ns: i64,
    /// Of the first two, where calls are counted.
    pub counting: (i64, i64),
    /// Samples in it.
    pub samples: i64,
}

/// So many samples in the agent tell its time to a fifth or so.
const LEAST_IN_AGENT: i64 = 30;
/// Of so many samples in all, few in the agent tell that it takes next to nothing.
const ENOUGH: i64 = 1000;

/// By this factor a timed call may cost more than in the calibration.
const UNLIKE_CALIBRATED: f64 = 3.0;

impl AgentTime {
    /// Whether samples tell better than the agent's own measures and the number of calls, `all` being those of the run.
    pub fn is_told(&self, all: i64) -> bool {
        self.samples >= LEAST_IN_AGENT || all >= ENOUGH
    }

    /// Without what the program would have waited for anyway: a CPU goes on with the program's own work while it counts,
    /// so of the samples there no more than the counting of all calls costs by itself, `cost_ns`.
    pub fn without_overlap(self, cost_ns: f64) -> Self {
        let (summed, wall) = self.counting;
        let overlap = 1.0 - (cost_ns / summed.max(1) as f64).min(1.0);
        let less = |all: i64, counting: i64| all - (counting as f64 * overlap) as i64;
        Self {
            summed_ns: less(self.summed_ns, summed),
            wall_ns: less(self.wall_ns, wall),
            counting: (less(summed, summed), less(wall, wall)),
            ..self
        }
    }

    /// The part of a run of `whole` ns by which it is longer, of which threads were active for `busy`: the agent's time, and what
    /// timed calls took of the program's own. `timed_ns` is what such calls cost, summed over threads: by their calibrated cost.
    pub fn share(&self, timed_ns: i64, busy: i64, whole: i64) -> f64 {
        let active = self.wall_ns - self.idle_ns;
        // In a program calls cost more than in a loop; the rest is the agent's work for processes and threads.
        let timed_part = UNLIKE_CALIBRATED * timed_ns as f64 / ((self.summed_ns - self.counting.0) as f64).max(1.0);
        let timed = (active - self.counting.1).max(0) as f64 * timed_part.min(1.0);
        let own = own_ns((busy - active).max(0) as f64, timed);
        ((busy + self.idle_ns) as f64 - own).max(0.0) / whole.max(1) as f64
    }
}

/// The time on CPUs of which work on a CPU takes the share by which it makes a run longer, ns: all that threads had, `running`,
/// if some were active all the time, and more as they were `busy` for less of the `whole`. What they wait for CPUs that others
/// have is as much longer as the work is.
pub(super) fn room_of_work(running: i64, busy: i64, whole: i64, wall: i64) -> f64 {
    if running <= 0 || busy <= 0 {
        return running.max(wall).max(1) as f64;
    }
    running as f64 * (whole as f64 / busy as f64)
}

#[cfg(test)]
mod tests {
    use super::{AgentTime, room_of_work};

    #[test]
    fn what_counting_hides_behind_the_programs_own_work_is_no_overhead() {
        let agent = AgentTime { summed_ns: 1500, wall_ns: 800, idle_ns: 0, counting: (1000, 500), samples: 0 };
        let less = agent.without_overlap(400.0);
        assert_eq!((less.summed_ns, less.wall_ns), (900, 500));
        // All of it, where counting costs more than was sampled, or nothing was.
        let all = agent.without_overlap(5000.0);
        assert_eq!((all.summed_ns, all.wall_ns), (1500, 800));
        let none = AgentTime { counting: (0, 0), ..agent }.without_overlap(0.0);
        assert_eq!((none.summed_ns, none.wall_ns), (1500, 800));
    }

    #[test]
    fn timed_calls_take_of_the_programs_own_time_too() {
        // In the agent for 700 ms of a second on a CPU, and half a second in which nobody was active, 20 ms of it for the recorder.
        let agent = AgentTime { summed_ns: 720, wall_ns: 720, idle_ns: 20, counting: (0, 0), samples: 700 };
        // All of it is preparation: the agent's time alone.
        assert!((agent.share(0, 1000, 1500) - 720.0 / 1500.0).abs() < 1e-9);
        // All of it is timed calls: more, and never what the program itself waited.
        let timed = agent.share(600, 1000, 1500);
        assert!(timed > 760.0 / 1500.0 && timed < 1020.0 / 1500.0, "{timed}");
        let nothing_else = AgentTime { wall_ns: 1020, summed_ns: 1020, ..agent };
        assert!((nothing_else.share(1000, 1000, 1500) - (1020.0 - 30.0) / 1500.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_run_has_too_few_samples_to_tell() {
        let agent = |samples| AgentTime { summed_ns: 0, wall_ns: 0, idle_ns: 0, counting: (0, 0), samples };
        assert!(!agent(3).is_told(40) && !agent(29).is_told(999));
        assert!(agent(30).is_told(100) && agent(0).is_told(1000));
    }

    #[test]
    fn work_takes_its_share_of_the_time_that_threads_were_active() {
        // One thread that computes, one that mostly waits, four at once; one that had a CPU for a third of the time, as others
        // had it: a third of its work is a third of its run.
        assert_eq!(room_of_work(100, 100, 100, 100), 100.0);
        assert_eq!(room_of_work(10, 10, 100, 100), 100.0);
        assert_eq!(room_of_work(400, 100, 100, 100), 400.0);
        assert_eq!(room_of_work(300, 900, 900, 900), 300.0);
        assert_eq!(room_of_work(0, 0, 0, 70), 70.0);
    }
}
