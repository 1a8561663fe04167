//! Pure functions from a [`Profile`](transect_profile_model::Profile) to the rows of its views.
//!
//! One function per view: [`summary`], [`components`], [`flows`] (also [`apis`] and [`callers`]), [`threads`],
//! [`waits`], [`locks`], [`latency`], [`criticality`], [`walk()`], [`features()`], [`loss`]; [`full_report`] is all of them at once. [`cut()`] is one sum by any dimensions. Row types serialize with exactly the JSON
//! keys that the views promise, in a stable order. Nothing here reads files, clocks or `/proc`, and nothing prints.
//!
//! Times are nanoseconds. *Attributed* time is an instant divided by the number of threads that were active at it
//! (Scaler, ASE '24, section 3.4), so that a phase run by eight threads weighs as much as the wall time it took.
#![forbid(unsafe_code)]

mod adding_up;
mod call_time;
mod component;
mod criticality;
mod cut;
mod escape;
mod feature;
pub(crate) mod finding;
mod flow;
mod full_report;
mod latency;
mod lock;
mod loss;
mod matching;
mod names;
mod prepared;
mod quantile;
mod selection;
mod sharing;
mod thread;
mod totals;
mod unmatched;
mod wait;
mod walk;

#[cfg(any(test, feature = "testing"))]
pub mod synthetic;

pub use component::{ComponentRow, NOT_PLACED, OtherRow, components};
pub use criticality::{
    Callee, Contention, CriticalFunctionRow, CriticalGroupRow, CriticalPathRow, CriticalThreadRow, CriticalWaitRow,
    CriticalityView, HolderShare, LineRow, NodeKind, OtherThreadRow, OverTimeRow, ParallelismRow, PathState, Pinned,
    PlaceRow, PlaceWait, WaitEdge, WaitGraph, WaitNode, WhatIfRow, WhatIfScope, criticality,
};
pub use cut::{
    AddressTimes, AnnotateView, CallNode, CallTree, CutColumns, CutDimension, CutDimensions, CutError, CutFilter,
    CutFrame, CutKey, CutList, CutMeasure, CutPart, CutParts, CutQuery, CutReading, CutRow, CutScope, CutView,
    CutViewKind, Disassembly, ExactDuration, FilterError, FunctionAddress, FunctionAddresses, HotRow, HotView,
    InstructionTimes, LineTimes, MOST_CUT_PARTS, StateTimes, SystemCallRow, ThreadLane, TimelineView, cut, cut_columns,
    function_addresses, measures, parse_duration, term_of_key, view as cut_view,
};
pub use escape::{escape, is_hazard, is_named};
pub use feature::{
    FeatureApiRow, FeatureComponentRow, FeatureRow, FeaturesView, LostVariable, RegionRow, RegionStrip, RegionTimeline,
    RegionTree, StripCell, TimelineThread, features, keep_dependence, region_timeline, region_tree,
};
pub use finding::{Confidence, FindingKind, FindingRow, Place, summary};
pub use flow::{ApiGroup, ApisView, FlowRow, apis, callers, flows};
pub use full_report::{FullReport, full_report};
pub use latency::{HeatMapFunction, LatencyHeatMap, LatencyRow, latency, latency_heat_map, metric as latency_metric};
pub use lock::{LockRow, locks};
pub use loss::{LossRow, loss};
pub use names::Names;
pub use selection::{Dimensions, Selection, SelectionError, SortKey, View};
pub use thread::{GroupRow, ThreadRow, ThreadsView, threads};
pub use totals::{Totals, totals};
pub use unmatched::{Unmatched, unmatched};
pub use wait::{WaitRow, waits};
pub use walk::{
    WalkChainRow, WalkContinuation, WalkContinuedFrame, WalkFrameRow, WalkGroupRow, WalkStepRow, WalkSystemCallRow,
    WalkTree, WalkView, walk, walk_tree,
};
