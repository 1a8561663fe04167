//! Names of addresses of a running process, by its mappings and the symbol tables of their files.
#![allow(dead_code, missing_docs)]

use std::collections::HashMap;

use object::{Object, ObjectSegment, ObjectSymbol};

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// Symbols by address, and segments by place in the file.
#[derive(Default)]
struct File {
    symbols: Vec<(u64, u64, String)>,
    segments: Vec<(u64, u64, u64)>,
}

pub struct Symbols {
    mappings: Vec<Mapping>,
    files: HashMap<String, File>,
}

impl Symbols {
    pub fn of_process(pid: i32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut mappings = Vec::new();
        for line in text.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            let path = fields.get(5..).unwrap_or_default().join(" ");
            mappings.push(Mapping { start: hex(start), end: hex(end), offset: hex(fields[2]), path });
        }
        Self { mappings, files: HashMap::new() }
    }

    /// `object:symbol`, or what is known.
    pub fn name(&mut self, address: u64) -> String {
        let Some(mapping) = self.mappings.iter().find(|m| (m.start..m.end).contains(&address)) else {
            return format!("?{address:x}");
        };
        let file = self.files.entry(mapping.path.clone()).or_insert_with(|| File::read(&mapping.path));
        let object = mapping.path.rsplit('/').next().unwrap();
        let offset = address - mapping.start + mapping.offset;
        let segment = file.segments.iter().find(|s| (s.0..s.0 + s.1).contains(&offset));
        let Some(&(at, _, vaddr)) = segment else { return format!("{object}:+{offset:x}") };
        let address = offset - at + vaddr;
        let next = file.symbols.partition_point(|symbol| symbol.0 <= address);
        match next.checked_sub(1).map(|i| &file.symbols[i]) {
            Some((start, size, name)) if address < start + (*size).max(1) => format!("{object}:{name}"),
            _ => format!("{object}:{address:#x}"),
        }
    }

    pub fn names(&mut self, frames: &[u64]) -> Vec<String> {
        let mut names = Vec::new();
        for (i, &frame) in frames.iter().enumerate() {
            let call = self.name(if i == 0 { frame } else { frame.saturating_sub(1) });
            // A signal can interrupt a function at its first instruction, which no call comes before.
            let unnamed = call.split_once(':').is_none_or(|(_, symbol)| symbol.starts_with("0x"));
            names.push(if unnamed { self.name(frame) } else { call });
        }
        names
    }
}

impl File {
    fn read(path: &str) -> Self {
        let Ok(bytes) = std::fs::read(path) else { return Self::default() };
        let Ok(object) = object::File::parse(&*bytes) else { return Self::default() };
        let symbols = object.symbols().chain(object.dynamic_symbols());
        let symbols = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.address() != 0);
        let mut symbols: Vec<_> = symbols.map(|s| (s.address(), s.size(), s.name().unwrap_or("").to_owned())).collect();
        symbols.sort();
        let segments = object.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        Self { symbols, segments }
    }
}
