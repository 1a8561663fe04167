//! Names of places: functions, lines, inlined functions.

use std::collections::HashMap;

use transect_binary_info::{Object, demangle};
use transect_probe_plan::Lines;
use transect_profile_model::{Component, ComponentId, FrameId, Space, StackFrame};

use super::kernel_symbols::{KernelSymbols, SymbolSource, UNNAMED, shown};
use super::main_function::main_function;
use super::mapped_file::{MappedFile, MappedFiles};
use super::perf_map::PerfMap;
use super::place::{FileId, Place};
use super::spin;

/// An ELF file with what names its places.
struct Module {
    object: Option<Object>,
    /// Line tables, if they were asked for.
    lines: Option<Option<Lines>>,
    /// Functions that only the unwind information knows, as start and end.
    described: Option<Vec<(u64, u64)>>,
    /// Where `main` is, by the program's entry code; looked for once.
    main: Option<Option<u64>>,
    component: ComponentId,
}

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
    kernel: Option<KernelSymbols>,
    kernel_source: SymbolSource,
    perf_maps: HashMap<i32, PerfMap>,
    /// Process ids as processes themselves see them.
    ns_tgids: HashMap<i32, i32>,
    /// Paths of programs that ran.
    executables: Vec<String>,
    /// Components that were met.
    pub components: Vec<Component>,
    /// Frames that were met.
    pub frames: Vec<StackFrame>,
    numbers: HashMap<StackFrame, FrameId>,
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
            kernel: None,
            kernel_source,
            perf_maps: HashMap::new(),
            ns_tgids,
            executables,
            components: Vec::new(),
            frames: Vec::new(),
            numbers: HashMap::new(),
            unnamed: HashMap::new(),
            hidden: 0,
        }
    }

    /// Name of a function of the kernel as its symbol table has it.
    pub fn kernel_function(&mut self, place: Place) -> String {
        let Place::Kernel { address, returns } = place else { return UNNAMED.to_owned() };
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
        let object = module.object.as_ref()?;
        let vaddr = object.vaddr(offset - u64::from(returns && offset > 0))?;
        let symbol = object.symbol_at(vaddr).filter(|symbol| symbol.kind != transect_binary_info::SymbolKind::Data);
        let (start, part) = match symbol {
            Some(symbol) => {
                (symbol.address, without_suffix(symbol.name) != symbol.name && symbol.name.contains(".cold"))
            }
            None => {
                let described = module.described.get_or_insert_with(|| described(object));
                let after = described.partition_point(|(start, _)| *start <= vaddr);
                (described[..after].last().filter(|(_, end)| vaddr < *end)?.0, false)
            }
        };
        let main = *module.main.get_or_insert_with(|| main_function(object)) == Some(start);
        Some(FunctionCode { component: module.component, start, part, main })
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
                let function = self.in_memory(tgid, address - u64::from(returns && address > 0));
                let (file, line) = (String::new(), 0);
                let frame = StackFrame { function, component: None, file, line, inlined: false, space: Space::User };
                vec![self.frame(frame)]
            }
            Place::Kernel { .. } => Vec::new(),
        }
    }

    /// True if the instruction at a place is in a loop that waits for another thread.
    pub fn is_spin(&mut self, place: Place) -> bool {
        let Place::File { file, offset, returns: false } = place else { return false };
        let module = self.module(file);
        let Some(object) = &module.object else { return false };
        object.vaddr(offset).is_some_and(|vaddr| spin::is_waiting_loop(object, vaddr))
    }

    /// True if a place in a runtime's code is in a loop of its function that pauses somewhere.
    pub fn is_runtime_loop(&mut self, place: Place) -> bool {
        let Place::File { file, offset, returns } = place else { return false };
        let module = self.module(file);
        let Some(object) = &module.object else { return false };
        let Some(vaddr) = object.vaddr(offset - u64::from(returns && offset > 0)) else { return false };
        let symbol = object.symbol_at(vaddr).filter(|symbol| symbol.size > 0);
        let function = symbol.map(|symbol| (symbol.address, symbol.address + symbol.size)).or_else(|| {
            let described = module.described.get_or_insert_with(|| described(object));
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
        let object = self.module(file).object.as_ref()?;
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
        self.modules.entry(file).or_insert_with(|| {
            let mapped = files.get(file);
            let object = mapped.object();
            let component = components.len() as ComponentId;
            components.push(Component {
                path: mapped.path.clone(),
                build_id: object.as_ref().and_then(Object::build_id).unwrap_or_default(),
                executable: executables.contains(&mapped.path),
                synthetic: mapped.path.starts_with('['),
                static_in: None,
            });
            Module { object, lines: None, described: None, main: None, component }
        })
    }

    fn in_file(&mut self, file: FileId, offset: u64, returns: bool) -> Vec<FrameId> {
        let offset = offset - u64::from(returns && offset > 0);
        let path = self.files.get(file).path.clone();
        let module = self.module(file);
        let component = Some(module.component);
        let user =
            |function, file, line, inlined| StackFrame { function, component, file, line, inlined, space: Space::User };
        let vaddr = module.object.as_ref().and_then(|object| object.vaddr(offset));
        let Some((vaddr, object)) = vaddr.zip(module.object.as_ref()) else {
            let function = if path.starts_with('[') { path.clone() } else { format!("sub_{offset:x}") };
            if !path.starts_with('[') {
                *self.unnamed.entry(path).or_default() += 1;
            }
            return vec![self.frame(user(function, String::new(), 0, false))];
        };
        let symbol = object.symbol_at(vaddr).filter(|symbol| symbol.kind != transect_binary_info::SymbolKind::Data);
        let name = symbol.map(|symbol| demangle(without_suffix(symbol.name)));
        let lines = module.lines.get_or_insert_with(|| Lines::of(object));
        let inner = lines.as_ref().map(|lines| lines.frames(vaddr)).unwrap_or_default();
        let name = name.or_else(|| inner.last().and_then(|frame| frame.function.as_deref()).map(readable));
        let mut found = Vec::with_capacity(inner.len().max(1));
        let unnamed = name.is_none();
        let name = name.unwrap_or_else(|| {
            let described = module.described.get_or_insert_with(|| described(object));
            let after = described.partition_point(|(start, _)| *start <= vaddr);
            let start = described[..after].last().filter(|(_, end)| vaddr < *end).map_or(vaddr, |(start, _)| *start);
            format!("sub_{start:x}")
        });
        match inner.split_last() {
            None => found.push(user(name, String::new(), 0, false)),
            Some((outer, inlined)) => {
                found.push(user(name, outer.file.clone(), outer.line as i32, false));
                found.extend(inlined.iter().rev().map(|frame| {
                    let function = frame.function.as_deref().map_or_else(|| "[inlined]".to_owned(), readable);
                    user(function, frame.file.clone(), frame.line as i32, true)
                }));
            }
        }
        if unnamed {
            *self.unnamed.entry(path).or_default() += 1;
        }
        found.into_iter().map(|frame| self.frame(frame)).collect()
    }

    fn in_memory(&mut self, tgid: i32, address: u64) -> String {
        let ns_tgid = self.ns_tgids.get(&tgid).copied().unwrap_or(tgid);
        let map = self.perf_maps.entry(tgid).or_insert_with(|| PerfMap::of(tgid, ns_tgid));
        match map.at(address) {
            Some(name) => name.to_owned(),
            None => {
                *self.unnamed.entry(String::new()).or_default() += 1;
                format!("{address:#x}")
            }
        }
    }
}

fn readable(raw: &str) -> String {
    demangle(without_suffix(raw))
}

/// Functions without symbol that the unwind information describes, sorted.
fn described(object: &Object) -> Vec<(u64, u64)> {
    let functions = object.function_symbols();
    functions.iter().filter(|f| f.is_described_only()).map(|f| (f.vaddr, f.vaddr + f.size)).collect()
}

/// A raw name without what compilers append to copies and parts of a function.
fn without_suffix(raw: &str) -> &str {
    const SUFFIXES: &[&str] = &[".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.", ".llvm."];
    let cut = SUFFIXES.iter().filter_map(|suffix| raw.find(suffix)).min();
    raw.get(..cut.unwrap_or(raw.len())).filter(|name| !name.is_empty()).unwrap_or(raw)
}

#[cfg(test)]
mod tests {
    use super::without_suffix;

    #[test]
    fn copies_have_the_name_of_the_original() {
        for raw in ["f.isra.0", "f.part.3.cold", "f.constprop.0.isra.1", "f.cold", "f.lto_priv.0", "f.llvm.123", "f"] {
            assert_eq!(without_suffix(raw), "f");
        }
        assert_eq!(without_suffix(".cold"), ".cold");
        assert_eq!(without_suffix("main._omp_fn.0"), "main._omp_fn.0");
    }
}
