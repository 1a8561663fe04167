//! What the screens ask of a profile: the cuts and views that reports are made of.

use transect_analyze::{
    AnnotateView, CallTree, CutKey, CutQuery, CutReading, CutView, CutViewKind, FindingRow, TimelineView, cut,
    cut_view, summary,
};
use transect_profile_model::Profile;
use transect_report::Sources;

/// What is to be computed.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Findings.
    Findings,
    /// The first of these cuts that tells something: it has a row with a key; else the first that has rows.
    Cut(Vec<CutQuery>),
    /// The tree of calls.
    Tree(CutQuery),
    /// Threads over time.
    Timeline(CutQuery),
    /// Lines of a function.
    Source(CutQuery, String),
}

impl Request {
    /// Whether the answer depends on when things happened.
    pub fn needs_timeline(&self) -> bool {
        match self {
            Self::Findings => false,
            Self::Cut(queries) => queries.iter().any(CutQuery::needs_timeline),
            Self::Tree(query) | Self::Source(query, _) => query.needs_timeline(),
            Self::Timeline(_) => true,
        }
    }

    /// What is being done, for who waits.
    pub fn words(&self) -> String {
        match self {
            Self::Findings => "computing findings".to_owned(),
            Self::Cut(queries) => {
                let by = queries.iter().flat_map(|query| &query.by).next().map(ToString::to_string);
                format!("summing up by {}", by.unwrap_or_default())
            }
            Self::Tree(_) => "building the tree of calls".to_owned(),
            Self::Timeline(_) => "laying threads over time".to_owned(),
            Self::Source(..) => "summing up by source line".to_owned(),
        }
    }
}

/// The answer to a [`Request`].
#[derive(Debug, Clone)]
pub enum Reply {
    /// Weightiest first.
    Findings(Vec<FindingRow>),
    /// A cut, and the number of its query among those of the request.
    Cut(usize, CutView),
    /// See [`Request::Tree`].
    Tree(CallTree),
    /// See [`Request::Timeline`].
    Timeline(TimelineView),
    /// Lines, and the source files that were found.
    Source(Box<AnnotateView>, Sources),
}

/// Computes the answer; `sources` reads the files that a view shows lines of.
///
/// # Errors
/// Why the profile cannot give it, in words.
pub fn answer(profile: &Profile, request: &Request, sources: &dyn Fn(&CutReading) -> Sources) -> Result<Reply, String> {
    let of_view = |kind: CutViewKind, query: &CutQuery, function: Option<&str>| {
        cut_view(profile, kind, query, function).map_err(|error| error.to_string())
    };
    match request {
        Request::Findings => Ok(Reply::Findings(summary(profile))),
        Request::Cut(queries) => first_cut(profile, queries),
        Request::Tree(query) => match of_view(CutViewKind::Tree, query, None)? {
            CutReading::Tree(view) => Ok(Reply::Tree(view)),
            _ => Err(OTHER_VIEW.to_owned()),
        },
        Request::Timeline(query) => match of_view(CutViewKind::Timeline, query, None)? {
            CutReading::Timeline(view) => Ok(Reply::Timeline(view)),
            _ => Err(OTHER_VIEW.to_owned()),
        },
        Request::Source(query, function) => {
            let view = of_view(CutViewKind::Annotate, query, Some(function))?;
            let sources = sources(&view);
            match view {
                CutReading::Annotate(view) => Ok(Reply::Source(Box::new(view), sources)),
                _ => Err(OTHER_VIEW.to_owned()),
            }
        }
    }
}

/// A view is of the kind that was asked for.
const OTHER_VIEW: &str = "the view is of another kind";

fn first_cut(profile: &Profile, queries: &[CutQuery]) -> Result<Reply, String> {
    let tells = |view: &CutView| view.rows.iter().any(|row| row.keys.iter().any(|key| *key != CutKey::None));
    let has_rows = |reply: &Result<Reply, String>| matches!(reply, Ok(Reply::Cut(_, view)) if !view.rows.is_empty());
    let mut best = Err("nothing was asked for".to_owned());
    for (number, query) in queries.iter().enumerate() {
        match cut(profile, query) {
            Ok(view) if tells(&view) => return Ok(Reply::Cut(number, view)),
            Ok(view) if !has_rows(&best) && (best.is_err() || !view.rows.is_empty()) => {
                best = Ok(Reply::Cut(number, view))
            }
            Err(error) if number == 0 => best = Err(error.to_string()),
            _ => {}
        }
    }
    best
}
