//! The memory file of region events, the recorder's side: made, watched, emptied, given back.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use transect_attach::seal_size;
use transect_event_abi::region_arena::{
    EVENTS_OFFSET, LOAD_ASKED, LOAD_DONE, POLICY_BLOCK, POLICY_COUNT, REGION_FILE_NAME, REGION_FILE_SIZE, REGION_MAGIC,
    REGION_VERSION, RESTORE_SEARCH, RESTORE_SLOTS, RESTORES_OFFSET, RING_CAPACITY, RING_ENDED, RING_EVENTS, RING_FREE,
    RING_SIZE, RINGS_OFFSET, RegionEvent, RegionHeader, RestoreRecord, RingRecord, THREAD_SEARCH, THREAD_SLOTS,
    THREADS_OFFSET, restore_key, restore_place, thread_hash,
};

use super::settings::Overflow;
use crate::RecordError;

const MAKE: &str = "make the memory file of region events";

/// An event as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadEvent {
    /// Time stamp counter.
    pub ticks: u64,
    /// Kind and address.
    pub what: u64,
    /// Stack pointer.
    pub stack: u64,
}

/// The file, mapped.
#[derive(Debug)]
pub struct RegionFile {
    file: File,
    base: *mut u8,
}

// SAFETY: the mapping holds atomics only, and lives as long as the value.
unsafe impl Send for RegionFile {}
// SAFETY: as above.
unsafe impl Sync for RegionFile {}

impl RegionFile {
    /// Makes it; programs may write events at once.
    ///
    /// # Errors
    /// If memory can't be had.
    pub fn create(overflow: Overflow) -> Result<RegionFile, RecordError> {
        let file = rustix::fs::memfd_create(REGION_FILE_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map(File::from)
            .map_err(|e| RecordError::system(MAKE)(e.into()))?;
        file.set_len(REGION_FILE_SIZE).map_err(RecordError::system(MAKE))?;
        RegionFile::of(file, overflow, true)
    }

    /// Makes a file of zeros one of region events. `known`: programs know the recorder by its number.
    ///
    /// # Errors
    /// If memory can't be had.
    pub fn of(file: File, overflow: Overflow, known: bool) -> Result<RegionFile, RecordError> {
        seal_size(&file).map_err(RecordError::system(MAKE))?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping of a file that nobody can make shorter.
        let base = unsafe { rustix::mm::mmap(null, REGION_FILE_SIZE as usize, protection, flags, &file, 0) }
            .map_err(|e| RecordError::system(MAKE)(e.into()))?;
        let made = RegionFile { file, base: base.cast() };
        // An earlier recorder may have used it: back to zeros.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(made.file.as_fd(), flags, 0, REGION_FILE_SIZE)
            .map_err(|e| RecordError::system(MAKE)(e.into()))?;
        let header = made.header();
        header.version.store(REGION_VERSION, Relaxed);
        let policy = match overflow {
            Overflow::Block => POLICY_BLOCK,
            Overflow::Count => POLICY_COUNT,
        };
        header.policy.store(policy, Relaxed);
        header.recorder.store(if known { std::process::id() } else { 0 }, Relaxed);
        header.recording.store(1, Relaxed);
        header.magic.store(REGION_MAGIC, Release);
        Ok(made)
    }

    /// Its name for programs.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Its head.
    pub fn header(&self) -> &RegionHeader {
        // SAFETY: at the mapping's begin; atomics only; it lives as long as self.
        unsafe { &*self.base.cast::<RegionHeader>() }
    }

    /// Rings that were ever used.
    pub fn ring_count(&self) -> usize {
        (self.header().ring_count.load(Acquire) as usize).min(RING_CAPACITY)
    }

    /// A ring.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn ring(&self, index: usize) -> &RingRecord {
        assert!(index < RING_CAPACITY, "ring {index}");
        // SAFETY: inside of the mapping, aligned, atomics only.
        unsafe { &*self.base.add(RINGS_OFFSET as usize).cast::<RingRecord>().add(index) }
    }

    fn slot(&self, index: usize) -> &AtomicU64 {
        // SAFETY: inside of the mapping, aligned.
        unsafe { &*self.base.add(THREADS_OFFSET as usize).cast::<AtomicU64>().add(index % THREAD_SLOTS) }
    }

    fn event(&self, ring: usize, place: u64) -> &RegionEvent {
        let at = EVENTS_OFFSET + ring as u64 * RING_SIZE;
        // SAFETY: `ring` was looked at by `ring()`, the place is cut to the ring; aligned; atomics only.
        unsafe { &*self.base.add(at as usize).cast::<RegionEvent>().add(place as usize % RING_EVENTS) }
    }

    /// How many events a ring has had.
    pub fn written(&self, index: usize) -> u64 {
        self.ring(index).written.load(Acquire)
    }

