use std::collections::HashMap;

use transect_profile_model::{
    ApiClass, Component, ComponentId, Dependence, Feature, FeatureId, FeatureRegion, FeatureSession, FeatureVariable,
    Flow, ImplicitFlow, Process, Profile, RegionContext, RegionId, RegionKind, RegionMethod, RegionNode, RegionNodeId,
    RegionSlice, Thread, ThreadId, Timing,
};

use super::empty;

/// Plays a program's threads one after the other.
pub(super) struct Run {
    profile: Profile,
    /// Open nodes of the thread, its root first, each with the time of entry.
    open: Vec<(RegionNodeId, i64)>,
    now: i64,
    known: HashMap<(RegionNodeId, RegionId), RegionNodeId>,
    contexts: HashMap<Vec<RegionId>, u32>,
}

impl Run {
    pub(super) fn new(executable: &str, libraries: &[&str], features: &[&str]) -> Self {
        let mut profile = empty();
        profile.meta.command = vec![executable.to_owned()];
        profile.meta.collectors = vec!["feature".into()];
        profile.meta.timing = Timing::Count;
        profile.meta.wall_ns = 0;
        profile.components = std::iter::once(executable)
            .chain(libraries.iter().copied())
            .enumerate()
            .map(|(id, path)| Component {
                path: path.to_owned(),
                build_id: format!("{:040x}", 0xfea7_0000_u64 + id as u64),
                executable: id == 0,
                synthetic: false,
                static_in: None,
            })
            .collect();
        let process = Process { pid: 6000, parent_pid: 1, executable: executable.to_owned(), start_ns: 0, wall_ns: 0 };
        profile.processes.push(process);
        profile.feature.features = features.iter().map(|&name| Feature { name: name.to_owned() }).collect();
        profile.meta.feature = Some(FeatureSession {
            methods: vec![RegionMethod::Trace],
            sample_hz: 0,
            implicit: ImplicitFlow::Constant,
            dependence: Dependence::default(),
            ignored: Vec::new(),
            builds: vec!["4f1d0c2a77e09b35".into()],
            model: "9a3c5e71bb204d68".into(),
            events: 0,
            dropped: 0,
            blocked: 0,
            waited_ns: 0,
            stopped_ns: 0,
            sites: 0,
            samples: 0,
            untranslated: 0,
            event_ns: 12.5,
        });
        Self { profile, open: Vec::new(), now: 0, known: HashMap::new(), contexts: HashMap::new() }
    }

    #[expect(clippy::too_many_arguments, reason = "a row of a table")]
    pub(super) fn region(
        &mut self,
        component: ComponentId,
        features: &[FeatureId],
        kind: RegionKind,
        function: &str,
        file: &str,
        (line, end_line): (i64, i64),
        parent: Option<RegionId>,
    ) -> RegionId {
        let regions = &mut self.profile.feature.regions;
        let mut features = features.to_vec();
        features.sort_unstable();
        features.dedup();
        regions.push(FeatureRegion {
            component,
            number: regions.iter().filter(|region| region.component == component).count() as i64,
            dependences: vec![Dependence::Direct; features.len()],
            verdicts: vec![None; features.len()],
            features,
            kind,
            function: function.to_owned(),
            file: file.to_owned(),
            line,
            end_line,
            parent,
            sites: 2,
            irregular: None,
            method: Some(RegionMethod::Trace),
        });
        self.session().sites += 2;
        regions_len(&self.profile) - 1
    }

    fn session(&mut self) -> &mut FeatureSession {
        self.profile.meta.feature.get_or_insert_with(|| unreachable!("set by `new`"))
    }

    pub(super) fn irregular(&mut self, region: RegionId, why: &str) {
        let region = &mut self.profile.feature.regions[region as usize];
        region.irregular = Some(why.to_owned());
        (region.method, region.sites) = (None, 0);
    }

    pub(super) fn sampled(&mut self, region: RegionId) {
        self.profile.feature.regions[region as usize].method = Some(RegionMethod::Sample);
        let session = self.session();
        session.methods = vec![RegionMethod::Trace, RegionMethod::Sample];
        session.sample_hz = 97;
    }

    pub(super) fn lost(&mut self, feature: FeatureId, variable: &str, lost: Option<&str>) {
        let (variable, lost) = (variable.to_owned(), lost.map(str::to_owned));
        self.profile.feature.variables.push(FeatureVariable { component: 0, feature, variable, lost });
    }

    /// The next calls are of another thread, from the recording's start.
    pub(super) fn thread(&mut self, name: &str, group: &str) {
        self.end_thread();
        let id = self.profile.threads.len() as ThreadId;
        self.profile.threads.push(Thread {
            process: 0,
            tid: 6000 + id as i32,
            name: name.to_owned(),
            group: group.to_owned(),
            start_routine: if group == "main" { String::new() } else { format!("{group}_main") },
            start_ns: 0,
            wall_ns: 0,
            busy_ns: 0,
            wait_ns: 0,
            calls: 0,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        });
        self.now = 0;
        let root = self.push_node(None, None, RegionMethod::Trace);
        self.open = vec![(root, 0)];
    }

    fn end_thread(&mut self) {
        let Some(thread) = self.profile.threads.last_mut() else { return };
        (thread.wall_ns, thread.attributed_ns) = (self.now, self.now);
        thread.busy_ns = self.now - thread.wait_ns;
        self.profile.meta.wall_ns = self.profile.meta.wall_ns.max(self.now);
        self.profile.processes[0].wall_ns = self.profile.meta.wall_ns;
    }

