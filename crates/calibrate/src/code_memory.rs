//! Executable memory of our own with a second, writable mapping, as W^X policies allow it.

use std::ptr::null_mut;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::CalibrateError;

/// Two mappings of the same memory, sparse: pages cost memory once written.
#[derive(Debug)]
pub struct CodeMemory {
    executable: u64,
    writable: u64,
    size: usize,
}

impl CodeMemory {
    /// Maps `size` bytes of zeros.
    ///
    /// # Errors
    /// [`CalibrateError::CodeMemory`] if a policy forbids executable memory files.
    pub fn new(size: usize) -> Result<Self, CalibrateError> {
        Self::map(size, None)
    }

    /// The same within reach (±2 GiB) of an address, if there is room.
    ///
    /// # Errors
    /// As [`CodeMemory::new`].
    pub fn near(address: u64, size: usize) -> Result<Self, CalibrateError> {
        Self::map(size, Some(address))
    }

    fn map(size: usize, near: Option<u64>) -> Result<Self, CalibrateError> {
        let failed = |step| move |errno| CalibrateError::CodeMemory { step, errno };
        let size = size.next_multiple_of(4096);
        let file = memfd_create("transect-calibrate", MemfdFlags::CLOEXEC).map_err(failed("memfd_create"))?;
        ftruncate(&file, size as u64).map_err(failed("ftruncate"))?;
        let map = |protection| {
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
            unsafe { mmap(null_mut(), size, protection, MapFlags::SHARED, &file, 0) }.map(|address| address as u64)
        };
        let writable = map(ProtFlags::READ | ProtFlags::WRITE).map_err(failed("mmap for writing"))?;
        let executable = near
            .and_then(|address| {
                (1..64).map(|i| (address & !0xFFFFF).wrapping_sub(i << 24)).find_map(|hint| {
                    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
                    // SAFETY: the kernel refuses an address where something is mapped.
                    unsafe { mmap(hint as *mut _, size, ProtFlags::READ | ProtFlags::EXEC, flags, &file, 0) }.ok()
                })
            })
            .map(|address| address as u64);
        let executable = match executable.map_or_else(|| map(ProtFlags::READ | ProtFlags::EXEC), Ok) {
            Ok(address) => address,
            Err(errno) => {
                // SAFETY: mapped above, and nobody has seen it.
                let _ = unsafe { munmap(writable as *mut _, size) };
                return Err(failed("mmap for execution")(errno));
            }
        };
        Ok(Self { executable, writable, size })
    }

    /// Where the code at `offset` runs.
    pub fn address(&self, offset: usize) -> u64 {
        assert!(offset < self.size);
        self.executable + offset as u64
    }

    /// Where it is written.
    pub fn alias(&self, offset: usize) -> u64 {
        assert!(offset < self.size);
        self.writable + offset as u64
    }

    /// Writes code that nobody executes at this time.
    pub fn write(&self, offset: usize, code: &[u8]) {
        assert!(offset + code.len() <= self.size);
        // SAFETY: within the writable mapping, which is reached by raw addresses only.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), self.alias(offset) as *mut u8, code.len()) };
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: both mappings are ours; users of the addresses borrow this.
        unsafe {
            let _ = munmap(self.executable as *mut _, self.size);
            let _ = munmap(self.writable as *mut _, self.size);
        }
    }
}
