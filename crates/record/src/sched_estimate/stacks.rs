//! Paths as far as flows know them: where the thread began, the component that calls, the API.

use std::collections::HashMap;

use transect_profile_model::{CallStack, ComponentId, Flow, FrameId, Profile, Space, StackFrame, StackId, TaskId};

/// Frames of the longest path.
pub const DEPTH: i64 = 3;

/// Paths without repetition.
pub struct Stacks<'a> {
    profile: &'a Profile,
    frames: Vec<StackFrame>,
    frame_ids: HashMap<StackFrame, FrameId>,
    stacks: Vec<CallStack>,
    stack_ids: HashMap<CallStack, StackId>,
}

impl<'a> Stacks<'a> {
    /// None yet.
    pub fn new(profile: &'a Profile) -> Self {
        Stacks { profile, frames: Vec::new(), frame_ids: HashMap::new(), stacks: Vec::new(), stack_ids: HashMap::new() }
    }

    /// Frames and stacks made.
    pub fn finish(self) -> (Vec<StackFrame>, Vec<CallStack>) {
        (self.frames, self.stacks)
    }

    /// Where a thread began.
    pub fn of_start(&mut self, task: TaskId) -> StackId {
        let (root, _) = self.root(task);
        self.stack(vec![root])
    }

    /// A call of a thread.
    pub fn of_call(&mut self, task: TaskId, flow: &Flow) -> StackId {
        let (root, executable) = self.root(task);
        let mut frames = vec![root];
        if Some(flow.caller) != executable {
            let name = format!("[{}]", self.file_name(flow.caller));
            frames.push(self.frame(name, Some(flow.caller)));
        }
        frames.push(self.frame(flow.api.clone(), Some(flow.callee)));
        self.stack(frames)
    }

    fn root(&mut self, task: TaskId) -> (FrameId, Option<ComponentId>) {
        let thread = &self.profile.threads[task as usize];
        let process = &self.profile.processes[thread.process as usize];
        let executable = self
            .profile
            .components
            .iter()
            .position(|c| c.executable && c.path == process.executable)
            .map(|at| at as ComponentId);
        let name = match thread.start_routine.as_str() {
            "" if thread.group == "main" => "main".to_owned(),
            "" => format!("[{}]", thread.name),
            routine => routine.to_owned(),
        };
        (self.frame(name, executable), executable)
    }

    fn file_name(&self, component: ComponentId) -> &str {
        self.profile
            .components
            .get(component as usize)
            .map_or("unknown", |c| c.path.rsplit('/').next().unwrap_or(&c.path))
    }

    fn frame(&mut self, function: String, component: Option<ComponentId>) -> FrameId {
        let frame =
            StackFrame { function, component, file: String::new(), line: 0, inlined: false, space: Space::User };
        *self.frame_ids.entry(frame.clone()).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() as FrameId - 1
        })
    }

    fn stack(&mut self, frames: Vec<FrameId>) -> StackId {
        let stack = CallStack { frames, complete: true, linked: 0 };
        *self.stack_ids.entry(stack.clone()).or_insert_with(|| {
            self.stacks.push(stack);
            self.stacks.len() as StackId - 1
        })
    }
}
