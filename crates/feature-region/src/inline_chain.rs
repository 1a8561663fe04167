//! Which functions' code was inlined into which at an address, from the debug information.

use std::cell::OnceCell;

use transect_binary_info::Object;
use transect_probe_plan::Lines;

use crate::inlined::is_region;
use crate::region_table::{RegionIndex, RegionTable};

/// Chains of inlined functions; the debug information is read when one is asked for.
pub(crate) struct InlineChains<'a> {
    object: &'a Object,
    table: &'a RegionTable,
    lines: OnceCell<Option<Lines>>,
}

impl<'a> InlineChains<'a> {
    pub fn new(object: &'a Object, table: &'a RegionTable) -> Self {
        Self { object, table, lines: OnceCell::new() }
    }

    /// Of the regions open at `vaddr`, outermost first, how many were opened by functions into which the function of that
    /// instruction was inlined: those stay open when control comes back to it outside of its own regions. `None` if the
    /// debug information does not say.
    pub fn opened_around(&self, vaddr: u64, open: &[RegionIndex]) -> Option<u32> {
        let chain = self.chain(vaddr)?;
        let (own, around) = chain.split_first()?;
        if around.contains(own) {
            // Inlined into itself: whose regions those are can't be told.
            return None;
        }
        let mut around = around.iter().rev().peekable();
        let opened = open.iter().take_while(|&&region| {
            let function = source_name(&self.table.regions[region as usize].function);
            while around.next_if(|name| *name != function).is_some() {}
            around.peek().is_some()
        });
        Some(opened.count() as u32)
    }

    /// Drops the calls that lie outside of the inlined function that `vaddr` belongs to, unless all do.
    pub fn keep_inside(&self, vaddr: u64, calls: &mut Vec<u32>, address: impl Fn(u32) -> u64) {
        let Some(chain) = self.chain(vaddr).filter(|chain| chain.len() > 1) else { return };
        let inside = |&call: &u32| self.chain(address(call)).is_some_and(|of_call| of_call.ends_with(&chain));
        if calls.iter().any(inside) {
            calls.retain(inside);
        }
    }

    /// Functions that the code at `vaddr` belongs to, innermost first.
    fn chain(&self, vaddr: u64) -> Option<Vec<String>> {
        let lines = self.lines.get_or_init(|| Lines::of(self.object)).as_ref()?;
        let names = lines.frames(vaddr).into_iter().map(|frame| frame.function);
        let functions = names.filter(|name| name.as_deref().is_none_or(|name| !is_region(name)));
        functions.map(|name| Some(source_name(&name?).to_owned())).collect()
    }
}

/// A function's name without the number that the link gave to one of several of that name.
fn source_name(function: &str) -> &str {
    let name = function.split_once(".llvm.").map_or(function, |(name, _)| name);
    match name.rsplit_once('.') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}
