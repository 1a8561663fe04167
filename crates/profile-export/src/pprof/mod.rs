//! pprof's `profile.proto`, gzip-compressed.
//!
//! Four values a sample: `calls/count`, `total/nanoseconds`, `self/nanoseconds`, `attributed/nanoseconds`. Only `self`
//! may be summed over stacks; totals of nested flows overlap. Of critical paths three: `samples/count`,
//! `active/nanoseconds` (running or waited), `criticality/nanoseconds`. Of a walk `samples/count`, `on-cpu`, `wall` and
//! `off-cpu`, all of them to be summed. Of features `entries/count`, `on-cpu` and `time` of each stack of regions.

mod message;

use std::collections::HashMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use prost::Message as _;
use transect_profile_model::{ComponentId, Profile, Timing};

use crate::stack::{Frame, Stack, Stacks};
use crate::{ExportError, Subject};
use message::{Function, Label, Line, Location, Mapping, Sample, ValueType};

const NANOSECONDS: &str = "nanoseconds";

pub(crate) fn write(profile: &Profile, subject: Subject, out: &mut dyn Write) -> Result<(), ExportError> {
    let bytes = encode(profile, subject).encode_to_vec();
    // No file name and no time in the gzip header: equal profiles give equal files.
    let mut gzip = GzBuilder::new().write(out, Compression::default());
    gzip.write_all(&bytes)?;
    gzip.finish()?;
    Ok(())
}

/// Kinds and units of a sample's values.
fn value_types(subject: Subject) -> &'static [(&'static str, &'static str)] {
    match subject {
        Subject::Flows => {
            &[("calls", "count"), ("total", NANOSECONDS), ("self", NANOSECONDS), ("attributed", NANOSECONDS)]
        }
        Subject::Criticality => &[("samples", "count"), ("active", NANOSECONDS), ("criticality", NANOSECONDS)],
        Subject::Features => &[("entries", "count"), ("on-cpu", NANOSECONDS), ("time", NANOSECONDS)],
        Subject::Walk => {
            &[("samples", "count"), ("on-cpu", NANOSECONDS), ("wall", NANOSECONDS), ("off-cpu", NANOSECONDS)]
        }
    }
}

fn encode(profile: &Profile, subject: Subject) -> message::Profile {
    let stacks = Stacks::collect(profile, subject);
    let mut tables = Tables::default();
    tables.strings.index("");
    let mut encoded = message::Profile {
        sample_type: value_types(subject)
            .iter()
            .map(|(kind, unit)| ValueType { kind: tables.strings.index(kind), unit: tables.strings.index(unit) })
            .collect(),
        default_sample_type: tables.strings.index(match subject {
            Subject::Criticality => "criticality",
            Subject::Walk => "wall",
            Subject::Features => "time",
            Subject::Flows if stacks.has_times => "self",
            Subject::Flows => "calls",
        }),
        time_nanos: profile.meta.started_unix_ns,
        duration_nanos: profile.meta.wall_ns,
        comment: comments(profile).iter().map(|text| tables.strings.index(text)).collect(),
        ..Default::default()
    };
    encoded.mapping = profile
        .components
        .iter()
        .zip(1..)
        .map(|(component, id)| Mapping {
            id,
            // pprof tells mappings apart by their range: an empty one at address 0 would be merged with its neighbour.
            memory_start: id << 32,
            memory_limit: (id + 1) << 32,
            filename: tables.strings.index(&component.path),
            build_id: tables.strings.index(&component.build_id),
            has_functions: true,
        })
        .collect();
    for stack in &stacks.rows {
        let location_id = stack.frames.iter().rev().map(|frame| tables.location(profile, &stacks, frame)).collect();
        encoded.sample.push(Sample {
            location_id,
            value: [stack.calls, stack.total_ns, stack.self_ns, stack.attributed_ns][..value_types(subject).len()]
                .to_vec(),
            label: labels(profile, stack, subject, &mut tables.strings),
        });
    }
    encoded.location = tables.locations;
    encoded.function = tables.functions;
    encoded.string_table = tables.strings.list;
    encoded
}

fn comments(profile: &Profile) -> Vec<String> {
    let mode = match profile.meta.timing {
        Timing::Adaptive { budget } => format!("adaptive, budget {:.1} %", budget * 100.0),
        Timing::Full => "full".to_owned(),
        Timing::Count => "count".to_owned(),
        Timing::Every { period } => format!("every {period} calls"),
    };
    let lost: i64 = profile.loss.iter().map(|l| l.count).sum();
    vec![
        format!("command: {}", profile.meta.command.join(" ")),
        format!("timing: {mode}; estimated overhead {:.2} %", profile.meta.overhead_estimate * 100.0),
        format!("losses counted: {lost}"),
    ]
}

