//! The sum: parts by their keys, those that meet the filter, within a range of time.

use rustc_hash::FxHashMap;

use super::dimension::CutDimension;
use super::filter::{CutFilter, Subject, Term};
use super::interval::{Intervals, Sampled};
use super::keys::{KeyId, Keys, NO_KEY};
use super::stretch::Stretch;
use super::{CutError, CutKey, CutQuery, CutRow, CutScope, CutView};

/// What is known exactly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// All waiting, by what it was for.
    pub waits: bool,
    /// When threads were active.
    pub when: bool,
}

/// Rows at most.
const MOST_ROWS: usize = 1_000_000;

/// Parts by their keys.
pub(super) struct Groups {
    /// Number of each row, by its keys: numbers in [`Keys::interner`], and where steps of time begin.
    pub numbers: FxHashMap<Vec<i64>, u32>,
    /// Sum of each row.
    pub values: Vec<i64>,
    /// The same over everything, without filter and range.
    pub whole: i64,
    intervals: Intervals,
}

/// Sums up parts by their keys.
pub(super) fn group<'a, S: Part>(
    query: &CutQuery,
    keys: &Keys<'a>,
    parts: &[S],
    (from, to): (i64, i64),
    known: Known,
    key: impl Fn(&Keys<'a>, CutDimension, &S) -> KeyId,
) -> Result<Groups, CutError> {
    let mut tests = Tests::new(query.filter.as_ref());
    let is_known = |dimension| {
        CutDimension::is_margin(dimension)
            || matches!(dimension, CutDimension::Time(_))
            || known.waits && CutDimension::is_of_waits(dimension)
    };
    let by_stack = query.filter.iter().any(|filter| filter.terms.iter().any(|term| term.subject == Subject::Stack));
    let no_stacks = query.uses().all(is_known) && !by_stack;
    let exact = no_stacks && known.when;
    let step = query.step();
    let intervals = Intervals::new(no_stacks);
    let mut groups = Groups { numbers: FxHashMap::default(), values: Vec::new(), whole: 0, intervals };
    for part in parts {
        groups.whole += part.weight();
        if !exact && part.is_estimated() {
            groups.intervals.add_all(part.stratum(), part.sampled(part.weight()));
        }
        if !tests.hold(query, keys, part, &key) {
            continue;
        }
        let of: Vec<i64> = query.by.iter().map(|&dimension| i64::from(key(keys, dimension, part))).collect();
        let mut add = |start: Option<i64>, weight: i64| {
            if weight == 0 {
                return;
            }
            let mut of = of.clone();
            for (key, dimension) in of.iter_mut().zip(&query.by) {
                if let (CutDimension::Time(_), Some(start)) = (dimension, start) {
                    *key = start;
                }
            }
            let next = groups.values.len() as u32;
            let row = *groups.numbers.entry(of).or_insert(next);
            if row == next {
                groups.values.push(0);
            }
            groups.values[row as usize] += weight;
            if !exact && part.is_estimated() {
                groups.intervals.add(row, part.stratum(), part.sampled(weight));
            }
        };
        part.pieces(from, to, step, &mut add);
        if groups.numbers.len() > MOST_ROWS {
            return Err(CutError::TooManyRows { most: MOST_ROWS });
        }
    }
    Ok(groups)
}

/// What the groups of a query are sums of.
pub(super) fn scope(query: &CutQuery, groups: &Groups) -> CutScope {
    CutScope {
        measure: query.measure,
        unit: query.measure.unit(),
        filter: query.filter.as_ref().map(|filter| filter.as_str().to_owned()),
        from_ns: query.from_ns,
        to_ns: query.to_ns,
        total: groups.values.iter().sum(),
        whole: groups.whole,
    }
}

/// The rows of a cut.
pub(super) fn sum<'a, S: Part>(
    query: &CutQuery,
    keys: &Keys<'a>,
    parts: Vec<S>,
    range: (i64, i64),
    known: Known,
    key: impl Fn(&Keys<'a>, CutDimension, &S) -> KeyId,
) -> Result<CutView, CutError> {
    let mut groups = group(query, keys, &parts, range, known, key)?;
    let scope = scope(query, &groups);
    let mut found: Vec<(Vec<i64>, u32)> = std::mem::take(&mut groups.numbers).into_iter().collect();
    found.sort_unstable_by_key(|(_, row)| *row);
    let row = |(of, row): (Vec<i64>, u32)| {
        let value = groups.values[row as usize];
        let half = groups.intervals.half_width(row);
        // A thread can't have been anywhere for longer than it ran.
        let more = half.min(groups.intervals.room(row));
        let spread = |at: f64| (value as f64 + at).round() as i64;
        let key = |(key, dimension): (&i64, &CutDimension)| match dimension {
            CutDimension::Time(_) => CutKey::Time(*key),
            _ => keys.interner.text(*key as KeyId).map_or(CutKey::None, |text| CutKey::Name(text.to_owned())),
        };
        CutRow {
            keys: of.iter().zip(&query.by).map(key).collect(),
            value,
            low: spread(-half).max(0).min(value),
            high: spread(more).max(value),
            share: if scope.total == 0 { 0.0 } else { value as f64 / scope.total as f64 },
        }
    };
    let mut rows: Vec<CutRow> = found.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.keys.cmp(&b.keys)));
    Ok(CutView { by: query.by.clone(), scope, rows })
}

