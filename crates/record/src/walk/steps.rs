//! What the search did, step by step, as rows of the profile and as they are shown while it runs.

use transect_call_walk::{NodeId, Step};
use transect_profile_model::{WalkGroup, WalkNode, WalkStep, WalkTables};

use super::state::WalkState;

/// A step as it happened.
#[derive(Debug, Clone)]
pub struct WalkProgress {
    /// The step; its numbers are those of `tables`.
    pub step: WalkStep,
    /// The group and the functions that it names.
    pub tables: WalkTables,
}

/// One decision and when it was made, ns since the recording's start.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub time_ns: i64,
    pub step: Step,
}

impl Decided {
    /// Its row, where the nodes of its tree begin at `first`.
    pub fn row(&self, group: u32, first: u32) -> WalkStep {
        WalkStep {
            time_ns: self.time_ns,
            group,
            parent: self.step.parent.unwrap_or(self.step.node) + first,
            node: self.step.node + first,
            share: self.step.share,
            method: self.step.method,
            followed: self.step.followed,
            note: self.step.note.clone(),
        }
    }

    /// As it is shown now.
    pub fn progress(&self, state: &WalkState) -> WalkProgress {
        let tree = &state.trees[self.step.group];
        let group = WalkGroup {
            process: 0,
            thread_group: tree.key.name.clone(),
            threads: 0,
            total: tree.tree.total as i64,
            on_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
        };
        let mut step = self.row(0, 0);
        let parent = self.step.parent.unwrap_or(self.step.node);
        let nodes = [parent, self.step.node].map(|id| node(state, self.step.group, id));
        (step.parent, step.node) = (0, 1);
        let tables = WalkTables { groups: vec![group], nodes: nodes.to_vec(), ..WalkTables::default() };
        WalkProgress { step, tables }
    }
}

fn node(state: &WalkState, group: usize, id: NodeId) -> WalkNode {
    let node = state.trees[group].tree.node(id);
    let (function, space) = state.frames.shown(node.function);
    WalkNode {
        group: 0,
        parent: None,
        function,
        component: None,
        space,
        inlined: node.inlined,
        file: String::new(),
        line: 0,
        address: None,
        total: node.total as i64,
        on_ns: 0,
        runnable_ns: 0,
        blocked_ns: 0,
        samples: 0,
    }
}
