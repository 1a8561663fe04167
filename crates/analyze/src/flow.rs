use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{ApiClass, Flow, Profile};

use crate::matching::{Pattern, chosen_components};
use crate::quantile::Part;
use crate::{Dimensions, Names, Selection, SortKey, Totals, totals};

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
    /// `total_ns`, each instant divided by max(1, active threads).
    pub attributed_ns: Option<i64>,
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
    finish(profile, select(profile, selection, Direction::Either), selection)
}

/// Flows into the chosen component's APIs: who calls them.
pub fn callers(profile: &Profile, selection: &Selection) -> Vec<FlowRow> {
    finish(profile, select(profile, selection, Direction::Into), selection)
}

/// APIs of the chosen component and those that it calls, each with its callers; `top` and `min_percent` count APIs.
pub fn apis(profile: &Profile, selection: &Selection) -> ApisView {
    let side = |direction| group(profile, select(profile, selection, direction), selection);
    let incoming = side(Direction::Into);
    let outgoing = if selection.component.is_some() { side(Direction::From) } else { Vec::new() };
    ApisView { incoming, outgoing }
}

/// On which side of a flow the chosen component stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// It is called.
    Into,
    /// It calls others, not itself under another row.
    From,
    /// Either.
    Either,
}

/// What makes two recorded rows one row of the view.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    caller: u32,
    callee: u32,
    api: &'a str,
    symbol: &'a str,
    version: &'a str,
    thread: Option<u32>,
    process: Option<u32>,
    context: Option<u32>,
}

impl<'a> Key<'a> {
    fn new(profile: &Profile, flow: &'a Flow, by: Dimensions) -> Self {
        Self {
            caller: flow.caller,
            callee: flow.callee,
            api: &flow.api,
            symbol: &flow.symbol,
            version: &flow.version,
            thread: by.thread.then_some(flow.thread),
            process: (by.process || by.thread).then(|| profile.threads[flow.thread as usize].process),
            context: by.feature.then_some(flow.context),
        }
    }
}

/// Sums of the recorded rows of one row of the view.
struct Sum<'a> {
    first: &'a Flow,
    key: Key<'a>,
    calls: i64,
    timed_calls: i64,
    abandoned_calls: i64,
    total_ns: Option<i64>,
    self_ns: Option<i64>,
    attributed_ns: Option<i64>,
    total_width: Width,
    self_width: Width,
    quantiles: Vec<Part>,
    max_ns: Option<i64>,
    bytes: Option<i64>,
    dlsym: bool,
}

/// Half-widths of a sum's 95 % interval: threads are sampled independently, so that squares add up.
#[derive(Default)]
struct Width {
    sampled: bool,
    below_squared: f64,
    above_squared: f64,
}

impl Width {
    fn add(&mut self, estimate: Option<i64>, low: Option<i64>, high: Option<i64>) {
        if let (Some(estimate), Some(low), Some(high)) = (estimate, low, high) {
            self.sampled = true;
            self.below_squared += ((estimate - low) as f64).powi(2);
            self.above_squared += ((high - estimate) as f64).powi(2);
        }
    }

    fn low(&self, estimate: Option<i64>) -> Option<i64> {
        estimate.filter(|_| self.sampled).map(|ns| (ns - self.below_squared.sqrt().round() as i64).max(0))
    }

    fn high(&self, estimate: Option<i64>) -> Option<i64> {
        estimate.filter(|_| self.sampled).map(|ns| ns.saturating_add(self.above_squared.sqrt().round() as i64))
    }
}

fn add(sum: &mut Option<i64>, part: Option<i64>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or(0).saturating_add(part));
    }
}

impl<'a> Sum<'a> {
    fn new(first: &'a Flow, key: Key<'a>) -> Self {
        Self {
            first,
            key,
            calls: 0,
            timed_calls: 0,
            abandoned_calls: 0,
            total_ns: None,
            self_ns: None,
            attributed_ns: None,
            total_width: Width::default(),
            self_width: Width::default(),
            quantiles: Vec::new(),
            max_ns: None,
            bytes: None,
            dlsym: false,
        }
    }

