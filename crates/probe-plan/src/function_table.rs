//! The functions of an object: from symbol tables where there are some, from unwind tables where stripping took them.

use std::collections::HashMap;
use std::ops::Range;

use transect_binary_info::{FrameStart, FunctionName, Object, SymbolKind, demangle};

use crate::{Function, resolver};

/// What the planner knows of a function beside its name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    /// What its frame description says of its first instruction; `None` without one.
    pub frame: Option<FrameStart>,
    /// Address of its exception table.
    pub exceptions: Option<u64>,
    /// `STT_GNU_IFUNC`: it chooses the function of these names at load time.
    pub resolves: Vec<String>,
    /// A compiler-made site stands at its entry.
    pub has_entry: bool,
    /// Sites are asked for.
    pub wanted: bool,
}

/// Functions of one object, by index. Providers may add some that no table knew.
#[derive(Debug, Clone, Default)]
pub struct FunctionTable {
    functions: Vec<Function>,
    details: Vec<Details>,
    /// The first `sorted` functions are sorted by address.
    sorted: usize,
    added: HashMap<u64, u32>,
    /// Addresses at which code is known to begin: functions, their cold parts, labels. Sorted.
    starts: Vec<u64>,
    /// Addresses at which decoding may begin: `starts` without labels, which may mark data. Sorted.
    decodable: Vec<u64>,
    /// Cold parts, sorted: their range, and their function where its name tells.
    parts: Vec<(Range<u64>, Option<u32>)>,
    /// Executable ranges, sorted.
    code: Vec<Range<u64>>,
}

impl FunctionTable {
    /// Reads the tables of `object`, names demangled.
    pub fn of(object: &Object) -> Self {
        Builder::new(object).build(object)
    }

    /// All functions; the index is what sites and refusals name.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function that begins at `vaddr`.
    pub fn at(&self, vaddr: u64) -> Option<u32> {
        let known = self.functions[..self.sorted].binary_search_by_key(&vaddr, |f| f.vaddr).ok();
        known.map(|index| index as u32).or_else(|| self.added.get(&vaddr).copied())
    }

    /// The function that holds `vaddr`, in its body or in its cold part.
    pub fn containing(&self, vaddr: u64) -> Option<u32> {
        let next = self.parts.partition_point(|(range, _)| range.start <= vaddr);
        if let Some((range, function)) = next.checked_sub(1).map(|i| &self.parts[i])
            && range.contains(&vaddr)
        {
            return *function;
        }
        let mut index = self.functions[..self.sorted].partition_point(|f| f.vaddr <= vaddr);
        // Assembly has functions inside of functions; more than a few levels it hasn't.
        for _ in 0..8 {
            index = index.checked_sub(1)?;
            let f = &self.functions[index];
            if vaddr < f.vaddr + f.size.max(1) {
                return Some(index as u32);
            }
        }
        None
    }

    /// All code of a function: its body, then its cold parts, as far as they are known to be its.
    pub fn ranges(&self, function: u32) -> Vec<Range<u64>> {
        let f = &self.functions[function as usize];
        let cold = self.parts.iter().filter(|(_, of)| *of == Some(function)).map(|(range, _)| range.clone());
        std::iter::once(f.vaddr..f.vaddr + f.size).chain(cold).collect()
    }

    /// The function that holds `vaddr`; if none is known there, one without name is added.
    pub fn containing_or_add(&mut self, vaddr: u64) -> u32 {
        if let Some(index) = self.containing(vaddr) {
            return index;
        }
        let next = self.decodable.partition_point(|&start| start <= vaddr);
        let start = next.checked_sub(1).map_or(vaddr, |i| self.decodable[i]);
        self.at(start).unwrap_or_else(|| {
            let index = self.functions.len() as u32;
            let size = self.limit(start);
            self.functions.push(Function { name: unnamed(start), vaddr: start, size, ..Function::default() });
            self.details.push(Details { wanted: true, ..Details::default() });
            self.added.insert(start, index);
            index
        })
    }

    /// True if sites of this function are asked for.
    pub fn is_wanted(&self, function: u32) -> bool {
        self.details[function as usize].wanted
    }

    /// Says that a compiler-made site stands at the function's entry, so that none needs to displace instructions.
    pub fn set_has_entry(&mut self, function: u32) {
        self.details[function as usize].has_entry = true;
    }

    pub(crate) fn details(&self, function: u32) -> &Details {
        &self.details[function as usize]
    }

    pub(crate) fn choose(&mut self, wanted: Option<&crate::Wanted<'_>>) {
        for (function, details) in self.functions.iter().zip(&mut self.details) {
            details.wanted = wanted.is_none_or(|wanted| wanted(function));
        }
    }

    /// Executable ranges, sorted.
    pub(crate) fn code(&self) -> &[Range<u64>] {
        &self.code
    }

