//! Memory for code that is made here.

use crate::Refusal;
use crate::arch::store;
use crate::arch::syscall::{
    self, Errno, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE,
};

/// Executable memory and its writable alias. Untouched pages cost nothing.
pub(super) struct Region {
    /// Where it is executed.
    pub base: u64,
    /// Where it is written.
    pub alias: u64,
    length: u64,
}

impl Region {
    /// One mapping that is writable and executable, or two mappings of shared memory.
    pub fn new(length: u64, two_mappings: bool) -> Result<Self, Refusal> {
        let failed = |errno: Errno| Refusal::System { call: "mmap of code", errno: errno.0 };
        if !two_mappings {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
            // SAFETY: a new mapping.
            let base = unsafe { syscall::mmap(0, length, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0) };
            return base.map(|base| Self { base, alias: base, length }).map_err(failed);
        }
        let fd = syscall::memory_file(c"transect-measure").map_err(failed)?;
        let mapped = syscall::truncate(fd, length).and_then(|()| {
            // SAFETY: new mappings.
            unsafe {
                let alias = syscall::mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)?;
                let base = syscall::mmap(0, length, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, fd, 0);
                if base.is_err() {
                    syscall::munmap(alias, length);
                }
                Ok(Self { base: base?, alias, length })
            }
        });
        syscall::close(fd);
        mapped.map_err(failed)
    }

    /// Where the byte at `address` is written.
    pub fn alias_of(&self, address: u64) -> u64 {
        address - self.base + self.alias
    }

    /// Writes code; false if other code is there already.
    #[must_use]
    pub fn put(&self, address: u64, code: &[u8]) -> bool {
        assert!(address >= self.base && address + code.len() as u64 <= self.base + self.length);
        let mut free = true;
        for (i, &byte) in code.iter().enumerate() {
            let at = self.alias_of(address) + i as u64;
            // SAFETY: within the region, checked above; nobody executes it yet.
            unsafe {
                let found = store::load_1(at);
                free &= found == 0 || found == byte;
                store::store_1(at, byte);
            }
        }
        free
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: ours; who executed it has borrowed the owner.
        unsafe {
            syscall::munmap(self.base, self.length);
            if self.alias != self.base {
                syscall::munmap(self.alias, self.length);
            }
        }
    }
}

/// Code under construction.
pub(super) struct Cursor<'a> {
    pub region: &'a Region,
    pub at: u64,
    pub sound: bool,
}

impl Cursor<'_> {
    /// Appends bytes.
    pub fn emit(&mut self, code: &[u8]) {
        self.sound &= self.region.put(self.at, code);
        self.at += code.len() as u64;
    }

    /// Appends a jump or call.
    pub fn transfer(&mut self, opcode: u8, target: u64) {
        match crate::form::transfer(opcode, self.at, target) {
            Ok(code) => self.emit(&code),
            Err(_) => self.sound = false,
        }
    }
}
