use std::cmp::Reverse;

use rustc_hash::FxHashSet;
use serde::Serialize;
use transect_profile_model::{Dependence, FeatureTables, Profile, RegionKind, RegionMethod, ThreadId, Verdict};

use super::active_set::names;
use super::row::{Time, methods_in_words};
use crate::Names;

/// One region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionRow {
    /// Its number in this profile.
    pub id: u32,
    /// Features of its decision, in the model's order.
    pub features: Vec<String>,
    /// How the decision depends on each of them, in their order.
    pub dependences: Vec<Dependence>,
    /// What runs of a build that carries labels say of each of them; null: no such runs are known.
    pub verdicts: Vec<Option<Verdict>>,
    /// Function, demangled.
    pub function: String,
    /// Source file as the compiler was told.
    pub file: String,
    /// Line of the decision, 0 if unknown.
    pub line: i64,
    /// Times entered; `None` if it was not observed, or only by samples.
    pub entries: Option<i64>,
    /// Wall time in it, regions inside and what is called from there included; recursion is not added twice. ns.
    pub inclusive_ns: i64,
    /// Wall time in which it was the innermost region, ns.
    pub exclusive_ns: i64,
    /// Of `exclusive_ns`: on CPU; `None` if unknown.
    pub cpu_ns: Option<i64>,
    /// Threads that entered it.
    pub threads: i64,
    /// Stack samples in which it was the innermost region.
    pub samples: i64,
    /// How the numbers were found, several joined by `+`; empty if it was not observed: it has no sites, or they were
    /// not switched on.
    pub method: String,
    /// What decides.
    pub kind: RegionKind,
    /// Last line, 0 if unknown.
    pub end_line: i64,
    /// Object that contains it (display name).
    pub component: String,
    /// Its number in that object, as in `transect feature regions`.
    pub number: i64,
    /// `id` of the region of the same function that encloses it.
    pub parent: Option<u32>,
    /// Sites in the binary.
    pub sites: i64,
    /// Why it has none: its control flow is irregular.
    pub irregular: Option<String>,
    /// Lower bound of `exclusive_ns` (95 %); present where it comes from samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_ns_low: Option<i64>,
    /// Upper bound of `exclusive_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive_ns_high: Option<i64>,
    /// Lower bound of `inclusive_ns` (95 %); present where it comes from samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ns_low: Option<i64>,
    /// Upper bound of `inclusive_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ns_high: Option<i64>,
    /// What of `inclusive_ns` the recording has added by events there and in regions inside, waits for the recorder
    /// included: an estimate, ns; 0 without events.
    pub events_ns: i64,
}

impl RegionRow {
    /// Features that no run has shown to decide it although it ran in some.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &str> {
        let pairs = self.features.iter().zip(&self.verdicts);
        pairs.filter(|(_, verdict)| **verdict == Some(Verdict::Unconfirmed)).map(|(feature, _)| feature.as_str())
    }

    /// Some of the program's time was seen in it.
    pub fn has_run(&self) -> bool {
        self.inclusive_ns > 0 || self.samples > 0 || self.entries.is_some_and(|entries| entries > 0)
    }
}

/// What the nodes of one region add up to.
#[derive(Clone, Default)]
struct Sum {
    inclusive: Time,
    exclusive: Time,
    entries: Option<i64>,
    cpu_ns: Option<i64>,
    cpu_unknown: bool,
    samples: i64,
    events_ns: f64,
    threads: FxHashSet<ThreadId>,
    methods: Vec<RegionMethod>,
}

