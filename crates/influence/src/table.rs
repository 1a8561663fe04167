//! Results as text and CSV.

use std::fmt::Write;

use crate::{FailedConfiguration, Influence, Term};

/// Terms shown in the text, at most; the rest is in the other formats.
const SHOWN_TERMS: usize = 30;

/// The result as a table for people.
pub fn text(influence: &Influence) -> String {
    let mut out = format!(
        "{}: {}; {}{} configurations, {} runs\n",
        if influence.model.is_empty() { "influence" } else { &influence.model },
        influence.method.what(),
        if influence.complete { "all " } else { "" },
        influence.configurations,
        influence.runs
    );
    if let Some(error) = influence.error_line() {
        line(&mut out, &error);
    }
    out.push('\n');
    if influence.is_reliable() {
        terms(&mut out, influence);
    } else {
        line(&mut out, &influence.unreliable_line());
    }
    out.push('\n');
    if let Some(explained) = influence.explained {
        line(&mut out, &format!("of the differences between configurations explained: {:.1} %", explained * 100.0));
    }
    if influence.outliers > 0 {
        line(&mut out, &format!("runs left out, far from the others of their configuration: {}", influence.outliers));
    }
    influence.doubts().iter().for_each(|doubt| line(&mut out, doubt));
    for FailedConfiguration { options, reason } in &influence.failed {
        line(&mut out, &format!("left out: {options}: {reason}"));
    }
    for note in &influence.notes {
        line(&mut out, &format!("note: {note}"));
    }
    out
}

/// The terms, each with its interval and a bar.
fn terms(out: &mut String, influence: &Influence) {
    let mut rows = vec![["term", "time", "95 % interval", ""].map(str::to_owned)];
    let largest =
        influence.terms.iter().filter(|term| !term.features.is_empty()).map(|term| term.ns.unsigned_abs()).max();
    for term in influence.terms.iter().take(SHOWN_TERMS) {
        let ns = if term.features.is_empty() { time(term.ns) } else { signed(term.ns) };
        rows.push([term.label(), ns, interval(term.low, term.high), bar(term, largest.unwrap_or(0))]);
    }
    out.push_str(&aligned(&rows));
    let hidden = influence.terms.len().saturating_sub(SHOWN_TERMS);
    if hidden > 0 {
        line(out, &format!("and {hidden} smaller terms (--format json or csv has all)"));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// `+` and `-` bars; blank if chance explains the term.
fn bar(term: &Term, largest: u64) -> String {
    const WIDTH: u64 = 24;
    if term.features.is_empty() || largest == 0 {
        return String::new();
    }
    if !term.is_significant() && term.low.is_some() {
        return "(chance)".to_owned();
    }
    let length = (u128::from(term.ns.unsigned_abs()) * u128::from(WIDTH) / u128::from(largest)) as usize;
    if term.ns < 0 { "-".repeat(length) } else { "+".repeat(length) }
}

/// A time with its unit.
pub(crate) fn time(ns: i64) -> String {
    let size = ns.unsigned_abs() as f64;
    let sign = if ns < 0 { "-" } else { "" };
    match size {
        size if size >= 1e9 => format!("{sign}{:.3} s", size / 1e9),
        size if size >= 1e6 => format!("{sign}{:.3} ms", size / 1e6),
        size if size >= 1e3 => format!("{sign}{:.3} µs", size / 1e3),
        size => format!("{sign}{size:.0} ns"),
    }
}

pub(crate) fn signed(ns: i64) -> String {
    if ns >= 0 { format!("+{}", time(ns)) } else { time(ns) }
}

pub(crate) fn interval(low: Option<i64>, high: Option<i64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} .. {}", time(low), time(high)),
        _ => "unknown".to_owned(),
    }
}

/// Rows under their heads: the first and last columns to the left, the others to the right.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths = [0; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[column] - width(cell));
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a string does not fail.
            let _ = match column == 0 || column == N - 1 {
                true => write!(line, "{gap}{cell}{space}"),
                false => write!(line, "{gap}{space}{cell}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The terms as CSV: `features` joined by `&`, `forms` likewise; none if predictions are too far off.
pub fn csv(influence: &Influence) -> String {
    let mut out = String::from("features,forms,ns,low,high\n");
    for term in influence.terms.iter().filter(|_| influence.is_reliable()) {
        let forms: Vec<_> = term.forms.iter().map(|form| form.as_str()).collect();
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let _ = writeln!(
            out,
            "{},{},{},{},{}",
            field(&term.features.join("&")),
            forms.join("&"),
            term.ns,
            number(term.low),
            number(term.high)
        );
    }
    out
}

/// A field as RFC 4180 has it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
