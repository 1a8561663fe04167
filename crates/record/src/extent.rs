//! Extents as plain data: what the agent wrote, read through the file without disturbing it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use transect_event_abi::arena::EXTENT_CONTEXT;
use transect_event_abi::context::{CONTEXT_DEPTH, ContextHeader};
pub use transect_event_abi::process::HOLD_SCALE;
use transect_event_abi::process::{
    BYTES_OFFSET, CLOCK_KERNEL, CLOCK_LOST, NAMES_CAPACITY, NAMES_OFFSET, OBJECT_CAPACITY, OBJECTS_OFFSET,
    ObjectRecord, ProcessHeader, SLOT_CAPACITY, SLOT_DLSYM, SLOTS_OFFSET, SlotRecord,
};
use transect_event_abi::thread::{
    CALLED_BACK_OFFSET, COUNTERS_OFFSET, CRITICALITY_OFFSET, CalledBack, FlowCounters, HISTOGRAM_BUCKETS,
    HISTOGRAM_CAPACITY, HISTOGRAMS_OFFSET, LOCK_CAPACITY, LOCKS_OFFSET, LockRecord, TRACE_CAPACITY, TRACE_OFFSET,
    ThreadHeader, TraceRecord, WAIT_CAPACITY, WAITS_OFFSET, WaitRecord,
};

use crate::arena::Arena;

/// Little-endian fields at known offsets.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.0[at..at + 2].try_into().unwrap_or_default())
    }
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap_or_default())
    }
    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap_or_default())
    }
    fn text(&self, at: usize, capacity: usize) -> String {
        String::from_utf8_lossy(self.until_zero(at, capacity)).into_owned()
    }
    fn until_zero(&self, at: usize, capacity: usize) -> &'a [u8] {
        let field = &self.0[at..at + capacity];
        let end = field.iter().position(|&b| b == 0).unwrap_or(capacity);
        &field[..end]
    }
}

/// One object of a process.
#[derive(Debug, Clone)]
pub struct Object {
    /// Load bias.
    pub base: u64,
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// `OBJECT_` bits.
    pub flags: u32,
    /// Build-id, hexadecimal.
    pub build_id: String,
    /// Slots left because their address is taken.
    pub address_taken: u32,
    /// Slots refused.
    pub refused: u32,
    /// Slots left for want of a plan.
    pub unplanned: u32,
    /// The object that a static component is part of.
    pub parent: Option<u32>,
    /// Path, as it is shown.
    pub path: String,
    /// Path, by which the file can be opened: its bytes need not be UTF-8.
    pub file: PathBuf,
}

/// One slot of a process.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Calling object.
    pub caller: u16,
    /// Called object, if known.
    pub callee: Option<u16>,
    /// Symbol index or name offset.
    pub symbol: u32,
    /// Class number.
    pub class: u8,
    /// `SLOT_` flags.
    pub flags: u8,
    /// Histogram number.
    pub histogram: Option<u32>,
    /// Bytes summed.
    pub bytes: u64,
    /// Address of the target once known.
    pub target: u64,
}

/// A process extent.
#[derive(Debug, Clone)]
pub struct Process {
    /// Index of the extent.
    pub extent: u32,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub parent_pid: u32,
    /// Start, ticks.
    pub start: u64,
    /// Active-thread clock: packed time and count, integral.
    pub active: (u64, u64),
    /// Children without agent, by reason.
    pub unprofiled: [u32; 10],
    /// Calls that found no frame.
    pub frames_refused: u64,
    /// Slots that found no number.
    pub slots_refused: u64,
    /// Calls made by threads past their last destructor.
    pub late_calls: u64,
    /// Objects loaded after the program restricted its system calls, at most at once.
    pub confined_objects: u32,
    /// A thread gave up the time stamp counter.
    pub clock_gone: bool,
    /// What the agent has taken to start and to hook objects, ticks.
    pub setup: u64,
    /// When its destructors ran, ticks; 0 if they never did.
    pub end: u64,
    /// Cost of a timed call, ticks.
    pub timed_call: u32,
    /// Cost of a timed call through Rust, ticks.
    pub sampled_call: u32,
    /// What an empty hold of a lock shows, and how much of a longer one is hidden in that, in 1/[`HOLD_SCALE`] ticks.
    pub empty_hold: u32,
    /// See `empty_hold`.
    pub hidden_hold: u32,
    /// Its times are by the kernel's clock of active threads, of this application.
    pub application: Option<u32>,
    /// They should have been, and are by the agent's own.
    pub clock_lost: bool,
    /// Executable.
    pub executable: String,
    /// Objects.
    pub objects: Vec<Object>,
    /// Slots by number.
    pub slots: BTreeMap<u32, Slot>,
    slot_count: usize,
    names: Vec<u8>,
}

