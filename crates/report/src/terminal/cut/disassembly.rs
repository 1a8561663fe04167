//! Instructions under the lines that they are of.

use std::collections::BTreeMap;

use transect_analyze::{AnnotateView, InstructionTimes, LineTimes};

use super::super::escape::escape;
use super::super::share_cell;
use super::super::style::Role;
use super::super::table::Cell;
use super::super::units::{duration, share};

/// Instructions without time that are shown on either side of one that has some.
const AROUND: usize = 4;
/// What marks the hottest one; the others are indented as far.
const HOTTEST: &str = "▶ ";
const INDENT: &str = "  ";

/// A place in a source file; without file or line where it is not known.
type SourceLine<'a> = (Option<&'a str>, Option<i32>);

/// What stands under one line.
pub(super) enum Shown<'a> {
    Instruction(&'a InstructionTimes),
    /// So many without time are left out.
    LeftOut(usize),
    /// Those that follow are in this function.
    Symbol(&'a str),
}

/// Instructions of a view by their lines.
pub(super) struct ByLine<'a> {
    lines: BTreeMap<SourceLine<'a>, Vec<&'a InstructionTimes>>,
    total_ns: i64,
    /// They are in more than one function.
    named: bool,
}

impl<'a> ByLine<'a> {
    /// Of the view's instructions, if they were asked for.
    pub(super) fn of(view: &'a AnnotateView) -> Self {
        let instructions = view.disassembly.as_ref().map_or(&[][..], |disassembly| &disassembly.instructions);
        let mut lines: BTreeMap<SourceLine<'a>, Vec<&InstructionTimes>> = BTreeMap::new();
        for instruction in instructions {
            lines.entry((instruction.file.as_deref(), instruction.line)).or_default().push(instruction);
        }
        let place = |instruction: &'a InstructionTimes| (&instruction.component, &instruction.symbol);
        let named = instructions.windows(2).any(|pair| place(&pair[0]) != place(&pair[1]));
        Self { lines, total_ns: view.total_ns, named }
    }

    /// Whether there are some with time under no line of the view: of a file that has lost its lines since.
    pub(super) fn has_unplaced(&self, view: &AnnotateView) -> bool {
        let without = (None, None);
        let has_time = self.lines.get(&without).is_some_and(|found| found.iter().any(|at| at.total_ns > 0));
        has_time && view.lines.iter().all(|line| (line.file.as_deref(), line.line) != without)
    }

    /// What stands under a line: its instructions, where many have no time only those around such that have.
    pub(super) fn under(&self, line: &LineTimes) -> Vec<Shown<'a>> {
        let found = self.lines.get(&(line.file.as_deref(), line.line)).map_or(&[][..], Vec::as_slice);
        let near = |at: usize| {
            let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(found.len()));
            found[from..to].iter().any(|instruction| instruction.total_ns > 0)
        };
        let mut shown = Vec::new();
        let (mut left, mut symbol) = (0, "");
        for (at, &instruction) in found.iter().enumerate() {
            if !near(at) {
                left += 1;
                continue;
            }
            shown.extend((left > 0).then_some(Shown::LeftOut(left)));
            left = 0;
            if self.named && symbol != instruction.symbol {
                symbol = &instruction.symbol;
                shown.push(Shown::Symbol(symbol));
            }
            shown.push(Shown::Instruction(instruction));
        }
        shown.extend((left > 0).then_some(Shown::LeftOut(left)));
        shown
    }

    /// Its cells, in the columns of lines: share, self, on CPU, runnable, blocked, line, address, text.
    pub(super) fn cells(&self, shown: &Shown<'_>) -> [Cell; 8] {
        let mut cells: [Cell; 8] = std::array::from_fn(|_| Cell::default());
        let instruction = match shown {
            Shown::Instruction(instruction) => instruction,
            Shown::LeftOut(count) => {
                let s = if *count == 1 { "" } else { "s" };
                cells[7] = Cell::new(Role::Dim, format!("{INDENT}… {count} instruction{s} without time"));
                return cells;
            }
            Shown::Symbol(name) => {
                cells[7] = Cell::new(Role::Dim, format!("{INDENT}in {}:", escape(name)));
                return cells;
            }
        };
        let ns = |ns: i64| if ns > 0 { duration(ns) } else { String::new() };
        if instruction.total_ns > 0 {
            cells[0] = share_cell(share(instruction.total_ns, self.total_ns));
        }
        cells[1] = ns(instruction.self_ns).into();
        cells[2] = ns(instruction.states.on_cpu_ns).into();
        cells[3] = Cell::new(Role::Dim, ns(instruction.states.runnable_ns));
        cells[4] = Cell::new(Role::Wait, ns(instruction.states.blocked_ns));
        cells[6] = Cell::new(Role::Dim, format!("{:x}", instruction.address));
        let (role, mark) = if instruction.hottest { (Role::Large, HOTTEST) } else { (Role::Plain, INDENT) };
        let words = format!("{} {}", instruction.mnemonic, instruction.operands);
        cells[7] = Cell::new(role, mark).then(role, words.trim_end());
        if let Some(target) = &instruction.target {
            let words = format!("{}  <{}>", words.trim_end(), escape(target));
            cells[7] = Cell::new(role, mark).then(role, words);
        }
        cells
    }
}
