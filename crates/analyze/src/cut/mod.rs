//! The cut: one sum over a profile by any dimensions, in any order (`transect report DIR --by … --measure …`).
//!
//! Every collector's facts become weighted stretches of threads' lives ([`stretch`]); a cut is their sum by keys. Weights are
//! integers that add up to the exact totals, so rows add up to the total by whatever dimensions, to the nanosecond. Calls
//! and bytes are counted by the agent and can be cut by what it knows ([`counted`]).

mod active_features;
mod counted;
mod dimension;
mod filter;
mod interval;
mod keys;
mod rake;
mod stack_keys;
mod stretch;

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use transect_profile_model::Profile;

pub use dimension::{CutDimension, CutDimensions, CutMeasure, parse_duration};
pub use filter::{CutFilter, FilterError};

use crate::Names;
use crate::criticality::wait_stacks;
use crate::feature::ActiveSets;
use active_features::FeatureTimes;
use filter::{Subject, Term};
use interval::{Intervals, Sampled};
use keys::{KeyId, Keys, NO_KEY};
use stretch::{State, Stretch};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CutQuery {
    /// What rows are told apart by, outermost first.
    pub by: Vec<CutDimension>,
    /// What is summed up.
    pub measure: CutMeasure,
    /// Which part of the profile; `None`: all of it.
    pub filter: Option<CutFilter>,
    /// From when on, since the recording's start, ns.
    pub from_ns: Option<i64>,
    /// Up to when.
    pub to_ns: Option<i64>,
}

impl CutQuery {
    /// Whether the answer depends on when things happened: then the timeline is needed.
    pub fn is_over_time(&self) -> bool {
        self.from_ns.is_some() || self.to_ns.is_some() || self.step().is_some()
    }

    fn step(&self) -> Option<i64> {
        self.by.iter().find_map(|dimension| match dimension {
            CutDimension::Time(step) => Some(*step),
            _ => None,
        })
    }

    fn uses(&self) -> impl Iterator<Item = CutDimension> + '_ {
        let terms = self.filter.iter().flat_map(|filter| &filter.terms);
        let filtered = terms.filter_map(|term| match term.subject {
            Subject::Dimension(dimension) => Some(dimension),
            Subject::Stack => None,
        });
        self.by.iter().copied().chain(filtered)
    }
}

/// A cut that the profile cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// Nothing in the profile says where threads were.
    #[error(
        "the profile holds neither samples nor waits, which `{measure}` is cut from: record with --collect sched, or cut calls or \
         bytes"
    )]
    NoStretches {
        /// The measure.
        measure: &'static str,
    },
    /// Nothing was counted.
    #[error("the profile holds no calls between components, which `{measure}` is cut from: record with --collect flow")]
    NoCalls {
        /// The measure.
        measure: &'static str,
    },
    /// Calls are not counted by this.
    #[error(
        "`{measure}` cannot be cut by {dimension}: calls are counted by process, thread, thread-group, feature, component, api \
         and caller, over the whole run"
    )]
    NotCounted {
        /// The measure.
        measure: &'static str,
        /// The dimension.
        dimension: String,
    },
    /// When features were active is not known.
    #[error(
        "the profile does not know when features were active: record a program built with transect-cc, --collect feature beside \
         sched"
    )]
    NoFeatures,
    /// More steps than anyone could read.
    #[error("{steps} steps of time are more than {most}: use a longer step, or --from and --to")]
    TooManySteps {
        /// Steps asked for.
        steps: i64,
        /// Steps at most.
        most: i64,
    },
    /// An empty range.
    #[error("--from {from} is not before --to {to} (seconds)")]
    EmptyRange {
        /// Its start, s.
        from: String,
        /// Its end, s.
        to: String,
    },
}

/// A key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CutKey {
    /// The remainder that has no key.
    None,
    /// A name.
    Name(String),
    /// Where a step of time begins, since the recording's start, ns.
    Time(i64),
}

impl Serialize for CutKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Name(name) => serializer.serialize_str(name),
            Self::Time(ns) => serializer.serialize_i64(*ns),
        }
    }
}

/// One row of a cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutRow {
    /// One key a dimension.
    pub keys: Vec<CutKey>,
    /// The sum, in [`CutView::unit`].
    pub value: i64,
    /// Its 95 % interval; equal to the value where it is exact.
    pub low: i64,
    /// See `low`.
    pub high: i64,
    /// Part of [`CutView::total`], 0–1.
    pub share: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutView {
    /// The dimensions.
    pub by: Vec<CutDimension>,
    /// The measure.
    pub measure: CutMeasure,
    /// `ns`, `count` or `bytes`.
    pub unit: &'static str,
    /// The filter as it was written.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// The range of time, ns.
    pub from_ns: Option<i64>,
    /// See `from_ns`.
    pub to_ns: Option<i64>,
    /// Sum of all rows.
    pub total: i64,
    /// The same without filter and range.
    pub whole: i64,
    /// All rows, largest first.
    pub rows: Vec<CutRow>,
}

/// Steps of time at most.
const MOST_STEPS: i64 = 100_000;

