//! Flows, and the two views that group them by API: `apis` and `callers`.

use transect_analyze::{ApiGroup, ApisView, FlowRow, Totals};
use transect_profile_model::ApiClass;

use super::bar::bar;
use super::escape::escape;
use super::header::shell_words;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{bytes, count, duration, optional_duration, share};
use super::{Limit, share_cell};

const BAR: usize = 8;

/// An estimate of `ns`; `None` where no call was timed: adaptive timing then knows nothing, and zero would be wrong.
fn known(ns: Option<i64>, timed_calls: i64) -> Option<i64> {
    ns.filter(|&ns| ns != 0 || timed_calls > 0)
}

/// Times of a row or a group, as shown.
struct Times {
    total_ns: Option<i64>,
    self_ns: Option<i64>,
    attributed_ns: Option<i64>,
}

impl Times {
    fn of_row(row: &FlowRow) -> Self {
        let known = |ns| known(ns, row.timed_calls);
        let self_ns = known(row.self_ns).filter(|_| !own_is_unknown(row));
        Self { total_ns: known(row.total_ns), self_ns, attributed_ns: known(row.attributed_ns) }
    }

    fn of_group(group: &ApiGroup) -> Self {
        let timed = group.callers.iter().map(|row| row.timed_calls).sum();
        let known = |ns| known(ns, timed);
        let most = |row: &FlowRow| row.total_ns.unwrap_or(0) * 2 > group.total_ns.unwrap_or(0);
        let unknown = group.callers.iter().any(|row| own_is_unknown(row) && most(row));
        Self {
            total_ns: known(group.total_ns),
            self_ns: known(group.self_ns).filter(|_| !unknown),
            attributed_ns: known(group.attributed_ns),
        }
    }
}

/// True if a flow's own time may be anything from nothing to all of it: of calls inside each other few are timed.
fn own_is_unknown(row: &FlowRow) -> bool {
    covers_all((row.self_ns, row.self_ns_low, row.self_ns_high), row.total_ns)
}

/// True if the interval of a part, given with its ends, says nothing of it. A part that is all is as unsure as the whole, which
/// shows that.
fn covers_all((part, low, high): (Option<i64>, Option<i64>, Option<i64>), total: Option<i64>) -> bool {
    low.is_some_and(|low| low <= 0) && high >= total && part != total
}

/// Mean time of a call; `–` without times.
fn per_call(total_ns: Option<i64>, calls: i64) -> String {
    match total_ns {
        Some(total) if calls > 0 => duration((total as f64 / calls as f64).round() as i64),
        _ => "–".to_owned(),
    }
}

/// Interval, relative to the total and in percent, from which an estimate is only an order of magnitude.
const VAGUE: f64 = 50.0;

fn half_interval(row: &FlowRow) -> Option<f64> {
    wider_side(row.total_ns?, row.total_ns_low, row.total_ns_high)
}

/// How far the 95 % interval of a time goes to its wider side, ns; `None` where it is exact.
pub(super) fn wider_side(ns: i64, low: Option<i64>, high: Option<i64>) -> Option<f64> {
    Some((high? - ns).max(ns - low?) as f64)
}

/// `half` ([`wider_side`]) relative to the time; empty where the interval does not show.
pub(super) fn uncertainty(total_ns: Option<i64>, half: Option<f64>) -> Cell {
    match (total_ns, half) {
        (Some(total), Some(half)) if total > 0 => {
            let percent = half * 100.0 / total as f64;
            let role = if percent >= VAGUE { Role::Warning } else { Role::Dim };
            if percent < 0.5 { Cell::default() } else { Cell::new(role, format!("±{percent:.0} %")) }
        }
        _ => Cell::default(),
    }
}

/// Of the sum over an API's callers, whose errors are independent.
fn group_uncertainty(group: &ApiGroup) -> Cell {
    let squares: f64 = group.callers.iter().filter_map(half_interval).map(|half| half * half).sum();
    uncertainty(group.total_ns, Some(squares.sqrt()))
}

/// The class where it is not plain computing.
fn class_cell(class: ApiClass) -> Cell {
    match class {
        ApiClass::Compute => Cell::default(),
        class if class.is_wait() => Cell::new(Role::Wait, class.as_str()),
        class => Cell::new(Role::Dim, class.as_str()),
    }
}

fn optional_bytes(n: Option<i64>) -> Cell {
    n.map(bytes).unwrap_or_default().into()
}

