//! What the contexts of flows are: from the sites where regions began to the regions themselves.

use std::collections::HashMap;

use transect_profile_model::{ComponentId, Profile, RegionContext, RegionId};

use crate::assemble::SiteStack;

/// Names the contexts of a profile's flows. `stacks`: what [`crate::harvest::Harvest::contexts`] gives; `region_of`: the
/// region that begins at an address of a component. Stacks that mean the same regions become one context; a site that is
/// in no table puts its flows into the context around it.
pub fn resolve(profile: &mut Profile, stacks: &[SiteStack], region_of: impl Fn(ComponentId, u64) -> Option<RegionId>) {
    let mut numbers: HashMap<Vec<RegionId>, u32> = HashMap::new();
    let mut contexts: Vec<RegionContext> = Vec::new();
    let renumbered: Vec<u32> = stacks
        .iter()
        .map(|stack| {
            let regions: Vec<RegionId> =
                stack.iter().filter_map(|&(component, address)| region_of(component, address)).collect();
            if regions.is_empty() {
                return 0;
            }
            *numbers.entry(regions.clone()).or_insert_with(|| {
                contexts.push(RegionContext { regions });
                contexts.len() as u32
            })
        })
        .collect();
    for flow in &mut profile.flows {
        let known = flow.context.checked_sub(1).and_then(|at| renumbered.get(at as usize));
        flow.context = known.copied().unwrap_or(0);
    }
    profile.feature.contexts = contexts;
}

/// Takes the contexts of flows away, where it is not known what they are.
pub fn forget(profile: &mut Profile) {
    profile.flows.iter_mut().for_each(|flow| flow.context = 0);
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{ApiClass, Clock, Flow, Machine, Meta};

    use super::*;

    fn flow(context: u32) -> Flow {
        Flow {
            thread: 0,
            context,
            caller: 0,
            callee: 1,
            api: String::new(),
            symbol: String::new(),
            version: String::new(),
            class: ApiClass::Compute,
            dlsym: false,
            calls: 1,
            timed_calls: 0,
            total_ns: None,
            total_ns_low: None,
            total_ns_high: None,
            self_ns: None,
            self_ns_low: None,
            self_ns_high: None,
            called_back_ns: 0,
            called_back_same_edge_ns: 0,
            attributed_ns: None,
            criticality_ns: None,
            abandoned_calls: 0,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            bytes: None,
        }
    }

    #[test]
    fn copies_of_a_site_are_one_region_and_unknown_sites_are_left_out() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.flows = (0..=4).map(flow).collect();
        // Sites 16 and 32 are two copies of region 7; site 48 begins region 9; site 64 is in no table.
        let stacks: Vec<SiteStack> = vec![vec![(0, 16)], vec![(0, 32)], vec![(0, 32), (0, 48)], vec![(0, 64)]];
        let region_of = |_, address| match address {
            16 | 32 => Some(7),
            48 => Some(9),
            _ => None,
        };
        resolve(&mut profile, &stacks, region_of);
        assert_eq!(profile.flows.iter().map(|f| f.context).collect::<Vec<_>>(), [0, 1, 1, 2, 0]);
        let regions: Vec<_> = profile.feature.contexts.iter().map(|c| c.regions.clone()).collect();
        assert_eq!(regions, [vec![7], vec![7, 9]]);
    }
}
