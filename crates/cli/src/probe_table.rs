//! Tables of probes as text.

use std::path::Path;

use transect_record::probe_control::{ProbeAction, ProbeRow, ProbeState};
use transect_report::terminal::escape;

/// File name of the probe's component.
pub fn component(row: &ProbeRow) -> String {
    Path::new(&row.path).file_name().map_or_else(|| row.path.clone(), |name| name.to_string_lossy().into_owned())
}

/// Rows in the order of the action's interest.
pub fn sorted(rows: &[ProbeRow], action: ProbeAction) -> Vec<&ProbeRow> {
    let mut rows: Vec<&ProbeRow> = rows.iter().collect();
    let by_place = |row: &ProbeRow| (row.path.clone(), row.address);
    match action {
        ProbeAction::Count | ProbeAction::Enable => {
            rows.sort_by_cached_key(|row| {
                (row.state == ProbeState::Refused, std::cmp::Reverse(row.calls), by_place(row))
            });
        }
        ProbeAction::Time => rows.sort_by_cached_key(|row| {
            let total = row.times.map_or(0, |times| times.total_ns);
            (row.state == ProbeState::Refused, std::cmp::Reverse(total), std::cmp::Reverse(row.calls), by_place(row))
        }),
        _ => rows.sort_by_cached_key(|row| by_place(row)),
    }
    rows
}

/// A table of `rows`, of at most `most` of them and `width` columns; rates are those of the last `interval` seconds if
/// given, else of the `seconds` in all.
pub fn render(
    rows: &[ProbeRow],
    action: ProbeAction,
    seconds: f64,
    interval: Option<f64>,
    most: Option<usize>,
    width: Option<usize>,
) -> String {
    let all = sorted(rows, action);
    let counting = matches!(action, ProbeAction::Count | ProbeAction::Time | ProbeAction::Enable);
    let (shown, hidden): (Vec<&ProbeRow>, Vec<&ProbeRow>) = all.into_iter().partition(|row| !counting || row.calls > 0);
    let limited = &shown[..shown.len().min(most.unwrap_or(usize::MAX))];
    let mut table: Vec<Vec<String>> = vec![titles(action)];
    table.extend(limited.iter().map(|row| cells(row, action, seconds, interval)));
    let numbers = match action {
        ProbeAction::Count | ProbeAction::Enable => 2,
        ProbeAction::Time => 6,
        _ => 0,
    };
    let mut text = String::new();
    if counting {
        text.push_str(&format!("{seconds:.1} s\n"));
    }
    text.push_str(&aligned(&table, numbers, width));
    if limited.len() < shown.len() {
        text.push_str(&format!("… and {} more\n", shown.len() - limited.len()));
    }
    let refused = hidden.iter().filter(|row| row.state == ProbeState::Refused).count();
    let silent = hidden.len() - refused;
    if silent > 0 {
        text.push_str(&format!("{} not called\n", counted(silent, "function", "functions")));
    }
    if refused > 0 {
        text.push_str(&format!(
            "{} without probe (see: transect probe list)\n",
            counted(refused, "function", "functions")
        ));
    }
    text
}

fn titles(action: ProbeAction) -> Vec<String> {
    let titles: &[&str] = match action {
        ProbeAction::Count | ProbeAction::Enable => &["calls", "calls/s", "component", "function", "source"],
        ProbeAction::Time => &["calls", "total", "mean", "p50", "p99", "max", "component", "function", "source"],
        _ => &["state", "provider", "event", "component", "function", "source", "reason"],
    };
    titles.iter().map(|title| (*title).to_owned()).collect()
}

fn cells(row: &ProbeRow, action: ProbeAction, seconds: f64, interval: Option<f64>) -> Vec<String> {
    let source = match (row.file.is_empty(), row.line) {
        (true, _) => String::new(),
        (false, 0) => escaped(&row.file),
        (false, line) => format!("{}:{line}", escaped(&row.file)),
    };
    let counting = matches!(action, ProbeAction::Count | ProbeAction::Time | ProbeAction::Enable);
    let mut function = escaped(&row.function);
    if row.event == "point" && row.name.is_empty() {
        function.push_str(&format!(" ({:#x})", row.address));
    } else if counting && !row.name.is_empty() {
        function.push_str(&format!(" [{}]", escaped(&row.name)));
    }
    let names = [escaped(&component(row)), function, source];
    let mut cells = match action {
        ProbeAction::Count | ProbeAction::Enable => {
            let rate = match interval {
                Some(interval) => row.recent_calls as f64 / interval,
                None => row.calls as f64 / seconds.max(1e-9),
            };
            vec![row.calls.to_string(), format!("{rate:.0}")]
        }
        ProbeAction::Time => {
            let mut cells = vec![row.calls.to_string()];
            match row.times {
                Some(t) => cells.extend([t.total_ns, t.mean_ns, t.p50_ns, t.p99_ns, t.max_ns].map(duration)),
                None => cells.extend(["–"; 5].map(str::to_owned)),
            }
            cells
        }
        _ => vec![row.state.as_str().to_owned(), row.provider.to_owned(), row.event.to_owned()],
    };
    cells.extend(names);
    if !counting {
        let note = if row.name.is_empty() { row.reason.clone() } else { format!("{} {}", row.name, row.reason) };
        cells.push(escaped(note.trim()));
    }
    cells
}

/// Pads the cells to columns, numbers (the first `numbers` columns) to the right; lines are cut at `width`.
fn aligned(table: &[Vec<String>], numbers: usize, width: Option<usize>) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let widest = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) = if column < numbers { (&*pad, "") } else { ("", &*pad) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        let line = line.trim_end();
        match width.filter(|width| line.chars().count() > *width) {
            Some(width) => text.extend(line.chars().take(width.saturating_sub(1)).chain(['…'])),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Safe for terminals.
pub fn escaped(text: &str) -> String {
    escape(text).into_owned()
}

/// `1 probe`, `2 probes`.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A duration with three digits.
pub fn duration(ns: i64) -> String {
    let (value, unit) = match ns {
        ..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let words: Vec<_> = [7, 999, 1_000, 12_345, 999_400, 1_500_000, 2_000_000_000].map(duration).to_vec();
        assert_eq!(words, ["7 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.50 ms", "2.00 s"]);
    }

    #[test]
    fn columns_are_aligned_and_cut() {
        let table = vec![vec!["1".to_owned(), "ab".to_owned()], vec!["22".to_owned(), "c".to_owned()]];
        assert_eq!(aligned(&table, 1, None), " 1  ab\n22  c\n");
        assert_eq!(aligned(&table, 1, Some(5)), " 1  …\n22  c\n");
    }
}