/// Share of all threads' attributed lifetime.
fn attributed_share(attributed_ns: Option<i64>, totals: &Totals) -> Option<f64> {
    share(attributed_ns?, totals.attributed_ns)
}

/// Prints flows, one a line; `hint` says how to see those left out.
pub(crate) fn flows(page: &mut Page, rows: &[FlowRow], totals: &Totals, limit: Limit, hint: &str) {
    let explanation = if rows.iter().any(|row| row.criticality_ns.is_some()) {
        "calling → called component and its API; TOTAL includes callees, CRIT is each instant by the active threads"
    } else if totals.timed {
        "calling component → called component and its API; TOTAL includes callees"
    } else {
        "calling component → called component and its API"
    };
    page.section("Flows", explanation);
    if rows.is_empty() {
        return page.empty("no flow matches");
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("TOTAL"),
        Column::number("ON CPU").rank(5),
        Column::number("CRIT").rank(2),
        Column::number("±").rank(4),
        Column::number("SELF").rank(2),
        Column::number("CALLS").rank(LAST_RESORT),
        Column::number("PER CALL").rank(3),
        Column::number("P50").rank(7),
        Column::number("P99").rank(6),
        Column::number("BYTES").rank(8),
        Column::text("CLASS").rank(9),
        Column::text("SPLIT").rank(3),
        Column::name("FROM", Kind::Component, 10),
        Column::name("TO", Kind::Component, 12),
        Column::name("API", Kind::Function, 20),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        let times = Times::of_row(row);
        table.row([
            share_cell(attributed_share(times.attributed_ns, totals)),
            optional_duration(times.total_ns).into(),
            row.on_cpu_ns.map(duration).unwrap_or_default().into(),
            row.criticality_ns.map(duration).unwrap_or_default().into(),
            uncertainty(row.total_ns, half_interval(row)),
            optional_duration(times.self_ns).into(),
            count(row.calls).into(),
            per_call(times.total_ns, row.calls).into(),
            row.p50_ns.map(duration).unwrap_or_default().into(),
            row.p99_ns.map(duration).unwrap_or_default().into(),
            optional_bytes(row.bytes),
            class_cell(row.class),
            split_cell(row),
            escape(&row.caller).into_owned().into(),
            Cell::new(Role::Dim, "→ ").then(Role::Plain, escape(&row.callee)),
            Cell::new(Role::Name, escape(&row.api)),
        ]);
    }
    page.table(&table);
    called_back(page, shown);
    page.left_out(left, hint);
}

/// Part of a self time, percent, from which it is said that callbacks made calls in it.
const CALLED_BACK_PERCENT: i64 = 10;

/// Says which own time is in rows of other flows, too.
fn called_back(page: &mut Page, rows: &[FlowRow]) {
    let part = |row: &FlowRow| {
        row.called_back_ns.zip(row.self_ns).filter(|(part, own)| part.saturating_mul(100 / CALLED_BACK_PERCENT) >= *own)
    };
    let Some((row, (ns, own))) = rows.iter().filter_map(|row| Some((row, part(row)?))).max_by_key(|(_, part)| part.0)
    else {
        return;
    };
    let (ns, own, api) = (duration(ns), duration(own), escape(&row.api));
    let more = if rows.iter().filter(|row| part(row).is_some()).count() > 1 { ", and so on" } else { "" };
    let text =
        format!("SELF holds the calls that callbacks made, which have rows of their own: {api} {ns} of {own}{more}");
    page.wrapped(0, Role::Dim, &text);
}

/// What a row is split by, where the selection splits.
fn split_cell(row: &FlowRow) -> Cell {
    let mut parts = Vec::new();
    if let Some(process) = row.process {
        parts.push(format!("pid {process}"));
    }
    if let (Some(thread), Some(tid)) = (&row.thread, row.tid) {
        parts.push(format!("{} {tid}", escape(thread)));
    }
    if let Some(feature) = row.feature.as_deref().filter(|f| !f.is_empty()) {
        parts.push(format!("[{}]", escape(feature)));
    }
    Cell::new(Role::Dim, parts.join(" "))
}

/// Prints the APIs of a component: what others call in it, and what it calls itself.
pub(crate) fn apis(page: &mut Page, view: &ApisView, component: Option<&str>, limit: Limit) {
    let (title, explanation) = match component {
        Some(name) => (format!("APIs of {}", escape(name)), "called by other components; all callers together"),
        None => ("APIs".to_owned(), "all callers together"),
    };
    page.section(&title, explanation);
    groups(page, &view.incoming, limit);
    if let Some(name) = component {
        page.section(&format!("Called by {}", escape(name)), "APIs of other components");
        groups(page, &view.outgoing, limit);
    }
}

