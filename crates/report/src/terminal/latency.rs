//! Latencies of functions, each with a small picture of its distribution.

use transect_analyze::LatencyRow;
use transect_profile_model::{LatencyBucket, LatencySampling, LatencySession, Metric};

use super::Limit;
use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{count, counted, duration, percent};

/// 99th percentile over median from which a tail is a finding; the summary's own threshold.
const HEAVY_TAIL: i64 = 50;
/// Heights of a picture's columns, from the smallest on.
const BLOCKS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Columns of a picture, at most.
const WIDEST: usize = 18;

/// Facts of the measurement, for the header.
pub(crate) fn facts(session: &LatencySession) -> Vec<String> {
    let every = duration(session.epoch_ns);
    let sampling = match session.sampling {
        LatencySampling::Fixed { sample_size } => {
            format!("{} a function every {every}", counted(sample_size.into(), "sample", "samples"))
        }
        LatencySampling::Budget { share } => {
            format!("sampling for {} of the run time, every {every}", percent(share * 100.0))
        }
    };
    let rate = |per_second: f64| count(per_second.round() as i64);
    let mut facts = Vec::new();
    if session.metric != Metric::Wall {
        facts.push(format!("calls measured in {}", words(session.metric)));
    }
    facts.extend([
        format!(
            "{}, {} of them called",
            counted(session.probes_installed, "probe", "probes"),
            count(session.probes_active)
        ),
        sampling,
        format!("{} toggles/s", rate(session.toggles_per_second)),
        format!("{} samples/s", rate(session.samples_per_second)),
        format!("toggling takes {}", percent(session.toggling_share * 100.0)),
    ]);
    if session.metric == Metric::Cpu {
        let empty = duration(session.empty_ns.round() as i64);
        facts.push(format!("{empty} taken off each call for reading the thread's clock"));
    }
    if session.stops > 0 {
        let times = counted(session.stops, "time", "times");
        facts.push(format!("program stopped {times}, at most {}", duration(session.longest_stop_ns)));
    }
    if session.abandoned > 0 {
        facts.push(format!("{} left by an exception or jump", counted(session.abandoned, "timed call", "timed calls")));
    }
    if session.untimed > 0 {
        facts.push(format!("{} not timed for want of memory", counted(session.untimed, "call", "calls")));
    }
    if session.unread > 0 {
        let calls = counted(session.unread, "call", "calls");
        facts.push(format!("{calls} not measured: a filter of system calls, or another thread at the return"));
    }
    facts
}

/// What a metric counts, in words.
fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::Wall => "wall time",
        Metric::Cpu => "the thread's CPU time",
        Metric::PageFaults => "page faults of the thread",
        Metric::Cycles => "CPU cycles of the thread",
        Metric::CacheMisses => "cache misses of the thread",
    }
}

/// An amount for people; a count's mean has a fraction where it is small.
fn amount(metric: Metric, value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if metric.is_time() => duration(value.round() as i64),
        Some(value) if value.fract() != 0.0 && value < 100.0 => format!("{value:.2}"),
        Some(value) => count(value.round() as i64),
    }
}

/// Prints the functions.
pub(crate) fn latency(page: &mut Page, rows: &[LatencyRow], limit: Limit, hint: &str) {
    let (shown, left) = limit.apply(rows);
    let scale = Scale::of(shown);
    let metric = rows.first().map(|row| row.metric).unwrap_or_default();
    let shown_amount = |value: i64| amount(metric, Some(value as f64));
    let total = match metric {
        Metric::Wall => "TIME",
        Metric::Cpu => "CPU TIME",
        Metric::PageFaults => "FAULTS",
        Metric::Cycles => "CYCLES",
        Metric::CacheMisses => "MISSES",
    };
    let explanation = match &scale {
        Some(scale) => {
            let (from, to) = (shown_amount(scale.low()), shown_amount(scale.high()));
            format!("entry to return; {total} and CALLS estimated, CALLS to within ±; DISTRIBUTION from {from} to {to}")
        }
        None => format!("entry to return; {total} and CALLS estimated, CALLS to within ±"),
    };
    page.section("Latency", &explanation);
    if rows.is_empty() {
        return page.empty("no function was sampled, or none matches");
    }
    let several = rows.iter().any(|row| row.process != rows[0].process);
    let mut table = Table::new(&[
        Column::number(total),
        Column::number("CALLS").rank(3),
        Column::number("±").rank(3),
        Column::number("SAMPLES").rank(4),
        Column::number("MEAN").rank(4),
        Column::number("P50"),
        Column::number("P90").rank(6),
        Column::number("P99"),
        Column::number("MAX").rank(LAST_RESORT),
        Column::text("DISTRIBUTION").rank(2),
        Column::number("PID").rank(7),
        Column::name("COMPONENT", Kind::Component, 10).rank(4),
        Column::name("FUNCTION", Kind::Function, 20),
    ]);
    let optional = |value: Option<i64>| amount(metric, value.map(|value| value as f64));
    for row in shown {
        let heavy = row.p50.zip(row.p99).is_some_and(|(p50, p99)| p99 / HEAVY_TAIL >= p50.max(1));
        table.row([
            total_cell(row, &optional).into(),
            row.calls_estimated.map_or_else(|| format!("≥ {}", count(row.calls_seen)), count).into(),
            row.calls_estimated.zip(row.calls_between).map_or(String::new(), spread).into(),
            count(row.samples).into(),
            amount(metric, row.mean).into(),
            optional(row.p50).into(),
            optional(row.p90).into(),
            Cell::new(if heavy { Role::Warning } else { Role::Plain }, optional(row.p99)),
            optional(row.max).into(),
            Cell::new(Role::Bar, scale.as_ref().map_or(String::new(), |scale| scale.picture(&row.histogram))),
            if several { row.process.map_or(String::new(), |pid| pid.to_string()) } else { String::new() }.into(),
            Cell::new(Role::Dim, escape(&row.component)),
            name(row, rows),
        ]);
    }
    page.table(&table);
    page.left_out(left, hint);
}

