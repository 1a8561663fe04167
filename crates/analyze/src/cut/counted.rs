//! Calls and bytes: counted exactly by the agent, for what it tells apart.

use transect_profile_model::Profile;

use super::dimension::{CutDimension, CutMeasure};
use super::filter::Subject;
use super::interval::Sampled;
use super::keys::{KeyId, Keys, ThreadKeys};
use super::sum::Part;
use super::{CutError, CutQuery};
use crate::Names;
use crate::feature::ActiveSets;

/// Calls of one flow.
pub(super) struct Calls {
    count: i64,
    thread: ThreadKeys,
    features: u32,
    component: KeyId,
    api: KeyId,
    caller: KeyId,
}

/// The flows of a profile.
pub(super) fn calls(
    profile: &Profile,
    query: &CutQuery,
    names: &Names,
    active: &ActiveSets,
    keys: &mut Keys<'_>,
) -> Result<Vec<Calls>, CutError> {
    let measure = query.measure.as_str();
    if profile.flows.is_empty() {
        return Err(CutError::NoCalls { measure });
    }
    let not_counted = |dimension: String| CutError::NotCounted { measure, dimension };
    if let Some(dimension) = query.uses().find(|dimension| !dimension.is_of_calls()) {
        return Err(not_counted(dimension.to_string()));
    }
    if query.filter.iter().any(|filter| filter.terms.iter().any(|term| term.subject == Subject::Stack)) {
        return Err(not_counted("stack".to_owned()));
    }
    if query.is_over_time() {
        return Err(not_counted("time".to_owned()));
    }
    let interner = &mut keys.interner;
    let mut thread = |thread: &transect_profile_model::Thread| {
        ThreadKeys::new(interner, profile, thread.process, thread.tid, &thread.name, &thread.group)
    };
    let threads: Vec<ThreadKeys> = profile.threads.iter().map(&mut thread).collect();
    let flow = |flow: &transect_profile_model::Flow| Calls {
        count: if query.measure == CutMeasure::Bytes { flow.bytes.unwrap_or(0) } else { flow.calls },
        thread: threads.get(flow.thread as usize).copied().unwrap_or_default(),
        features: active.of_context.get(flow.context as usize).copied().unwrap_or(0),
        component: interner.id(names.get(flow.callee)),
        api: interner.id(&flow.api),
        caller: interner.id(names.get(flow.caller)),
    };
    Ok(profile.flows.iter().map(flow).collect())
}

/// The key of a flow.
pub(super) fn key(keys: &Keys<'_>, dimension: CutDimension, calls: &Calls) -> KeyId {
    match dimension {
        CutDimension::Process => calls.thread.process,
        CutDimension::Thread => calls.thread.thread,
        CutDimension::ThreadGroup => calls.thread.group,
        CutDimension::Feature => keys.feature(calls.features).0,
        CutDimension::Component => calls.component,
        CutDimension::Api => calls.api,
        CutDimension::Caller => calls.caller,
        other => keys.of_run(other),
    }
}

impl Part for Calls {
    fn weight(&self) -> i64 {
        self.count
    }

    fn is_estimated(&self) -> bool {
        false
    }

    fn stratum(&self) -> u64 {
        0
    }

    fn sampled(&self, _: i64) -> Sampled {
        Sampled::default()
    }

    fn functions<'k>(&self, _: &'k Keys<'_>) -> &'k [KeyId] {
        &[]
    }

    fn features<'k>(&self, keys: &'k Keys<'_>) -> &'k [KeyId] {
        keys.feature(self.features).1
    }

    fn pieces(&self, _: i64, _: i64, _: Option<i64>, add: &mut impl FnMut(Option<i64>, i64)) {
        add(None, self.count);
    }
}