/// Which process an extent belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// Index of the extent.
    pub extent: u32,
    /// Process id; 0 while the process registers.
    pub pid: u32,
    /// Start, ticks.
    pub start: u64,
}

impl Head {
    /// Reads the first words of a process extent.
    pub fn read(arena: &Arena, extent: u32) -> Head {
        let raw = arena.read(extent, 0, 64);
        let h = Bytes(&raw);
        Head {
            extent,
            pid: h.u32(offset_of!(ProcessHeader, pid)),
            start: h.u64(offset_of!(ProcessHeader, start_ticks)),
        }
    }
}

impl Process {
    /// Forgets all slots that no thread used.
    pub fn keep_used(&mut self, threads: &[Thread]) {
        let used: std::collections::HashSet<u32> = threads
            .iter()
            .flat_map(|t| {
                let locks = t.locks.iter().flat_map(|l| [l[7] as u32, (l[7] >> 32) as u32]);
                let traced = t.trace.iter().map(|e| e[1] as u32);
                let flows = t.flows.iter().chain(t.contexts.iter().flat_map(|c| &c.flows));
                flows.map(|f| f.0).chain(locks).chain(traced).chain([t.waiting_slot])
            })
            .collect();
        self.slots.retain(|number, _| used.contains(number));
        if self.slots.values().all(|slot| slot.flags & SLOT_DLSYM == 0) {
            self.names = Vec::new();
        }
    }

    /// Reads a process extent.
    pub fn read(arena: &Arena, extent: u32) -> Process {
        let raw = arena.read(extent, 0, size_of::<ProcessHeader>());
        let h = Bytes(&raw);
        let objects = (h.u32(offset_of!(ProcessHeader, object_count)) as usize).min(OBJECT_CAPACITY);
        let slots = (h.u32(offset_of!(ProcessHeader, slot_count)) as usize).min(SLOT_CAPACITY);
        let names = (h.u32(offset_of!(ProcessHeader, names_used)) as usize).min(NAMES_CAPACITY);
        let object_bytes = present(arena, extent, OBJECTS_OFFSET, objects * size_of::<ObjectRecord>());
        let unprofiled = std::array::from_fn(|i| h.u32(offset_of!(ProcessHeader, unprofiled) + 4 * i));
        Process {
            extent,
            pid: h.u32(offset_of!(ProcessHeader, pid)),
            parent_pid: h.u32(offset_of!(ProcessHeader, parent_pid)),
            start: h.u64(offset_of!(ProcessHeader, start_ticks)),
            active: (
                h.u64(offset_of!(ProcessHeader, active_packed)),
                h.u64(offset_of!(ProcessHeader, active_integral)),
            ),
            unprofiled,
            frames_refused: h.u64(offset_of!(ProcessHeader, frames_refused)),
            slots_refused: h.u64(offset_of!(ProcessHeader, slots_refused)),
            late_calls: h.u64(offset_of!(ProcessHeader, late_calls)),
            confined_objects: h.u32(offset_of!(ProcessHeader, confined_objects)),
            clock_gone: h.u32(offset_of!(ProcessHeader, clock_gone)) != 0,
            setup: h.u64(offset_of!(ProcessHeader, setup_ticks)),
            end: h.u64(offset_of!(ProcessHeader, end_ticks)),
            timed_call: h.u32(offset_of!(ProcessHeader, timed_call_ticks)),
            sampled_call: h.u32(offset_of!(ProcessHeader, sampled_call_ticks)),
            empty_hold: h.u32(offset_of!(ProcessHeader, empty_hold)),
            hidden_hold: h.u32(offset_of!(ProcessHeader, hidden_hold)),
            application: (h.u32(offset_of!(ProcessHeader, clock)) == CLOCK_KERNEL)
                .then(|| h.u32(offset_of!(ProcessHeader, application))),
            clock_lost: h.u32(offset_of!(ProcessHeader, clock)) == CLOCK_LOST,
            executable: h.text(offset_of!(ProcessHeader, executable), 1024),
            objects: object_bytes.chunks_exact(size_of::<ObjectRecord>()).map(|b| object(&Bytes(b))).collect(),
            slots: slot_records(arena, extent, slots),
            slot_count: slots,
            names: present(arena, extent, NAMES_OFFSET, names),
        }
    }

