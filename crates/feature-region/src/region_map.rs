//! Open regions by address.

use std::ops::Range;

use rustc_hash::FxHashMap as HashMap;
use transect_binary_info::Object;

use crate::body::Program;
pub use crate::data_flow::DoubtKind;
use crate::data_flow::solve;
use crate::inline_chain::InlineChains;
use crate::inlined;
use crate::region_stack::{EMPTY, RegionStacks, StackId};
use crate::region_table::{RegionIndex, RegionTable, SiteMode};
use crate::returning::Returning;

/// A place at which open regions can't be told, or contradict the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What.
    pub kind: DoubtKind,
    /// Virtual address.
    pub vaddr: u64,
    /// Function, demangled.
    pub function: String,
}

/// What is known of the code from an address on, up to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Stack(StackId),
    Untold,
}

/// The stack of open regions at each instruction of one object, each function for itself.
#[derive(Debug, Default)]
pub struct RegionMap {
    /// Where what is known changes, sorted; before the first, nothing is open.
    changes: Vec<(u64, Known)>,
    /// Regions of each stack, outermost first.
    regions: HashMap<StackId, Box<[RegionIndex]>>,
    restored: HashMap<u64, StackId>,
    doubts: Vec<Doubt>,
    untold_bytes: u64,
    covered_bytes: u64,
}

impl RegionMap {
    /// Follows the control flow of the functions of `object` that have sites, or reads the debug information if its
    /// regions are there.
    pub fn of(object: &Object, table: &RegionTable) -> Self {
        let mut builder = Builder::default();
        match table.site_mode() {
            SiteMode::None | SiteMode::Confirm => {}
            SiteMode::Inlined => builder.pieces = inlined::pieces(object, table, &mut builder.stacks),
            SiteMode::Probe | SiteMode::Trace | SiteMode::Shared => {
                builder.follow(object, table);
                // Hot loops have no sites, and are in the debug information alone.
                if table.regions.iter().any(|region| region.irregular.is_some()) {
                    builder.inner = inlined::pieces(object, table, &mut builder.stacks);
                }
            }
        }
        builder.finish()
    }

    /// Regions that are open just before the instruction at `vaddr` is executed, outermost first, as far as its function
    /// opened them; `None` if it can't be told.
    pub fn at(&self, vaddr: u64) -> Option<&[RegionIndex]> {
        let next = self.changes.partition_point(|(start, _)| *start <= vaddr);
        match next.checked_sub(1).map_or(Known::Stack(EMPTY), |index| self.changes[index].1) {
            Known::Stack(stack) => self.regions.get(&stack).map(|regions| &regions[..]),
            Known::Untold => None,
        }
    }

    /// Regions that are open during the call that will return to `return_address`.
    pub fn before_return(&self, return_address: u64) -> Option<&[RegionIndex]> {
        // Some byte of the call: what is open there is what was open when it began.
        self.at(return_address.wrapping_sub(1))
    }

    /// Regions of the frame that stay open after the restoring site at `vaddr`, regions of the function into which its
    /// function was inlined included; `None` if it can't be told.
    pub fn after_restore(&self, vaddr: u64) -> Option<&[RegionIndex]> {
        self.regions.get(self.restored.get(&vaddr)?).map(|regions| &regions[..])
    }

    /// Places that can't be told or are odd, by address.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Bytes of code in functions with sites, and how many of them can't be told.
    pub fn coverage(&self) -> (u64, u64) {
        (self.covered_bytes, self.untold_bytes)
    }

    /// Stretches of code with the same regions open, where some are.
    pub fn stretches(&self) -> impl Iterator<Item = (Range<u64>, Option<&[RegionIndex]>)> + '_ {
        let ends = self.changes.iter().skip(1).map(|(start, _)| *start);
        self.changes.iter().zip(ends).filter_map(|(&(start, known), end)| match known {
            Known::Stack(EMPTY) => None,
            Known::Stack(stack) => Some((start..end, self.regions.get(&stack).map(|regions| &regions[..]))),
            Known::Untold => Some((start..end, None)),
        })
    }
}

/// What is known of the code in a range.
pub(crate) type Piece = (Range<u64>, Option<StackId>);

#[derive(Default)]
struct Builder {
    stacks: RegionStacks,
    /// Code of which everything should be known.
    functions: Vec<Range<u64>>,
    pieces: Vec<Piece>,
    /// Regions inside of what `pieces` know, without overlaps.
    inner: Vec<Piece>,
    restored: HashMap<u64, StackId>,
    doubts: Vec<Doubt>,
}

