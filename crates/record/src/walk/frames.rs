//! From places to functions: what a stack shows of a walk, root first.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use transect_bpf_collect::{CallOfRecord, SystemCall};
use transect_call_walk::Function;
use transect_profile_model::{ComponentId, RECORDING_OVERHEAD, Space, StackFrame};

use super::evidence::NewStack;
use crate::sched::call_stack::StackNumber;
use crate::sched::kernel_symbols::{
    KernelSymbols, SymbolSource, UNNAMED, is_entry_code, is_interrupt, is_restart, is_scheduler, is_stop, is_switching,
    shown,
};
use crate::sched::mapped_file::{MappedFile, MappedFiles};
use crate::sched::module::ReadFiles;
use crate::sched::naming::Naming;
use crate::sched::place::Place;

/// Number of a function in [`Functions`].
pub(crate) type FunctionNumber = u32;

/// A function that was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFunction {
    /// As it is shown.
    pub name: String,
    /// Its component's row.
    pub component: Option<ComponentId>,
    /// User or kernel.
    pub space: Space,
    /// Inlined into its caller.
    pub inlined: bool,
    /// Its code.
    pub function: Function,
}

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PathStep {
    /// Which function.
    pub function: FunctionNumber,
    /// Number of the source line in [`Frames::lines`].
    pub line: u32,
}

/// A source line or, where none is known, an address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CodeLine {
    /// Source file, empty if unknown.
    pub file: String,
    /// Line in it, 0 if unknown.
    pub line: i32,
    /// Virtual address in the component, only where no line is known.
    pub address: Option<i64>,
}

/// What tells functions apart: their code or, for those without code of their own, how they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FunctionKey {
    Code(Function),
    Shown { name: String, component: Option<ComponentId>, space: Space, inlined: bool },
}

/// Stacks as functions.
pub(crate) struct Frames {
    naming: Naming,
    numbers: HashMap<FunctionKey, FunctionNumber>,
    /// Whole functions by name, for their parts.
    whole: HashMap<(String, Option<ComponentId>), FunctionNumber>,
    functions: Vec<NamedFunction>,
    by_function: HashMap<Function, FunctionNumber>,
    lines: Vec<CodeLine>,
    line_numbers: HashMap<CodeLine, u32>,
    places: HashMap<Place, Vec<PathStep>>,
    /// By number.
    stacks: Vec<Option<NamedStack>>,
    /// Stacks that were too deep.
    truncated: HashSet<StackNumber>,
    /// Functions of the kernel below the system call are shown.
    with_kernel: bool,
}

/// The two halves of a stack, root first.
#[derive(Debug, Clone, Default)]
struct NamedStack {
    user: Vec<PathStep>,
    kernel: Vec<PathStep>,
    /// It begins where the program or the thread does.
    complete: bool,
    /// A tracer holds the thread there: the walk, to set probes, if it is who lets it go on.
    held: bool,
    /// It is the agent's, at work for itself.
    overhead: bool,
}

/// Whether a stack (leaf first) of a program's files has code without a file as its outermost frame. No thread begins
/// there: it is where a function returns to while it is timed, or code of a just-in-time compiler without frames.
fn ends_in_memory(user: &[Place]) -> bool {
    matches!(user.last(), Some(Place::Memory { .. })) && user.iter().any(|place| place.file().is_some())
}

/// Time of which no stack was seen.
const UNKNOWN: &str = "[unknown]";

/// Functions that a program or thread begins in, and that are left out where what they call is known.
const BEGINNINGS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_main_alias_1",
    "__libc_start_call_main",
    "generic_start_main",
    "clone3",
    "__clone3",
    "clone",
    "__clone",
    "start_thread",
    "thread_start",
];

impl Frames {
    /// Knows nothing yet. Names of the kernel come from `kernel`.
    pub fn new(kernel: SymbolSource, with_kernel: bool) -> Self {
        let naming = Naming::new(MappedFiles::default(), kernel, Default::default(), Vec::new());
        Self {
            naming,
            numbers: HashMap::default(),
            whole: HashMap::default(),
            functions: Vec::new(),
            by_function: HashMap::default(),
            lines: vec![CodeLine::default()],
            line_numbers: HashMap::from_iter([(CodeLine::default(), 0)]),
            places: HashMap::default(),
            stacks: vec![None],
            truncated: HashSet::default(),
            with_kernel,
        }
    }

    /// More files, and programs.
    pub fn add_files(&mut self, files: Vec<MappedFile>, executables: Vec<String>) {
        self.naming.add_files(files);
        executables.into_iter().for_each(|path| self.naming.add_executable(path));
    }

    /// These stacks will be named: reads the files that they lie in, unless they are among the `known` ones.
    pub fn prepare(&mut self, stacks: &[NewStack], known: &mut ReadFiles) {
        let places = stacks.iter().flat_map(|stack| &stack.user).copied();
        self.naming.prepare(places, known);
    }