/// One row per region.
pub(super) fn rows(profile: &Profile, names_of: &Names) -> Vec<RegionRow> {
    let tables = &profile.feature;
    let mut sums = vec![Sum::default(); tables.regions.len()];
    let mut subtree: Vec<Time> = tables.nodes.iter().map(Time::of).collect();
    let mut events = events(profile);
    for id in (0..tables.nodes.len()).rev() {
        if let Some(parent) = tables.nodes[id].parent {
            let part = subtree[id];
            subtree[parent as usize].add(part);
            events[parent as usize] += events[id];
        }
    }
    let outermost = outermost(tables);
    for (id, node) in tables.nodes.iter().enumerate() {
        let Some(sum) = node.region.and_then(|region| sums.get_mut(region as usize)) else { continue };
        sum.exclusive.add(Time::of(node));
        if outermost[id] {
            sum.inclusive.add(subtree[id]);
            sum.events_ns += events[id];
        }
        sum.samples = sum.samples.saturating_add(node.samples);
        if let Some(entries) = node.entries {
            sum.entries = Some(sum.entries.unwrap_or(0).saturating_add(entries));
        }
        match node.cpu_ns {
            Some(ns) => sum.cpu_ns = Some(sum.cpu_ns.unwrap_or(0).saturating_add(ns)),
            None => sum.cpu_unknown |= node.exclusive_ns > 0,
        }
        sum.threads.insert(node.thread);
        if !sum.methods.contains(&node.method) {
            sum.methods.push(node.method);
        }
    }
    let mut rows: Vec<RegionRow> = (0..).zip(&sums).map(|(id, sum)| row(profile, names_of, id, sum)).collect();
    // Decisions around the whole program have all the time, and no part in it.
    rows.sort_by_key(|row| {
        (Reverse(row.exclusive_ns), Reverse(row.inclusive_ns), Reverse(row.entries), row.method.is_empty(), row.id)
    });
    rows
}

/// What each node's own begins and ends have cost, ns.
fn events(profile: &Profile) -> Vec<f64> {
    let each = profile.meta.feature.as_ref().map_or(0.0, |session| {
        // Waits are those of whoever writes events, in equal parts.
        session.event_ns + session.waited_ns as f64 / session.events.max(1) as f64
    });
    profile.feature.nodes.iter().map(|node| 2.0 * each * node.entries.unwrap_or(0) as f64).collect()
}

/// Nodes whose region is not further up on their stack.
fn outermost(tables: &FeatureTables) -> Vec<bool> {
    let nodes = &tables.nodes;
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (id, node) in (0..).zip(nodes) {
        if let Some(parent) = node.parent {
            children[parent as usize].push(id);
        }
    }
    let mut outermost = vec![true; nodes.len()];
    let mut open = vec![0_u32; tables.regions.len()];
    for root in (0..).zip(nodes).filter(|(_, node)| node.parent.is_none()).map(|(id, _)| id) {
        // Down, and up again: (node, leaving).
        let mut stack: Vec<(u32, bool)> = vec![(root, false)];
        while let Some((id, leaving)) = stack.pop() {
            if let Some(count) = nodes[id as usize].region.and_then(|region| open.get_mut(region as usize)) {
                if leaving {
                    *count -= 1;
                } else {
                    outermost[id as usize] = *count == 0;
                    *count += 1;
                }
            }
            if !leaving {
                stack.push((id, true));
                stack.extend(children[id as usize].iter().map(|&child| (child, false)));
            }
        }
    }
    outermost
}

fn row(profile: &Profile, names_of: &Names, id: u32, sum: &Sum) -> RegionRow {
    let region = &profile.feature.regions[id as usize];
    let events = region.method.is_some_and(|method| method != RegionMethod::Sample);
    let observed: Vec<RegionMethod> = sum.methods.iter().copied().chain(region.method).collect();
    RegionRow {
        id,
        features: names(&profile.feature, &region.features),
        dependences: region.dependences.clone(),
        verdicts: region.verdicts.clone(),
        function: region.function.clone(),
        file: region.file.clone(),
        line: region.line,
        entries: sum.entries.or(events.then_some(0)),
        inclusive_ns: sum.inclusive.ns,
        exclusive_ns: sum.exclusive.ns,
        cpu_ns: sum.cpu_ns.or_else(|| events.then_some(0)).filter(|_| !sum.cpu_unknown),
        threads: sum.threads.len() as i64,
        samples: sum.samples,
        method: methods_in_words(&observed),
        kind: region.kind,
        end_line: region.end_line,
        component: names_of.get(region.component).to_owned(),
        number: region.number,
        parent: region.parent,
        sites: region.sites,
        irregular: region.irregular.clone(),
        exclusive_ns_low: sum.exclusive.low(),
        exclusive_ns_high: sum.exclusive.high(),
        inclusive_ns_low: sum.inclusive.low(),
        inclusive_ns_high: sum.inclusive.high(),
        events_ns: (sum.events_ns as i64).min(sum.inclusive.ns),
    }
}