    /// Name asked for with dlsym.
    pub fn name(&self, offset: u32) -> String {
        let rest = self.names.get(offset as usize..).unwrap_or(&[]);
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    /// The ELF object of a component: a static component's is the one that it is part of.
    pub fn file_of(&self, index: usize) -> Option<&Object> {
        let object = self.objects.get(index)?;
        match object.parent {
            Some(parent) => self.objects.get(parent as usize),
            None => Some(object),
        }
    }

    /// Index of the loaded object that holds an address.
    pub fn object_at(&self, address: u64) -> Option<usize> {
        self.objects.iter().position(|o| address >= o.start && address < o.end)
    }

    /// The active-thread integral at a time stamp.
    pub fn integral(&self, epoch: u64, ticks: u64) -> u64 {
        let now = ticks.saturating_sub(epoch);
        let (packed, sum) = self.active;
        if packed == 0 {
            return now;
        }
        sum.wrapping_add(now.saturating_sub(packed >> 12) / (packed & 0xfff).max(1))
    }
}

/// Slots of the pages that were written: a count alone costs nothing.
fn slot_records(arena: &Arena, extent: u32, count: usize) -> BTreeMap<u32, Slot> {
    const SIZE: usize = size_of::<SlotRecord>();
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (at, part) in data(arena, extent, BYTES_OFFSET, count * 8) {
        let numbers = (at / 8) as u32..;
        sums.extend(numbers.zip(part.chunks_exact(8).map(|b| Bytes(b).u64(0))).filter(|sum| sum.1 != 0));
    }
    let mut found = BTreeMap::new();
    for (at, part) in data(arena, extent, SLOTS_OFFSET, count * SIZE) {
        let numbers = (at / SIZE) as u32..;
        for (number, b) in numbers.zip(part.chunks_exact(SIZE)) {
            // A record of zeros is none.
            if b.iter().any(|&byte| byte != 0) {
                found.insert(number, slot(&Bytes(b), sums.get(&number).copied().unwrap_or(0)));
            }
        }
    }
    found
}

fn object(b: &Bytes<'_>) -> Object {
    let len = (b.u32(offset_of!(ObjectRecord, build_id_len)) as usize).min(32);
    let at = offset_of!(ObjectRecord, build_id);
    Object {
        base: b.u64(offset_of!(ObjectRecord, base)),
        start: b.u64(offset_of!(ObjectRecord, start)),
        end: b.u64(offset_of!(ObjectRecord, end)),
        flags: b.u32(offset_of!(ObjectRecord, flags)),
        build_id: b.0[at..at + len].iter().map(|x| format!("{x:02x}")).collect(),
        address_taken: b.u32(offset_of!(ObjectRecord, address_taken)),
        refused: b.u32(offset_of!(ObjectRecord, refused)),
        unplanned: b.u32(offset_of!(ObjectRecord, unplanned)),
        parent: b.u32(offset_of!(ObjectRecord, parent_plus_one)).checked_sub(1),
        path: b.text(offset_of!(ObjectRecord, path), 928),
        file: Path::new(OsStr::from_bytes(b.until_zero(offset_of!(ObjectRecord, path), 928))).to_owned(),
    }
}

fn slot(b: &Bytes<'_>, bytes: u64) -> Slot {
    let [class, _, flags, _] = b.u32(offset_of!(SlotRecord, kind)).to_le_bytes();
    let histogram = b.u32(offset_of!(SlotRecord, histogram_plus_one));
    Slot {
        caller: b.u16(offset_of!(SlotRecord, caller)),
        callee: b.u16(offset_of!(SlotRecord, callee_plus_one)).checked_sub(1),
        symbol: b.u32(offset_of!(SlotRecord, symbol)),
        class,
        flags,
        histogram: histogram.checked_sub(1).filter(|&n| (n as usize) < HISTOGRAM_CAPACITY),
        bytes,
        target: b.u64(offset_of!(SlotRecord, target)),
    }
}

/// Counters of one flow on one thread.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Calls entered.
    pub calls: i64,
    /// Timed calls.
    pub timed: u64,
    /// Calls for which the timed ones stand: all but those since the last timed one.
    pub represented: i64,
    /// Ticks, entry to return.
    pub total: u64,
    /// Ticks less calls into other components.
    pub own: i64,
    /// Attributed ticks.
    pub attributed: u64,
    /// Criticality, ticks, where the kernel's clock is used.
    pub criticality: u64,
    /// Of `own`, in calls that callbacks made; of these, between the same two components. As `own`.
    pub called_back: (u64, u64),
    /// Σ k(k−1)·d², Σ k(k−1).
    pub variance: (f32, f32),
    /// Never timed.
    pub count_only: bool,
    /// Left by unwinding.
    pub abandoned: u16,
    /// Buckets of the histogram.
    pub histogram: Vec<u32>,
}

