//! Names of places: functions, lines, inlined functions.

use std::collections::HashMap;

use transect_binary_info::{Object, SymbolKind, demangle, readable_name, unnamed_function, without_suffix};
use transect_probe_plan::Lines;
use transect_profile_model::{Component, ComponentId, FrameId, Space, StackFrame};
use transect_symbolize::{function_at, named_code};

use super::jit_dump;
use super::jit_name::{ScriptFunction, ScriptFunctions};
use super::kernel_symbols::{KernelSymbols, SymbolSource, UNNAMED, shown};
use super::main_function::main_function;
use super::mapped_file::{MappedFile, MappedFiles};
use super::module::{Module, ReadFile, ReadFiles, described, read_all};
use super::perf_map::PerfMap;
use super::place::{FileId, Place};
use super::spin;
use super::tail_call::{Linkage, direct_target};
use crate::launch::AGENT_FILE;

/// The frame of a function that left by a jump, and the virtual address that its name or line can be found by later.
pub type LeftFrame = (FrameId, Option<u64>);

/// Where the code of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCode {
    /// Row of its component.
    pub component: ComponentId,
    /// Its first instruction, as the file numbers addresses.
    pub start: u64,
    /// Only a part that was moved away from the rest: nothing is called there.
    pub part: bool,
    /// It is the program's `main`.
    pub main: bool,
}

/// Names places, each file's once.
pub struct Naming {
    files: MappedFiles,
    modules: HashMap<FileId, Module>,
    /// Files that were read beforehand.
    read: HashMap<FileId, ReadFile>,
    kernel: Option<KernelSymbols>,
    kernel_source: SymbolSource,
    perf_maps: HashMap<i32, PerfMap>,
    scripts: ScriptFunctions,
    /// Process ids as processes themselves see them.
    ns_tgids: HashMap<i32, i32>,
    /// Users of processes with code without a file.
    owners: HashMap<i32, u32>,
    /// Paths of programs that ran.
    executables: Vec<String>,
    /// Components that were met.
    pub components: Vec<Component>,
    /// Frames that were met.
    pub frames: Vec<StackFrame>,
    numbers: HashMap<StackFrame, FrameId>,
    /// Places without a name or line, with their virtual addresses.
    incomplete: HashMap<Place, u64>,
    /// Addresses without a name, by component (empty: code without a file).
    pub unnamed: HashMap<String, i64>,
    /// Addresses in the kernel whose names may not be read.
    pub hidden: i64,
}

impl Naming {
    /// Names nothing yet.
    pub fn new(
        files: MappedFiles,
        kernel_source: SymbolSource,
        ns_tgids: HashMap<i32, i32>,
        executables: Vec<String>,
    ) -> Self {
        Self {
            files,
            modules: HashMap::new(),
            read: HashMap::new(),
            kernel: None,
            kernel_source,
            perf_maps: HashMap::new(),
            scripts: ScriptFunctions::default(),
            ns_tgids,
            owners: HashMap::new(),
            executables,
            components: Vec::new(),
            frames: Vec::new(),
            numbers: HashMap::new(),
            incomplete: HashMap::new(),
            unnamed: HashMap::new(),
            hidden: 0,
        }
    }

    /// All these places will be named: reads the files that they lie in, unless they are among the `known` ones.
    pub fn prepare(&mut self, places: impl Iterator<Item = Place>, known: &mut ReadFiles) {
        let unread = |place: &Place| match place {
            Place::File { file, .. } => !self.modules.contains_key(file) && !self.read.contains_key(file),
            _ => false,
        };
        let places: Vec<Place> = places.filter(unread).collect();
        self.read.extend(read_all(&self.files, &places, known));
    }

    /// Users of processes that may be gone when their code is named.
    pub fn know_owners(&mut self, owners: HashMap<i32, u32>) {
        self.owners = owners;
    }

    /// Only these functions of the kernel will be named.
    pub fn know_kernel(&mut self, symbols: KernelSymbols) {
        self.kernel = Some(symbols);
    }

    /// The files that were read.
    pub fn into_files(self) -> ReadFiles {
        let Self { files, modules, read, .. } = self;
        let read = modules.into_iter().map(|(file, module)| (file, module.read)).chain(read);
        read.map(|(file, read)| (files.get(file).key(), read)).collect()
    }

