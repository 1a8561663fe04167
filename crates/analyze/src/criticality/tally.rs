//! Sums by key, where the same few keys come again and again.

use rustc_hash::FxHashMap;

/// Up to so many keys are looked for one by one.
const FEW: usize = 12;

/// Sums by key.
#[derive(Debug, Clone)]
pub(super) struct Tally<K> {
    sums: Vec<(K, i64)>,
    index: FxHashMap<K, u32>,
    last: usize,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self { sums: Vec::new(), index: FxHashMap::default(), last: 0 }
    }
}

impl<K: Copy + Eq + std::hash::Hash> Tally<K> {
    pub fn add(&mut self, key: K, value: i64) {
        let at = self.find(key);
        self.sums[at].1 += value;
    }

    fn find(&mut self, key: K) -> usize {
        if self.sums.get(self.last).is_some_and(|sum| sum.0 == key) {
            return self.last;
        }
        let known = if self.sums.len() <= FEW {
            self.sums.iter().position(|sum| sum.0 == key)
        } else {
            if self.index.is_empty() {
                self.index = self.sums.iter().zip(0..).map(|(&(key, _), at)| (key, at)).collect();
            }
            self.index.get(&key).map(|&at| at as usize)
        };
        self.last = known.unwrap_or_else(|| {
            self.sums.push((key, 0));
            let at = self.sums.len() - 1;
            if !self.index.is_empty() {
                self.index.insert(key, at as u32);
            }
            at
        });
        self.last
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, i64)> + '_ {
        self.sums.iter().copied()
    }

    pub fn total(&self) -> i64 {
        self.sums.iter().map(|(_, sum)| sum).sum()
    }

    pub fn len(&self) -> usize {
        self.sums.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The key with the largest sum; of equals the first.
    pub fn most(&self) -> Option<K>
    where
        K: Ord,
    {
        self.iter().max_by_key(|&(key, sum)| (sum, std::cmp::Reverse(key))).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Tally;

    proptest! {
        #[test]
        fn equals_a_map(adds in proptest::collection::vec((0u32..40, -9i64..9), 0..200)) {
            let mut tally = Tally::default();
            let mut map: BTreeMap<u32, i64> = BTreeMap::new();
            for (key, value) in adds {
                tally.add(key, value);
                *map.entry(key).or_default() += value;
            }
            prop_assert_eq!(tally.iter().collect::<BTreeMap<_, _>>(), map);
        }
    }
}