    /// Takes the events out of a ring that had come when so many were `written`, at most one ring full; gives how many there
    /// were. Those that are later than `until` remain.
    pub fn drain(&self, index: usize, written: u64, until: u64, mut each: impl FnMut(ReadEvent)) -> usize {
        let ring = self.ring(index);
        let (mut read, mut told) = (ring.read.load(Relaxed), 0);
        // A damaged counter can't lead us round the ring more than once; one from before `read` leads nowhere.
        let ahead = written.wrapping_sub(read);
        let end = read.wrapping_add(if ahead > 1 << 63 { 0 } else { ahead.min(RING_EVENTS as u64) });
        let first = read;
        while read != end {
            let event = self.event(index, read);
            let what = event.what.load(Acquire);
            let ticks = event.ticks.load(Relaxed);
            if what == 0 || ticks > until {
                break;
            }
            each(ReadEvent { ticks, what, stack: event.stack.load(Relaxed) });
            event.what.store(0, Relaxed);
            read = read.wrapping_add(1);
            told += 1;
            if told == RING_EVENTS / 8 {
                // A thread that waits need not wait for the whole.
                self.tell(ring, read);
                told = 0;
            }
        }
        if told > 0 {
            self.tell(ring, read);
        }
        read.wrapping_sub(first) as usize
    }

    /// Place of a ring's next event, of so many that were `written`, if it is not there.
    pub fn missing(&self, index: usize, written: u64) -> Option<u64> {
        let read = self.ring(index).read.load(Relaxed);
        let begun = (1..=RING_EVENTS as u64).contains(&written.wrapping_sub(read));
        (begun && self.event(index, read).what.load(Acquire) == 0).then_some(read)
    }

    /// Stack pointers of the events that are there behind one that is missing.
    pub fn behind(&self, index: usize, written: u64) -> impl Iterator<Item = u64> {
        let read = self.ring(index).read.load(Relaxed);
        let ahead = written.wrapping_sub(read).min(RING_EVENTS as u64);
        let events = (1..ahead).map(move |more| self.event(index, read.wrapping_add(more)));
        events.filter(|event| event.what.load(Acquire) != 0).map(|event| event.stack.load(Relaxed))
    }

    /// Goes on behind the event that is not there; gives its place.
    pub fn skip(&self, index: usize) -> u64 {
        let ring = self.ring(index);
        let place = ring.read.load(Relaxed);
        self.tell(ring, place.wrapping_add(1));
        place
    }

    /// Makes nothing of the event of a place that was passed over, if it has come and the place is nobody's again; true if it
    /// need not be looked at any more.
    pub fn clear_late(&self, index: usize, place: u64) -> bool {
        let ring = self.ring(index);
        let next = place.wrapping_add(RING_EVENTS as u64);
        let is_used = || ring.written.load(Acquire).wrapping_sub(place) > RING_EVENTS as u64;
        let what = &self.event(index, place).what;
        if is_used() {
            return ring.read.load(Relaxed).wrapping_sub(next) < 1 << 63;
        }
        what.load(Acquire) != 0 && {
            what.store(0, Relaxed);
            true
        }
    }

    fn tell(&self, ring: &RingRecord, read: u64) {
        ring.read.store(read, Release);
        // SAFETY: the low half of an aligned word of eight bytes (little endian) is an aligned word of four.
        let word = unsafe { &*ring.read.as_ptr().cast::<AtomicU32>() };
        if ring.written.load(Relaxed).wrapping_sub(read) >= RING_EVENTS as u64 / 2 {
            let _ = futex::wake(word, futex::Flags::empty(), 1);
        }
    }

    /// Whether a ring still is the one that its thread writes to: another program in the same process, or another thread
    /// of the same number, has taken a new one.
    pub fn is_current(&self, index: usize) -> bool {
        let tid = self.ring(index).tid.load(Relaxed).cast_unsigned();
        let first = thread_hash(tid);
        (first..first + THREAD_SEARCH)
            .map(|slot| self.slot(slot).load(Acquire))
            .find(|value| *value as u32 == tid && *value != 0)
            .is_some_and(|value| value >> 32 == index as u64 + 1)
    }

    /// Its thread is gone, or has become another program: its events may be read to the end.
    pub fn end_ring(&self, index: usize) {
        let ring = self.ring(index);
        ring.state.store(RING_ENDED, Release);
        let tid = ring.tid.load(Relaxed).cast_unsigned();
        let first = thread_hash(tid);
        for slot in (first..first + THREAD_SEARCH).map(|slot| self.slot(slot)) {
            let value = slot.load(Acquire);
            if value == u64::from(tid) | (index as u64 + 1) << 32 {
                let _ = slot.compare_exchange(value, tid.into(), AcqRel, Relaxed);
            }
        }
    }

