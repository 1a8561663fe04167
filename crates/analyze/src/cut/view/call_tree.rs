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
    /// By function, and whether it is the kernel's; the remainder has none.
    below: BTreeMap<(Option<FunctionName>, bool), Node>,
}

/// Calls of the profile.
pub(super) fn call_tree(profile: &Profile, query: &CutQuery) -> Result<CallTree, CutError> {
    let (scope, sums) = by_stack(profile, query)?;
    let names = Names::new(profile);
    let reader = StackReader::new(profile, &names);
    let mut root = Node::default();
    for sum in sums {
        let frames = sum.stack.map(|stack| reader.frames(stack)).unwrap_or_default();
        let kernel: &[&str] = match sum.state {
            _ if frames.user.is_empty() && frames.kernel.is_empty() => &[],
            // Who waits for a CPU was merely interrupted in the kernel.
            State::Runnable => &[QUEUED],
            _ => &frames.kernel,
        };
        let user = frames.user.iter().map(|(_, frame)| (Some(reader.function_name(frame)), false));
        let kernel = kernel.iter().map(|function| (Some((*function).to_owned()), true));
        let mut path: Vec<(Option<FunctionName>, bool)> = user.chain(kernel).collect();
        if path.is_empty() {
            path.push((None, false));
        }
        let mut at = &mut root;
        for function in path {
            at = at.below.entry(function).or_default();
            at.total += sum.value;
        }
        at.own += sum.value;
    }
    Ok(CallTree { scope, roots: nodes(root) })
}

/// Children of a node, by total. It recurses as deep as the recorder keeps stacks: 127 frames.
fn nodes(of: Node) -> Vec<CallNode> {
    let node = |((function, kernel), node): ((Option<FunctionName>, bool), Node)| CallNode {
        function,
        kernel,
        total: node.total,
        own: node.own,
        children: nodes(node),
    };
    let mut nodes: Vec<CallNode> = of.below.into_iter().map(node).collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(node.total));
    nodes
}