/// A context's extent: what a thread called while it was in a stack of feature regions.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where the regions began, outermost first: addresses in the process.
    pub sites: Vec<u64>,
    /// Counters by slot.
    pub flows: Vec<(u32, Counters)>,
}

impl Context {
    fn read(arena: &Arena, extent: u32, process: &Process) -> Context {
        let raw = arena.read(extent, 0, size_of::<ContextHeader>());
        let h = Bytes(&raw);
        let depth = (h.u32(offset_of!(ContextHeader, depth)) as usize).min(CONTEXT_DEPTH);
        Context {
            sites: (0..depth).map(|i| h.u64(offset_of!(ContextHeader, sites) + 8 * i)).collect(),
            flows: flows(arena, extent, process),
        }
    }

    /// The extents of contexts among all, by the extent of their thread.
    pub fn by_thread(arena: &Arena, extents: &[(u32, u32)]) -> HashMap<u32, Vec<u32>> {
        let mut found: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(extent, _) in extents.iter().filter(|e| e.1 == EXTENT_CONTEXT) {
            let raw = arena.read(extent, 0, size_of::<ContextHeader>());
            let h = Bytes(&raw);
            if h.u32(offset_of!(ContextHeader, depth)) > 0 {
                found.entry(h.u32(offset_of!(ContextHeader, thread))).or_default().push(extent);
            }
        }
        found
    }
}

/// A thread extent.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Kernel thread id.
    pub tid: u32,
    /// Start, ticks.
    pub start: u64,
    /// End, ticks; 0 while it lives.
    pub end: u64,
    /// Integral at start and end: ticks of the agent's own clock, or ns in fixed point of the kernel's.
    pub integral: (u64, u64),
    /// Its record in the published pages, with the task number that it must have.
    pub published: Option<(u32, u32)>,
    /// The kernel's clock at its end, where it has not noted that itself.
    pub last_attribution: Option<u64>,
    /// Timed calls whose criticality is not known.
    pub unmeasured: u64,
    /// Begins of feature regions that could not be told apart.
    pub merged_regions: u64,
    /// Start routine.
    pub start_routine: u64,
    /// Ticks waited.
    pub wait: u64,
    /// Waiting since, ticks; 0 = not.
    pub waiting_since: u64,
    /// Slot it waits in.
    pub waiting_slot: u32,
    /// Ticks in outermost timed calls, raw and attributed.
    pub outermost: (u64, u64),
    /// Calls not timed for want of frames.
    pub untimed: u64,
    /// Locks and waits that found no room.
    pub refused: (u64, u64),
    /// Name.
    pub name: String,
    /// Counters by slot.
    pub flows: Vec<(u32, Counters)>,
    /// The same while the thread was in feature regions.
    pub contexts: Vec<Context>,
    /// Locks, word by word (`transect_event_abi::thread::LockRecord`).
    pub locks: Vec<[u64; 16]>,
    /// Waits: slot, object, count, ticks.
    pub waits: Vec<[u64; 4]>,
    /// Traced calls: ticks, slot, arguments.
    pub trace: Vec<[u64; 8]>,
    /// Events that the ring lost.
    pub trace_lost: u64,
}