/// One API with the sums over its callers.
fn group_cells(group: &ApiGroup) -> [Cell; 11] {
    let times = Times::of_group(group);
    let percent = group.percent.filter(|_| times.attributed_ns.is_some());
    [
        share_cell(percent),
        Cell::new(Role::Bar, bar(percent.unwrap_or(0.0), BAR)),
        optional_duration(times.total_ns).into(),
        group_uncertainty(group),
        optional_duration(times.self_ns).into(),
        count(group.calls).into(),
        per_call(times.total_ns, group.calls).into(),
        optional_bytes(group.bytes),
        class_cell(group.class),
        Cell::new(Role::Dim, escape(&group.callee)),
        Cell::new(Role::Name, escape(&group.api)),
    ]
}

fn groups(page: &mut Page, rows: &[ApiGroup], limit: Limit) {
    if rows.is_empty() {
        return page.empty("none");
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(7),
        Column::number("TOTAL"),
        Column::number("±").rank(4),
        Column::number("SELF").rank(2),
        Column::number("CALLS").rank(LAST_RESORT),
        Column::number("PER CALL").rank(3),
        Column::number("BYTES").rank(6),
        Column::text("CLASS").rank(5),
        Column::name("IN", Kind::Component, 10),
        Column::name("API", Kind::Function, 26),
    ]);
    let (shown, left) = limit.apply(rows);
    for group in shown {
        table.row(group_cells(group));
    }
    page.table(&table);
    page.left_out(left, "--top N, --api NAME");
}

/// Prints each API with its callers below it.
pub(crate) fn callers(page: &mut Page, rows: &[ApiGroup], totals: &Totals, limit: Limit, wanted: Option<&str>) {
    page.section("Callers", "each API, and below it (←) the components that call it");
    if rows.is_empty() {
        let elsewhere = wanted.map_or_else(String::new, |name| {
            format!(
                "; functions that call one of their own component: --view criticality --api {}",
                shell_words(&[name.to_owned()])
            )
        });
        return page.empty(&escape(&format!("no API matches{elsewhere}")));
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(7),
        Column::number("TOTAL"),
        Column::number("±").rank(4),
        Column::number("SELF").rank(2),
        Column::number("CALLS").rank(LAST_RESORT),
        Column::number("PER CALL").rank(3),
        Column::number("BYTES").rank(6),
        Column::text("CLASS").rank(5),
        Column::name("IN", Kind::Component, 10),
        Column::name("API", Kind::Function, 26),
    ]);
    let (shown, left) = limit.apply(rows);
    for group in shown {
        table.row(group_cells(group));
        for row in &group.callers {
            let times = Times::of_row(row);
            let part = attributed_share(times.attributed_ns, totals);
            let name = Cell::new(Role::Dim, "  ← ").then(Role::Plain, escape(&row.caller));
            table.row([
                Cell::new(Role::Dim, super::units::optional_percent(part)),
                Cell::new(Role::Dim, bar(part.unwrap_or(0.0), BAR)),
                Cell::new(Role::Dim, optional_duration(times.total_ns)),
                uncertainty(row.total_ns, half_interval(row)),
                Cell::new(Role::Dim, optional_duration(times.self_ns)),
                Cell::new(Role::Dim, count(row.calls)),
                Cell::new(Role::Dim, per_call(times.total_ns, row.calls)),
                optional_bytes(row.bytes),
                Cell::default(),
                split_cell(row),
                name,
            ]);
        }
    }
    page.table(&table);
    page.left_out(left, "--top N, --api NAME");
}

#[cfg(test)]
mod tests {
    use super::covers_all;

    #[test]
    fn own_time_is_unknown_where_its_interval_says_nothing() {
        assert!(covers_all((Some(0), Some(0), Some(171)), Some(146)));
        assert!(!covers_all((Some(0), Some(0), Some(14)), Some(146)));
        assert!(!covers_all((Some(70), Some(10), Some(171)), Some(146)));
        // No part is taken off: as unsure as the total.
        assert!(!covers_all((Some(70), Some(0), Some(171)), Some(70)));
        // Every call was timed.
        assert!(!covers_all((Some(0), None, None), Some(146)));
    }
}