    /// Name of a function of the kernel as its symbol table has it.
    pub fn kernel_function(&mut self, place: Place) -> String {
        let Place::Kernel { address, returns } = place else { return UNNAMED.to_owned() };
        if let Some(call) = place.call() {
            let known = syscalls::Sysno::new(call as usize);
            return known.map_or_else(|| UNNAMED.to_owned(), |call| format!("__x64_sys_{}", call.name()));
        }
        let kernel = self.kernel.get_or_insert_with(|| KernelSymbols::read(&mut self.kernel_source));
        match kernel.at(address - u64::from(returns)) {
            Some(name) => name.to_owned(),
            None => {
                self.hidden += i64::from(kernel.is_empty());
                UNNAMED.to_owned()
            }
        }
    }

    /// The function of the kernel at a place, as its symbol table has it, and its address.
    pub fn kernel_entry(&mut self, place: Place) -> Option<(u64, &str)> {
        let Place::Kernel { address, returns } = place else { return None };
        let kernel = self.kernel.get_or_insert_with(|| KernelSymbols::read(&mut self.kernel_source));
        kernel.entry(address - u64::from(returns))
    }

    /// The code of the function at a place of a program's file.
    pub fn code(&mut self, place: Place) -> Option<FunctionCode> {
        let Place::File { file, offset, returns } = place else { return None };
        let module = self.module(file);
        let object = module.read.object.as_ref()?;
        let vaddr = object.vaddr(offset - u64::from(returns && offset > 0))?;
        let symbol = function_at(object, vaddr);
        let (start, part) = match symbol {
            Some(symbol) => {
                (symbol.address, without_suffix(symbol.name) != symbol.name && symbol.name.contains(".cold"))
            }
            None => {
                let described = module.read.described.get_or_insert_with(|| described(object));
                let after = described.partition_point(|(start, _)| *start <= vaddr);
                (described[..after].last().filter(|(_, end)| vaddr < *end)?.0, false)
            }
        };
        let main = *module.main.get_or_insert_with(|| main_function(object)) == Some(start);
        Some(FunctionCode { component: module.component, start, part, main })
    }

    /// The address of a place in a program's file, as the file numbers addresses; of a call that has not returned its last byte.
    pub fn address(&mut self, place: Place) -> Option<u64> {
        let Place::File { file, offset, returns } = place else { return None };
        let object = self.module(file).read.object.as_ref()?;
        object.vaddr(offset - u64::from(returns && offset > 0))
    }

    /// More files that places may lie in.
    pub fn add_files(&mut self, files: Vec<MappedFile>) {
        self.files.append(files);
    }

    /// A program that ran, before places in it are named.
    pub fn add_executable(&mut self, path: String) {
        if !self.executables.contains(&path) {
            self.executables.push(path);
        }
    }

    /// The frame of a function of the kernel.
    pub fn kernel_frame(&mut self, function: &str) -> FrameId {
        let function = shown(function).to_owned();
        let (file, line) = (String::new(), 0);
        self.frame(StackFrame { function, component: None, file, line, inlined: false, space: Space::Kernel })
    }

    /// Frames of a place in a program, outermost first: a function and those inlined into it there.
    pub fn user_frames(&mut self, place: Place) -> Vec<FrameId> {
        match place {
            Place::File { file, offset, returns } => self.in_file(file, offset, returns),
            Place::Memory { tgid, address, returns } => {
                let ScriptFunction { name: function, file, line, .. } =
                    self.in_memory(tgid, address - u64::from(returns && address > 0));
                let line = line as i32;
                let frame = StackFrame { function, component: None, file, line, inlined: false, space: Space::User };
                vec![self.frame(frame)]
            }
            Place::Kernel { .. } => Vec::new(),
        }
    }

    /// The virtual address of a place of a program's file that was named without a name or line: what either can be found by
    /// later.
    pub fn incomplete(&self, place: Place) -> Option<u64> {
        self.incomplete.get(&place).copied()
    }