    fn push_node(
        &mut self,
        parent: Option<RegionNodeId>,
        region: Option<RegionId>,
        method: RegionMethod,
    ) -> RegionNodeId {
        let nodes = &mut self.profile.feature.nodes;
        nodes.push(RegionNode {
            parent,
            region,
            thread: self.profile.threads.len() as ThreadId - 1,
            method,
            entries: region.filter(|_| method != RegionMethod::Sample).map(|_| 0),
            exclusive_ns: 0,
            exclusive_ns_low: 0,
            exclusive_ns_high: 0,
            cpu_ns: Some(0),
            samples: 0,
        });
        nodes.len() as RegionNodeId - 1
    }

    fn current(&self) -> RegionNodeId {
        self.open.last().map_or(0, |open| open.0)
    }

    fn child(&mut self, region: RegionId, method: RegionMethod) -> RegionNodeId {
        let parent = self.current();
        if let Some(&node) = self.known.get(&(parent, region)) {
            return node;
        }
        let node = self.push_node(Some(parent), Some(region), method);
        self.known.insert((parent, region), node);
        node
    }

    pub(super) fn enter(&mut self, region: RegionId) {
        let node = self.child(region, RegionMethod::Trace);
        if let Some(entries) = &mut self.profile.feature.nodes[node as usize].entries {
            *entries += 1;
        }
        self.session().events += 2;
        self.open.push((node, self.now));
    }

    pub(super) fn leave(&mut self) {
        let Some((node, start_ns)) = self.open.pop() else { return };
        self.profile.feature.slices.push(RegionSlice { node, start_ns, duration_ns: self.now - start_ns });
    }

    pub(super) fn spend(&mut self, ns: i64) {
        self.spend_in(self.current(), ns, ns);
    }

    fn spend_in(&mut self, node: RegionNodeId, ns: i64, cpu_ns: i64) {
        let node = &mut self.profile.feature.nodes[node as usize];
        node.exclusive_ns += ns;
        (node.exclusive_ns_low, node.exclusive_ns_high) = (node.exclusive_ns, node.exclusive_ns);
        node.cpu_ns = node.cpu_ns.map(|sum| sum + cpu_ns);
        self.now += ns;
    }

    /// Enters, spends, leaves.
    pub(super) fn stay(&mut self, region: RegionId, ns: i64) {
        self.enter(region);
        self.spend(ns);
        self.leave();
    }

    /// Time in a region that is known from samples.
    pub(super) fn samples(&mut self, region: RegionId, ns: i64, samples: i64) {
        let node = self.child(region, RegionMethod::Sample);
        self.spend_in(node, ns, ns);
        let node = &mut self.profile.feature.nodes[node as usize];
        node.samples += samples;
        let half = (node.exclusive_ns as f64 * 1.96 / (node.samples as f64).sqrt()) as i64;
        (node.exclusive_ns_low, node.exclusive_ns_high) = (node.exclusive_ns - half, node.exclusive_ns + half);
        self.session().samples += samples;
    }

    /// Calls of an API, which take `ns` together.
    pub(super) fn call(&mut self, callee: ComponentId, api: &str, class: ApiClass, calls: i64, ns: i64) {
        let waits = class != ApiClass::Compute;
        self.spend_in(self.current(), ns, if waits { 0 } else { ns });
        let stack: Vec<RegionId> =
            self.open.iter().filter_map(|&(node, _)| self.profile.feature.nodes[node as usize].region).collect();
        let next = self.contexts.len() as u32 + 1;
        let context = match stack.is_empty() {
            true => 0,
            false => *self.contexts.entry(stack.clone()).or_insert(next),
        };
        if context == next {
            self.profile.feature.contexts.push(RegionContext { regions: stack });
        }
        let thread = self.profile.threads.len() as ThreadId - 1;
        let row = &mut self.profile.threads[thread as usize];
        row.calls += calls;
        row.outermost_ns += ns;
        row.outermost_attributed_ns += ns;
        row.wait_ns += if waits { ns } else { 0 };
        let same = |flow: &&mut Flow| flow.thread == thread && flow.context == context && flow.api == api;
        if let Some(flow) = self.profile.flows.iter_mut().find(same) {
            flow.calls += calls;
            flow.timed_calls += calls;
            for sum in [&mut flow.total_ns, &mut flow.self_ns, &mut flow.attributed_ns] {
                *sum = sum.map(|sum| sum + ns);
            }
            return;
        }
        self.profile.flows.push(Flow {
            thread,
            context,
            caller: 0,
            callee,
            api: api.to_owned(),
            symbol: api.to_owned(),
            version: String::new(),
            class,
            calls,
            timed_calls: calls,
            abandoned_calls: 0,
            total_ns: Some(ns),
            total_ns_low: None,
            total_ns_high: None,
            self_ns: Some(ns),
            self_ns_low: None,
            self_ns_high: None,
            called_back_ns: 0,
            called_back_same_edge_ns: 0,
            attributed_ns: Some(ns),
            criticality_ns: None,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            bytes: None,
            dlsym: false,
        });
    }

    pub(super) fn finish(mut self) -> Profile {
        self.end_thread();
        self.profile.feature.slices.sort_by_key(|slice| (slice.start_ns, slice.node));
        if !self.profile.flows.is_empty() {
            self.profile.meta.collectors.insert(0, "flow".into());
            self.profile.meta.timing = Timing::Full;
        }
        self.profile
    }
}

fn regions_len(profile: &Profile) -> RegionId {
    profile.feature.regions.len() as RegionId
}
