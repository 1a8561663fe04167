//! Call stacks reduced to paths of functions.

use rustc_hash::FxHashMap;
use transect_profile_model::{ComponentId, FrameId, Profile, Space, StackId};

use super::lock_call::is_lock_call;
use super::runtime_library::{go_task, is_agent, is_c_library, is_runtime_component, is_runtime_function, public_name};
use crate::Names;

/// Number of a [`Function`].
pub(super) type FunctionId = u32;
/// Number of a [`CallPath`].
pub(super) type PathId = u32;
/// Number of functions inlined one into the other.
pub(super) type InliningId = u32;
/// Nothing was inlined.
pub(super) const NOT_INLINED: InliningId = 0;

/// A function of a component (or of the kernel).
pub(super) struct Function {
    pub name: String,
    /// Display name of its component; empty if it has none.
    pub component: String,
    /// A runtime library's or the kernel's.
    pub runtime: bool,
    /// Another shared library's.
    pub library: bool,
    /// It takes a lock or gives it back.
    pub locks: bool,
}

/// The call by which a shared library was entered that is no runtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LibraryCall {
    /// The function that called it; it was not inlined.
    pub caller: FunctionId,
    /// The function that was called.
    pub entry: FunctionId,
}

/// Functions from root to leaf.
pub(super) struct CallPath {
    pub functions: Vec<FunctionId>,
    /// Position in `functions` of the one that a user would call the place: the innermost that is no runtime library's
    /// and was not inlined.
    pub place: usize,
    /// All of its stacks reach `main` or a thread's start.
    pub complete: bool,
    /// None of the functions is the program's own.
    pub runtime: bool,
    /// The function of the program that called the place, inlining and recursion left out.
    pub caller: Option<FunctionId>,
    /// How the library was entered whose function the place is.
    pub library_call: Option<LibraryCall>,
}

/// What a stack says of the place where it was taken.
#[derive(Clone, Copy)]
pub(super) struct StackFacts {
    pub path: PathId,
    /// The frame whose line to show.
    pub line: Option<FrameId>,
    /// The frame of the innermost function that is no runtime library's, inlined or not.
    pub own_line: Option<FrameId>,
    /// The agent prepares the program there, before its first instruction.
    pub preparing: bool,
    /// The frame of [`CallPath::library_call`]'s caller.
    pub call_line: Option<FrameId>,
    /// What was inlined into the place, one into the other, down to that function: number of an inlining.
    pub inlining: InliningId,
    /// It ends in the kernel.
    pub kernel: bool,
    /// It ends in the handling of a page fault.
    pub fault: bool,
}

/// Paths of all stacks of a profile.
pub(super) struct CallPaths {
    pub functions: Vec<Function>,
    pub paths: Vec<CallPath>,
    /// Functions that are inlined into the place of a path, outermost first.
    pub inlinings: Vec<Vec<FunctionId>>,
    stacks: Vec<StackFacts>,
}

impl CallPaths {
    pub fn new(profile: &Profile, names: &Names) -> Self {
        let mut interner = Interner::new(profile, names);
        let stacks = (0..profile.sched.stacks.len()).map(|stack| interner.stack(stack)).collect();
        Self { functions: interner.functions, paths: interner.paths, inlinings: interner.inlinings, stacks }
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

    /// How the library was entered whose function the place is.
    pub fn library_call(&self, path: PathId) -> Option<LibraryCall> {
        self.paths[path as usize].library_call
    }

    /// Whether none of a path's functions is the program's own.
    pub fn is_runtime(&self, path: PathId) -> bool {
        self.paths[path as usize].runtime
    }

    /// Whether a path ends in a call by which a lock is taken or given back.
    pub fn is_at_lock(&self, path: PathId) -> bool {
        let path = &self.paths[path as usize];
        let inner = path.functions.get(path.place..).unwrap_or_default();
        inner.iter().any(|&function| self.functions[function as usize].locks)
    }

    /// The place, and the function of the program that called it.
    pub fn around(&self, path: PathId) -> impl Iterator<Item = FunctionId> + use<> {
        let caller = self.paths[path as usize].caller;
        self.place(path).into_iter().chain(caller)
    }

    /// Whether a function is a runtime library's or the kernel's.
    pub fn is_runtime_function(&self, function: FunctionId) -> bool {
        self.functions[function as usize].runtime
    }

    /// Name of [`CallPaths::place`]; empty for an empty path.
    pub fn place_name(&self, path: PathId) -> String {
        self.place(path).map_or_else(String::new, |f| self.functions[f as usize].name.clone())
    }
}

/// Positions in a stack.
struct Place {
    /// The innermost function that is no runtime library's and was not inlined.
    whole: usize,
    /// The innermost function that is no runtime library's; inlined into the former if it is another one.
    innermost: usize,
}

struct Interner<'a> {
    profile: &'a Profile,
    names: &'a Names,
    agent: Vec<bool>,
    c_library: Vec<bool>,
    runtime: Vec<bool>,
    functions: Vec<Function>,
    by_name: FxHashMap<(String, Option<ComponentId>, bool), FunctionId>,
    by_frame: Vec<Option<FunctionId>>,
    paths: Vec<CallPath>,
    by_functions: FxHashMap<Vec<FunctionId>, PathId>,
    inlinings: Vec<Vec<FunctionId>>,
    by_inlined: FxHashMap<Vec<FunctionId>, InliningId>,
}

