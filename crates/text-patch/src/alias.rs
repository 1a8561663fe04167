//! Aliases of text: the same memory mapped a second time, writable.
//!
//! Text of a file is private memory and has no second mapping: it is replaced by a copy in a memory file, by one `mmap`
//! over it. The whole mapping is replaced, so that a word that lies in two of its pages has one alias; from 16 MiB on,
//! only the pages that are asked for. The writable mapping is kept for good: a store that is late, after the program has
//! unmapped the text, reaches memory that nobody executes.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch::store;
use crate::arch::syscall::{self, Errno, MAP_FIXED, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::{Refusal, fork, maps};

/// Larger mappings are not replaced as a whole.
const LARGE: u64 = 16 << 20;

/// Code that can be written for good, so that its sites can be toggled without a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Added (wrapping) to an address, gives where to write it. 0 for pages that are writable themselves.
    pub offset: u64,
}

impl Alias {
    /// Where the byte at `address` is written.
    pub fn of(&self, address: u64) -> u64 {
        address.wrapping_add(self.offset)
    }
}

/// Start, end, offset, inode of the memory file; for batches and for children of fork. Entries are added, and shrink
/// when their text is gone; an offset never changes.
static ALIASES: [[AtomicU64; 4]; 256] = [const { [const { AtomicU64::new(0) }; 4] }; 256];
static ALIAS_COUNT: AtomicU32 = AtomicU32::new(0);
static ALIAS_LOCK: AtomicU32 = AtomicU32::new(0);

/// The alias of a number.
#[inline]
pub(crate) fn alias_number(number: usize) -> Option<Alias> {
    let [start, end, offset, _] = ALIASES.get(number)?;
    Some(Alias {
        start: start.load(Ordering::Relaxed),
        end: end.load(Ordering::Relaxed),
        offset: offset.load(Ordering::Relaxed),
    })
}

fn numbered_at(address: u64) -> Option<(usize, Alias)> {
    (0..ALIAS_COUNT.load(Ordering::Acquire) as usize)
        .filter_map(|number| Some((number, alias_number(number)?)))
        .find(|(_, alias)| (alias.start..alias.end).contains(&address))
}

/// The alias that covers an address, if one was made.
pub fn alias_at(address: u64) -> Option<Alias> {
    numbered_at(address).map(|(_, alias)| alias)
}

/// The alias that covers a range, and its number.
pub(crate) fn covering(start: u64, end: u64) -> Option<(usize, Alias)> {
    numbered_at(start).filter(|(_, alias)| end <= alias.end)
}

/// Takes the lock; it is free again when the closure ends. Never waits.
fn locked<T>(address: u64, work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    if ALIAS_LOCK.swap(1, Ordering::Acquire) != 0 {
        return Err(Refusal::Contended { address });
    }
    let result = work();
    ALIAS_LOCK.store(0, Ordering::Release);
    result
}

/// Adds an entry; the lock is held.
fn add(alias: Alias, inode: u64) -> Result<usize, Refusal> {
    let number = ALIAS_COUNT.load(Ordering::Acquire) as usize;
    let [start, end, offset, file] = ALIASES.get(number).ok_or(Refusal::System { call: "alias table", errno: 28 })?;
    start.store(alias.start, Ordering::Relaxed);
    end.store(alias.end, Ordering::Relaxed);
    offset.store(alias.offset, Ordering::Relaxed);
    file.store(inode, Ordering::Relaxed);
    ALIAS_COUNT.store(number as u32 + 1, Ordering::Release);
    Ok(number)
}

/// Makes an alias of the pages from `start` to `end`, which lie in `mapping`: of all of it, if it isn't large.
pub(crate) fn make(start: u64, end: u64, mapping: core::ops::Range<u64>) -> Result<(usize, Alias), Refusal> {
    fork::guard()?;
    let whole = mapping.start <= start && end <= mapping.end && mapping.end - mapping.start <= LARGE;
    locked(start, || {
        if let Some(made) = covering(start, end) {
            return Ok(made); // by another thread, a moment ago
        }
        // Code that has an alias keeps it: sites know where they are written.
        let is_free = |range: &core::ops::Range<u64>| {
            let mut all = (0..ALIASES.len()).filter_map(alias_number);
            !all.any(|alias| alias.start < range.end && range.start < alias.end)
        };
        let range = if whole && is_free(&mapping) { mapping } else { start..end };
        if !is_free(&range) {
            return Err(Refusal::NotWritable { address: start, errno: 17 });
        }
        if ALIAS_COUNT.load(Ordering::Acquire) as usize == ALIASES.len() {
            return Err(Refusal::System { call: "alias table", errno: 28 });
        }
        // SAFETY: the range is executable memory, replaced by a copy of itself.
        let (writable, inode) = unsafe { map_copy(range.start, range.end - range.start, range.start, 0) }
            .map_err(|errno| Refusal::NotWritable { address: start, errno: errno.0 })?;
        let alias = Alias { start: range.start, end: range.end, offset: writable.wrapping_sub(range.start) };
        Ok((add(alias, inode)?, alias))
    })
}

