//! Lines of the function that is looked at.

use transect_analyze::{AnnotateView, LineTimes};
use transect_report::Sources;
use transect_report::terminal::parts;

use super::Pane;
use crate::request::Request;

/// Lines of a function.
#[derive(Debug, Clone, Default)]
pub struct SourceTab {
    /// Whose; `None`: nobody has chosen one yet.
    pub function: Option<String>,
    /// Its lines with time, and the files that they stand in.
    pub pane: Pane<(AnnotateView, Sources)>,
    /// The row that is chosen.
    pub selected: usize,
}

/// A row of the screen.
#[derive(Debug, Clone)]
pub enum SourceRow {
    /// The name of a file, and what is to be said of it.
    File(Option<String>, &'static str),
    /// A line: its number, its time if it has any, its text.
    Line(i32, Option<LineTimes>, String),
}

impl SourceTab {
    pub(super) fn of(&mut self, function: String) {
        self.function = Some(function);
    }

    pub(super) fn take(&mut self, request: Request, view: Result<(AnnotateView, Sources), String>) {
        self.pane.shown = Some((request, view));
        let time = |row: &SourceRow| match row {
            SourceRow::Line(_, Some(times), _) => times.total_ns,
            _ => -1,
        };
        let rows = self.rows();
        self.selected = (0..rows.len()).rev().max_by_key(|&at| time(&rows[at])).unwrap_or(0);
    }

    /// What the screen shows, from the top.
    pub fn rows(&self) -> Vec<SourceRow> {
        self.pane.get().map(|(view, sources)| source_rows(view, sources)).unwrap_or_default()
    }
}

/// Lines with time under their files, and what stands around them.
pub fn source_rows(view: &AnnotateView, sources: &Sources) -> Vec<SourceRow> {
    let mut rows = Vec::new();
    for (file, lines) in parts::by_file(view) {
        let source = file.and_then(|file| sources.lines(file));
        let note = match file {
            None => "",
            Some(_) if source.is_none() => "source not found: --source-dir DIR",
            Some(file) if sources.is_changed(file) => "changed since the recording: lines may be others",
            Some(_) => "",
        };
        rows.push(SourceRow::File(file.map(str::to_owned), note));
        let shown = parts::source_lines(&lines, source).into_iter();
        rows.extend(shown.map(|line| SourceRow::Line(line.number, line.times.cloned(), line.text)));
    }
    rows
}