impl<'a> Interner<'a> {
    fn new(profile: &'a Profile, names: &'a Names) -> Self {
        let components = || profile.components.iter().map(|component| crate::names::file_name(&component.path));
        Self {
            profile,
            names,
            agent: profile.components.iter().map(|component| is_agent(&component.path)).collect(),
            c_library: components().map(is_c_library).collect(),
            runtime: components().map(is_runtime_component).collect(),
            functions: Vec::new(),
            by_name: FxHashMap::default(),
            by_frame: vec![None; profile.sched.frames.len()],
            paths: Vec::new(),
            by_functions: FxHashMap::default(),
            inlinings: vec![Vec::new()],
            by_inlined: FxHashMap::from_iter([(Vec::new(), NOT_INLINED)]),
        }
    }

    fn stack(&mut self, stack: usize) -> StackFacts {
        let profile = self.profile;
        let stack = &profile.sched.stacks[stack];
        let frame = |id: &FrameId| profile.sched.frames.get(*id as usize);
        let is_user = |id: &&FrameId| frame(id).is_some_and(|frame| frame.space == Space::User);
        let mut frames: Vec<FrameId> = stack.frames.iter().filter(is_user).copied().collect();
        // What stands between caller and callee because the program is recorded.
        let ran = !frames.is_empty();
        let component = |id: &FrameId| frame(id).and_then(|frame| frame.component);
        let in_agent = |id: &FrameId| component(id).is_some_and(|id| self.agent[id as usize]);
        let before_agent = frames.iter().rev().skip_while(|id| !in_agent(id)).find(|id| !in_agent(id));
        let loader = before_agent.and_then(component).and_then(|id| profile.components.get(id as usize));
        // Of a stack that is cut off at the agent it is not known who called: what the agent called for the program is the
        // program's.
        let preparing = frames.iter().any(in_agent)
            && match loader {
                Some(loader) => crate::names::file_name(&loader.path).starts_with("ld-"),
                None => frames.last().is_some_and(in_agent),
            };
        frames.retain(|id| !frame(id).and_then(|frame| frame.component).is_some_and(|id| self.agent[id as usize]));
        let is_fault = |id: &FrameId| {
            frame(id).is_some_and(|frame| frame.space == Space::Kernel && frame.function == "asm_exc_page_fault")
        };
        let fault = stack.frames.iter().any(is_fault);
        let kernel = stack.frames.last().and_then(frame).is_some_and(|frame| frame.space == Space::Kernel);
        // What the agent does for itself is no place of the program.
        if frames.is_empty() && !ran {
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
        let Place { whole: place, innermost } = self.place(&frames, &names);
        // Lines name what was inlined into the place; the path is that of the enclosing function.
        let inlined = |id: FrameId| frame(&id).is_some_and(|frame| frame.inlined);
        let kept = |at: &usize| *at <= place || !inlined(frames[*at]);
        let functions: Vec<FunctionId> = (0..frames.len()).filter(kept).map(|at| names[at]).collect();
        let has_line = |id: &&FrameId| frame(id).is_some_and(|frame| !frame.file.is_empty());
        let line = frames.get(place..).and_then(|inner| inner.iter().rev().find(has_line).or(inner.last())).copied();
        let own_line = frames.get(innermost).copied().filter(|id| has_line(&id));
        let inlining = self.inlining(names.get(place + 1..=innermost).unwrap_or_default());
        let calls = |&at: &usize| {
            !inlined(frames[at]) && names[at] != names[place] && !self.functions[names[at] as usize].runtime
        };
        let caller = (0..place).rev().find(calls).map(|at| names[at]);
        let entry = self.library_entry(&names, place);
        let call_line = entry.and_then(|at| frames.get(at - 1)).copied().filter(|id| has_line(&id));
        let library_call = entry.and_then(|at| {
            let whole = frames[..at].iter().rposition(|&id| !inlined(id))?;
            Some(LibraryCall { caller: names[whole], entry: names[at] })
        });
        StackFacts {
            path: self.path(CallPath {
                functions,
                place,
                caller,
                library_call,
                complete: stack.complete,
                runtime: false,
            }),
            line,
            own_line,
            preparing,
            call_line,
            inlining,
            kernel,
            fault,
        }
    }

    fn inlining(&mut self, functions: &[FunctionId]) -> InliningId {
        if let Some(&known) = self.by_inlined.get(functions) {
            return known;
        }
        let number = self.inlinings.len() as InliningId;
        self.inlinings.push(functions.to_vec());
        self.by_inlined.insert(functions.to_vec(), number);
        number
    }

    fn place(&self, frames: &[FrameId], functions: &[FunctionId]) -> Place {
        let own = |position: &usize| !self.functions[functions[*position] as usize].runtime;
        let last = frames.len().saturating_sub(1);
        let names = || functions.iter().map(|&function| self.functions[function as usize].name.as_str());
        let innermost = (0..frames.len()).rev().find(own).or_else(|| go_task(names())).unwrap_or(last);
        if let Some(entry) = self.entry(frames, functions, innermost) {
            return Place { whole: entry, innermost: entry };
        }
        // A function that was inlined is part of the one that it was inlined into, unless that is a library's.
        let is_whole = |id: FrameId| self.profile.sched.frames.get(id as usize).is_none_or(|frame| !frame.inlined);
        let whole = frames.iter().take(innermost + 1).rposition(|&id| is_whole(id));
        Place { whole: whole.filter(own).unwrap_or(innermost), innermost }
    }

    /// The function by which a library without symbols was entered: what its other functions are called nobody knows.
    fn entry(&self, frames: &[FrameId], functions: &[FunctionId], innermost: usize) -> Option<usize> {
        let component =
            |at: usize| self.profile.sched.frames.get(frames[at] as usize).and_then(|frame| frame.component);
        let unnamed = |at: usize| self.functions[functions[at] as usize].name.starts_with("sub_");
        let library = frames.get(innermost).and_then(|_| component(innermost))?;
        if !unnamed(innermost) || self.profile.components.get(library as usize).is_none_or(|one| one.executable) {
            return None;
        }
        let within = (0..innermost).rev().take_while(|&at| component(at) == Some(library));
        within.into_iter().find(|&at| !unnamed(at))
    }

    /// Where the library was entered whose function the place is.
    fn library_entry(&self, names: &[FunctionId], place: usize) -> Option<usize> {
        let function = |at: usize| &self.functions[names[at] as usize];
        let library = names.get(place).map(|_| function(place)).filter(|function| function.library)?;
        let outside = (0..place).rev().find(|&at| function(at).component != library.component)?;
        // Where a thread or a program begins nobody has called.
        (!function(outside).runtime).then_some(outside + 1)
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
        let in_file = |files: &[bool]| frame.component.is_some_and(|id| files.get(id as usize) == Some(&true));
        let name = if in_file(&self.c_library) { public_name(&name).to_owned() } else { name };
        let function = *self.by_name.entry((name.clone(), frame.component, kernel)).or_insert(next);
        if function == next {
            // Nobody can look for code without a name: the place is who called it.
            let nameless = name == "[unknown]";
            let runtime = kernel || nameless || in_file(&self.runtime) || is_runtime_function(&name);
            let executable =
                |id: ComponentId| self.profile.components.get(id as usize).is_none_or(|one| one.executable);
            let library = !runtime && !frame.component.is_none_or(executable);
            let locks = is_lock_call(&name);
            self.functions.push(Function { name, component, runtime, library, locks });
        }
        self.by_frame[id as usize] = Some(function);
        function
    }

    fn path(&mut self, new: CallPath) -> PathId {
        if let Some(&path) = self.by_functions.get(&new.functions) {
            self.paths[path as usize].complete &= new.complete;
            return path;
        }
        let path = self.paths.len() as PathId;
        self.by_functions.insert(new.functions.clone(), path);
        let runtime = new.functions.get(new.place).is_none_or(|&function| self.functions[function as usize].runtime);
        self.paths.push(CallPath { runtime, ..new });
        path
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{CallStack, Component, StackFrame};

    use super::*;
    use crate::synthetic::empty;

    /// Frames as (component, function, inlined), root first; component 2 is the kernel, 3 a library.
    fn facts(frames: &[(u32, &str, bool)]) -> (Vec<String>, String) {
        let profile = stacked(frames);
        let paths = CallPaths::new(&profile, &Names::new(&profile));
        (paths.names(0), paths.place_name(0))
    }

    fn stacked(frames: &[(u32, &str, bool)]) -> Profile {
        let mut profile = empty();
        for path in ["/opt/app/bin/app", "/usr/lib/libc.so.6", "/usr/lib/libz.so.1"] {
            let component = |path: &str| Component {
                path: path.into(),
                build_id: String::new(),
                executable: path.ends_with("/app"),
                synthetic: false,
                static_in: None,
            };
            profile.components.push(component(path));
        }
        for &(component, function, inlined) in frames {
            profile.sched.frames.push(StackFrame {
                function: function.into(),
                component: match component {
                    0 | 1 => Some(component),
                    3 => Some(2),
                    _ => None,
                },
                file: String::new(),
                line: 0,
                inlined,
                space: if component == 2 { Space::Kernel } else { Space::User },
            });
        }
        let frames = (0..frames.len() as u32).collect();
        profile.sched.stacks.push(CallStack { frames, complete: true, linked: 0 });
        profile
    }

    fn expect(frames: &[(u32, &str, bool)], stack: &[&str], place: &str) {
        assert_eq!(facts(frames), (stack.iter().map(|&name| name.to_owned()).collect(), place.to_owned()));
    }

    #[test]
    fn a_library_is_entered_by_a_call_of_the_program() {
        let call = |frames: &[(u32, &str, bool)]| {
            let profile = stacked(frames);
            let paths = CallPaths::new(&profile, &Names::new(&profile));
            let name = |id: FunctionId| paths.functions[id as usize].name.clone();
            paths.paths[0].library_call.map(|call| (name(call.caller), name(call.entry)))
        };
        let named = |caller: &str, entry: &str| Some((caller.to_owned(), entry.to_owned()));
        let packing = [(0, "main", false), (0, "pack", false), (0, "inner", true), (3, "compress2", false)];
        assert_eq!(call(&packing), named("pack", "compress2"));
        let deeper = [&packing[..], &[(3, "deflateReset", false), (1, "memset", false)]].concat();
        assert_eq!(call(&deeper), named("pack", "compress2"));
        assert_eq!(call(&[(0, "main", false), (1, "memset", false)]), None, "a runtime library");
        assert_eq!(call(&[(3, "start", false), (3, "deflate", false)]), None, "nobody is seen to call it");
        assert_eq!(call(&[(0, "main", false), (3, "qsort_by", false), (0, "compare", false)]), None, "called back");
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
    fn a_library_without_symbols_is_known_by_its_entry() {
        let frames = [(0, "main", false), (1, "inflate", false), (1, "sub_aa60", false), (1, "sub_b000", false)];
        let mut profile = stacked(&frames);
        profile.components[1].path = "/usr/lib/libz.so.1".into();
        assert_eq!(CallPaths::new(&profile, &Names::new(&profile)).place_name(0), "inflate");
        // A program's own functions are places, named or not.
        expect(&[(0, "main", false), (0, "sub_1000", false)], &["main", "sub_1000"], "sub_1000");
    }

    #[test]
    fn code_without_names_is_one_place() {
        expect(&[(0, "main", false), (0, "0x55d0", false)], &["main", "[app]"], "[app]");
    }

    #[test]
    fn code_of_no_file_without_a_name_belongs_to_who_called_it() {
        expect(&[(0, "main", false), (9, "0x7f00", false)], &["main", "[unknown]"], "main");
        expect(&[(9, "0x7f00", false), (0, "runtime.futex", false)], &["[unknown]", "runtime.futex"], "runtime.futex");
        expect(&[(9, "0x7f00", false)], &["[unknown]"], "[unknown]");
    }
}