/// Takes the page of `address` out of its alias if other memory is mapped there by now, and all pages around it of
/// which that is true. True if it was.
pub(crate) fn retire_stale(address: u64) -> Result<bool, Refusal> {
    let Some((number, alias)) = numbered_at(address) else { return Ok(false) };
    let inode = ALIASES[number][3].load(Ordering::Relaxed);
    let (mut low, mut high, mut current) = (alias.start, alias.end, false);
    maps::each_mapping(&mut |mapping| {
        if mapping.shared && mapping.inode == inode && mapping.end > alias.start && mapping.start < alias.end {
            if mapping.end <= address {
                low = low.max(mapping.end);
            } else if mapping.start > address {
                high = high.min(mapping.start);
            } else {
                current = true;
            }
        }
        mapping.start < alias.end && !current
    })?;
    if current {
        return Ok(false);
    }
    locked(address, || {
        if high < alias.end {
            add(Alias { start: high, ..alias }, inode)?;
        }
        ALIASES[number][1].store(low, Ordering::Release);
        Ok(true)
    })
}

/// Copies `length` bytes at `from` to new shared memory, maps that executable in place of `start`, and writable at
/// `writable` (in place of what is there) or anywhere. Returns where, and the file's inode.
///
/// # Safety
/// `from` holds what `start` shall hold, and both ranges (and the one at `writable`) are whole pages of ours.
unsafe fn map_copy(start: u64, length: u64, from: u64, writable: u64) -> Result<(u64, u64), Errno> {
    let fd = syscall::memory_file(c"transect-text")?;
    let made = (|| {
        syscall::truncate(fd, length)?;
        let inode = syscall::inode(fd)?;
        // SAFETY: a new mapping.
        let new = unsafe { syscall::mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)? };
        let mut at = 0;
        while at < length {
            // Word-wise: a site that is switched meanwhile is copied in one of its forms.
            // SAFETY: both are mapped for `length`, a multiple of eight.
            unsafe { store::store_8(new + at, store::load_8(from + at)) };
            at += 8;
        }
        // SAFETY: the caller's; equal contents, so threads within notice nothing.
        unsafe {
            if let Err(errno) = syscall::mmap(start, length, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0) {
                syscall::munmap(new, length);
                return Err(errno);
            }
            if writable == 0 {
                return Ok((new, inode));
            }
            syscall::munmap(new, length);
            let at = syscall::mmap(writable, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)?;
            Ok((at, inode))
        }
    })();
    syscall::close(fd);
    made
}

/// The first page of an alias' text at which other memory is mapped, or none.
fn first_gap(alias: Alias, inode: u64) -> Result<Option<u64>, Refusal> {
    let mut reached = alias.start;
    maps::each_mapping(&mut |mapping| {
        if mapping.shared && mapping.inode == inode && mapping.start <= reached && mapping.end > reached {
            reached = mapping.end;
        }
        mapping.start < alias.end
    })?;
    Ok((reached < alias.end).then_some(reached))
}

/// In a fork's child: memory of its own behind every alias. Text that the program has unmapped or replaced is left out.
pub(crate) fn renew() -> Result<(), Refusal> {
    ALIAS_LOCK.store(0, Ordering::Relaxed); // its holder may not exist here
    let mut number = 0;
    while number < ALIAS_COUNT.load(Ordering::Acquire) as usize {
        let Some(alias) = alias_number(number) else { break };
        let file = &ALIASES[number][3];
        if let Some(page) = first_gap(alias, file.load(Ordering::Relaxed))? {
            retire_stale(page)?; // what is behind it gets a number of its own
            continue;
        }
        number += 1;
        if alias.start < alias.end {
            let (start, length) = (alias.start, alias.end - alias.start);
            // SAFETY: both ranges were mapped by `make`, and the text is the alias' memory all through.
            let (_, inode) = unsafe { map_copy(start, length, start, start.wrapping_add(alias.offset)) }
                .map_err(|errno| Refusal::System { call: "mmap of an alias", errno: errno.0 })?;
            file.store(inode, Ordering::Relaxed);
        }
    }
    Ok(())
}
