//! Time of each system call: exact where the kernel's collector counted them, else by samples and waits. Without privileges
//! it was looked at some of the waits: they say how the time blocked divides among the calls.

use std::collections::BTreeMap;

use serde::Serialize;
use transect_profile_model::{Profile, WalkSystemCall};

use super::super::stretch::{State, is_estimate};
use super::super::{CutDimension, CutError, CutKey, CutQuery, cut};
use super::StateTimes;
use crate::walk::entered;

/// One system call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SystemCallRow {
    /// Its name.
    pub system_call: String,
    /// Times entered; `null` where they were not counted.
    pub calls: Option<i64>,
    /// Time of all threads in it, ns.
    pub total_ns: i64,
    /// The same by state.
    #[serde(flatten)]
    pub states: StateTimes,
    /// Counted and timed one by one; else the times are of samples and waits.
    pub exact: bool,
    /// 95 % interval of the time, ns.
    pub total_ns_low: i64,
    /// See `total_ns_low`.
    pub total_ns_high: i64,
    /// The time blocked, too, is an estimate: only some of the waits were looked at.
    pub blocked_estimated: bool,
}

/// Time blocked of which nobody saw in which call it was.
pub const NOT_SEEN: &str = "[not seen]";
/// Less of it is what rounding left, ns.
const LEAST_NOT_SEEN: i64 = 1000;

/// Time by state of the calls that were counted, by name.
fn by_name<'a>(counted: &[&'a WalkSystemCall]) -> BTreeMap<&'a str, StateTimes> {
    let mut sums: BTreeMap<&str, StateTimes> = BTreeMap::new();
    for call in counted {
        let states = sums.entry(&call.name).or_default();
        states.on_cpu_ns += call.on_ns;
        states.runnable_ns += call.runnable_ns;
        states.blocked_ns += call.blocked_ns;
    }
    sums
}

/// System calls of the profile, by total time.
pub(super) fn system_calls(profile: &Profile, query: &CutQuery) -> Result<Vec<SystemCallRow>, CutError> {
    let counted: Vec<&WalkSystemCall> = entered(profile).collect();
    // Where they come too fast, only those of the beginning are counted.
    let all_counted = profile.meta.walk.as_ref().is_none_or(|walk| walk.system_calls_until_ns.is_none());
    let unlimited = query.filter.is_none() && query.from_ns.is_none() && query.to_ns.is_none();
    let whole = all_counted && unlimited;
    let looked = is_estimate(profile);
    let mut rows: BTreeMap<String, SystemCallRow> = BTreeMap::new();
    let mut intervals: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let empty = |name: &str, calls: Option<i64>| SystemCallRow {
        system_call: name.to_owned(),
        calls,
        total_ns: 0,
        states: StateTimes::default(),
        exact: calls.is_some(),
        total_ns_low: 0,
        total_ns_high: 0,
        blocked_estimated: looked && calls.is_none(),
    };
    if whole && !counted.is_empty() {
        for call in &counted {
            let row = rows.entry(call.name.clone()).or_insert_with(|| empty(&call.name, Some(0)));
            row.calls = row.calls.map(|calls| calls + call.calls);
            row.states.on_cpu_ns += call.on_ns;
            row.states.runnable_ns += call.runnable_ns;
            row.states.blocked_ns += call.blocked_ns;
        }
    } else {
        for row in cut(profile, &CutQuery { by: vec![CutDimension::SystemCall], ..query.clone() })?.rows {
            if let [CutKey::Name(name)] = &row.keys[..] {
                intervals.insert(name.clone(), (row.low, row.high));
            }
        }
        let by = vec![CutDimension::SystemCall, CutDimension::State];
        for row in cut(profile, &CutQuery { by, ..query.clone() })?.rows {
            let (name, state) = match &row.keys[..] {
                [CutKey::Name(name), CutKey::Name(state)] => (name.as_str(), state),
                [CutKey::None, CutKey::Name(state)]
                    if looked && state == State::Blocked.as_str() && row.value >= LEAST_NOT_SEEN =>
                {
                    (NOT_SEEN, state)
                }
                _ => continue,
            };
            let states = &mut rows.entry(name.to_owned()).or_insert_with(|| empty(name, None)).states;
            states.add_named(state, row.value);
        }
        // The whole is no less than its beginning, which was counted exactly, whatever samples met.
        for (name, part) in by_name(&counted).into_iter().filter(|_| unlimited) {
            let states = &mut rows.entry(name.to_owned()).or_insert_with(|| empty(name, None)).states;
            states.on_cpu_ns = states.on_cpu_ns.max(part.on_cpu_ns);
            states.runnable_ns = states.runnable_ns.max(part.runnable_ns);
            states.blocked_ns = states.blocked_ns.max(part.blocked_ns);
        }
    }
    let mut rows: Vec<SystemCallRow> = rows.into_values().collect();
    for row in &mut rows {
        row.total_ns = row.states.total();
        let exact = (row.total_ns, row.total_ns);
        let (low, high) = intervals.get(&row.system_call).copied().unwrap_or(exact);
        (row.total_ns_low, row.total_ns_high) = (low, high.max(row.total_ns));
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), std::cmp::Reverse(row.calls)));
    Ok(rows)
}
