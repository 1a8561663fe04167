//! Ways to write to code.
//!
//! | way | how | under W^X | what a child of fork sees |
//! |---|---|---|---|
//! | page protection | `mprotect` to read, write *and* execute; taking "execute" away would stop the threads in it | no | a copy |
//! | `/proc/self/mem` | the kernel writes to its own copy of the page | yes, unless `proc_mem.force_override` | a copy |
//! | alias | the same memory mapped a second time, writable | yes | the same memory: see [`crate::fork`] |
//!
//! Text of a file is private memory and has no second mapping: for an alias it is replaced by a copy in a memory file,
//! by one `mmap` over it. Threads that execute it meanwhile fault at worst on a page that is being replaced, and wait
//! in the kernel until the new one is there. Tools that look at the mapping's file name see the memory file.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch::store;
use crate::arch::syscall::{self, Errno, MAP_FIXED, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::maps::{self, Mapping};
use crate::{Refusal, fork};

const PAGE: u64 = 4096;

/// How code is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// The first that works: memory that is writable or has an alias, page protection, `/proc/self/mem`. For toggling:
    /// page protection, alias.
    #[default]
    Auto,
    /// Pages are made writable *and* executable for the time of the patch (`mprotect`); other threads go on executing
    /// them.
    PageProtection,
    /// `/proc/self/mem`: works under W^X policies, a system call for each stretch of bytes.
    ProcMem,
    /// A second, writable mapping. For a batch: only memory opened for toggling before.
    Alias,
}

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

/// Aliases made here, for batches and for children of fork. Entries are added, never removed.
static ALIASES: [[AtomicU64; 3]; 256] = [const { [const { AtomicU64::new(0) }; 3] }; 256];
static ALIAS_COUNT: AtomicU32 = AtomicU32::new(0);
static ALIAS_LOCK: AtomicU32 = AtomicU32::new(0);

fn aliases() -> impl Iterator<Item = Alias> {
    ALIASES[..ALIAS_COUNT.load(Ordering::Acquire) as usize].iter().map(|[start, end, offset]| Alias {
        start: start.load(Ordering::Relaxed),
        end: end.load(Ordering::Relaxed),
        offset: offset.load(Ordering::Relaxed),
    })
}

/// The alias that covers an address, if one was made.
pub fn alias_at(address: u64) -> Option<Alias> {
    aliases().find(|alias| (alias.start..alias.end).contains(&address))
}

/// Makes executable pages writable for good, for toggling in place: by page protection (RWX), or by a writable alias of
/// a copy in shared memory that takes the pages' place, which W^X policies allow. A range opened before is given again.
/// The range is widened to whole pages.
///
/// Don't call it while a batch or a toggle is at work in the range.
///
/// # Errors
/// [`Refusal::NotWritable`], [`Refusal::NotExecutable`], [`Refusal::Contended`].
pub fn open_for_toggling(start: u64, end: u64, access: Access) -> Result<Alias, Refusal> {
    let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    if let Some(alias) = alias_at(start)
        && end <= alias.end
    {
        return Ok(alias);
    }
    let mut covered = start;
    let mut all_writable = true;
    maps::each_mapping(&mut |mapping| {
        if mapping.start <= covered && covered < mapping.end && mapping.executable() {
            covered = mapping.end;
            all_writable &= mapping.writable();
        }
        mapping.end < end
    })?;
    if covered < end {
        return Err(Refusal::NotExecutable { address: covered });
    }
    if all_writable && access != Access::Alias {
        return Ok(Alias { start, end, offset: 0 });
    }
    let refused = |errno: Errno| Refusal::NotWritable { address: start, errno: errno.0 };
    let protect = || {
        // SAFETY: nothing is taken away; the range is mapped.
        unsafe { syscall::mprotect(start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC) }
            .map(|()| Alias { start, end, offset: 0 })
            .map_err(refused)
    };
    match access {
        Access::PageProtection => protect(),
        Access::Alias => replace_by_alias(start, end),
        Access::Auto => protect().or_else(|_| replace_by_alias(start, end)),
        Access::ProcMem => Err(Refusal::NotWritable { address: start, errno: 22 }),
    }
}

fn replace_by_alias(start: u64, end: u64) -> Result<Alias, Refusal> {
    fork::guard()?;
    if ALIAS_LOCK.swap(1, Ordering::Acquire) != 0 {
        return Err(Refusal::Contended { address: start });
    }
    let count = ALIAS_COUNT.load(Ordering::Acquire) as usize;
    let result = if count == ALIASES.len() {
        Err(Refusal::System { call: "alias table", errno: 28 })
    } else {
        // SAFETY: the range is executable memory, replaced by a copy of itself.
        unsafe { map_copy(start, end - start, start, 0) }
            .map(|writable| Alias { start, end, offset: writable.wrapping_sub(start) })
            .map_err(|errno| Refusal::NotWritable { address: start, errno: errno.0 })
    };
    if let Ok(alias) = result {
        let [s, e, o] = &ALIASES[count];
        s.store(alias.start, Ordering::Relaxed);
        e.store(alias.end, Ordering::Relaxed);
        o.store(alias.offset, Ordering::Relaxed);
        ALIAS_COUNT.store(count as u32 + 1, Ordering::Release);
    }
    ALIAS_LOCK.store(0, Ordering::Release);
    result
}

