//! The probe arena of a process: the file's life, and our own view of it.
//!
//! The file is made by the process itself (`memfd_create`, so it lives as long as the process maps it, whatever becomes
//! of us) and opened by us through `/proc/PID/fd`. Its descriptor is closed where the file can be opened by its mapping, which takes
//! privileges, and else moved out of the range that programs count on.
//! Values in it may be damaged by the process: nothing read from it is used as an index or length unchecked.

use std::fs::File;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mm::{MapFlags, ProtFlags};
use transect_event_abi::probe_arena::{
    CODE_OFFSET, CODE_SIZE, CallerRules, HISTOGRAM_SIZE, HISTOGRAMS_OFFSET, PROBE_FILE_NAME, PROBE_FILE_SIZE,
    PROBE_MAGIC, PROBE_VERSION, ProbeHeader, REGION_CAPACITY, RULES_CAPACITY, RULES_OFFSET, SHARDS, SHARDS_OFFSET,
    SITE_CAPACITY, SITES_OFFSET, SiteCounters, SiteRecord,
};

use crate::address_space::{FileIdentity, Mapping, Reach, free_places};
use crate::error::AttachError;
use crate::shared_file::seal_size;
use crate::stop::Stop;
use crate::target::Target;

/// The arena of one process, mapped here; held by at most one controller at a time.
#[derive(Debug)]
pub struct Arena {
    file: File,
    base: *mut u8,
    pid: i32,
}

/// A mapping of trampolines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRegion {
    /// Number of its [`transect_event_abi::probe_arena::RegionRecord`].
    pub index: usize,
    /// Address in the process.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Offset in the file.
    pub file_offset: u64,
}

/// So long another controller may take to make its arena or to take it back, ...
const PATIENCE: Duration = Duration::from_secs(2);
/// ... and to say who it is, or to let go of one that it has left.
const NAMELESS: Duration = Duration::from_millis(100);
/// Between two looks.
const SHORTLY: Duration = Duration::from_micros(300);

impl Arena {
    /// Makes an arena: memory file, writable mapping. Takes some ten calls of held threads, in short stops of one each.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`] with the call that failed; what was made before is taken back.
    pub fn create(target: &Target) -> Result<Arena, AttachError> {
        let descriptor = target.make_file(PROBE_FILE_NAME)?;
        let made = Arena::fill_in(target, descriptor);
        // Nor does the program see it, where the next controller finds the file by its mapping.
        if made.as_ref().map_or(true, |arena| arena.gives_up_descriptor(target)) {
            target.close_in_it(descriptor);
        }
        made
    }

    fn fill_in(target: &Target, descriptor: u64) -> Result<Arena, AttachError> {
        let pid = target.pid();
        let file = target.open_descriptor(descriptor, "open the probes' memory")?;
        file.set_len(PROBE_FILE_SIZE).map_err(AttachError::system(pid, "size the probes' memory"))?;
        let arena = Arena::map(pid, file)?;
        let header = arena.header();
        // Whoever finds it from now on can say whose it is.
        header.controller.store(std::process::id(), Ordering::Relaxed);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let writable = target.in_short_stop(|stop| stop.map_file(0, descriptor, 0, PROBE_FILE_SIZE, access))?;
        if let Err(error) = arena.have_alone(target) {
            let _ = target.in_short_stop(|stop| stop.unmap(writable, PROBE_FILE_SIZE));
            return Err(error);
        }
        header.version.store(PROBE_VERSION, Ordering::Relaxed);
        header.writable.store(writable, Ordering::Relaxed);
        header.descriptor.store(descriptor as i32, Ordering::Relaxed);
        header.magic.store(PROBE_MAGIC, Ordering::Release);
        Ok(arena)
    }

    /// Whether its file can be opened by the mapping, and is not to be by the descriptor from now on.
    fn gives_up_descriptor(&self, target: &Target) -> bool {
        let header = self.header();
        let writable = header.writable.load(Ordering::Relaxed);
        let mappings = target.mappings().unwrap_or_default();
        let Some(mapping) = mappings.iter().find(|mapping| mapping.start == writable) else { return false };
        let descriptor = header.descriptor.swap(-1, Ordering::Relaxed);
        let reached = open_mapped(target, mapping).is_some();
        if !reached {
            header.descriptor.store(descriptor, Ordering::Relaxed);
        }
        reached
    }

