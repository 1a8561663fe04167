//! Shares of a tree's nodes from samples, exact totals and what was timed.

use std::collections::BTreeMap;

use transect_profile_model::ShareMethod;

use crate::{
    CallTree, Function, NodeId, Split, Unit,
    calls::{Calls, ratio_variance},
    evidence::{Ratio, Timings},
};

/// Standard deviations in half of a 95 % interval.
pub(crate) const HALF_INTERVAL: f64 = 1.96;
/// A path's sampled ratio may differ from that of all paths by so many standard deviations.
const SAME_PATHS: f64 = 3.0;

/// How much of its group's total a node has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// 0.0–1.0.
    pub share: f64,
    /// 95 % interval of it.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How it was measured.
    pub method: ShareMethod,
    /// The sampled share where the two differ by more than three standard deviations although it was timed twice.
    pub disputed: Option<f64>,
    /// Inclusive time, adjusted to what was timed.
    pub inclusive: Split,
    /// The same of the function itself.
    pub own: Split,
    /// `inclusive` in the tree's unit.
    pub total: f64,
    /// `own` in the tree's unit.
    pub own_total: f64,
}

/// How the times of a node change by what was timed.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Of its inclusive time.
    inclusive: f64,
    /// Of its own time and of callees that were not timed.
    rest: f64,
    /// Part of the adjusted inclusive time that goes to its own though samples never saw it there.
    own: f64,
    /// How it was timed.
    timed: Option<Ratio>,
}

/// Shares of all nodes. A timed call is a stratum like any other: what is below it is scaled to its exact part of the
/// caller's time, and what else is below the caller to the remainder. So callees never have more than their caller, and
/// the leaves still add up to the whole.
pub(crate) fn shares(tree: &CallTree, calls: &Calls, timings: &Timings) -> Vec<Share> {
    let scales = scales(tree, calls, timings);
    let mut shares: Vec<Share> =
        tree.nodes.iter().zip(&scales).map(|(node, scale)| own(tree.unit, node, scale)).collect();
    for id in (0..shares.len()).rev() {
        if let Some(parent) = tree.nodes[id].parent {
            let below = shares[id];
            let parent = &mut shares[parent as usize];
            parent.inclusive.add(&below.inclusive);
            parent.total += below.total;
        }
    }
    let mut variances: Vec<f64> = Vec::with_capacity(shares.len());
    // The nearest function that was timed, the node's own or above.
    let mut timed: Vec<Option<NodeId>> = Vec::with_capacity(shares.len());
    let whole = tree.total.max(f64::MIN_POSITIVE);
    for (id, node) in tree.nodes.iter().enumerate() {
        let above = node.parent.and_then(|parent| timed[parent as usize]);
        // Variance of a part of another node's time, from that of the ratio of the two.
        let within = |of: NodeId, ratio: f64, shares: &[Share]| {
            let of = of as usize;
            let part = shares[id].total / shares[of].total.max(f64::MIN_POSITIVE);
            (shares[of].total / whole).powi(2) * ratio + part * part * variances[of]
        };
        let variance = match (scales[id].timed.zip(calls.caller[id]), above) {
            (Some((ratio, caller)), _) => within(caller, ratio.variance, &shares),
            (None, Some(above)) => {
                let outer = tree.node(above);
                within(above, ratio_variance(node.total, node.variance, outer.total, outer.variance), &shares)
            }
            (None, None) => node.variance / (whole * whole),
        };
        variances.push(variance);
        timed.push(if scales[id].timed.is_some() { Some(id as NodeId) } else { above });
        let share = (shares[id].total / whole).min(1.0);
        let sampled = node.total / whole;
        let half = HALF_INTERVAL * variance.sqrt();
        let entry = &mut shares[id];
        (entry.share, entry.low, entry.high) = (share, (share - half).max(0.0), (share + half).min(1.0).max(share));
        (entry.method, entry.disputed) = match scales[id].timed {
            Some(ratio) => (ShareMethod::Exact, ratio.disputed.map(|_| sampled)),
            None if node.exact => (ShareMethod::SyscallExact, None),
            None => (ShareMethod::Sampled, None),
        };
    }
    shares
}

/// A node's own time as it is after scaling; the sums follow.
fn own(unit: Unit, node: &crate::Node, scale: &Scale) -> Share {
    let moved = node.inclusive.scaled(scale.inclusive * scale.own);
    let mut own = node.own.scaled(scale.rest);
    own.add(&moved);
    let own_total = match unit {
        Unit::Wall => own.wall_ns(),
        Unit::Cpu => own.on_ns,
        Unit::Weight => node.own_total * scale.rest,
    };
    let method = ShareMethod::Sampled;
    let (inclusive, total) = (own, own_total);
    Share { share: 0.0, low: 0.0, high: 0.0, method, disputed: None, inclusive, own, total, own_total }
}

fn scales(tree: &CallTree, calls: &Calls, timings: &Timings) -> Vec<Scale> {
    // Timed callees, by caller and function: with inlined functions between, one has several nodes.
    let mut callees: BTreeMap<NodeId, BTreeMap<Function, Vec<NodeId>>> = BTreeMap::new();
    for id in 0..tree.nodes.len() as NodeId {
        if let (Some(caller), Some(call)) = (calls.caller[id as usize], calls.to(tree, id))
            && timings.has(call)
            && tree.node(id).total > 0.0
        {
            callees.entry(caller).or_default().entry(call.1).or_default().push(id);
        }
    }
    let mut scales: Vec<Scale> = Vec::with_capacity(tree.nodes.len());
    let mut given: Vec<Option<(f64, Ratio)>> = vec![None; tree.nodes.len()];
    for (id, node) in tree.nodes.iter().enumerate() {
        let inherited = node.parent.map_or(1.0, |parent| scales[parent as usize].rest);
        let inclusive = given[id].map_or(inherited, |(scale, _)| scale);
        let mut scale = Scale { inclusive, rest: inclusive, own: 0.0, timed: given[id].map(|(_, ratio)| ratio) };
        let timed: Vec<(&Vec<NodeId>, Ratio, f64)> = callees
            .get(&(id as NodeId))
            .into_iter()
            .flatten()
            .filter_map(|(&function, nodes)| {
                let call = (node.function, function);
                let sampled = calls.sampled.get(&call)?;
                let ratio = timings.ratio(call, sampled.variance)?;
                let (here, variance) = calls.below(tree, id as NodeId, nodes);
                let differs = (here - sampled.ratio()).abs() > SAME_PATHS * (variance + sampled.variance).sqrt();
                (sampled.paths == 1 || !differs).then_some((nodes, ratio, here))
            })
            .collect();
        if !timed.is_empty() && node.total > 0.0 {
            let exact: f64 = timed.iter().map(|(_, ratio, _)| ratio.ratio).sum();
            let sampled: f64 = timed.iter().map(|(_, _, here)| here).sum();
            // Together they have no more than the caller.
            let fit = 1.0 / exact.max(1.0);
            for (nodes, ratio, here) in &timed {
                let factor = scale.inclusive * ratio.ratio * fit / here;
                nodes.iter().for_each(|&node| given[node as usize] = Some((factor, *ratio)));
            }
            let (left, seen) = (1.0 - exact * fit, 1.0 - sampled);
            if seen > 1e-9 {
                scale.rest = scale.inclusive * left / seen;
            } else {
                (scale.rest, scale.own) = (0.0, left);
            }
        }
        scales.push(scale);
    }
    scales
}