    /// Only these functions of the kernel are in stacks that will come.
    pub fn know_kernel(&mut self, symbols: KernelSymbols) {
        self.naming.know_kernel(symbols);
    }

    /// The files that were read.
    pub fn into_files(self) -> ReadFiles {
        self.naming.into_files()
    }

    /// Names a stack that came.
    pub fn add_stack(&mut self, stack: &NewStack) {
        if self.prepares(&stack.user) {
            let named = NamedFunction {
                name: RECORDING_OVERHEAD.to_owned(),
                component: None,
                space: Space::User,
                inlined: false,
                function: Function::Unknown,
            };
            let user = vec![PathStep { function: self.function(named, None), line: 0 }];
            self.keep(stack.number, NamedStack { user, overhead: true, complete: true, ..NamedStack::default() });
            return;
        }
        let mut user = Vec::with_capacity(stack.user.len());
        for place in stack.user.iter().rev() {
            // The agent's code is no part of the program.
            if !self.naming.is_agent(*place) {
                self.extend_by(*place, &mut user);
            }
        }
        self.cut_beginning(&mut user);
        let mut kernel: Vec<PathStep> = Vec::with_capacity(stack.kernel.len());
        let (mut held, mut switched, mut stopped) = (false, false, false);
        for place in &stack.kernel {
            let name = self.naming.kernel_entry(*place).map_or(UNNAMED, |(_, name)| name).to_owned();
            self.naming.hidden += i64::from(name == UNNAMED);
            held |= name == "ptrace_stop";
            switched |= is_scheduler(&name);
            stopped |= is_stop(&name);
            if is_switching(&name) {
                // Leaf first: what is below the switch goes, and the switch too.
                kernel.clear();
            } else if switched && is_interrupt(&name) {
                // Nobody sleeps in one: on its way back the thread was preempted, in what it had come into. Or a signal
                // stopped it, whatever brought it into the kernel.
                if !stopped {
                    kernel.clear();
                }
            } else if !is_entry_code(&name) && !is_restart(&name) && name != "x64_sys_call" {
                let step = self.kernel_step(*place, &name);
                // One frame stands for a kernel without names, and for a system call whose function has several parts.
                let call = matches!(self.functions[step.function as usize].function, Function::SystemCall { .. });
                if name != UNNAMED && !call || kernel.last() != Some(&step) {
                    kernel.push(step);
                }
            }
        }
        kernel.reverse();
        self.cut_to_interrupt(&mut kernel);
        let complete = stack.complete && !ends_in_memory(&stack.user)
            || user.first().is_some_and(|root| self.functions[root.function as usize].name == "main");
        self.keep(stack.number, NamedStack { user, kernel, complete, held, overhead: false });
    }

    fn keep(&mut self, number: StackNumber, stack: NamedStack) {
        let number = number as usize;
        if self.stacks.len() <= number {
            self.stacks.resize(number + 1, None);
        }
        self.stacks[number] = Some(stack);
    }

    /// Whether the agent was at work for itself, and not for a call of the program: its innermost frames are below the
    /// loader's, or below none. Places leaf first.
    fn prepares(&self, user: &[Place]) -> bool {
        let Some(first) = user.iter().position(|&place| self.naming.is_agent(place)) else { return false };
        let caller = user[first..].iter().find(|&&place| !self.naming.is_agent(place));
        caller.map_or(first == 0, |&caller| self.naming.is_loader(caller))
    }

    /// The frames of a stack in a system call (as records number it), root first; `None` until the stack has come.
    pub fn path(&mut self, stack: StackNumber, call: u32) -> Option<Vec<PathStep>> {
        let NamedStack { user, mut kernel, overhead, .. } = self.stacks.get(stack as usize)?.clone()?;
        let mut path = user;
        if overhead {
            return Some(path);
        }
        self.name_restarted(&mut kernel, call, &path);
        let entered = kernel.first().map(|step| self.functions[step.function as usize].function);
        let named = matches!(entered, Some(Function::SystemCall { .. } | Function::Exception { .. }));
        let number = match SystemCall::of_record(call) {
            _ if named => None,
            CallOfRecord::Inside(call) if !call.compat => Some(call.number),
            // What the kernel does before it returns to the program has no function of the call in its stack.
            _ if entered.is_some() => {
                path.last().and_then(|leaf| called_by(&self.functions[leaf.function as usize].name))
            }
            _ => None,
        };
        path.extend(number.map(|number| self.system_call_step(number)));
        if self.with_kernel {
            path.extend(kernel);
        }
        Some(path)
    }

    /// Some of the stacks that came were too deep.
    pub fn add_truncated(&mut self, stacks: &[StackNumber]) {
        self.truncated.extend(stacks);
    }

