//! Processed profile of the Firefox Profiler.
//!
//! Folded flows have no point in time: each thread's stacks are laid one after the other from the thread's start, the
//! heaviest first, each as long as its self time. Call tree and flame graph are exact, the order on the timeline is
//! not. Traced calls are markers at their true times.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, Profile as FirefoxProfile, ReferenceTimestamp, SamplingInterval,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp, WeightType,
};
use serde_json::Value;
use transect_profile_model::{ApiClass, Profile, ThreadId, TraceEvent};

use crate::stack::{Stack, Stacks, file_name};
use crate::{ExportError, Format};

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let stacks = Stacks::collect(profile);
    if !stacks.has_times {
        return Err(ExportError::NoTimes { format: Format::Firefox });
    }
    let mut layout = Layout::new(profile);
    let threads = layout.add_threads(profile);
    let mut by_thread: BTreeMap<ThreadId, Vec<&Stack<'_>>> = BTreeMap::new();
    for stack in stacks.rows.iter().filter(|s| s.self_ns > 0) {
        by_thread.entry(stack.thread).or_default().push(stack);
    }
    for (id, mut rows) in by_thread {
        let (Some(&handle), Some(thread)) = (threads.get(id as usize), profile.threads.get(id as usize)) else {
            continue;
        };
        rows.sort_by_key(|s| std::cmp::Reverse(s.self_ns));
        layout.add_samples(handle, thread.start_ns, &rows, &stacks);
    }
    for event in &profile.trace {
        if let Some(&handle) = threads.get(event.thread as usize) {
            layout.add_traced_call(handle, event, &stacks);
        }
    }
    let json = layout.into_json().map_err(|e| ExportError::json(Format::Firefox, e))?;
    serde_json::to_writer(out, &json).map_err(|e| ExportError::json(Format::Firefox, e))
}

/// Time since the recording's start; the format has no negative times.
fn timestamp(ns: i64) -> Timestamp {
    Timestamp::from_nanos_since_reference(u64::try_from(ns).unwrap_or(0))
}

struct Layout {
    target: FirefoxProfile,
    computing: CategoryPairHandle,
    waiting: CategoryPairHandle,
    /// Self times, ms: what the integer weights of `target` point at.
    weights_ms: Vec<f64>,
}

impl Layout {
    fn new(profile: &Profile) -> Self {
        let started = Duration::from_nanos(u64::try_from(profile.meta.started_unix_ns).unwrap_or(0));
        let mut target = FirefoxProfile::new(
            &profile.meta.command.join(" "),
            ReferenceTimestamp::from_duration_since_unix_epoch(started),
            SamplingInterval::from_nanos(1_000_000),
        );
        target.set_os_name(&format!("Linux {}", profile.meta.machine.kernel));
        // Names are complete: the viewer has nothing to ask a symbol server for.
        target.set_symbolicated(true);
        let computing = target.add_category("Computing", CategoryColor::Blue).into();
        let waiting = target.add_category("Waiting", CategoryColor::Orange).into();
        Self { target, computing, waiting, weights_ms: Vec::new() }
    }

    fn add_threads(&mut self, profile: &Profile) -> Vec<ThreadHandle> {
        let processes: Vec<_> = profile
            .processes
            .iter()
            .map(|p| {
                let handle =
                    self.target.add_process(file_name(&p.executable), p.pid.unsigned_abs(), timestamp(p.start_ns));
                self.target.set_process_end_time(handle, timestamp(p.start_ns + p.wall_ns));
                handle
            })
            .collect();
        let unknown = profile.threads.iter().any(|t| t.process as usize >= processes.len());
        let fallback = unknown.then(|| self.target.add_process("[unknown]", 0, timestamp(0)));
        profile
            .threads
            .iter()
            .map(|t| {
                let process = processes.get(t.process as usize).copied().or(fallback).expect("a process for each");
                let is_main = profile.processes.get(t.process as usize).is_some_and(|p| p.pid == t.tid);
                let handle = self.target.add_thread(process, t.tid.unsigned_abs(), timestamp(t.start_ns), is_main);
                self.target.set_thread_name(handle, &t.name);
                self.target.set_thread_end_time(handle, timestamp(t.start_ns + t.wall_ns));
                self.target.set_thread_samples_weight_type(handle, WeightType::TracingMs);
                handle
            })
            .collect()
    }

    fn add_samples(&mut self, thread: ThreadHandle, start_ns: i64, rows: &[&Stack<'_>], stacks: &Stacks<'_>) {
        let mut at_ns = start_ns;
        // The format counts the CPU time since the *previous* sample.
        let mut computed = CpuDelta::ZERO;
        for row in rows {
            let waits = row.class.is_wait() || row.class == ApiClass::Io;
            let category_pair = if waits { self.waiting } else { self.computing };
            let frames: Vec<FrameInfo> = row
                .frames
                .iter()
                // Program and thread group are tracks of their own here.
                .skip(2)
                .map(|f| {
                    let label = self.target.intern_string(&stacks.text(f));
                    FrameInfo { frame: Frame::Label(label), category_pair, flags: FrameFlags::empty() }
                })
                .collect();
            let stack = self.target.intern_stack_frames(thread, frames.into_iter());
            let weight = self.weight(row.self_ns);
            self.target.add_sample(thread, timestamp(at_ns), stack, computed, weight);
            at_ns += row.self_ns;
            computed = if waits { CpuDelta::ZERO } else { CpuDelta::from_nanos(row.self_ns.unsigned_abs()) };
        }
        let weight = self.weight(0);
        self.target.add_sample(thread, timestamp(at_ns), None, computed, weight);
    }

    /// The crate takes integer weights, the format fractional milliseconds: a weight is first an index into
    /// `weights_ms`, replaced in [`Layout::into_json`].
    fn weight(&mut self, ns: i64) -> i32 {
        self.weights_ms.push(ns as f64 / 1e6);
        i32::try_from(self.weights_ms.len() - 1).unwrap_or(0)
    }

    fn add_traced_call(&mut self, thread: ThreadHandle, event: &TraceEvent, stacks: &Stacks<'_>) {
        let caller = stacks.component(event.caller);
        let registers: Vec<String> = event.args.iter().map(|a| format!("{a:#x}")).collect();
        let details = format!("{caller}: {}({})", event.api, registers.join(", "));
        let marker =
            TracedCall { name: self.target.intern_string(&event.api), details: self.target.intern_string(&details) };
        self.target.add_marker(thread, MarkerTiming::Instant(timestamp(event.time_ns)), marker);
    }

    fn into_json(self) -> Result<Value, serde_json::Error> {
        let mut json = serde_json::to_value(&self.target)?;
        let threads = json.get_mut("threads").and_then(Value::as_array_mut).into_iter().flatten();
        for weights in threads.filter_map(|t| t.pointer_mut("/samples/weight").and_then(Value::as_array_mut)) {
            for weight in weights {
                let index = weight.as_u64().unwrap_or(0) as usize;
                *weight = self.weights_ms.get(index).copied().unwrap_or(0.0).into();
            }
        }
        Ok(json)
    }
}

/// One call of `--trace`.
struct TracedCall {
    name: StringHandle,
    details: StringHandle,
}

impl StaticSchemaMarker for TracedCall {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "TracedCall";
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.details}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.details}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "details",
        label: "Call",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut FirefoxProfile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut FirefoxProfile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.details
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        unreachable!("the schema has no number")
    }
}
