//! The recorder's side of the arena: the memory file, its header, the extents' free list.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use transect_attach::seal_size;
use transect_event_abi::api_table::ApiEntry;
use transect_event_abi::arena::{
    API_TABLE_OFFSET, ARENA_MAGIC, ARENA_SIZE, ARENA_VERSION, ArenaHeader, EXTENT_COUNT, EXTENT_FREE, EXTENT_SIZE,
    PATH_CAPACITY,
};

use crate::error::RecordError;

/// The memory file and its mapped header.
pub struct Arena {
    file: File,
    header: *mut ArenaHeader,
}

/// Settings the agent reads from the header.
pub struct Settings<'a> {
    /// `OPTION_` bits.
    pub options: u32,
    /// A `TIMING_` value.
    pub timing: u32,
    /// Calls per timed call.
    pub every: u32,
    /// Overhead budget, parts per million.
    pub budget_ppm: u32,
    /// Ticks per microsecond.
    pub ticks_per_us: u32,
    /// Time stamp at the start.
    pub epoch_ticks: u64,
    /// Directory of plans.
    pub plan_dir: &'a [u8],
    /// Directory of static plans; empty if there are no static components.
    pub static_dir: &'a [u8],
    /// The agent's path as it will stand in `LD_PRELOAD`.
    pub agent_path: &'a [u8],
    /// Globs of symbols to trace, one a line.
    pub trace: &'a [u8],
    /// The API table.
    pub apis: &'a [ApiEntry],
}

// SAFETY: the header is shared memory of atomics; fields that are not are written before anyone else knows the file.
unsafe impl Sync for Arena {}
// SAFETY: as above; the mapping belongs to no thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Makes the file (sparse: it takes memory as it is written to) and fills in the header.
    pub fn create(settings: &Settings<'_>) -> Result<Arena, RecordError> {
        let fd = rustix::fs::memfd_create("transect-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|e| RecordError::system("create the recording's memory file")(e.into()))?;
        let file = File::from(fd);
        file.set_len(ARENA_SIZE as u64).map_err(|error| {
            let what = match error.kind() {
                std::io::ErrorKind::FileTooLarge => {
                    "make the recording's memory, as the limit of file sizes is too low (raise it: ulimit -f unlimited)"
                }
                _ => "size the recording's memory file",
            };
            RecordError::system(what)(error)
        })?;
        Self::over(file, settings)
    }

    /// The arena that a file of zeros becomes, which a program may have made.
    pub fn over(file: File, settings: &Settings<'_>) -> Result<Arena, RecordError> {
        // Programs can open it, too.
        seal_size(&file).map_err(RecordError::system("seal the recording's memory file"))?;
        // SAFETY: a fresh mapping of our own file, which nobody can shorten.
        let at = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                EXTENT_SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(|e| RecordError::system("map the recording's memory file")(e.into()))?;
        let header = at.cast::<ArenaHeader>();
        // SAFETY: the mapping is as large as an extent, all zero, and nobody else knows it yet.
        unsafe {
            let h = &mut *header;
            h.magic = ARENA_MAGIC;
            h.version = ARENA_VERSION;
            h.options = settings.options;
            h.timing = settings.timing;
            h.every = settings.every;
            h.budget_ppm = settings.budget_ppm;
            h.ticks_per_us = settings.ticks_per_us;
            h.epoch_ticks = settings.epoch_ticks;
            h.next_extent.store(1, Ordering::Relaxed);
            h.api_table_len = settings.apis.len() as u32;
            for (to, from) in [
                (&mut h.plan_dir, settings.plan_dir),
                (&mut h.static_dir, settings.static_dir),
                (&mut h.agent_path, settings.agent_path),
                (&mut h.trace, settings.trace),
            ] {
                let n = from.len().min(PATH_CAPACITY - 1);
                to[..n].copy_from_slice(&from[..n]);
            }
            let table = at.cast::<u8>().add(API_TABLE_OFFSET).cast::<ApiEntry>();
            for (i, entry) in settings.apis.iter().enumerate() {
                table.add(i).write(*entry);
            }
        }
        Ok(Arena { file, header })
    }

    /// One that no agent has written to.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn unused() -> Arena {
        let settings = Settings {
            options: 0,
            timing: 0,
            every: 0,
            budget_ppm: 0,
            ticks_per_us: 1,
            epoch_ticks: 0,
            plan_dir: b"",
            static_dir: b"",
            agent_path: b"",
            trace: b"",
            apis: &[],
        };
        Self::create(&settings).unwrap()
    }

    /// The descriptor's number, for the link beside the agent.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The shared header.
    pub fn header(&self) -> &ArenaHeader {
        // SAFETY: mapped for the life of the value; plain fields are no longer written.
        unsafe { &*self.header }
    }

    /// Kinds of the extents handed out so far, by index.
    pub fn extents(&self) -> Vec<(u32, u32)> {
        let h = self.header();
        let n = (h.next_extent.load(Ordering::Acquire) as usize).min(EXTENT_COUNT);
        (1..n).map(|i| (i as u32, h.kind[i].load(Ordering::Acquire))).filter(|e| e.1 != EXTENT_FREE).collect()
    }

    /// Reads a part of an extent. Holes read as zero and stay holes.
    pub fn read(&self, extent: u32, offset: usize, length: usize) -> Vec<u8> {
        let mut buffer = vec![0; length];
        let mut done = 0;
        let start = extent as u64 * EXTENT_SIZE as u64 + offset as u64;
        while done < length {
            match self.file.read_at(&mut buffer[done..], start + done as u64) {
                Ok(n) if n > 0 => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        buffer
    }

    /// Writes a part of an extent that no agent writes to.
    pub fn write(&self, extent: u32, offset: usize, bytes: &[u8]) -> Result<(), RecordError> {
        let at = extent as u64 * EXTENT_SIZE as u64 + offset as u64;
        self.file.write_all_at(bytes, at).map_err(RecordError::system("write the recording's memory file"))
    }

    /// The memory file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Offset of the first data at or after `offset` in an extent, within `end`; `None` if there is only a hole.
    pub fn next_data(&self, extent: u32, offset: usize, end: usize) -> Option<usize> {
        let base = extent as u64 * EXTENT_SIZE as u64;
        let at = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(base + offset as u64)).ok()?;
        let at = (at - base) as usize;
        (at < end).then_some(at)
    }

    /// Gives an extent back, with its memory.
    pub fn free(&self, extent: u32) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let at = extent as u64 * EXTENT_SIZE as u64;
        if rustix::fs::fallocate(self.file.as_fd(), flags, at, EXTENT_SIZE as u64).is_err() {
            return;
        }
        let h = self.header();
        h.kind[extent as usize].store(EXTENT_FREE, Ordering::Release);
        h.put_free(extent);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.header().recorder_gone.store(1, Ordering::Release);
        // SAFETY: our mapping; nobody borrows it any more.
        unsafe {
            let _ = rustix::mm::munmap(self.header.cast(), EXTENT_SIZE);
        }
    }
}
