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
    /// Position in `functions` of the one that a user would call the place: the innermost that is no runtime library's
    /// and was not inlined.
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
        let names: Vec<FunctionId> = frames.iter().map(|&id| self.function(id)).collect();
        let place = self.place(&frames, &names);
        // What was inlined into the place is told by its lines: the same function stays one path.
        let inlined = |id: FrameId| frame(&id).is_some_and(|frame| frame.inlined);
        let kept = |at: &usize| *at <= place || !inlined(frames[*at]);
        let functions: Vec<FunctionId> = (0..frames.len()).filter(kept).map(|at| names[at]).collect();
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
        let innermost = (0..frames.len()).rev().find(own).unwrap_or(last);
        // A function that was inlined is part of the one that it was inlined into, unless that is a library's.
        let is_whole = |id: FrameId| self.profile.sched.frames.get(id as usize).is_none_or(|frame| !frame.inlined);
        let whole = frames.iter().take(innermost + 1).rposition(|&id| is_whole(id));
        whole.filter(own).unwrap_or(innermost)
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

#[cfg(test)]
mod tests {
    use transect_profile_model::{CallStack, Component, StackFrame};

    use super::*;
    use crate::synthetic::empty;

    /// Frames as (component, function, inlined), root first; component 2 is the kernel.
    fn facts(frames: &[(u32, &str, bool)]) -> (Vec<String>, String) {
        let mut profile = empty();
        for path in ["/opt/app/bin/app", "/usr/lib/libc.so.6"] {
            let component = |path: &str| Component {
                path: path.into(),
                build_id: String::new(),
                executable: false,
                synthetic: false,
                static_in: None,
            };
            profile.components.push(component(path));
        }
        for &(component, function, inlined) in frames {
            profile.sched.frames.push(StackFrame {
                function: function.into(),
                component: Some(component).filter(|&id| id < 2),
                file: String::new(),
                line: 0,
                inlined,
                space: if component == 2 { Space::Kernel } else { Space::User },
            });
        }
        let frames = (0..frames.len() as u32).collect();
        profile.sched.stacks.push(CallStack { frames, complete: true });
        let paths = CallPaths::new(&profile, &Names::new(&profile));
        (paths.names(0), paths.place_name(0))
    }

    fn expect(frames: &[(u32, &str, bool)], stack: &[&str], place: &str) {
        assert_eq!(facts(frames), (stack.iter().map(|&name| name.to_owned()).collect(), place.to_owned()));
    }

    #[test]
    fn libraries_are_cut_at_the_function_that_was_called() {
        let frames = [(0, "main", false), (0, "copy", false), (1, "fwrite", false), (1, "__memmove_avx", false)];
        expect(&frames, &["main", "copy", "fwrite"], "copy");
    }

    #[test]
    fn kernel_frames_stand_only_for_threads_without_others() {
        expect(&[(0, "main", false), (1, "read", false), (2, "ksys_read", false)], &["main", "read"], "main");
        expect(
            &[(2, "ret_from_fork", false), (2, "io_wq_worker", false)],
            &["ret_from_fork", "io_wq_worker"],
            "io_wq_worker",
        );
    }

    #[test]
    fn what_was_inlined_is_part_of_the_function_around_it() {
        let inlined = [(0, "main", false), (0, "rebuild", false), (0, "mixed", true), (0, "std::lower_bound", true)];
        expect(&inlined, &["main", "rebuild"], "rebuild");
        let in_library = [(0, "std::thread::_M_run", false), (0, "work", true), (1, "malloc", false)];
        expect(&in_library, &["std::thread::_M_run", "work", "malloc"], "work");
    }

    #[test]
    fn code_without_names_is_one_place() {
        expect(&[(0, "main", false), (0, "0x55d0", false)], &["main", "[app]"], "[app]");
        expect(&[(0, "main", false), (9, "0x7f00", false)], &["main", "[unknown]"], "[unknown]");
    }
}
