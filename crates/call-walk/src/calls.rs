//! Calls as a probe sees them: from one function that has code of its own to the next, whatever is inlined between.

use rustc_hash::FxHashMap;

use crate::{CallTree, Function, NodeId};

/// A caller and its callee.
pub(crate) type Call = (Function, Function);

/// What samples say of a call, over all paths to the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sampled {
    /// Time of the caller, in the tree's unit.
    pub caller: f64,
    /// Of it in the callee.
    pub callee: f64,
    /// Variance of the ratio of the two.
    pub variance: f64,
    /// Variance of the ratio over a time in the caller of 1 ns, by waits and preemptions that it may have in it or
    /// not, in ns.
    pub by_waits: f64,
    /// Samples in the caller.
    pub samples: u64,
    /// Paths to the caller.
    pub paths: usize,
    /// Frames were left out between the two (recursion): a probe would see something else.
    pub folded: bool,
}

impl Sampled {
    pub fn ratio(&self) -> f64 {
        if self.caller > 0.0 { self.callee / self.caller } else { 0.0 }
    }
}

/// The calls of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    /// By node: the node of its nearest caller that has code of its own.
    pub caller: Vec<Option<NodeId>>,
    /// By call.
    pub sampled: FxHashMap<Call, Sampled>,
}

impl Calls {
    pub fn of(tree: &CallTree) -> Self {
        let mut caller: Vec<Option<NodeId>> = Vec::with_capacity(tree.nodes.len());
        let mut functions: FxHashMap<Function, (f64, f64, f64, u64, usize)> = FxHashMap::default();
        let mut sampled: FxHashMap<Call, Sampled> = FxHashMap::default();
        for node in &tree.nodes {
            let physical = node.parent.and_then(|parent| match tree.node(parent).inlined {
                true => caller[parent as usize],
                false => Some(parent),
            });
            caller.push(physical);
            if node.inlined || node.total <= 0.0 {
                continue;
            }
            let sums = functions.entry(node.function).or_default();
            *sums = (
                sums.0 + node.total,
                sums.1 + node.variance,
                sums.2 + node.wait_squares,
                sums.3 + node.samples,
                sums.4 + 1,
            );
            if let Some(physical) = physical {
                let call = sampled.entry((tree.node(physical).function, node.function)).or_default();
                call.callee += node.total;
                call.variance += node.variance;
                call.by_waits += node.wait_squares;
                call.folded |= node.folded;
            }
        }
        for ((caller, _), call) in &mut sampled {
            let (total, variance, waits, samples, paths) = functions.get(caller).copied().unwrap_or_default();
            (call.caller, call.samples, call.paths) = (total, samples, paths);
            call.variance = ratio_variance(call.callee, call.variance, total, variance);
            let ratio = call.ratio();
            let others = (waits - call.by_waits).max(0.0);
            call.by_waits = ((1.0 - ratio).powi(2) * call.by_waits + ratio.powi(2) * others) / total;
        }
        Self { caller, sampled }
    }

    /// The call by which a node was reached.
    pub fn to(&self, tree: &CallTree, node: NodeId) -> Option<Call> {
        let caller = self.caller[node as usize].filter(|_| !tree.node(node).inlined)?;
        Some((tree.node(caller).function, tree.node(node).function))
    }

    /// Sampled ratio of a call, and its variance, below one path to its caller.
    pub fn below(&self, tree: &CallTree, caller: NodeId, callees: &[NodeId]) -> (f64, f64) {
        let (total, variance) = callees
            .iter()
            .map(|&id| tree.node(id))
            .fold((0.0, 0.0), |sums, node| (sums.0 + node.total, sums.1 + node.variance));
        let caller = tree.node(caller);
        (total / caller.total, ratio_variance(total, variance, caller.total, caller.variance))
    }
}

/// Variance of the ratio of a sampled total that is part of another one.
pub(crate) fn ratio_variance(part: f64, part_variance: f64, whole: f64, whole_variance: f64) -> f64 {
    if whole <= 0.0 {
        return 1.0;
    }
    let ratio = part / whole;
    (part_variance - ratio * ratio * whole_variance).max(0.0) / (whole * whole)
}
