//! The joined call tree for a page: columns of numbers, names once.

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{Profile, Space, WalkNode};

use super::group;
use crate::Names;

/// Nodes beyond this many are left out of a tree, the smallest first: they are too narrow to be seen.
const MOST_NODES: usize = 30_000;

/// The joined call trees of all groups: one entry per node in each column, parents first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WalkTree {
    /// Texts that the columns refer to by number; the first is empty.
    pub texts: Vec<String>,
    /// Place of the node's group in [`WalkView::groups`](super::WalkView::groups).
    pub group: Vec<u32>,
    /// Row of the caller, -1 at a root.
    pub parent: Vec<i32>,
    /// Row in the profile's table of nodes, as [`WalkFrameRow::node`](super::WalkFrameRow::node).
    pub node: Vec<u32>,
    /// Function, in `texts`.
    pub function: Vec<u32>,
    /// Component, in `texts`; empty for the kernel and for code without a file.
    pub component: Vec<u32>,
    /// Source file, in `texts`.
    pub file: Vec<u32>,
    /// Line, 0 if unknown.
    pub line: Vec<i32>,
    /// 1 for the kernel, 2 for a user function that was inlined, else 0.
    pub kind: Vec<u8>,
    /// Part of the group's total, in the metric's unit.
    pub total: Vec<i64>,
    /// On CPU, ns.
    pub on_ns: Vec<i64>,
    /// Runnable, without a CPU, ns.
    pub runnable_ns: Vec<i64>,
    /// Blocked, ns.
    pub blocked_ns: Vec<i64>,
    /// Samples and waits.
    pub samples: Vec<i64>,
    /// Nodes left out.
    pub left_out: usize,
}

/// The tree of a profile's walk; empty without one.
pub fn walk_tree(profile: &Profile) -> WalkTree {
    let names = Names::new(profile);
    let nodes = &profile.walk.nodes;
    let mut place = vec![0_u32; profile.walk.groups.len()];
    for (at, id) in (0..).zip(group::order(profile)) {
        place[id as usize] = at;
    }
    let keep = kept(profile);
    let mut tree = WalkTree { texts: vec![String::new()], ..WalkTree::default() };
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    known.insert("", 0);
    let mut row_of = vec![-1; nodes.len()];
    for (id, node) in (0_u32..).zip(nodes) {
        if !keep[id as usize] {
            tree.left_out += 1;
            continue;
        }
        let mut text = |text| {
            *known.entry(text).or_insert_with(|| {
                tree.texts.push(text.to_owned());
                tree.texts.len() as u32 - 1
            })
        };
        let function = text(&node.function);
        let component = text(node.component.map_or("", |id| names.get(id)));
        let file = text(&node.file);
        row_of[id as usize] = tree.node.len() as i32;
        tree.group.push(place.get(node.group as usize).copied().unwrap_or(0));
        tree.parent.push(node.parent.map_or(-1, |parent| row_of[parent as usize]));
        tree.node.push(id);
        tree.function.push(function);
        tree.component.push(component);
        tree.file.push(file);
        tree.line.push(node.line);
        tree.kind.push(kind(node));
        tree.total.push(node.total);
        tree.on_ns.push(node.on_ns);
        tree.runnable_ns.push(node.runnable_ns);
        tree.blocked_ns.push(node.blocked_ns);
        tree.samples.push(node.samples);
    }
    tree
}

fn kind(node: &WalkNode) -> u8 {
    match node.space {
        Space::Kernel => 1,
        Space::User => 2 * u8::from(node.inlined),
    }
}

/// Which nodes are shown: the largest, with all their callers, and those of chains.
fn kept(profile: &Profile) -> Vec<bool> {
    let nodes = &profile.walk.nodes;
    if nodes.len() <= MOST_NODES {
        return vec![true; nodes.len()];
    }
    // A caller has at least the part of its callees: the border keeps it if it keeps them.
    let mut totals: Vec<i64> = nodes.iter().map(|node| node.total).collect();
    totals.sort_unstable_by_key(|&total| std::cmp::Reverse(total));
    let border = totals[MOST_NODES];
    let mut keep: Vec<bool> = nodes.iter().map(|node| node.total > border).collect();
    for frame in profile.walk.chains.iter().flat_map(|chain| &chain.frames) {
        if let Some(keep) = keep.get_mut(frame.node as usize) {
            *keep = true;
        }
    }
    for id in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[id].parent.filter(|_| keep[id]) {
            keep[parent as usize] = true;
        }
    }
    keep
}
