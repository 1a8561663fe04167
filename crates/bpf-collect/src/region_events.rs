//! Region sites of programs, watched from the kernel by uprobes: see `bpf/region_events.bpf.c`.
//!
//! Loading and attaching need `CAP_BPF` and `CAP_PERFMON` (see [`crate::privilege`]). A site is watched in every process
//! that maps its file; only those that are followed have events.

mod calibration;
mod event;
mod traps;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramMut, RingBuffer, RingBufferBuilder,
    UprobeMultiOpts, UprobeOpts,
};
use transect_binary_info::{LastLink, open_plain};

use crate::error::CollectError;
pub use event::{KernelEvent, TaskChange};
use traps::CrampedProcess;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/region_events.o"));
/// Number of the initial pid namespace.
const INITIAL_NAMESPACE: u32 = 0xEFFF_FFFC;
/// All processes.
const ANY: i32 = -1;

/// A place in a file that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedSite {
    /// Offset in the file.
    pub offset: u64,
    /// Kind of event: as in [`KernelEvent::Site`], or [`LOADER_EVENT`].
    pub kind: u64,
}

/// The kind of a loader's event function: [`TaskChange::Loaded`] is told when it is called.
pub const LOADER_EVENT: u64 = event::TASK;

/// The loaded programs. Dropping it ends the watching.
pub struct RegionEvents {
    // Programs run as long as their links live.
    links: Vec<Link>,
    object: Object,
    /// One link holds many sites (Linux 6.6).
    multi: bool,
    /// The kernel must be kept from replacing breakpoints: see [`traps`].
    only_breakpoints: bool,
    event_ns: f64,
}

impl std::fmt::Debug for RegionEvents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RegionEvents({} links)", self.links.len())
    }
}

impl RegionEvents {
    /// Loads the programs; nothing is followed or watched yet. `children`: of followed processes are followed.
    ///
    /// # Errors
    /// If the kernel refuses a program or lacks a tracepoint.
    pub fn load(children: bool) -> Result<Self, CollectError> {
        let mut multi = true;
        let object = match load(children, true) {
            Ok(object) => object,
            Err(_) => {
                multi = false;
                load(children, false)?
            }
        };
        let mut links = Vec::new();
        for (program, name) in
            [("on_new_task", "task_newtask"), ("on_exec", "sched_process_exec"), ("on_exit", "sched_process_exit")]
        {
            let link = program_of(&object, program)?.attach_trace();
            links.push(link.map_err(|source| CollectError::Attach { name: name.to_owned(), source })?);
        }
        let mut events = Self { links, object, multi, only_breakpoints: false, event_ns: 0.0 };
        events.event_ns = events.calibrate()?;
        Ok(events)
    }

    /// What an event costs the thread that has it, ns.
    pub fn event_ns(&self) -> f64 {
        self.event_ns
    }

    /// Events of this process, and of its children if that was asked for, are told from now on.
    ///
    /// # Errors
    /// If there is no room.
    pub fn follow(&self, pid: i32) -> Result<(), CollectError> {
        let one = 1_u32.to_ne_bytes();
        self.map("followed")?.update(&pid.to_ne_bytes(), &one, MapFlags::ANY).map_err(CollectError::Read)
    }

    fn leave(&self, pid: i32) -> Result<(), CollectError> {
        self.map("followed")?.delete(&pid.to_ne_bytes()).map_err(CollectError::Read)
    }

    /// Watches sites of a file; gives those that the kernel refuses, with its reasons. `path` is the recorder's way to it.
    ///
    /// # Errors
    /// If it refuses all of them.
    pub fn watch(
        &mut self,
        path: &Path,
        sites: &[WatchedSite],
    ) -> Result<Vec<(WatchedSite, libbpf_rs::Error)>, CollectError> {
        if sites.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |source| CollectError::Sites { path: path.to_owned(), source };
        // Until all is watched, so that what was learnt of the sites is not forgotten.
        let _hit = self.hit_before(path, sites).map_err(failed)?;
        if self.multi {
            // One that is refused refuses all: then each alone.
            if let Ok(link) = self.attach_all(ANY, path, sites) {
                self.links.push(link);
                return Ok(Vec::new());
            }
        }
        let mut refused = Vec::new();
        for &site in sites {
            let options = UprobeOpts { cookie: site.kind, ..Default::default() };
            let program = program_of(&self.object, "on_site")?;
            match program.attach_uprobe_with_opts(ANY, path, site.offset as usize, options) {
                Ok(link) => self.links.push(link),
                Err(source) => refused.push((site, source)),
            }
        }
        if refused.len() == sites.len() {
            return Err(failed(refused.swap_remove(0).1));
        }
        Ok(refused)
    }

