//! The views as text for a terminal: tables with colour and width, numbers with units, every foreign string escaped.

mod bar;
mod components;
mod criticality;
mod cut;
mod escape;
mod feature;
mod flows;
mod header;
mod latency;
mod locks;
mod loss;
mod markdown;
mod page;
mod recording;
mod shorten;
mod style;
mod summary;
mod table;
mod threads;
mod units;
mod waits;
mod walk;

use std::io::Write;

use transect_analyze::{FullReport, Selection, View};

pub use escape::escape;
pub(crate) use escape::is_hazard;
pub use style::{ColorChoice, DEFAULT_WIDTH, Style};
pub use walk::walk_progress;

/// Numbers, names and bars as the views write them, for other screens.
pub mod parts {
    pub use super::bar::bar;
    pub use super::cut::annotate::{SourceLine, by_file, source_lines};
    pub use super::cut::timeline::{LEGEND, glyphs};
    pub use super::cut::{
        amount, explanation, head, in_order, kind, measured, nothing, spread, text as key_text, title,
    };
    pub use super::header::{extent, not_seen, shell_words, status, without};
    pub use super::page::wrap;
    pub use super::shorten::{Kind, cut_middle, shorten, width};
    pub use super::style::Role;
    pub use super::summary::{evidence, weight};
    pub use super::units::{bytes, count, duration, percent, share};
}

use crate::{Content, ReportError, Rows};
use page::Page;
use style::Role;
use table::Cell;

/// Rows of one view without `--top`: a screen or two, not a flood.
const ROWS: usize = 40;

/// Lines of a terminal's first screen, with the prompt's.
const SCREEN: usize = 25;
/// Lines that follow the findings there: where to look next, and where the profile is.
const AFTER_FINDINGS: usize = 3;

/// How many rows a table shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(usize);

impl Limit {
    /// The rows that are shown and how many are not.
    pub(crate) fn apply<T>(self, rows: &[T]) -> (&[T], usize) {
        let shown = rows.len().min(self.0);
        (&rows[..shown], rows.len() - shown)
    }
}

/// A share as a cell: striking from a tenth on.
pub(crate) fn share_cell(share: Option<f64>) -> Cell {
    let role = if share.is_some_and(|s| s >= 10.0) { Role::Large } else { Role::Plain };
    Cell::new(role, units::optional_percent(share))
}

