//! The table that every Go program carries for its own tracebacks (`.gopclntab`), stripped or not: names of functions, their
//! lines, what was inlined where, and the frame's depth at each instruction.
//!
//! Written by the Go linker (`cmd/link/internal/ld/pcln.go`), read by its runtime (`runtime/symtab.go`). Those of Go 1.18 and
//! later are read.

use std::ops::Range;

use crate::Object;
use crate::dynamic::text;

/// First word of the table: Go 1.18 and 1.19, and from 1.20 on.
const MAGIC_18: u32 = 0xffff_fff0;
const MAGIC_20: u32 = 0xffff_fff1;
/// What follows: instructions of any length, words of eight bytes.
const HEAD: [u8; 4] = [0, 0, 1, 8];

/// Indices of words in the runtime's `moduledata`, which begins with a pointer to the table.
const MODULE_FIRST_CODE: u64 = 20;
const MODULE_TEXT: u64 = 22;
const MODULE_FUNCTION_DATA_18: u64 = 38;
const MODULE_FUNCTION_DATA_20: u64 = 40;

/// Indices of the table of values by address and of the function data that describe inlining.
const INLINE_INDEX: usize = 2;
const INLINE_TREE: usize = 3;

/// Bits of a function's flags.
const FLAG_TOP_FRAME: u8 = 1;
const FLAG_WRITES_SP: u8 = 2;

/// Nested inlined calls at most: a damaged tree may be a ring.
const MOST_INLINED: usize = 200;

/// The table of one object.
#[derive(Debug, Clone, Copy)]
pub struct GoTable<'a> {
    bytes: &'a [u8],
    /// Where function data begins (`go.func.*`); empty if that is not known.
    function_data: &'a [u8],
    /// Address that functions' places count from.
    text: u64,
    layout: Layout,
    count: usize,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functions: usize,
}

/// What differs between versions.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Bytes of a function's fixed part.
    function: usize,
    /// Of an inlined call: its bytes, where its name's and where its caller's place stand.
    call: usize,
    call_name: usize,
    call_parent: usize,
    module_function_data: u64,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoFunction<'a> {
    /// Its name, with package and receiver (`main.(*T).Run`).
    pub name: &'a str,
    /// Its code, unrelocated.
    pub code: Range<u64>,
    /// How its callers are found.
    pub frame: GoFrame,
    record: usize,
}

/// How a function's caller is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoFrame {
    /// By the depth of the stack: [`GoTable::depths`].
    Depths,
    /// It has none: threads and goroutines begin there.
    Outermost,
    /// It goes on on another stack, where the frame pointer leads back to (`runtime.systemstack`).
    OtherStack,
    /// Signal handlers return to it; the kernel saved the registers.
    Signal,
}

/// A function that some code belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoPlace<'a> {
    /// The function.
    pub function: &'a str,
    /// Source file, as the compiler was given it.
    pub file: &'a str,
    /// Line in it: of the code itself for the innermost function, of the call for others.
    pub line: u32,
}

impl Object {
    /// The table for Go's own tracebacks; `None` in what is not written in Go.
    pub fn go_table(&self) -> Option<GoTable<'_>> {
        let (address, bytes) = find_table(self)?;
        let words = Words::of(self);
        let module = words.module(address);
        // Until Go 1.25 the table itself says where code begins, too.
        let own = || word(bytes, 8 + 2 * 8).filter(|text| *text != 0);
        let text = module.and_then(|module| words.at(module, MODULE_TEXT)).or_else(own)?;
        let table = GoTable::parse(bytes, text)?;
        let data = module.and_then(|module| words.at(module, table.layout.module_function_data));
        Some(table.with_function_data(data.and_then(|at| self.bytes_at(at)).unwrap_or_default()))
    }
}

impl<'a> GoTable<'a> {
    /// Reads the head of a table whose functions' places count from `text`.
    pub fn parse(bytes: &'a [u8], text: u64) -> Option<Self> {
        let layout = match u32::from_le_bytes(*bytes.first_chunk()?) {
            MAGIC_18 => Layout {
                function: 40,
                call: 20,
                call_name: 12,
                call_parent: 16,
                module_function_data: MODULE_FUNCTION_DATA_18,
            },
            MAGIC_20 => Layout {
                function: 44,
                call: 16,
                call_name: 4,
                call_parent: 8,
                module_function_data: MODULE_FUNCTION_DATA_20,
            },
            _ => return None,
        };
        if bytes.get(4..8)? != HEAD {
            return None;
        }
        let offset = |index: usize| usize::try_from(word(bytes, 8 + 8 * index)?).ok();
        let table = Self {
            bytes,
            function_data: &[],
            text,
            layout,
            count: offset(0)?,
            names: offset(3)?,
            units: offset(4)?,
            files: offset(5)?,
            values: offset(6)?,
            functions: offset(7)?,
        };
        // As many entries as the table says, and the end of the last function.
        let entries = table.count.checked_mul(8)?.checked_add(4)?;
        bytes.get(table.functions..table.functions.checked_add(entries)?)?;
        Some(table)
    }

