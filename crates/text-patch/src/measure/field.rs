//! A field of sites in executed code, for toggling under fire.
//!
//! Every site lies at the end of a cache line, with `split` bytes of its first 8-byte word before it, so that splits
//! 4 to 7 cross the line (and one in eight a page). The forms are chosen such that an instruction made of bytes of
//! both leads to a place of its own, where it is counted:
//!
//! ```text
//! split   on                     off                    mixtures
//! 0..=3   E8 0B C0 CC 01         0F 1F 44 00 00         E8 with old tails: to 4 places; 0F 0B: ud2; 0F 1F C0 CC: int3
//! 4..=6   E8 50 C0 CC 01         EB 03 C0 CC 01         EB 50, E8 03 …: to 2 places
//! 7       E8 50 C1 CC 01         E8 10 20 30 00         to 14 places
//! ```

use super::region::{Cursor, Region};
use crate::arch::syscall::{self, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::form::{CALL, JUMP, NOP5, SHORT_JUMP};
use crate::{CallSite, Refusal};

/// Places of a site in its 8-byte word.
pub const SPLITS: u64 = 8;
/// Sites of one split stand together; the mixtures' places are elsewhere in the same pattern.
const GROUP: u64 = 2 << 20;
const STRIDE: u64 = 512;
const SIZE: u64 = 64 << 20;
const ENTRY: u64 = 60 << 20;
const FAILED: u64 = ENTRY + 256;
const LEAVE: u64 = ENTRY + 512;

/// What an executing thread has seen. Each thread has its own.
#[repr(C, align(64))]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Sites passed in their off form (only [`super::WaitTrial`] counts them).
    pub off: u64,
    /// Sites passed in their on form.
    pub on: u64,
    /// Mixed instructions executed.
    pub mixed: u64,
}

/// Sites in executed code. Sites are off at first.
pub struct Field {
    region: Region,
    sites: *mut CallSite,
    count: usize,
}

// SAFETY: the region and the array are memory of its own, unmapped on drop; sites are switched by stores that are meant
// for many threads.
unsafe impl Send for Field {}
// SAFETY: as above.
unsafe impl Sync for Field {}

fn forms(split: u64) -> ([u8; 5], [u8; 5]) {
    match split {
        0..=3 => ([CALL, 0x0B, 0xC0, 0xCC, 0x01], NOP5),
        4..=6 => ([CALL, 0x50, 0xC0, 0xCC, 0x01], [SHORT_JUMP, 3, 0xC0, 0xCC, 0x01]),
        _ => ([CALL, 0x50, 0xC1, 0xCC, 0x01], [CALL, 0x10, 0x20, 0x30, 0x00]),
    }
}

