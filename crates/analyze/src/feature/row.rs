use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{FeatureSession, Profile, RegionMethod};

use super::active_set::{ActiveSets, Bits, names};

/// Time in which a set of features was active.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureRow {
    /// The set, in the model's order; empty for code of no feature.
    pub features: Vec<String>,
    /// Wall time of all threads in which at least these features were active, ns.
    pub inclusive_ns: i64,
    /// Wall time in which exactly these were active, ns: over all rows the threads' whole time.
    pub exclusive_ns: i64,
    /// Wall time of all threads in which the innermost region's own decision had at least these features, ns: unlike
    /// `inclusive_ns` without what merely runs under a decision of theirs. For no feature: time outside of all regions.
    pub decided_ns: i64,
    /// Of `exclusive_ns`: on CPU; `None` if unknown.
    pub cpu_ns: Option<i64>,
    /// Times that a region was entered with these features active then: over all rows the entries of all regions.
    /// `None` if only samples are known, and for no feature.
    pub entries: Option<i64>,
    /// Threads in which at least these features were active.
    pub threads: i64,
    /// Stack samples with exactly these features active.
    pub samples: i64,
    /// How the numbers were found: `trace`, `probe`, `usdt`, `sample`; several are joined by `+`.
    pub method: String,
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
}

/// A sum of times and its 95 % interval: nodes are sampled independently, so that squares of half-widths add up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    pub ns: i64,
    below_squared: f64,
    above_squared: f64,
}

