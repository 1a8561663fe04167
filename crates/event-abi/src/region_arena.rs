//! The shared memory of feature-region events: one sparse file with a ring for each thread, written by the program's
//! threads at begins and ends of regions and emptied by the recorder.
//!
//! Two writers use the same rings: the runtime that `transect-cc` links into programs with compiled-in events, which
//! finds its ring through thread-local storage, and the probe agent's handler at sites that are switched on in a running
//! program, which finds it by the thread's number. A ring belongs to one thread at a time; the recorder gives it to
//! another once its thread is gone and it is empty.
//!
//! An event: the thread reads the clock, takes a place by one `xadd` of [`RingRecord::written`] (not locked: only a signal
//! handler of the same thread may come between), stores time and stack pointer, and `what` last. The recorder reads places
//! up to the first whose `what` is still 0, and zeroes what it has read.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// `b"TRREGIO1"` as a little-endian integer.
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"TRREGIO1");
/// Layout version.
pub const REGION_VERSION: u32 = 2;
/// Name of the file, as in `/proc/PID/maps`: `/memfd:transect-regions (deleted)`.
pub const REGION_FILE_NAME: &str = "transect-regions";
/// Environment variable that names the file to a program with compiled-in events: `/proc/PID/fd/N` of the recorder.
pub const REGION_FILE_VARIABLE: &str = "TRANSECT_REGION_FILE";

/// Rings in the file.
pub const RING_CAPACITY: usize = 4096;
/// Offset of the [`RingRecord`] array.
pub const RINGS_OFFSET: u64 = 4096;
/// Places in the table of threads; a power of two.
pub const THREAD_SLOTS: usize = 1 << 14;
/// Bits of a thread's hash that are dropped, see [`thread_hash`].
pub const THREAD_HASH_SHIFT: u32 = 32 - THREAD_SLOTS.trailing_zeros();
/// Places of the table that are looked at for one thread.
pub const THREAD_SEARCH: usize = 64;
/// Offset of the table of threads: 8 bytes each, the thread's number in the low half, its ring's number plus one in the
/// high half (0: it has none any more); all zero: never used.
pub const THREADS_OFFSET: u64 = RINGS_OFFSET + (RING_CAPACITY * size_of::<RingRecord>()) as u64;
/// Events in one ring; a power of two.
pub const RING_EVENTS: usize = 1 << 15;
/// Bytes of one ring's events.
pub const RING_SIZE: u64 = (RING_EVENTS * size_of::<RegionEvent>()) as u64;
/// Offset of the first ring's events.
pub const EVENTS_OFFSET: u64 = (THREADS_OFFSET + THREAD_SLOTS as u64 * 8).next_multiple_of(4096);
/// Size of the file.
pub const REGION_FILE_SIZE: u64 = RESTORES_OFFSET + RESTORE_SLOTS as u64 * 16;
/// Offset of the table of [`RestoreRecord`]s.
pub const RESTORES_OFFSET: u64 = EVENTS_OFFSET + RING_CAPACITY as u64 * RING_SIZE;
/// Entries of the table of restoring sites (power of two).
pub const RESTORE_SLOTS: usize = 1 << 16;
/// Entries that are looked at for a site, from [`restore_place`] on.
pub const RESTORE_SEARCH: usize = 64;
/// Events at which a ring counts as full: the rest is for signal handlers that run between the look and the event.
pub const RING_FULL: u64 = RING_EVENTS as u64 - 64;
/// Events at which its thread rings the bell.
pub const RING_HALF: u64 = RING_EVENTS as u64 / 2;

/// A full ring's thread waits until the recorder has made room: nothing is lost.
pub const POLICY_BLOCK: u32 = 0;
/// A full ring's thread counts the event and goes on.
pub const POLICY_COUNT: u32 = 1;

/// Head of the file.
#[repr(C)]
pub struct RegionHeader {
    /// [`REGION_MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`REGION_VERSION`].
    pub version: AtomicU32,
    /// A `POLICY_` value.
    pub policy: AtomicU32,
    /// 1 while the recorder reads; threads write nothing, and wait for nothing, while it is 0.
    pub recording: AtomicU32,
    /// Pid of the recorder, so that a thread that waits for room can tell whether it still lives; 0 if the program may not
    /// know it by that number.
    pub recorder: AtomicU32,
    /// Rings ever given out: those at and above it were never used.
    pub ring_count: AtomicU32,
    /// Raised by threads whose ring is half full or that wait; a futex word on which the recorder sleeps while it is 0.
    pub bell: AtomicU32,
    /// Events of threads that found no ring.
    pub refused: AtomicU64,
    /// Objects that want to be looked at.
    pub loads: [LoadRecord; LOAD_CAPACITY],
}

