//! What a cut can be made by, and what it sums up.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::{Dimensions, SelectionError};

/// What rows of a cut are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CutDimension {
    /// The service that ran; no recording knows it yet.
    Service,
    /// Its version; no recording knows it yet.
    Version,
    /// The machine.
    Host,
    /// The recording, by its start.
    Run,
    /// The process.
    Process,
    /// The thread.
    Thread,
    /// Threads of one kind.
    ThreadGroup,
    /// The set of active features.
    Feature,
    /// The component whose code runs.
    Component,
    /// The innermost call between components on the stack.
    Api,
    /// The component that made that call.
    Caller,
    /// The innermost function of the program.
    Function,
    /// Its source line.
    Line,
    /// The innermost function of the kernel.
    KernelFunction,
    /// The system call that the thread is in.
    SystemCall,
    /// Running, runnable or blocked.
    State,
    /// The kind of what is waited for.
    Wait,
    /// What is waited for.
    Object,
    /// The thread that held it.
    Holder,
    /// The thread that ended the wait.
    Waker,
    /// All functions of the stack, root first.
    Stack,
    /// Time, in steps of so many nanoseconds.
    Time(i64),
}

impl CutDimension {
    /// Every dimension that has no argument, with its word.
    pub const ALL: [(Self, &str); 21] = [
        (Self::Service, "service"),
        (Self::Version, "version"),
        (Self::Host, "host"),
        (Self::Run, "run"),
        (Self::Process, "process"),
        (Self::Thread, "thread"),
        (Self::ThreadGroup, "thread-group"),
        (Self::Feature, "feature"),
        (Self::Component, "component"),
        (Self::Api, "api"),
        (Self::Caller, "caller"),
        (Self::Function, "function"),
        (Self::Line, "line"),
        (Self::KernelFunction, "kernel-function"),
        (Self::SystemCall, "system-call"),
        (Self::State, "state"),
        (Self::Wait, "wait"),
        (Self::Object, "object"),
        (Self::Holder, "holder"),
        (Self::Waker, "waker"),
        (Self::Stack, "stack"),
    ];

    /// The word, without a step of time.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(dimension, _)| *dimension == self).map_or("time", |(_, word)| word)
    }

    /// Known exactly of every thread, so that sums by it have no sampling error.
    pub(super) fn is_margin(self) -> bool {
        matches!(
            self,
            Self::Service
                | Self::Version
                | Self::Host
                | Self::Run
                | Self::Process
                | Self::Thread
                | Self::ThreadGroup
                | Self::State
        )
    }

    /// Known of each wait by itself.
    pub(super) fn is_of_waits(self) -> bool {
        matches!(self, Self::Wait | Self::Object | Self::Holder | Self::Waker)
    }

    /// Calls between components are counted by it.
    pub fn is_of_calls(self) -> bool {
        self.is_margin() && self != Self::State
            || matches!(self, Self::Feature | Self::Component | Self::Api | Self::Caller)
    }

    /// The words that a user can choose among.
    pub(super) fn choices() -> String {
        let words: Vec<&str> = Self::ALL.iter().map(|(_, word)| *word).collect();
        format!("{}, time/DURATION", words.join(", "))
    }
}

impl fmt::Display for CutDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(step) => write!(f, "time/{}", ExactDuration(*step)),
            other => f.write_str(other.word()),
        }
    }
}

impl Serialize for CutDimension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for CutDimension {
    type Err = SelectionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if let Some((dimension, _)) = Self::ALL.iter().find(|(_, known)| *known == word) {
            return Ok(*dimension);
        }
        let step = word.strip_prefix("time/").and_then(parse_duration).filter(|step| *step > 0);
        step.map(Self::Time).ok_or_else(|| match word.starts_with("time") {
            true => SelectionError {
                what: "step of time",
                word: word.to_owned(),
                choices: "time/100ms, time/1s, …".to_owned(),
            },
            false => SelectionError { what: "dimension", word: word.to_owned(), choices: Self::choices() },
        })
    }
}

/// Dimensions in the order in which rows are nested.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutDimensions(pub Vec<CutDimension>);