    /// Whether a stack that came was too deep: outer calls are missing.
    pub fn is_truncated(&self, stack: StackNumber) -> bool {
        self.truncated.contains(&stack)
    }

    /// Whether a stack that came begins where the program or the thread does.
    pub fn is_complete(&self, stack: StackNumber) -> bool {
        matches!(self.stacks.get(stack as usize), Some(Some(NamedStack { complete: true, .. })))
    }

    /// Whether a stack that came is of a thread that a tracer holds.
    pub fn is_held(&self, stack: StackNumber) -> bool {
        matches!(self.stacks.get(stack as usize), Some(Some(NamedStack { held: true, .. })))
    }

    /// Names of a stack's functions, leaf first, those of the program with their files.
    pub fn names(&self, stack: StackNumber) -> (Vec<(&str, &str)>, Vec<&str>) {
        let Some(Some(stack)) = self.stacks.get(stack as usize) else { return Default::default() };
        let name = |step: &PathStep| self.functions[step.function as usize].name.as_str();
        let user = stack.user.iter().rev().map(|step| (name(step), self.file(step))).collect();
        (user, stack.kernel.iter().rev().map(name).collect())
    }

    fn file(&self, step: &PathStep) -> &str {
        let component = self.functions[step.function as usize].component;
        let component = component.and_then(|id| self.naming.components.get(id as usize));
        component.map_or("", |component| component.path.rsplit('/').next().unwrap_or(""))
    }

    /// A call that goes on after an interruption is that call, not `restart_syscall`: as it was counted or, where none was,
    /// as the function is called that made it.
    fn name_restarted(&mut self, kernel: &mut [PathStep], call: u32, user: &[PathStep]) {
        let restart = syscalls::Sysno::restart_syscall.id().cast_unsigned();
        let Some(first) = kernel.first_mut() else { return };
        if self.functions[first.function as usize].function != (Function::SystemCall { number: restart }) {
            return;
        }
        let counted = match SystemCall::of_record(call) {
            CallOfRecord::Inside(call) if !call.compat && call.number != restart => Some(call.number),
            _ => None,
        };
        let caller = user.last().map(|leaf| self.functions[leaf.function as usize].name.as_str());
        if let Some(number) = counted.or_else(|| caller.and_then(called_by)) {
            *first = self.system_call_step(number);
        }
    }

    fn system_call_step(&mut self, number: u32) -> PathStep {
        let name = system_call_name(number);
        let code = Function::SystemCall { number };
        let named = NamedFunction { name, component: None, space: Space::Kernel, inlined: false, function: code };
        PathStep { function: self.function(named, Some(code)), line: 0 }
    }

    /// A function by its number.
    pub fn function_of(&self, number: FunctionNumber) -> &NamedFunction {
        &self.functions[number as usize]
    }

    /// A function that was met by its code.
    pub fn by_function(&self, function: Function) -> Option<&NamedFunction> {
        Some(&self.functions[*self.by_function.get(&function)? as usize])
    }

    /// How a function is shown, and where it is: calls whose time is known but of which no stack was seen, too.
    pub fn shown(&self, function: Function) -> (String, Space) {
        match (self.by_function(function), function) {
            (Some(named), _) => (named.name.clone(), named.space),
            (None, Function::SystemCall { number }) => (system_call_name(number), Space::Kernel),
            (None, _) => (UNKNOWN.to_owned(), Space::User),
        }
    }

    /// A source line by its number.
    pub fn line(&self, number: u32) -> &CodeLine {
        &self.lines[number as usize]
    }

    /// What names things.
    pub fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    fn extend_by(&mut self, place: Place, path: &mut Vec<PathStep>) {
        if let Some(known) = self.places.get(&place) {
            path.extend_from_slice(known);
            return;
        }
        let code = self.naming.code(place);
        let mut steps = Vec::new();
        for id in self.naming.user_frames(place) {
            let StackFrame { function: name, component, file, line, inlined, space } =
                self.naming.frames[id as usize].clone();
            let address = self.naming.incomplete(place).filter(|_| file.is_empty()).map(u64::cast_signed);
            let line = self.line_number(CodeLine { file, line, address });
            let code = code.filter(|_| !inlined);
            let main = code.is_some_and(|code| code.main) && name.starts_with("sub_");
            let name = if main { "main".to_owned() } else { name };
            let whole = (name.clone(), component);
            let same = code.filter(|code| code.part).and_then(|_| self.whole.get(&whole).copied());
            let function = same.unwrap_or_else(|| {
                let code = code.map(|code| Function::User { component: code.component, address: code.start });
                self.function(NamedFunction { name, component, space, inlined, function: Function::Unknown }, code)
            });
            if code.is_some_and(|code| !code.part) {
                self.whole.entry(whole).or_insert(function);
            }
            steps.push(PathStep { function, line });
        }
        path.extend_from_slice(&steps);
        self.places.insert(place, steps);
    }

