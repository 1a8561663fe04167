//! Time at each degree of parallelism, as bars.

use transect_analyze::{CriticalityView, ParallelismRow};

use super::elapsed_ns;
use crate::terminal::bar::bar;
use crate::terminal::page::Page;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, Table};
use crate::terminal::units::{duration, percent, share};

const BAR: usize = 40;
/// Degrees that stand alone; those above are taken together by powers of two.
const SINGLE: i32 = 8;

/// Prints the histogram.
pub(super) fn parallelism(page: &mut Page, view: &CriticalityView) {
    let mean = view.parallelism_mean.map_or(String::new(), |mean| format!("{mean:.2} active on average while busy, "));
    if view.estimate && view.parallelism.is_empty() {
        return;
    }
    page.section("Parallelism", &format!("{mean}P = {} CPUs allowed", view.cpus));
    if view.parallelism.iter().all(|row| row.ns == 0) {
        return page.empty("no time was observed");
    }
    let rows = ranges(&view.parallelism, view.cpus);
    let most = rows.iter().filter_map(|row| share(row.ns, elapsed_ns(view))).fold(0.0, f64::max);
    let mut table = Table::new(&[
        Column::number("ACTIVE"),
        Column::number("TIME"),
        Column::number("SHARE"),
        Column::text("").rank(2),
        Column::text("").rank(3),
    ]);
    for row in &rows {
        let part = share(row.ns, elapsed_ns(view)).unwrap_or(0.0);
        let role = match row.low {
            0 => Role::Wait,
            low if i64::from(low) < view.cpus => Role::Large,
            _ => Role::Bar,
        };
        let note = match i64::from(row.low) {
            0 => "all wait",
            1 if view.cpus > 1 => "serial",
            low if low <= view.cpus && view.cpus <= i64::from(row.high) => "= P",
            low if low > view.cpus => "more threads than CPUs",
            _ => "",
        };
        table.row([
            row.label().into(),
            duration(row.ns).into(),
            percent(part).into(),
            Cell::new(role, bar(if most > 0.0 { part * 100.0 / most } else { 0.0 }, BAR)),
            Cell::new(Role::Dim, note),
        ]);
    }
    page.table(&table);
    over_time(page, view);
}

/// Heights of a line's columns, from the smallest on.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Mean number of active threads from start to end, one character a step.
fn over_time(page: &mut Page, view: &CriticalityView) {
    let steps = &view.over_time;
    let room = page.style.columns().saturating_sub(12).clamp(10, 100);
    if steps.len() < 2 {
        return;
    }
    let columns = steps.len().min(room);
    let mean = |column: usize| {
        let part = &steps[column * steps.len() / columns..((column + 1) * steps.len() / columns).max(1)];
        part.iter().map(|step| step.mean).sum::<f64>() / part.len().max(1) as f64
    };
    let means: Vec<f64> = (0..columns).map(mean).collect();
    let top = means.iter().copied().fold(view.cpus.max(1) as f64, f64::max);
    let block = |mean: &f64| BLOCKS[((mean / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
    let line: String = means.iter().map(block).collect();
    page.line(&[(Role::Dim, "  over time "), (Role::Bar, &line)]);
}

struct Range {
    low: i32,
    high: i32,
    ns: i64,
}

impl Range {
    fn label(&self) -> String {
        if self.low == self.high { self.low.to_string() } else { format!("{}–{}", self.low, self.high) }
    }
}

/// Degrees up to [`SINGLE`] and *P* by themselves, the others by powers of two; empty ranges only between others.
fn ranges(rows: &[ParallelismRow], cpus: i64) -> Vec<Range> {
    let cpus = i32::try_from(cpus).unwrap_or(i32::MAX);
    let mut ranges: Vec<Range> = Vec::new();
    for row in rows.iter().filter(|row| row.n >= 0) {
        let (low, high) = if row.n <= SINGLE || row.n == cpus {
            (row.n, row.n)
        } else {
            let power: i32 = 1 << row.n.ilog2();
            let (low, high) = (power.max(SINGLE + 1), power.saturating_mul(2).saturating_sub(1));
            match cpus {
                p if p < low || p > high => (low, high),
                p if row.n < p => (low, p - 1),
                p => (p + 1, high),
            }
        };
        match ranges.last_mut() {
            Some(last) if (last.low, last.high) == (low, high) => last.ns = last.ns.saturating_add(row.ns),
            _ => ranges.push(Range { low, high, ns: row.ns }),
        }
    }
    let keep = ranges.iter().rposition(|range| range.ns > 0).map_or(0, |last| last + 1);
    ranges.truncate(keep);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_degrees_are_taken_together_and_p_stands_alone() {
        let rows: Vec<_> = (0..=40).map(|n| ParallelismRow { n, ns: 1 }).collect();
        let labels = |cpus| ranges(&rows, cpus).iter().map(|r| (r.label(), r.ns)).collect::<Vec<_>>();
        let expect = |list: &[(&str, i64)]| list.iter().map(|&(l, ns)| (l.to_owned(), ns)).collect::<Vec<_>>();
        let tail = [("9–11", 3), ("12", 1), ("13–15", 3), ("16–31", 16), ("32–63", 9)];
        assert_eq!(labels(12)[9..], expect(&tail));
        assert_eq!(labels(16)[9..], expect(&[("9–15", 7), ("16", 1), ("17–31", 15), ("32–63", 9)]));
        assert_eq!(labels(2)[9..], expect(&[("9–15", 7), ("16–31", 16), ("32–63", 9)]));
        assert_eq!(labels(2).iter().map(|(_, ns)| ns).sum::<i64>(), 41);
    }

    #[test]
    fn trailing_empty_degrees_are_left_out() {
        let rows = [(0, 5), (1, 0), (2, 7), (3, 0)].map(|(n, ns)| ParallelismRow { n, ns });
        assert_eq!(ranges(&rows, 4).iter().map(Range::label).collect::<Vec<_>>(), ["0", "1", "2"]);
    }
}
