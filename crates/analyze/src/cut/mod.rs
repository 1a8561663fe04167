//! The cut: one sum over a profile by any dimensions, in any order (`transect report DIR --by … --measure …`).
//!
//! Every collector's facts become weighted stretches of threads' lives ([`stretch`]); a cut is their sum by keys. Weights are
//! integers that add up to the exact totals, so rows add up to the total by whatever dimensions, to the nanosecond. Calls
//! and bytes are counted by the agent and can be cut by what it knows ([`counted`]).

mod active_features;
mod columns;
mod counted;
mod dimension;
mod filter;
mod interval;
mod keys;
mod placed;
mod rake;
mod stack_keys;
mod stretch;
mod sum;
mod view;

use serde::{Serialize, Serializer};
use transect_profile_model::{Profile, StackId};

pub use columns::{CutColumns, CutFrame, CutList, CutPart, CutParts, MOST_CUT_PARTS, cut_columns};
pub use dimension::{CutDimension, CutDimensions, CutMeasure, ExactDuration, parse_duration};
pub use filter::{CutFilter, FilterError, term_of_key};
pub use view::{
    AddressTimes, AnnotateView, CallNode, CallTree, CutReading, CutViewKind, Disassembly, FunctionAddress,
    FunctionAddresses, HotRow, HotView, InstructionTimes, LineTimes, StateTimes, SystemCallRow, ThreadLane,
    TimelineView, function_addresses, view,
};

use crate::Names;
use crate::criticality::wait_stacks;
use crate::feature::ActiveSets;
use active_features::FeatureTimes;
use filter::Subject;
use keys::Keys;
use stretch::{State, Stretch};
use sum::{Known, sum};

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
    /// Whether the timeline is needed: the answer depends on when things happened.
    pub fn needs_timeline(&self) -> bool {
        self.is_over_time() || self.uses().any(|dimension| dimension == CutDimension::Feature)
    }

    /// Whether the answer is of a range or of steps of time.
    pub(crate) fn is_over_time(&self) -> bool {
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
    /// More rows than anyone could read, or memory hold.
    #[error(
        "the cut has more than {most} rows: use fewer dimensions, a longer step of time, or --where, --from and --to"
    )]
    TooManyRows {
        /// Rows at most.
        most: usize,
    },
    /// A view of lines without a function.
    #[error("lines of which function: add --function NAME (its name as in --view hot)")]
    NoFunction,
    /// Only lines are known.
    #[error(
        "the profile does not tell at which instructions threads were: a version of Transect recorded it that kept lines only, or \
         without samples. Record the program again, with --collect sched"
    )]
    NoAddresses,
    /// It has no time.
    #[error("`{function}` is not the name of one function with time; there are: {near}")]
    UnknownFunction {
        /// The name given.
        function: String,
        /// Functions with names like it.
        near: String,
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
    /// The sum, in [`CutScope::unit`].
    pub value: i64,
    /// Its 95 % interval; equal to the value where it is exact.
    pub low: i64,
    /// See `low`.
    pub high: i64,
    /// Part of [`CutScope::total`], 0–1.
    pub share: f64,
}

/// What a sum is of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutScope {
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
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutView {
    /// The dimensions.
    pub by: Vec<CutDimension>,
    /// What is summed up.
    #[serde(flatten)]
    pub scope: CutScope,
    /// All rows, largest first.
    pub rows: Vec<CutRow>,
}

/// Measures that a profile can be cut by.
pub fn measures(profile: &Profile) -> Vec<CutMeasure> {
    let holds = |measure: &CutMeasure| match measure {
        CutMeasure::Samples => !profile.sched.samples.is_empty(),
        CutMeasure::Calls => !profile.flows.is_empty(),
        CutMeasure::Bytes => profile.flows.iter().any(|flow| flow.bytes.is_some()),
        _ => !profile.sched.tasks.is_empty(),
    };
    CutMeasure::ALL.into_iter().filter(holds).collect()
}

/// Steps of time at most.
const MOST_STEPS: i64 = 100_000;

