use serde::{Deserialize, Serialize};

/// What the times are times of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Thread time under each set of features, each explained by its own features.
    Regions,
    /// Wall time of the whole run.
    Wall,
}

impl Method {
    /// What is explained, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Regions => "thread time, by regions",
            Self::Wall => "wall time of the whole run",
        }
    }
}

/// How a feature stands in a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Selected: 1, else 0.
    On,
    /// Its value, from 0 at the smallest to 1 at the largest that was run.
    Linear,
    /// The logarithm of its value, scaled in the same way.
    Log,
    /// The square of the linear form.
    Square,
}

impl Form {
    /// The word for it in output; nothing for features that are on or off.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Linear => "linear",
            Self::Log => "log",
            Self::Square => "square",
        }
    }
}

/// What a feature, or several together beyond what each costs alone, add to the run time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The features; none: the program without options, numeric features at their smallest value.
    pub features: Vec<String>,
    /// How each feature stands in it.
    pub forms: Vec<Form>,
    /// Time added while all are selected; for a numeric feature from its smallest to its largest value. Negative: time
    /// saved. ns.
    pub ns: i64,
    /// Bounds of it (95 %), the choice of terms included; `None` if unknown.
    pub low: Option<i64>,
    /// See `low`.
    pub high: Option<i64>,
}

impl Term {
    /// Whether the interval excludes 0.
    pub fn is_significant(&self) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > 0 || high < 0)
    }

    /// `base`, `A`, `A & level (log)`.
    pub fn label(&self) -> String {
        if self.features.is_empty() {
            return "(base)".to_owned();
        }
        let part = |(feature, form): (&String, &Form)| match form {
            Form::On => feature.clone(),
            form => format!("{feature} ({})", form.as_str()),
        };
        self.features.iter().zip(&self.forms).map(part).collect::<Vec<_>>().join(" & ")
    }
}

/// The terms of the time under one set of features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetInfluence {
    /// The active set.
    pub features: Vec<String>,
    /// Mean time over all runs, ns.
    pub mean_ns: i64,
    /// Its terms; their intervals are in the sums only.
    pub terms: Vec<Term>,
}

/// A configuration that was run and predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Its options.
    pub options: String,
    /// Mean of its runs, ns.
    pub measured_ns: i64,
    /// What the terms say, ns.
    pub predicted_ns: i64,
}

/// A configuration that can't be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedConfiguration {
    /// Its options.
    pub options: String,
    /// What happened.
    pub reason: String,
}

/// What options cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Influence {
    /// Name of the model.
    pub model: String,
    /// Hash of the model.
    pub model_hash: String,
    /// The command with its place for options.
    pub command: Vec<String>,
    /// What was explained.
    pub method: Method,
    /// Configurations that the terms come from.
    pub configurations: usize,
    /// Those are all that the model allows.
    pub complete: bool,
    /// Runs, of held-out configurations as well.
    pub runs: usize,
    /// Configurations left out because a run failed.
    pub failed: Vec<FailedConfiguration>,
    /// Runs left out because they took far longer or shorter than the others of their configuration.
    #[serde(default)]
    pub outliers: usize,
    /// Terms, base first, then by size.
    pub terms: Vec<Term>,
    /// Groups of terms (their labels) of which one is real, and the configurations can't tell which.
    #[serde(default)]
    pub confounded: Vec<Vec<String>>,
    /// Combinations of features whose term the configurations can't tell apart from others.
    pub undetermined: Vec<Vec<String>>,
    /// With `regions`: the parts.
    pub sets: Vec<SetInfluence>,
    /// Share of the differences between configurations that the terms explain, 0 to 1.
    pub explained: Option<f64>,
    /// Mean absolute error of predictions, percent of the measured time; `None` if nothing could be predicted.
    pub error: Option<f64>,
    /// Where the error is from: `held-out` configurations, or `cross-validation` of the others.
    pub error_from: Option<String>,
    /// Predicted configurations.
    pub held_out: Vec<HeldOut>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Error of predictions, percent, above which terms say nothing.
const LARGEST_ERROR: f64 = 30.0;
/// Lines on what can't be told apart, at most.
const SHOWN_LINES: usize = 5;

impl Influence {
    /// Whether configurations are predicted well enough for the terms to be shown.
    pub fn is_reliable(&self) -> bool {
        self.error.is_none_or(|error| error <= LARGEST_ERROR)
    }

    /// How far predictions are off.
    pub(crate) fn error_line(&self) -> Option<String> {
        let from = match self.error_from.as_deref() {
            Some("cross-validation") => "each configuration predicted from others",
            _ => "configurations that the terms do not come from",
        };
        self.error.map(|error| format!("error of predictions: {error:.1} % ({from})"))
    }

    /// Why no terms are shown.
    pub(crate) fn unreliable_line(&self) -> String {
        format!(
            "no terms are shown, as predictions are off by more than {LARGEST_ERROR:.0} %: run more configurations \
             (--configurations), repeat more often (--repeat), or vary fewer options (--feature)"
        )
    }

    /// What the configurations do not tell.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let one = |group: &Vec<String>| format!("confounded, one of these is real: {}", group.join("; "));
        let mut lines: Vec<String> = self.confounded.iter().take(SHOWN_LINES).map(one).collect();
        let other = |features: &Vec<String>| format!("not told apart from other terms: {}", features.join(" & "));
        lines.extend(self.undetermined.iter().take(SHOWN_LINES).map(other));
        let all = self.confounded.len().min(SHOWN_LINES) + self.undetermined.len().min(SHOWN_LINES);
        let hidden = self.confounded.len() + self.undetermined.len() - all;
        if hidden > 0 {
            lines.push(format!("and {hidden} more that can't be told apart (--format json has all)"));
        }
        lines
    }
}
