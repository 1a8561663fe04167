//! What is worth timing, and the next few of it.

use std::collections::{BTreeMap, HashMap};

use transect_profile_model::ShareMethod;

use crate::{
    CallTree, Callee, Function, MOST_KERNEL, MOST_USER, NodeId, Settings, Share, Unit,
    calls::{Call, Calls},
    evidence::Timings,
    shares::HALF_INTERVAL,
};

/// A share of a group's total that is known to this (half of its interval) is known well enough.
const FINE: f64 = 0.01;

/// A call that is worth timing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Want {
    pub call: Call,
    /// Samples can't tell on which side of the threshold it is.
    pub straddles: bool,
    pub share: f64,
}

/// What is worth timing in one tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    /// Callers first.
    pub wanted: Vec<Want>,
    /// A decision is uncertain that no timing can make certain: more samples may.
    pub uncertain: bool,
    /// Why nodes that were worth it are not timed.
    pub notes: HashMap<NodeId, String>,
}

impl Needs {
    pub fn of(tree: &CallTree, calls: &Calls, shares: &[Share], timings: &Timings, settings: &Settings) -> Self {
        let mut needs = Self::default();
        let mut wanted: BTreeMap<Call, usize> = BTreeMap::new();
        for (id, node) in tree.nodes.iter().enumerate() {
            let share = &shares[id];
            if node.parent.is_some_and(|parent| shares[parent as usize].share < settings.threshold) {
                continue;
            }
            let straddles = share.low < settings.threshold && share.high >= settings.threshold;
            if !straddles && share.share < settings.threshold {
                continue;
            }
            let loose = calls.to(tree, id as NodeId).and_then(|call| {
                let sampled = calls.sampled.get(&call)?;
                let caller = &shares[calls.caller[id]? as usize];
                let ratio = timings.ratio(call, sampled.variance).map_or(sampled.variance, |ratio| ratio.variance);
                (HALF_INTERVAL * ratio.sqrt() * caller.share > FINE).then_some(call)
            });
            let blurred = straddles && share.high - share.low > 2.0 * FINE;
            let Some(call) = loose.filter(|_| straddles || share.method != ShareMethod::Exact) else {
                needs.uncertain |= blurred;
                continue;
            };
            if let Some(why) = refusal(tree, calls, call, id as NodeId, timings, settings) {
                needs.uncertain |= blurred;
                needs.notes.insert(id as NodeId, why);
                continue;
            }
            let number = *wanted.entry(call).or_insert_with(|| {
                needs.wanted.push(Want { call, straddles: false, share: 0.0 });
                needs.wanted.len() - 1
            });
            let want = &mut needs.wanted[number];
            want.straddles |= straddles;
            want.share = want.share.max(share.share);
        }
        needs
    }
}

/// Why a call can't be timed.
fn refusal(
    tree: &CallTree,
    calls: &Calls,
    call: Call,
    node: NodeId,
    timings: &Timings,
    settings: &Settings,
) -> Option<String> {
    let halves = match call {
        (Function::User { .. }, Function::User { .. }) => Ok(settings.time_user),
        (
            Function::Kernel { .. } | Function::SystemCall { .. } | Function::Exception { .. },
            Function::Kernel { .. },
        ) => Ok(settings.time_kernel),
        (_, Function::SystemCall { .. } | Function::Exception { .. }) => Err("entries of the kernel are not timed"),
        _ => Err("it has no code at a known address"),
    };
    match halves {
        _ if tree.unit == Unit::Weight => Some("the metric is not a time".to_owned()),
        _ if settings.max_probes < 2 => Some("no probes allowed".to_owned()),
        Err(why) => Some(why.to_owned()),
        Ok(false) => Some("sampled only".to_owned()),
        Ok(true) if tree.node(node).folded || calls.sampled.get(&call).is_some_and(|sampled| sampled.folded) => {
            Some("called in a recursion".to_owned())
        }
        Ok(true) => timings.refusal(call).map(str::to_owned),
    }
}

/// The next functions to time together: a caller with its callees that are worth it, where the threshold is in doubt
/// first, then from the top; what probes are left go down the same chains. `None` if nothing is worth it.
pub(crate) fn request(needs: &Needs, timings: &Timings, max_probes: usize) -> Option<(Function, Vec<Callee>)> {
    let first = needs.wanted.iter().find(|want| want.straddles).or(needs.wanted.first())?;
    let parent = first.call.0;
    // A request beyond what can be answered would be made again and again.
    let max_probes = max_probes.min(if matches!(parent, Function::User { .. }) { MOST_USER } else { MOST_KERNEL });
    let mut callees: Vec<Callee> = Vec::new();
    let mut callers: Vec<(Function, Option<usize>)> = vec![(parent, None)];
    let mut probes = max_probes - 1;
    let mut next = 0;
    while next < callers.len() && probes > 0 {
        let (caller, within) = callers[next];
        next += 1;
        let mut wanted: Vec<&Want> = needs.wanted.iter().filter(|want| want.call.0 == caller).collect();
        wanted.sort_by(|a, b| b.straddles.cmp(&a.straddles).then(b.share.total_cmp(&a.share)));
        for want in wanted {
            let function = want.call.1;
            if probes == 0 || function == parent || callees.iter().any(|callee| callee.function == function) {
                continue;
            }
            if timings.in_conflict(want.call) {
                // Measured again with half the probes.
                probes = probes.min((max_probes / 2).max(2).saturating_sub(1 + callees.len()).max(1));
            }
            callees.push(Callee { function, within });
            if !timings.is_flat() {
                callers.push((function, Some(callees.len() - 1)));
            }
            probes -= 1;
        }
    }
    Some((parent, callees))
}
