//! The memory of a BPF array, written by stores: no system calls, no privilege.
#![allow(unsafe_code)]
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::UnwindTableError;

/// A mapped `BPF_F_MMAPABLE` array.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<AtomicU32>,
    /// Of 32 bits.
    words: usize,
    bytes: usize,
}

// SAFETY: the memory is only touched through atomics.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps all of `map`, which must have at least `entries` values of `value_size` bytes.
    pub fn map(map: &MapHandle, entries: u32, value_size: u32) -> Result<Self, UnwindTableError> {
        let name = || map.name().to_string_lossy().into_owned();
        if map.value_size() != value_size || map.max_entries() < entries {
            return Err(UnwindTableError::Layout { map: name() });
        }
        let used = entries as usize * value_size as usize;
        let bytes = used.next_multiple_of(rustix::param::page_size());
        let start = map_shared(map.as_fd(), bytes).map_err(|source| UnwindTableError::Map { map: name(), source })?;
        Ok(Self { start, words: used / 4, bytes })
    }

    /// Stores words from number `at` on. Numbers beyond the end are a bug of the caller.
    pub fn write(&self, at: u32, values: impl IntoIterator<Item = u32>) {
        for (word, value) in self.words()[at as usize..].iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Stores a word of 64 bits at number `at`, counted in such words.
    pub fn write_u64(&self, at: u32, value: u64) {
        self.words_u64()[at as usize].store(value, Ordering::Relaxed);
    }

    /// A word of 64 bits.
    pub fn read_u64(&self, at: u32) -> u64 {
        self.words_u64()[at as usize].load(Ordering::Acquire)
    }

    /// Makes a word of 64 bits `new` if it is `old`. Returns whether it was.
    pub fn replace_u64(&self, at: u32, old: u64, new: u64) -> bool {
        self.words_u64()[at as usize].compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes all memory zero.
    pub fn clear(&self) {
        for word in self.words_u64() {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is that long, aligned to pages and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    fn words_u64(&self) -> &[AtomicU64] {
        // SAFETY: as above; values of BPF arrays are multiples of 8 bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.words / 2) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and no reference outlives self.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn map_shared(fd: BorrowedFd<'_>, bytes: usize) -> Result<NonNull<AtomicU32>, rustix::io::Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, 0) }?;
    // Its pages are all present, and a fork would copy their entries one by one: a child has nothing to do with it.
    // SAFETY: the mapping just made; where the kernel refuses, a fork takes longer.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxDontFork) };
    NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)
}
