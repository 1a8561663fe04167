use transect_analyze::FeaturesView;

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::{count, duration, optional_duration, optional_percent, share};
use super::set_text;

/// Prints which APIs features call.
pub(super) fn apis(page: &mut Page, view: &FeaturesView, limit: Limit) {
    if view.apis.is_empty() {
        return;
    }
    page.section("APIs by feature", "calls made while exactly these features were active");
    let mut table = Table::new(&[
        Column::number("TIME"),
        Column::number("CALLS"),
        Column::text("CLASS").rank(5),
        Column::name("FEATURES", Kind::Text, 12),
        Column::name("API", Kind::Function, 20),
        Column::name("COMPONENT", Kind::Component, 10).rank(4),
    ]);
    let (shown, left) = limit.apply(&view.apis);
    for row in shown {
        let role = if row.class.is_wait() { Role::Wait } else { Role::Plain };
        table.row([
            optional_duration(row.total_ns).into(),
            count(row.calls).into(),
            Cell::new(role, row.class.as_str()),
            Cell::new(if row.features.is_empty() { Role::Dim } else { Role::Name }, set_text(&row.features)),
            Cell::new(Role::Plain, escape(&row.api)),
            Cell::new(Role::Dim, escape(&row.callee)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view features --top N, --view flows --by feature");
}

/// Prints the components in which features spend their time.
pub(super) fn components(page: &mut Page, view: &FeaturesView, limit: Limit) {
    if view.components.is_empty() {
        return;
    }
    page.section("Components by feature", "time in a component itself while exactly these features were active");
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("SELF"),
        Column::number("OF IT WAITING").rank(4),
        Column::number("CALLS").rank(3),
        Column::name("FEATURES", Kind::Text, 12),
        Column::name("COMPONENT", Kind::Component, 12),
    ]);
    let (shown, left) = limit.apply(&view.components);
    for row in shown {
        table.row([
            optional_percent(share(row.self_ns, view.whole_ns)).into(),
            duration(row.self_ns).into(),
            Cell::new(Role::Wait, if row.wait_ns > 0 { duration(row.wait_ns) } else { String::new() }),
            if row.calls > 0 { count(row.calls) } else { String::new() }.into(),
            Cell::new(if row.features.is_empty() { Role::Dim } else { Role::Name }, set_text(&row.features)),
            Cell::new(Role::Plain, escape(&row.component)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view features --top N");
}