impl Field {
    /// Makes `per_split` sites (at most 64) of every split in `splits`, executed one after the other by
    /// [`Self::pass`]; written in place, or through another mapping of the memory.
    ///
    /// # Errors
    /// [`Refusal::System`] where the kernel gives no executable memory.
    pub fn new(splits: core::ops::Range<u64>, per_split: usize, two_mappings: bool) -> Result<Self, Refusal> {
        let region = Region::new(SIZE, two_mappings)?;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let bytes = (SPLITS as usize * 64 * size_of::<CallSite>()) as u64;
        // SAFETY: a new mapping.
        let sites = unsafe { syscall::mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) }
            .map_err(|errno| Refusal::System { call: "mmap", errno: errno.0 })? as *mut CallSite;
        let mut field = Self { region, sites, count: 0 };
        field.build(splits, per_split.min(64))?;
        Ok(field)
    }

    fn build(&mut self, splits: core::ops::Range<u64>, per_split: usize) -> Result<(), Refusal> {
        let base = self.region.base;
        let mut body = Cursor { region: &self.region, at: base + ENTRY, sound: true };
        // push rbx; push r12; push r13; mov rbx, rdi; mov r12, rsp; xor eax, eax
        body.emit(&[0x53, 0x41, 0x54, 0x41, 0x55, 0x48, 0x89, 0xFB, 0x49, 0x89, 0xE4, 0x31, 0xC0]);
        for split in splits {
            for i in 0..per_split as u64 {
                let address = base + split * GROUP + i * STRIDE + 248 + split;
                let (on, off) = forms(split);
                body.transfer(JUMP, address);
                body.at = address;
                body.emit(&off);
                body.sound &= self.place_targets(address, on, off);
                let site = CallSite::new(address, self.region.alias_of(address), on, off)?
                    .exclusive_word()
                    .guarded_against_fork(false);
                // SAFETY: room for all splits' sites was mapped.
                unsafe { self.sites.add(self.count).write(site) };
                self.count += 1;
            }
        }
        body.transfer(JUMP, base + LEAVE);
        // inc qword [rbx + 16]; mov rsp, r12; then leave: pop r13; pop r12; pop rbx; ret
        body.at = base + FAILED;
        body.emit(&[0x48, 0xFF, 0x43, 0x10, 0x4C, 0x89, 0xE4]);
        body.transfer(JUMP, base + LEAVE);
        body.at = base + LEAVE;
        body.emit(&[0x41, 0x5D, 0x41, 0x5C, 0x5B, 0xC3]);
        if body.sound { Ok(()) } else { Err(Refusal::System { call: "placing code", errno: 17 }) }
    }

    /// Puts code where the forms of one site lead to, and its mixtures.
    fn place_targets(&self, address: u64, on: [u8; 5], off: [u8; 5]) -> bool {
        let target = |bytes: [u8; 5]| {
            let displacement = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            address.wrapping_add(5).wrapping_add(displacement as u64)
        };
        // inc qword [rbx + 8]; ret
        let mut sound = self.region.put(target(on), &[0x48, 0xFF, 0x43, 0x08, 0xC3]);
        if off[0] == CALL {
            sound &= self.region.put(target(off), &[0xC3]);
        }
        let failed = |at: u64| {
            let code = crate::form::transfer(JUMP, at, self.region.base + FAILED);
            code.is_ok_and(|code| self.region.put(at, &code))
        };
        for mixture in 1..31u32 {
            // Bit i: byte i is the on form's.
            let mut bytes = off;
            for (i, byte) in bytes.iter_mut().enumerate() {
                if mixture >> i & 1 != 0 {
                    *byte = on[i];
                }
            }
            let prefix_or_suffix = mixture & (mixture + 1) == 0 || (!mixture & 31) & ((!mixture & 31) + 1) == 0;
            match bytes[0] {
                _ if bytes == on || bytes == off => {}
                CALL if prefix_or_suffix || off[0] == CALL || off[0] == SHORT_JUMP => sound &= failed(target(bytes)),
                SHORT_JUMP => sound &= failed(address + 2 + u64::from(bytes[1])),
                _ => {} // ud2, int3: the process dies
            }
        }
        sound
    }

    /// The sites, by split.
    pub fn sites(&self) -> &[CallSite] {
        // SAFETY: `count` were written by `new`.
        unsafe { core::slice::from_raw_parts(self.sites, self.count) }
    }

    /// Executes all sites once, and counts in `counters`.
    #[inline]
    pub fn pass(&self, counters: &mut Counters) {
        // SAFETY: the code made by `build`: a C function that preserves what it must.
        unsafe {
            let code: extern "C" fn(*mut Counters) = core::mem::transmute(self.region.base + ENTRY);
            code(counters);
        }
    }

    /// Takes the lines of a site out of all caches.
    pub fn flush(&self, site: &CallSite) {
        // SAFETY: the region is mapped.
        unsafe {
            crate::arch::flush_line(site.alias());
            crate::arch::flush_line(site.alias() + 4);
        }
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { syscall::munmap(self.sites as u64, (SPLITS as usize * 64 * size_of::<CallSite>()) as u64) };
    }
}