    /// The same with the functions' data, which tells what was inlined.
    pub fn with_function_data(self, function_data: &'a [u8]) -> Self {
        Self { function_data, ..self }
    }

    /// Its bytes, those of its functions' data from where that begins, and the address that places count from.
    pub fn parts(&self) -> (&'a [u8], &'a [u8], u64) {
        (self.bytes, self.function_data, self.text)
    }

    /// All functions, sorted by address.
    pub fn functions(self) -> impl Iterator<Item = GoFunction<'a>> {
        (0..self.count).filter_map(move |index| self.function(index))
    }

    /// The functions that the code at `vaddr` belongs to, innermost first: those inlined there, then the one that holds the
    /// code. Empty outside of Go's code.
    pub fn places(&self, vaddr: u64) -> Vec<GoPlace<'a>> {
        let Some(function) = self.at(vaddr) else { return Vec::new() };
        let mut places = Vec::new();
        let mut at = vaddr;
        while let Some((name, parent)) = self.inlined(&function, at).filter(|_| places.len() < MOST_INLINED) {
            places.push(self.place(&function, name, at));
            at = parent;
        }
        places.push(self.place(&function, function.name, at));
        places
    }

    /// Depth of a function's frame in bytes below the return address, each from which instruction on.
    pub fn depths(&self, function: &GoFunction<'a>) -> Vec<(u64, i32)> {
        let table = self.field(function.record, 16).unwrap_or(0);
        let mut from = function.code.start;
        let mut depths = Vec::new();
        self.values(table, function.code.start, |end, depth| {
            depths.push((from, depth));
            from = end;
            end < function.code.end
        });
        depths
    }

    fn at(&self, vaddr: u64) -> Option<GoFunction<'a>> {
        let starts_by = |index: usize| self.start(index).is_some_and(|start| start <= vaddr);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if starts_by(middle) { low = middle + 1 } else { high = middle }
        }
        self.function(low.checked_sub(1)?).filter(|function| function.code.contains(&vaddr))
    }

    fn start(&self, index: usize) -> Option<u64> {
        Some(self.text.wrapping_add(u64::from(half(self.bytes, self.functions + 8 * index)?)))
    }

    fn function(&self, index: usize) -> Option<GoFunction<'a>> {
        let record = self.functions.checked_add(half(self.bytes, self.functions + 8 * index + 4)? as usize)?;
        let name = self.name(self.field(record, 4)?)?;
        let flags = *self.bytes.get(record + self.layout.function - 3)?;
        let frame = match flags {
            _ if name.ends_with("__sigaction") => GoFrame::Signal,
            _ if flags & FLAG_TOP_FRAME != 0 => GoFrame::Outermost,
            _ if flags & FLAG_WRITES_SP != 0 => GoFrame::OtherStack,
            _ => GoFrame::Depths,
        };
        Some(GoFunction { name, code: self.start(index)?..self.start(index + 1)?, frame, record })
    }

    /// A word of a function's record.
    fn field(&self, record: usize, offset: usize) -> Option<u32> {
        half(self.bytes, record.checked_add(offset)?)
    }

    fn name(&self, offset: u32) -> Option<&'a str> {
        string(self.bytes, self.names.checked_add(offset as usize)?)
    }

    fn place(&self, function: &GoFunction<'a>, name: &'a str, at: u64) -> GoPlace<'a> {
        let value = |offset| self.value(self.field(function.record, offset)?, function.code.start, at);
        let file = || {
            let unit = self.field(function.record, 32)?;
            let number = unit.checked_add(u32::try_from(value(20)?).ok()?)?;
            let offset = half(self.bytes, self.units.checked_add(4 * number as usize)?)?;
            string(self.bytes, self.files.checked_add(offset as usize)?)
        };
        let line = value(24).and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        GoPlace { function: name, file: file().unwrap_or(""), line }
    }

    /// The innermost function inlined at `at`, and where the call stood.
    fn inlined(&self, function: &GoFunction<'a>, at: u64) -> Option<(&'a str, u64)> {
        let end = function.record.checked_add(self.layout.function)?;
        let tables = self.field(function.record, 28)? as usize;
        let has_tree = usize::from(*self.bytes.get(end - 1)?) > INLINE_TREE;
        if tables <= INLINE_INDEX || !has_tree {
            return None;
        }
        let table = self.field(end, 4 * INLINE_INDEX)?;
        let number = usize::try_from(self.value(table, function.code.start, at)?).ok()?;
        let tree = self.field(end, 4 * tables.checked_add(INLINE_TREE)?).filter(|offset| *offset != u32::MAX)?;
        let call = (tree as usize).checked_add(number.checked_mul(self.layout.call)?)?;
        let name = half(self.function_data, call.checked_add(self.layout.call_name)?)?;
        let parent = half(self.function_data, call.checked_add(self.layout.call_parent)?)?;
        let parent = function.code.start.wrapping_add(u64::from(parent));
        Some((self.name(name)?, parent)).filter(|_| function.code.contains(&parent))
    }

    fn value(&self, table: u32, start: u64, at: u64) -> Option<i32> {
        let mut found = None;
        self.values(table, start, |end, value| {
            found = Some(value).filter(|_| at < end);
            at >= end
        });
        found
    }

    /// Calls `each` with the end and the value of each range of a table by address, until it says no.
    fn values(&self, table: u32, start: u64, mut each: impl FnMut(u64, i32) -> bool) {
        let Some(mut rest) = self.values.checked_add(table as usize).and_then(|at| self.bytes.get(at..)) else {
            return;
        };
        let (mut value, mut end) = (-1i32, start);
        // Zero is "none" as a place, and as a step the end of a table.
        while let Some(step) = variable(&mut rest).filter(|step| table != 0 && (*step != 0 || end == start)) {
            // Zigzag.
            value = value.wrapping_add((step >> 1) as i32 ^ -((step & 1) as i32));
            let Some(length) = variable(&mut rest).filter(|length| *length != 0) else { return };
            end = end.wrapping_add(u64::from(length));
            if !each(end, value) {
                return;
            }
        }
    }
}