/// Writes `content` as text: the header (command, wall time, timing mode, estimated cost of measuring, losses), then
/// the view, or the overview of all views.
///
/// # Errors
/// [`ReportError::Write`] if `out` fails.
pub fn render(content: &Content, style: Style, out: &mut dyn Write) -> Result<(), ReportError> {
    out.write_all(page(content, Page::new(style)).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes `content` as GitHub-flavoured Markdown, with the words and tables of [`render`].
///
/// # Errors
/// [`ReportError::Write`] if `out` fails.
pub fn render_markdown(content: &Content, out: &mut dyn Write) -> Result<(), ReportError> {
    out.write_all(page(content, Page::markdown()).as_bytes())?;
    out.flush()?;
    Ok(())
}

fn page(content: &Content, mut page: Page) -> String {
    let Content { meta, totals, loss, selection, rows, one_screen } = content;
    let seen = match rows {
        Rows::Overview(full) => full.criticality.as_ref(),
        Rows::Criticality(view) => view.as_ref().as_ref(),
        _ => None,
    };
    let brief = *one_screen || matches!(rows, Rows::Cut { .. } | Rows::Reading { .. });
    header::header(&mut page, meta, totals, loss, seen, brief);
    let limit = Limit(selection.top.unwrap_or(ROWS));
    match rows {
        Rows::Overview(full) => overview(&mut page, full, selection),
        Rows::Summary(rows) if *one_screen => {
            summary::summary(&mut page, rows, SCREEN - AFTER_FINDINGS);
            page.line(&[(Role::Plain, "")]);
        }
        Rows::Summary(rows) => summary::summary(&mut page, rows, usize::MAX),
        Rows::Components(rows) => components::components(&mut page, rows, totals, limit, usize::MAX),
        Rows::Apis(view) => flows::apis(&mut page, view, selection.component.as_deref(), limit),
        Rows::Callers { groups, .. } => flows::callers(&mut page, groups, totals, limit, selection.api.as_deref()),
        Rows::Flows(rows) => flows::flows(&mut page, rows, totals, limit, "--top N, --component NAME, --api NAME"),
        Rows::Threads(view) => {
            threads::groups(&mut page, &view.groups, totals, limit);
            threads::threads(&mut page, &view.threads, limit);
        }
        Rows::Waits(rows) => waits::waits(&mut page, rows, totals, limit),
        Rows::Locks(rows) => locks::locks(&mut page, rows, locks::none(meta), limit),
        Rows::Latency(rows) => latency::latency(&mut page, rows, limit, "--top N, --component NAME, --api NAME"),
        Rows::Criticality(view) => {
            criticality::criticality(&mut page, view.as_ref().as_ref(), criticality::Limits::of_view(selection.top));
        }
        Rows::Walk(view) => walk::walk(&mut page, view.as_ref().as_ref(), walk::Limits::of_view(selection.top)),
        Rows::Features(view) => feature::features(&mut page, view, feature::Limits::of_view(selection.top)),
        Rows::Meta => recording::recording(&mut page, meta),
        Rows::Loss(rows) => loss::loss(&mut page, rows, limit),
        Rows::Cut { view, tree } => cut::cut(&mut page, view, limit, *tree),
        Rows::Reading { view, sources } => cut::reading(&mut page, view, sources, limit),
    }
    page.into_text()
}

/// The first report of a profile: findings first, then the head of each table, then where to look next.
fn overview(page: &mut Page, full: &FullReport, selection: &Selection) {
    let few = |n: usize| Limit(selection.top.unwrap_or(n));
    summary::summary(page, &full.summary, SCREEN);
    if header::has_flows(&full.meta) {
        components::components(page, &full.components, &full.totals, few(6), 2);
        flows::flows(page, &full.flows, &full.totals, few(8), "--view flows");
    }
    if full.threads.len() > 1 {
        threads::groups(page, &full.groups, &full.totals, few(5));
    }
    if !full.waits.is_empty() {
        waits::waits(page, &full.waits, &full.totals, few(4));
    }
    if !full.locks.is_empty() {
        locks::locks(page, &full.locks, "", few(3));
    }
    if full.meta.latency.is_some() {
        let rows = if header::has_flows(&full.meta) { 12 } else { ROWS };
        latency::latency(page, &full.latency, few(rows), "--view latency --top N");
    }
    if let Some(view) = &full.criticality {
        let limits = match header::has_flows(&full.meta) {
            true => criticality::Limits::of_overview(selection.top),
            false => criticality::Limits::of_view(selection.top),
        };
        criticality::criticality(page, Some(view), limits);
    }
    if let Some(view) = &full.walk {
        let limits = match header::has_flows(&full.meta) {
            true => walk::Limits::of_overview(selection.top),
            false => walk::Limits::of_view(selection.top),
        };
        walk::walk(page, Some(view), limits);
    }
    if full.features.session.is_some() {
        let limits = match header::has_flows(&full.meta) {
            true => feature::Limits::of_overview(selection.top),
            false => feature::Limits::of_view(selection.top),
        };
        feature::features(page, &full.features, limits);
    }
    page.section("More", "");
    let (flows, latency) = (header::has_flows(&full.meta), full.meta.latency.is_some());
    let has_rows = |view: &View| match view {
        View::Latency => latency,
        View::Criticality => full.criticality.is_some(),
        View::Walk => full.walk.is_some(),
        View::Features => full.features.session.is_some(),
        View::Summary | View::Meta | View::Loss => true,
        _ => flows,
    };
    let views = View::ALL.into_iter().filter(has_rows).map(View::as_str).collect::<Vec<_>>().join("|");
    page.wrapped(2, Role::Plain, &format!("--view {views}"));
    if full.criticality.is_some() {
        page.wrapped(
            2,
            Role::Plain,
            "--by thread-group,function,wait: a sum by any dimensions; --measure, --where, --from, --to",
        );
    }
    let page_hint = "--html FILE: all of it as one page";
    let who = if flows { "--component NAME, --api NAME: who calls what; " } else { "" };
    page.wrapped(2, Role::Plain, &format!("{who}{page_hint}"));
}
