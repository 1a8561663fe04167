use serde::{Deserialize, Serialize};

use crate::{ComponentId, ThreadId};

/// Row number in [`FeatureTables::features`].
pub type FeatureId = u32;
/// Row number in [`FeatureTables::regions`].
pub type RegionId = u32;
/// Row number in [`FeatureTables::nodes`].
pub type RegionNodeId = u32;

/// Time per feature: the tables of the feature collector (J. Kaufmann, "An Evaluation of Different Measurement
/// Approaches for Feature Performance Analysis", 2022); empty without one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeatureTables {
    /// Features of the model that the program was built with.
    pub features: Vec<Feature>,
    /// Regions of code that run because of them, in all components; those that could not be marked as well.
    pub regions: Vec<FeatureRegion>,
    /// The tree of nested regions of each thread; a node comes after its parent.
    pub nodes: Vec<RegionNode>,
    /// When they ran, in order of start; bounded, what did not fit is in the profile's loss.
    pub slices: Vec<RegionSlice>,
    /// Contexts of flows: a flow with context `k + 1` was called in `contexts[k]`.
    pub contexts: Vec<RegionContext>,
    /// What became of the model's variables.
    pub variables: Vec<FeatureVariable>,
}

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Name in the model.
    pub name: String,
}

/// What decides whether a region runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionKind {
    /// A conditional branch.
    Branch,
    /// A switch.
    Switch,
    /// A loop whose end depends on a feature.
    Loop,
    /// A call through a pointer that a feature chose.
    Call,
}

impl RegionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Branch, Self::Switch, Self::Loop, Self::Call];

    /// The word for it in the binary, in tables and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Switch => "switch",
            Self::Loop => "loop",
            Self::Call => "call",
        }
    }

    /// Inverse of [`RegionKind::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// How a decision depends on a feature, the strongest first: by the shortest way on which the feature's value reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dependence {
    /// The option itself, or a copy of it, is compared.
    Direct,
    /// What is compared was computed from it.
    Computed,
    /// What is compared is a constant that was stored under a branch that depends on it.
    #[default]
    Stored,
    /// What is compared was read from data (elements of arrays, text) that the option's value went into.
    Content,
}

impl Dependence {
    /// All of them, the strongest first; the numbers of the binary are places here.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Computed, Self::Stored, Self::Content];

    /// The word for it in options, tables and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Computed => "computed",
            Self::Stored => "stored",
            Self::Content => "content",
        }
    }

    /// Inverse of [`Dependence::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dependence| dependence.as_str() == word)
    }
}

/// What runs say of a pair of region and feature (`transect feature confirm`), in the order of what they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The decision did not run; or labels can't tell: the feature reaches it by constants that branches choose, none of
    /// which was seen, or the program hands values through a library that carries no labels.
    Unseen,
    /// The decision ran, and its condition never carried the feature's label.
    Unconfirmed,
    /// The condition carried the label.
    Confirmed,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unseen, Self::Unconfirmed, Self::Confirmed];

    /// The word for it in tables and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Unconfirmed => "unconfirmed",
            Self::Confirmed => "confirmed",
        }
    }

    /// Inverse of [`Verdict::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word)
    }
}

/// A region: the code under one decision that depends on features.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureRegion {
    /// Object that contains it.
    pub component: ComponentId,
    /// Its number in that object, as in `transect feature regions`.
    pub number: i64,
    /// Features of its decision, ascending.
    pub features: Vec<FeatureId>,
    /// How the decision depends on each of `features`, in their order.
    pub dependences: Vec<Dependence>,
    /// What runs of a build that carries labels say of each of `features`, in their order; `None`: there were none.
    pub verdicts: Vec<Option<Verdict>>,
    /// What decides.
    pub kind: RegionKind,
    /// Function, demangled.
    pub function: String,
    /// Source file as the compiler was told.
    pub file: String,
    /// Line of the decision, 0 if unknown.
    pub line: i64,
    /// Last line of the region, 0 if unknown.
    pub end_line: i64,
    /// Region of the same function that encloses it.
    pub parent: Option<RegionId>,
    /// Sites in the binary: begins and ends, copies by inlining included.
    pub sites: i64,
    /// Why it has no sites: its control flow is irregular.
    pub irregular: Option<String>,
    /// How it was observed; `None`: not at all, as it has no sites or they were not switched on.
    pub method: Option<RegionMethod>,
}

