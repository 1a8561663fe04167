//! Which sets of terms explain the times: the best one and all that are not much worse (Occam's window, A. Raftery,
//! "Bayesian model selection in social research", 1995).

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::evidence::Evidence;
use super::prior::Prior;

/// Sets less likely than the best one by more than this factor (its logarithm) are left out.
const WINDOW: f64 = 7.0;
/// Sets whose neighbours are looked at, at most.
const EXPANSIONS: usize = 600;
/// The share of a column that must be new, squared.
const NEW: f64 = 1e-9;
/// Sets that are kept, at most.
const KEPT: usize = 400;

/// Columns by place, ascending; the first is the base.
pub(crate) type Model = Vec<u16>;

struct Open(f64, Model);

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Open {}
impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then_with(|| other.1.cmp(&self.1))
    }
}

struct Search<'a> {
    columns: &'a [Vec<f64>],
    times: &'a [f64],
    evidence: &'a Evidence,
    prior: &'a Prior,
    scores: HashMap<Model, f64>,
    open: BinaryHeap<Open>,
    done: HashSet<Model>,
    best: f64,
}

/// Sets of columns with the logarithms of their probabilities, the best first. From the best set so far one column is
/// added, taken away or exchanged, until no set within the window is left whose neighbours are unknown.
pub(crate) fn search(columns: &[Vec<f64>], times: &[f64], evidence: &Evidence, prior: &Prior) -> Vec<(Model, f64)> {
    let mut search = Search {
        columns,
        times,
        evidence,
        prior,
        scores: HashMap::new(),
        open: BinaryHeap::new(),
        done: HashSet::new(),
        best: f64::NEG_INFINITY,
    };
    search.expand(vec![0]);
    let mut closed = HashSet::new();
    while let Some(Open(score, model)) = search.open.pop() {
        if score < search.best - WINDOW || search.done.len() > EXPANSIONS {
            break;
        }
        if !closed.insert(model.clone()) {
            continue;
        }
        for away in 1..model.len() {
            let mut smaller = model.clone();
            smaller.remove(away);
            search.expand(smaller);
        }
        search.expand(model);
    }
    let best = search.best;
    let mut found: Vec<(Model, f64)> = search.scores.into_iter().filter(|(_, score)| *score >= best - WINDOW).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.truncate(KEPT);
    found
}

impl Search<'_> {
    /// Scores the set, and each with one more column.
    fn expand(&mut self, model: Model) {
        if !self.done.insert(model.clone()) {
            return;
        }
        let mut basis: Vec<Vec<f64>> = Vec::with_capacity(model.len());
        let mut left = self.times.to_vec();
        let mut determinant = 0.0;
        for column in &model {
            let (new, size) = remainder(&self.columns[usize::from(*column)], &basis);
            determinant += self.evidence.determinant(size);
            let length = size.sqrt();
            let direction: Vec<f64> = new.iter().map(|own| own / length).collect();
            take_away(&mut left, &direction);
            basis.push(direction);
        }
        let residual = dot(&left, &left);
        self.keep(model.clone(), residual, determinant);
        if model.len() >= self.evidence.most_terms() {
            return;
        }
        for column in 1..self.columns.len() {
            let Err(place) = model.binary_search(&(column as u16)) else { continue };
            let own = &self.columns[column];
            let (new, size) = remainder(own, &basis);
            if size <= NEW * dot(own, own) || size <= f64::MIN_POSITIVE {
                continue;
            }
            let part = dot(&new, &left).powi(2) / size;
            let mut larger = model.clone();
            larger.insert(place, column as u16);
            self.keep(larger, (residual - part).max(0.0), determinant + self.evidence.determinant(size));
        }
    }

    fn keep(&mut self, model: Model, residual: f64, determinant: f64) {
        if self.scores.contains_key(&model) {
            return;
        }
        let score = self.evidence.logarithm(model.len(), residual, determinant) + self.prior.logarithm(&model);
        self.best = self.best.max(score);
        if score >= self.best - WINDOW {
            self.open.push(Open(score, model.clone()));
        }
        self.scores.insert(model, score);
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn take_away(from: &mut [f64], direction: &[f64]) {
    let part = dot(from, direction);
    from.iter_mut().zip(direction).for_each(|(own, direction)| *own -= part * direction);
}

/// What of a column is not in the directions, and its square.
fn remainder(column: &[f64], basis: &[Vec<f64>]) -> (Vec<f64>, f64) {
    let mut new = column.to_vec();
    // Twice, as once leaves rounding errors of the size of what is looked for.
    for _ in 0..2 {
        basis.iter().for_each(|direction| take_away(&mut new, direction));
    }
    let size = dot(&new, &new);
    (new, size)
}
