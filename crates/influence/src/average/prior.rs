//! How likely a set of terms is before anything was measured: few interactions, and those of options with terms of their
//! own first (weak heredity, H. Chipman, "Bayesian variable selection with related predictors", 1996).

use transect_feature_model::FeatureIndex;

use crate::column::Column;

/// Probability of an interaction by how many of its options have no term of their own.
const PAIR: [f64; 3] = [0.25, 0.03, 0.01];
/// Interactions that are expected, at most, of each of these kinds.
const EXPECTED: [f64; 3] = [3.0, 1.0, 0.5];
/// Probability of an interaction of three or more.
const LONGER: f64 = 0.02;

/// The prior over sets of columns.
pub(crate) struct Prior {
    /// For each column: its features, as places among all that occur.
    features: Vec<Vec<usize>>,
    /// Features that occur.
    count: usize,
    /// Columns of a single feature.
    singles: usize,
}

impl Prior {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let mut all: Vec<FeatureIndex> = columns.iter().flatten().map(|(feature, _)| *feature).collect();
        all.sort_unstable();
        all.dedup();
        let place = |feature: &FeatureIndex| all.binary_search(feature).unwrap_or_default();
        let features = columns.iter().map(|column| column.iter().map(|(feature, _)| place(feature)).collect());
        let singles = columns.iter().filter(|column| column.len() == 1).count();
        Self { features: features.collect(), count: all.len(), singles }
    }

    /// Logarithm of the probability, up to a constant.
    pub(crate) fn logarithm(&self, model: &[u16]) -> f64 {
        let mut has = vec![false; self.count];
        let mut singles = 0;
        for column in model {
            if let [feature] = self.features[usize::from(*column)][..] {
                has[feature] = true;
                singles += 1;
            }
        }
        // Any number of single terms is as likely as any other.
        let mut sum = -choices(self.singles, singles);
        let own = has.iter().filter(|has| **has).count() as f64;
        let rest = self.count as f64 - own;
        let all = [own * (own - 1.0) / 2.0, own * rest, rest * (rest - 1.0) / 2.0];
        let mut pairs = [0.0; 3];
        for column in model {
            let features = &self.features[usize::from(*column)];
            let lacking = features.iter().filter(|feature| !has[**feature]).count();
            match features.len() {
                0 | 1 => {}
                2 => pairs[lacking] += 1.0,
                _ => sum += (LONGER / 4.0_f64.powi(lacking as i32) / self.count as f64).ln(),
            }
        }
        for kind in 0..3 {
            let probability = PAIR[kind].min(EXPECTED[kind] / all[kind].max(1.0));
            sum += pairs[kind] * probability.ln() + (all[kind] - pairs[kind]).max(0.0) * (1.0 - probability).ln();
        }
        sum
    }
}

/// Logarithm of the number of ways to choose `some` of `all`.
fn choices(all: usize, some: usize) -> f64 {
    (0..some).map(|at| ((all - at) as f64 / (at + 1) as f64).ln()).sum()
}