impl Thread {
    /// Ticks that it lived until `end`, or its own.
    pub fn life(&self, end: u64) -> u64 {
        if self.end != 0 { self.end } else { end }.saturating_sub(self.start)
    }

    /// Reads a thread extent and those of its contexts.
    pub fn read(arena: &Arena, extent: u32, contexts: &[u32], process: &Process) -> Thread {
        let raw = arena.read(extent, 0, size_of::<ThreadHeader>());
        let h = Bytes(&raw);
        let name_at = offset_of!(ThreadHeader, name);
        let written = h.u64(offset_of!(ThreadHeader, trace_count));
        Thread {
            tid: h.u32(offset_of!(ThreadHeader, tid)),
            start: h.u64(offset_of!(ThreadHeader, start_ticks)),
            end: h.u64(offset_of!(ThreadHeader, end_ticks)),
            integral: (h.u64(offset_of!(ThreadHeader, start_integral)), h.u64(offset_of!(ThreadHeader, end_integral))),
            published: h
                .u32(offset_of!(ThreadHeader, published_plus_one))
                .checked_sub(1)
                .map(|index| (index, h.u32(offset_of!(ThreadHeader, published_task)))),
            last_attribution: None,
            unmeasured: h.u64(offset_of!(ThreadHeader, unmeasured)),
            merged_regions: h.u64(offset_of!(ThreadHeader, merged_regions)),
            start_routine: h.u64(offset_of!(ThreadHeader, start_routine)),
            wait: h.u64(offset_of!(ThreadHeader, wait_ticks)),
            waiting_since: h.u64(offset_of!(ThreadHeader, waiting_since)),
            waiting_slot: h.u32(offset_of!(ThreadHeader, waiting_slot)),
            outermost: (
                h.u64(offset_of!(ThreadHeader, outermost_ticks)),
                h.u64(offset_of!(ThreadHeader, outermost_attributed)),
            ),
            untimed: h.u64(offset_of!(ThreadHeader, untimed)),
            refused: (h.u64(offset_of!(ThreadHeader, locks_refused)), h.u64(offset_of!(ThreadHeader, waits_refused))),
            name: h.text(name_at, 16),
            flows: flows(arena, extent, process),
            contexts: contexts.iter().map(|&c| Context::read(arena, c, process)).collect(),
            locks: table::<16>(arena, extent, LOCKS_OFFSET, LOCK_CAPACITY * size_of::<LockRecord>()),
            waits: table::<4>(arena, extent, WAITS_OFFSET, WAIT_CAPACITY * size_of::<WaitRecord>()),
            trace: trace(arena, extent, written),
            trace_lost: written.saturating_sub(TRACE_CAPACITY as u64),
        }
    }
}

/// Reads only the pages of a table that hold data.
fn data(arena: &Arena, extent: u32, offset: usize, length: usize) -> Vec<(usize, Vec<u8>)> {
    const PAGE: usize = 4096;
    let mut parts = Vec::new();
    let mut at = offset;
    while let Some(start) = arena.next_data(extent, at, offset + length) {
        let start = start.max(offset) & !(PAGE - 1);
        let n = PAGE.min(offset + length - start);
        parts.push((start - offset, arena.read(extent, start, n)));
        at = start + PAGE;
    }
    parts
}

/// A part of an extent up to its last page with data: what a program only claims takes no memory of ours.
fn present(arena: &Arena, extent: u32, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, part) in data(arena, extent, offset, length) {
        bytes.resize(at, 0);
        bytes.extend_from_slice(&part);
    }
    bytes
}

fn table<const N: usize>(arena: &Arena, extent: u32, offset: usize, length: usize) -> Vec<[u64; N]> {
    let mut rows = Vec::new();
    for (_, part) in data(arena, extent, offset, length) {
        for row in part.chunks_exact(8 * N) {
            let row: [u64; N] = std::array::from_fn(|i| Bytes(row).u64(8 * i));
            if row[0] != 0 {
                rows.push(row);
            }
        }
    }
    rows
}