impl Builder {
    fn follow(&mut self, object: &Object, table: &RegionTable) {
        let program = Program::of(object, table.sites.iter().map(|site| site.vaddr).collect());
        let mut returning = Returning::default();
        let chains = InlineChains::new(object, table);
        let mut reached = vec![false; table.sites.len()];
        for function in program.functions_with_sites() {
            let body = program.body(function, &mut returning);
            let solution = solve(&body, table, &chains, &mut self.stacks);
            let name = &program.functions.functions()[function as usize].name;
            let doubts = solution.doubts.into_iter();
            self.doubts.extend(doubts.map(|(kind, vaddr)| Doubt { kind, vaddr, function: name.clone() }));
            self.restored.extend(solution.restored);
            self.functions.extend(body.ranges.iter().cloned());
            for (step, state) in body.steps.iter().zip(&solution.states) {
                let Some(state) = state else { continue };
                self.pieces.push((step.vaddr..step.end, state.certain.then_some(state.stack)));
                if let Ok(index) = table.sites.binary_search_by_key(&step.vaddr, |site| site.vaddr) {
                    reached[index] = true;
                }
            }
        }
        let unreached = table.sites.iter().zip(reached).filter(|(_, reached)| !reached).map(|(site, _)| site.vaddr);
        self.doubts.extend(unreached.map(|vaddr| {
            let function = program.functions.containing(vaddr);
            let name = function.map_or_else(String::new, |f| program.functions.functions()[f as usize].name.clone());
            Doubt { kind: DoubtKind::SiteNotReached, vaddr, function: name }
        }));
    }

    fn finish(mut self) -> RegionMap {
        let inner = std::mem::take(&mut self.inner);
        let mut map = RegionMap { restored: self.restored, doubts: self.doubts, ..RegionMap::default() };
        let ids =
            self.pieces.iter().filter_map(|(_, stack)| *stack).chain(map.restored.values().copied()).chain([EMPTY]);
        for id in ids.collect::<Vec<_>>() {
            map.regions.entry(id).or_insert_with(|| self.stacks.regions(id).into());
        }
        self.pieces.sort_by_key(|(range, stack)| (range.start, range.end, *stack));
        self.functions.sort_by_key(|range| (range.start, range.end));
        let mut at = 0;
        for group in self.pieces.chunk_by(|a, b| a.0.start == b.0.start) {
            let (range, stack) = &group[0];
            if range.start < at {
                // Decoded from its middle, too: what came first is kept.
                continue;
            }
            map.leave_open(at..range.start, &self.functions);
            let agreed = group.iter().all(|(_, other)| other == stack);
            if !agreed {
                map.doubts.push(Doubt { kind: DoubtKind::SharedCode, vaddr: range.start, function: String::new() });
            }
            map.covered_bytes += range.end - range.start;
            match stack {
                Some(stack) if agreed => map.change(range.start, Known::Stack(*stack)),
                _ => {
                    map.untold_bytes += range.end - range.start;
                    map.change(range.start, Known::Untold);
                }
            }
            at = range.end;
        }
        map.leave_open(at..u64::MAX, &self.functions);
        if !inner.is_empty() {
            map.nest(&inner, &mut self.stacks);
        }
        map.doubts.sort_by_key(|doubt| (doubt.vaddr, doubt.kind));
        map
    }
}

impl RegionMap {
    fn change(&mut self, start: u64, known: Known) {
        if self.changes.last().map_or(Known::Stack(EMPTY), |(_, last)| *last) != known {
            self.changes.push((start, known));
        }
    }

    /// Adds regions inside of what is known; `inner` is sorted.
    fn nest(&mut self, inner: &[Piece], stacks: &mut RegionStacks) {
        let mut borders: Vec<u64> = self.changes.iter().map(|(start, _)| *start).collect();
        borders.extend(inner.iter().flat_map(|(range, _)| [range.start, range.end]));
        borders.sort_unstable();
        borders.dedup();
        let before = std::mem::take(&mut self.changes);
        for start in borders {
            let next = before.partition_point(|(other, _)| *other <= start);
            let around = next.checked_sub(1).map_or(Known::Stack(EMPTY), |index| before[index].1);
            let next = inner.partition_point(|(range, _)| range.start <= start);
            let inside = next.checked_sub(1).map(|index| &inner[index]).filter(|(range, _)| range.contains(&start));
            let known = match (around, inside.and_then(|(_, stack)| *stack)) {
                (Known::Stack(around), Some(inside)) => {
                    let stack =
                        stacks.regions(inside).into_iter().fold(around, |stack, region| stacks.push(stack, region));
                    self.regions.entry(stack).or_insert_with(|| stacks.regions(stack).into());
                    Known::Stack(stack)
                }
                (around, _) => around,
            };
            self.change(start, known);
        }
    }

    /// Code that no way leads to: inside of functions with sites it can't be told, elsewhere nothing is open.
    fn leave_open(&mut self, gap: Range<u64>, functions: &[Range<u64>]) {
        if gap.is_empty() {
            return;
        }
        let mut at = gap.start;
        let first = functions.partition_point(|range| range.end <= gap.start);
        for range in functions[first..].iter().take_while(|range| range.start < gap.end) {
            let (start, end) = (range.start.max(at), range.end.min(gap.end));
            if start >= end {
                continue;
            }
            if at < start {
                self.change(at, Known::Stack(EMPTY));
            }
            self.change(start, Known::Untold);
            self.untold_bytes += end - start;
            self.covered_bytes += end - start;
            at = end;
        }
        if at < gap.end {
            self.change(at, Known::Stack(EMPTY));
        }
    }
}
