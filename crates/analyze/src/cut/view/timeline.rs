//! What each thread did when: its states in steps of time.

use std::collections::BTreeMap;

use serde::Serialize;
use transect_profile_model::Profile;

use super::super::{CutDimension, CutError, CutKey, CutQuery, cut};
use super::StateTimes;

/// Steps of a timeline.
const STEPS: i64 = 60;

/// One thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadLane {
    /// Its name and id.
    pub thread: String,
    /// Its whole time within the range, by state.
    #[serde(flatten)]
    pub states: StateTimes,
    /// The same in each step.
    pub steps: Vec<StateTimes>,
}

/// Threads over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineView {
    /// Where the first step begins, since the recording's start, ns.
    pub from_ns: i64,
    /// Length of a step, ns.
    pub step_ns: i64,
    /// The filter as it was written.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// Threads, those that ran most first.
    pub threads: Vec<ThreadLane>,
}

/// Threads of the profile.
pub(super) fn timeline(profile: &Profile, query: &CutQuery) -> Result<TimelineView, CutError> {
    let wall_ns = profile.meta.wall_ns.max(1);
    let (from, to) = (query.from_ns.unwrap_or(0).max(0), query.to_ns.unwrap_or(wall_ns).min(wall_ns));
    let step_ns = ((to - from).max(1) + STEPS - 1) / STEPS;
    // Steps begin at multiples of their length.
    let from_ns = from / step_ns * step_ns;
    let by = vec![CutDimension::Thread, CutDimension::State, CutDimension::Time(step_ns)];
    let rows = cut(profile, &CutQuery { by, ..query.clone() })?.rows;
    let steps = (((to - from_ns).max(1) + step_ns - 1) / step_ns) as usize;
    let mut threads: BTreeMap<String, ThreadLane> = BTreeMap::new();
    for row in rows {
        let [CutKey::Name(thread), CutKey::Name(state), CutKey::Time(begin)] = &row.keys[..] else { continue };
        let lane = threads.entry(thread.clone()).or_insert_with(|| ThreadLane {
            thread: thread.clone(),
            states: StateTimes::default(),
            steps: vec![StateTimes::default(); steps],
        });
        let step = usize::try_from((begin - from_ns) / step_ns).ok().and_then(|step| lane.steps.get_mut(step));
        for times in [Some(&mut lane.states), step].into_iter().flatten() {
            times.add_named(state, row.value);
        }
    }
    let mut threads: Vec<ThreadLane> = threads.into_values().collect();
    threads.sort_by_key(|lane| std::cmp::Reverse((lane.states.on_cpu_ns, lane.states.total())));
    Ok(TimelineView {
        from_ns,
        step_ns,
        filter: query.filter.as_ref().map(|filter| filter.as_str().to_owned()),
        threads,
    })
}