fn flows(arena: &Arena, extent: u32, process: &Process) -> Vec<(u32, Counters)> {
    let length = process.slot_count * size_of::<FlowCounters>();
    let mut criticality: BTreeMap<u32, u64> = BTreeMap::new();
    if process.application.is_some() {
        for (at, part) in data(arena, extent, CRITICALITY_OFFSET, process.slot_count * 8) {
            let sums = part.chunks_exact(8).map(|b| Bytes(b).u64(0));
            criticality.extend((at as u32 / 8..).zip(sums).filter(|s| s.1 != 0));
        }
    }
    let mut called_back: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (at, part) in data(arena, extent, CALLED_BACK_OFFSET, process.slot_count * size_of::<CalledBack>()) {
        let sums = part.chunks_exact(size_of::<CalledBack>()).map(|raw| {
            let b = Bytes(raw);
            (b.u64(offset_of!(CalledBack, ticks)), b.u64(offset_of!(CalledBack, same_edge)))
        });
        called_back.extend(((at / size_of::<CalledBack>()) as u32..).zip(sums).filter(|sums| sums.1.0 != 0));
    }
    let mut histograms = HistogramsOnce::default();
    let mut found = Vec::new();
    for (at, part) in data(arena, extent, COUNTERS_OFFSET, length) {
        for (i, raw) in part.chunks_exact(size_of::<FlowCounters>()).enumerate() {
            let b = Bytes(raw);
            let left = b.u32(offset_of!(FlowCounters, countdown)) as i32 as i64;
            let issued = b.u64(offset_of!(FlowCounters, issued)) as i64;
            let calls = issued.wrapping_sub(left);
            // More than can be made in a year is damage.
            if calls <= 0 || calls > MOST_CALLS {
                continue;
            }
            let slot = (at / size_of::<FlowCounters>() + i) as u32;
            let v = b.u64(offset_of!(FlowCounters, variance));
            let (period, timed) = (b.u32(offset_of!(FlowCounters, period)), b.u64(offset_of!(FlowCounters, timed)));
            // No gap: the next call that is timed is none.
            let count_only = period == u32::MAX;
            found.push((
                slot,
                Counters {
                    calls,
                    timed,
                    represented: if count_only { timed as i64 } else { issued.wrapping_sub(i64::from(period)) },
                    total: b.u64(offset_of!(FlowCounters, total)),
                    own: b.u64(offset_of!(FlowCounters, own)) as i64,
                    attributed: b.u64(offset_of!(FlowCounters, attributed)),
                    criticality: criticality.get(&slot).copied().unwrap_or(0),
                    called_back: called_back.get(&slot).copied().unwrap_or_default(),
                    variance: (f32::from_bits(v as u32), f32::from_bits((v >> 32) as u32)),
                    count_only,
                    abandoned: b.u16(offset_of!(FlowCounters, abandoned)),
                    histogram: process
                        .slots
                        .get(&slot)
                        .and_then(|s| s.histogram)
                        .filter(|&number| histograms.take(number))
                        .map(|n| histogram(arena, extent, n))
                        .unwrap_or_default(),
                },
            ));
        }
    }
    found
}

/// Calls of one flow on one thread, at most: a year of a thousand million a second.
const MOST_CALLS: i64 = 1 << 55;

/// Each histogram of a thread belongs to one slot.
struct HistogramsOnce([bool; HISTOGRAM_CAPACITY]);

impl Default for HistogramsOnce {
    fn default() -> Self {
        Self([false; HISTOGRAM_CAPACITY])
    }
}

impl HistogramsOnce {
    fn take(&mut self, number: u32) -> bool {
        !std::mem::replace(&mut self.0[number as usize], true)
    }
}

fn histogram(arena: &Arena, extent: u32, number: u32) -> Vec<u32> {
    let at = HISTOGRAMS_OFFSET + number as usize * HISTOGRAM_BUCKETS * 4;
    arena.read(extent, at, HISTOGRAM_BUCKETS * 4).chunks_exact(4).map(|b| Bytes(b).u32(0)).collect()
}