    /// Of several controllers that make an arena at a time one keeps it: whoever is done first, and of those that see each
    /// other's before that the one with the lower file. The others take theirs back.
    fn have_alone(&self, target: &Target) -> Result<(), AttachError> {
        let deadline = Instant::now() + PATIENCE;
        let own = self.identity()?;
        while let Some(other) = other_arena(target, own)? {
            if other.complete || other.identity < own || Instant::now() >= deadline {
                return Err(AttachError::Controlled { pid: self.pid, controller: other.controller });
            }
            std::thread::sleep(SHORTLY);
        }
        Ok(())
    }

    /// Finds the arena that an earlier controller left in the process; `None` if there is none.
    ///
    /// # Errors
    /// [`AttachError::Controlled`] if another controller is at work, [`AttachError::ArenaVersion`],
    /// [`AttachError::ArenaUnreachable`].
    pub fn find(target: &Target) -> Result<Option<Arena>, AttachError> {
        let pid = target.pid();
        let whole = |m: &Mapping| is_arena(m) && m.writable && m.offset == 0;
        let look = || Ok::<_, AttachError>(target.mappings()?.into_iter().find(whole));
        let Some(mut mapping) = look()? else { return Ok(None) };
        let unreachable = || target.cause(AttachError::ArenaUnreachable { pid });
        let arena = loop {
            let arena = match open_mapped(target, &mapping) {
                None => Err(unreachable()),
                Some(file) => {
                    let looked = file.metadata();
                    let size = looked.map_err(AttachError::system(pid, "look at the probes' memory"))?.len();
                    (size == PROBE_FILE_SIZE).then(|| Arena::map(pid, file)).transpose()
                }
            };
            // Whoever had the lock until now may have taken it out of the process, and another may be there.
            match look()? {
                Some(now) if (now.start, now.inode) == (mapping.start, mapping.inode) => break arena?,
                Some(now) => mapping = now,
                None => return Ok(None),
            }
        };
        let found = arena.as_ref().map_or(0, |a| a.header().version.load(Ordering::Relaxed));
        match arena {
            Some(arena) if found == PROBE_VERSION && arena.header().magic.load(Ordering::Acquire) == PROBE_MAGIC => {
                arena.header().controller.store(std::process::id(), Ordering::Relaxed);
                Ok(Some(arena))
            }
            _ => Err(AttachError::ArenaVersion { pid, found, own: PROBE_VERSION }),
        }
    }

    /// The arena that any file is.
    ///
    /// # Errors
    /// If it can't be mapped.
    #[cfg(feature = "fuzzing")]
    pub fn over(pid: i32, file: File) -> Result<Arena, AttachError> {
        Arena::map(pid, file)
    }

