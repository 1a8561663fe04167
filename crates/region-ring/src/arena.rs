//! Finding and taking a ring, and waiting for room in it.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use transect_event_abi::region_arena::{
    EVENTS_OFFSET, LOAD_ASKED, LOAD_DONE, LOAD_FREE, LOAD_TAKEN, POLICY_COUNT, REGION_FILE_SIZE, REGION_MAGIC,
    REGION_VERSION, RESTORE_SEARCH, RESTORE_SLOTS, RESTORES_OFFSET, RING_CAPACITY, RING_FREE, RING_FULL, RING_HALF,
    RING_SIZE, RING_USED, RINGS_OFFSET, RegionHeader, RestoreRecord, RingRecord, THREAD_SEARCH, THREAD_SLOTS,
    THREADS_OFFSET, restore_key, restore_place, thread_hash,
};

use crate::syscall;

/// One sleep of a thread that waits for room.
const NAP: u64 = 20_000_000;
/// Sleeps without any progress after which a recorder that can't be asked for is taken to be gone.
const PATIENCE: u32 = 250;
/// Longest wait until the recorder has looked at a new object, ns: it sleeps for milliseconds at most, or it is gone.
const LOAD_PATIENCE: u64 = 2_000_000_000;
/// Rings at the begin of the table that are looked at for a free one, before a new one is begun.
const REUSE: usize = 64;

/// The mapped file.
#[derive(Debug, Clone, Copy)]
pub struct Arena {
    base: u64,
}

/// Who takes a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Thread.
    pub tid: i32,
    /// Process.
    pub pid: i32,
    /// See [`RingRecord::image`].
    pub image: u64,
}

/// What a look at the ring said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The event may be written.
    Some,
    /// There is none, and it was counted.
    None,
    /// Nobody records any more.
    Over,
}

impl Arena {
    /// The file mapped at `base`; `None` if it is none of this version.
    ///
    /// # Safety
    /// [`REGION_FILE_SIZE`] bytes must be mapped there for reading and writing, shared, and stay so.
    pub unsafe fn at(base: u64) -> Option<Arena> {
        let arena = Arena { base };
        let header = arena.header();
        (header.magic.load(Acquire) == REGION_MAGIC && header.version.load(Relaxed) == REGION_VERSION).then_some(arena)
    }

    /// Opens and maps the file of this name, which ends in a zero byte; `None` if it is none.
    pub fn open(path: &[u8]) -> Option<Arena> {
        let file = syscall::open(path, true);
        if file < 0 {
            return None;
        }
        let whole = syscall::size(file) >= REGION_FILE_SIZE as i64;
        let base = if whole { syscall::map_shared(file, REGION_FILE_SIZE) } else { -1 };
        syscall::close(file);
        if base <= 0 {
            return None;
        }
        // SAFETY: just mapped, and nobody unmaps it. A file that was made shorter would fault; the recorder never does.
        let arena = unsafe { Arena::at(base as u64) }?;
        // It was there a moment ago: a number that nobody has is one of another pid namespace.
        let recorder = arena.header().recorder.load(Relaxed);
        if recorder != 0 && syscall::is_gone(recorder) {
            arena.header().recorder.store(0, Relaxed);
        }
        Some(arena)
    }

    /// Its address.
    pub fn base(self) -> u64 {
        self.base
    }

