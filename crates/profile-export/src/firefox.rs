//! Processed profile of the Firefox Profiler.
//!
//! Folded flows have no point in time: each thread's stacks are laid one after the other from the thread's start, the
//! heaviest first, each as long as its self time. Call tree and flame graph are exact, the order on the timeline is
//! not. Traced calls are markers at their true times. Of critical paths, samples have their true times as far as the
//! recording kept them, and waits are markers. A walk's call tree is laid out as flows are, a track for each thread
//! group, time off CPUs in the category of waiting.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, Profile as FirefoxProfile, ReferenceTimestamp, SamplingInterval,
    StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp, WeightType,
};
use serde_json::Value;
use transect_profile_model::{ApiClass, Profile, SchedWait, StackId, TaskId, ThreadId, TraceEvent, WalkGroup};

use crate::region_slices::{RegionSpan, region_spans};
use crate::region_stacks::{features, text};
use crate::stack::{Stack, Stacks, file_name};
use crate::{ExportError, Format, Subject};

/// Waits, or spans in regions, that become markers, the longest: the viewer is slow with more.
const MOST_WAITS: usize = 100_000;

pub(crate) fn write(profile: &Profile, subject: Subject, out: &mut dyn Write) -> Result<(), ExportError> {
    let stacks = Stacks::collect(profile, subject);
    if subject == Subject::Criticality {
        return write_schedule(profile, &stacks, out);
    }
    if subject == Subject::Walk {
        return write_walk(profile, &stacks, out);
    }
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
    if subject == Subject::Features {
        let mut region_spans = region_spans(profile);
        region_spans.sort_by_key(|span| (Reverse(span.end_ns.saturating_sub(span.start_ns)), span.start_ns));
        region_spans.truncate(MOST_WAITS);
        for span in region_spans {
            if let Some(&handle) = threads.get(span.thread_id as usize) {
                layout.add_span(handle, profile, &span);
            }
        }
    }
    for event in &profile.trace {
        if let Some(&handle) = threads.get(event.thread as usize) {
            layout.add_traced_call(handle, event, &stacks);
        }
    }
    let json = layout.into_json().map_err(|e| ExportError::json(Format::Firefox, e))?;
    serde_json::to_writer(out, &json).map_err(|e| ExportError::json(Format::Firefox, e))
}

fn write_schedule(profile: &Profile, stacks: &Stacks<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut layout = Layout::new(profile);
    let tasks = &profile.sched.tasks;
    let threads = layout.add(profile, tasks.iter().map(|t| (t.process, t.tid, t.name.as_str(), t.start_ns, t.end_ns)));
    for (id, rows) in timed(profile, stacks) {
        if let Some(&handle) = threads.get(id as usize) {
            layout.add_timed_samples(handle, &rows, stacks);
        }
    }
    let mut waits: Vec<&SchedWait> = profile.sched.waits.iter().filter(|wait| wait.count == 1).collect();
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.ns), wait.begin_ns));
    waits.truncate(MOST_WAITS);
    for wait in waits {
        if let Some(&handle) = threads.get(wait.task as usize) {
            layout.add_wait(handle, profile, wait);
        }
    }
    let json = layout.into_json().map_err(|e| ExportError::json(Format::Firefox, e))?;
    serde_json::to_writer(out, &json).map_err(|e| ExportError::json(Format::Firefox, e))
}

/// A track for each thread group.
fn write_walk(profile: &Profile, stacks: &Stacks<'_>, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut layout = Layout::new(profile);
    let start_ns = profile.meta.walk.as_ref().map_or(0, |session| session.start_ns);
    let mut other = 0;
    let groups = profile.walk.groups.iter().map(|group| {
        // Groups have no thread id: the main thread's is its process', others count.
        let pid = profile.processes.get(group.process as usize).map_or(0, |process| process.pid);
        other += 1;
        let tid = if group.thread_group == "main" { pid } else { other };
        (group.process, tid, group.thread_group.as_str(), start_ns, start_ns.saturating_add(lifetime_ns(group)))
    });
    let threads = layout.add(profile, groups);
    for (id, &handle) in (0..).zip(&threads) {
        let mut rows: Vec<&Stack<'_>> = stacks.rows.iter().filter(|stack| stack.thread == id).collect();
        rows.sort_by_key(|stack| std::cmp::Reverse(stack.self_ns));
        layout.add_samples(handle, start_ns, &rows, stacks);
    }
    let json = layout.into_json().map_err(|e| ExportError::json(Format::Firefox, e))?;
    serde_json::to_writer(out, &json).map_err(|e| ExportError::json(Format::Firefox, e))
}

fn lifetime_ns(group: &WalkGroup) -> i64 {
    group.on_ns.saturating_add(group.runnable_ns).saturating_add(group.blocked_ns)
}