/// Copies `length` bytes at `from` to new shared memory, maps that executable in place of `start`, and writable at
/// `writable` (in place of what is there) or anywhere. Returns where.
///
/// # Safety
/// `from` holds what `start` shall hold, and both ranges (and the one at `writable`) are whole pages of ours.
unsafe fn map_copy(start: u64, length: u64, from: u64, writable: u64) -> Result<u64, Errno> {
    let fd = syscall::memory_file(c"transect-text")?;
    let made = (|| {
        syscall::truncate(fd, length)?;
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
                return Ok(new);
            }
            syscall::munmap(new, length);
            syscall::mmap(writable, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)
        }
    })();
    syscall::close(fd);
    made
}

/// In a fork's child: memory of its own behind every alias.
pub(crate) fn renew_aliases() -> Result<(), Refusal> {
    ALIAS_LOCK.store(0, Ordering::Relaxed); // its holder may not exist here
    for Alias { start, end, offset } in aliases() {
        // SAFETY: both ranges were mapped by `replace_by_alias`.
        unsafe { map_copy(start, end - start, start, start.wrapping_add(offset)) }
            .map_err(|errno| Refusal::System { call: "mmap of an alias", errno: errno.0 })?;
    }
    Ok(())
}

/// A stretch of memory that a writer may write.
#[derive(Clone, Copy)]
struct Stretch {
    start: u64,
    end: u64,
    offset: u64,
    /// Protection to put back, or [`KEEP`].
    protection: u64,
}

const KEEP: u64 = u64::MAX;
const STRETCHES: usize = 64;

/// Writes to code for the time of one batch.
pub(crate) struct Writer {
    stretches: [Stretch; STRETCHES],
    count: usize,
    last: Cell<usize>,
    /// `/proc/self/mem`, or -1.
    memory: i32,
}

impl Writer {
    /// Opens `count` windows for writing; `range(i)` is the *i*-th, by address.
    pub fn open(count: usize, range: &dyn Fn(usize) -> (u64, u64), access: Access) -> Result<Self, Refusal> {
        let none = Stretch { start: 0, end: 0, offset: 0, protection: KEEP };
        let mut writer = Self { stretches: [none; STRETCHES], count: 0, last: Cell::new(0), memory: -1 };
        let opened = writer.open_stretches(count, range, access);
        let opened = match opened {
            Err(Refusal::NotWritable { .. }) if access == Access::Auto => {
                writer.protect_again();
                writer.open_memory(count, range)
            }
            other => other,
        };
        if let Err(refusal) = opened {
            writer.close();
            return Err(refusal);
        }
        Ok(writer)
    }

    fn open_stretches(
        &mut self,
        count: usize,
        range: &dyn Fn(usize) -> (u64, u64),
        access: Access,
    ) -> Result<(), Refusal> {
        let mut next = 0; // first window not yet found in a mapping
        let mut reached = 0; // how far a window that reaches into the next mapping has been found
        let mut refused = Ok(());
        maps::each_mapping(&mut |mapping: &Mapping| {
            let begin = next;
            while next < count && range(next).0 < mapping.end {
                let (start, end) = range(next);
                if (start < mapping.start && reached != mapping.start) || !mapping.executable() {
                    refused = Err(Refusal::NotExecutable { address: start });
                    return false;
                }
                if end > mapping.end {
                    reached = mapping.end;
                    break;
                }
                next += 1;
            }
            let reaches_over = next < count && range(next).0 < mapping.end;
            let last = if reaches_over { next + 1 } else { next };
            if begin < last {
                let start = (range(begin).0 & !(PAGE - 1)).max(mapping.start);
                let end = range(last - 1).1.next_multiple_of(PAGE).min(mapping.end);
                refused = self.open_stretch(mapping, start, end, access);
            }
            refused.is_ok() && next < count
        })?;
        refused?;
        if next < count {
            return Err(Refusal::NotExecutable { address: range(next).0 });
        }
        if access == Access::ProcMem { self.open_memory(count, range) } else { Ok(()) }
    }

