//! Perfetto's own trace format: a track per thread with its lifetime and the regions in which it was, nested.
//!
//! Texts are interned once per region; a span takes some thirty bytes.

mod message;

use std::io::Write;

use prost::Message as _;
use transect_profile_model::{Process, Profile};

use crate::ExportError;
use crate::region_slices::{RegionSpan, region_spans};
use crate::region_stacks::{features, text};
use message::{
    DebugAnnotation, Interned, InternedData, ProcessDescriptor, SEQ_INCREMENTAL_STATE_CLEARED,
    SEQ_NEEDS_INCREMENTAL_STATE, SourceLocation, TYPE_SLICE_BEGIN, TYPE_SLICE_END, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent,
};

/// The only sequence of packets.
const SEQUENCE: u32 = 1;
/// Category and annotation of regions.
const FEATURE: u64 = 1;
/// Category of lifetimes of threads.
const THREAD: u64 = 2;
/// Interned numbers of regions and threads begin here; 0 is none.
const FIRST: u64 = 1;

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut trace = Packets { out, buffer: Vec::new() };
    for (id, process) in profile.processes.iter().enumerate() {
        trace.track(TrackDescriptor { uuid: process_uuid(id), process: Some(described(process)), thread: None })?;
    }
    for (id, thread) in profile.threads.iter().enumerate() {
        let pid = profile.processes.get(thread.process as usize).map_or(0, |process| process.pid);
        let thread = ThreadDescriptor { pid, tid: thread.tid, thread_name: thread.name.clone() };
        trace.track(TrackDescriptor { uuid: thread_uuid(profile, id), process: None, thread: Some(thread) })?;
    }
    trace.texts(profile)?;
    let region_spans = region_spans(profile);
    let mut rest = region_spans.as_slice();
    for (id, thread) in profile.threads.iter().enumerate() {
        let (own, others) = rest.split_at(rest.iter().take_while(|span| span.thread_id as usize == id).count());
        rest = others;
        let uuid = thread_uuid(profile, id);
        let end_ns = thread.start_ns.saturating_add(thread.wall_ns.max(0));
        trace.begin(thread.start_ns, uuid, THREAD, profile.feature.regions.len() as u64 + FIRST + id as u64, None)?;
        trace.nested(own, uuid, end_ns)?;
    }
    Ok(())
}

fn process_uuid(id: usize) -> u64 {
    id as u64 + 1
}

fn thread_uuid(profile: &Profile, id: usize) -> u64 {
    (profile.processes.len() + id) as u64 + 1
}

fn described(process: &Process) -> ProcessDescriptor {
    ProcessDescriptor { pid: process.pid, process_name: crate::stack::file_name(&process.executable).to_owned() }
}

/// Time since the recording's start; the format has no negative times.
fn timestamp(ns: i64) -> Option<u64> {
    Some(u64::try_from(ns).unwrap_or(0))
}

struct Packets<'o> {
    out: &'o mut dyn Write,
    buffer: Vec<u8>,
}

impl Packets<'_> {
    fn packet(&mut self, packet: TracePacket) -> Result<(), ExportError> {
        let packet = TracePacket { trusted_packet_sequence_id: SEQUENCE, ..packet };
        self.buffer.clear();
        self.buffer.reserve(64);
        Trace { packet: Some(packet) }.encode_raw(&mut self.buffer);
        self.out.write_all(&self.buffer)?;
        Ok(())
    }

    fn track(&mut self, track: TrackDescriptor) -> Result<(), ExportError> {
        self.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    /// Names of regions, then of threads.
    fn texts(&mut self, profile: &Profile) -> Result<(), ExportError> {
        let tables = &profile.feature;
        let interned = |iid: u64, text: &str| Interned { iid, text: text.to_owned() };
        let regions = || (FIRST..).zip(&tables.regions);
        let threads = (FIRST + tables.regions.len() as u64..).zip(&profile.threads);
        let data = InternedData {
            event_categories: vec![interned(FEATURE, "feature"), interned(THREAD, "thread")],
            event_names: regions()
                .map(|(iid, region)| interned(iid, &text(tables, region)))
                .chain(threads.map(|(iid, thread)| interned(iid, &thread.name)))
                .collect(),
            debug_annotation_names: vec![interned(FEATURE, "features")],
            source_locations: regions()
                .map(|(iid, region)| SourceLocation {
                    iid,
                    file_name: region.file.clone(),
                    function_name: region.function.clone(),
                    line_number: u32::try_from(region.line).unwrap_or(0),
                })
                .collect(),
            debug_annotation_string_values: regions()
                .map(|(iid, region)| interned(iid, &features(tables, region)))
                .collect(),
        };
        self.packet(TracePacket {
            interned_data: Some(data),
            sequence_flags: SEQ_INCREMENTAL_STATE_CLEARED,
            ..TracePacket::default()
        })
    }

    fn begin(
        &mut self,
        at_ns: i64,
        track_uuid: u64,
        category: u64,
        name_iid: u64,
        region: Option<u64>,
    ) -> Result<(), ExportError> {
        let annotation = |iid| DebugAnnotation { name_iid: FEATURE, string_value_iid: iid };
        let event = TrackEvent {
            category_iids: vec![category],
            debug_annotations: region.map(annotation).into_iter().collect(),
            kind: TYPE_SLICE_BEGIN,
            name_iid,
            track_uuid,
            source_location_iid: region.unwrap_or(0),
        };
        self.event(at_ns, event)
    }

    fn end(&mut self, at_ns: i64, track_uuid: u64) -> Result<(), ExportError> {
        self.event(at_ns, TrackEvent { kind: TYPE_SLICE_END, track_uuid, ..TrackEvent::default() })
    }

    fn event(&mut self, at_ns: i64, event: TrackEvent) -> Result<(), ExportError> {
        self.packet(TracePacket {
            timestamp: timestamp(at_ns),
            track_event: Some(event),
            sequence_flags: SEQ_NEEDS_INCREMENTAL_STATE,
            ..TracePacket::default()
        })
    }

    /// Begins and ends of one thread's spans in order of time, then the end of the thread itself.
    fn nested(&mut self, region_spans: &[RegionSpan<'_>], uuid: u64, end_ns: i64) -> Result<(), ExportError> {
        let mut open: Vec<i64> = vec![end_ns];
        for span in region_spans {
            while open.len() > 1
                && let Some(&inner) = open.last()
                && inner <= span.start_ns
            {
                open.pop();
                self.end(inner, uuid)?;
            }
            // What is inside ends no later than what is around it.
            let around = open.last().copied().unwrap_or(end_ns);
            let iid = FIRST + u64::from(span.region_id);
            self.begin(span.start_ns.min(around), uuid, FEATURE, iid, Some(iid))?;
            open.push(span.end_ns.min(around));
        }
        while let Some(inner) = open.pop() {
            self.end(inner, uuid)?;
        }
        Ok(())
    }
}
