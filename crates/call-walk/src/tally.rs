//! Weighted answers at nodes of a tree, of which the heaviest is shown: what is waited for, who wakes.

use std::collections::HashMap;

use crate::{CallTree, NodeId};

/// Weighted words at the nodes where waits ended.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    words: HashMap<NodeId, HashMap<String, f64>>,
}

impl Tally {
    /// Adds `weight` (ns) to a word at a node; an empty word stands for "not known".
    pub fn add(&mut self, node: NodeId, word: &str, weight: f64) {
        let words = self.words.entry(node).or_default();
        match words.get_mut(word) {
            Some(known) => *known += weight,
            None => {
                words.insert(word.to_owned(), weight);
            }
        }
    }

    /// The heaviest word in the node and all below it, with its part of their weight (0.0–1.0); `None` if nothing is
    /// known there.
    pub fn heaviest(&self, tree: &CallTree, node: NodeId) -> Option<(&str, f64)> {
        let mut sums: HashMap<&str, f64> = HashMap::new();
        for (_, words) in self.words.iter().filter(|(at, _)| tree.is_within(**at, node)) {
            for (word, weight) in words {
                *sums.entry(word).or_default() += weight;
            }
        }
        let all: f64 = sums.values().sum();
        let (word, weight) = sums
            .into_iter()
            .filter(|(word, weight)| !word.is_empty() && *weight > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        Some((word, weight / all))
    }
}