fn trace(arena: &Arena, extent: u32, written: u64) -> Vec<[u64; 8]> {
    if written == 0 {
        return Vec::new();
    }
    let size = size_of::<TraceRecord>();
    let kept = written.min(TRACE_CAPACITY as u64);
    let mut rows: BTreeMap<usize, [u64; 8]> = BTreeMap::new();
    for (at, part) in data(arena, extent, TRACE_OFFSET, TRACE_CAPACITY * size) {
        let numbers = at / size..;
        let records = part.chunks_exact(size).map(|row| std::array::from_fn(|i| Bytes(row).u64(8 * i)));
        rows.extend(numbers.zip(records));
    }
    (written - kept..written).filter_map(|n| rows.get(&(n as usize & (TRACE_CAPACITY - 1))).copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use transect_event_abi::arena::EXTENT_SIZE;

    use super::*;

    const PROCESS: u32 = 1;
    const THREAD: u32 = 2;

    #[test]
    fn calls_are_those_issued_less_those_left() {
        let arena = Arena::unused();
        let memory = File::options().write(true).open(format!("/proc/self/fd/{}", arena.descriptor())).unwrap();
        let put = |extent: u32, offset: usize, bytes: &[u8]| {
            memory.write_all_at(bytes, extent as u64 * EXTENT_SIZE as u64 + offset as u64).unwrap();
        };
        put(PROCESS, offset_of!(ProcessHeader, slot_count), &100_u32.to_le_bytes());
        // Slots of two pages; in the last the stub has counted past zero.
        for (slot, issued, countdown) in [(3, 1000, 7), (4, 5, 5), (99, 8, -1)] {
            let at = COUNTERS_OFFSET + slot * size_of::<FlowCounters>();
            put(THREAD, at + offset_of!(FlowCounters, issued), &u64::to_le_bytes(issued));
            put(THREAD, at + offset_of!(FlowCounters, countdown), &i32::to_le_bytes(countdown));
        }
        let thread = Thread::read(&arena, THREAD, &[], &Process::read(&arena, PROCESS));
        let calls: Vec<(u32, i64)> = thread.flows.iter().map(|(slot, counters)| (*slot, counters.calls)).collect();
        assert_eq!(calls, [(3, 993), (99, 9)]);
    }

    /// Whoever can write the memory can claim what it likes: counts and extents cost what was written, not what they say.
    #[test]
    fn claims_without_data_cost_nothing() {
        let arena = Arena::unused();
        let memory = File::options().write(true).open(format!("/proc/self/fd/{}", arena.descriptor())).unwrap();
        let put = |extent: u32, offset: usize, bytes: &[u8]| {
            memory.write_all_at(bytes, extent as u64 * EXTENT_SIZE as u64 + offset as u64).unwrap();
        };
        for count in [
            offset_of!(ProcessHeader, object_count),
            offset_of!(ProcessHeader, slot_count),
            offset_of!(ProcessHeader, names_used),
        ] {
            put(PROCESS, count, &u32::MAX.to_le_bytes());
        }
        put(THREAD, offset_of!(ThreadHeader, trace_count), &u64::MAX.to_le_bytes());
        let process = Process::read(&arena, PROCESS);
        assert_eq!((process.objects.len(), process.slots.len(), process.names.len()), (0, 0, 0));
        let thread = Thread::read(&arena, THREAD, &[], &process);
        assert_eq!((thread.flows.len(), thread.trace.len(), thread.locks.len()), (0, 0, 0));
        // Impossible counters are none.
        put(THREAD, COUNTERS_OFFSET + offset_of!(FlowCounters, issued), &i64::MIN.to_le_bytes());
        put(THREAD, COUNTERS_OFFSET + offset_of!(FlowCounters, countdown), &1_i32.to_le_bytes());
        put(THREAD, COUNTERS_OFFSET + 64 + offset_of!(FlowCounters, issued), &(i64::MAX).to_le_bytes());
        assert_eq!(Thread::read(&arena, THREAD, &[], &process).flows.len(), 0);
    }

    #[test]
    fn programs_cannot_shorten_the_memory() {
        let arena = Arena::unused();
        let memory = File::options().write(true).open(format!("/proc/self/fd/{}", arena.descriptor())).unwrap();
        assert!(memory.set_len(0).is_err());
        // What ends is given back all the same.
        memory.write_all_at(&[1; 4096], EXTENT_SIZE as u64).unwrap();
        arena.free(PROCESS);
        assert_eq!(arena.read(PROCESS, 0, 4), [0; 4]);
    }
}
