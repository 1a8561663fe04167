//! Frames of an address: a function and those inlined into it there.

use transect_binary_info::{Object, Symbol, SymbolKind, readable_name};
use transect_probe_plan::SourceFrame;

/// One function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFrame {
    /// Name, demangled, without suffixes of copies; `[inlined]` where debug information has none.
    pub function: String,
    /// Source file, empty if unknown.
    pub file: String,
    /// Line in it, 0 if unknown.
    pub line: i32,
    /// Inlined into the one before.
    pub inlined: bool,
}

/// What is known of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCode {
    /// The function that holds the code, and those inlined into it there; never empty.
    pub frames: Vec<CodeFrame>,
    /// A symbol or debug information names the function.
    pub named: bool,
    /// Debug information covers the address.
    pub described: bool,
}

impl NamedCode {
    /// Nothing can be added: the function has a name, and the address a line.
    pub fn is_whole(&self) -> bool {
        self.named && self.described
    }
}

/// The symbol of the code at an address.
pub fn function_at(object: &Object, vaddr: u64) -> Option<Symbol<'_>> {
    object.symbol_at(vaddr).filter(|symbol| symbol.kind != SymbolKind::Data)
}

/// Frames from the raw name of a symbol and what debug information says (innermost first). `otherwise` names a function that
/// neither does.
pub fn named_code(symbol: Option<&str>, source: &[SourceFrame], otherwise: impl FnOnce() -> String) -> NamedCode {
    let raw = symbol.or_else(|| source.last().and_then(|frame| frame.function.as_deref()));
    let function = raw.map_or_else(otherwise, readable_name);
    let frame = |function, source: &SourceFrame, inlined| CodeFrame {
        function,
        file: source.file.clone(),
        line: source.line as i32,
        inlined,
    };
    let frames = match source.split_last() {
        None => vec![CodeFrame { function, file: String::new(), line: 0, inlined: false }],
        Some((outer, inner)) => {
            let inlined = inner.iter().rev().map(|source| {
                let name = source.function.as_deref().map_or_else(|| "[inlined]".to_owned(), readable_name);
                frame(name, source, true)
            });
            [frame(function, outer, false)].into_iter().chain(inlined).collect()
        }
    };
    NamedCode { frames, named: raw.is_some(), described: !source.is_empty() }
}