    /// Frames of a function that `caller` called and that left by a jump to the function of `callee`, which stands next to
    /// the caller on the stack. Its line is its first. With what [`Self::incomplete`] says of it.
    pub fn tail_called(&mut self, caller: Place, callee: Place) -> Option<LeftFrame> {
        let Place::File { file, offset, returns: true } = caller else { return None };
        let Some(target) = self.call_target(file, offset) else {
            return Some((self.left_by_jump(file, offset, callee)?, None));
        };
        let module = self.module(file);
        let component = module.component;
        let entry = Place::File { file, offset: module.read.object.as_ref()?.file_offset(target)?, returns: false };
        let found = self.code(callee)?;
        if found.part || found.component == component && found.start == target {
            return None;
        }
        let left = self.user_frames(entry).first().copied();
        // A part of the function itself, or a copy of it, goes by its name.
        let reached = self.user_frames(callee).first().copied();
        let name = |frame: Option<FrameId>| frame.map(|id| self.frames[id as usize].function.as_str());
        (name(left) != name(reached)).then(|| Some((left?, self.incomplete(entry)))).flatten()
    }

    /// The whole function of the same file that the call before a return address names, as its first address.
    fn call_target(&mut self, file: FileId, return_offset: u64) -> Option<u64> {
        let read = &mut self.module(file).read;
        let object = read.object.as_ref()?;
        let return_address = object.vaddr(return_offset)?;
        let target = direct_target(object, return_address)?;
        if let Some(symbol) = object.symbol_at(target) {
            return (symbol.address == target && symbol.kind != SymbolKind::Data).then_some(target);
        }
        // In a stripped file the unwind information tells where functions begin, linkage tables too.
        if read.linkage.get_or_insert_with(|| Linkage::of(object)).is_table(target) {
            return None;
        }
        let described = read.described.get_or_insert_with(|| described(object));
        described.binary_search_by_key(&target, |(start, _)| *start).ok().map(|_| target)
    }

    /// Whether a place is in the agent that the program was started with.
    pub fn is_agent(&self, place: Place) -> bool {
        matches!(place, Place::File { file, .. } if self.files.get(file).path.ends_with(AGENT_FILE))
    }

    /// Whether a place is in the dynamic loader.
    pub fn is_loader(&self, place: Place) -> bool {
        let name = |file| self.files.get(file).path.rsplit('/').next().unwrap_or_default();
        matches!(place, Place::File { file, .. } if name(file).starts_with("ld-"))
    }

    /// The same of a function of another file, called by the linkage table: `localtime` where its code went on in another
    /// function, or `memcpy` of what the loader chose for it.
    fn left_by_jump(&mut self, file: FileId, return_offset: u64, callee: Place) -> Option<FrameId> {
        let Place::File { file: other, .. } = callee else { return None };
        if other == file {
            return None;
        }
        let name = self.linkage_call(file, return_offset)?;
        let Some(entry) = self.export(other, &name) else {
            // A function of a third file, which has left to this one.
            return self.called_by_linkage(Place::File { file, offset: return_offset, returns: true });
        };
        let reached = self.code(callee)?;
        if reached.part || entry == reached.start {
            return None;
        }
        let component = self.module(other).component;
        Some(self.function_frame(&name, component))
    }

    /// The frame of the function of another file that the call before a return address names, whoever provides it.
    pub fn called_by_linkage(&mut self, caller: Place) -> Option<FrameId> {
        let Place::File { file, offset, returns: true } = caller else { return None };
        let name = self.linkage_call(file, offset)?;
        let mut others: Vec<FileId> = self.modules.keys().chain(self.read.keys()).copied().collect();
        others.retain(|&other| other != file && !self.files.get(other).path.ends_with(AGENT_FILE));
        others.sort_unstable();
        others.dedup();
        let provider = others.into_iter().find(|&other| self.export(other, &name).is_some())?;
        let component = self.module(provider).component;
        Some(self.function_frame(&name, component))
    }

    /// Whether the call before a return address goes by the linkage table.
    pub fn calls_by_linkage(&mut self, caller: Place) -> bool {
        matches!(caller, Place::File { file, offset, returns: true } if self.linkage_call(file, offset).is_some())
    }