/// Cuts a profile. Of one that was read without its timeline, `from_ns`, `to_ns` and steps of time are as exact as samples
/// alone allow.
///
/// # Errors
/// [`CutError`] where the profile does not hold what the query needs.
pub fn cut(profile: &Profile, query: &CutQuery) -> Result<CutView, CutError> {
    let range = (query.from_ns.unwrap_or(i64::MIN), query.to_ns.unwrap_or(i64::MAX));
    if range.0 >= range.1 {
        let seconds = |ns: i64| format!("{:.3}", ns as f64 / 1e9);
        return Err(CutError::EmptyRange { from: seconds(range.0), to: seconds(range.1) });
    }
    let length = range.1.min(profile.meta.wall_ns.max(0)).saturating_sub(range.0.max(0));
    if let Some(step) = query.step()
        && length / step > MOST_STEPS
    {
        return Err(CutError::TooManySteps { steps: length / step, most: MOST_STEPS });
    }
    let names = Names::new(profile);
    let active = ActiveSets::new(&profile.feature);
    let mut keys = Keys::new(profile, &names, &active);
    let by_feature = query.uses().any(|dimension| dimension == CutDimension::Feature);
    if by_feature && profile.feature.features.is_empty() {
        return Err(CutError::NoFeatures);
    }
    if matches!(query.measure, CutMeasure::Calls | CutMeasure::Bytes) {
        let stretches = counted::calls(profile, query, &names, &active, &mut keys)?;
        return Ok(sum(query, &keys, stretches, range, counted::key));
    }
    if profile.sched.tasks.is_empty() {
        return Err(CutError::NoStretches { measure: query.measure.as_str() });
    }
    if by_feature && profile.feature.slices.is_empty() {
        return Err(CutError::NoFeatures);
    }
    let stacks = wait_stacks(&profile.sched);
    let mut stretches = match query.measure {
        CutMeasure::Critical => stretch::criticality(profile, &stacks, query.is_over_time() || by_feature),
        _ => stretch::lifetimes(profile, &stacks),
    };
    if by_feature {
        let times = FeatureTimes::new(profile, &active);
        // Criticality is no time of its own: what is known exactly is not of it.
        stretches = times.apply(stretches, query.measure != CutMeasure::Critical);
    }
    let of_state = |stretch: &Stretch| match query.measure {
        CutMeasure::OnCpu => stretch.state == State::Running,
        CutMeasure::Runnable => stretch.state == State::Runnable,
        CutMeasure::Blocked => stretch.state == State::Blocked,
        _ => true,
    };
    stretches.retain(of_state);
    if query.measure == CutMeasure::Samples {
        stretches.retain(|stretch| stretch.samples > 0);
        stretches.iter_mut().for_each(|stretch| (stretch.weight, stretch.estimated) = (stretch.samples, false));
    }
    Ok(sum(query, &keys, stretches, range, Keys::of))
}

/// Sums up stretches by their keys.
fn sum<'a, S: Part>(
    query: &CutQuery,
    keys: &Keys<'a>,
    stretches: Vec<S>,
    (from, to): (i64, i64),
    key: impl Fn(&Keys<'a>, CutDimension, &S) -> KeyId,
) -> CutView {
    let mut tests = Tests::new(query.filter.as_ref());
    let mut numbers: FxHashMap<Vec<i64>, u32> = FxHashMap::default();
    let (mut values, mut whole) = (Vec::new(), 0);
    // Known exactly of each thread, and nearly so over time.
    let is_known = |dimension| CutDimension::is_margin(dimension) || matches!(dimension, CutDimension::Time(_));
    let by_stack = query.filter.iter().any(|filter| filter.terms.iter().any(|term| term.subject == Subject::Stack));
    let known = query.uses().all(is_known) && !by_stack && query.measure != CutMeasure::Critical;
    let exact = known && !query.is_over_time();
    let mut intervals = Intervals::new(known);
    let step = query.step();
    for stretch in &stretches {
        whole += stretch.weight();
        if !exact && stretch.is_estimated() {
            intervals.add_all(stretch.task(), stretch.sampled(stretch.weight()));
        }
        if !tests.hold(query, keys, stretch, &key) {
            continue;
        }
        let of: Vec<i64> = query.by.iter().map(|&dimension| i64::from(key(keys, dimension, stretch))).collect();
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
            let next = values.len() as u32;
            let row = *numbers.entry(of).or_insert(next);
            if row == next {
                values.push(0);
            }
            values[row as usize] += weight;
            if !exact && stretch.is_estimated() {
                intervals.add(row, stretch.task(), stretch.sampled(weight));
            }
        };
        stretch.pieces(from, to, step, &mut add);
    }
    let mut found: Vec<(Vec<i64>, u32)> = numbers.into_iter().collect();
    found.sort_unstable_by_key(|(_, row)| *row);
    let total: i64 = values.iter().sum();
    let row = |(of, row): (Vec<i64>, u32)| {
        let value = values[row as usize];
        let half = intervals.half_width(row);
        let spread = |at: f64| (value as f64 + at).round() as i64;
        let key = |(key, dimension): (&i64, &CutDimension)| match dimension {
            CutDimension::Time(_) => CutKey::Time(*key),
            _ => keys.interner.text(*key as KeyId).map_or(CutKey::None, |text| CutKey::Name(text.to_owned())),
        };
        CutRow {
            keys: of.iter().zip(&query.by).map(key).collect(),
            value,
            low: spread(-half).clamp(0, value),
            high: spread(half).max(value),
            share: if total == 0 { 0.0 } else { value as f64 / total as f64 },
        }
    };
    let mut rows: Vec<CutRow> = found.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.keys.cmp(&b.keys)));
    CutView {
        by: query.by.clone(),
        measure: query.measure,
        unit: query.measure.unit(),
        filter: query.filter.as_ref().map(|filter| filter.as_str().to_owned()),
        from_ns: query.from_ns,
        to_ns: query.to_ns,
        total,
        whole,
        rows,
    }
}

/// What is summed up: a part of a thread's life, or calls.
trait Part {
    /// In the unit of the measure.
    fn weight(&self) -> i64;
    /// The weight comes from samples.
    fn is_estimated(&self) -> bool;
    /// The thread whose samples it is one of.
    fn task(&self) -> u32;
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

    fn task(&self) -> u32 {
        self.task
    }

    fn sampled(&self, weight: i64) -> Sampled {
        Sampled::new(weight, self.samples)
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
