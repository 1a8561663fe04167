//! Time per feature: alone and together, by regions, over time, by APIs and components.

mod facts;
mod place;
mod regions;
mod strip;

use transect_analyze::{FeatureRow, FeaturesView};

pub(crate) use facts::facts;

use super::Limit;
use super::bar::parts_bar;
use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, Table};
use super::units::{count, duration, optional_percent, share};

/// Columns of a bar.
const BAR: usize = 16;
/// The bar's parts: these features alone, and with others.
const ALONE: &str = "█";
const WITH_OTHERS: &str = "░";
/// What stands for the empty set.
const NO_FEATURE: &str = "(no feature)";

/// Rows of each part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    features: usize,
    regions: usize,
    places: usize,
    strips: bool,
}

impl Limits {
    /// For the view itself: `top` rows, or a few screens.
    pub(crate) fn of_view(top: Option<usize>) -> Self {
        Self { features: top.unwrap_or(40), regions: top.unwrap_or(30), places: top.unwrap_or(10), strips: true }
    }

    /// For the overview, where other views follow.
    pub(crate) fn of_overview(top: Option<usize>) -> Self {
        Self { features: top.unwrap_or(8), regions: top.unwrap_or(5), places: top.unwrap_or(4), strips: false }
    }
}

/// Prints the view.
pub(crate) fn features(page: &mut Page, view: &FeaturesView, limits: Limits) {
    if view.session.is_none() {
        page.section("Features", "");
        return page.empty(
            "not recorded: build with transect-cc and a feature model, then transect run --collect feature -- COMMAND",
        );
    }
    page.section(
        "Features",
        &format!("share of the threads' {}, waiting included; ALONE adds up to all of it", duration(view.whole_ns)),
    );
    page.wrapped(
        2,
        Role::Dim,
        &format!(
            "bar: {ALONE} exactly these features, {WITH_OTHERS} together with others; DECIDES: in code that depends on them \
             itself, not only its callers; ON CPU: of ALONE, on a CPU; ENTRIES of regions by what was active then"
        ),
    );
    table(page, view, Limit(limits.features));
    notes(page, view);
    regions::regions(page, view, Limit(limits.regions));
    if limits.strips {
        strip::strips(page, view);
    }
    place::apis(page, view, Limit(limits.places));
    place::components(page, view, Limit(limits.places));
}

fn table(page: &mut Page, view: &FeaturesView, limit: Limit) {
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(4),
        Column::number("TIME"),
        Column::number("±").rank(6),
        Column::number("DECIDES").rank(1),
        Column::number("ALONE"),
        Column::number("ON CPU").rank(7),
        Column::number("ENTRIES").rank(2),
        Column::number("THREADS").rank(5),
        Column::text("HOW").rank(3),
        Column::name("FEATURES", Kind::Text, 16),
    ]);
    // Code of no feature is the rest: it stands below.
    let (none, some): (Vec<&FeatureRow>, Vec<&FeatureRow>) =
        view.features.iter().partition(|row| row.features.is_empty());
    let (shown, left) = limit.apply(&some);
    for row in shown {
        let part = share(row.inclusive_ns, view.whole_ns);
        let large = part.is_some_and(|part| part >= 10.0);
        table.row([
            Cell::new(if large { Role::Large } else { Role::Plain }, optional_percent(part)),
            bar(row, view.whole_ns),
            duration(row.inclusive_ns).into(),
            half_width(row.inclusive_ns, row.inclusive_ns_low, row.inclusive_ns_high),
            duration(row.decided_ns).into(),
            duration(row.exclusive_ns).into(),
            Cell::new(Role::Dim, row.cpu_ns.map_or_else(String::new, duration)),
            row.entries.map_or_else(|| "–".to_owned(), count).into(),
            count(row.threads).into(),
            Cell::new(Role::Dim, row.method.clone()),
            Cell::new(Role::Name, set_text(&row.features)),
        ]);
    }
    for row in none {
        table.row([
            Cell::new(Role::Dim, optional_percent(share(row.exclusive_ns, view.whole_ns))),
            Cell::new(Role::Dim, ALONE.repeat(columns(row.exclusive_ns, 0, view.whole_ns)[0])),
            Cell::new(Role::Dim, duration(row.exclusive_ns)),
            Cell::default(),
            Cell::default(),
            Cell::new(Role::Dim, duration(row.exclusive_ns)),
            Cell::new(Role::Dim, row.cpu_ns.map_or_else(String::new, duration)),
            Cell::default(),
            Cell::new(Role::Dim, count(row.threads)),
            Cell::default(),
            Cell::new(Role::Dim, NO_FEATURE),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view features --top N");
}

/// What of the model has no time, and why.
fn notes(page: &mut Page, view: &FeaturesView) {
    let mut note = |text: &str| page.bulleted(4, (Role::Warning, "! "), Role::Warning, text);
    for lost in view.lost.iter().take(4) {
        note(&format!(
            "variable {} of {} was not found: {}",
            escape(&lost.variable),
            escape(&lost.feature),
            escape(&lost.reason)
        ));
    }
    if view.lost.len() > 4 {
        note(&format!("{} more variables were not found", count(view.lost.len() as i64 - 4)));
    }
    if !view.without_regions.is_empty() {
        let names: Vec<String> = view.without_regions.iter().take(8).map(|name| escape(name).into_owned()).collect();
        let more = if view.without_regions.len() > 8 { ", …" } else { "" };
        note(&format!("no code depends on {}{more}", names.join(", ")));
    }
}

/// `A, B`; names that hold commas stay apart by the row's other uses only.
fn set_text(features: &[String]) -> String {
    match features {
        [] => NO_FEATURE.to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(|name| if name.is_empty() { "(unnamed)" } else { name }).collect();
            escape(&names.join(", ")).into_owned()
        }
    }
}

/// Half of an interval that samples left open.
fn half_width(ns: i64, low: Option<i64>, high: Option<i64>) -> Cell {
    let half = low.zip(high).map(|(low, high)| ns.saturating_sub(low).max(high.saturating_sub(ns)));
    Cell::new(Role::Dim, half.filter(|&half| half > 0).map_or_else(String::new, duration))
}

fn columns(alone_ns: i64, others_ns: i64, whole_ns: i64) -> [usize; 2] {
    let part = |ns: i64| if whole_ns > 0 { ns.max(0) as f64 / whole_ns as f64 * BAR as f64 } else { 0.0 };
    parts_bar([part(alone_ns), part(others_ns)], BAR)
}

fn bar(row: &FeatureRow, whole_ns: i64) -> Cell {
    let [alone, others] = columns(row.exclusive_ns, row.inclusive_ns.saturating_sub(row.exclusive_ns), whole_ns);
    Cell::new(Role::Bar, ALONE.repeat(alone)).then(Role::Bar, WITH_OTHERS.repeat(others))
}