    fn map(pid: i32, file: File) -> Result<Arena, AttachError> {
        // The kernel lets go of the lock when we end, however we end.
        let deadline = Instant::now() + NAMELESS;
        while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let controller = header_word(&file, offset_of!(ProbeHeader, controller));
            if controller != 0 || Instant::now() >= deadline {
                return Err(AttachError::Controlled { pid, controller });
            }
            std::thread::sleep(SHORTLY);
        }
        seal_size(&file).map_err(AttachError::system(pid, "seal the probes' memory"))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of a file that nobody can shorten.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), PROBE_FILE_SIZE as usize, protection, MapFlags::SHARED, &file, 0)
        };
        let base = base.map_err(|e| AttachError::System { pid, what: "map the probes' memory", source: e.into() })?;
        Ok(Arena { file, base: base.cast(), pid })
    }

    /// Pid of its process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The memory file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What tells it from other arenas.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn identity(&self) -> Result<FileIdentity, AttachError> {
        FileIdentity::of(&self.file).map_err(AttachError::system(self.pid, "look at the probes' memory"))
    }

    fn at<T>(&self, offset: u64, index: usize, capacity: usize) -> &T {
        assert!(index < capacity, "index {index} of {capacity}");
        // SAFETY: `offset` is where the layout has an array of `capacity` elements of T, all of them inside of the
        // mapping and aligned; T consists of atomics, for which any bytes are values; the mapping lives as long as self.
        unsafe { &*self.base.add(offset as usize).cast::<T>().add(index) }
    }

    /// Its head.
    pub fn header(&self) -> &ProbeHeader {
        self.at(0, 0, 1)
    }

    /// Number of site records in use.
    pub fn site_count(&self) -> usize {
        (self.header().site_count.load(Ordering::Acquire) as usize).min(SITE_CAPACITY)
    }

    /// A site's record.
    ///
    /// # Panics
    /// If there is no room for that many.
    pub fn site(&self, index: usize) -> &SiteRecord {
        self.at(SITES_OFFSET, index, SITE_CAPACITY)
    }

    /// A site's counters in one shard.
    ///
    /// # Panics
    /// If there is no such shard or site.
    pub fn counters(&self, shard: usize, index: usize) -> &SiteCounters {
        assert!(shard < SHARDS && index < SITE_CAPACITY, "shard {shard}, site {index}");
        self.at(SHARDS_OFFSET, shard * SITE_CAPACITY + index, SHARDS * SITE_CAPACITY)
    }

    /// A site's histogram of ticks.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn histogram(&self, index: usize) -> &[AtomicU32] {
        let buckets = HISTOGRAM_SIZE as usize / 4;
        let first: &AtomicU32 = self.at(HISTOGRAMS_OFFSET, index * buckets, SITE_CAPACITY * buckets);
        // SAFETY: `first` is the first of a whole histogram.
        unsafe { std::slice::from_raw_parts(first, buckets) }
    }

    /// Rules of a function that is timed by its callers.
    ///
    /// # Panics
    /// If there is no room for that many.
    pub fn rules(&self, index: usize) -> &CallerRules {
        self.at(RULES_OFFSET, index, RULES_CAPACITY)
    }

    /// Code regions in use.
    pub fn regions(&self) -> Vec<CodeRegion> {
        let header = self.header();
        let count = (header.region_count.load(Ordering::Acquire) as usize).min(REGION_CAPACITY);
        let regions = header.regions.iter().take(count).enumerate().map(|(index, record)| CodeRegion {
            index,
            address: record.address.load(Ordering::Relaxed),
            size: record.size.load(Ordering::Relaxed),
            file_offset: record.file_offset.load(Ordering::Relaxed),
        });
        let end = CODE_OFFSET + CODE_SIZE;
        let sound = |r: &CodeRegion| r.file_offset >= CODE_OFFSET && r.size <= end && r.file_offset <= end - r.size;
        regions.filter(sound).collect()
    }

    /// Maps a region for trampolines in reach of `reach`, executable in the process, in a short stop of one thread.
    ///
    /// # Errors
    /// [`AttachError::NoSpace`], [`AttachError::RemoteCall`].
    pub fn add_region(&self, target: &Target, reach: Reach, size: u64) -> Result<CodeRegion, AttachError> {
        let header = self.header();
        let size = size.next_multiple_of(4096);
        let existing = self.regions();
        let file_offset = existing.iter().map(|r| r.file_offset + r.size).max().unwrap_or(CODE_OFFSET);
        let no_space = AttachError::NoSpace { pid: self.pid, size, low: reach.low, high: reach.high };
        let index = header.region_count.load(Ordering::Relaxed) as usize;
        if index >= REGION_CAPACITY || file_offset + size > CODE_OFFSET + CODE_SIZE {
            return Err(no_space);
        }
        // Looked for while the program runs: a place that is taken meanwhile is refused.
        let mappings = target.mappings()?;
        let places = free_places(&mappings, reach, size);
        let own = self.identity()?;
        let whole = |mapping: &&Mapping| mapping.file() == own && mapping.writable && mapping.offset == 0;
        let whole = mappings.iter().find(whole).filter(|mapping| mapping.end - mapping.start == PROBE_FILE_SIZE);
        let unreachable = || target.cause(AttachError::ArenaUnreachable { pid: self.pid });
        let source = whole.ok_or_else(unreachable)?.start + file_offset;
        let mut stop = target.stop_one()?;
        for place in places.into_iter().take(8) {
            let protection = libc::PROT_READ | libc::PROT_EXEC;
            match stop.map_again(place, source, size, protection) {
                Ok(address) if address == place => {
                    let record = &header.regions[index];
                    record.address.store(address, Ordering::Relaxed);
                    record.size.store(size, Ordering::Relaxed);
                    record.file_offset.store(file_offset, Ordering::Relaxed);
                    record.used.store(0, Ordering::Relaxed);
                    header.region_count.store(index as u32 + 1, Ordering::Release);
                    return Ok(CodeRegion { index, address, size, file_offset });
                }
                // A kernel without MAP_FIXED_NOREPLACE puts it elsewhere if the place was taken meanwhile.
                Ok(elsewhere) => drop(stop.unmap(elsewhere, size)),
                Err(AttachError::RemoteCall { source, .. }) if source.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(no_space)
    }

    /// Writes bytes of a code region; they are seen by the process at once.
    ///
    /// # Panics
    /// If they don't fit.
    pub fn write_code(&self, region: &CodeRegion, offset: u64, bytes: &[u8]) {
        let length = bytes.len() as u64;
        assert!(length <= region.size && offset <= region.size - length, "{length} bytes at {offset}");
        let at = region.file_offset + offset;
        assert!(at >= CODE_OFFSET && at + length <= PROBE_FILE_SIZE, "outside of the code");
        // SAFETY: inside of the mapping, as asserted; nobody executes bytes that no jump leads to yet (the caller
        // stores words that are in use by `code_word`).
        unsafe { self.base.add(at as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// An aligned word of the file, by its offset.
    ///
    /// # Panics
    /// If it is outside of the file or not 8-aligned.
    pub fn word(&self, file_offset: u64) -> &std::sync::atomic::AtomicU64 {
        assert!(file_offset.is_multiple_of(8), "{file_offset} is not aligned");
        self.at(0, (file_offset / 8) as usize, (PROBE_FILE_SIZE / 8) as usize)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let own = std::process::id();
        let _ = self.header().controller.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
        // Closing would leave it locked where a child has just been forked: it has the descriptor until it executes.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        // SAFETY: made by `map`; references into it can't outlive self.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), PROBE_FILE_SIZE as usize) };
    }
}

fn is_arena(mapping: &Mapping) -> bool {
    mapping.path.to_str().and_then(|path| path.strip_prefix("/memfd:")) == Some(PROBE_FILE_NAME)
}

/// An arena that another controller has in the process.
struct OtherArena {
    identity: FileIdentity,
    /// 0 if it can't be told.
    controller: u32,
    /// It is the process's one arena, and not about to be.
    complete: bool,
}

fn other_arena(target: &Target, own: FileIdentity) -> Result<Option<OtherArena>, AttachError> {
    let is_other = |mapping: &Mapping| is_arena(mapping) && mapping.file() != own;
    let other = target.mappings()?.into_iter().find(is_other);
    Ok(other.map(|mapping| {
        let file = open_mapped(target, &mapping);
        let word = |offset| file.as_ref().map_or(0, |file| header_word(file, offset));
        OtherArena {
            identity: mapping.file(),
            controller: word(offset_of!(ProbeHeader, controller)),
            complete: word(offset_of!(ProbeHeader, magic)) != 0,
        }
    }))
}

/// A word of the file's head.
fn header_word(file: &File, offset: usize) -> u32 {
    use std::os::unix::fs::FileExt;
    let mut word = [0; 4];
    file.read_exact_at(&mut word, offset as u64).map_or(0, |()| u32::from_le_bytes(word))
}

/// Opens the file of a mapping by the descriptor that its head names, or by the mapping itself.
fn open_mapped(target: &Target, mapping: &Mapping) -> Option<File> {
    let task = target.task();
    let mut descriptor = [0; 4];
    let at = mapping.start + std::mem::offset_of!(ProbeHeader, descriptor) as u64;
    target.memory().read(at, &mut descriptor).ok()?;
    let by_descriptor = format!("/proc/{task}/fd/{}", i32::from_le_bytes(descriptor));
    let by_mapping = format!("/proc/{task}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    [by_descriptor, by_mapping].iter().find_map(|path| {
        let file = File::options().read(true).write(true).open(path).ok()?;
        (FileIdentity::of(&file).ok()? == mapping.file()).then_some(file)
    })
}

impl Stop<'_> {
    pub(crate) fn map_file(
        &mut self,
        at: u64,
        file: u64,
        offset: u64,
        size: u64,
        protection: i32,
    ) -> Result<u64, AttachError> {
        let place = if at == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
        let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | place) as u64;
        let locked = self.locks_memory();
        let first = if locked { libc::PROT_NONE } else { protection } as u64;
        let address = self.call("mmap", libc::SYS_mmap, [at, size, first, flags, file, offset])?;
        let opened = self.open_mapping(address, size, locked.then_some(protection as u64));
        if opened.is_err() {
            let _ = self.unmap(address, size);
        }
        opened.map(|()| address)
    }

    /// Maps what shared memory at `source` shows a second time, at `place`, which needs no descriptor.
    fn map_again(&mut self, place: u64, source: u64, size: u64, protection: i32) -> Result<u64, AttachError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let reserve = [place, size, libc::PROT_NONE as u64, flags as u64, u64::MAX, 0];
        let reserved = self.call("mmap", libc::SYS_mmap, reserve)?;
        if reserved != place {
            return Ok(reserved);
        }
        // Of no bytes: the kernel leaves the source as it is.
        let to = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let made = self.call("mremap", libc::SYS_mremap, [source, 0, size, to, place, 0]);
        let made =
            made.and_then(|_| self.call("mprotect", libc::SYS_mprotect, [place, size, protection as u64, 0, 0, 0]));
        if made.is_err() {
            let _ = self.unmap(place, size);
        }
        made.map(|_| place)
    }
}
