use rustc_hash::{FxBuildHasher, FxHashMap};
use transect_profile_model::Profile;

use crate::call_time::CallTimes;
use crate::feature::ActiveSets;
use crate::{Names, Totals};

/// What several views need of a profile, computed once.
pub(crate) struct Prepared<'a> {
    pub profile: &'a Profile,
    pub names: Names,
    pub totals: Totals,
    /// For each recorded flow row the number of its (caller, callee, symbol, version, API), in order of appearance.
    pub flow_of_row: Vec<u32>,
    /// How the time of calls and components divides.
    pub call_times: CallTimes,
    /// Sets of features that were active.
    pub active: ActiveSets,
}

impl<'a> Prepared<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        let (flow_of_row, distinct) = number_flows(profile);
        let (names, totals) = (Names::new(profile), Totals::new(profile, distinct));
        let call_times = CallTimes::new(profile, &flow_of_row);
        Self { profile, names, totals, flow_of_row, call_times, active: ActiveSets::new(&profile.feature) }
    }
}

/// Numbers the distinct flows, so that views sum by a small integer instead of hashing names again.
pub(crate) fn number_flows(profile: &Profile) -> (Vec<u32>, usize) {
    let mut numbers = FxHashMap::with_capacity_and_hasher(profile.flows.len().min(1 << 16), FxBuildHasher);
    let mut rows = Vec::with_capacity(profile.flows.len());
    for flow in &profile.flows {
        let next = numbers.len() as u32;
        let key = (flow.caller, flow.callee, flow.symbol.as_str(), flow.version.as_str(), flow.api.as_str());
        rows.push(*numbers.entry(key).or_insert(next));
    }
    (rows, numbers.len())
}
