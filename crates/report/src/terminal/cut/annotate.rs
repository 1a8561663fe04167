//! Lines of one function with their time, beside the source where it is found.

use std::collections::BTreeMap;

use transect_analyze::{AnnotateView, LineTimes, StateTimes};

use super::super::escape::escape;
use super::super::page::Page;
use super::super::share_cell;
use super::super::shorten::{Kind, shorten};
use super::super::style::Role;
use super::super::table::{Cell, Column, LAST_RESORT, Table};
use super::super::units::{duration, share};
use super::disassembly::ByLine;
use super::explanation;
use crate::Sources;

/// Lines of source that are shown around those with time.
const AROUND: i32 = 2;

/// Prints the lines.
pub(crate) fn annotate(page: &mut Page, view: &AnnotateView, sources: &Sources) {
    let words = format!(
        "share of its {}, with what it called (of recursive calls the innermost); SELF without; {}",
        duration(view.total_ns),
        explanation(&view.scope).replacen("share of", "of all", 1)
    );
    page.section(&format!("Lines of {}", escape(&view.function)), &words);
    let instructions = ByLine::of(view);
    if let Some(disassembly) = &view.disassembly {
        let words = "▶ marks the hottest instruction: a sample may fall on the one after that which takes the time. \
                     Inlined code is its own";
        page.wrapped(2, Role::Dim, words);
        if disassembly.elsewhere_ns > 0 {
            let elsewhere = duration(disassembly.elsewhere_ns);
            page.wrapped(2, Role::Dim, &format!("{elsewhere} are of lines only: at which instruction is not known"));
        }
    }
    let without = LineTimes { file: None, line: None, self_ns: 0, total_ns: 0, states: StateTimes::default() };
    let mut files = by_file(view);
    if instructions.has_unplaced(view) {
        files.entry(None).or_default().push(&without);
    }
    for (file, lines) in files {
        of_file(page, view, file, &lines, file.and_then(|file| sources.lines(file)), &instructions);
        if file.is_some_and(|file| sources.is_changed(file)) {
            page.wrapped(2, Role::Warning, "the file has changed since the recording: lines may be others");
        }
    }
}

/// Lines by their file.
pub fn by_file(view: &AnnotateView) -> BTreeMap<Option<&str>, Vec<&LineTimes>> {
    let mut files: BTreeMap<Option<&str>, Vec<&LineTimes>> = BTreeMap::new();
    for line in &view.lines {
        files.entry(line.file.as_deref()).or_default().push(line);
    }
    files
}

/// A line that is shown.
pub struct SourceLine<'a> {
    /// Its number, 0 if unknown.
    pub number: i32,
    /// Its time; `None`: it has none, and stands around one that has.
    pub times: Option<&'a LineTimes>,
    /// Its text, harmless and without tabs; empty where the source is not there.
    pub text: String,
}

/// Lines of a file that have time, and what stands around them.
pub fn source_lines<'a>(lines: &[&'a LineTimes], source: Option<&[String]>) -> Vec<SourceLine<'a>> {
    let text = |number: i32| {
        let line = usize::try_from(number - 1).ok().and_then(|at| source?.get(at));
        line.map(|line| escape(&line.replace('\t', "    ")).into_owned())
    };
    let around = |number: i32| Some(SourceLine { number, times: None, text: text(number)? });
    let mut shown = Vec::new();
    let mut last = None;
    for &line in lines {
        let number = line.line.unwrap_or(0);
        // The lines between two that are near each other, else some before and after each.
        let begin = last.map_or(number - AROUND, |last: i32| (number - AROUND).max(last + 1));
        shown.extend((begin..number).filter_map(around));
        shown.push(SourceLine { number, times: Some(line), text: text(number).unwrap_or_default() });
        let next = lines.iter().filter_map(|other| other.line).filter(|other| *other > number).min();
        let end = (number + AROUND).min(next.unwrap_or(i32::MAX) - 1);
        shown.extend((number + 1..=end).filter_map(around));
        last = Some(end.max(number));
    }
    shown
}

fn of_file(
    page: &mut Page,
    view: &AnnotateView,
    file: Option<&str>,
    lines: &[&LineTimes],
    source: Option<&[String]>,
    instructions: &ByLine<'_>,
) {
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("SELF").rank(LAST_RESORT),
        Column::number("ON CPU").rank(3),
        Column::number("RUNNABLE").rank(4),
        Column::number("BLOCKED").rank(2),
        Column::number("LINE"),
        Column::number("ADDRESS"),
        Column::name("", Kind::Text, 30),
    ]);
    for SourceLine { number, times, text } in source_lines(lines, source) {
        let Some(line) = times else {
            let mut cells: [Cell; 8] = std::array::from_fn(|_| Cell::default());
            (cells[5], cells[7]) = (Cell::new(Role::Dim, number.to_string()), Cell::new(Role::Dim, text));
            table.row(cells);
            continue;
        };
        let ns = |ns: i64| if ns > 0 { duration(ns) } else { String::new() };
        table.row([
            share_cell(share(line.total_ns, view.total_ns)),
            ns(line.self_ns).into(),
            ns(line.states.on_cpu_ns).into(),
            Cell::new(Role::Dim, ns(line.states.runnable_ns)),
            Cell::new(Role::Wait, ns(line.states.blocked_ns)),
            line.line.map_or_else(|| "–".to_owned(), |line| line.to_string()).into(),
            Cell::default(),
            text.into(),
        ]);
        instructions.under(line).iter().for_each(|shown| table.row(instructions.cells(shown)));
    }
    let name = file.map_or_else(|| "code without lines (build with -g)".to_owned(), |file| escape(file).into_owned());
    page.wrapped(2, Role::Name, &shorten(&name, Kind::File, page.style.columns() - 2));
    if file.is_some() && source.is_none() {
        page.wrapped(2, Role::Dim, "source not found: --source-dir DIR");
    }
    page.table(&table);
}
