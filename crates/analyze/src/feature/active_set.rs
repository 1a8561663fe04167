use rustc_hash::FxHashMap;
use transect_profile_model::{FeatureId, FeatureTables, RegionId};

/// Number of a set in [`ActiveSets`]; 0 is the empty one.
pub(crate) type SetId = u32;

/// The sets of features that were active, each once.
#[derive(Debug, Clone)]
pub(crate) struct ActiveSets {
    /// Ascending features of each set.
    pub sets: Vec<Vec<FeatureId>>,
    /// The active set of each row of [`FeatureTables::nodes`].
    pub of_node: Vec<SetId>,
    /// The active set of each flow's context, the program as a whole first.
    pub of_context: Vec<SetId>,
    numbers: FxHashMap<Vec<FeatureId>, SetId>,
    /// The first context of each set.
    first_of: FxHashMap<SetId, u32>,
    /// Set after a region was entered in a set: unions are few, nodes are many.
    entered: FxHashMap<(SetId, RegionId), SetId>,
}

impl ActiveSets {
    pub(crate) fn new(tables: &FeatureTables) -> Self {
        let mut active = Self {
            sets: vec![Vec::new()],
            of_node: Vec::with_capacity(tables.nodes.len()),
            of_context: vec![0],
            numbers: FxHashMap::from_iter([(Vec::new(), 0)]),
            first_of: FxHashMap::from_iter([(0, 0)]),
            entered: FxHashMap::default(),
        };
        for node in &tables.nodes {
            // A node comes after its parent.
            let above = node.parent.and_then(|parent| active.of_node.get(parent as usize)).copied().unwrap_or(0);
            let set = node.region.map_or(above, |region| active.enter(tables, above, region));
            active.of_node.push(set);
        }
        for context in &tables.contexts {
            let set = context.regions.iter().fold(0, |set, &region| active.enter(tables, set, region));
            active.first_of.entry(set).or_insert(active.of_context.len() as u32);
            active.of_context.push(set);
        }
        active
    }

    fn enter(&mut self, tables: &FeatureTables, set: SetId, region: RegionId) -> SetId {
        if let Some(&known) = self.entered.get(&(set, region)) {
            return known;
        }
        let mut features = self.sets[set as usize].clone();
        features.extend(tables.regions.get(region as usize).iter().flat_map(|region| &region.features));
        features.sort_unstable();
        features.dedup();
        let after = self.number(features);
        self.entered.insert((set, region), after);
        after
    }

    /// The set of these features, ascending.
    pub(crate) fn number(&mut self, features: Vec<FeatureId>) -> SetId {
        let next = self.sets.len() as SetId;
        let number = *self.numbers.entry(features.clone()).or_insert(next);
        if number == next {
            self.sets.push(features);
        }
        number
    }

    /// For flows: the first context in which the same features are active; contexts that no table names stay as they
    /// are.
    pub(crate) fn first_like(&self, context: u32) -> u32 {
        let set = self.of_context.get(context as usize).and_then(|&set| self.first_of.get(&set));
        set.copied().unwrap_or(context)
    }
}

/// A set of small numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn of(numbers: &[u32]) -> Self {
        let mut bits = Self::default();
        numbers.iter().for_each(|&number| bits.insert(number));
        bits
    }

    pub(super) fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    pub(super) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// True if all of its numbers are in `other`.
    pub(super) fn is_in(&self, other: &Self) -> bool {
        let (shared, rest) = self.0.split_at(self.0.len().min(other.0.len()));
        shared.iter().zip(&other.0).all(|(word, other)| word & !other == 0) && rest.iter().all(|&word| word == 0)
    }

    pub(super) fn len(&self) -> i64 {
        self.0.iter().map(|word| i64::from(word.count_ones())).sum()
    }
}

/// Names of a set's features.
pub(crate) fn names(tables: &FeatureTables, set: &[FeatureId]) -> Vec<String> {
    let name = |&id: &FeatureId| tables.features.get(id as usize).map_or_else(|| "?".to_owned(), |f| f.name.clone());
    set.iter().map(name).collect()
}

/// Names of a set in a sentence; what goes beyond them is a number.
const MOST_NAMES: usize = 4;

/// A set for a sentence: `Level`, `Level and Threads`, `A, B and C`, `A, B, C and 4 more`.
pub(crate) fn set_in_words(features: &[String]) -> String {
    match features {
        many if many.len() > MOST_NAMES => {
            let shown = MOST_NAMES - 1;
            format!("{} and {} more", many[..shown].join(", "), many.len() - shown)
        }
        [] => "no feature".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets() {
        let is_in = |small: &[u32], large: &[u32]| Bits::of(small).is_in(&Bits::of(large));
        assert!(is_in(&[], &[]) && is_in(&[], &[1]) && is_in(&[1, 3], &[1, 2, 3]) && is_in(&[1], &[1, 200]));
        assert!(!is_in(&[1], &[]) && !is_in(&[1, 4], &[1, 2, 3]) && !is_in(&[0], &[1]) && !is_in(&[1, 200], &[1]));
        let mut bits = Bits::of(&[3, 64]);
        bits.add(&Bits::of(&[3, 129]));
        assert_eq!(bits.len(), 3);
    }

    #[test]
    fn words() {
        let five = ["A", "B", "C", "D", "E"].map(str::to_owned);
        assert_eq!(set_in_words(&five), "A, B, C and 2 more");
        let words = |names: &[&str]| set_in_words(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(
            [words(&[]), words(&["A"]), words(&["A", "B"]), words(&["A", "B", "C"])],
            ["no feature", "A", "A and B", "A, B and C"]
        );
    }
}