/// What is summed up: a part of a thread's life, or calls.
pub(super) trait Part {
    /// In the unit of the measure.
    fn weight(&self) -> i64;
    /// The weight comes from samples.
    fn is_estimated(&self) -> bool;
    /// The thread and state whose samples it is one of.
    fn stratum(&self) -> u64;
    /// So much of it as a sum of samples.
    fn sampled(&self, weight: i64) -> Sampled;
    /// Functions of the stack.
    fn functions<'k>(&self, keys: &'k Keys<'_>) -> &'k [KeyId];
    /// Each active feature.
    fn features<'k>(&self, keys: &'k Keys<'_>) -> &'k [KeyId];
    /// Its weight within a range, in steps: `add` gets the start of each and the weight in it.
    fn pieces(&self, from: i64, to: i64, step: Option<i64>, add: &mut impl FnMut(Option<i64>, i64));
}

impl Part for Stretch {
    fn weight(&self) -> i64 {
        self.weight
    }

    fn is_estimated(&self) -> bool {
        self.estimated
    }

    fn stratum(&self) -> u64 {
        u64::from(self.task) << 2 | self.state as u64
    }

    fn sampled(&self, weight: i64) -> Sampled {
        Sampled::new(weight, self.per_sample)
    }

    fn functions<'k>(&self, keys: &'k Keys<'_>) -> &'k [KeyId] {
        keys.functions(self.stack)
    }

    fn features<'k>(&self, keys: &'k Keys<'_>) -> &'k [KeyId] {
        keys.feature(self.features).1
    }

    fn pieces(&self, from: i64, to: i64, step: Option<i64>, add: &mut impl FnMut(Option<i64>, i64)) {
        if self.begin_ns == self.end_ns {
            if (from..to).contains(&self.begin_ns) {
                add(step.map(|step| self.begin_ns.div_euclid(step) * step), self.weight);
            }
            return;
        }
        let (begin, end) = (self.begin_ns.max(from), self.end_ns.min(to));
        if begin >= end {
            return;
        }
        let Some(step) = step else {
            return add(None, self.before(end, self.weight) - self.before(begin, self.weight));
        };
        let mut start = begin.div_euclid(step) * step;
        while start < end {
            let next = start.saturating_add(step);
            add(Some(start), self.before(next.min(end), self.weight) - self.before(start.max(begin), self.weight));
            start = next;
        }
    }
}

/// Terms of a filter, each asked once a key.
struct Tests<'q> {
    filter: Option<&'q CutFilter>,
    known: FxHashMap<(usize, KeyId), bool>,
}

impl<'q> Tests<'q> {
    fn new(filter: Option<&'q CutFilter>) -> Self {
        Self { filter, known: FxHashMap::default() }
    }

    fn hold<'a, S: Part>(
        &mut self,
        query: &CutQuery,
        keys: &Keys<'a>,
        stretch: &S,
        key: &impl Fn(&Keys<'a>, CutDimension, &S) -> KeyId,
    ) -> bool {
        let Some(filter) = self.filter else { return true };
        debug_assert!(query.filter.is_some());
        filter.expression.holds(&mut |number| {
            let term = &filter.terms[number];
            match term.subject {
                // A set has each of its features, and is called by all of them.
                Subject::Dimension(CutDimension::Feature) => {
                    let all = key(keys, CutDimension::Feature, stretch);
                    holds_any(term, keys, [all].iter().chain(stretch.features(keys)))
                }
                Subject::Stack => holds_any(term, keys, stretch.functions(keys).iter()),
                Subject::Dimension(dimension) => {
                    let key = key(keys, dimension, stretch);
                    *self.known.entry((number, key)).or_insert_with(|| holds_any(term, keys, [key].iter()))
                }
            }
        })
    }
}

fn holds_any<'k>(term: &Term, keys: &Keys<'_>, of: impl Iterator<Item = &'k KeyId>) -> bool {
    term.holds(of.filter(|key| **key != NO_KEY).filter_map(|key| keys.interner.text(*key)))
}
