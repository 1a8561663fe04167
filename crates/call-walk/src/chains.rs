//! What the search found: ways from a root down to where the time is.

use transect_profile_model::WalkEnd;

use crate::{CallTree, Function, NodeId, Share, Unit};

/// A way from a root down to where the search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// Share of the group's total that the last frame holds, 0.0–1.0.
    pub share: f64,
    /// Why it ends there.
    pub ends: WalkEnd,
    /// Its frames, root first; none with [`WalkEnd::NothingAboveThreshold`].
    pub frames: Vec<ChainFrame>,
}

/// One frame of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainFrame {
    /// The node.
    pub node: NodeId,
    /// Its share of the group's total.
    pub share: Share,
}

/// The chains of a tree, the largest share first; at least one, which may have no frames. Nodes that have no share, as they
/// came after the shares, are in none.
pub(crate) fn chains(tree: &CallTree, shares: &[Share], threshold: f64) -> Vec<Chain> {
    let callees = tree.callees();
    let mut found = Vec::new();
    let mut open: Vec<Vec<NodeId>> = Vec::new();
    let above = |of: &[NodeId]| -> Vec<NodeId> {
        let is_above = |&node: &NodeId| shares.get(node as usize).is_some_and(|share| share.share >= threshold);
        of.iter().copied().filter(is_above).collect()
    };
    open.extend(above(&callees[tree.nodes.len()]).into_iter().map(|root| vec![root]));
    while let Some(path) = open.pop() {
        let last = path[path.len() - 1];
        let next = above(&callees[last as usize]);
        if !next.is_empty() {
            open.extend(next.into_iter().map(|node| path.iter().copied().chain([node]).collect()));
            continue;
        }
        let end = &shares[last as usize];
        let waits = tree.unit == Unit::Wall && tree.node(last).waits_ns >= tree.node(last).inclusive.wall_ns() / 2.0;
        let ends = if waits {
            WalkEnd::Waiting
        } else if end.own_total >= (end.total / 2.0).min(threshold * tree.total) {
            WalkEnd::Function
        } else {
            WalkEnd::Spread
        };
        let frames = path.iter().map(|&node| ChainFrame { node, share: shares[node as usize] }).collect();
        found.push(Chain { share: shares[last as usize].share, ends, frames });
    }
    // `[unknown]` alone is nothing that was found.
    found.retain(|chain| chain.frames.iter().any(|frame| tree.node(frame.node).function != Function::Unknown));
    let end = |chain: &Chain| chain.frames.last().map(|frame| frame.node);
    found.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| end(a).cmp(&end(b))));
    if found.is_empty() {
        found.push(Chain { share: 0.0, ends: WalkEnd::NothingAboveThreshold, frames: Vec::new() });
    }
    found
}