    fn open_stretch(&mut self, mapping: &Mapping, start: u64, end: u64, access: Access) -> Result<(), Refusal> {
        if access == Access::ProcMem {
            return Ok(());
        }
        let mut stretch = Stretch { start, end, offset: 0, protection: KEEP };
        let alias = alias_at(start).filter(|alias| end <= alias.end);
        match (access, alias) {
            (Access::Alias, None) => return Err(Refusal::NotWritable { address: start, errno: 22 }),
            (Access::Auto | Access::Alias, Some(alias)) => stretch.offset = alias.offset,
            _ if mapping.writable() => {}
            _ => {
                // SAFETY: nothing is taken away from whoever uses these pages.
                unsafe { syscall::mprotect(start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC) }
                    .map_err(|errno| Refusal::NotWritable { address: start, errno: errno.0 })?;
                stretch.protection = mapping.protection;
            }
        }
        if stretch.offset != 0 && fork::is_foreign_child() {
            return Err(Refusal::Forked { address: start });
        }
        if self.count == STRETCHES {
            return Err(Refusal::NotWritable { address: start, errno: 7 });
        }
        self.stretches[self.count] = stretch;
        self.count += 1;
        Ok(())
    }

    fn open_memory(&mut self, count: usize, range: &dyn Fn(usize) -> (u64, u64)) -> Result<(), Refusal> {
        let (address, _) = if count > 0 { range(0) } else { (0, 0) };
        let refused = |address| move |errno: Errno| Refusal::NotWritable { address, errno: errno.0 };
        self.memory = syscall::open(c"/proc/thread-self/mem", true, false).map_err(refused(address))?;
        // Newer kernels may open the file and refuse to write: put a byte in its own place, once a page.
        let mut page = 0;
        for i in 0..count {
            let (address, _) = range(i);
            if address & !(PAGE - 1) != page {
                page = address & !(PAGE - 1);
                let mut byte = [0u8];
                let n = syscall::pread(self.memory, &mut byte, address).map_err(refused(address))?;
                // SAFETY: the byte that stands there.
                let m = unsafe { syscall::pwrite(self.memory, &byte, address) }.map_err(refused(address))?;
                if n != 1 || m != 1 {
                    return Err(Refusal::NotWritable { address, errno: 5 });
                }
            }
        }
        Ok(())
    }

    /// True if stores are the processor's own, seen whole within a word.
    pub fn is_direct(&self) -> bool {
        self.memory < 0
    }

    /// Where to store for an address; only if [`Self::is_direct`].
    #[inline]
    fn place(&self, address: u64) -> u64 {
        let mut i = self.last.get();
        if !(self.stretches[i].start..self.stretches[i].end).contains(&address) {
            i = 0;
            while i < self.count && !(self.stretches[i].start..self.stretches[i].end).contains(&address) {
                i += 1;
            }
            if i == self.count {
                return address;
            }
            self.last.set(i);
        }
        address.wrapping_add(self.stretches[i].offset)
    }

    /// Stores one byte of code. No function of libc is called: it may be the one being patched.
    ///
    /// # Safety
    /// The byte lies in an opened window, and the protocol allows it now.
    #[inline]
    pub unsafe fn byte(&self, address: u64, value: u8) {
        if self.is_direct() {
            // SAFETY: opened for writing.
            unsafe { store::store_1(self.place(address), value) };
        } else {
            // SAFETY: the caller's. Tried once a page before, so it can't fail now.
            let _ = unsafe { syscall::pwrite(self.memory, &[value], address) };
        }
    }

    /// Stores bytes of code that no thread executes now, in any order.
    ///
    /// # Safety
    /// As [`Self::byte`].
    #[inline]
    pub unsafe fn bytes(&self, address: u64, values: &[u8]) {
        // SAFETY: the caller's.
        unsafe {
            if self.is_direct() {
                let place = self.place(address);
                let mut i = 0;
                if values.len() >= 4 && address + 4 <= self.stretches[self.last.get()].end {
                    // The jump's displacement in one piece.
                    store::store_4_anywhere(place, u32::from_le_bytes([values[0], values[1], values[2], values[3]]));
                    i = 4;
                }
                while i < values.len() {
                    store::store_1(self.place(address + i as u64), values[i]);
                    i += 1;
                }
            } else {
                let _ = syscall::pwrite(self.memory, values, address);
            }
        }
    }

    fn protect_again(&mut self) {
        for stretch in &self.stretches[..self.count] {
            if stretch.protection != KEEP {
                // SAFETY: the protection that it had.
                let _ = unsafe { syscall::mprotect(stretch.start, stretch.end - stretch.start, stretch.protection) };
            }
        }
        self.count = 0;
    }

    /// Puts protections back.
    pub fn close(&mut self) {
        self.protect_again();
        if self.memory >= 0 {
            syscall::close(self.memory);
            self.memory = -1;
        }
    }
}