fn labels(profile: &Profile, stack: &Stack<'_>, subject: Subject, strings: &mut Strings) -> Vec<Label> {
    let mut text = |key: &str, value: &str| Label { key: strings.index(key), str: strings.index(value), num: 0 };
    let mut labels = Vec::new();
    if subject == Subject::Walk {
        let group = profile.walk.groups.get(stack.thread as usize);
        labels.extend(group.map(|group| text("thread_group", &group.thread_group)));
        if let Some(process) = group.and_then(|group| profile.processes.get(group.process as usize)) {
            labels.push(Label { key: strings.index("pid"), num: process.pid.into(), ..Default::default() });
        }
        labels.retain(|l| l.str != 0 || l.num != 0);
        return labels;
    }
    let thread = match subject {
        Subject::Flows => {
            labels.push(text("class", stack.class.as_str()));
            profile.threads.get(stack.thread as usize).map(|thread| (&thread.name, thread.tid, thread.process))
        }
        Subject::Walk => None,
        Subject::Features => {
            profile.threads.get(stack.thread as usize).map(|thread| (&thread.name, thread.tid, thread.process))
        }
        Subject::Criticality => {
            labels.push(text("state", if stack.wait.is_some() { "waiting" } else { "running" }));
            labels.extend(stack.wait.map(|kind| text("kind", kind.as_str())));
            profile.sched.tasks.get(stack.thread as usize).map(|task| (&task.name, task.tid, task.process))
        }
    };
    if let Some((name, tid, process)) = thread {
        labels.push(text("thread", name));
        labels.push(Label { key: strings.index("tid"), num: tid.into(), ..Default::default() });
        if let Some(process) = profile.processes.get(process as usize) {
            labels.push(Label { key: strings.index("pid"), num: process.pid.into(), ..Default::default() });
        }
    }
    // A label with neither text nor number is not valid.
    labels.retain(|l| l.str != 0 || l.num != 0);
    labels
}

/// Interned strings; index 0 is the empty one, as the format demands.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    index: HashMap<String, i64>,
}

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(&at) = self.index.get(text) {
            return at;
        }
        let at = self.list.len() as i64;
        self.list.push(text.to_owned());
        self.index.insert(text.to_owned(), at);
        at
    }
}

#[derive(Default)]
struct Tables {
    strings: Strings,
    functions: Vec<Function>,
    locations: Vec<Location>,
    /// Location by (mapping or 0, frame text, raw symbol or source line).
    known: HashMap<(u64, String, String), u64>,
}

impl Tables {
    fn location(&mut self, profile: &Profile, stacks: &Stacks<'_>, frame: &Frame<'_>) -> u64 {
        let mapping = |id: ComponentId| u64::from(id) + 1;
        let (mapping_id, symbol) = match frame {
            Frame::Program(_) | Frame::Group(_) => (0, String::new()),
            Frame::Component(id) => (mapping(*id), String::new()),
            Frame::Api(id, flow) => (mapping(*id), flow.symbol.clone()),
            Frame::Function(frame) => (frame.component.map_or(0, mapping), format!("{}:{}", frame.file, frame.line)),
            Frame::Node(node) => (node.component.map_or(0, mapping), format!("{}:{}", node.file, node.line)),
            Frame::Region(region) => (mapping(region.component), format!("{}:{}", region.file, region.line)),
            Frame::Waiting(_) | Frame::NoStack => (0, String::new()),
        };
        let mapping_id = if mapping_id as usize <= profile.components.len() { mapping_id } else { 0 };
        let name = stacks.text(frame);
        let next = self.locations.len() as u64 + 1;
        let id = *self.known.entry((mapping_id, name.clone(), symbol.clone())).or_insert(next);
        if id == next {
            let (file, line) = match frame {
                Frame::Function(frame) => (frame.file.as_str(), i64::from(frame.line)),
                Frame::Node(node) => (node.file.as_str(), i64::from(node.line)),
                Frame::Region(region) => (region.file.as_str(), region.line),
                _ => ("", 0),
            };
            let path = mapping_id.checked_sub(1).map_or("", |c| profile.components[c as usize].path.as_str());
            // pprof takes a system name that differs from the name as a sign that it is demangled already.
            let function = Function {
                id,
                name: self.strings.index(&name),
                system_name: self.strings.index(match frame {
                    Frame::Api(..) if !symbol.is_empty() => &symbol,
                    _ => &name,
                }),
                filename: self.strings.index(if file.is_empty() { path } else { file }),
            };
            self.functions.push(function);
            let address = if mapping_id == 0 { 0 } else { (mapping_id << 32) + id };
            self.locations.push(Location { id, mapping_id, address, line: vec![Line { function_id: id, line }] });
        }
        id
    }
}
