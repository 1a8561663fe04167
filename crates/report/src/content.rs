//! What is rendered: the rows of one view, or of all, with the facts that stand above them.

use transect_analyze::{
    ApiGroup, ApisView, ComponentRow, FindingRow, FlowRow, FullReport, LockRow, LossRow, Selection, ThreadsView,
    Totals, View, WaitRow,
};
use transect_profile_model::Meta;

/// A view that is ready to be rendered as text, JSON or CSV.
#[derive(Debug, Clone)]
pub struct Content {
    /// Facts about the recording.
    pub meta: Meta,
    /// Denominators of the percentages.
    pub totals: Totals,
    /// All losses of the profile, whatever is selected: they belong to the header.
    pub loss: Vec<LossRow>,
    /// What was asked for; the rows are selected already.
    pub selection: Selection,
    /// The rows.
    pub rows: Rows,
}

/// Rows of a view.
#[derive(Debug, Clone)]
pub enum Rows {
    /// All views.
    Overview(Box<FullReport>),
    /// Findings.
    Summary(Vec<FindingRow>),
    /// Components.
    Components(Vec<ComponentRow>),
    /// APIs of a component, both directions.
    Apis(ApisView),
    /// APIs with their callers.
    Callers(Vec<ApiGroup>),
    /// Flows.
    Flows(Vec<FlowRow>),
    /// Threads and groups.
    Threads(ThreadsView),
    /// Waits.
    Waits(Vec<WaitRow>),
    /// Locks.
    Locks(Vec<LockRow>),
    /// [`Content::meta`].
    Meta,
    /// Losses.
    Loss(Vec<LossRow>),
}

impl Rows {
    /// The view that the rows belong to; `None` for the overview.
    pub fn view(&self) -> Option<View> {
        Some(match self {
            Self::Overview(_) => return None,
            Self::Summary(_) => View::Summary,
            Self::Components(_) => View::Components,
            Self::Apis(_) => View::Apis,
            Self::Callers(_) => View::Callers,
            Self::Flows(_) => View::Flows,
            Self::Threads(_) => View::Threads,
            Self::Waits(_) => View::Waits,
            Self::Locks(_) => View::Locks,
            Self::Meta => View::Meta,
            Self::Loss(_) => View::Loss,
        })
    }
}
