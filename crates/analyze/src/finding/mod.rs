//! The findings of a run, in plain words.
//!
//! One file per kind of finding; each holds its thresholds as named constants with the reason for the number. A
//! finding needs two things: a pattern (how often, how small, how unequal) and a cost that would be worth having
//! back. Patterns alone are not reported.

mod api;
mod component;
mod critical;
mod culprit;
mod facts;
mod feature;
mod imbalance;
mod latency;
mod lock;
mod memory;
pub(crate) mod runtime;
mod waiting;
mod walk;
pub(crate) mod words;

use serde::Serialize;
use transect_profile_model::Profile;

use crate::prepared::Prepared;
use crate::{CriticalityView, FeaturesView, WalkView};

/// The kind of a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A library takes an unusual share of the time.
    HeavyComponent,
    /// One API takes a large share of the time.
    HeavyApi,
    /// An API is called very often for very little each time.
    TinyCalls,
    /// Input or output in tiny pieces.
    TinyIo,
    /// Waiting takes more than a third of the time.
    Waiting,
    /// Groups of threads, or threads of one group, differ widely in busy time.
    Imbalance,
    /// A lock that is taken very often without contention, at a cost.
    HotLock,
    /// A lock that threads wait for.
    ContendedLock,
    /// Memory is returned to the kernel again and again.
    EagerMemoryReturn,
    /// A function whose slowest calls take many times the median, and much of its time.
    HeavyTail,
    /// A function whose median duration changed in mid-run.
    LatencyShift,
    /// A lock, a barrier, a file or whatever else holds the program up.
    CriticalWait,
    /// Code that runs while most CPUs have nothing to do.
    SerialCode,
    /// Threads wait for others in a loop.
    Spinning,
    /// More threads are active than there are CPUs.
    Oversubscription,
    /// The function at the end of a walk's chain, and what it waits for.
    WalkedChain,
    /// A feature that takes a large share of the time.
    HeavyFeature,
    /// Features that take time only together.
    FeatureInteraction,
    /// Parts of features that were not measured.
    FeatureGap,
    /// A function that takes a large share of the time itself.
    HotCode,
    /// A program waits: for a disk, a peer, a timer.
    Blocked,
    /// Processes are started again and again.
    ProcessStarts,
    /// Threads are started again and again.
    ThreadStarts,
    /// There is no finding.
    #[default]
    Nothing,
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Each event was seen.
    Exact,
    /// Estimated from samples that are many enough.
    Interval,
    /// Estimated from few samples.
    FewSamples,
}

/// What a finding is about; what is not known, or not part of it, is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Place {
    pub component: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<i32>,
    pub api: Option<String>,
    pub object: Option<String>,
    pub feature: Option<String>,
    pub thread_group: Option<String>,
}

/// One finding, in plain words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FindingRow {
    /// What was found, in one sentence.
    pub finding: String,
    /// The numbers behind it, with units.
    pub evidence: String,
    /// View that shows it, a value of `--view`.
    pub view: String,
    /// What to run or do next.
    pub next: String,
    /// Kind of finding, for programs that filter.
    pub kind: FindingKind,
    /// Estimated share of all threads' time that it concerns, 0–100.
    pub percent: f64,
    /// Share of the run's wall time that its repair could save at most, 0–100; `None` if unknown. Findings are ranked by
    /// it, else by `percent`.
    pub saves_percent: Option<f64>,
    /// How sure it is; `None` for findings about the recording itself.
    pub confidence: Option<Confidence>,
    /// What it is about.
    #[serde(rename = "where")]
    pub place: Place,
}

/// More findings than this are not read.
const MOST_FINDINGS: usize = 12;

/// The findings of the run, weightiest first; one row of kind [`FindingKind::Nothing`] if nothing does.
pub fn summary(profile: &Profile) -> Vec<FindingRow> {
    let prepared = Prepared::new(profile);
    let view = crate::criticality::of(profile, &prepared.names);
    let walk = crate::walk::of(profile, &prepared.names);
    of(&prepared, view.as_ref(), walk.as_ref(), &crate::feature::of(&prepared))
}

