use serde::Serialize;
use transect_profile_model::{ApiClass, Profile};

use crate::prepared::Prepared;
use crate::{Selection, SortKey};

mod group;
mod select;
mod sum;

use select::{Direction, select};

/// Calls of one API by one component, summed over threads, processes and contexts unless split by
/// [`Dimensions`](crate::Dimensions).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowRow {
    /// Calling component (display name).
    pub caller: String,
    /// Component that holds the API (display name).
    pub callee: String,
    /// Demangled name as asked for, without version.
    pub api: String,
    /// Raw symbol.
    pub symbol: String,
    /// Symbol version; empty if none.
    pub version: String,
    /// What kind of time the API takes.
    pub class: ApiClass,
    /// True for classes `lock` and `wait`.
    pub wait: bool,
    /// Calls entered, exact.
    pub calls: i64,
    /// How many of them were timed.
    pub timed_calls: i64,
    /// Calls left by unwinding, longjmp or thread end.
    pub abandoned_calls: i64,
    /// Wall time from entry to return, ns; `None` where no times are taken.
    pub total_ns: Option<i64>,
    /// `total_ns` less the calls that the callee made meanwhile into other components, ns.
    pub self_ns: Option<i64>,
    /// Of `self_ns`, in calls that callbacks made, ns: they are rows of their own as well; present where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_back_ns: Option<i64>,
    /// Of `total_ns` on a CPU, ns; this and the next two add up to it, and are `None` where it is not known, as in rows split by
    /// [`Dimensions`](crate::Dimensions).
    pub on_cpu_ns: Option<i64>,
    /// Of `total_ns` without a CPU for want of one, ns.
    pub runnable_ns: Option<i64>,
    /// Of `total_ns` blocked, ns.
    pub blocked_ns: Option<i64>,
    /// `total_ns`, each instant divided by max(1, active threads).
    pub attributed_ns: Option<i64>,
    /// Criticality gained during the calls, waits left out, ns; present where the scheduler was recorded too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criticality_ns: Option<i64>,
    /// Lower end of the 95 % interval of `total_ns`; present only where calls were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ns_low: Option<i64>,
    /// Upper end of that interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ns_high: Option<i64>,
    /// Lower end of the 95 % interval of `self_ns`; present only where calls were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ns_low: Option<i64>,
    /// Upper end of that interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ns_high: Option<i64>,
    /// Median call, ns; present with `--histogram`. Summed rows interpolate between their parts' quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<i64>,
    /// 99th percentile, ns; present with `--histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<i64>,
    /// Longest call, ns; present with `--histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<i64>,
    /// Bytes asked for, where the API's size argument is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// True if the callers got the function by dlsym.
    pub dlsym: bool,
    /// Thread name; present when split by thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Kernel thread id; present when split by thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    /// Process id; present when split by process or thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<i32>,
    /// Context of the calls, empty for the program as a whole; present when split by feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
}

/// All callers of one API together, for views that drill down from component to API to callers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApiGroup {
    /// Component that holds the API (display name).
    pub callee: String,
    /// Demangled name.
    pub api: String,
    /// What kind of time the API takes.
    pub class: ApiClass,
    /// Calls of all callers.
    pub calls: i64,
    /// Wall time of all callers, ns.
    pub total_ns: Option<i64>,
    /// Self time of all callers, ns.
    pub self_ns: Option<i64>,
    /// Attributed time of all callers, ns.
    pub attributed_ns: Option<i64>,
    /// Share of all threads' attributed lifetime in `attributed_ns`, 0–100.
    pub percent: Option<f64>,
    /// Bytes asked for by all callers, where known.
    pub bytes: Option<i64>,
    /// One row per caller (and per split), longest first.
    pub callers: Vec<FlowRow>,
}

/// The API view. Without a component filter everything is `incoming`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApisView {
    /// APIs that the chosen component offers and others call.
    pub incoming: Vec<ApiGroup>,
    /// APIs of other components that the chosen component calls.
    pub outgoing: Vec<ApiGroup>,
}

impl ApisView {
    /// The rows of both directions, as JSON and CSV print them under `flows`; a row in both directions once.
    pub fn rows(&self) -> Vec<&FlowRow> {
        self.incoming.iter().chain(&self.outgoing).flat_map(|group| &group.callers).collect()
    }
}

/// Flows from and into the chosen component, longest first.
pub fn flows(profile: &Profile, selection: &Selection) -> Vec<FlowRow> {
    of(&Prepared::new(profile), selection)
}

pub(crate) fn of(prepared: &Prepared<'_>, selection: &Selection) -> Vec<FlowRow> {
    select(prepared, selection, Direction::Either, true)
}

/// Flows into the chosen component's APIs: who calls them.
pub fn callers(profile: &Profile, selection: &Selection) -> Vec<FlowRow> {
    select(&Prepared::new(profile), selection, Direction::Into, true)
}

/// APIs of the chosen component and those that it calls, each with its callers; `top` and `min_percent` count APIs.
pub fn apis(profile: &Profile, selection: &Selection) -> ApisView {
    let prepared = Prepared::new(profile);
    let side = |direction| group::by_api(select(&prepared, selection, direction, false), &prepared.totals, selection);
    let incoming = side(Direction::Into);
    let outgoing = if selection.component.is_some() { side(Direction::From) } else { Vec::new() };
    ApisView { incoming, outgoing }
}

/// The number by which a sort key orders; `None` last.
fn sort_value(
    key: SortKey,
    class: ApiClass,
    [total_ns, self_ns, attributed_ns, bytes]: [Option<i64>; 4],
    calls: i64,
) -> Option<i64> {
    match key {
        SortKey::Total | SortKey::P99 | SortKey::Max => total_ns,
        SortKey::Mean => total_ns.map(|ns| ns / calls.max(1)),
        SortKey::SelfTime => self_ns,
        SortKey::Attributed => attributed_ns,
        SortKey::Wait => total_ns.filter(|_| class.is_wait()),
        SortKey::Calls => Some(calls),
        SortKey::Bytes => bytes,
        SortKey::Name => None,
    }
}

fn add(sum: &mut Option<i64>, part: Option<i64>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or(0).saturating_add(part));
    }
}
