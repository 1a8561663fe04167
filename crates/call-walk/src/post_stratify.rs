//! Post-stratification: what was seen is adjusted to the totals that are known exactly.

use std::collections::HashMap;

use crate::{
    CallTree, ExactTotals, Function, Node, Split, Stratum, Unit,
    observation::Seen,
    strata::{Division, Part, divide},
};

/// Of a system call's time: what is reached by other paths is less than anybody reads off a share.
const NEARLY_ALL: f64 = 0.99;

impl CallTree {
    /// Adjusts the tree to exact totals and computes all sums and their variances: afterwards the leaves add up to the
    /// exact whole. Nodes are only added. To be called after observations were added and before the tree is evaluated or
    /// shown; costs nothing where nothing changed.
    pub fn post_stratify(&mut self, exact: &ExactTotals) {
        if !self.observed && self.adjusted_to.as_ref() == Some(exact) {
            return;
        }
        (self.observed, self.adjusted_to) = (false, Some(exact.clone()));
        self.version += 1;
        let divisions = divide(self, exact);
        for node in &mut self.nodes {
            (node.own, node.own_total, node.samples) = (Split::default(), 0.0, 0);
            (node.waits_ns, node.variance, node.wait_squares) = (0.0, 0.0, 0.0);
        }
        for (&(_, node, ..), seen) in &self.seen {
            self.nodes[node as usize].samples += seen.count;
        }
        let mut inclusive = vec![Seen::default(); self.nodes.len()];
        for &(part, ref division) in &divisions {
            let counts = part.state().counts_in(self.unit);
            for (node, seen) in &division.cells {
                let amount = division.exact * seen.amount / division.seen.amount;
                let node = &mut self.nodes[*node as usize];
                node.own.add_to(part.state(), amount);
                node.waits_ns += if part.is_wait() { amount } else { 0.0 };
                node.own_total += if counts { amount } else { 0.0 };
            }
            if counts {
                self.add_variance(part, division, &mut inclusive);
            }
        }
        self.sum_up();
        self.mark_exact_system_calls(exact);
    }

    /// A system call reached by one path only has its exact time.
    fn mark_exact_system_calls(&mut self, exact: &ExactTotals) {
        let known = |number| exact.threads.values().any(|thread| thread.system_calls.contains_key(&number));
        let mut entries: HashMap<u32, Vec<usize>> = HashMap::new();
        for (id, node) in self.nodes.iter_mut().enumerate() {
            node.exact = false;
            if let Function::SystemCall { number } = node.function
                && node.stratum == Stratum::SystemCall(number)
                && self.unit != Unit::Weight
            {
                entries.entry(number).or_default().push(id);
            }
        }
        for ids in entries.into_iter().filter(|(number, _)| known(*number)).map(|(_, ids)| ids) {
            let all: f64 = ids.iter().map(|&id| self.nodes[id].total).sum();
            let most = ids.into_iter().find(|&id| self.nodes[id].total > NEARLY_ALL * all);
            most.into_iter().for_each(|id| self.nodes[id].exact = true);
        }
    }

    /// Adds the variance of each node's part of a stratum. `inclusive` is all zero, and left so.
    fn add_variance(&mut self, part: Part, division: &Division, inclusive: &mut [Seen]) {
        let mut touched = Vec::new();
        for (node, seen) in &division.cells {
            for above in self.ancestry(*node) {
                if inclusive[above as usize].count == 0 {
                    touched.push(above);
                }
                inclusive[above as usize].add(seen);
            }
        }
        // Samples stand for all the time between them; waits for themselves, and for those without a stack.
        let measured = if division.borrowed { 0.0 } else { division.measured };
        let unseen = (division.exact - measured).max(0.0);
        for node in touched {
            let seen = std::mem::take(&mut inclusive[node as usize]);
            let variance = ratio_variance(&seen, &division.seen);
            // Few and long: a window has some of them in it, or none.
            if matches!(part, Part::Blocked | Part::Preempted) {
                self.nodes[node as usize].wait_squares += seen.squares * division.exact / division.seen.amount;
            }
            // Nowhere is more of the unseen than all of it.
            self.nodes[node as usize].variance += (variance * unseen * division.exact).min(unseen * unseen / 4.0);
        }
    }

    /// Inclusive sums from own ones.
    fn sum_up(&mut self) {
        for node in &mut self.nodes {
            (node.inclusive, node.total) = (node.own, node.own_total);
        }
        (self.total, self.split) = (0.0, Split::default());
        for id in (0..self.nodes.len()).rev() {
            let Node { parent, inclusive, total, samples, waits_ns, .. } = self.nodes[id];
            match parent {
                Some(parent) => {
                    let parent = &mut self.nodes[parent as usize];
                    parent.inclusive.add(&inclusive);
                    parent.total += total;
                    parent.samples += samples;
                    parent.waits_ns += waits_ns;
                }
                None => {
                    self.split.add(&inclusive);
                    self.total += total;
                }
            }
        }
    }
}

/// Variance of the ratio of two sums of observations, one part of the other: that of a ratio estimator, with two
/// observations of mean weight added on either side (Agresti and Coull), so that few observations are never certain.
fn ratio_variance(part: &Seen, whole: &Seen) -> f64 {
    let mean = whole.amount / whole.count as f64;
    let amount = whole.amount + 4.0 * mean;
    let ratio = (part.amount + 2.0 * mean) / amount;
    let inside = part.squares + 2.0 * mean * mean;
    let outside = (whole.squares - part.squares).max(0.0) + 2.0 * mean * mean;
    ((1.0 - ratio).powi(2) * inside + ratio.powi(2) * outside) / (amount * amount)
}