/// `view`, `walk` and `features` are the scheduler's view, the walk and the features of the whole profile.
pub(crate) fn of(
    prepared: &Prepared<'_>,
    view: Option<&CriticalityView>,
    walk: Option<&WalkView>,
    features: &FeaturesView,
) -> Vec<FindingRow> {
    let facts = facts::Facts::new(prepared);
    let mut findings = match view.filter(|view| culprit::can_name(view)) {
        Some(view) => culprit::find(view, &facts),
        None => by_calls(&facts, view),
    };
    latency::find(prepared, &mut findings);
    if let Some(walk) = walk.filter(|_| profile_is_walk(&facts)) {
        let launched = prepared.profile.processes.first().map_or(0, |process| process.pid);
        walk::find(walk, launched, facts.totals.wall_ns, &mut findings);
    }
    feature::find(prepared.profile, features, &mut findings);
    let rank = |row: &FindingRow| row.saves_percent.unwrap_or(row.percent);
    findings.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then_with(|| a.finding.cmp(&b.finding)));
    findings.truncate(MOST_FINDINGS);
    if findings.is_empty() {
        findings.push(match walk.filter(|_| profile_is_walk(&facts)) {
            Some(walk) => walk::nothing(walk),
            None if facts.profile.flows.is_empty() && features.session.is_some() => feature::nothing(features),
            None => nothing(&facts, view),
        });
    }
    findings
}

/// What calls between components alone tell, with what is known of waits.
fn by_calls(facts: &facts::Facts<'_>, view: Option<&CriticalityView>) -> Vec<FindingRow> {
    let mut findings = Vec::new();
    let mut explained = Vec::new();
    memory::find(facts, &mut findings, &mut explained);
    lock::find(facts, &mut findings, &mut explained);
    api::find(facts, &mut findings, &mut explained);
    component::find(facts, &mut findings, &explained);
    waiting::find(facts, &mut findings);
    if let Some(view) = view
        && critical::find(view, &mut findings)
    {
        // The agent's findings of waiting say the same with less detail.
        findings.retain(|row| !matches!(row.kind, FindingKind::Waiting | FindingKind::ContendedLock));
    }
    imbalance::find(facts, &mut findings);
    findings
}

/// Nothing but a walk was recorded.
fn profile_is_walk(facts: &facts::Facts<'_>) -> bool {
    let meta = &facts.profile.meta;
    facts.profile.flows.is_empty() && meta.latency.is_none() && meta.criticality.is_none()
}

fn nothing(facts: &facts::Facts<'_>, view: Option<&CriticalityView>) -> FindingRow {
    if let Some(view) = view.filter(|_| facts.profile.flows.is_empty()) {
        return FindingRow {
            finding: "No finding".to_owned(),
            evidence: format!(
                "{} examined over {}; nothing holds the program up for a twentieth of it",
                words::counted(view.threads.len() as i64, "thread", "threads"),
                words::time(view.run_ns())
            ),
            view: "criticality".to_owned(),
            next: "Compare the call paths: --view criticality".to_owned(),
            kind: FindingKind::Nothing,
            percent: 0.0,
            ..FindingRow::default()
        };
    }
    let sampled = facts.profile.latency.iter().filter(|latency| latency.samples > 0).count();
    let functions = words::counted(sampled as i64, "function", "functions");
    if facts.profile.flows.is_empty() && facts.profile.meta.latency.is_some() {
        return FindingRow {
            finding: "No finding".to_owned(),
            evidence: if crate::latency_metric(facts.profile).is_time() {
                format!("latencies of {functions} examined for heavy tails and shifts")
            } else {
                format!("calls of {functions} counted; only times are examined")
            },
            view: "latency".to_owned(),
            next: "Compare the functions: --view latency".to_owned(),
            kind: FindingKind::Nothing,
            percent: 0.0,
            ..FindingRow::default()
        };
    }
    let evidence = match facts.busiest_component() {
        _ if !facts.totals.timed => {
            let calls = words::count(facts.totals.calls);
            format!("{calls} calls were counted; no times were taken (--timing count), so only counts were examined")
        }
        Some((name, percent)) => format!(
            "{} of threads' lifetime examined; the busiest component, {name}, has {}; waiting has {}",
            words::time(facts.totals.lifetime_ns),
            words::percent(percent),
            words::percent(facts.raw_percent(facts.totals.wait_ns)),
        ),
        None => "no calls between components were recorded".to_owned(),
    };
    FindingRow {
        finding: "No finding".to_owned(),
        evidence,
        view: "components".to_owned(),
        next: "Compare the components: --view components".to_owned(),
        kind: FindingKind::Nothing,
        percent: 0.0,
        ..FindingRow::default()
    }
}
