//! Hot functions take turns: a probe that is switched off still costs its function a detour of two jumps, which short
//! functions called a hundred million times a second can't afford. Where the detours of all would exceed their part of
//! the budget, the hottest get their original bytes back and a probe only now and then.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::probe_session::SiteId;

/// What a detour costs, ticks: two taken jumps that the first-level branch target buffer does not hold.
const DETOUR_TICKS: f64 = 6.0;
/// Loads below this share of a CPU don't matter, not even ten thousand of them.
const NEGLIGIBLE: f64 = 2e-7;

/// What to change in the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Put the original bytes back.
    pub park: Vec<SiteId>,
    /// Put the jump back.
    pub recall: Vec<SiteId>,
}

/// Who has a probe at the moment, of those that are too hot to have one always.
#[derive(Debug, Default)]
pub struct Rotation {
    parked: HashSet<SiteId>,
    turns: VecDeque<SiteId>,
    allowance: f64,
}

impl Rotation {
    /// Whether the original bytes stand at the site for the time being.
    pub fn is_parked(&self, id: SiteId) -> bool {
        self.parked.contains(&id)
    }

    /// Decides for the next period. `rates`: calls per tick of the functions that are called at all; `budget`: share of
    /// a CPU that all detours together may take.
    pub fn turn(&mut self, rates: impl Iterator<Item = (SiteId, f64)>, budget: f64) -> Change {
        let mut loads: Vec<(SiteId, f64)> =
            rates.map(|(id, rate)| (id, rate * DETOUR_TICKS)).filter(|&(_, load)| load > NEGLIGIBLE).collect();
        loads.sort_by(|a, b| a.1.total_cmp(&b.1));
        // The lighter ones keep their probes, as many as half of the budget pays.
        let mut sum = 0.0;
        let light = loads.iter().take_while(|(_, load)| {
            sum += load;
            sum <= budget / 2.0
        });
        let heavy: HashMap<SiteId, f64> = loads[light.count()..].iter().copied().collect();
        let heavy = if loads.iter().map(|(_, load)| load).sum::<f64>() <= budget { HashMap::new() } else { heavy };
        self.turns.retain(|id| heavy.contains_key(id));
        let mut newcomers: Vec<SiteId> = heavy.keys().filter(|id| !self.turns.contains(id)).copied().collect();
        newcomers.sort_unstable();
        self.turns.extend(newcomers);

        // The heavy ones share the other half in turns: whoever is next waits until his load is saved up.
        self.allowance += budget / 2.0;
        let dearest = heavy.values().copied().fold(budget, f64::max);
        self.allowance = self.allowance.min(dearest);
        let mut chosen = HashSet::new();
        while let Some(&next) = self.turns.front() {
            let load = heavy[&next];
            if load > self.allowance || chosen.contains(&next) {
                break;
            }
            self.allowance -= load;
            chosen.insert(next);
            self.turns.rotate_left(1);
        }
        let mut change = Change::default();
        let parked: HashSet<SiteId> = heavy.keys().filter(|id| !chosen.contains(id)).copied().collect();
        change.park.extend(parked.difference(&self.parked));
        change.recall.extend(self.parked.difference(&parked));
        change.park.sort_unstable();
        change.recall.sort_unstable();
        self.parked = parked;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls per tick of a load.
    fn of_load(load: f64) -> f64 {
        load / DETOUR_TICKS
    }

    #[test]
    fn cool_functions_keep_their_probes() {
        let mut rotation = Rotation::default();
        for _ in 0..5 {
            let change = rotation.turn((0..100).map(|id| (id, of_load(0.0001))), 0.01);
            assert_eq!(change, Change::default());
        }
    }

    #[test]
    fn hot_functions_take_turns_within_the_budget() {
        let mut rotation = Rotation::default();
        let load = |id: SiteId| if id < 10 { 0.05 } else { 0.00001 };
        let mut installed = [0u32; 50];
        let (mut spent, turns) = (0.0, 1000);
        for turn in 0..turns {
            rotation.turn((0..50).map(|id| (id, of_load(load(id)))), 0.01);
            for id in 0..50 {
                if !rotation.is_parked(id) {
                    installed[id as usize] += 1;
                    spent += if turn == 0 { 0.0 } else { load(id) };
                }
            }
        }
        assert!(spent / f64::from(turns) <= 0.0101, "{}", spent / f64::from(turns));
        assert!(installed[10..].iter().all(|&n| n == turns));
        let (least, most) = (installed[..10].iter().min().unwrap(), installed[..10].iter().max().unwrap());
        assert!(*least > 5 && most - least <= 1, "{installed:?}");
    }

    #[test]
    fn a_function_that_cools_down_gets_its_probe_back() {
        let mut rotation = Rotation::default();
        rotation.turn([(0, of_load(0.9)), (1, of_load(0.9))].into_iter(), 0.01);
        assert!(rotation.is_parked(0) && rotation.is_parked(1));
        let change = rotation.turn([(0, 0.0), (1, of_load(0.9))].into_iter(), 0.01);
        assert_eq!(change.recall, [0]);
    }
}
