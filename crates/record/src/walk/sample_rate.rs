//! How often CPUs are sampled: an interrupt delays the program, in a virtual machine by 0.1 ms, most of which is not
//! ours. So samples come often only where few may be all that there will be.

use super::settings::WalkTarget;

/// How often CPUs are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleRate {
    /// Often in the first moments of a command, which may be its last; seldom once enough is known.
    Adaptive,
    /// Samples a second and CPU, always.
    Fixed(u32),
}

/// Samples a second and CPU of a command at first, and wherever samples are counted for other tables, too.
const OFTEN: u32 = 997;
/// Of a process that runs already: it will go on, and others wait for it.
const RUNNING: u32 = 249;
/// After so many samples a command is no longer short.
const LONG: u64 = 1000;
/// So many samples know a share of a quarter to 2 points.
const ENOUGH: u64 = 2000;
/// Beside other collectors the cost of samples is one among several: a share of a quarter is known to 5 points, then to 2. In
/// a virtual machine a timer's interrupt also wakes a CPU that idles until a server's next request: at 249
/// samples a second nginx is slower by a fifth, at 100 by some percent. The rate falls in two steps: samples ten times as
/// far apart count ten times as much, and a few of them would outweigh all before.
const BESIDE: [(u64, u32); 3] = [(2000, 2), (700, 5), (300, 2)];

/// The rate of one walk, as samples come in.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Number of samples, and the factor by which they come less often after that; the next step last.
    steps: Vec<(u64, u32)>,
}

impl SampleRate {
    /// Samples a second and CPU, to begin with. `counted`: tables made of the same samples count them.
    pub(super) fn first_hz(self, target: &WalkTarget, counted: bool) -> u32 {
        match (self, target) {
            (Self::Fixed(hz), _) => hz,
            (Self::Adaptive, WalkTarget::Running(_)) if !counted => RUNNING,
            (Self::Adaptive, _) => OFTEN,
        }
    }

    /// How it goes on. Where samples are `counted`, as it began.
    pub(super) fn rate(self, target: &WalkTarget, counted: bool) -> Rate {
        let steps = match (self, target) {
            _ if counted => vec![],
            (Self::Fixed(_), _) => vec![],
            (Self::Adaptive, WalkTarget::Running(_)) => vec![(ENOUGH, 5)],
            (Self::Adaptive, WalkTarget::Launch(_)) => vec![(ENOUGH, 5), (LONG, 4)],
        };
        Rate { steps }
    }
}

impl Rate {
    /// Of samples that every collector of a recording has.
    pub fn beside() -> Self {
        Self { steps: BESIDE.to_vec() }
    }

    /// How many times less often samples are to come from now on, of which there are so many; `None`: as they do.
    pub fn change(&mut self, samples: u64) -> Option<u32> {
        let mut times = None;
        while let Some(&(after, step)) = self.steps.last()
            && samples >= after
        {
            self.steps.pop();
            times = Some(times.unwrap_or(1) * step);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, SampleRate, WalkTarget};

    #[test]
    fn a_command_is_sampled_often_at_first_and_seldom_when_enough_is_known() {
        let command = WalkTarget::Launch(vec![]);
        assert_eq!(SampleRate::Adaptive.first_hz(&command, false), 997);
        let mut rate = SampleRate::Adaptive.rate(&command, false);
        let changes = [999, 1000, 1001, 1999, 2000, 5000].map(|samples| rate.change(samples));
        assert_eq!(changes, [None, Some(4), None, None, Some(5), None]);
        assert_eq!(SampleRate::Adaptive.rate(&command, false).change(10_000), Some(20));
    }

    #[test]
    fn beside_other_collectors_samples_are_few() {
        let mut rate = Rate::beside();
        let changes = [299, 300, 699, 700, 1999, 2000].map(|samples| rate.change(samples));
        assert_eq!(changes, [None, Some(2), None, Some(5), None, Some(2)]);
    }

    #[test]
    fn a_running_process_is_sampled_seldom_and_what_is_wanted_stays() {
        let running = WalkTarget::Running(1);
        assert_eq!(SampleRate::Adaptive.first_hz(&running, false), 249);
        assert_eq!(SampleRate::Adaptive.rate(&running, false).change(3000), Some(5));
        assert_eq!(SampleRate::Fixed(5000).first_hz(&running, false), 5000);
        assert_eq!(SampleRate::Fixed(5000).rate(&running, false).change(1_000_000), None);
        assert_eq!(SampleRate::Adaptive.first_hz(&running, true), 997);
        assert_eq!(SampleRate::Adaptive.rate(&running, true).change(1_000_000), None);
    }
}
