use rustc_hash::FxHashMap;
use transect_profile_model::{ApiClass, ComponentId, Profile, WaitKind};

use crate::component::{attribution_scale, proportional};
use crate::criticality::public_name;
use crate::prepared::Prepared;
use crate::{ComponentRow, GroupRow, Names, Selection, Totals};

/// What the finders look at, computed once.
pub(super) struct Facts<'a> {
    pub profile: &'a Profile,
    pub names: &'a Names,
    pub totals: Totals,
    /// One per (component, API), callers together.
    pub apis: Vec<ApiFact<'a>>,
    pub components: Vec<ComponentRow>,
    pub groups: Vec<GroupRow>,
    /// Attributed self time of class `compute` per component, by id.
    pub compute_ns: Vec<f64>,
    /// Attributed time that is not waiting: the denominator of shares of running time.
    pub running_ns: f64,
}

/// All calls of one API.
pub(super) struct ApiFact<'a> {
    pub callee: ComponentId,
    pub api: &'a str,
    pub class: ApiClass,
    pub all: Calls,
    /// The same of each calling component.
    pub callers: Vec<(ComponentId, Calls)>,
}

/// Sums over calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calls {
    pub calls: i64,
    pub self_ns: i64,
    pub self_attributed_ns: f64,
    /// Calls whose size is known, and their bytes.
    pub sized_calls: i64,
    pub bytes: i64,
}

impl Calls {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.self_ns += other.self_ns;
        self.self_attributed_ns += other.self_attributed_ns;
        self.sized_calls += other.sized_calls;
        self.bytes += other.bytes;
    }

    /// Self time of the mean call, ns.
    pub fn mean_ns(&self) -> i64 {
        self.self_ns / self.calls.max(1)
    }

    /// Size of the mean call, where known.
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.sized_calls > 0).then(|| self.bytes as f64 / self.sized_calls as f64)
    }
}

impl ApiFact<'_> {
    /// The component that makes most of the calls, and its share of them, 0–100.
    pub fn main_caller(&self) -> Option<(ComponentId, f64)> {
        let &(id, of) = self.callers.iter().max_by_key(|(id, of)| (of.calls, std::cmp::Reverse(*id)))?;
        Some((id, of.calls as f64 * 100.0 / self.all.calls.max(1) as f64))
    }

    /// Name without the parameter list.
    pub fn bare_name(&self) -> &str {
        self.api.split_once('(').map_or(self.api, |(bare, _)| bare)
    }
}

impl<'a> Facts<'a> {
    pub fn new(prepared: &'a Prepared<'a>) -> Self {
        let profile = prepared.profile;
        let scale = attribution_scale(profile);
        let mut index: FxHashMap<(ComponentId, &str), usize> = FxHashMap::default();
        let mut apis: Vec<ApiFact<'a>> = Vec::new();
        // Position in `apis` by number of the flow: names are hashed once per flow, not once per row.
        let mut position_of_flow: Vec<Option<usize>> = vec![None; prepared.totals.flows as usize];
        let mut compute_ns = vec![0.0; profile.components.len()];
        let mut not_compute_ns = 0.0;
        for (flow, &number) in profile.flows.iter().zip(&prepared.flow_of_row) {
            let find = || {
                *index.entry((flow.callee, &flow.api)).or_insert_with(|| {
                    apis.push(ApiFact {
                        callee: flow.callee,
                        api: &flow.api,
                        class: flow.class,
                        all: Calls::default(),
                        callers: Vec::new(),
                    });
                    apis.len() - 1
                })
            };
            let position = *position_of_flow[number as usize].get_or_insert_with(find);
            let fact = &mut apis[position];
            let attributed = proportional(flow) * scale[flow.thread as usize];
            let calls = Calls {
                calls: flow.calls,
                self_ns: flow.self_ns.unwrap_or(0),
                self_attributed_ns: attributed,
                sized_calls: flow.bytes.map_or(0, |_| flow.calls),
                bytes: flow.bytes.unwrap_or(0),
            };
            fact.all.add(calls);
            match fact.callers.iter_mut().find(|(id, _)| *id == flow.caller) {
                Some((_, sums)) => sums.add(calls),
                None => fact.callers.push((flow.caller, calls)),
            }
            if flow.class == ApiClass::Compute {
                compute_ns[flow.callee as usize] += attributed;
            } else if flow.class.is_wait() {
                not_compute_ns += attributed;
            }
        }
        let everything = Selection::default();
        let totals = prepared.totals;
        Self {
            profile,
            names: &prepared.names,
            running_ns: (totals.attributed_ns as f64 - not_compute_ns).max(0.0),
            totals,
            apis,
            components: crate::component::of(prepared, &everything),
            groups: crate::threads(profile, &everything).groups,
            compute_ns,
        }
    }

    /// Whether the calls of a read or write could move more each, one after the other through a file or a pipe. Which descriptor a
    /// call had is not counted. A program with connections moves messages, which are as long as they are; so does one that mostly
    /// waits for what comes next, and one that looks for a place or for data before each call.
    pub fn could_move_more(&self, api: &str) -> bool {
        const CONNECTS: [&str; 5] = ["socket", "socketpair", "accept", "accept4", "connect"];
        const BEFORE: [&str; 8] =
            ["lseek", "lseek64", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"];
        let made = |names: &[&str]| {
            let same = self.apis.iter().filter(|other| names.contains(&public_name(other.bare_name())));
            same.map(|other| other.all.calls).sum::<i64>()
        };
        let waits = |kind: WaitKind| {
            self.profile.sched.waits.iter().filter(|wait| wait.kind == kind).map(|wait| wait.count).sum::<i64>()
        };
        let most = made(&[public_name(api)]) / 4;
        made(&CONNECTS) == 0 && waits(WaitKind::Socket) == 0 && made(&BEFORE) <= most && waits(WaitKind::Pipe) <= most
    }

    /// Share of the time in which threads were not waiting, 0–100.
    pub fn running_percent(&self, attributed_ns: f64) -> f64 {
        share(attributed_ns, self.running_ns)
    }

    /// Share of all threads' attributed lifetime, 0–100.
    pub fn percent(&self, attributed_ns: f64) -> f64 {
        share(attributed_ns, self.totals.attributed_ns as f64)
    }

    /// Share of all threads' lifetime, 0–100.
    pub fn raw_percent(&self, ns: i64) -> f64 {
        share(ns as f64, self.totals.lifetime_ns as f64)
    }

    /// Name and share of lifetime of the component with the most self time.
    pub fn busiest_component(&self) -> Option<(&str, f64)> {
        let row = self.components.first()?;
        Some((row.component.as_str(), row.self_percent.unwrap_or(0.0)))
    }

    /// `--component … --api …` for an API, quoted for a shell.
    pub fn options(&self, fact: &ApiFact<'_>) -> String {
        let component = super::words::shell(self.names.get(fact.callee));
        format!("--component {component} --api {}", super::words::shell(fact.api))
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part * 100.0 / whole).clamp(0.0, 100.0) } else { 0.0 }
}
