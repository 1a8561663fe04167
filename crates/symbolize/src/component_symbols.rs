//! Names of one component's addresses, from all files of its build.

use std::cell::{Cell, OnceCell};
use std::path::PathBuf;

use transect_binary_info::Object;
use transect_probe_plan::{Lines, SourceLine};

use crate::named_code::{NamedCode, function_at, named_code};

/// Files of one build, the one that knows most first.
#[derive(Debug, Default)]
pub(crate) struct ComponentSymbols(Vec<Source>);

#[derive(Debug)]
struct Source {
    object: Object,
    lines: OnceCell<Option<Lines>>,
    /// It told something.
    used: Cell<bool>,
}

impl Source {
    fn lines(&self) -> Option<&Lines> {
        self.lines.get_or_init(|| Lines::of(&self.object)).as_ref()
    }
}

/// An address with what its files say.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// Its frames.
    pub code: NamedCode,
    /// First address of the function, if a symbol says so.
    pub start: Option<u64>,
    /// Raw name of the function's symbol.
    pub symbol: Option<String>,
}

impl ComponentSymbols {
    /// Adds a file of the build.
    pub fn add(&mut self, object: Object) {
        self.0.push(Source { object, lines: OnceCell::new(), used: Cell::new(false) });
    }

    /// Adds those of `others`.
    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Whether a file has debug information.
    pub fn has_lines(&self) -> bool {
        self.0.iter().any(|source| source.lines().is_some())
    }

    /// What the files say of an address; `otherwise`: the function's name if they have none.
    pub fn resolve(&self, vaddr: u64, otherwise: &str) -> Resolved {
        let named = self.0.iter().find_map(|source| Some((source, function_at(&source.object, vaddr)?)));
        let frames = self.0.iter().find_map(|source| {
            let frames = source.lines()?.frames(vaddr);
            (!frames.is_empty()).then_some((source, frames))
        });
        let told = [named.as_ref().map(|(source, _)| *source), frames.as_ref().map(|(source, _)| *source)];
        told.into_iter().flatten().for_each(|source| source.used.set(true));
        let symbol = named.map(|(_, symbol)| symbol);
        let frames = frames.map(|(_, frames)| frames).unwrap_or_default();
        Resolved {
            code: named_code(symbol.map(|symbol| symbol.name), &frames, || otherwise.to_owned()),
            start: symbol.map(|symbol| symbol.address),
            symbol: symbol.map(|symbol| symbol.name.to_owned()),
        }
    }

    /// Where a function was written whose first address this is.
    pub fn beginning(&self, vaddr: u64) -> Option<SourceLine> {
        self.0.iter().find_map(|source| source.lines()?.at(vaddr))
    }

    /// Files that told something.
    pub fn used(&self) -> Vec<PathBuf> {
        self.0.iter().filter(|source| source.used.get()).map(|source| source.object.path().to_owned()).collect()
    }
}