    /// Bytes from `vaddr` to where other code is known to begin, or its section ends.
    pub(crate) fn limit(&self, vaddr: u64) -> u64 {
        let next = self.starts.partition_point(|&start| start <= vaddr);
        let section = self.code.iter().find(|range| range.contains(&vaddr)).map_or(vaddr, |range| range.end);
        self.starts.get(next).map_or(section, |&start| start.min(section)) - vaddr
    }

    /// Bytes from `vaddr` to the end of its section.
    fn room(&self, vaddr: u64) -> u64 {
        self.code.iter().find(|range| range.contains(&vaddr)).map_or(0, |range| range.end - vaddr)
    }

    /// The nearest address at or before `vaddr` from which instructions can be decoded.
    pub(crate) fn decodable_before(&self, vaddr: u64) -> Option<u64> {
        let next = self.decodable.partition_point(|&start| start <= vaddr);
        let section = self.code.iter().find(|range| range.contains(&vaddr))?.start;
        Some(next.checked_sub(1).map_or(section, |i| self.decodable[i].max(section)))
    }

    /// Start and end of every stretch of code that can be decoded from its start.
    pub(crate) fn bodies(&self) -> Vec<(u64, u64)> {
        let mut bodies = Vec::with_capacity(self.decodable.len() + self.code.len());
        for range in &self.code {
            let first = self.decodable.partition_point(|&start| start <= range.start);
            let last = self.decodable.partition_point(|&start| start < range.end);
            let starts = std::iter::once(range.start).chain(self.decodable[first..last.max(first)].iter().copied());
            let ends = self.decodable[first..last.max(first)].iter().copied().chain(std::iter::once(range.end));
            bodies.extend(starts.zip(ends));
        }
        bodies
    }

    /// Puts added functions in their places; the answer maps old indices to new ones.
    pub(crate) fn finish(self) -> (Vec<Function>, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.functions.len() as u32).collect();
        if self.sorted == self.functions.len() {
            return (self.functions, order);
        }
        order.sort_by_key(|&index| self.functions[index as usize].vaddr);
        let mut new = vec![0; order.len()];
        for (place, &old) in order.iter().enumerate() {
            new[old as usize] = place as u32;
        }
        let mut functions = self.functions;
        functions.sort_by_key(|f| f.vaddr);
        (functions, new)
    }
}

/// The ranges that a branch can lead between: those near the largest one.
fn in_reach(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    const REACH: u64 = 1 << 30;
    let Some(largest) = ranges.iter().max_by_key(|range| range.end - range.start).cloned() else { return ranges };
    ranges.retain(|range| range.start.abs_diff(largest.start) <= REACH && range.end - range.start <= REACH);
    ranges
}

fn unnamed(vaddr: u64) -> String {
    transect_binary_info::unnamed_function(vaddr)
}

/// `foo` of `foo.cold` and `foo.cold.3`.
fn cold_part_of(name: &str) -> Option<&str> {
    let (function, rest) = name.split_once(".cold")?;
    let numbered = rest.strip_prefix('.').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (rest.is_empty() || numbered).then_some(function)
}

/// Smaller is better: typed before untyped, the public spelling (`read` before `__read`), then the shorter.
fn preference(name: &FunctionName) -> (bool, usize, usize, &str) {
    let underscores = name.name.bytes().take_while(|&b| b == b'_').count();
    let mangled = name.name.starts_with("_Z") || name.name.starts_with("_R");
    (name.kind == SymbolKind::Unknown, if mangled { 0 } else { underscores }, name.name.len(), &name.name)
}

struct Builder {
    names: Vec<FunctionName>,
    code: Vec<Range<u64>>,
    /// Linkage stubs: not functions.
    stubs: Vec<Range<u64>>,
}

impl Builder {
    fn new(object: &Object) -> Self {
        let code = in_reach(object.code_ranges());
        let mut names = object.function_names();
        let in_code = |at: u64| code.iter().any(|range| range.contains(&at));
        names.retain(|name| in_code(name.address));
        names.sort_unstable_by(|a, b| a.address.cmp(&b.address).then_with(|| preference(a).cmp(&preference(b))));
        let sections = object.section_list();
        let is_stub = |name: &str| name.starts_with(".plt") || name == ".iplt";
        let stubs = sections.iter().filter(|s| is_stub(s.name)).map(|s| s.vaddr..s.vaddr + s.size).collect();
        Self { names, code, stubs }
    }