/// The table's address and bytes: a section of its own, or a part of the data that the loader relocates, where a linker of C
/// has joined them.
fn find_table(object: &Object) -> Option<(u64, &[u8])> {
    let sections = object.section_list();
    if let Some(section) = sections.iter().find(|section| section.name.ends_with(".gopclntab")) {
        return Some((section.vaddr, section.data));
    }
    sections.iter().find(|section| section.name == ".go.buildinfo")?;
    object.data_segments().find_map(|(vaddr, ..)| {
        let bytes = object.bytes_at(vaddr)?;
        let mut heads = bytes.as_chunks::<8>().0.iter().enumerate();
        let at = heads.find_map(|(index, head)| {
            let at = 8 * index;
            (head[4..] == HEAD && GoTable::parse(&bytes[at..], 0).is_some()).then_some(at)
        })?;
        Some((vaddr + at as u64, &bytes[at..]))
    })
}

/// Words of an object's data, as the loader leaves them.
struct Words<'o> {
    object: &'o Object,
    relocated: Vec<(u64, u64)>,
}

impl<'o> Words<'o> {
    fn of(object: &'o Object) -> Self {
        let relocated = object.relative_relocations().iter().map(|one| (one.vaddr, one.target)).collect();
        Self { object, relocated }
    }

    /// Where the runtime's `moduledata` is: it begins with a pointer to the table.
    fn module(&self, table: u64) -> Option<u64> {
        let by_loader = self.relocated.iter().filter(|(_, target)| *target == table).map(|(vaddr, _)| *vaddr);
        let candidates = if self.relocated.is_empty() { pointers_to(self.object, table) } else { by_loader.collect() };
        let code = self.object.code_ranges();
        candidates.into_iter().find(|&module| {
            let (first, text) = (self.at(module, MODULE_FIRST_CODE), self.at(module, MODULE_TEXT));
            first.is_some_and(|first| {
                first >= text.unwrap_or(u64::MAX) && code.iter().any(|range| range.contains(&first))
            })
        })
    }

    fn at(&self, start: u64, index: u64) -> Option<u64> {
        let vaddr = start.checked_add(8 * index)?;
        let relocated = self.relocated.iter().find(|(at, _)| *at == vaddr).map(|(_, target)| *target);
        relocated.or_else(|| word(self.object.bytes_at(vaddr)?, 0)).filter(|word| *word != 0)
    }
}

/// Addresses of words of data that hold `address`.
fn pointers_to(object: &Object, address: u64) -> Vec<u64> {
    let data = object.data_segments().filter_map(|(vaddr, ..)| Some((vaddr, object.bytes_at(vaddr)?)));
    let mut found = Vec::new();
    for (vaddr, bytes) in data {
        let words = bytes.as_chunks::<8>().0.iter().enumerate();
        let holds = words.filter(|(_, word)| u64::from_le_bytes(**word) == address);
        found.extend(holds.map(|(index, _)| vaddr + 8 * index as u64));
    }
    found
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn string(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(text(&rest[..end])).filter(|name| !name.is_empty())
}

/// A number of seven bits a byte.
fn variable(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
