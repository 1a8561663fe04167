//! Objects as the loader has mapped them: link maps, dynamic sections, symbols by name.

use crate::arch::syscall as sys;

/// The loader's list entry (public part of glibc's and musl's `struct link_map`).
#[repr(C)]
pub struct LinkMap {
    /// Load bias.
    pub base: u64,
    /// Path; empty for the executable.
    pub name: *const u8,
    /// Dynamic section.
    pub dynamic: *const Dynamic,
    /// Next object.
    pub next: *const LinkMap,
    /// Previous object.
    pub previous: *const LinkMap,
}

/// The loader's rendezvous structure for debuggers.
#[repr(C)]
pub struct Rendezvous {
    /// Protocol version.
    pub version: i32,
    /// First object.
    pub map: *const LinkMap,
    /// Function the loader calls at every change.
    pub hook: u64,
    /// 0: consistent, 1: objects being added, 2: being deleted.
    pub state: i32,
    /// Load address of the loader.
    pub loader: u64,
    /// The same of the next namespace, from version 2 on (glibc 2.35).
    pub next: *const Rendezvous,
}

/// Entry of a dynamic section.
#[repr(C)]
pub struct Dynamic {
    /// `DT_` tag.
    pub tag: i64,
    /// Value or address.
    pub value: u64,
}

/// Relocation with addend.
#[repr(C)]
pub struct Rela {
    /// Where.
    pub offset: u64,
    /// Symbol and type.
    pub info: u64,
    /// Addend.
    pub addend: i64,
}

impl Rela {
    /// `R_X86_64_` type.
    pub fn kind(&self) -> u32 {
        self.info as u32
    }
    /// Index in the dynamic symbol table.
    pub fn symbol(&self) -> u32 {
        (self.info >> 32) as u32
    }
}

/// `R_X86_64_64`
pub const R_64: u32 = 1;
/// `R_X86_64_GLOB_DAT`
pub const R_GLOB_DAT: u32 = 6;
/// `R_X86_64_JUMP_SLOT`
pub const R_JUMP_SLOT: u32 = 7;
/// `STT_NOTYPE`
pub const NOTYPE: u8 = 0;
/// `STT_FUNC`
pub const FUNC: u8 = 2;
/// `STT_GNU_IFUNC`
pub const IFUNC: u8 = 10;

/// Dynamic symbol.
#[repr(C)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Symbol {
    /// `STT_` type.
    pub fn kind(&self) -> u8 {
        self.info & 15
    }
    /// True if it may stay unresolved (`STB_WEAK`).
    pub fn weak(&self) -> bool {
        self.info >> 4 == 2
    }
    /// True if the object defines it.
    pub fn defined(&self) -> bool {
        self.section != 0
    }
    /// Unrelocated value.
    pub fn value(&self) -> u64 {
        self.value
    }
}

/// Program header.
#[repr(C)]
pub struct Segment {
    /// `PT_` type.
    pub kind: u32,
    /// `PF_` flags.
    pub flags: u32,
    offset: u64,
    /// Unrelocated address.
    pub address: u64,
    physical: u64,
    file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    align: u64,
}

/// What the hooks need to know of one object.
pub struct Image {
    /// Load bias.
    pub base: u64,
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Read-only after relocation: first address and end, rounded to pages outward.
    pub relro: (u64, u64),
    /// `DT_JMPREL`.
    pub jmprel: &'static [Rela],
    /// `DT_RELA`.
    pub rela: &'static [Rela],
    /// GNU build-id.
    pub build_id: &'static [u8],
    symbols: u64,
    strings: u64,
    gnu_hash: u64,
    segments: &'static [Segment],
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
/// Address of the rendezvous structure in the executable.
pub const DT_DEBUG: i64 = 21;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// Value of the first entry with this tag.
///
/// # Safety
/// `dynamic` points at a dynamic section, which ends with a null entry.
pub unsafe fn dynamic_value(dynamic: *const Dynamic, tag: i64) -> Option<u64> {
    // SAFETY: see above.
    unsafe {
        let mut d = dynamic;
        while (*d).tag != 0 {
            if (*d).tag == tag {
                return Some((*d).value);
            }
            d = d.add(1);
        }
        None
    }
}

impl Image {
    /// Reads an object's headers in memory. `None` if there is no ELF header at its base (then it is left alone).
    ///
    /// # Safety
    /// `map` is an entry of the loader's list, whose object is mapped.
    pub unsafe fn read(map: *const LinkMap, headers: Option<&'static [Segment]>) -> Option<Image> {
        // SAFETY: the loader keeps dynamic section and headers mapped as long as the entry is in its list; tables
        // named by the dynamic section lie in the object.
        unsafe {
            let base = (*map).base;
            let segments = match headers {
                Some(h) => h,
                None => {
                    if !sys::readable(base) || *(base as *const [u8; 4]) != *b"\x7fELF" {
                        return None;
                    }
                    let offset = *((base + 32) as *const u64);
                    let count = *((base + 56) as *const u16);
                    core::slice::from_raw_parts((base + offset) as *const Segment, count as usize)
                }
            };
            let (mut start, mut end, mut relro) = (u64::MAX, 0, (0, 0));
            let mut build_id: &'static [u8] = &[];
            for s in segments {
                let at = base + s.address;
                match s.kind {
                    PT_LOAD => {
                        start = start.min(at & !4095);
                        end = end.max((at + s.memory_size + 4095) & !4095);
                    }
                    PT_GNU_RELRO => relro = (at & !4095, (at + s.memory_size) & !4095),
                    PT_NOTE if build_id.is_empty() => {
                        build_id = build_id_in(core::slice::from_raw_parts(at as *const u8, s.memory_size as usize));
                    }
                    _ => {}
                }
            }
            // glibc relocates these addresses in place, musl and the vDSO do not.
            let at = |tag| dynamic_value((*map).dynamic, tag).map(|v| if v < base { base + v } else { v }).unwrap_or(0);
            let size = |tag| dynamic_value((*map).dynamic, tag).unwrap_or(0) as usize / size_of::<Rela>();
            let table = |address: u64, count: usize| {
                if address == 0 { &[][..] } else { core::slice::from_raw_parts(address as *const Rela, count) }
            };
            Some(Image {
                base,
                start,
                end,
                relro,
                jmprel: table(at(DT_JMPREL), size(DT_PLTRELSZ)),
                rela: table(at(DT_RELA), size(DT_RELASZ)),
                build_id,
                symbols: at(DT_SYMTAB),
                strings: at(DT_STRTAB),
                gnu_hash: at(DT_GNU_HASH),
                segments,
            })
        }
    }