    fn add(&mut self, flow: &Flow) {
        self.calls += flow.calls;
        self.timed_calls += flow.timed_calls;
        self.abandoned_calls += flow.abandoned_calls;
        add(&mut self.total_ns, flow.total_ns);
        add(&mut self.self_ns, flow.self_ns);
        add(&mut self.attributed_ns, flow.attributed_ns);
        add(&mut self.bytes, flow.bytes);
        self.total_width.add(flow.total_ns, flow.total_ns_low, flow.total_ns_high);
        self.self_width.add(flow.self_ns, flow.self_ns_low, flow.self_ns_high);
        self.quantiles.extend(Part::of(flow));
        self.max_ns = self.max_ns.max(flow.max_ns);
        self.dlsym |= flow.dlsym;
    }

    fn row(self, profile: &Profile, names: &Names) -> FlowRow {
        let Self { first, key, total_width, self_width, total_ns, self_ns, .. } = self;
        let thread = key.thread.map(|id| &profile.threads[id as usize]);
        FlowRow {
            caller: names.get(key.caller).to_owned(),
            callee: names.get(key.callee).to_owned(),
            api: key.api.to_owned(),
            symbol: key.symbol.to_owned(),
            version: key.version.to_owned(),
            class: first.class,
            wait: first.class.is_wait(),
            calls: self.calls,
            timed_calls: self.timed_calls,
            abandoned_calls: self.abandoned_calls,
            total_ns,
            self_ns,
            attributed_ns: self.attributed_ns,
            total_ns_low: total_width.low(total_ns),
            total_ns_high: total_width.high(total_ns),
            self_ns_low: self_width.low(self_ns),
            self_ns_high: self_width.high(self_ns),
            p50_ns: Part::quantile(&self.quantiles, 0.50),
            p99_ns: Part::quantile(&self.quantiles, 0.99),
            max_ns: self.max_ns,
            bytes: self.bytes,
            dlsym: self.dlsym,
            thread: thread.map(|thread| thread.name.clone()),
            tid: thread.map(|thread| thread.tid),
            process: key.process.map(|id| profile.processes[id as usize].pid),
            feature: key.context.map(feature_name),
        }
    }
}

/// Context 0 is the program as a whole; until a collector names the others, they go by number.
fn feature_name(context: u32) -> String {
    if context == 0 { String::new() } else { format!("context {context}") }
}

fn select(profile: &Profile, selection: &Selection, direction: Direction) -> Vec<FlowRow> {
    let names = Names::new(profile);
    let chosen = chosen_components(profile, &names, selection.component.as_deref());
    let api = selection.api.as_deref().map(Pattern::new);
    let mut matched: FxHashMap<(&str, &str), bool> = FxHashMap::default();
    let mut index: FxHashMap<Key<'_>, usize> = FxHashMap::default();
    let mut sums: Vec<Sum<'_>> = Vec::new();
    for flow in &profile.flows {
        if let Some(chosen) = &chosen {
            let (from, into) = (chosen[flow.caller as usize], chosen[flow.callee as usize]);
            let wanted = match direction {
                Direction::Into => into,
                Direction::From => from && !into,
                Direction::Either => from || into,
            };
            if !wanted {
                continue;
            }
        }
        if let Some(api) = &api {
            let hit = matched
                .entry((flow.api.as_str(), flow.symbol.as_str()))
                .or_insert_with(|| api.matches_api(&flow.api, &flow.symbol));
            if !*hit {
                continue;
            }
        }
        let position = *index.entry(Key::new(profile, flow, selection.by)).or_insert_with(|| {
            sums.push(Sum::new(flow, Key::new(profile, flow, selection.by)));
            sums.len() - 1
        });
        sums[position].add(flow);
    }
    let mut rows: Vec<FlowRow> = sums.into_iter().map(|sum| sum.row(profile, &names)).collect();
    sort(&mut rows, selection.sort.unwrap_or_default());
    rows
}