    /// Whether a function that is not on the stack left by the linkage table: the call before the return address goes by a
    /// pointer, or to a function without a name, and the caller's file has a jump by its table to what was reached.
    pub fn left_by_table(&mut self, caller: Place, callee: Place) -> bool {
        let (Place::File { file, returns: true, .. }, Place::File { file: other, .. }) = (caller, callee) else {
            return false;
        };
        let Some(reached) = self.code(callee).filter(|code| !code.part) else { return false };
        let read = &mut self.module(file).read;
        let Some(object) = read.object.as_ref() else { return false };
        let jumped = read.linkage.get_or_insert_with(|| Linkage::of(object)).jumped(object);
        jumped.iter().any(|name| self.export(other, name) == Some(reached.start))
    }

    /// The name by which a file's linkage table calls what the call before a return address goes to.
    fn linkage_call(&mut self, file: FileId, return_offset: u64) -> Option<String> {
        let read = &mut self.module(file).read;
        let object = read.object.as_ref()?;
        let linkage = read.linkage.get_or_insert_with(|| Linkage::of(object));
        linkage.called(object, object.vaddr(return_offset)?).map(str::to_owned)
    }

    /// Whether a thread was on its way from a call to another file's function: the caller's time, as the call itself.
    pub fn is_linkage_table(&mut self, place: Place) -> bool {
        let Place::File { file, offset, returns: false } = place else { return false };
        let read = &mut self.module(file).read;
        let Some(object) = read.object.as_ref() else { return false };
        let linkage = read.linkage.get_or_insert_with(|| Linkage::of(object));
        object.vaddr(offset).is_some_and(|vaddr| linkage.is_table(vaddr))
    }

    /// Where a file's function of that name is.
    fn export(&mut self, file: FileId, name: &str) -> Option<u64> {
        let read = &mut self.module(file).read;
        let object = read.object.as_ref()?;
        read.linkage.get_or_insert_with(|| Linkage::of(object)).export(name)
    }

    /// The frame of a function of which no more than the name is known.
    fn function_frame(&mut self, raw: &str, component: ComponentId) -> FrameId {
        let (function, file, line, component) = (readable_name(raw), String::new(), 0, Some(component));
        self.frame(StackFrame { function, component, file, line, inlined: false, space: Space::User })
    }

    /// True if the instruction at a place is in a loop that waits for another thread.
    pub fn is_spin(&mut self, place: Place) -> bool {
        let Place::File { file, offset, returns: false } = place else { return false };
        // The vDSO goes round again where the kernel has set the clock meanwhile.
        if self.files.get(file).path.starts_with('[') {
            return false;
        }
        let Some(object) = &self.module(file).read.object else { return false };
        object.vaddr(offset).is_some_and(|vaddr| spin::is_waiting_loop(object, vaddr))
    }

    /// True if a place in a runtime's code is in a loop of its function that pauses somewhere.
    pub fn is_runtime_loop(&mut self, place: Place) -> bool {
        let Place::File { file, offset, returns } = place else { return false };
        let module = self.module(file);
        let Some(object) = &module.read.object else { return false };
        let Some(vaddr) = object.vaddr(offset - u64::from(returns && offset > 0)) else { return false };
        let symbol = object.symbol_at(vaddr).filter(|symbol| symbol.size > 0);
        let function = symbol.map(|symbol| (symbol.address, symbol.address + symbol.size)).or_else(|| {
            let described = module.read.described.get_or_insert_with(|| described(object));
            described[..described.partition_point(|(start, _)| *start <= vaddr)].last().copied()
        });
        let Some((start, end)) = function.filter(|(_, end)| vaddr < *end) else { return false };
        object.bytes_from(start).is_some_and(|code| spin::runtime::loop_pauses(code, start..end, vaddr))
    }

    /// File name, without folders, and name of a frame's function.
    pub fn file_and_function(&self, frame: FrameId) -> (&str, &str) {
        let frame = &self.frames[frame as usize];
        let component = frame.component.map_or("", |id| self.components[id as usize].path.as_str());
        (component.rsplit('/').next().unwrap_or(component), frame.function.as_str())
    }

