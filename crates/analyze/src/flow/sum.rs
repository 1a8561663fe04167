use transect_profile_model::Flow;

use super::{FlowRow, add};
use crate::feature::names;
use crate::prepared::Prepared;
use crate::quantile::Part;

/// By what a row is split, where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Split {
    pub thread: Option<u32>,
    pub process: Option<u32>,
    pub context: Option<u32>,
}

/// Sums of the recorded rows of one row of the view.
pub(super) struct Sum<'a> {
    pub first: &'a Flow,
    /// As in [`Prepared::flow_of_row`].
    number: u32,
    pub split: Split,
    pub calls: i64,
    timed_calls: i64,
    abandoned_calls: i64,
    pub total_ns: Option<i64>,
    pub self_ns: Option<i64>,
    called_back_ns: i64,
    pub attributed_ns: Option<i64>,
    criticality_ns: Option<i64>,
    total_width: Width,
    self_width: Width,
    quantiles: Vec<Part>,
    max_ns: Option<i64>,
    pub bytes: Option<i64>,
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

impl<'a> Sum<'a> {
    pub fn new(first: &'a Flow, number: u32, split: Split) -> Self {
        Self {
            first,
            number,
            split,
            calls: 0,
            timed_calls: 0,
            abandoned_calls: 0,
            total_ns: None,
            self_ns: None,
            called_back_ns: 0,
            attributed_ns: None,
            criticality_ns: None,
            total_width: Width::default(),
            self_width: Width::default(),
            quantiles: Vec::new(),
            max_ns: None,
            bytes: None,
            dlsym: false,
        }
    }

    pub fn add(&mut self, flow: &Flow) {
        self.calls += flow.calls;
        self.timed_calls += flow.timed_calls;
        self.abandoned_calls += flow.abandoned_calls;
        add(&mut self.total_ns, flow.total_ns);
        add(&mut self.self_ns, flow.self_ns);
        self.called_back_ns = self.called_back_ns.saturating_add(flow.called_back_ns);
        add(&mut self.attributed_ns, flow.attributed_ns);
        add(&mut self.criticality_ns, flow.criticality_ns);
        add(&mut self.bytes, flow.bytes);
        self.total_width.add(flow.total_ns, flow.total_ns_low, flow.total_ns_high);
        self.self_width.add(flow.self_ns, flow.self_ns_low, flow.self_ns_high);
        self.quantiles.extend(Part::of(flow));
        self.max_ns = self.max_ns.max(flow.max_ns);
        self.dlsym |= flow.dlsym;
    }

    pub fn row(&self, prepared: &Prepared<'_>) -> FlowRow {
        let Prepared { profile, names, .. } = prepared;
        let &Self { first, split, ref total_width, ref self_width, total_ns, self_ns, .. } = self;
        let thread = split.thread.map(|id| &profile.threads[id as usize]);
        let whole = split == Split { thread: None, process: None, context: None };
        let divided = if whole { prepared.call_times.of_flow(self.number, first.class, total_ns) } else { None };
        let part = |at: usize| divided.map(|parts| parts[at]);
        FlowRow {
            caller: names.get(first.caller).to_owned(),
            callee: names.get(first.callee).to_owned(),
            api: first.api.clone(),
            symbol: first.symbol.clone(),
            version: first.version.clone(),
            class: first.class,
            wait: first.class.is_wait(),
            calls: self.calls,
            timed_calls: self.timed_calls,
            abandoned_calls: self.abandoned_calls,
            total_ns,
            self_ns,
            called_back_ns: Some(self.called_back_ns).filter(|&ns| ns > 0),
            on_cpu_ns: part(0),
            runnable_ns: part(1),
            blocked_ns: part(2),
            attributed_ns: self.attributed_ns,
            criticality_ns: self.criticality_ns,
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
            process: split.process.map(|id| profile.processes[id as usize].pid),
            feature: split.context.map(|context| feature_name(prepared, context)),
        }
    }
}

/// Names of the features that were active, joined by commas; empty outside of regions. A context that no table names goes
/// by its number.
fn feature_name(prepared: &Prepared<'_>, context: u32) -> String {
    match prepared.active.of_context.get(context as usize) {
        Some(&set) => names(&prepared.profile.feature, &prepared.active.sets[set as usize]).join(", "),
        None => format!("context {context}"),
    }
}