/// Objects that can want to be looked at, at the same time.
pub const LOAD_CAPACITY: usize = 32;
/// Nobody's.
pub const LOAD_FREE: u32 = 0;
/// Being filled in.
pub const LOAD_TAKEN: u32 = 1;
/// The recorder shall look at the process' mappings; a thread waits for it.
pub const LOAD_ASKED: u32 = 2;
/// It has; a futex word.
pub const LOAD_DONE: u32 = 3;

/// A runtime that was just loaded, with the object it is linked into.
#[repr(C)]
pub struct LoadRecord {
    /// A `LOAD_` value.
    pub state: AtomicU32,
    /// Process, as the program sees it.
    pub pid: AtomicI32,
    /// See [`RingRecord::image`].
    pub image: AtomicU64,
}

/// Nobody's.
pub const RING_FREE: u32 = 0;
/// A thread's.
pub const RING_USED: u32 = 1;
/// Its thread is gone; events may be left in it.
pub const RING_ENDED: u32 = 2;

/// One thread's ring. The two halves are written by different sides and lie on lines of their own.
#[repr(C, align(64))]
pub struct RingRecord {
    /// A `RING_` value; taken by compare-and-swap.
    pub state: AtomicU32,
    /// Kernel thread id, as the program sees it.
    pub tid: AtomicI32,
    /// Process id, as the program sees it.
    pub pid: AtomicI32,
    /// Zero.
    pub reserved: u32,
    /// Time stamp counter when the thread took it.
    pub start_ticks: AtomicU64,
    /// Places ever taken; the thread's alone.
    pub written: AtomicU64,
    /// Events that found no room.
    pub dropped: AtomicU64,
    /// Times that the thread waited for room.
    pub waited: AtomicU64,
    /// Value of `written` at which the thread looks how far the recorder is; so it seldom reads the other line.
    pub look_at: AtomicU64,
    /// Address of the ring's events in the process.
    pub events: AtomicU64,
    /// Events ever read; the recorder's alone. A futex word (its low half) for a thread that waits for room.
    pub read: AtomicU64,
    /// Tells programs apart that ran in one process one after the other: the first eight of the kernel's random bytes
    /// (`AT_RANDOM`); 0 if the writer doesn't know them.
    pub image: AtomicU64,
    /// Name of the thread when it took the ring, as the kernel has it.
    pub name: [AtomicU64; 2],
    /// Ticks that the thread waited for room; 0 from runtimes that do not count them.
    pub waited_ticks: AtomicU64,
    /// Zero.
    pub reserved2: [u64; 3],
}

/// Region begins.
pub const EVENT_BEGIN: u64 = 0;
/// Region ends.
pub const EVENT_END: u64 = 1;
/// An exception was caught or `setjmp` returned again: regions begun by frames below, and those of this frame deeper than
/// the site's depth, were left.
pub const EVENT_RESTORE: u64 = 2;
/// Bits of [`RegionEvent::what`] below the kind.
pub const EVENT_KIND_SHIFT: u32 = 62;

/// One event.
#[repr(C)]
#[derive(Debug)]
pub struct RegionEvent {
    /// Time stamp counter.
    pub ticks: AtomicU64,
    /// Kind in the two highest bits (`EVENT_`), below it the address of the site in the process; 0: not there yet.
    pub what: AtomicU64,
    /// Stack pointer at the site: an open region of a frame below it was left by unwinding.
    pub stack: AtomicU64,
}

/// Where the search for a thread begins in the table.
pub fn thread_hash(tid: u32) -> usize {
    (tid.wrapping_mul(0x9E37_79B1) >> THREAD_HASH_SHIFT) as usize
}

const _: () = assert!(size_of::<RegionHeader>() <= RINGS_OFFSET as usize);
const _: () = assert!(size_of::<RingRecord>() == 128);
const _: () = assert!(size_of::<RegionEvent>() == 24);
const _: () = assert!(core::mem::offset_of!(RingRecord, read) == 64);

/// How many regions of its frame stay open at a restoring site: for the agent that counts calls by region. Written by the
/// recorder when it looks at a program's objects.
#[repr(C)]
pub struct RestoreRecord {
    /// See [`restore_key`]; 0: none. Written last.
    pub key: AtomicU64,
    /// The regions.
    pub regions: AtomicU64,
}

/// Tells a site of one program in memory from those of others.
pub fn restore_key(site: u64, image: u64) -> u64 {
    site.wrapping_add(image.rotate_left(17)) | 1 << 63
}

/// Where the search for a site begins in the table.
pub fn restore_place(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RESTORE_SLOTS.trailing_zeros())) as usize
}

const _: () = assert!(size_of::<RestoreRecord>() == 16);