impl CutDimensions {
    /// How views split flows by them.
    ///
    /// # Errors
    /// The first by which they cannot.
    pub fn of_views(&self) -> Result<Dimensions, CutDimension> {
        let mut dimensions = Dimensions::default();
        for dimension in &self.0 {
            match dimension {
                CutDimension::Thread => dimensions.thread = true,
                CutDimension::Process => dimensions.process = true,
                CutDimension::Feature => dimensions.feature = true,
                other => return Err(*other),
            }
        }
        Ok(dimensions)
    }
}

impl FromStr for CutDimensions {
    type Err = SelectionError;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        let mut dimensions = Vec::new();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let dimension = word.parse()?;
            let is_time = |dimension: &CutDimension| matches!(dimension, CutDimension::Time(_));
            if is_time(&dimension) && dimensions.iter().any(is_time) {
                let choices = "one step of time".to_owned();
                return Err(SelectionError { what: "second dimension of time", word: word.to_owned(), choices });
            }
            if !dimensions.contains(&dimension) {
                dimensions.push(dimension);
            }
        }
        // An empty list would be the sum of all, in a row without a name.
        if dimensions.is_empty() {
            return Err(SelectionError { what: "dimension", word: String::new(), choices: CutDimension::choices() });
        }
        Ok(Self(dimensions))
    }
}

/// What a cut sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutMeasure {
    /// Lifetime of threads, ns.
    #[default]
    Time,
    /// Time on a CPU, ns.
    OnCpu,
    /// Time without a CPU although there was something to do, ns.
    Runnable,
    /// Time blocked, ns.
    Blocked,
    /// Time divided among the threads that are active at each instant; while none is, it goes to the wait that ends it. ns.
    Critical,
    /// Samples of the timer.
    Samples,
    /// Calls between components.
    Calls,
    /// Bytes that they moved.
    Bytes,
}

impl CutMeasure {
    /// Every measure.
    pub const ALL: [Self; 8] = [
        Self::Time,
        Self::OnCpu,
        Self::Runnable,
        Self::Blocked,
        Self::Critical,
        Self::Samples,
        Self::Calls,
        Self::Bytes,
    ];

    /// The word given to `--measure`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::OnCpu => "on-cpu",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
            Self::Critical => "critical",
            Self::Samples => "samples",
            Self::Calls => "calls",
            Self::Bytes => "bytes",
        }
    }

    /// `ns`, `count` or `bytes`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Samples | Self::Calls => "count",
            Self::Bytes => "bytes",
            _ => "ns",
        }
    }
}

impl FromStr for CutMeasure {
    type Err = SelectionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        crate::selection::parse_word("measure", &Self::ALL, Self::as_str, word)
    }
}

/// Nanoseconds of `2s`, `100ms`, `1.5s`, `10us`; `None` where it is no duration.
pub fn parse_duration(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * scale;
    (ns.is_finite() && ns < 9e18).then(|| ns.round() as i64)
}

/// A duration in nanoseconds as [`parse_duration`] reads it, in its largest whole unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactDuration(pub i64);

impl fmt::Display for ExactDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        let (scale, unit) = units.into_iter().find(|(scale, _)| self.0 % scale == 0).unwrap_or((1, "ns"));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for (dimension, word) in CutDimension::ALL {
            assert_eq!(word.parse(), Ok(dimension));
            assert_eq!(dimension.to_string(), word);
        }
        for measure in CutMeasure::ALL {
            assert_eq!(measure.as_str().parse(), Ok(measure));
        }
        let step = |word: &str| word.parse::<CutDimension>().map(|dimension| dimension.to_string());
        assert_eq!(step("time/100ms").as_deref(), Ok("time/100ms"));
        assert_eq!(step("time/1.5s").as_deref(), Ok("time/1500ms"));
        for wrong in ["time", "time/", "time/0s", "time/5", "threads", ""] {
            assert!(wrong.parse::<CutDimension>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_keep_their_order_and_name_each_once() {
        let list: CutDimensions = "api, function,api".parse().unwrap();
        assert_eq!(list.0, [CutDimension::Api, CutDimension::Function]);
        assert!("time/1s,time/2s".parse::<CutDimensions>().is_err());
        for nothing in ["", ",,", " , "] {
            let error = nothing.parse::<CutDimensions>().unwrap_err().to_string();
            assert!(error.contains("no dimension: use") && error.contains("thread-group, "), "{error}");
        }
    }
}
