//! Call stacks reduced to paths of functions.

use rustc_hash::FxHashMap;
use transect_profile_model::{ComponentId, FrameId, Profile, Space, StackId};

use super::runtime_library::{is_c_library, is_runtime_component, is_runtime_function};
use crate::Names;

/// Number of a [`Function`].
pub(super) type FunctionId = u32;
/// Number of a [`CallPath`].
pub(super) type PathId = u32;

/// A function of a component (or of the kernel).
pub(super) struct Function {
    pub name: String,
    /// Display name of its component; empty if it has none.
    pub component: String,
    pub id: Option<ComponentId>,
}

/// Functions from root to leaf.
pub(super) struct CallPath {
    pub functions: Vec<FunctionId>,
    /// Position in `functions` of the one that a user would call the place.
    pub place: usize,
    /// All of its stacks reach `main` or a thread's start.
    pub complete: bool,
}

/// What a stack says of the place where it was taken.
#[derive(Clone, Copy)]
pub(super) struct StackFacts {
    pub path: PathId,
    /// The frame whose line to show.
    pub line: Option<FrameId>,
    /// It ends in the kernel.
    pub kernel: bool,
}

/// Paths of all stacks of a profile.
pub(super) struct CallPaths {
    pub functions: Vec<Function>,
    pub paths: Vec<CallPath>,
    stacks: Vec<StackFacts>,
}

impl CallPaths {
    pub fn new(profile: &Profile, names: &Names) -> Self {
        let mut interner = Interner::new(profile, names);
        let stacks = (0..profile.sched.stacks.len()).map(|stack| interner.stack(stack)).collect();
        Self { functions: interner.functions, paths: interner.paths, stacks }
    }

    /// Facts of a stack; `None` for a number that the profile does not have.
    pub fn stack(&self, id: StackId) -> Option<StackFacts> {
        self.stacks.get(id as usize).copied()
    }

    /// Names of a path's functions, root first.
    pub fn names(&self, path: PathId) -> Vec<String> {
        self.paths[path as usize].functions.iter().map(|&f| self.functions[f as usize].name.clone()).collect()
    }

    /// Names of the components of a path's functions.
    pub fn components(&self, path: PathId) -> Vec<String> {
        let component = |&f: &FunctionId| self.functions[f as usize].component.clone();
        self.paths[path as usize].functions.iter().map(component).collect()
    }

    /// The function that a user would call the place.
    pub fn place(&self, path: PathId) -> Option<FunctionId> {
        let path = &self.paths[path as usize];
        path.functions.get(path.place).copied()
    }

    /// Name of [`CallPaths::place`]; empty for an empty path.
    pub fn place_name(&self, path: PathId) -> String {
        self.place(path).map_or_else(String::new, |f| self.functions[f as usize].name.clone())
    }
}

struct Interner<'a> {
    profile: &'a Profile,
    names: &'a Names,
    c_library: Vec<bool>,
    runtime: Vec<bool>,
    functions: Vec<Function>,
    by_name: FxHashMap<(String, Option<ComponentId>, bool), FunctionId>,
    by_frame: Vec<Option<FunctionId>>,
    paths: Vec<CallPath>,
    by_functions: FxHashMap<Vec<FunctionId>, PathId>,
}

impl<'a> Interner<'a> {
    fn new(profile: &'a Profile, names: &'a Names) -> Self {
        let components = || profile.components.iter().map(|component| crate::names::file_name(&component.path));
        Self {
            profile,
            names,
            c_library: components().map(is_c_library).collect(),
            runtime: components().map(is_runtime_component).collect(),
            functions: Vec::new(),
            by_name: FxHashMap::default(),
            by_frame: vec![None; profile.sched.frames.len()],
            paths: Vec::new(),
            by_functions: FxHashMap::default(),
        }
    }

    fn stack(&mut self, stack: usize) -> StackFacts {
        let profile = self.profile;
        let stack = &profile.sched.stacks[stack];
        let frame = |id: &FrameId| profile.sched.frames.get(*id as usize);
        let is_user = |id: &&FrameId| frame(id).is_some_and(|frame| frame.space == Space::User);
        let mut frames: Vec<FrameId> = stack.frames.iter().filter(is_user).copied().collect();
        let kernel = stack.frames.last().and_then(frame).is_some_and(|frame| frame.space == Space::Kernel);
        if frames.is_empty() {
            frames = stack.frames.iter().copied().filter(|id| frame(id).is_some()).collect();
        }
        // What a library does inside of itself is its own affair: the last frame is the function that was called.
        while let [.., caller, leaf] = frames[..]
            && self.in_c_library(caller)
            && self.in_c_library(leaf)
        {
            frames.pop();
        }
        let functions: Vec<FunctionId> = frames.iter().map(|&id| self.function(id)).collect();
        let place = self.place(&frames, &functions);
        let has_line = |id: &&FrameId| frame(id).is_some_and(|frame| !frame.file.is_empty());
        let line = frames.get(place..).and_then(|inner| inner.iter().rev().find(has_line).or(inner.last())).copied();
        StackFacts { path: self.path(functions, place, stack.complete), line, kernel }
    }

    fn place(&self, frames: &[FrameId], functions: &[FunctionId]) -> usize {
        let own = |position: &usize| {
            let function = &self.functions[functions[*position] as usize];
            let runtime = function.id.is_some_and(|id| self.runtime.get(id as usize) == Some(&true));
            !runtime && !is_runtime_function(&function.name)
        };
        let last = frames.len().saturating_sub(1);
        (0..frames.len()).rev().find(own).unwrap_or(last)
    }

    fn in_c_library(&self, frame: FrameId) -> bool {
        let component = self.profile.sched.frames.get(frame as usize).and_then(|frame| frame.component);
        component.is_some_and(|id| self.c_library.get(id as usize) == Some(&true))
    }

    fn function(&mut self, id: FrameId) -> FunctionId {
        if let Some(function) = self.by_frame[id as usize] {
            return function;
        }
        let frame = &self.profile.sched.frames[id as usize];
        let kernel = frame.space == Space::Kernel;
        let component = match frame.component {
            Some(id) => self.names.get(id).to_owned(),
            None if kernel => "[kernel]".to_owned(),
            None => String::new(),
        };
        // Code without names is one place per component: addresses would scatter it.
        let name = match frame.function.as_str() {
            name if !name.starts_with("0x") && !name.is_empty() => name.to_owned(),
            _ if component.is_empty() || kernel => "[unknown]".to_owned(),
            _ => format!("[{component}]"),
        };
        let next = self.functions.len() as FunctionId;
        let function = *self.by_name.entry((name.clone(), frame.component, kernel)).or_insert(next);
        if function == next {
            self.functions.push(Function { name, component, id: frame.component });
        }
        self.by_frame[id as usize] = Some(function);
        function
    }

    fn path(&mut self, functions: Vec<FunctionId>, place: usize, complete: bool) -> PathId {
        if let Some(&path) = self.by_functions.get(&functions) {
            self.paths[path as usize].complete &= complete;
            return path;
        }
        let path = self.paths.len() as PathId;
        self.by_functions.insert(functions.clone(), path);
        self.paths.push(CallPath { functions, place, complete });
        path
    }
}
