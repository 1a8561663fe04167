use transect_analyze::{FeaturesView, RegionRow};
use transect_profile_model::HOT_LOOP;

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::{count, counted, duration, optional_percent, share};
use super::{half_width, set_text};

/// Percent of a region's time from which on it is said that events took it.
const LEAST_PERTURBED: f64 = 1.0;

/// Prints the regions that ran, and counts those that did not.
pub(super) fn regions(page: &mut Page, view: &FeaturesView, limit: Limit) {
    let mut note = "by their own decision; regions inside and what is called from there included in TIME".to_owned();
    if view.regions.iter().any(|row| !perturbed(row).is_empty()) {
        note += "; EVENTS: of TIME, what the recording took";
    }
    if view.regions.iter().any(|row| row.has_run() && row.unconfirmed().next().is_some()) {
        note += "; FEATURE?: no run has shown that it decides this (transect feature confirm)";
    }
    page.section("Regions of code", &note);
    let ran: Vec<&RegionRow> = view.regions.iter().filter(|row| row.has_run()).collect();
    if view.regions.is_empty() {
        return page.empty("none: the program holds no region, or none was selected");
    }
    let several = view.regions.iter().any(|row| row.component != view.regions[0].component);
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("TIME"),
        Column::number("±").rank(7),
        Column::number("ALONE").rank(3),
        Column::number("ENTRIES").rank(2),
        Column::number("EVENTS").rank(6),
        Column::number("MEAN").rank(4),
        Column::number("THREADS").rank(8),
        Column::text("HOW").rank(6),
        Column::text("KIND").rank(9),
        Column::name("FEATURES", Kind::Text, 14),
        Column::name("FUNCTION", Kind::Function, 16),
        Column::name("LINE", Kind::File, 10).rank(1),
        Column::name("IN", Kind::Component, 8).rank(5),
    ]);
    let (shown, left) = limit.apply(&ran);
    for row in shown {
        let part = share(row.inclusive_ns, view.whole_ns);
        let large = part.is_some_and(|part| part >= 10.0);
        let mean = row.entries.filter(|&entries| entries > 0).map(|entries| row.inclusive_ns / entries);
        table.row([
            Cell::new(if large { Role::Large } else { Role::Plain }, optional_percent(part)),
            duration(row.inclusive_ns).into(),
            half_width(row.inclusive_ns, row.inclusive_ns_low, row.inclusive_ns_high),
            duration(row.exclusive_ns).into(),
            row.entries.map_or_else(|| "–".to_owned(), count).into(),
            perturbed(row).into(),
            mean.map_or_else(|| "–".to_owned(), duration).into(),
            count(row.threads).into(),
            Cell::new(Role::Dim, row.method.clone()),
            Cell::new(Role::Dim, row.kind.as_str()),
            Cell::new(Role::Name, marked(row)),
            Cell::new(Role::Plain, escape(&row.function)),
            Cell::new(Role::Dim, line(row)),
            Cell::new(Role::Dim, if several { escape(&row.component).into_owned() } else { String::new() }),
        ]);
    }
    if ran.is_empty() {
        page.empty("none was entered");
    } else {
        page.table(&table);
    }
    page.left_out(left, "--view features --top N");
    rest(page, view);
}

/// Regions without a row, by the reason.
fn rest(page: &mut Page, view: &FeaturesView) {
    let rest = || view.silent.iter();
    let hot = |row: &&RegionRow| row.irregular.as_deref().is_some_and(|why| why.starts_with(HOT_LOOP));
    let irregular: Vec<&RegionRow> = rest().filter(|row| row.irregular.is_some() && !hot(row)).collect();
    let mut facts = Vec::new();
    let mut fact = |n: usize, what: &str| {
        if n > 0 {
            facts.push(format!("{} {what}", counted(n as i64, "region", "regions")));
        }
    };
    fact(rest().filter(|row| row.irregular.is_none() && !row.method.is_empty()).count(), "never entered");
    fact(rest().filter(|row| row.irregular.is_none() && row.method.is_empty()).count(), "not observed");
    fact(rest().filter(hot).count(), "in hot loops: by samples only");
    fact(irregular.len(), "not markable");
    if !facts.is_empty() {
        page.items(2, &facts);
    }
    for row in irregular.iter().take(3) {
        let why = row.irregular.as_deref().unwrap_or_default();
        let place = match line(row) {
            line if line.is_empty() => String::new(),
            line => format!(" ({line})"),
        };
        let said = format!("{}{place} of {}: {}", escape(&row.function), set_text(&row.features), escape(why));
        page.bulleted(4, (Role::Warning, "! "), Role::Warning, &said);
    }
}

/// Its features; those with a question mark that runs have not confirmed.
fn marked(row: &RegionRow) -> String {
    let unconfirmed: Vec<&str> = row.unconfirmed().collect();
    let mark = |name: &String| if unconfirmed.contains(&name.as_str()) { format!("{name}?") } else { name.clone() };
    set_text(&row.features.iter().map(mark).collect::<Vec<_>>())
}

/// What part of its time its events took; nothing where it is little.
fn perturbed(row: &RegionRow) -> String {
    match share(row.events_ns, row.inclusive_ns) {
        Some(part) if part >= LEAST_PERTURBED => optional_percent(Some(part)),
        _ => String::new(),
    }
}

fn line(row: &RegionRow) -> String {
    let file = escape(row.file.rsplit('/').next().unwrap_or(&row.file)).into_owned();
    match (file.as_str(), row.line) {
        ("", _) => String::new(),
        (file, line) if line > 0 => format!("{file}:{line}"),
        _ => file,
    }
}
