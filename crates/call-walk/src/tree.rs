//! The joined call tree of one thread group, from stacks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::ExactTotals;
use crate::observation::{Observation, Seen, Split, State, Stratum, Unit};

/// Row number in [`CallTree::nodes`]; it does not change while a walk runs.
pub type NodeId = u32;

/// A function by its code, not by name: two of one name are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// A function of the program: the component's number (the caller's own) and its start in the file's addresses.
    User {
        /// Component.
        component: u32,
        /// Virtual address of its first instruction in the object, before relocation.
        address: u64,
    },
    /// A function of the kernel by its address.
    Kernel {
        /// Address.
        address: u64,
    },
    /// A system call by its number: it stands for the entry code and `__x64_sys_…`.
    SystemCall {
        /// Number.
        number: u32,
    },
    /// The page fault's entry, and interrupts'.
    Exception {
        /// Address of the entry in the kernel.
        address: u64,
    },
    /// Code of which only a name is known (a JIT's, or an inlined function); the caller's own number.
    Other {
        /// Number.
        number: u32,
    },
    /// `[unknown]`: the root of time of which no stack was seen.
    Unknown,
}

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub function: Function,
    /// Inlined into the frame before it.
    pub inlined: bool,
}

/// One function as it was reached by one call path.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The caller; `None` at a root. Smaller than the node's own number.
    pub parent: Option<NodeId>,
    /// What it is.
    pub function: Function,
    /// Inlined into its caller: it can't be timed by itself.
    pub inlined: bool,
    /// Re-entries of functions further up were left out above it: its real caller is one of them.
    pub folded: bool,
    /// Whose exact total it is part of.
    pub stratum: Stratum,
    /// A system call that was reached by this path only (but for 1 % of its time): its time is known exactly.
    pub exact: bool,
    /// Time in the function itself, adjusted to the exact totals.
    pub own: Split,
    /// Time in it and in what it calls, adjusted.
    pub inclusive: Split,
    /// `own` in the tree's unit.
    pub own_total: f64,
    /// `inclusive` in the tree's unit.
    pub total: f64,
    /// Of `inclusive`: blocked, and runnable right after it, ns.
    pub waits_ns: f64,
    /// Samples and waits seen in it and below.
    pub samples: u64,
    /// Variance of `total` by sampling, in the unit squared.
    pub variance: f64,
    /// Sum of the squares of the waits and preemptions in it, ns².
    pub(crate) wait_squares: f64,
}

/// The tree of one thread group, as far as it is known.
///
/// A function appears once on a path, where it was entered first: frames that re-enter a function further up (direct or
/// mutual recursion) are left out, so that a chain is finite, each node's time is that of its function's outermost
/// call, and no child has more than its parent.
#[derive(Debug, Clone, Default)]
pub struct CallTree {
    /// What totals count.
    pub unit: Unit,
    /// The whole of which shares are taken, in the unit; set by [`CallTree::post_stratify`].
    pub total: f64,
    /// The same by what the threads did.
    pub split: Split,
    /// Nodes, parents first.
    pub nodes: Vec<Node>,
    children: FxHashMap<(Option<NodeId>, Function), NodeId>,
    /// By thread, node, state, and whose exact total holds it.
    pub(crate) seen: BTreeMap<(u32, NodeId, State, Stratum), Seen>,
    /// Something was observed since the sums were computed.
    pub(crate) observed: bool,
    /// The totals that they were adjusted to.
    pub(crate) adjusted_to: Option<ExactTotals>,
    /// How often they were computed.
    pub(crate) version: u64,
}

impl CallTree {
    /// An empty tree.
    pub fn new(unit: Unit) -> Self {
        Self { unit, ..Self::default() }
    }

    /// The node at the end of a stack (root first), made if it is new; `None` for an empty stack. `path` is cleared and
    /// gets each frame's node, `None` for frames left out as re-entries.
    pub fn insert(&mut self, stack: &[Frame], path: &mut Vec<Option<NodeId>>) -> Option<NodeId> {
        path.clear();
        let mut at: Option<NodeId> = None;
        let mut caller = None;
        for frame in stack {
            if path.iter().flatten().any(|&node| self.node(node).function == frame.function) {
                path.push(None);
            } else {
                let node = self.child(at, frame);
                self.nodes[node as usize].folded |= at.map(|at| self.node(at).function) != caller;
                path.push(Some(node));
                at = Some(node);
            }
            caller = Some(frame.function);
        }
        at
    }

    /// Adds a sample or a wait at the node where its stack ended. Takes effect with the next
    /// [`CallTree::post_stratify`].
    pub fn observe(&mut self, node: NodeId, observation: Observation) {
        self.observe_sum(node, observation, 1, observation.amount * observation.amount);
    }

    /// As [`CallTree::observe`], for `count` observations at once: their amounts together are the observation's, their
    /// squares together `squares`.
    pub fn observe_sum(&mut self, node: NodeId, observation: Observation, count: u64, squares: f64) {
        self.observe_in(node, self.node(node).stratum, observation, count, squares);
    }

    /// As [`CallTree::observe_sum`], where it is known whose exact total holds it: work between a system call's exit and
    /// the return to the program has the call in its stack, but is not in its time.
    pub fn observe_in(&mut self, node: NodeId, stratum: Stratum, of: Observation, count: u64, squares: f64) {
        if of.amount > 0.0 && of.amount.is_finite() {
            let seen = self.seen.entry((of.thread, node, of.state, stratum)).or_default();
            seen.add(&Seen { amount: of.amount, squares, count });
            self.observed = true;
        }
    }

    /// Takes away all that was seen of a thread: it belongs to another group now.
    pub fn forget(&mut self, thread: u32) {
        self.seen.retain(|&(seen, ..), _| seen != thread);
        self.observed = true;
    }

    /// A node; the tree's own numbers only.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node as usize]
    }

    /// Samples and waits in it.
    pub fn samples(&self) -> u64 {
        self.nodes.iter().filter(|node| node.parent.is_none()).map(|root| root.samples).sum()
    }

    /// Whether `node` is `ancestor` or below it.
    pub fn is_within(&self, node: NodeId, ancestor: NodeId) -> bool {
        self.ancestry(node).any(|above| above == ancestor)
    }

    /// The node, its caller, and so on to the root.
    pub fn ancestry(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(node), |&below| self.node(below).parent)
    }

    /// Each node's callees; the last row has the roots.
    pub fn callees(&self) -> Vec<Vec<NodeId>> {
        let mut callees = vec![Vec::new(); self.nodes.len() + 1];
        for (id, node) in self.nodes.iter().enumerate() {
            callees[node.parent.map_or(self.nodes.len(), |parent| parent as usize)].push(id as NodeId);
        }
        callees
    }

    pub(crate) fn child(&mut self, parent: Option<NodeId>, frame: &Frame) -> NodeId {
        if let Some(&node) = self.children.get(&(parent, frame.function)) {
            return node;
        }
        let outer = parent.map_or(Stratum::User, |parent| self.node(parent).stratum);
        let stratum = match (outer, frame.function) {
            (Stratum::User, Function::SystemCall { number }) => Stratum::SystemCall(number),
            _ => outer,
        };
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node {
            parent,
            function: frame.function,
            inlined: frame.inlined,
            folded: false,
            stratum,
            exact: false,
            own: Split::default(),
            inclusive: Split::default(),
            own_total: 0.0,
            total: 0.0,
            waits_ns: 0.0,
            samples: 0,
            variance: 0.0,
            wait_squares: 0.0,
        });
        self.children.insert((parent, frame.function), id);
        id
    }
}
