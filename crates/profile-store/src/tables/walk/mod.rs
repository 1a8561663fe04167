//! Tables of a walk.

pub(crate) mod chains;
pub(crate) mod frames;
pub(crate) mod groups;
pub(crate) mod nodes;
pub(crate) mod steps;
pub(crate) mod system_calls;

use transect_profile_model::{Profile, WalkGroup, WalkGroupId, WalkNode, WalkNodeId};

pub(crate) const GROUPS: &str = "walk_groups";
pub(crate) const NODES: &str = "walk_nodes";
pub(crate) const CHAINS: &str = "walk_chains";
pub(crate) const FRAMES: &str = "walk_frames";
pub(crate) const STEPS: &str = "walk_steps";
pub(crate) const SYSTEM_CALLS: &str = "walk_system_calls";

fn group(profile: &Profile, id: WalkGroupId) -> &WalkGroup {
    &profile.walk.groups[id as usize]
}

/// Process id of a group.
fn pid(profile: &Profile, id: WalkGroupId) -> i32 {
    profile.processes[group(profile, id).process as usize].pid
}

fn function(profile: &Profile, id: WalkNodeId) -> &str {
    &profile.walk.nodes[id as usize].function
}

/// What is wrong with a node's place in its tree, if anything.
fn misplaced(nodes: &[WalkNode], row: usize) -> Option<&'static str> {
    let parent = nodes[row].parent? as usize;
    if parent >= row {
        return Some("does not come after its parent");
    }
    (nodes[parent].group != nodes[row].group).then_some("is in another group than its parent")
}

/// First row that contradicts others, in words.
pub(crate) fn malformed(profile: &Profile) -> Option<String> {
    let walk = &profile.walk;
    let process = |id: u32| (id as usize) < profile.processes.len();
    let component = |id: u32| (id as usize) < profile.components.len();
    let group = |id: u32| (id as usize) < walk.groups.len();
    let node = |id: u32| (id as usize) < walk.nodes.len();
    let find = |table: &str, bad: Option<usize>| bad.map(|row| format!("{table} row {row} points to a missing row"));
    find(GROUPS, walk.groups.iter().position(|g| !process(g.process)))
        .or_else(|| {
            let missing = |n: &WalkNode| !(group(n.group) && n.component.is_none_or(component));
            find(NODES, walk.nodes.iter().position(missing))
        })
        .or_else(|| {
            let wrong = |row: usize| Some(format!("{NODES} row {row} {}", misplaced(&walk.nodes, row)?));
            (0..walk.nodes.len()).find_map(wrong)
        })
        .or_else(|| {
            let wrong = |id: u32, group: WalkGroupId| !node(id) || walk.nodes[id as usize].group != group;
            let bad =
                walk.chains.iter().position(|c| !group(c.group) || c.frames.iter().any(|f| wrong(f.node, c.group)));
            bad.map(|row| format!("{CHAINS} row {row} points to a missing group, or to a node outside of it"))
        })
        .or_else(|| find(STEPS, walk.steps.iter().position(|s| !(group(s.group) && node(s.parent) && node(s.node)))))
        .or_else(|| find(SYSTEM_CALLS, walk.system_calls.iter().position(|s| !group(s.group))))
}
