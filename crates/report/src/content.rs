//! What is rendered: the rows of one view, or of all, with the facts that stand above them.

use transect_analyze::{
    ApiGroup, ApisView, ComponentRow, CriticalityView, CutReading, CutView, FeaturesView, FindingRow, FlowRow,
    FullReport, LatencyRow, LockRow, LossRow, Selection, ThreadsView, Totals, View, WaitRow, WalkView,
};
use transect_profile_model::{Meta, Profile};

use crate::Sources;

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
    /// As much as a terminal shows at once: the header and the weightiest findings.
    pub one_screen: bool,
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
    /// Who calls an API.
    Callers {
        /// By API, for people; as many APIs as are asked for.
        groups: Vec<ApiGroup>,
        /// By flow, for programs; as many flows as are asked for.
        rows: Vec<FlowRow>,
    },
    /// Flows.
    Flows(Vec<FlowRow>),
    /// Threads and groups.
    Threads(ThreadsView),
    /// Waits.
    Waits(Vec<WaitRow>),
    /// Locks.
    Locks(Vec<LockRow>),
    /// Latencies of functions.
    Latency(Vec<LatencyRow>),
    /// Which code runs while the others wait; `None` if the profile does not know.
    Criticality(Box<Option<CriticalityView>>),
    /// Chains from `main` down to where the time is; `None` if the profile holds no walk.
    Walk(Box<Option<WalkView>>),
    /// Time per feature and region.
    Features(Box<FeaturesView>),
    /// [`Content::meta`].
    Meta,
    /// Losses.
    Loss(Vec<LossRow>),
    /// A sum by any dimensions.
    Cut {
        /// Its rows.
        view: Box<CutView>,
        /// As a tree, for people.
        tree: bool,
    },
    /// A view that is read from cuts.
    Reading {
        /// The view.
        view: Box<CutReading>,
        /// Source files that it shows lines of.
        sources: Sources,
    },
}

impl Content {
    /// Computes what `selection` asks for.
    pub fn new(profile: &Profile, selection: &Selection) -> Self {
        Self {
            meta: profile.meta.clone(),
            totals: transect_analyze::totals(profile),
            loss: transect_analyze::loss(profile),
            selection: selection.clone(),
            rows: Rows::new(profile, selection),
            one_screen: false,
        }
    }

    /// A cut, or a view read from one, that was made already.
    pub fn of_cut(profile: &Profile, rows: Rows, top: Option<usize>) -> Self {
        Self {
            meta: profile.meta.clone(),
            totals: transect_analyze::totals(profile),
            loss: transect_analyze::loss(profile),
            selection: Selection { top, ..Selection::default() },
            rows,
            one_screen: false,
        }
    }

    /// What stands at the end of a run: the findings, cut to one screen of a terminal.
    pub fn first_screen(profile: &Profile, selection: &Selection) -> Self {
        let selection = Selection { view: Some(View::Summary), ..selection.clone() };
        Self { one_screen: true, ..Self::new(profile, &selection) }
    }
}

impl Rows {
    fn new(profile: &Profile, selection: &Selection) -> Self {
        match selection.view {
            None => Self::Overview(Box::new(transect_analyze::full_report(profile, selection))),
            Some(View::Summary) => Self::Summary(transect_analyze::summary(profile)),
            Some(View::Components) => Self::Components(transect_analyze::components(profile, selection)),
            Some(View::Apis) => Self::Apis(transect_analyze::apis(profile, selection)),
            Some(View::Callers) => Self::Callers {
                groups: transect_analyze::apis(profile, selection).incoming,
                rows: transect_analyze::callers(profile, selection),
            },
            Some(View::Flows) => Self::Flows(transect_analyze::flows(profile, selection)),
            Some(View::Threads) => Self::Threads(transect_analyze::threads(profile, selection)),
            Some(View::Waits) => Self::Waits(transect_analyze::waits(profile, selection)),
            Some(View::Locks) => Self::Locks(transect_analyze::locks(profile, selection)),
            Some(View::Latency) => Self::Latency(transect_analyze::latency(profile, selection)),
            Some(View::Criticality) => Self::Criticality(Box::new(transect_analyze::criticality(profile, selection))),
            Some(View::Walk) => Self::Walk(Box::new(transect_analyze::walk(profile, selection))),
            Some(View::Features) => Self::Features(Box::new(transect_analyze::features(profile, selection))),
            Some(View::Meta) => Self::Meta,
            Some(View::Loss) => Self::Loss(transect_analyze::loss(profile)),
        }
    }

    /// The view that the rows belong to; `None` for the overview and for a cut.
    pub fn view(&self) -> Option<View> {
        Some(match self {
            Self::Overview(_) | Self::Cut { .. } | Self::Reading { .. } => return None,
            Self::Summary(_) => View::Summary,
            Self::Components(_) => View::Components,
            Self::Apis(_) => View::Apis,
            Self::Callers { .. } => View::Callers,
            Self::Flows(_) => View::Flows,
            Self::Threads(_) => View::Threads,
            Self::Waits(_) => View::Waits,
            Self::Locks(_) => View::Locks,
            Self::Latency(_) => View::Latency,
            Self::Criticality(_) => View::Criticality,
            Self::Walk(_) => View::Walk,
            Self::Features(_) => View::Features,
            Self::Meta => View::Meta,
            Self::Loss(_) => View::Loss,
        })
    }
}