    /// Its head.
    pub fn header(self) -> &'static RegionHeader {
        // SAFETY: `at` was promised a mapping that is never unmapped; the header is atomics only, at its begin, page-aligned.
        unsafe { &*(self.base as *const RegionHeader) }
    }

    fn ring(self, index: usize) -> &'static RingRecord {
        let at = self.base + RINGS_OFFSET + ((index % RING_CAPACITY) * size_of::<RingRecord>()) as u64;
        // SAFETY: inside of the mapping, aligned, atomics only.
        unsafe { &*(at as *const RingRecord) }
    }

    fn slot(self, index: usize) -> &'static AtomicU64 {
        let at = self.base + THREADS_OFFSET + (index % THREAD_SLOTS * 8) as u64;
        // SAFETY: inside of the mapping, aligned.
        unsafe { &*(at as *const AtomicU64) }
    }

    /// The ring of this thread; `None`, and counted, if all are taken.
    pub fn ring_of(self, owner: Owner) -> Option<&'static RingRecord> {
        let Some(mut slot) = self.slot_of(owner.tid) else {
            self.header().refused.fetch_add(1, Relaxed);
            return None;
        };
        let number = (slot.load(Acquire) >> 32) as usize;
        if number != 0 {
            let ring = self.ring(number - 1);
            // Another program in this process before exec, or another thread of this number, may have left it.
            let same = ring.state.load(Acquire) == RING_USED
                && ring.tid.load(Relaxed) == owner.tid
                && ring.pid.load(Relaxed) == owner.pid
                && ring.image.load(Relaxed) == owner.image;
            if same {
                return Some(ring);
            }
        }
        let Some(index) = self.free_ring() else {
            self.header().refused.fetch_add(1, Relaxed);
            return None;
        };
        let ring = self.ring(index);
        ring.tid.store(owner.tid, Relaxed);
        ring.pid.store(owner.pid, Relaxed);
        ring.image.store(owner.image, Relaxed);
        for (word, value) in ring.name.iter().zip(syscall::thread_name()) {
            word.store(value, Relaxed);
        }
        ring.events.store(self.base + EVENTS_OFFSET + index as u64 * RING_SIZE, Relaxed);
        ring.look_at.store(0, Relaxed);
        let start = now();
        let mine = (index as u64 + 1) << 32 | u64::from(owner.tid as u32);
        // The recorder may take an ended ring out of the place meanwhile, or another thread the place itself, if all are
        // full: it has no ring yet.
        loop {
            let value = slot.load(Acquire);
            let own = value as u32 == owner.tid as u32;
            if own && slot.compare_exchange(value, mine, AcqRel, Relaxed).is_ok() {
                break;
            }
            let Some(other) = self.slot_of(owner.tid) else {
                ring.state.store(RING_FREE, Release);
                self.header().refused.fetch_add(1, Relaxed);
                return None;
            };
            slot = other;
        }
        // Last: the recorder gives a ring that has begun, but isn't its thread's place in the table, to others.
        ring.start_ticks.store(start, Release);
        Some(ring)
    }

    /// The thread's place in the table, made if need be.
    fn slot_of(self, tid: i32) -> Option<&'static AtomicU64> {
        let key = u64::from(tid as u32);
        let first = thread_hash(tid as u32);
        for index in first..first + THREAD_SEARCH {
            let slot = self.slot(index);
            let mut value = slot.load(Acquire);
            if value == 0 {
                match slot.compare_exchange(0, key, AcqRel, Acquire) {
                    Ok(_) => return Some(slot),
                    Err(other) => value = other,
                }
            }
            if value as u32 == tid as u32 {
                return Some(slot);
            }
        }
        // Full of threads that are gone: one of their places will do.
        (first..first + THREAD_SEARCH).map(|index| self.slot(index)).find(|slot| {
            let value = slot.load(Acquire);
            value >> 32 == 0 && slot.compare_exchange(value, key, AcqRel, Acquire).is_ok()
        })
    }

    fn free_ring(self) -> Option<usize> {
        let take = |index: usize| {
            self.ring(index).state.compare_exchange(RING_FREE, RING_USED, AcqRel, Relaxed).is_ok().then_some(index)
        };
        let count = &self.header().ring_count;
        let begun = (count.load(Acquire) as usize).min(RING_CAPACITY);
        if let Some(index) = (0..begun.min(REUSE)).find_map(take) {
            return Some(index);
        }
        // The recorder reads rings below the count only: one that another thread was quicker to take means the next one.
        while (count.load(Acquire) as usize) < RING_CAPACITY {
            let next = count.fetch_add(1, AcqRel) as usize;
            if next < RING_CAPACITY
                && let Some(index) = take(next)
            {
                return Some(index);
            }
        }
        (0..RING_CAPACITY).find_map(take)
    }

    /// How many regions of its frame stay open at a restoring site, if the recorder has said so.
    pub fn restored(self, site: u64, image: u64) -> Option<u32> {
        let key = restore_key(site, image);
        let first = restore_place(key);
        let found = (first..first + RESTORE_SEARCH).map(|place| {
            let at = self.base + RESTORES_OFFSET + (place % RESTORE_SLOTS * size_of::<RestoreRecord>()) as u64;
            // SAFETY: inside of the mapping, aligned, atomics only.
            unsafe { &*(at as *const RestoreRecord) }
        });
        let mut known = found.take_while(|record| record.key.load(Acquire) != 0);
        known.find(|record| record.key.load(Relaxed) == key).map(|record| record.regions.load(Relaxed) as u32)
    }

    /// How far the recorder is; waits for room, if that is the policy, and counts how long.
    pub fn look(self, ring: &RingRecord) -> Room {
        let mut since = None;
        let room = self.room(ring, &mut since);
        if let Some(since) = since {
            let waited = ring.waited_ticks.load(Relaxed).wrapping_add(now().wrapping_sub(since));
            ring.waited_ticks.store(waited, Relaxed);
        }
        room
    }

    /// The same; `since`: when the thread began to wait.
    fn room(self, ring: &RingRecord, since: &mut Option<u64>) -> Room {
        let header = self.header();
        let (mut naps, mut seen) = (0, u64::MAX);
        loop {
            if header.recording.load(Acquire) == 0 {
                return Room::Over;
            }
            let read = ring.read.load(Acquire);
            let used = ring.written.load(Relaxed).wrapping_sub(read);
            if used >= RING_HALF {
                self.ring_bell();
            }
            if used < RING_FULL {
                let next = if used < RING_HALF { RING_HALF } else { RING_FULL };
                ring.look_at.store(read.wrapping_add(next), Relaxed);
                return Room::Some;
            }
            if header.policy.load(Relaxed) == POLICY_COUNT {
                ring.dropped.store(ring.dropped.load(Relaxed) + 1, Relaxed);
                return Room::None;
            }
            if since.is_none() {
                *since = Some(now());
                ring.waited.store(ring.waited.load(Relaxed) + 1, Relaxed);
            }
            naps = if read == seen { naps + 1 } else { 0 };
            seen = read;
            if naps > 1 {
                let recorder = header.recorder.load(Relaxed);
                if if recorder == 0 { naps > PATIENCE } else { syscall::is_gone(recorder) } {
                    header.recording.store(0, Release);
                    return Room::Over;
                }
            }
            // SAFETY: the low half of an aligned word of eight bytes (little endian) is an aligned word of four.
            let word = unsafe { &*ring.read.as_ptr().cast::<AtomicU32>() };
            syscall::futex_wait(word, read as u32, NAP);
        }
    }

    fn ring_bell(self) {
        let bell = &self.header().bell;
        if bell.swap(1, AcqRel) == 0 {
            syscall::futex_wake(bell);
        }
    }

    /// Lets the recorder look at the process' objects, and waits until it has.
    pub fn announce(self, pid: i32, image: u64) {
        let header = self.header();
        let take = |load: &&transect_event_abi::region_arena::LoadRecord| {
            load.state.compare_exchange(LOAD_FREE, LOAD_TAKEN, AcqRel, Relaxed).is_ok()
        };
        // More objects than places at once: the recorder finds the rest when it meets their events.
        let Some(load) = header.loads.iter().find(take) else { return };
        load.pid.store(pid, Relaxed);
        load.image.store(image, Relaxed);
        load.state.store(LOAD_ASKED, Release);
        self.ring_bell();
        let mut waited = 0;
        while load.state.load(Acquire) != LOAD_DONE && waited < LOAD_PATIENCE && header.recording.load(Relaxed) != 0 {
            syscall::futex_wait(&load.state, LOAD_ASKED, NAP);
            waited += NAP;
            let recorder = header.recorder.load(Relaxed);
            if recorder != 0 && syscall::is_gone(recorder) {
                header.recording.store(0, Release);
            }
        }
        load.state.store(LOAD_FREE, Release);
    }
}

/// The time stamp counter.
fn now() -> u64 {
    // SAFETY: reading the clock has no requirement; a program that forbids it (PR_SET_TSC) can't be recorded.
    unsafe { _rdtsc() }
}