    fn attach_all(&self, pid: i32, path: &Path, sites: &[WatchedSite]) -> libbpf_rs::Result<Link> {
        let options = UprobeMultiOpts {
            offsets: sites.iter().map(|site| site.offset as usize).collect(),
            cookies: sites.iter().map(|site| site.kind).collect(),
            ..Default::default()
        };
        let program = self.object.progs_mut().find(|program| program.name() == "on_site_multi");
        let program = program.ok_or_else(|| libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound)))?;
        program.attach_uprobe_multi_with_opts(pid, path, "", options)
    }

    /// Has the kernel give up replacing breakpoints at these sites, if it must; for as long as what is returned lives.
    fn hit_before(&self, path: &Path, sites: &[WatchedSite]) -> libbpf_rs::Result<Option<(Link, CrampedProcess)>> {
        if !self.only_breakpoints {
            return Ok(None);
        }
        let file = open_plain(path, LastLink::Follow)?;
        let nops: Vec<WatchedSite> = sites.iter().copied().filter(|site| traps::is_nop(&file, site.offset)).collect();
        let offsets = || nops.iter().map(|site| site.offset);
        let (Some(first), Some(last)) = (offsets().min(), offsets().max()) else { return Ok(None) };
        let process = CrampedProcess::start(&file, first..last + traps::NOP.len() as u64)?;
        let link = self.attach_all(process.id(), path, &nops)?;
        for offset in offsets() {
            process.hit(offset)?;
        }
        Ok(Some((link, process)))
    }

    /// From now on nothing is told any more; what was told waits to be read.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Where events are read.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn source(&self) -> Result<EventSource, CollectError> {
        let handle = |name| MapHandle::try_from(&self.map(name)?).map_err(CollectError::Load);
        let variables = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let variables = variables.ok_or_else(|| CollectError::Nothing("the programs' counters".to_owned()))?;
        let counts = MapHandle::try_from(&variables).map_err(CollectError::Load)?;
        Ok(EventSource { events: handle("events")?, counts })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, CollectError> {
        let found = self.object.maps().find(|map| map.name() == name);
        found.ok_or_else(|| CollectError::Nothing(format!("the map {name}")))
    }
}

/// The events' buffer; may be given to another thread.
#[derive(Debug)]
pub struct EventSource {
    events: MapHandle,
    counts: MapHandle,
}

impl EventSource {
    /// Reads it on this thread: `each` gets all events there are whenever [`EventReader::read`] is called.
    ///
    /// # Errors
    /// If the buffer can't be mapped.
    pub fn open(self, mut each: impl FnMut(KernelEvent) + 'static) -> Result<EventReader, CollectError> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.events, move |bytes| {
                if let Some(event) = KernelEvent::decode(bytes) {
                    each(event);
                }
                0
            })
            .map_err(CollectError::Load)?;
        let ring = builder.build().map_err(CollectError::Load)?;
        Ok(EventReader { ring, source: self })
    }
}

/// Reads events.
pub struct EventReader {
    ring: RingBuffer<'static>,
    source: EventSource,
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EventReader")
    }
}

impl EventReader {
    /// Hands over what there is; gives how many there were. Waits for nothing.
    pub fn read(&self) -> usize {
        usize::try_from(self.ring.consume_raw()).unwrap_or(0)
    }

    /// Events for which there was no room, so far.
    pub fn lost(&self) -> u64 {
        let bytes = self.source.counts.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let lost = bytes.as_deref().and_then(|bytes| bytes.first_chunk());
        lost.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

fn load(children: bool, multi: bool) -> Result<Object, CollectError> {
    // The caller reports what fails, not the library.
    libbpf_rs::set_print(None);
    let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(CollectError::Load)?;
    for mut program in open.progs_mut() {
        let wanted = multi || program.name() != "on_site_multi";
        program.set_autoload(wanted);
    }
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino() as u32);
    // struct region_settings
    let settings = [namespace, u32::from(namespace == INITIAL_NAMESPACE), u32::from(children)];
    let settings: Vec<u8> = settings.into_iter().flat_map(u32::to_ne_bytes).collect();
    for mut map in open.maps_mut().filter(|map| map.name().to_string_lossy().ends_with(".rodata")) {
        map.set_initial_value(&settings).map_err(CollectError::Load)?;
    }
    let object = open.load().map_err(CollectError::Load)?;
    Ok(object)
}

fn program_of<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, CollectError> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| CollectError::Nothing(format!("the program {name}")))
}

#[cfg(test)]
mod tests {
    /// What is written as words here must be the structures of the programs.
    #[test]
    fn layouts_are_those_of_the_header() {
        let header = include_str!("../bpf/region_events_abi.h");
        let settings = header.split("struct region_settings {").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
        let names: Vec<&str> =
            settings.lines().filter_map(|line| line.trim().strip_prefix("__u32 ")?.split(';').next()).collect();
        assert_eq!(names, ["recorder_namespace", "initial", "follow"]);
    }
}
