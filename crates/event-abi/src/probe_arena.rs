//! The shared memory of probes in another process: one sparse file, made by the controller (`transect probe`,
//! `transect latency`) and mapped twice in the process: writable for data and for the words that switch probes,
//! executable for the trampolines. Where either side stores to it, the other side sees it; so the controller switches
//! a probe by one aligned store, and no thread of its own is needed inside.
//!
//! A child made by fork shares it with its parent: their counts add up.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// `b"TRPROBE1"` as a little-endian integer.
pub const PROBE_MAGIC: u64 = u64::from_le_bytes(*b"TRPROBE1");
/// Layout version.
pub const PROBE_VERSION: u32 = 6;
/// Name of the file, as in `/proc/PID/maps`: `/memfd:transect-probes (deleted)`.
pub const PROBE_FILE_NAME: &str = "transect-probes";

/// Sites in one process.
pub const SITE_CAPACITY: usize = 131_072;
/// Offset of the [`SiteRecord`] array.
pub const SITES_OFFSET: u64 = 64 << 10;
/// Shards of the counters: threads are spread over them, so that two of them seldom share a line.
pub const SHARDS: usize = 16;
/// Offset of the shards: [`SHARDS`] arrays of [`SITE_CAPACITY`] × [`SiteCounters`].
pub const SHARDS_OFFSET: u64 = SITES_OFFSET + (SITE_CAPACITY * size_of::<SiteRecord>()) as u64;
/// Offset of the histograms: [`SITE_CAPACITY`] × [`crate::thread::HISTOGRAM_BUCKETS`] × `AtomicU32`.
pub const HISTOGRAMS_OFFSET: u64 = SHARDS_OFFSET + (SHARDS * SITE_CAPACITY * size_of::<SiteCounters>()) as u64;
/// Bytes of one histogram.
pub const HISTOGRAM_SIZE: u64 = crate::thread::HISTOGRAM_BUCKETS as u64 * 4;
/// Offset of one byte per site: 1 once a latency probe has switched itself off. The controller reads these few lines
/// instead of all sites, clears the byte and switches the probe on again.
pub const DISARMED_OFFSET: u64 = HISTOGRAMS_OFFSET + SITE_CAPACITY as u64 * HISTOGRAM_SIZE;
/// Offset of the [`CallerRules`] array.
pub const RULES_OFFSET: u64 = DISARMED_OFFSET + SITE_CAPACITY as u64;
/// Functions that can be timed by their callers at once.
pub const RULES_CAPACITY: usize = 64;
/// Offset of the code regions; a multiple of 2 MiB.
pub const CODE_OFFSET: u64 =
    (RULES_OFFSET + (RULES_CAPACITY * size_of::<CallerRules>()) as u64).next_multiple_of(2 << 20);
/// Size of the file's part for code.
pub const CODE_SIZE: u64 = 256 << 20;
/// Size of the file.
pub const PROBE_FILE_SIZE: u64 = CODE_OFFSET + CODE_SIZE;
/// Code regions: one for each neighbourhood of ±2 GiB that has objects.
pub const REGION_CAPACITY: usize = 64;

/// A mapping of trampolines near the objects they serve.
#[repr(C)]
pub struct RegionRecord {
    /// Address of the executable mapping in the process.
    pub address: AtomicU64,
    /// Bytes.
    pub size: AtomicU64,
    /// Offset in the file.
    pub file_offset: AtomicU64,
    /// Bytes given out.
    pub used: AtomicU64,
}

/// Head of the file.
#[repr(C)]
pub struct ProbeHeader {
    /// [`PROBE_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`PROBE_VERSION`].
    pub version: AtomicU32,
    /// Sites given out, including those of closed objects.
    pub site_count: AtomicU32,
    /// Address of the whole file's writable mapping in the process.
    pub writable: AtomicU64,
    /// Descriptor of the file in the process, -1 if it was closed.
    pub descriptor: AtomicI32,
    /// Pid of the controller at work, 0 for none: there is one at a time.
    pub controller: AtomicU32,
    /// Address of the probe agent's image in the process.
    pub agent: AtomicU64,
    /// Bytes of it.
    pub agent_size: AtomicU64,
    /// Raised when the loader has added or removed objects; a futex word.
    pub loader_events: AtomicU32,
    /// The last loader event that the controller has dealt with; a futex word on which the loader's thread waits
    /// shortly.
    pub loader_done: AtomicU32,
    /// Timed calls left by unwinding.
    pub abandoned: AtomicU64,
    /// Calls not timed for want of a frame.
    pub untimed: AtomicU64,
    /// Returns whose frame was not found: always 0, unless memory is being overwritten.
    pub lost_returns: AtomicU64,
    /// Ticks that an empty timed call shows; taken off every duration by the reader.
    pub empty_ticks: AtomicU64,
    /// Switches off made by threads that passed a probe.
    pub self_toggles: AtomicU64,
    /// Code regions in use.
    pub region_count: AtomicU32,
    /// 1 once a thread has put itself under a filter of system calls: from then on handlers make none.
    pub confined: AtomicU32,
    /// Calls whose thread's clock or counter could not be read at entry and return.
    pub unread: AtomicU64,
    /// Address of the loader's `struct r_debug` in the process; 0 if unknown: every event is told then.
    pub loader_list: AtomicU64,
    /// [`object_hash`] of the objects whose coming and going is not told, 0 for none.
    pub left_alone: [AtomicU64; LEFT_ALONE_CAPACITY],
    /// Code regions.
    pub regions: [RegionRecord; REGION_CAPACITY],
}