    fn kernel_step(&mut self, place: Place, name: &str) -> PathStep {
        if let Some(step) = self.places.get(&place).and_then(|steps| steps.first()) {
            return step.clone();
        }
        let start = self.naming.kernel_entry(place).map_or(0, |(start, _)| start);
        let code = if name == UNNAMED {
            None
        } else if let Some(number) = system_call(name) {
            Some(Function::SystemCall { number })
        } else if name.starts_with("asm_") {
            Some(Function::Exception { address: start })
        } else {
            Some(Function::Kernel { address: start })
        };
        let name = shown(name).to_owned();
        let function = Function::Unknown;
        let named = NamedFunction { name, component: None, space: Space::Kernel, inlined: false, function };
        let step = PathStep { function: self.function(named, code), line: 0 };
        self.places.insert(place, vec![step.clone()]);
        step
    }

    fn function(&mut self, named: NamedFunction, code: Option<Function>) -> FunctionNumber {
        let key = code.map_or_else(
            || FunctionKey::Shown {
                name: named.name.clone(),
                component: named.component,
                space: named.space,
                inlined: named.inlined,
            },
            FunctionKey::Code,
        );
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.functions.len() as FunctionNumber;
        let function = code.unwrap_or(Function::Other { number });
        self.functions.push(NamedFunction { function, ..named });
        self.by_function.insert(function, number);
        self.numbers.insert(key, number);
        number
    }

    fn line_number(&mut self, line: CodeLine) -> u32 {
        if let Some(&number) = self.line_numbers.get(&line) {
            return number;
        }
        let number = self.lines.len() as u32;
        self.lines.push(line.clone());
        self.line_numbers.insert(line, number);
        number
    }

    /// Leaves out what is above `main` or the thread's start routine.
    fn cut_beginning(&self, path: &mut Vec<PathStep>) {
        let name = |step: &PathStep| self.functions[step.function as usize].name.as_str();
        let main = path.iter().position(|step| name(step) == "main");
        let first = main.unwrap_or_else(|| {
            path.iter().take_while(|step| BEGINNINGS.contains(&name(step)) || self.is_libc(step)).count()
        });
        // A thread that never leaves the library shows what it does there.
        if first < path.len() {
            path.drain(..first);
        }
    }

    /// An interrupt is an entry of its own, whatever it came into.
    fn cut_to_interrupt(&self, kernel: &mut Vec<PathStep>) {
        let interrupt = kernel.iter().rposition(|step| {
            let named = &self.functions[step.function as usize];
            matches!(named.function, Function::Exception { .. }) && is_interrupt(&named.name)
        });
        if let Some(first) = interrupt {
            kernel.drain(..first);
        }
    }

    fn is_libc(&self, step: &PathStep) -> bool {
        let unnamed = self.functions[step.function as usize].name.starts_with("sub_");
        let file = self.file(step);
        unnamed && ["libc.so", "libc-", "libpthread", "ld-linux", "ld-"].iter().any(|prefix| file.starts_with(prefix))
    }
}

/// Name of a system call.
pub(super) fn system_call_name(number: u32) -> String {
    let known = syscalls::Sysno::new(number as usize);
    known.map_or_else(|| format!("system call {number}"), |call| call.name().to_owned())
}

/// The system call that a function of the C library makes, if it is called like it.
fn called_by(function: &str) -> Option<u32> {
    let bare = function.trim_start_matches('_').trim_end_matches("64");
    let bare = if matches!(bare, "open" | "creat") { "openat" } else { bare };
    Some(bare.parse::<syscalls::Sysno>().ok()?.id().cast_unsigned())
}

/// System calls whose function is not called like them.
const OTHERWISE_NAMED: &[(&str, &str)] = &[
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    ("newfstatat", "newfstatat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];

/// Number of the system call whose function has this name.
fn system_call(name: &str) -> Option<u32> {
    // Where the first function ends in a jump to the next one, only that is on the stack.
    let bare = ["__x64_sys_", "__do_sys_", "__se_sys_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let bare = bare.split('.').next().unwrap_or(bare);
    let bare = OTHERWISE_NAMED.iter().find(|(_, function)| *function == bare).map_or(bare, |(call, _)| *call);
    Some(bare.parse::<syscalls::Sysno>().ok()?.id().cast_unsigned())
}

/// What follows `__x64_sys_` in the name of a system call's function.
pub(crate) fn system_call_function(number: u32) -> Option<String> {
    let name = syscalls::Sysno::new(number as usize)?.name();
    let other = OTHERWISE_NAMED.iter().find(|(call, _)| *call == name);
    Some(other.map_or(name, |(_, function)| *function).to_owned())
}

#[cfg(test)]
mod tests;
