//! Ways to write to code.
//!
//! | way | how | under W^X | what a child of fork sees |
//! |---|---|---|---|
//! | page protection | `mprotect` to read, write *and* execute; taking "execute" away would stop the threads in it | no | a copy |
//! | `/proc/self/mem` | the kernel writes to its own copy of the page | yes, unless `proc_mem.force_override` | a copy |
//! | alias | the same memory mapped a second time, writable | yes | the same memory: see [`crate::fork`] |
//!
//! Threads that execute text while an alias is made (`alias.rs`) fault at worst on a page that is being replaced,
//! and wait in the kernel until the new one is there. Tools that look at the mapping's file name see the memory file.

use core::cell::Cell;

use crate::alias::{self, alias_at};
use crate::arch::store;
use crate::arch::syscall::{self, Errno, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::maps::{self, Mapping};
use crate::{Refusal, fork};

pub use crate::alias::Alias;

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

/// Makes executable pages writable for good, for toggling in place: by page protection (RWX), or by a writable alias of
/// a copy in shared memory that takes the pages' place, which W^X policies allow. A range opened before is given again.
/// The range is widened to whole pages, an alias to the whole mapping if that is not large.
///
/// Don't call it while a batch or a toggle is at work in the range.
///
/// # Errors
/// [`Refusal::NotWritable`], [`Refusal::NotExecutable`], [`Refusal::Contended`].
pub fn open_for_toggling(start: u64, end: u64, access: Access) -> Result<Alias, Refusal> {
    open_numbered(start, end, access).map(|(alias, _)| alias)
}

/// [`open_for_toggling`], with the alias' number if it is one.
pub(crate) fn open_numbered(start: u64, end: u64, access: Access) -> Result<(Alias, Option<usize>), Refusal> {
    let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    if let Some((number, made)) = alias::covering(start, end) {
        return Ok((made, Some(number)));
    }
    let mut covered = start;
    let mut all_writable = true;
    let mut mapped = start..start;
    maps::each_mapping(&mut |mapping| {
        if mapping.start <= covered && covered < mapping.end && mapping.executable() {
            if covered == start {
                mapped.start = mapping.start;
            }
            mapped.end = mapping.end;
            covered = mapping.end;
            all_writable &= mapping.writable();
        }
        mapping.end < end
    })?;
    if covered < end {
        return Err(Refusal::NotExecutable { address: covered });
    }
    let in_place = Alias { start, end, offset: 0 };
    if all_writable && access != Access::Alias {
        return Ok((in_place, None));
    }
    let protect = || {
        // SAFETY: nothing is taken away; the range is mapped.
        unsafe { syscall::mprotect(start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC) }
            .map(|()| (in_place, None))
            .map_err(|errno: Errno| Refusal::NotWritable { address: start, errno: errno.0 })
    };
    let replace = || alias::make(start, end, mapped.clone()).map(|(number, made)| (made, Some(number)));
    match access {
        Access::PageProtection => protect(),
        Access::Alias => replace(),
        Access::Auto => protect().or_else(|_| replace()),
        Access::ProcMem => Err(Refusal::NotWritable { address: start, errno: 22 }),
    }
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

    /// True if stores are the CPU's own, seen whole within a word.
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
