//! Locks: how often taken, how often found held, how long.

use transect_analyze::LockRow;
use transect_profile_model::{Meta, Timing};

use super::Limit;
use super::escape::escape;
use super::flows::{uncertainty, wider_side};
use super::header::has_flows;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{count, duration, optional_percent, share};

/// Share of contended acquisitions, 0–100, that is worth a look.
const CONTENDED: f64 = 10.0;

/// Why there may be none.
pub(crate) fn none(meta: &Meta) -> &'static str {
    match (has_flows(meta), &meta.timing) {
        (true, Timing::Count) => {
            "not recorded: with --timing count, calls that take a lock are counted only (--view flows)"
        }
        (true, _) => "no pthread lock was taken",
        (false, _) => {
            "not recorded: acquisitions are counted with the calls (--collect flow); for waits see --view criticality"
        }
    }
}

/// Prints the locks; if there are none, what it says of that.
pub(crate) fn locks(page: &mut Page, rows: &[LockRow], none: &str, limit: Limit) {
    page.section("Locks", "by lock and call path; CONTENDED: found it held; HELD is estimated");
    if rows.is_empty() {
        return page.empty(none);
    }
    let mut table = Table::new(&[
        Column::number("WAITED"),
        Column::number("HELD").rank(2),
        Column::number("±").rank(2),
        Column::number("TAKEN").rank(LAST_RESORT),
        Column::number("CONTENDED"),
        Column::name("LOCK, TAKEN AT", Kind::Text, 16),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        let contended = share(row.contended, row.acquisitions);
        let role = if contended.is_some_and(|c| c >= CONTENDED) { Role::Warning } else { Role::Plain };
        table.row([
            Cell::new(if row.wait_ns > 0 { Role::Wait } else { Role::Plain }, duration(row.wait_ns)),
            duration(row.hold_ns).into(),
            uncertainty(Some(row.hold_ns), wider_side(row.hold_ns, row.hold_ns_low, row.hold_ns_high)),
            count(row.acquisitions).into(),
            Cell::new(role, optional_percent(contended)),
            Cell::new(Role::Name, escape(&row.object)),
        ]);
        if !row.path.is_empty() {
            let path = Cell::new(Role::Dim, "  ").then(Role::Dim, escape(&row.path)).of(Kind::Path);
            let nothing = Cell::default;
            table.row([nothing(), nothing(), nothing(), nothing(), nothing(), path]);
        }
    }
    page.table(&table);
    page.left_out(left, "--view locks --top N");
}