    fn build(self, object: &Object) -> FunctionTable {
        let frames = object.frame_entries();
        let mut table = FunctionTable { code: self.code, ..FunctionTable::default() };
        let mut raw: Vec<(Function, Details)> = Vec::with_capacity(self.names.len().max(frames.len()));
        let mut cold: Vec<(Range<u64>, String)> = Vec::new();
        let frame_at = |at: u64| frames.binary_search_by_key(&at, |f| f.range.start).ok().map(|i| &frames[i]);
        for group in self.names.chunk_by(|a, b| a.address == b.address) {
            let first = &group[0];
            let at = first.address;
            table.starts.push(at);
            let frame = frame_at(at);
            let size = group.iter().map(|name| name.size).max().unwrap_or(0);
            let size = if size == 0 { frame.map_or(0, |f| f.range.end - at) } else { size };
            let size = size.min(table.room(at));
            if let Some(function) = cold_part_of(&first.name) {
                cold.push((at..at + size, function.to_owned()));
                table.decodable.push(at);
                continue;
            }
            // A label is a function if it can be called from elsewhere or has a frame description of its own.
            let label = first.kind == SymbolKind::Unknown;
            if label && !(frame.is_some() || group.iter().any(|name| name.global)) {
                continue;
            }
            // In the middle of a function's description it is a mark for a signal handler (QEMU's `safe_syscall_start`), or
            // one more entry: nobody knows what is on the stack there.
            let before = frames.partition_point(|frame| frame.range.start < at);
            let around = before.checked_sub(1).map(|index| &frames[index].range);
            if label && frame.is_none() && around.is_some_and(|range| range.contains(&at)) {
                continue;
            }
            table.decodable.push(at);
            let mut resolves: Vec<String> = group
                .iter()
                .filter(|name| name.kind == SymbolKind::IndirectFunction)
                .map(|name| name.name.to_string())
                .collect();
            resolves.dedup();
            // The name that others know, where a resolver has one of its own.
            let symbol = resolves.first().cloned().unwrap_or_else(|| first.name.to_string());
            let mut aliases: Vec<String> = group.iter().map(|name| name.name.to_string()).collect();
            aliases.retain(|alias| *alias != symbol);
            aliases.sort_unstable();
            aliases.dedup();
            let name = resolves.first().map_or_else(String::new, |name| format!("{name} [resolver]"));
            raw.push((Function { name, symbol, aliases, vaddr: at, size }, details(frame, resolves)));
        }
        let named_end = |at: u64| {
            let next = raw.partition_point(|(f, _)| f.vaddr <= at);
            next.checked_sub(1).map(|i| &raw[i].0).is_some_and(|f| at < f.vaddr + f.size)
        };
        let mut unnamed_functions = Vec::new();
        let mut anonymous_parts = Vec::new();
        for frame in &frames {
            let at = frame.range.start;
            if !table.code.iter().any(|range| range.contains(&at)) || self.stubs.iter().any(|s| s.contains(&at)) {
                continue;
            }
            table.starts.push(at);
            table.decodable.push(at);
            if self.names.binary_search_by_key(&at, |name| name.address).is_ok() || named_end(at) {
                continue;
            }
            if frame.start == FrameStart::Inside {
                anonymous_parts.push((frame.range.clone(), None));
                continue;
            }
            let function = Function { name: unnamed(at), vaddr: at, size: frame.range.end - at, ..Function::default() };
            unnamed_functions.push((function, details(Some(frame), Vec::new())));
        }
        raw.extend(unnamed_functions);
        raw.sort_by_key(|(f, _)| f.vaddr);
        for list in [&mut table.starts, &mut table.decodable] {
            list.sort_unstable();
            list.dedup();
        }
        (table.functions, table.details) = raw.into_iter().unzip();
        table.sorted = table.functions.len();
        for function in 0..table.functions.len() {
            // Assembly without sizes: up to the next start.
            if table.functions[function].size == 0 {
                table.functions[function].size = table.limit(table.functions[function].vaddr);
            }
        }
        demangle_all(&mut table.functions);
        resolver::name_variants(object, &mut table);
        table.parts = anonymous_parts;
        if !cold.is_empty() {
            let by_symbol: HashMap<&str, u32> =
                table.functions.iter().enumerate().map(|(i, f)| (f.symbol.as_str(), i as u32)).collect();
            table.parts.extend(cold.into_iter().map(|(range, name)| (range, by_symbol.get(name.as_str()).copied())));
        }
        table.parts.sort_by_key(|(range, _)| range.start);
        table
    }
}

impl FunctionTable {
    pub(crate) fn function_mut(&mut self, index: u32) -> &mut Function {
        &mut self.functions[index as usize]
    }
}

fn details(frame: Option<&transect_binary_info::FrameEntry>, resolves: Vec<String>) -> Details {
    Details {
        frame: frame.map(|f| f.start),
        exceptions: frame.and_then(|f| f.exceptions),
        resolves,
        has_entry: false,
        wanted: true,
    }
}

fn demangle_all(functions: &mut [Function]) {
    crate::parallel::for_each_chunk(functions, |chunk| {
        for function in chunk.iter_mut().filter(|f| f.name.is_empty()) {
            function.name = demangle(&function.symbol);
        }
    });
}
