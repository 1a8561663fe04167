//! The joined call tree of one thread group, and what names its nodes.

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::{CallOfRecord, SystemCall};
use transect_call_walk::{CallTree, Frame, Function, NodeId, Observation, State, Stratum, Unit};

use super::evidence::{Sum, SumKey, Times};
use super::frames::Frames;
use super::groups::GroupKey;
use crate::sched::call_stack::StackNumber;

/// Where a stack ends, and what it passes.
#[derive(Debug, Clone)]
struct Passed {
    leaf: NodeId,
    /// Nodes with the source lines that the stack was at in them.
    lines: Vec<(NodeId, u32)>,
}

/// A call tree, and where in the source its nodes are.
#[derive(Debug)]
pub(crate) struct JoinedTree {
    /// Whose.
    pub key: GroupKey,
    /// The tree that is searched.
    pub tree: CallTree,
    /// Weight of each source line that a node was seen at.
    lines: Vec<HashMap<u32, f64>>,
    stacks: HashMap<(StackNumber, u32), Passed>,
}

impl JoinedTree {
    /// An empty one.
    pub fn new(key: GroupKey, unit: Unit) -> Self {
        Self { key, tree: CallTree::new(unit), lines: Vec::new(), stacks: HashMap::default() }
    }

    /// Adds what was seen of a thread; false if the stack has not come, or was cut off and it is not known of what; `last`: it
    /// will not be known later.
    pub fn add(&mut self, key: SumKey, sum: &Sum, frames: &mut Frames, last: bool) -> bool {
        let Some(Passed { leaf, lines }) = self.passed(key.stack, key.call, frames, last).cloned() else {
            return false;
        };
        let weight = match self.tree.unit {
            Unit::Weight => sum.critical.ns,
            _ => sum.samples.ns + sum.waits.ns + sum.runnable.ns + sum.preempted.ns,
        };
        for (node, line) in lines {
            *self.lines[node as usize].entry(line).or_default() += weight;
        }
        let stratum = match SystemCall::of_record(key.call) {
            CallOfRecord::Inside(call) if !call.compat => Stratum::SystemCall(call.number),
            CallOfRecord::Unknown => self.tree.node(leaf).stratum,
            _ => Stratum::User,
        };
        let observed: &[(State, &Times)] = match self.tree.unit {
            Unit::Weight => &[(State::Weight, &sum.critical)],
            _ => &[
                (State::On, &sum.samples),
                (State::Blocked, &sum.waits),
                (State::Runnable, &sum.runnable),
                (State::Preempted, &sum.preempted),
            ],
        };
        for &(state, times) in observed {
            let observation = Observation { thread: key.task, state, amount: times.ns };
            self.tree.observe_in(leaf, stratum, observation, times.count, times.squares);
        }
        true
    }

    /// The node at which a stack ended that was added.
    pub fn leaf(&self, stack: StackNumber, call: u32) -> Option<NodeId> {
        self.stacks.get(&(stack, call)).map(|passed| passed.leaf)
    }

    /// The source line at which most of a node's time is, else the address; 0 if neither is known.
    pub fn line(&self, node: NodeId, frames: &Frames) -> u32 {
        let known = self.lines.get(node as usize).into_iter().flatten().filter(|(line, _)| **line != 0);
        let has_line = |number: u32| frames.line(number).address.is_none();
        let order = |number: u32, weight: f64| (has_line(number), weight);
        let heaviest = known.max_by(|one, other| {
            let (one, other) = (order(*one.0, *one.1), order(*other.0, *other.1));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        heaviest.map_or(0, |(line, _)| *line)
    }

    /// What calls a function, root first, where it was seen most: what is missing of a stack that was cut off there.
    /// `None` if it was not seen in a stack with a beginning.
    fn callers(&self, function: Function) -> Option<Vec<Frame>> {
        let seen = (0..).zip(&self.tree.nodes).filter(|(_, node)| node.function == function);
        let rooted = seen.filter(|(id, _)| {
            let root = self.tree.ancestry(*id).last();
            root.is_some_and(|root| self.tree.node(root).function != Function::Unknown)
        });
        let (id, _) = rooted.max_by_key(|(id, node)| (node.samples, std::cmp::Reverse(*id)))?;
        let mut callers: Vec<Frame> = self
            .tree
            .ancestry(id)
            .skip(1)
            .map(|id| Frame { function: self.tree.node(id).function, inlined: self.tree.node(id).inlined })
            .collect();
        callers.reverse();
        Some(callers)
    }

    fn passed(&mut self, stack: StackNumber, call: u32, frames: &mut Frames, last: bool) -> Option<&Passed> {
        if !self.stacks.contains_key(&(stack, call)) {
            let mut steps = frames.path(stack, call)?;
            let mut shown: Vec<Frame> = steps
                .iter()
                .map(|step| {
                    let named = frames.function_of(step.function);
                    Frame { function: named.function, inlined: named.inlined }
                })
                .collect();
            let mut missing = Vec::new();
            if !frames.is_complete(stack) {
                // The outermost frames may be no function's; those of a stack that was merely too deep are.
                let told = |function| !matches!(function, Function::Kernel { .. } | Function::Exception { .. });
                let most = if frames.is_truncated(stack) { 1 } else { usize::MAX };
                // What is inlined is in many functions, of which none is the caller for that.
                let candidates = shown.iter().enumerate().take_while(|(_, frame)| told(frame.function));
                let candidates = candidates.filter(|(_, frame)| !frame.inlined).take(most);
                let known = candidates.filter_map(|(at, frame)| Some((at, self.callers(frame.function)?))).next();
                missing = match known {
                    Some((at, callers)) => {
                        shown.drain(..at);
                        steps.drain(..at);
                        callers
                    }
                    None if last => vec![Frame { function: Function::Unknown, inlined: false }],
                    None => return None,
                };
                shown.splice(0..0, missing.iter().copied());
            }
            let mut path = Vec::new();
            let leaf = self.tree.insert(&shown, &mut path)?;
            self.lines.resize(self.tree.nodes.len(), HashMap::default());
            let lines = path[missing.len()..]
                .iter()
                .zip(&steps)
                .filter_map(|(node, step)| Some(((*node)?, step.line)))
                .collect();
            self.stacks.insert((stack, call), Passed { leaf, lines });
        }
        self.stacks.get(&(stack, call))
    }
}
