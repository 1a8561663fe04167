//! Facts about the recording (`--view meta`), beyond those of the header.

use transect_profile_model::Meta;

use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, Table};
use super::units::{bytes, count};

/// Prints machine and clock.
pub(crate) fn recording(page: &mut Page, meta: &Meta) {
    page.section("Recording", "");
    let machine = &meta.machine;
    let clock = &meta.clock;
    let mut table = Table::new(&[Column::text("FACT"), Column::name("VALUE", Kind::Text, 20)]);
    for (fact, value) in [
        ("host", escape(&machine.hostname).into_owned()),
        ("kernel", escape(&machine.kernel).into_owned()),
        ("CPU", format!("{}, {} CPUs", escape(&machine.cpu), count(machine.cpus.into()))),
        ("memory", bytes(machine.memory_bytes)),
        ("clock", format!("{}, {:.3} ticks per ns", escape(&clock.source), clock.ticks_per_ns)),
        ("cost", format!("{:.1} ns a timed call, {:.1} ns a counted call", clock.timed_call_ns, clock.counted_call_ns)),
        ("collectors", escape(&meta.collectors.join(", ")).into_owned()),
        ("schema", meta.schema.to_string()),
    ] {
        table.row([Cell::new(Role::Dim, fact), value.into()]);
    }
    page.table(&table);
}