/// Cuts a profile. Of one that was read without its timeline, `from_ns`, `to_ns` and steps of time are as exact as samples
/// alone allow.
///
/// # Errors
/// [`CutError`] where the profile does not hold what the query needs.
pub fn cut(profile: &Profile, query: &CutQuery) -> Result<CutView, CutError> {
    if !matches!(query.measure, CutMeasure::Calls | CutMeasure::Bytes) {
        return of_stretches(profile, query, |keys, stretches, range, known| {
            sum(query, keys, stretches, range, known, Keys::of)
        });
    }
    let range = range(profile, query)?;
    let names = Names::new(profile);
    let active = ActiveSets::new(&profile.feature);
    check_features(profile, query)?;
    let mut keys = Keys::new(profile, &names, &active, false);
    let calls = counted::calls(profile, query, &names, &active, &mut keys)?;
    sum(query, &keys, calls, range, Known { waits: true, when: true }, counted::key)
}

/// The range of time that is asked for, ns.
fn range(profile: &Profile, query: &CutQuery) -> Result<(i64, i64), CutError> {
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
    Ok(range)
}

/// Features can be told apart if there are any.
fn check_features(profile: &Profile, query: &CutQuery) -> Result<bool, CutError> {
    let by_feature = query.uses().any(|dimension| dimension == CutDimension::Feature);
    if by_feature && profile.feature.features.is_empty() {
        return Err(CutError::NoFeatures);
    }
    Ok(by_feature)
}

/// Gives `finish` the stretches that the measure is of, with their keys.
fn of_stretches<T>(
    profile: &Profile,
    query: &CutQuery,
    finish: impl FnOnce(&Keys<'_>, Vec<Stretch>, (i64, i64), Known) -> Result<T, CutError>,
) -> Result<T, CutError> {
    let range = range(profile, query)?;
    let names = Names::new(profile);
    let active = ActiveSets::new(&profile.feature);
    let keys = Keys::new(profile, &names, &active, query.by.contains(&CutDimension::Stack));
    let by_feature = check_features(profile, query)?;
    if profile.sched.tasks.is_empty() {
        return Err(CutError::NoStretches { measure: query.measure.as_str() });
    }
    if by_feature && !knows_features(profile) {
        return Err(CutError::NoFeatures);
    }
    let stacks = wait_stacks(&profile.sched);
    let active = by_feature.then_some(&active);
    let mut stretches = stretches(profile, &stacks, query.measure, query.needs_timeline(), active);
    let of_state = |stretch: &Stretch| match query.measure {
        CutMeasure::OnCpu => stretch.state == State::Running,
        CutMeasure::Runnable => stretch.state == State::Runnable,
        CutMeasure::Blocked => stretch.state == State::Blocked,
        _ => true,
    };
    stretches.retain(of_state);
    // Each wait is known by itself; who only spins is known by samples, and without privileges not every wait is looked at.
    let waits = !stretches.iter().any(|stretch| stretch.spin || stretch.state == State::Blocked && stretch.estimated);
    let when = !query.is_over_time() || !profile.sched.slices.is_empty();
    finish(&keys, stretches, range, Known { waits, when })
}

/// Whether it is known when features were active: without any region entered all time is that of no feature.
fn knows_features(profile: &Profile) -> bool {
    let entered = profile.feature.nodes.iter().any(|node| node.region.is_some());
    !profile.feature.features.is_empty() && (!entered || !profile.feature.slices.is_empty())
}

/// The stretches that a measure is of, in all states. `placed`: along the threads' slices; `active`: divided by active features.
fn stretches(
    profile: &Profile,
    wait_stacks: &[Option<StackId>],
    measure: CutMeasure,
    placed: bool,
    active: Option<&ActiveSets>,
) -> Vec<Stretch> {
    let mut stretches = match measure {
        CutMeasure::Critical => stretch::criticality(profile, wait_stacks, placed),
        // A sample has its own instant.
        CutMeasure::Samples => stretch::lifetimes(profile, wait_stacks, false),
        _ => stretch::lifetimes(profile, wait_stacks, placed),
    };
    if let Some(active) = active {
        let times = FeatureTimes::new(profile, active);
        // Criticality is no time of its own: what is known exactly is not of it.
        stretches = times.apply(stretches, measure != CutMeasure::Critical);
    }
    if measure == CutMeasure::Samples {
        stretches.retain(|stretch| stretch.samples > 0);
        stretches.iter_mut().for_each(|stretch| (stretch.weight, stretch.estimated) = (stretch.samples, false));
    }
    stretches
}
