//! The row of one probe.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use transect_probe_plan::{Event, Function, Lines, Plan, ProviderKind};

use crate::probe_session::{LoadedObject, Plans, Purpose};

/// Whether a probe is there, and on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeState {
    /// In the text and switched on.
    Enabled,
    /// In the text and switched off.
    Disabled,
    /// Could be put there.
    Available,
    /// Can't be there.
    Refused,
}

impl ProbeState {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Available => "available",
            Self::Refused => "refused",
        }
    }
}

/// One probe, or one function that can't have one.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRow {
    /// Path of the component, as the process sees it.
    pub path: String,
    /// Demangled name of the function.
    pub function: String,
    /// As in the symbol table, empty if stripped.
    pub symbol: String,
    /// Virtual address of the probe in the component.
    pub address: u64,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line, 0 if unknown.
    pub line: u32,
    /// `entry`, `patchable-entry`, `fentry`, `xray`, `instrument-functions` or `usdt`.
    pub provider: &'static str,
    /// `entry`, `exit` or `point`.
    pub event: &'static str,
    /// `provider:name` of a USDT note, else empty.
    pub name: String,
    /// Whether it is there, and on.
    pub state: ProbeState,
    /// Why it can't be there, or why calls can't be timed; else empty.
    pub reason: String,
    /// Calls.
    pub calls: u64,
    /// Calls in the last interval.
    pub recent_calls: u64,
    /// Calls timed.
    pub samples: u64,
    /// Durations of timed calls; `None` if there are none.
    pub times: Option<ProbeTimes>,
}

/// Durations, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Sum.
    pub total_ns: i64,
    /// Mean.
    pub mean_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

pub fn provider_word(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Entry => "entry",
        ProviderKind::PatchableEntry => "patchable-entry",
        ProviderKind::Fentry => "fentry",
        ProviderKind::Xray => "xray",
        ProviderKind::InstrumentFunctions => "instrument-functions",
        ProviderKind::Usdt => "usdt",
        ProviderKind::Region => "region",
    }
}

pub fn event_word(event: Event) -> &'static str {
    match event {
        Event::Entry => "entry",
        Event::Exit => "exit",
        Event::Point => "point",
    }
}

/// Source lines and functions of components, read when first asked for.
#[derive(Debug, Default)]
pub struct Sources {
    lines: HashMap<std::path::PathBuf, Option<Lines>>,
    /// Shared by all processes of a command.
    pub plans: Plans,
}

impl Sources {
    /// File and line of an address; empty and 0 if unknown.
    pub fn of(&mut self, object: &LoadedObject, vaddr: u64) -> (String, u32) {
        let lines = self.lines.entry(object.path.clone()).or_insert_with(|| Lines::of(&object.object));
        let found = lines.as_ref().and_then(|lines| lines.at(vaddr));
        found.map_or_else(Default::default, |source| (source.file, source.line))
    }

    /// The functions of an object, in a plan without sites.
    pub fn functions(&self, object: &LoadedObject) -> Rc<Plan> {
        self.plans.get(Purpose::Listed, object, &|_| false)
    }

    /// A row without counts.
    pub fn row(&mut self, object: &LoadedObject, function: &Function, address: u64) -> ProbeRow {
        let (file, line) = self.of(object, function.vaddr);
        ProbeRow {
            path: object.path.to_string_lossy().into_owned(),
            function: function.name.clone(),
            symbol: function.symbol.clone(),
            address,
            file,
            line,
            provider: "entry",
            event: "entry",
            name: String::new(),
            state: ProbeState::Available,
            reason: String::new(),
            calls: 0,
            recent_calls: 0,
            samples: 0,
            times: None,
        }
    }
}

/// File name of a component.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