impl FeatureRegion {
    /// The features that its decision depends on so, or more strongly, ascending.
    pub fn features_at(&self, weakest: Dependence) -> impl Iterator<Item = FeatureId> + '_ {
        let uses = self.features.iter().zip(&self.dependences);
        uses.filter(move |(_, dependence)| **dependence <= weakest).map(|(&feature, _)| feature)
    }
}

/// How [`FeatureRegion::irregular`] begins where a site would cost more than the loop that it lies in: samples see the region.
pub const HOT_LOOP: &str = "hot loop";

/// How a number was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionMethod {
    /// Events compiled into the program.
    Trace,
    /// Sites switched on in the running program.
    Probe,
    /// Sites watched from the kernel (uprobes).
    Usdt,
    /// Stack samples, translated.
    Sample,
}

impl RegionMethod {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Trace, Self::Probe, Self::Usdt, Self::Sample];

    /// The word for it in options and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Probe => "probe",
            Self::Usdt => "usdt",
            Self::Sample => "sample",
        }
    }

    /// Inverse of [`RegionMethod::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == word)
    }
}

/// A stack of regions in one thread. Times of all nodes of a thread add up to the thread's lifetime: its root stands for
/// code outside of regions.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionNode {
    /// The stack without its last region; `None` for a thread's root.
    pub parent: Option<RegionNodeId>,
    /// The last region; `None` for a thread's root.
    pub region: Option<RegionId>,
    /// Thread.
    pub thread: ThreadId,
    /// How the numbers were found.
    pub method: RegionMethod,
    /// Times that the region was entered on this stack; `None` if only samples are known.
    pub entries: Option<i64>,
    /// Wall time in which this was the whole stack, ns.
    pub exclusive_ns: i64,
    /// Bounds of `exclusive_ns` (95 %), equal to it where it was traced.
    pub exclusive_ns_low: i64,
    /// See `exclusive_ns_low`.
    pub exclusive_ns_high: i64,
    /// Of `exclusive_ns`: on a CPU; `None` if unknown.
    pub cpu_ns: Option<i64>,
    /// Stack samples, whether or not the times come from them.
    pub samples: i64,
}

/// One stay in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSlice {
    /// The stack.
    pub node: RegionNodeId,
    /// Since the recording's start, ns.
    pub start_ns: i64,
    /// Nested regions included, ns.
    pub duration_ns: i64,
}

/// Regions in which flows were called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RegionContext {
    /// The region stack, outermost first.
    pub regions: Vec<RegionId>,
}

/// What became of a variable of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureVariable {
    /// Object.
    pub component: ComponentId,
    /// Feature.
    pub feature: FeatureId,
    /// As the model names it.
    pub variable: String,
    /// Why it was not found; `None` if it was.
    pub lost: Option<String>,
}

/// Which implicit flow made regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImplicitFlow {
    /// Data flow only.
    None,
    /// Constants stored under a branch that depends on a feature depend on it, too.
    #[default]
    Constant,
    /// Everything stored under such a branch.
    All,
}

impl ImplicitFlow {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::None, Self::Constant, Self::All];

    /// The word for it in `TRANSECT_IMPLICIT`, in the binary and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Constant => "constant",
            Self::All => "all",
        }
    }

    /// Inverse of [`ImplicitFlow::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Facts about a recording of features as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureSession {
    /// How the program was observed.
    pub methods: Vec<RegionMethod>,
    /// Samples a second and thread, 0 without sampling.
    pub sample_hz: i64,
    /// Implicit flow at compile time.
    pub implicit: ImplicitFlow,
    /// Regions were observed whose decision depends on a feature so, or more strongly.
    #[serde(default)]
    pub dependence: Dependence,
    /// Ways of data that the model leaves out, each with its reason: `file:function: reason`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Build hashes of the regions of each component that has some, in hexadecimal.
    pub builds: Vec<String>,
    /// Hash of the feature model at compile time, in hexadecimal.
    pub model: String,
    /// Events recorded.
    pub events: i64,
    /// Events that a full ring refused (policy "count").
    pub dropped: i64,
    /// Times that a thread waited for room in its ring (policy "block").
    pub blocked: i64,
    /// How long, summed over the threads, ns.
    #[serde(default)]
    pub waited_ns: i64,
    /// For so long the program was stopped to switch sites, ns.
    #[serde(default)]
    pub stopped_ns: i64,
    /// Sites switched on.
    pub sites: i64,
    /// Samples taken.
    pub samples: i64,
    /// Samples whose region stack could not be told; they are in the row of no feature.
    pub untranslated: i64,
    /// Cost of one event on this machine, ns, for the estimate of the overhead.
    pub event_ns: f64,
}