    /// Gives an empty ring of a thread that is gone to others.
    pub fn free_ring(&self, index: usize) {
        let ring = self.ring(index);
        if ring.written.load(Relaxed) > RING_EVENTS as u64 / 8 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let at = EVENTS_OFFSET + index as u64 * RING_SIZE;
            // If that fails it only costs memory: what was read is zeroed.
            let _ = rustix::fs::fallocate(self.file.as_fd(), flags, at, RING_SIZE);
        } else {
            // A place that was taken by a thread that was killed before it had filled it in.
            (0..RING_EVENTS as u64 / 8).for_each(|place| self.event(index, place).what.store(0, Relaxed));
        }
        for word in [
            &ring.written,
            &ring.read,
            &ring.dropped,
            &ring.waited,
            &ring.waited_ticks,
            &ring.look_at,
            &ring.start_ticks,
        ] {
            word.store(0, Relaxed);
        }
        for number in [&ring.pid, &ring.tid] {
            number.store(0, Relaxed);
        }
        ring.state.store(RING_FREE, Release);
    }

    /// Objects that want to be looked at: place, pid, image.
    pub fn asked(&self) -> Vec<(usize, i32, u64)> {
        let loads = self.header().loads.iter().enumerate();
        let asked = loads.filter(|(_, load)| load.state.load(Acquire) == LOAD_ASKED);
        asked.map(|(place, load)| (place, load.pid.load(Relaxed), load.image.load(Relaxed))).collect()
    }

    /// Lets one of them go on.
    pub fn answer(&self, place: usize) {
        if let Some(load) = self.header().loads.get(place) {
            // Who has waited long enough has taken it back.
            let _ = load.state.compare_exchange(LOAD_ASKED, LOAD_DONE, AcqRel, Relaxed);
            let _ = futex::wake(&load.state, futex::Flags::empty(), u32::MAX);
        }
    }

    /// Notes how many regions of its frame are open at a restoring site. A full table leaves it unknown.
    pub fn note_restore(&self, site: u64, image: u64, regions: usize) {
        let key = restore_key(site, image);
        let first = restore_place(key);
        let place = (first..first + RESTORE_SEARCH).map(|place| {
            let at = RESTORES_OFFSET as usize + place % RESTORE_SLOTS * size_of::<RestoreRecord>();
            // SAFETY: inside of the mapping, aligned, atomics only.
            unsafe { &*self.base.add(at).cast::<RestoreRecord>() }
        });
        let free = |record: &&RestoreRecord| matches!(record.key.load(Relaxed), old if old == 0 || old == key);
        if let Some(record) = place.into_iter().find(free) {
            record.regions.store(regions as u64, Relaxed);
            record.key.store(key, Release);
        }
    }

    /// Sleeps until a thread rings the bell.
    pub fn sleep(&self, at_most: Duration) {
        let bell = &self.header().bell;
        let timeout = rustix::fs::Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let _ = futex::wait(bell, futex::Flags::empty(), 0, Some(&timeout));
        bell.store(0, Release);
    }

    /// From now on threads write nothing, and none waits.
    pub fn end(&self) {
        self.header().recording.store(0, Release);
        for index in 0..self.ring_count() {
            // SAFETY: as in `tell`.
            let word = unsafe { &*self.ring(index).read.as_ptr().cast::<AtomicU32>() };
            let _ = futex::wake(word, futex::Flags::empty(), u32::MAX);
        }
        (0..self.header().loads.len()).for_each(|place| {
            let load = &self.header().loads[place];
            let _ = load.state.compare_exchange(LOAD_ASKED, LOAD_DONE, AcqRel, Relaxed);
            let _ = futex::wake(&load.state, futex::Flags::empty(), u32::MAX);
        });
    }
}

impl Drop for RegionFile {
    fn drop(&mut self) {
        self.end();
        // SAFETY: made by `create`; references into it can't outlive self.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), REGION_FILE_SIZE as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_never_comes_does_not_hold_the_ring_up() {
        let file = RegionFile::create(Overflow::Block).unwrap();
        let ring = file.ring(0);
        let write = |place: u64| file.event(0, place).what.store(place + 1, Relaxed);
        (1..10).for_each(write);
        ring.written.store(10, Relaxed);
        // The first may still come.
        let drain = |each: &mut dyn FnMut(ReadEvent)| file.drain(0, file.written(0), u64::MAX, each);
        assert_eq!((drain(&mut |_| ()), file.missing(0, 10), file.behind(0, 10).count()), (0, Some(0), 9));
        assert_eq!(file.skip(0), 0);
        let mut read = Vec::new();
        while drain(&mut |event| read.push(event.what)) > 0 {}
        assert_eq!(read, (2..=10).collect::<Vec<_>>());
        assert_eq!(file.missing(0, 10), None);
        // A damaged counter leads nowhere.
        assert_eq!((file.missing(0, 9), file.missing(0, u64::MAX)), (None, None));
    }

    #[test]
    fn an_event_that_comes_after_it_was_given_up_is_none() {
        let file = RegionFile::create(Overflow::Block).unwrap();
        let ring = file.ring(0);
        ring.written.store(1, Relaxed);
        assert_eq!((file.skip(0), file.clear_late(0, 0)), (0, false));
        file.event(0, 0).what.store(7, Relaxed);
        assert!(file.clear_late(0, 0));
        assert_eq!(file.event(0, 0).what.load(Relaxed), 0);
        // The place is in use again: what is there now is another event.
        file.event(0, 0).what.store(8, Relaxed);
        ring.written.store(RING_EVENTS as u64 + 1, Relaxed);
        assert!(!file.clear_late(0, 0));
        assert_eq!(file.event(0, 0).what.load(Relaxed), 8);
        ring.read.store(RING_EVENTS as u64 + 1, Relaxed);
        assert!(file.clear_late(0, 0));
    }
}