impl Time {
    pub(super) fn of(node: &transect_profile_model::RegionNode) -> Self {
        let width = |from: i64, to: i64| to.saturating_sub(from).max(0) as f64;
        Self {
            ns: node.exclusive_ns,
            below_squared: width(node.exclusive_ns_low, node.exclusive_ns).powi(2),
            above_squared: width(node.exclusive_ns, node.exclusive_ns_high).powi(2),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.below_squared += other.below_squared;
        self.above_squared += other.above_squared;
    }

    fn sampled(&self) -> bool {
        self.below_squared > 0.0 || self.above_squared > 0.0
    }

    /// The bounds, where there are any.
    pub(super) fn low(&self) -> Option<i64> {
        self.sampled().then(|| self.ns.saturating_sub(self.below_squared.sqrt().round() as i64).max(0))
    }

    pub(super) fn high(&self) -> Option<i64> {
        self.sampled().then(|| self.ns.saturating_add(self.above_squared.sqrt().round() as i64))
    }
}

/// Methods in the order of [`RegionMethod::ALL`], joined.
pub(super) fn methods_in_words(methods: &[RegionMethod]) -> String {
    let seen = RegionMethod::ALL.into_iter().filter(|method| methods.contains(method));
    seen.map(RegionMethod::as_str).collect::<Vec<_>>().join("+")
}

/// What the nodes of exactly one set add up to.
#[derive(Clone, Default)]
struct Sum {
    time: Time,
    cpu_ns: Option<i64>,
    cpu_unknown: bool,
    entries: Option<i64>,
    samples: i64,
    threads: Bits,
    methods: Vec<RegionMethod>,
}

/// One row per set that was seen and per feature that has a region.
pub(super) fn rows(
    profile: &Profile,
    active: &ActiveSets,
    has_region: &[bool],
    session: &FeatureSession,
) -> Vec<FeatureRow> {
    let mut wanted = active.clone();
    for feature in (0..).zip(has_region).filter(|(_, has)| **has).map(|(feature, _)| feature) {
        wanted.number(vec![feature]);
    }
    let mut sums = vec![Sum::default(); wanted.sets.len()];
    let mut seen = vec![false; wanted.sets.len()];
    for (node, &set) in profile.feature.nodes.iter().zip(&active.of_node) {
        let sum = &mut sums[set as usize];
        seen[set as usize] = true;
        sum.time.add(Time::of(node));
        sum.samples = sum.samples.saturating_add(node.samples);
        match node.cpu_ns {
            Some(ns) => sum.cpu_ns = Some(sum.cpu_ns.unwrap_or(0).saturating_add(ns)),
            None => sum.cpu_unknown |= node.exclusive_ns > 0,
        }
        if node.region.is_some()
            && let Some(entries) = node.entries
        {
            sum.entries = Some(sum.entries.unwrap_or(0).saturating_add(entries));
        }
        if node.exclusive_ns > 0 || node.entries.is_some_and(|entries| entries > 0) {
            sum.threads.insert(node.thread);
            if !sum.methods.contains(&node.method) {
                sum.methods.push(node.method);
            }
        }
    }
    let decided = decisions(profile);
    // A set may be part of many: programs with many features have many sets.
    let bits: Vec<Bits> = wanted.sets.iter().map(|set| Bits::of(set)).collect();
    // Sets that only contexts of flows know have no time of their own.
    let shown =
        |id: usize| id == 0 || seen[id] || matches!(wanted.sets[id].as_slice(), [one] if has_region[*one as usize]);
    let mut rows: Vec<(usize, FeatureRow)> = (0..wanted.sets.len())
        .filter(|&id| shown(id))
        .map(|id| (id, row(profile, &wanted, &bits, &sums, &decided, id, session)))
        .collect();
    // The empty set is first, then what decides much or is all that is active for long: features of `main`'s decisions
    // are active all the time. Ties go by the model's order.
    rows.sort_by_cached_key(|(id, row)| {
        let set = wanted.sets[*id].clone();
        let matters = row.decided_ns.max(row.exclusive_ns);
        (!set.is_empty(), Reverse(matters), Reverse(row.inclusive_ns), set.len(), set)
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Time by what exactly the innermost region's own decision had.
fn decisions(profile: &Profile) -> Vec<(Bits, i64)> {
    let mut times: FxHashMap<&[u32], i64> = FxHashMap::default();
    for node in &profile.feature.nodes {
        if let Some(region) = node.region.and_then(|id| profile.feature.regions.get(id as usize)) {
            let time = times.entry(&region.features).or_default();
            *time = time.saturating_add(node.exclusive_ns);
        }
    }
    times.into_iter().map(|(set, ns)| (Bits::of(set), ns)).collect()
}

fn row(
    profile: &Profile,
    active: &ActiveSets,
    bits: &[Bits],
    sums: &[Sum],
    decided: &[(Bits, i64)],
    id: usize,
    session: &FeatureSession,
) -> FeatureRow {
    let (set, sum) = (&active.sets[id], &sums[id]);
    let mut inclusive = Time::default();
    let mut threads = Bits::default();
    for (_, sum) in bits.iter().zip(sums).filter(|(other, _)| bits[id].is_in(other)) {
        inclusive.add(sum.time);
        threads.add(&sum.threads);
    }
    let methods = if sum.methods.is_empty() { &session.methods } else { &sum.methods };
    let events = session.methods.iter().any(|&method| method != RegionMethod::Sample);
    FeatureRow {
        features: names(&profile.feature, set),
        inclusive_ns: inclusive.ns,
        exclusive_ns: sum.time.ns,
        decided_ns: match set.is_empty() {
            true => sum.time.ns,
            false => decided.iter().filter(|(own, _)| bits[id].is_in(own)).map(|(_, ns)| ns).sum(),
        },
        cpu_ns: sum.cpu_ns.or_else(|| (sum.time.ns == 0).then_some(0)).filter(|_| !sum.cpu_unknown),
        entries: match (set.is_empty(), sum.entries) {
            (true, _) => None,
            // Nothing was ever entered with exactly these.
            (false, None) => (sum.time.ns == 0 && events).then_some(0),
            (false, entries) => entries,
        },
        threads: threads.len(),
        samples: sum.samples,
        method: methods_in_words(methods),
        exclusive_ns_low: sum.time.low(),
        exclusive_ns_high: sum.time.high(),
        inclusive_ns_low: inclusive.low(),
        inclusive_ns_high: inclusive.high(),
    }
}