    /// Name of the variable at an offset of a file.
    pub fn variable(&mut self, file: FileId, offset: u64) -> Option<String> {
        let object = self.module(file).read.object.as_ref()?;
        let raw = object.symbol_at(object.data_vaddr(offset)?)?.name.to_owned();
        Some(demangle(&raw))
    }

    fn frame(&mut self, frame: StackFrame) -> FrameId {
        if let Some(&number) = self.numbers.get(&frame) {
            return number;
        }
        let number = self.frames.len() as FrameId;
        self.frames.push(frame.clone());
        self.numbers.insert(frame, number);
        number
    }

    fn module(&mut self, file: FileId) -> &mut Module {
        let (files, executables, components) = (&self.files, &self.executables, &mut self.components);
        let read = &mut self.read;
        self.modules.entry(file).or_insert_with(|| {
            let mapped = files.get(file);
            let read = read.remove(&file).unwrap_or_else(|| ReadFile::of(mapped));
            let component = components.len() as ComponentId;
            components.push(Component {
                path: mapped.path.clone(),
                build_id: read.object.as_ref().and_then(Object::build_id).unwrap_or_default(),
                executable: executables.contains(&mapped.path),
                synthetic: mapped.path.starts_with('['),
                static_in: None,
            });
            Module { read, main: None, component }
        })
    }

    fn in_file(&mut self, file: FileId, offset: u64, returns: bool) -> Vec<FrameId> {
        let place = Place::File { file, offset, returns };
        let offset = offset - u64::from(returns && offset > 0);
        let path = self.files.get(file).path.clone();
        let module = self.module(file);
        let component = Some(module.component);
        let user =
            |function, file, line, inlined| StackFrame { function, component, file, line, inlined, space: Space::User };
        let vaddr = module.read.object.as_ref().and_then(|object| object.vaddr(offset));
        let Some((vaddr, object)) = vaddr.zip(module.read.object.as_ref()) else {
            let function = if path.starts_with('[') { path.clone() } else { unnamed_function(offset) };
            if !path.starts_with('[') {
                *self.unnamed.entry(path).or_default() += 1;
            }
            return vec![self.frame(user(function, String::new(), 0, false))];
        };
        let symbol = function_at(object, vaddr);
        let lines = module.read.lines.get_or_insert_with(|| Lines::of(object));
        let source = lines.as_ref().map(|lines| lines.frames(vaddr)).unwrap_or_default();
        let read = &mut module.read.described;
        let code = named_code(symbol.map(|symbol| symbol.name), &source, || {
            if path.starts_with('[') {
                return path.clone();
            }
            let described = read.get_or_insert_with(|| described(object));
            let after = described.partition_point(|(start, _)| *start <= vaddr);
            let start = described[..after].last().filter(|(_, end)| vaddr < *end).map_or(vaddr, |(start, _)| *start);
            unnamed_function(start)
        });
        let unnamed = !code.named && !path.starts_with('[');
        let incomplete = !code.is_whole() && !path.starts_with('[');
        let found: Vec<StackFrame> =
            code.frames.into_iter().map(|frame| user(frame.function, frame.file, frame.line, frame.inlined)).collect();
        if incomplete {
            self.incomplete.insert(place, vaddr);
        }
        if unnamed {
            *self.unnamed.entry(path).or_default() += 1;
        }
        found.into_iter().map(|frame| self.frame(frame)).collect()
    }

    fn in_memory(&mut self, tgid: i32, address: u64) -> ScriptFunction {
        let ns_tgid = self.ns_tgids.get(&tgid).copied().unwrap_or(tgid);
        let owner = self.owners.get(&tgid).copied();
        let files = &self.files;
        let map = self.perf_maps.entry(tgid).or_insert_with(|| {
            let map = PerfMap::of(tgid, ns_tgid, owner);
            if map.is_empty() { files.jit_dump(ns_tgid).map(jit_dump::read).unwrap_or(map) } else { map }
        });
        match map.at(address) {
            Some(name) => self.scripts.of(name),
            None => {
                *self.unnamed.entry(String::new()).or_default() += 1;
                ScriptFunction { name: format!("{address:#x}"), ..ScriptFunction::default() }
            }
        }
    }
}
