//! One self-contained page: findings, component graph, flow table, drill-down, threads, waits, locks and losses.
//!
//! The page carries the same JSON object that `--format json` prints (`id="report-data"`), and one script that builds
//! everything else from it. Nothing is loaded from anywhere: a content security policy allows this script and this
//! style by their hashes and no connection, image, frame or form. Strings of the profile, which the profiled program
//! chose, cannot leave the JSON (`html/embed.rs`) and reach the document as text nodes only.
//!
//! Script and style are bundled from `crates/report/web/`, see the README there; the bundle is committed, so building
//! needs no Node.js.

use std::io::Write;

use serde::Serialize;
use transect_analyze::{
    CriticalityView, FeatureApiRow, FeatureComponentRow, FullReport, LatencyHeatMap, LostVariable, RegionTimeline,
    RegionTree, Selection, WalkTree,
};
use transect_profile_model::Profile;

use crate::ReportError;
use crate::timeline::{Timeline, timeline};

mod cut;
mod embed;
mod policy;

pub use cut::{PackedCut, PackedCutList};

const SCRIPT: &str = include_str!("../web/dist/report.js");
const STYLE: &str = include_str!("../web/dist/page.css");

/// What the page carries: the views, and the pictures of latency over time that only the page shows.
#[derive(Debug, Clone, Serialize)]
pub struct PageReport {
    /// Every view.
    #[serde(flatten)]
    pub report: FullReport,
    /// From the start to the end of what was recorded, as the terminal's header says it, ns.
    pub wall_ns: i64,
    /// One picture per row of the latency view.
    pub latency_heat_map: LatencyHeatMap,
    /// Critical paths that the page leaves out: the least critical.
    pub paths_left_out: usize,
    /// The same of rows of the scheduler's waits.
    pub waits_left_out: usize,
    /// Threads over time; `None` without slices.
    pub timeline: Option<Timeline>,
    /// What the page makes cuts from; `None` without samples and waits.
    pub cut: Option<PackedCut>,
    /// The joined call tree of a walk; without nodes if there was none.
    pub walk_tree: WalkTree,
    /// Region stacks of all threads joined; without nodes if no features were recorded.
    pub region_tree: RegionTree,
    /// When regions ran.
    pub region_timeline: RegionTimeline,
    /// APIs that features call.
    pub feature_apis: Vec<FeatureApiRow>,
    /// Components in which features spend their time.
    pub feature_components: Vec<FeatureComponentRow>,
    /// Variables of the model that were not found.
    pub feature_lost: Vec<LostVariable>,
    /// Features of the model on which no code depends.
    pub features_without_regions: Vec<String>,
}

impl PageReport {
    /// Everything about a profile.
    pub fn new(profile: &Profile) -> Self {
        let everything = Selection::default();
        let mut report = transect_analyze::full_report(profile, &everything);
        if let Some(walk) = &mut report.walk {
            walk.steps.truncate(MOST_STEPS);
        }
        let (paths_left_out, waits_left_out) = report.criticality.as_mut().map_or((0, 0), shorten);
        let mut feature_apis = std::mem::take(&mut report.features.apis);
        feature_apis.truncate(MOST_FEATURE_APIS);
        Self {
            paths_left_out,
            waits_left_out,
            latency_heat_map: transect_analyze::latency_heat_map(profile, &everything),
            timeline: timeline(profile),
            cut: cut::packed_cut(profile),
            walk_tree: transect_analyze::walk_tree(profile),
            region_tree: transect_analyze::region_tree(profile),
            region_timeline: transect_analyze::region_timeline(profile),
            feature_apis,
            feature_components: std::mem::take(&mut report.features.components),
            feature_lost: std::mem::take(&mut report.features.lost),
            features_without_regions: std::mem::take(&mut report.features.without_regions),
            wall_ns: report.totals.wall_ns,
            report,
        }
    }
}

/// Critical paths of a page: beyond them, frames are too narrow to be drawn.
const MOST_PATHS: usize = 3_000;
/// Steps of a walk's search.
const MOST_STEPS: usize = 2_000;
/// Rows of features and APIs.
const MOST_FEATURE_APIS: usize = 5_000;
/// Waits of a page.
const MOST_WAITS: usize = 2_000;

/// Cuts tables to what a page shows; gives how many paths and waits went.
fn shorten(view: &mut CriticalityView) -> (usize, usize) {
    let left_out = (view.paths.len().saturating_sub(MOST_PATHS), view.waits.len().saturating_sub(MOST_WAITS));
    view.paths.truncate(MOST_PATHS);
    view.waits.truncate(MOST_WAITS);
    for path in &mut view.paths {
        // Neither is shown.
        path.parallelism = Vec::new();
    }
    view.functions = Vec::new();
    view.over_time = Vec::new();
    left_out
}

/// Writes the page for `report`: [`PageReport`], or a value with the same keys.
///
/// A key that is missing shows as an empty table.
///
/// # Errors
/// [`ReportError::Write`] if `out` fails, [`ReportError::Encode`] if `report` does not serialize.
///
/// # Examples
/// ```
/// let report = serde_json::json!({ "meta": { "command": ["xz", "-9"] }, "flows": [] });
/// let mut page = Vec::new();
/// transect_report::html::render(&report, &mut page)?;
/// assert!(page.starts_with(b"<!doctype html>"));
/// # Ok::<(), transect_report::ReportError>(())
/// ```
pub fn render<R: Serialize + ?Sized>(report: &R, out: &mut dyn Write) -> Result<(), ReportError> {
    let policy = policy::content_security_policy(SCRIPT, STYLE);
    // `data:,` keeps browsers from asking a server for an icon.
    write!(
        out,
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"referrer\" content=\"no-referrer\">\n",
            "<link rel=\"icon\" href=\"data:,\">\n<title>Transect</title>\n",
            "<style>{style}</style>\n</head>\n<body>\n",
            "<noscript><p>This page builds its tables with JavaScript, which is switched off here. ",
            "<code>transect report</code> prints the same views in a terminal.</p></noscript>\n",
            "<script type=\"application/json\" id=\"report-data\">"
        ),
        policy = policy,
        style = STYLE,
    )?;
    embed::write_json(report, out)?;
    write!(out, "</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_cannot_end_its_own_element() {
        for text in [SCRIPT, STYLE] {
            let lower = text.to_ascii_lowercase();
            for end in ["</script", "</style", "<!--", "<script"] {
                assert!(!lower.contains(end), "the bundle contains {end}");
            }
        }
    }

    #[test]
    fn failing_output_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = render(&serde_json::json!({}), &mut Full).unwrap_err();
        assert!(matches!(error, ReportError::Write(_)), "{error}");
    }
}
