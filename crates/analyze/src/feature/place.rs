//! Where the time of features goes: APIs and components, from the contexts of flows.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{ApiClass, ComponentId, RegionId, RegionNodeId, ThreadId};

use super::active_set::{SetId, names};
use crate::names::executable_of;
use crate::prepared::Prepared;

/// Calls of one API while exactly a set of features was active.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureApiRow {
    /// The set; empty for code of no feature.
    pub features: Vec<String>,
    /// Component that holds the API (display name).
    pub callee: String,
    /// Demangled name.
    pub api: String,
    /// What kind of time the calls take.
    pub class: ApiClass,
    /// Calls.
    pub calls: i64,
    /// Wall time from entry to return, ns; `None` where no times were taken.
    pub total_ns: Option<i64>,
    /// `total_ns` less the calls that the callee made meanwhile into other components, ns.
    pub self_ns: Option<i64>,
}

/// Time in one component while exactly a set of features was active.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureComponentRow {
    /// The set; empty for code of no feature.
    pub features: Vec<String>,
    /// Component (display name).
    pub component: String,
    /// Time in it, less the APIs that it calls, ns.
    pub self_ns: i64,
    /// Of it, in APIs that wait, ns.
    pub wait_ns: i64,
    /// Calls into it.
    pub calls: i64,
}

/// True if flows know in which regions they were called.
fn has_contexts(prepared: &Prepared<'_>) -> bool {
    !prepared.profile.feature.contexts.is_empty() && !prepared.profile.flows.is_empty()
}

fn set_of(prepared: &Prepared<'_>, context: u32) -> SetId {
    prepared.active.of_context.get(context as usize).copied().unwrap_or(0)
}

/// By set and API, longest first.
pub(super) fn apis(prepared: &Prepared<'_>) -> Vec<FeatureApiRow> {
    if !has_contexts(prepared) {
        return Vec::new();
    }
    let profile = prepared.profile;
    let mut places: FxHashMap<(SetId, ComponentId, &str), usize> = FxHashMap::default();
    let mut rows: Vec<FeatureApiRow> = Vec::new();
    for flow in &profile.flows {
        let set = set_of(prepared, flow.context);
        let place = *places.entry((set, flow.callee, flow.api.as_str())).or_insert_with(|| {
            rows.push(FeatureApiRow {
                features: names(&profile.feature, &prepared.active.sets[set as usize]),
                callee: prepared.names.get(flow.callee).to_owned(),
                api: flow.api.clone(),
                class: flow.class,
                calls: 0,
                total_ns: None,
                self_ns: None,
            });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.calls = row.calls.saturating_add(flow.calls);
        for (sum, part) in [(&mut row.total_ns, flow.total_ns), (&mut row.self_ns, flow.self_ns)] {
            *sum = part.map_or(*sum, |part| Some(sum.unwrap_or(0).saturating_add(part)));
        }
    }
    rows.sort_by(|a, b| {
        (Reverse(a.total_ns), Reverse(a.calls), &a.api, &a.callee, &a.features).cmp(&(
            Reverse(b.total_ns),
            Reverse(b.calls),
            &b.api,
            &b.callee,
            &b.features,
        ))
    });
    rows
}

/// By set and component, longest first. What a stack of regions spends in its own component is its time less the calls
/// that were made from there; where a callee has regions of its own their time is in both, and taken off here.
pub(super) fn components(prepared: &Prepared<'_>) -> Vec<FeatureComponentRow> {
    if !has_contexts(prepared) {
        return Vec::new();
    }
    let profile = prepared.profile;
    let tables = &profile.feature;
    let mut sums: FxHashMap<(SetId, ComponentId), (i64, i64, i64)> = FxHashMap::default();
    let mut called: FxHashMap<(ThreadId, u32), i64> = FxHashMap::default();
    for flow in &profile.flows {
        let own = flow.self_ns.unwrap_or(0);
        let sum = sums.entry((set_of(prepared, flow.context), flow.callee)).or_default();
        sum.0 = sum.0.saturating_add(own);
        sum.1 = sum.1.saturating_add(if flow.class.is_wait() { own } else { 0 });
        sum.2 = sum.2.saturating_add(flow.calls);
        let of_context = called.entry((flow.thread, flow.context)).or_default();
        *of_context = of_context.saturating_add(own);
    }
    let context_of = contexts_of_nodes(prepared);
    for (id, node) in tables.nodes.iter().enumerate() {
        // Several nodes may share a context (recursion): the calls' time is taken off one after the other.
        let calls = context_of[id].and_then(|context| called.get_mut(&(node.thread, context)));
        let mut own = node.exclusive_ns.max(0);
        if let Some(calls) = calls {
            let taken = own.min((*calls).max(0));
            own -= taken;
            *calls -= taken;
        }
        let component = match node.region {
            Some(region) => Some(tables.regions[region as usize].component),
            None => executable_of(profile, &profile.processes[profile.threads[node.thread as usize].process as usize]),
        };
        if let Some(component) = component.filter(|_| own > 0) {
            let sum = sums.entry((prepared.active.of_node[id], component)).or_default();
            sum.0 = sum.0.saturating_add(own);
        }
    }
    let mut rows: Vec<FeatureComponentRow> = sums
        .into_iter()
        .map(|((set, component), (self_ns, wait_ns, calls))| FeatureComponentRow {
            features: names(&profile.feature, &prepared.active.sets[set as usize]),
            component: prepared.names.get(component).to_owned(),
            self_ns,
            wait_ns,
            calls,
        })
        .collect();
    rows.sort_by(|a, b| {
        (Reverse(a.self_ns), Reverse(a.calls), &a.component, &a.features).cmp(&(
            Reverse(b.self_ns),
            Reverse(b.calls),
            &b.component,
            &b.features,
        ))
    });
    rows
}

/// The context of flows called in each node's stack, where there is one. A region that is open already makes no context of
/// its own.
fn contexts_of_nodes(prepared: &Prepared<'_>) -> Vec<Option<u32>> {
    let tables = &prepared.profile.feature;
    // Contexts as a tree, so that nodes find theirs from their parents': (parent, region) -> place.
    let mut places: FxHashMap<(usize, RegionId), usize> = FxHashMap::default();
    let mut context_at: Vec<Option<u32>> = vec![Some(0)];
    for (context, of) in (1..).zip(&tables.contexts) {
        let mut at = 0;
        for &region in &of.regions {
            at = *places.entry((at, region)).or_insert_with(|| {
                context_at.push(None);
                context_at.len() - 1
            });
        }
        context_at[at] = context_at[at].or(Some(context));
    }
    let mut place_of: Vec<Option<usize>> = Vec::with_capacity(tables.nodes.len());
    for node in &tables.nodes {
        let above = |parent: RegionNodeId| place_of.get(parent as usize).copied().flatten();
        let up = |at: &RegionNodeId| tables.nodes.get(*at as usize).and_then(|node| node.parent);
        let is_open = |parent: RegionNodeId| {
            std::iter::successors(Some(parent), up).any(|at| tables.nodes[at as usize].region == node.region)
        };
        let place = match (node.parent, node.region) {
            (Some(parent), Some(region)) => above(parent).and_then(|at| {
                let inside = places.get(&(at, region)).copied();
                inside.or_else(|| is_open(parent).then_some(at))
            }),
            _ => Some(0),
        };
        place_of.push(place);
    }
    place_of.into_iter().map(|place| context_at[place?]).collect()
}