/// The sum of all calls, `~` where it may be half or twice as large; a bound where nothing else is known.
fn total_cell(row: &LatencyRow, amount: &impl Fn(Option<i64>) -> String) -> String {
    match (row.total, row.total_low, row.total_high) {
        (Some(total), _, Some(high)) if high - total > total / 2 => format!("~{}", amount(row.total)),
        (None, _, Some(_)) => format!("≤ {}", amount(row.total_high)),
        (None, Some(_), None) => format!("≥ {}", amount(row.total_low)),
        _ => amount(row.total),
    }
}

/// Half of the interval about an estimated number of calls, as a part of it; empty where all were seen.
fn spread((calls, (low, high)): (i64, (i64, i64))) -> String {
    let half = (high - calls).max(calls - low);
    if half == 0 { String::new() } else { percent(half as f64 * 100.0 / calls.max(1) as f64) }
}

/// The function's name; where several of a component share it, with its place in the source.
fn name(row: &LatencyRow, rows: &[LatencyRow]) -> Cell {
    let cell = Cell::new(Role::Name, escape(&row.function));
    let same = |other: &LatencyRow| (&other.function, &other.component) == (&row.function, &row.component);
    if !rows.iter().any(|other| same(other) && other.address != row.address) {
        return cell;
    }
    let place = match (row.file.as_str(), row.line) {
        ("", _) => format!("{:#x}", row.address),
        (file, line) if line > 0 => format!("{}:{line}", escape(file)),
        (file, _) => escape(file).into_owned(),
    };
    cell.then(Role::Dim, format!(" {place}")).of(Kind::File)
}

/// The common logarithmic axis of all pictures of a table: whole decades.
struct Scale {
    first_decade: u32,
    decades: u32,
}

impl Scale {
    /// From the shortest to nearly the longest: one call in a hundred, and functions of a few calls (`main`), do not
    /// stretch it; they stand in the last column.
    fn of(rows: &[LatencyRow]) -> Option<Self> {
        let many = |row: &&LatencyRow| row.samples >= 20;
        let enough = rows.iter().any(|row| many(&row));
        let counted = || rows.iter().filter(|row| !enough || many(row));
        let first = |row: &LatencyRow| row.histogram.iter().find(|bucket| bucket.count > 0).map(|bucket| bucket.low);
        let shortest = counted().filter_map(first).min()?;
        let longest = counted().filter_map(|row| row.p99).max()?;
        let decade = |value: i64| value.max(1).ilog10();
        Some(Self { first_decade: decade(shortest), decades: decade(longest.max(shortest)) - decade(shortest) + 1 })
    }

    fn low(&self) -> i64 {
        10_i64.saturating_pow(self.first_decade)
    }

    fn high(&self) -> i64 {
        10_i64.saturating_pow(self.first_decade + self.decades)
    }

    /// Columns of a decade.
    fn fineness(&self) -> usize {
        (WIDEST / self.decades as usize).clamp(1, 4)
    }

    /// One column for a part of a decade, as high as its share of the samples.
    fn picture(&self, histogram: &[LatencyBucket]) -> String {
        let fineness = self.fineness();
        let mut columns = vec![0_i64; self.decades as usize * fineness];
        for bucket in histogram {
            let along = (bucket.low.max(1) as f64).log10() - f64::from(self.first_decade);
            let column = ((along * fineness as f64).max(0.0) as usize).min(columns.len() - 1);
            columns[column] += bucket.count.max(0);
        }
        let most = columns.iter().copied().max().unwrap_or(0).max(1);
        let block = |&samples: &i64| {
            if samples == 0 { " " } else { BLOCKS[(samples as f64 / most as f64 * 7.0).round() as usize] }
        };
        columns.iter().map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(low: i64, count: i64) -> LatencyBucket {
        LatencyBucket { low, high: low + 1, count }
    }

    #[test]
    fn pictures_share_a_scale_of_decades() {
        let scale = Scale { first_decade: 1, decades: 4 };
        assert_eq!((scale.low(), scale.high(), scale.fineness()), (10, 100_000, 4));
        let picture = scale.picture(&[bucket(12, 100), bucket(95, 50), bucket(20_000, 1)]);
        assert_eq!(picture.chars().count(), 16);
        assert_eq!(picture, "█  ▅         ▁  ");
        assert_eq!(scale.picture(&[]).trim(), "");
    }

    #[test]
    fn any_duration_has_a_column() {
        let scale = Scale { first_decade: 0, decades: 19 };
        let picture = scale.picture(&[bucket(0, 1), bucket(i64::MAX - 1, 1)]);
        assert_eq!(picture.trim_end(), picture);
        assert!(picture.starts_with('█'));
    }
}