/// Stacks of each thread by time. A stack's criticality is divided evenly among the timer's samples of it; what has
/// none stands where its thread starts, idle time at the end of the wait that it is charged to.
fn timed<'s, 'a>(profile: &'a Profile, stacks: &'s Stacks<'a>) -> BTreeMap<TaskId, Vec<(i64, &'s Stack<'a>, i64)>> {
    let tables = &profile.sched;
    let mut moments: BTreeMap<(TaskId, StackId), Vec<i64>> = BTreeMap::new();
    for moment in &tables.moments {
        moments.entry((moment.task, moment.stack)).or_default().push(moment.time_ns);
    }
    let mut by_task: BTreeMap<TaskId, Vec<(i64, &Stack<'a>, i64)>> = BTreeMap::new();
    // In the order in which the stacks were made: samples, waits, what is left of each thread.
    let samples = tables.samples.iter().map(|sample| moments.get(&(sample.task, sample.stack)).cloned());
    let waits = tables.waits.iter().filter(|wait| wait.idle_ns > 0).map(|wait| Some(vec![wait.end_ns]));
    let times = samples.chain(waits).chain(std::iter::repeat(None));
    for (stack, times) in stacks.rows.iter().zip(times) {
        let start = tables.tasks.get(stack.thread as usize).map_or(0, |task| task.start_ns);
        let times = times.filter(|times| !times.is_empty()).unwrap_or_else(|| vec![start]);
        let (each, rest) = (stack.self_ns / times.len() as i64, stack.self_ns % times.len() as i64);
        let rows = by_task.entry(stack.thread).or_default();
        rows.extend(times.iter().enumerate().map(|(i, &time)| (time, stack, each + if i == 0 { rest } else { 0 })));
    }
    for rows in by_task.values_mut() {
        rows.sort_by_key(|row| row.0);
    }
    by_task
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
        let threads = profile.threads.iter();
        self.add(profile, threads.map(|t| (t.process, t.tid, t.name.as_str(), t.start_ns, t.start_ns + t.wall_ns)))
    }

    /// Adds processes and threads: process, tid, name, start and end of each.
    fn add<'p>(
        &mut self,
        profile: &Profile,
        threads: impl Iterator<Item = (u32, i32, &'p str, i64, i64)>,
    ) -> Vec<ThreadHandle> {
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
        let mut unknown = None;
        threads
            .map(|(process, tid, name, start_ns, end_ns)| {
                let known = processes.get(process as usize).copied();
                let process_handle = known.unwrap_or_else(|| {
                    *unknown.get_or_insert_with(|| self.target.add_process("[unknown]", 0, timestamp(0)))
                });
                let is_main = profile.processes.get(process as usize).is_some_and(|p| p.pid == tid);
                let handle = self.target.add_thread(process_handle, tid.unsigned_abs(), timestamp(start_ns), is_main);
                self.target.set_thread_name(handle, name);
                self.target.set_thread_end_time(handle, timestamp(end_ns));
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
            let stack = self.stack(thread, row, stacks, category_pair);
            let weight = self.weight(row.self_ns);
            self.target.add_sample(thread, timestamp(at_ns), stack, computed, weight);
            at_ns += row.self_ns;
            computed = if waits { CpuDelta::ZERO } else { CpuDelta::from_nanos(row.self_ns.unsigned_abs()) };
        }
        let weight = self.weight(0);
        self.target.add_sample(thread, timestamp(at_ns), None, computed, weight);
    }

    fn stack(
        &mut self,
        thread: ThreadHandle,
        row: &Stack<'_>,
        stacks: &Stacks<'_>,
        category_pair: CategoryPairHandle,
    ) -> Option<StackHandle> {
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
        self.target.intern_stack_frames(thread, frames.into_iter())
    }

    /// Adds samples in order of time: time, stack, criticality.
    fn add_timed_samples(&mut self, thread: ThreadHandle, rows: &[(i64, &Stack<'_>, i64)], stacks: &Stacks<'_>) {
        for &(at_ns, row, criticality_ns) in rows {
            let waits = row.wait.is_some();
            let category_pair = if waits { self.waiting } else { self.computing };
            let stack = self.stack(thread, row, stacks, category_pair);
            let weight = self.weight(criticality_ns);
            let computed = if waits { CpuDelta::ZERO } else { CpuDelta::from_nanos(criticality_ns.unsigned_abs()) };
            self.target.add_sample(thread, timestamp(at_ns), stack, computed, weight);
        }
    }

    fn add_wait(&mut self, thread: ThreadHandle, profile: &Profile, wait: &SchedWait) {
        let name_of = |task: TaskId| profile.sched.tasks.get(task as usize).map_or("?", |task| task.name.as_str());
        let mut details = wait.object.to_string();
        for (word, party) in [("held by", wait.holder), ("woken by", wait.waker)] {
            if let Some(party) = party {
                let between = if details.is_empty() { "" } else { ", " };
                details.push_str(&format!("{between}{word} {}", name_of(party.task)));
            }
        }
        let marker = TracedCall {
            name: self.target.intern_string(wait.kind.as_str()),
            details: self.target.intern_string(&details),
        };
        let timing = MarkerTiming::Interval(timestamp(wait.begin_ns), timestamp(wait.end_ns));
        self.target.add_marker(thread, timing, marker);
    }

    fn add_span(&mut self, thread: ThreadHandle, profile: &Profile, span: &RegionSpan<'_>) {
        let marker = TracedCall {
            name: self.target.intern_string(&features(&profile.feature, span.region)),
            details: self.target.intern_string(&text(&profile.feature, span.region)),
        };
        self.target.add_marker(
            thread,
            MarkerTiming::Interval(timestamp(span.start_ns), timestamp(span.end_ns)),
            marker,
        );
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

/// One call of `--trace`, one wait, or one span in a region.
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