    /// Dynamic symbol by index.
    pub fn symbol(&self, index: u32) -> &'static Symbol {
        // SAFETY: indices come from the object's own relocations.
        unsafe { &*(self.symbols as *const Symbol).add(index as usize) }
    }

    /// Name of a dynamic symbol.
    pub fn symbol_name(&self, index: u32) -> &'static [u8] {
        // SAFETY: names are zero-terminated strings of the object's string table.
        unsafe { bytes_until_zero((self.strings + self.symbol(index).name as u64) as *const u8) }
    }

    /// Protection of the segment that holds an address, as the loader set it.
    pub fn protection(&self, address: u64) -> u64 {
        let (x, w, r) = (1, 2, 4);
        let segment = self
            .segments
            .iter()
            .find(|s| s.kind == PT_LOAD && address.wrapping_sub(self.base + s.address) < s.memory_size);
        let flags = segment.map_or(r, |s| s.flags);
        let bit = |flag: u32, protection: u64| if flags & flag != 0 { protection } else { 0 };
        bit(r, sys::PROT_READ) | bit(w, sys::PROT_WRITE) | bit(x, sys::PROT_EXEC)
    }

    /// Executable segments.
    pub fn code(&self) -> impl Iterator<Item = &'static Segment> {
        self.segments.iter().filter(|s| s.kind == PT_LOAD && s.flags & 1 != 0)
    }

    /// True if the address lies in an executable segment.
    pub fn executable(&self, address: u64) -> bool {
        self.segments.iter().any(|s| {
            s.kind == PT_LOAD && s.flags & 1 != 0 && (address.wrapping_sub(self.base + s.address)) < s.memory_size
        })
    }

    /// Defined dynamic symbol by name, through the GNU hash table.
    pub fn lookup(&self, name: &[u8]) -> Option<&'static Symbol> {
        self.lookup_any(name).filter(|s| s.defined())
    }

    /// Address that a fixed-position executable gives to a function it does not define: that of its own PLT entry,
    /// for all objects alike.
    pub fn canonical_plt(&self, name: &[u8]) -> Option<u64> {
        self.lookup_any(name).filter(|s| !s.defined() && s.value() != 0).map(|s| self.base + s.value())
    }

    fn lookup_any(&self, name: &[u8]) -> Option<&'static Symbol> {
        if self.gnu_hash == 0 {
            return None;
        }
        // SAFETY: the layout of DT_GNU_HASH: nbuckets, symoffset, bloom size, bloom shift, bloom words, buckets, chain.
        unsafe {
            let h = self.gnu_hash as *const u32;
            let (buckets, first, bloom) = (*h, *h.add(1), *h.add(2));
            let bucket_at = h.add(4 + bloom as usize * 2);
            let chain = bucket_at.add(buckets as usize);
            let wanted = name.iter().fold(5381u32, |h, &b| h.wrapping_mul(33).wrapping_add(b as u32));
            if buckets == 0 {
                return None;
            }
            let mut i = *bucket_at.add((wanted % buckets) as usize);
            if i < first {
                return None;
            }
            loop {
                let entry = *chain.add((i - first) as usize);
                if entry | 1 == wanted | 1 && self.symbol_name(i) == name {
                    return Some(self.symbol(i));
                }
                if entry & 1 != 0 {
                    return None;
                }
                i += 1;
            }
        }
    }
}

/// The GNU build-id in a note segment.
fn build_id_in(mut notes: &'static [u8]) -> &'static [u8] {
    const NT_GNU_BUILD_ID: u32 = 3;
    let word = |b: &[u8], at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    while notes.len() >= 16 {
        let (name, size, kind) = (word(notes, 0) as usize, word(notes, 4) as usize, word(notes, 8));
        let start = 12 + name.next_multiple_of(4);
        let Some(end) = start.checked_add(size).filter(|&e| e <= notes.len()) else { break };
        if kind == NT_GNU_BUILD_ID && name == 4 && &notes[12..15] == b"GNU" {
            return &notes[start..end.min(start + 32)];
        }
        let next = start + size.next_multiple_of(4);
        if next >= notes.len() {
            break;
        }
        notes = &notes[next..];
    }
    &[]
}

/// A zero-terminated string.
///
/// # Safety
/// `at` points at one that lives as long as the process' object.
pub unsafe fn bytes_until_zero(at: *const u8) -> &'static [u8] {
    // SAFETY: see above.
    unsafe {
        let mut n = 0;
        while *at.add(n) != 0 {
            n += 1;
        }
        core::slice::from_raw_parts(at, n)
    }
}
