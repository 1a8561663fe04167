//! The tree of calls: a measure by stack, from the root down.

use std::collections::BTreeMap;

use serde::Serialize;
use transect_profile_model::Profile;

use super::super::stack_keys::{FunctionName, StackReader};
use super::super::stretch::State;
use super::super::{CutError, CutQuery, CutScope};
use super::by_stack::by_stack;
use crate::Names;

/// The node for time in which a thread could have run and had no CPU.
const QUEUED: &str = "runnable without a CPU";

/// A function as it was called from its parent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallNode {
    /// Its name; `null` for the remainder of which no stack is known.
    pub function: Option<String>,
    /// A function of the kernel.
    pub kernel: bool,
    /// In it and in what it called, in [`CutScope::unit`].
    pub total: i64,
    /// In it alone.
    #[serde(rename = "self")]
    pub own: i64,
    /// What it called, by total.
    pub children: Vec<CallNode>,
}

/// All calls from the roots of stacks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTree {
    /// What is summed up.
    #[serde(flatten)]
    pub scope: CutScope,
    /// Roots, by total.
    pub roots: Vec<CallNode>,
}

#[derive(Default)]
struct Node {
    total: i64,
    own: i64,
    below: BTreeMap<(FunctionName, bool), Node>,
}

/// Calls of the profile.
pub(super) fn call_tree(profile: &Profile, query: &CutQuery) -> Result<CallTree, CutError> {
    let (scope, sums) = by_stack(profile, query)?;
    let names = Names::new(profile);
    let reader = StackReader::new(profile, &names, false);
    let (mut root, mut without) = (Node::default(), 0);
    for sum in sums {
        let frames = sum.stack.map(|stack| reader.frames(stack)).unwrap_or_default();
        let user = frames.user.iter().map(|(_, frame)| (reader.function_name(frame), false));
        // Who waits for a CPU was merely interrupted in the kernel.
        let kernel: &[&str] = match sum.state {
            State::Runnable => &[QUEUED],
            _ => &frames.kernel,
        };
        let kernel = kernel.iter().map(|function| ((*function).to_owned(), true));
        let path: Vec<(FunctionName, bool)> = user.chain(kernel).collect();
        if frames.user.is_empty() && frames.kernel.is_empty() {
            without += sum.value;
            continue;
        }
        let mut at = &mut root;
        for function in path {
            at = at.below.entry(function).or_default();
            at.total += sum.value;
        }
        at.own += sum.value;
    }
    let mut roots = nodes(root);
    if without != 0 {
        let children = Vec::new();
        roots.push(CallNode { function: None, kernel: false, total: without, own: without, children });
        roots.sort_by_key(|node| std::cmp::Reverse(node.total));
    }
    Ok(CallTree { scope, roots })
}

/// Without recursion into deep stacks there is none of ours either: stacks have 127 frames at most.
fn nodes(of: Node) -> Vec<CallNode> {
    let node = |((function, kernel), node): ((FunctionName, bool), Node)| CallNode {
        function: Some(function),
        kernel,
        total: node.total,
        own: node.own,
        children: nodes(node),
    };
    let mut nodes: Vec<CallNode> = of.below.into_iter().map(node).collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.total));
    nodes
}
