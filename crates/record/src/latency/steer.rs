//! How many calls each probe may sample per epoch: as many as are asked for, or as an overhead budget pays.

use std::collections::VecDeque;

use transect_profile_model::LatencySampling;

/// Most samples granted at once under a budget, but for functions of which it is known that they come quickly: more would leave
/// a probe switched on for long when calls slow down.
pub const MOST: u32 = 100;
/// Samples that are worth a switching on and off, if the budget allows only some probes an epoch: they cost this much
/// more, ...
const WORTHWHILE: f64 = 2.0;
/// ... but are this many at most.
const ENOUGH: f64 = 80.0;
/// Samples at the first switching on: programs that run for milliseconds have no second.
const FIRST: u32 = 32;
/// An allowance saved up for longer than this many epochs is dropped, but for that of one switching on: it would be spent
/// in one burst.
const SAVED_EPOCHS: f64 = 4.0;

/// Costs in ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// One timed call: what it adds to the call.
    pub sample: f64,
    /// Switching a probe on and off again, the disturbance of whoever executes it included.
    pub arming: f64,
}

/// Decides who is switched on again. Probes that used up their grant queue; the budget serves them in turn, so that
/// each function gets its share however many there are.
#[derive(Debug)]
pub struct Steering {
    sampling: LatencySampling,
    costs: Costs,
    /// Probes, and the most samples of each.
    waiting: VecDeque<(u32, u32)>,
    allowance: f64,
}

impl Steering {
    /// Nobody waits yet.
    pub fn new(sampling: LatencySampling, costs: Costs) -> Self {
        Self { sampling, costs, waiting: VecDeque::new(), allowance: 0.0 }
    }

    /// Samples for a probe that is switched on for the first time.
    pub fn first_grant(&self) -> u32 {
        match self.sampling {
            LatencySampling::Fixed { sample_size } => sample_size,
            LatencySampling::Budget { .. } => FIRST,
        }
    }

    /// One epoch: these probes have switched themselves off, each with the most samples that it may have next; the
    /// program has used `busy_ticks` of CPU time since the last epoch. Calls `arm(probe, samples)` for each that is to be switched on.
    pub fn epoch(&mut self, off: impl IntoIterator<Item = (u32, u32)>, busy_ticks: f64, mut arm: impl FnMut(u32, u32)) {
        self.waiting.extend(off);
        match self.sampling {
            LatencySampling::Fixed { sample_size } => {
                self.waiting.drain(..).for_each(|(probe, _)| arm(probe, sample_size));
            }
            LatencySampling::Budget { share } => {
                let gained = share * busy_ticks;
                let fewest = (WORTHWHILE * self.costs.arming / self.costs.sample.max(1.0)).clamp(1.0, ENOUGH).floor();
                let least = self.costs.arming + fewest * self.costs.sample;
                self.allowance = (self.allowance + gained).min((gained * SAVED_EPOCHS).max(least));
                while let Some(&(probe, most)) = self.waiting.front() {
                    if self.allowance < least {
                        break;
                    }
                    let share = self.allowance / self.waiting.len() as f64;
                    let samples =
                        ((share - self.costs.arming) / self.costs.sample).clamp(fewest, f64::from(most).max(fewest));
                    self.waiting.pop_front();
                    arm(probe, samples as u32);
                    self.allowance -= self.costs.arming + samples.floor() * self.costs.sample;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { sample: 100.0, arming: 400.0 };

    fn run(steering: &mut Steering, probes: u32, busy: f64, epochs: u32) -> (Vec<u32>, f64) {
        let mut granted = vec![0; probes as usize];
        let mut off: Vec<u32> = (0..probes).collect();
        let mut spent = 0.0;
        for _ in 0..epochs {
            let mut on = Vec::new();
            steering.epoch(off.drain(..).map(|probe| (probe, MOST)), busy, |probe, samples| {
                granted[probe as usize] += samples;
                spent += COSTS.arming + f64::from(samples) * COSTS.sample;
                on.push(probe);
            });
            // Hot functions: every probe that was switched on has used its grant by the next epoch.
            off = on;
        }
        (granted, spent)
    }

    #[test]
    fn a_fixed_size_serves_everybody_every_epoch() {
        let mut steering = Steering::new(LatencySampling::Fixed { sample_size: 10 }, COSTS);
        assert_eq!(run(&mut steering, 50, 0.0, 7).0, vec![70; 50]);
    }

    #[test]
    fn a_budget_is_kept_and_shared_by_turns() {
        for probes in [1, 3, 40, 1_000, 20_000] {
            let mut steering = Steering::new(LatencySampling::Budget { share: 0.02 }, COSTS);
            let (granted, spent) = run(&mut steering, probes, 21e6, 200);
            let budget = 0.02 * 21e6 * 200.0;
            assert!(spent <= budget * 1.001, "{probes}: {spent} of {budget}");
            // A few functions can't use it all; many do.
            assert!(probes < 40 || spent > budget * 0.9, "{probes}: {spent} of {budget}");
            let (least, most) = (granted.iter().min().unwrap(), granted.iter().max().unwrap());
            assert!(most - least <= MOST.max(most / 5), "{probes}: {least} to {most}");
        }
    }

    #[test]
    fn a_program_that_hardly_runs_is_sampled_now_and_then() {
        // Dear samples, and a thousandth of the CPU: each probe has its turn, within the budget.
        let mut steering =
            Steering::new(LatencySampling::Budget { share: 0.01 }, Costs { sample: 3_000.0, arming: 2_750.0 });
        let (mut armed, mut spent) = (0, 0.0);
        steering.epoch((0..5).map(|probe| (probe, MOST)), 0.0, |_, _| ());
        for _ in 0..10_000 {
            steering.epoch([], 20_000.0, |_, samples| {
                armed += 1;
                spent += 2_750.0 + f64::from(samples) * 3_000.0;
            });
        }
        assert_eq!(armed, 5);
        assert!(spent <= 0.01 * 20_000.0 * 10_000.0);
    }

    #[test]
    fn an_idle_program_saves_up_no_burst() {
        let mut steering = Steering::new(LatencySampling::Budget { share: 0.02 }, COSTS);
        steering.epoch([], 1e12, |_, _| ());
        for _ in 0..10 {
            steering.epoch([], 0.0, |_, _| ());
        }
        let mut spent = 0.0;
        steering.epoch((0..10_000).map(|probe| (probe, MOST)), 1e6, |_, samples| {
            spent += 400.0 + 100.0 * f64::from(samples)
        });
        assert!(spent <= 0.02 * 1e6 * SAVED_EPOCHS);
    }
}
