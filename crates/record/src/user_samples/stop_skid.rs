//! Stops that came late. A thread that is asked to stop while it runs the program's own code stops when the interrupt
//! reaches its CPU; on a virtual machine that takes tens of microseconds, and a system call that begins meanwhile ends
//! first. The stop is then found in that call, which gets time that it did not take.
//!
//! Samples tell how many stops should have met the program's own code, caller by caller. What is missing there was met in
//! calls that the same callers made, and is taken off those, from the innermost caller outwards.

use rustc_hash::FxHashMap as HashMap;

use crate::sched::place::PlaceId;

/// Number of a chain of callers in [`Callers`]; 0 is the empty one.
pub(super) type Chain = usize;

/// One chain of callers: a node of their tree.
#[derive(Debug, Default)]
struct Node {
    parent: Chain,
    /// Stops that the program's own code should have got here, and did not. Below 0: got beyond that.
    missing: f64,
    /// Stops in system calls.
    in_calls: f64,
    /// What is left of those, as a share: of its own, and with all of its callers'.
    left: f64,
}

/// Chains of callers and the stops that met them.
#[derive(Debug)]
pub(super) struct Callers {
    /// A caller always stands before those that it calls.
    nodes: Vec<Node>,
    children: HashMap<(Chain, PlaceId), Chain>,
}

impl Callers {
    /// Only the empty chain.
    pub fn new() -> Self {
        Self { nodes: vec![Node::default()], children: HashMap::default() }
    }

    /// The chain of these callers, innermost first.
    pub fn chain(&mut self, callers: &[PlaceId]) -> Chain {
        callers.iter().rev().fold(0, |parent, &caller| {
            *self.children.entry((parent, caller)).or_insert_with(|| {
                self.nodes.push(Node { parent, ..Node::default() });
                self.nodes.len() - 1
            })
        })
    }

    /// So many more stops should have met the program's own code.
    pub fn misses(&mut self, chain: Chain, stops: f64) {
        self.nodes[chain].missing += stops;
    }

    /// So many stops met a system call.
    pub fn met_in_call(&mut self, chain: Chain, stops: f64) {
        self.nodes[chain].in_calls += stops;
    }

    /// By chain: the share of its stops in system calls that did not come late. `None` if all did: then nothing is known.
    pub fn in_time(mut self) -> Option<Vec<f64>> {
        for at in (0..self.nodes.len()).rev() {
            let Node { parent, missing, in_calls, .. } = self.nodes[at];
            let late = missing.clamp(0.0, in_calls);
            self.nodes[at].left = if in_calls > 0.0 { 1.0 - late / in_calls } else { 1.0 };
            if at > 0 {
                self.nodes[parent].missing += missing - late;
                self.nodes[parent].in_calls += in_calls - late;
            } else if in_calls - late <= 0.0 {
                return None;
            }
        }
        for at in 1..self.nodes.len() {
            self.nodes[at].left *= self.nodes[self.nodes[at].parent].left;
        }
        Some(self.nodes.into_iter().map(|node| node.left).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `main` calls one function that computes and asks for the time now and then, and one that only reads.
    #[test]
    fn late_stops_are_taken_off_the_calls_of_who_computes() {
        let (main, clock, read) = (1, 2, 3);
        let mut callers = Callers::new();
        let computes = callers.chain(&[main]);
        let asks = callers.chain(&[clock, main]);
        let reads = callers.chain(&[read, 9]);
        // 60 of 100 stops should have met the computing; 20 did.
        callers.misses(computes, 40.0);
        callers.met_in_call(asks, 41.0);
        callers.met_in_call(reads, 39.0);
        let left = callers.in_time().unwrap();
        assert!((left[asks] - 1.0 / 41.0).abs() < 1e-9 && (left[reads] - 1.0).abs() < 1e-9, "{left:?}");
    }

    /// What the innermost caller's calls do not hold is taken off its callers'; what it got too many of counts there, too.
    #[test]
    fn what_is_left_over_goes_outwards() {
        let mut callers = Callers::new();
        let outer = callers.chain(&[1]);
        let inner = callers.chain(&[2, 1]);
        let other = callers.chain(&[3, 1]);
        callers.misses(inner, 15.0);
        callers.met_in_call(inner, 10.0);
        callers.misses(other, -2.0);
        callers.met_in_call(other, 12.0);
        callers.met_in_call(outer, 0.0);
        let left = callers.in_time().unwrap();
        assert!(left[inner].abs() < 1e-9, "{left:?}");
        // 15 - 10 - 2 of 12.
        assert!((left[other] - 9.0 / 12.0).abs() < 1e-9, "{left:?}");
    }

    #[test]
    fn all_late_tells_nothing() {
        let mut callers = Callers::new();
        callers.misses(0, 5.0);
        callers.met_in_call(0, 5.0);
        assert!(callers.in_time().is_none());
    }
}