fn sort(rows: &mut [FlowRow], key: SortKey) {
    let value = |row: &FlowRow| match key {
        SortKey::Total | SortKey::Name => row.total_ns,
        SortKey::SelfTime => row.self_ns,
        SortKey::Attributed => row.attributed_ns,
        SortKey::Wait => row.total_ns.filter(|_| row.wait),
        SortKey::Calls => Some(row.calls),
        SortKey::Bytes => row.bytes,
    };
    let name = |row: &FlowRow, other: &FlowRow| {
        (&row.api, &row.callee, &row.caller, &row.version, row.tid).cmp(&(
            &other.api,
            &other.callee,
            &other.caller,
            &other.version,
            other.tid,
        ))
    };
    rows.sort_by(|a, b| {
        let by_value = (Reverse(value(a)), Reverse(a.calls)).cmp(&(Reverse(value(b)), Reverse(b.calls)));
        if key == SortKey::Name { name(a, b) } else { by_value.then_with(|| name(a, b)) }
    });
}

fn finish(profile: &Profile, mut rows: Vec<FlowRow>, selection: &Selection) -> Vec<FlowRow> {
    if let Some(least) = selection.min_percent {
        let totals = totals(profile);
        rows.retain(|row| totals.weight(row.attributed_ns, row.total_ns, row.calls) >= least);
    }
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    rows
}

/// Rows, already sorted, by API; the groups in the selection's order.
fn group(profile: &Profile, rows: Vec<FlowRow>, selection: &Selection) -> Vec<ApiGroup> {
    let totals = totals(profile);
    let mut index: FxHashMap<(String, String), usize> = FxHashMap::default();
    let mut groups: Vec<ApiGroup> = Vec::new();
    for row in rows {
        let position = *index.entry((row.callee.clone(), row.api.clone())).or_insert_with(|| {
            groups.push(ApiGroup::new(&row));
            groups.len() - 1
        });
        groups[position].add(row);
    }
    for group in &mut groups {
        group.percent = group.attributed_ns.and_then(|ns| totals.attributed_percent(ns));
    }
    if let Some(least) = selection.min_percent {
        groups.retain(|group| group.weight(&totals) >= least);
    }
    let key = selection.sort.unwrap_or_default();
    let value = |group: &ApiGroup| match key {
        SortKey::Total => group.total_ns,
        SortKey::SelfTime => group.self_ns,
        SortKey::Attributed => group.attributed_ns,
        SortKey::Wait => group.total_ns.filter(|_| group.class.is_wait()),
        SortKey::Calls => Some(group.calls),
        SortKey::Bytes => group.bytes,
        SortKey::Name => None,
    };
    groups.sort_by(|a, b| {
        let name = || (&a.api, &a.callee).cmp(&(&b.api, &b.callee));
        let calls = if key == SortKey::Name { std::cmp::Ordering::Equal } else { b.calls.cmp(&a.calls) };
        value(b).cmp(&value(a)).then(calls).then_with(name)
    });
    groups.truncate(selection.top.unwrap_or(usize::MAX));
    groups
}

impl ApiGroup {
    fn new(row: &FlowRow) -> Self {
        Self {
            callee: row.callee.clone(),
            api: row.api.clone(),
            class: row.class,
            calls: 0,
            total_ns: None,
            self_ns: None,
            attributed_ns: None,
            percent: None,
            bytes: None,
            callers: Vec::new(),
        }
    }

    fn add(&mut self, row: FlowRow) {
        self.calls += row.calls;
        add(&mut self.total_ns, row.total_ns);
        add(&mut self.self_ns, row.self_ns);
        add(&mut self.attributed_ns, row.attributed_ns);
        add(&mut self.bytes, row.bytes);
        self.callers.push(row);
    }

    fn weight(&self, totals: &Totals) -> f64 {
        totals.weight(self.attributed_ns, self.total_ns, self.calls)
    }
}
