//! Memory for trampolines, near the code that jumps to them.
//!
//! A region is private memory that is readable, writable and executable, which a child made by fork simply inherits.
//! Where a policy forbids that (W^X: SELinux, `PR_SET_MDWE`), or the user asks for it, a region is a memory file mapped
//! twice, executable here and writable there; a child then gets a copy of its own at the same addresses
//! ([`Regions::after_fork`]). Blocks are given out in order and never taken back: a thread may be in one at any time.

use std::ops::Range;

use transect_text_patch::writable::Access;

use crate::error::Error;
use crate::maps;

/// Smallest region. Pages cost memory only once written.
const REGION: u64 = 2 << 20;
/// Places tried.
const ATTEMPTS: usize = 64;

/// A place for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where it is executed.
    pub block: u64,
    /// Where it is written.
    pub write: u64,
}

#[derive(Debug)]
struct Region {
    start: u64,
    size: u64,
    /// Where it is written: `start` itself for memory that is both.
    write: u64,
    used: u64,
}

/// All regions.
#[derive(Debug, Default)]
pub struct Regions {
    regions: Vec<Region>,
}

impl Regions {
    /// None yet.
    pub const fn new() -> Self {
        Self { regions: Vec::new() }
    }

    /// Room for `length` bytes (a multiple of 64) in reach of all of `code`; `hint` bytes are wanted in all.
    ///
    /// # Errors
    /// [`Error::Memory`] if nothing is free in reach, or no policy gives executable memory.
    pub fn allocate(&mut self, length: u64, code: &Range<u64>, hint: u64, access: Access) -> Result<Place, Error> {
        let fits = |region: &&mut Region| {
            region.size - region.used >= length && maps::reaches(&(region.start..region.start + region.size), code)
        };
        if self.regions.iter_mut().find(fits).is_none() {
            let region = Region::map(code, hint.max(length).next_multiple_of(REGION), access)?;
            self.regions.push(region);
        }
        let Some(region) = self.regions.iter_mut().find(fits) else {
            return Err(Error::Memory { what: "a trampoline", detail: format!("no region reaches {code:x?}") });
        };
        let place = Place { block: region.start + region.used, write: region.write + region.used };
        region.used += length;
        Ok(place)
    }

    /// Gives this child of a fork its own copy of regions that it shares with its parent. It has one thread.
    ///
    /// # Errors
    /// [`Error::Memory`]: the child must not toggle then.
    pub fn after_fork(&self) -> Result<(), Error> {
        for region in self.regions.iter().filter(|region| region.write != region.start) {
            let file = memory_file(region.size)?;
            // The copy goes through the file: no second mapping is needed, and none of the old ones is touched before.
            // SAFETY: `used` bytes of the old writable mapping are ours.
            let bytes = unsafe { std::slice::from_raw_parts(region.write as *const u8, region.used as usize) };
            let written = write_all(file, bytes);
            let mapped = written
                && map_file(file, region.size, region.start, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_FIXED)
                    .is_some()
                && map_file(file, region.size, region.write, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED)
                    .is_some();
            // SAFETY: our own descriptor.
            unsafe { libc::close(file) };
            if !mapped {
                return Err(no_memory("a child's trampolines"));
            }
        }
        Ok(())
    }
}

impl Region {
    fn map(code: &Range<u64>, size: u64, access: Access) -> Result<Self, Error> {
        let mapped = maps::mapped()?;
        let places = maps::free_places(&mapped, code, size);
        let mut last = None;
        for &start in places.iter().take(ATTEMPTS) {
            if matches!(access, Access::Auto | Access::PageProtection) {
                match map_private(start, size) {
                    Ok(()) => return Ok(Self { start, size, write: start, used: 0 }),
                    Err(error) => last = Some(error),
                }
            }
            if access != Access::PageProtection {
                match map_twice(start, size) {
                    Ok(write) => return Ok(Self { start, size, write, used: 0 }),
                    Err(error) => last = Some(error),
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::Memory {
            what: "trampolines",
            detail: format!("{size} bytes within 2 GiB of {:#x}", code.start),
        }))
    }
}

fn no_memory(what: &'static str) -> Error {
    Error::Memory { what, detail: std::io::Error::last_os_error().to_string() }
}

fn map_private(start: u64, size: u64) -> Result<(), Error> {
    // SAFETY: MAP_FIXED_NOREPLACE maps there only if nothing is mapped.
    let memory = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    took(memory, start, size).then_some(()).ok_or_else(|| no_memory("trampolines (writable and executable memory)"))
}

/// Kernels before 4.17 take the address as a hint.
fn took(memory: *mut libc::c_void, start: u64, size: u64) -> bool {
    if memory == libc::MAP_FAILED {
        return false;
    }
    if memory as u64 != start {
        // SAFETY: just mapped, known to nobody.
        unsafe { libc::munmap(memory, size as usize) };
        return false;
    }
    true
}

fn map_twice(start: u64, size: u64) -> Result<u64, Error> {
    let file = memory_file(size)?;
    let executable = map_file(file, size, start, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_FIXED_NOREPLACE);
    let writable = executable.and_then(|_| map_file(file, size, 0, libc::PROT_READ | libc::PROT_WRITE, 0));
    let error = no_memory("trampolines (memory file mapped twice)");
    // SAFETY: our own descriptor.
    unsafe { libc::close(file) };
    if executable.is_some() && writable.is_none() {
        // SAFETY: mapped above, known to nobody.
        unsafe { libc::munmap(start as *mut libc::c_void, size as usize) };
    }
    writable.ok_or(error)
}

fn map_file(file: i32, size: u64, at: u64, protection: i32, flags: i32) -> Option<u64> {
    // SAFETY: the caller either replaces its own mapping or asks for a free place.
    let memory =
        unsafe { libc::mmap(at as *mut libc::c_void, size as usize, protection, libc::MAP_SHARED | flags, file, 0) };
    if at == 0 {
        return (memory != libc::MAP_FAILED).then_some(memory as u64);
    }
    took(memory, at, size).then_some(at)
}

fn memory_file(size: u64) -> Result<i32, Error> {
    // SAFETY: the name is a literal; descriptors are our own.
    unsafe {
        let file = libc::memfd_create(c"transect-trampolines".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return Err(no_memory("trampolines (memfd_create)"));
        }
        if libc::ftruncate(file, size as libc::off_t) != 0 {
            let error = no_memory("trampolines (ftruncate)");
            libc::close(file);
            return Err(error);
        }
        Ok(file)
    }
}

fn write_all(file: i32, mut bytes: &[u8]) -> bool {
    let mut at = 0;
    while !bytes.is_empty() {
        // SAFETY: the slice is valid.
        let n = unsafe { libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), at) };
        if n <= 0 {
            return false;
        }
        bytes = &bytes[n as usize..];
        at += n as libc::off_t;
    }
    true
}
