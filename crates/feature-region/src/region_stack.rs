//! Stacks of regions, each kept once: a stack is its last region on the stack without it.

use rustc_hash::FxHashMap as HashMap;

use crate::RegionIndex;

/// Number of a stack in its [`RegionStacks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StackId(u32);

/// The stack without regions.
pub(crate) const EMPTY: StackId = StackId(0);

#[derive(Debug)]
struct Node {
    below: StackId,
    region: RegionIndex,
    length: u32,
}

/// All stacks of one object.
#[derive(Debug, Default)]
pub(crate) struct RegionStacks {
    /// Stack `n + 1`.
    nodes: Vec<Node>,
    known: HashMap<(StackId, RegionIndex), StackId>,
}

impl RegionStacks {
    fn node(&self, stack: StackId) -> Option<&Node> {
        self.nodes.get((stack.0 as usize).checked_sub(1)?)
    }

    /// `stack` with `region` on top.
    pub fn push(&mut self, stack: StackId, region: RegionIndex) -> StackId {
        if let Some(&known) = self.known.get(&(stack, region)) {
            return known;
        }
        self.nodes.push(Node { below: stack, region, length: self.length(stack) + 1 });
        let id = StackId(self.nodes.len() as u32);
        self.known.insert((stack, region), id);
        id
    }

    /// The last region and the stack without it.
    pub fn pop(&self, stack: StackId) -> Option<(RegionIndex, StackId)> {
        self.node(stack).map(|node| (node.region, node.below))
    }

    /// Number of regions on it.
    pub fn length(&self, stack: StackId) -> u32 {
        self.node(stack).map_or(0, |node| node.length)
    }

    /// Cut to `length` regions.
    pub fn cut(&self, mut stack: StackId, length: u32) -> StackId {
        while let Some(node) = self.node(stack)
            && node.length > length
        {
            stack = node.below;
        }
        stack
    }

    /// Cut so that `region`, where it is nearest to the top, is the last; `None` if it is not on the stack.
    pub fn cut_to(&self, mut stack: StackId, region: RegionIndex) -> Option<StackId> {
        while let Some(node) = self.node(stack) {
            if node.region == region {
                return Some(stack);
            }
            stack = node.below;
        }
        None
    }

    /// What both begin with.
    pub fn common(&self, a: StackId, b: StackId) -> StackId {
        let length = self.length(a).min(self.length(b));
        let (mut a, mut b) = (self.cut(a, length), self.cut(b, length));
        while a != b {
            let (Some(of_a), Some(of_b)) = (self.node(a), self.node(b)) else { return EMPTY };
            (a, b) = (of_a.below, of_b.below);
        }
        a
    }

    /// Its regions, outermost first.
    pub fn regions(&self, mut stack: StackId) -> Vec<RegionIndex> {
        let mut regions = Vec::with_capacity(self.length(stack) as usize);
        while let Some(node) = self.node(stack) {
            regions.push(node.region);
            stack = node.below;
        }
        regions.reverse();
        regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_kept_once() {
        let mut stacks = RegionStacks::default();
        let a = stacks.push(EMPTY, 7);
        let ab = stacks.push(a, 8);
        let ac = stacks.push(a, 9);
        assert_eq!(stacks.push(a, 8), ab);
        assert_eq!(stacks.regions(ab), [7, 8]);
        assert_eq!(stacks.pop(ab), Some((8, a)));
        assert_eq!(stacks.pop(EMPTY), None);
        assert_eq!(stacks.common(ab, ac), a);
        assert_eq!(stacks.common(ab, a), a);
        assert_eq!(stacks.common(ab, EMPTY), EMPTY);
        let aba = stacks.push(ab, 7);
        assert_eq!(stacks.cut_to(aba, 7), Some(aba));
        assert_eq!(stacks.cut_to(aba, 8), Some(ab));
        assert_eq!(stacks.cut_to(ab, 9), None);
        assert_eq!(stacks.cut(aba, 1), a);
    }
}