/// Objects whose coming and going is not told.
pub const LEFT_ALONE_CAPACITY: usize = 32;

/// An object by its name in the loader's list (FNV-1a), never 0.
pub fn object_hash(name: &[u8]) -> u64 {
    let hash = |h: u64, &byte: &u8| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, hash).max(1)
}

/// Nothing is there (any more).
pub const SITE_FREE: u32 = 0;
/// The jump stands in the text.
pub const SITE_INSTALLED: u32 = 1;
/// The object was unloaded.
pub const SITE_GONE: u32 = 2;
/// The original bytes are back.
pub const SITE_RESTORED: u32 = 3;

/// One site.
#[repr(C, align(64))]
pub struct SiteRecord {
    /// Address of the window in the process.
    pub address: AtomicU64,
    /// Address of the word that switches it, in the writable mapping; 8-aligned.
    pub word: AtomicU64,
    /// The word's value while the probe is on.
    pub on: AtomicU64,
    /// The word's value while it is off.
    pub off: AtomicU64,
    /// Samples that may still be taken before the probe switches itself off (latency only).
    pub remaining: AtomicI32,
    /// A `SITE_` value.
    pub state: AtomicU32,
    /// Load address (bias) of its object.
    pub bias: AtomicU64,
    /// Virtual address of its function in the object.
    pub function: AtomicU64,
    /// Address of its trampoline.
    pub trampoline: AtomicU64,
    /// Longest duration, ticks.
    pub max_ticks: AtomicU64,
    /// Length of the window.
    pub window_length: AtomicU32,
    /// The command that wrote the jump last, by a number that it drew; 0 if none has, or if it is to stay.
    pub writer: AtomicU32,
    /// Original bytes of the window, zero-padded.
    pub original: [AtomicU64; 3],
    /// Time stamp counter when the controller switched it on, with [`NOT_CALLED`], then of the first call since; 0 once somebody
    /// has taken the time (latency only).
    pub armed_at: AtomicU64,
    /// Ticks from first calls to those that found the grant used up (latency only).
    pub on_ticks: AtomicU64,
    /// How often the controller has switched it on (latency only): [`FIRST_WINDOW`] at first.
    pub window: AtomicU32,
    /// Ticks for which it was switched on and not called yet, in units of `1 << UNTIL_FIRST_SHIFT`, modulo 2³² (latency only).
    pub until_first: AtomicU32,
}

/// [`SiteRecord::window`] while the probe is on for the first time.
pub const FIRST_WINDOW: u32 = 1;

/// Bit of [`SiteRecord::armed_at`]: nobody has called the function since.
pub const NOT_CALLED: u64 = 1;

/// See [`SiteRecord::until_first`].
pub const UNTIL_FIRST_SHIFT: u32 = 10;

/// Counts of one site in one shard; add the shards up.
#[repr(C, align(32))]
pub struct SiteCounters {
    /// Calls that met the probe switched on.
    pub calls: AtomicU64,
    /// Calls timed.
    pub samples: AtomicU64,
    /// Their ticks, [`ProbeHeader::empty_ticks`] included.
    pub ticks: AtomicU64,
    /// Calls timed that began in the probe's first window, and their ticks below [`FIRST_SHIFT`] bits of them.
    pub first: AtomicU64,
}

/// See [`SiteCounters::first`]: ticks of a day and a half.
pub const FIRST_SHIFT: u32 = 48;

/// A range of addresses; empty if `size` is 0.
#[repr(C)]
#[derive(Debug)]
pub struct CallerRange {
    /// First address.
    pub low: AtomicU64,
    /// Bytes.
    pub size: AtomicU64,
}

/// Callees of one function that are told apart at once.
pub const CALLEES: usize = 4;

/// Of a function timed by its callers: whose calls count, and when it switches itself off. Written by the controller
/// while the probe is off.
#[repr(C, align(64))]
pub struct CallerRules {
    /// Which callee it is, below [`CALLEES`].
    pub index: AtomicU32,
    /// 1 once it has switched itself off.
    pub used_up: AtomicU32,
    /// Calls of a thread that are timed, then it switches itself off.
    pub limit: AtomicU64,
    /// Calls that did not count, by any thread; approximate, for threads don't wait for each other.
    pub misses: AtomicU64,
    /// Misses after which it switches itself off.
    pub miss_limit: AtomicU64,
    /// Zero.
    pub reserved: [u64; 4],
    /// Code that its calls must return to.
    pub callers: [CallerRange; 4],
    /// Trampolines of functions that may jump to it instead of calling: a function that is timed and ends in a jump
    /// leaves its return site on the stack.
    pub jumpers: [CallerRange; 4],
}

const _: () = assert!(size_of::<CallerRules>() == 192);
const _: () = assert!(RULES_OFFSET.is_multiple_of(64));
const _: () = assert!(size_of::<SiteRecord>() == 128);
const _: () = assert!(size_of::<SiteCounters>() == 32);
const _: () = assert!(size_of::<ProbeHeader>() <= SITES_OFFSET as usize);
