use std::collections::HashMap;

use transect_profile_model::{ApiClass, Component, ComponentId, Flow, Process, Profile, Thread, ThreadId};

/// Calls of one API from one place of the call tree, folded: `calls` of them, and what they call in turn.
#[derive(Debug, Clone)]
pub struct Call {
    /// Component that holds the API; the caller is the callee above it.
    pub callee: ComponentId,
    /// Name, also used as symbol.
    pub api: String,
    /// Kind of time.
    pub class: ApiClass,
    /// Number of calls.
    pub calls: i64,
    /// Time of all of them, less `inner`, ns.
    pub self_ns: i64,
    /// Bytes asked for.
    pub bytes: Option<i64>,
    /// Calls made meanwhile from the callee to other components.
    pub inner: Vec<Call>,
}

impl Call {
    /// Ordinary code.
    pub fn new(callee: ComponentId, api: &str, calls: i64, self_ns: i64) -> Self {
        Self { callee, api: api.into(), class: ApiClass::Compute, calls, self_ns, bytes: None, inner: Vec::new() }
    }

    /// Of another class.
    pub fn class(mut self, class: ApiClass) -> Self {
        self.class = class;
        self
    }

    /// With a known size.
    pub fn bytes(mut self, bytes: i64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Calling others.
    pub fn inner(mut self, inner: impl IntoIterator<Item = Call>) -> Self {
        self.inner.extend(inner);
        self
    }

    /// Time from entry to return, ns.
    pub fn total_ns(&self) -> i64 {
        self.self_ns + self.inner.iter().map(Self::total_ns).sum::<i64>()
    }
}

/// A thread to build.
#[derive(Debug, Clone)]
pub struct ThreadSpec {
    /// Name.
    pub name: String,
    /// Group.
    pub group: String,
    /// Time in the executable's own code, ns.
    pub own_ns: i64,
    /// Number of active threads assumed throughout, for attributed times.
    pub active: i64,
    /// Outermost calls, made by the executable.
    pub calls: Vec<Call>,
}

/// Builds a profile from call trees.
pub struct ProfileBuilder {
    profile: Profile,
    rows: HashMap<(ThreadId, ComponentId, ComponentId, String), usize>,
}

impl ProfileBuilder {
    /// Starts with an executable and its libraries, by path; ids count from 0 for the executable.
    pub fn new(executable: &str, libraries: &[&str]) -> Self {
        let mut profile = super::empty();
        profile.meta.command = vec![executable.to_owned()];
        let component = |(id, path): (usize, &str)| Component {
            path: path.to_owned(),
            build_id: format!("{:040x}", 0xb01d_0000_u64 + id as u64),
            executable: id == 0,
            synthetic: path.starts_with('['),
            static_in: None,
        };
        profile.components =
            std::iter::once(executable).chain(libraries.iter().copied()).enumerate().map(component).collect();
        Self { profile, rows: HashMap::new() }.process(executable)
    }

    /// Starts another process; threads added from now on belong to it.
    pub fn process(mut self, executable: &str) -> Self {
        let number = self.profile.processes.len() as i32;
        self.profile.processes.push(Process {
            pid: 4000 + number * 100,
            parent_pid: if number == 0 { 1 } else { 4000 },
            executable: executable.to_owned(),
            start_ns: 0,
            wall_ns: 0,
        });
        self
    }

    /// Adds a thread to the latest process.
    pub fn thread(mut self, spec: ThreadSpec) -> Self {
        let id = self.profile.threads.len() as ThreadId;
        let process = self.profile.processes.len() - 1;
        let pid = self.profile.processes[process].pid;
        let in_process = self.profile.threads.iter().filter(|t| t.process as usize == process).count();
        let active = spec.active.max(1);
        let outermost_ns: i64 = spec.calls.iter().map(Call::total_ns).sum();
        let wall_ns = spec.own_ns + outermost_ns;
        let executable = self.profile.processes[process].executable.clone();
        let caller = self.profile.components.iter().position(|c| c.path == executable).unwrap_or(0) as ComponentId;
        let wait_ns = spec.calls.iter().map(outermost_waiting).sum();
        let calls = spec.calls.iter().map(|call| self.add(id, caller, call, active)).sum();
        let start_routine = if spec.group == "main" { String::new() } else { format!("{}_main", spec.group) };
        self.profile.threads.push(Thread {
            process: process as u32,
            tid: pid + in_process as i32,
            name: spec.name,
            group: spec.group,
            start_routine,
            start_ns: id as i64 * 1000,
            wall_ns,
            busy_ns: wall_ns - wait_ns,
            wait_ns,
            calls,
            outermost_ns,
            outermost_attributed_ns: outermost_ns / active,
            attributed_ns: wall_ns / active,
        });
        let process = &mut self.profile.processes[process];
        process.wall_ns = process.wall_ns.max(wall_ns);
        self.profile.meta.wall_ns = self.profile.processes.iter().map(|p| p.wall_ns).max().unwrap_or(0);
        self
    }

    fn add(&mut self, thread: ThreadId, caller: ComponentId, call: &Call, active: i64) -> i64 {
        let mut calls = call.calls;
        for inner in &call.inner {
            calls += self.add(thread, call.callee, inner, active);
        }
        let flows = &mut self.profile.flows;
        let row = *self.rows.entry((thread, caller, call.callee, call.api.clone())).or_insert_with(|| {
            flows.push(Flow {
                thread,
                context: 0,
                caller,
                callee: call.callee,
                api: call.api.clone(),
                symbol: call.api.clone(),
                version: String::new(),
                class: call.class,
                calls: 0,
                timed_calls: 0,
                abandoned_calls: 0,
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
                p50_ns: None,
                p99_ns: None,
                max_ns: None,
                bytes: None,
                dlsym: false,
            });
            flows.len() - 1
        });
        let flow = &mut self.profile.flows[row];
        flow.calls += call.calls;
        if let Some(bytes) = call.bytes {
            *flow.bytes.get_or_insert(0) += bytes;
        }
        if call.class != ApiClass::CountOnly {
            flow.timed_calls += call.calls;
            *flow.total_ns.get_or_insert(0) += call.total_ns();
            *flow.self_ns.get_or_insert(0) += call.self_ns;
            *flow.attributed_ns.get_or_insert(0) += call.total_ns() / active;
        }
        calls
    }

    /// The profile.
    pub fn build(self) -> Profile {
        self.profile
    }
}

/// Time in outermost calls that wait, lock or do input and output.
fn outermost_waiting(call: &Call) -> i64 {
    match call.class {
        ApiClass::Io | ApiClass::Lock | ApiClass::Wait => call.total_ns(),
        ApiClass::Compute | ApiClass::CountOnly => call.inner.iter().map(outermost_waiting).sum(),
    }
}
