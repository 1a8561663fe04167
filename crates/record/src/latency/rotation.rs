//! Hot functions take turns: a probe that is switched off still costs its function a detour of two jumps, which short
//! functions called a hundred million times a second can't afford. Where the detours of all would exceed their part of
//! the budget, the hottest get their original bytes back, and a probe only for a visit now and then.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::probe_session::SiteId;

/// What a detour costs, ticks: two taken jumps that the first-level branch target buffer does not hold.
pub const DETOUR_TICKS: f64 = 6.0;
/// Loads below this share of a CPU don't matter, not even ten thousand of them.
const NEGLIGIBLE: f64 = 2e-7;

/// What to change in the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Too hot from now on: each is visited at once, for its probe is still there.
    pub park: Vec<SiteId>,
    /// Put the jump back for a visit.
    pub visit: Vec<SiteId>,
    /// Put the jump back for good.
    pub recall: Vec<SiteId>,
}

/// Who is too hot to have a probe always.
#[derive(Debug, Default)]
pub struct Rotation {
    parked: HashSet<SiteId>,
    turns: VecDeque<SiteId>,
    allowance: f64,
}

impl Rotation {
    /// Whether the original bytes stand at the site, but for visits.
    pub fn is_parked(&self, id: SiteId) -> bool {
        self.parked.contains(&id)
    }

    /// Decides for the next period. `rates`: calls per tick of the functions that are called at all; `budget`: share of
    /// a CPU that all detours together may take; `visit`: what a visit costs, as a multiple of a period's detours.
    pub fn turn(&mut self, rates: impl Iterator<Item = (SiteId, f64)>, budget: f64, visit: f64) -> Change {
        let mut loads: Vec<(SiteId, f64)> =
            rates.map(|(id, rate)| (id, rate * DETOUR_TICKS)).filter(|&(_, load)| load > NEGLIGIBLE).collect();
        loads.sort_by(|a, b| a.1.total_cmp(&b.1));
        // The lighter ones keep their probes, as many as half of the budget pays.
        let mut sum = 0.0;
        let light = loads.iter().take_while(|(_, load)| {
            sum += load;
            sum <= budget / 2.0
        });
        let heavy: HashMap<SiteId, f64> = loads[light.count()..].iter().map(|&(id, load)| (id, load * visit)).collect();
        let heavy = if loads.iter().map(|(_, load)| load).sum::<f64>() <= budget { HashMap::new() } else { heavy };
        self.turns.retain(|id| heavy.contains_key(id));
        let mut newcomers: Vec<SiteId> = heavy.keys().filter(|id| !self.parked.contains(id)).copied().collect();
        newcomers.sort_unstable();

        // The heavy ones share the other half in turns: whoever is next waits until his visit is saved up.
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
        self.turns.extend(&newcomers);
        let mut recall: Vec<SiteId> = self.parked.iter().filter(|id| !heavy.contains_key(id)).copied().collect();
        recall.sort_unstable();
        let mut visit: Vec<SiteId> = chosen.into_iter().collect();
        visit.sort_unstable();
        self.parked = heavy.into_keys().collect();
        Change { park: newcomers, visit, recall }
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
            let change = rotation.turn((0..100).map(|id| (id, of_load(0.0001))), 0.01, 1.0);
            assert_eq!(change, Change::default());
        }
    }

    #[test]
    fn hot_functions_take_turns_within_the_budget() {
        let load = |id: SiteId| if id < 10 { 0.05 } else { 0.00001 };
        for visit in [1.0, 0.3] {
            let mut rotation = Rotation::default();
            let mut visits = [0u32; 50];
            let (mut spent, turns) = (0.0, 1000);
            for turn in 0..turns {
                let change = rotation.turn((0..50).map(|id| (id, of_load(load(id)))), 0.01, visit);
                assert_eq!(change.park.len(), if turn == 0 { 10 } else { 0 });
                change.visit.iter().for_each(|&id| visits[id as usize] += 1);
                spent += change.visit.iter().map(|&id| visit * load(id)).sum::<f64>();
            }
            assert!(spent / f64::from(turns) <= 0.0101, "{}", spent / f64::from(turns));
            assert!((10..50).all(|id| visits[id as usize] == 0 && !rotation.is_parked(id)));
            let (least, most) = (visits[..10].iter().min().unwrap(), visits[..10].iter().max().unwrap());
            assert!(f64::from(*least) > 5.0 / visit && most - least <= 1, "{visits:?}");
        }
    }

    #[test]
    fn a_function_that_cools_down_gets_its_probe_back() {
        let mut rotation = Rotation::default();
        rotation.turn([(0, of_load(0.9)), (1, of_load(0.9))].into_iter(), 0.01, 1.0);
        assert!(rotation.is_parked(0) && rotation.is_parked(1));
        let change = rotation.turn([(0, 0.0), (1, of_load(0.9))].into_iter(), 0.01, 1.0);
        assert_eq!(change.recall, [0]);
    }
}
