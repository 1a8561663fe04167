//! How much less each thread takes for what others wait for: its own work, and what it waits for itself in turn. In a row of queues
//! whoever fills the first one waits for the slow stage at the end through all that stand between.

/// Times that savings are handed on from thread to thread.
const ROUNDS: usize = 8;

/// What a thread does in a stretch while it waits for no other one, ns, and how much of that is saved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Doing {
    pub whole: f64,
    pub saved: f64,
}

impl Doing {
    pub fn add(&mut self, whole: f64, saved: f64) {
        self.whole += whole;
        self.saved += saved;
    }

    fn part(self) -> f64 {
        if self.whole > 0.0 { (self.saved / self.whole).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Who waits for whom, and how long, ns; in order of both.
pub(super) type WaitedFor = Vec<(u32, u32, f64)>;

/// How long `waiter` waits for `other`.
fn between(waited: &[(u32, u32, f64)], waiter: u32, other: u32) -> f64 {
    let first = waited.partition_point(|&(one, two, _)| (one, two) < (waiter, other));
    waited[first..].iter().take_while(|&&(one, two, _)| (one, two) == (waiter, other)).map(|(.., ns)| ns).sum()
}

/// What all threads do, with what they wait for.
pub(super) struct Chain<'a> {
    own: Vec<Doing>,
    waited: [&'a [(u32, u32, f64)]; 2],
    /// With the waits, ...
    all: Vec<Doing>,
    /// ... of which each thread's are shorter by the part that the other one saves.
    parts: Vec<f64>,
}

impl<'a> Chain<'a> {
    /// `single`: waits that were seen one by one; `summed`: those whose savings are asked for.
    pub fn new(own: Vec<Doing>, single: &'a WaitedFor, summed: &'a WaitedFor) -> Self {
        let mut chain = Self { all: own.clone(), parts: Vec::new(), own, waited: [single, summed] };
        for _ in 0..if summed.is_empty() { 0 } else { ROUNDS } {
            chain.hand_on();
        }
        chain
    }

    fn hand_on(&mut self) {
        self.parts = self.all.iter().map(|doing| doing.part()).collect();
        self.all.clone_from(&self.own);
        for &(waiter, other, ns) in self.waited.into_iter().flatten() {
            // A damaged table may name a thread that is not there.
            let part = self.parts.get(other as usize).copied().unwrap_or(0.0);
            if let Some(doing) = self.all.get_mut(waiter as usize) {
                doing.add(ns, ns * part);
            }
        }
    }

    /// Part that a thread saves of the time for which `waiter` waits for it: it does not wait for that one meanwhile.
    pub fn saved(&self, waiter: u32, other: u32) -> f64 {
        let Some(&all) = self.all.get(other as usize) else { return 0.0 };
        let back = self.waited.iter().map(|waited| between(waited, other, waiter)).sum::<f64>();
        let part = self.parts.get(waiter as usize).copied().unwrap_or(0.0);
        let less = Doing { whole: all.whole - back, saved: all.saved - back * part };
        if less.whole > 0.0 { less.part() } else { self.own[other as usize].part() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_slow_stage_through_others_gains_with_it() {
        // The first fills a queue that the second empties into the queue of the third, which works all the time.
        let doing = |whole, saved| Doing { whole, saved };
        let own = vec![doing(1.0, 0.0), doing(10.0, 0.0), doing(100.0, 90.0)];
        let (single, summed) = (vec![(1, 2, 90.0)], vec![(0, 1, 99.0)]);
        let chain = Chain::new(own, &single, &summed);
        assert!((chain.saved(1, 2) - 0.9).abs() < 1e-9);
        assert!((chain.saved(0, 1) - 0.81).abs() < 1e-9, "{}", chain.saved(0, 1));
        assert_eq!(chain.saved(0, 7), 0.0);
    }

    #[test]
    fn who_is_waited_for_does_not_wait_for_the_waiter() {
        let own = vec![Doing::default(), Doing { whole: 10.0, saved: 5.0 }];
        let (single, summed) = (vec![(1, 0, 30.0)], vec![(0, 1, 10.0)]);
        assert!((Chain::new(own, &single, &summed).saved(0, 1) - 0.5).abs() < 1e-9);
    }
}
