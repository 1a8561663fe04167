//! A profile's flows, or its critical paths, as weighted stacks: the form that all stack formats share.

use transect_analyze::Names;
use transect_profile_model::{
    ApiClass, ComponentId, FeatureRegion, FeatureTables, Flow, Profile, StackFrame, ThreadId, WaitKind, WalkNode,
};

use crate::Subject;

/// One frame of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame<'a> {
    /// File name of a process' executable. Processes of the same program share it, so that a build with a hundred
    /// compiler processes is one tree.
    Program(&'a str),
    /// Name of a thread group.
    Group(&'a str),
    /// Code of a component as a whole.
    Component(ComponentId),
    /// An API of a component.
    Api(ComponentId, &'a Flow),
    /// A function of a call stack.
    Function(&'a StackFrame),
    /// A function of a walk's call tree.
    Node(&'a WalkNode),
    /// A region of a feature.
    Region(&'a FeatureRegion),
    /// Waiting, below the function that waits.
    Waiting(WaitKind),
    /// No stack was taken.
    NoStack,
}

/// One stack with what was measured at its leaf.
#[derive(Debug, Clone)]
pub(crate) struct Stack<'a> {
    /// Thread that was measured; of critical paths, a row number in the scheduler's tasks; of walks, in their groups.
    pub thread: ThreadId,
    /// Frames, root first.
    pub frames: Vec<Frame<'a>>,
    /// Calls entered; 0 for a program's own code. Of critical paths and walks, samples and waits; of regions, entries.
    pub calls: i64,
    /// Wall time from entry to return, ns. Of critical paths, the time active or waited; of walks and
    /// regions, on a CPU.
    pub total_ns: i64,
    /// The same less calls made meanwhile into other components, ns. Of critical paths, criticality; of walks, the time
    /// in the function itself.
    pub self_ns: i64,
    /// Total, each instant divided by the number of active threads, ns. Of walks, the time off CPUs.
    pub attributed_ns: i64,
    /// Kind of time.
    pub class: ApiClass,
    /// Of critical paths, what was waited for.
    pub wait: Option<WaitKind>,
}

/// A profile's stacks and the display names of its components.
pub(crate) struct Stacks<'a> {
    /// In the order of [`Profile::flows`], then one for each thread's own code.
    pub rows: Vec<Stack<'a>>,
    /// Display names, as in the views.
    pub names: Names,
    /// False if the profile holds counts only.
    pub has_times: bool,
    /// Names of features.
    feature: &'a FeatureTables,
}

impl<'a> Stacks<'a> {
    /// Collects the stacks of `profile`.
    pub(crate) fn collect(profile: &'a Profile, subject: Subject) -> Self {
        match subject {
            Subject::Flows => Self::of_flows(profile),
            Subject::Criticality => Self::timed(profile, crate::critical_path::stacks(profile)),
            Subject::Walk => Self::timed(profile, crate::walk_stacks::stacks(profile)),
            Subject::Features => Self::timed(profile, crate::region_stacks::stacks(profile)),
        }
    }

    fn timed(profile: &'a Profile, rows: Vec<Stack<'a>>) -> Self {
        Self { rows, names: Names::new(profile), has_times: true, feature: &profile.feature }
    }

    fn of_flows(profile: &'a Profile) -> Self {
        let names = Names::new(profile);
        let has_times = profile.flows.iter().any(|f| f.self_ns.is_some()) || profile.flows.is_empty();
        let mut rows: Vec<Stack<'a>> = profile
            .flows
            .iter()
            .map(|flow| Stack {
                thread: flow.thread,
                frames: {
                    let mut frames = thread_frames(profile, flow.thread);
                    frames.push(Frame::Component(flow.caller));
                    frames.push(Frame::Api(flow.callee, flow));
                    frames
                },
                calls: flow.calls,
                total_ns: flow.total_ns.unwrap_or(0),
                self_ns: flow.self_ns.unwrap_or(0),
                attributed_ns: flow.attributed_ns.unwrap_or(0),
                class: flow.class,
                wait: None,
            })
            .collect();
        // Without times, a thread's lifetime less its (untimed) calls would charge everything to the executable.
        if has_times {
            rows.extend(own_code(profile));
        }
        Self { rows, names, has_times, feature: &profile.feature }
    }

    /// Text of a frame.
    pub(crate) fn text(&self, frame: &Frame<'_>) -> String {
        match frame {
            Frame::Program(name) => (*name).to_owned(),
            Frame::Group(name) => (*name).to_owned(),
            Frame::Component(id) => self.component(*id).to_owned(),
            Frame::Api(id, flow) => format!("{}!{}", self.component(*id), flow.api),
            Frame::Function(frame) => frame.function.clone(),
            Frame::Node(node) => node.function.clone(),
            Frame::Region(region) => crate::region_stacks::text(self.feature, region),
            Frame::Waiting(kind) => format!("[waits: {}]", kind.as_str()),
            Frame::NoStack => "[no stack]".to_owned(),
        }
    }

    /// Display name of a component; `?` for an index out of range (a damaged profile).
    pub(crate) fn component(&self, id: ComponentId) -> &str {
        self.names.get(id)
    }
}

/// Last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

pub(crate) fn thread_frames(profile: &Profile, thread: ThreadId) -> Vec<Frame<'_>> {
    let thread = profile.threads.get(thread as usize);
    let process = thread.and_then(|t| profile.processes.get(t.process as usize));
    vec![
        Frame::Program(process.map_or("[unknown]", |p| file_name(&p.executable))),
        Frame::Group(thread.map_or("[unknown]", |t| t.group.as_str())),
    ]
}

/// Time that threads spent outside of all timed calls: the executable's own code (Scaler, ASE '24, section 3.5).
fn own_code(profile: &Profile) -> impl Iterator<Item = Stack<'_>> {
    profile.threads.iter().enumerate().filter_map(|(id, thread)| {
        let process = profile.processes.get(thread.process as usize)?;
        let executable = profile.components.iter().position(|c| c.executable && c.path == process.executable)?;
        let own_ns = (thread.wall_ns - thread.outermost_ns).max(0);
        let mut frames = thread_frames(profile, id as ThreadId);
        frames.push(Frame::Component(executable as ComponentId));
        (own_ns > 0).then_some(Stack {
            thread: id as ThreadId,
            frames,
            calls: 0,
            total_ns: own_ns,
            self_ns: own_ns,
            attributed_ns: (thread.attributed_ns - thread.outermost_attributed_ns).max(0),
            class: ApiClass::Compute,
            wait: None,
        })
    })
}
