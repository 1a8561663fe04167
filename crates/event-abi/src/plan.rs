//! The linkage plan of one ELF object: which linkage slots are only called and may be hooked, which are also loaded
//! as function pointers, and where the calling instructions are.
//!
//! Written by the recorder's side (`binary-info`), once per file, as a file: [`PlanHeader`], then
//! `reloc_count` × [`PlanReloc`], then `site_count` × [`PlanSite`]. The agent maps the file read-only. All fields are
//! little-endian.

/// `b"TRPLAN01"` as a little-endian integer.
pub const PLAN_MAGIC: u64 = u64::from_le_bytes(*b"TRPLAN01");
/// Layout version.
pub const PLAN_VERSION: u32 = 5;

/// Start of a plan file.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanHeader {
    /// [`PLAN_MAGIC`].
    pub magic: u64,
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// Number of [`PlanReloc`] records.
    pub reloc_count: u32,
    /// Number of [`PlanSite`] records.
    pub site_count: u32,
    /// [`PlanSum`] of the counts and the records.
    pub sum: u32,
}

/// What tells a damaged plan from a sound one: each of its 64-bit words changes the sum. No defence against a forger.
#[derive(Debug, Clone, Copy)]
pub struct PlanSum(u64);

impl PlanSum {
    /// That of a plan with these counts and no records yet.
    pub const fn of_counts(reloc_count: u32, site_count: u32) -> Self {
        Self(0xcbf2_9ce4_8422_2325).with((site_count as u64) << 32 | reloc_count as u64)
    }

    /// The next eight bytes of its records.
    pub const fn with(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29))
    }

    /// As [`PlanHeader::sum`] has it.
    pub const fn value(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// How the object's code uses one linkage slot.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotUse {
    /// Every reference is `call *slot` or `jmp *slot`: the slot may be hooked.
    Called = 1,
    /// Called and loaded: the sites may be redirected, the slot must stay.
    CalledAndLoaded = 2,
    /// Only loaded (a function pointer that programs compare), or referenced in an unknown way.
    Loaded = 3,
    /// No reference found in the object's code.
    Unreferenced = 4,
}

/// One function relocation (`R_X86_64_JUMP_SLOT` or `R_X86_64_GLOB_DAT`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanReloc {
    /// 0: index counts in `DT_JMPREL`; 1: in `DT_RELA`.
    pub table: u32,
    /// Index of the relocation in its table.
    pub index: u32,
    /// A [`SlotUse`] value.
    pub slot_use: u32,
    /// First of its call sites in the site array (only for [`SlotUse::CalledAndLoaded`]).
    pub first_site: u32,
    /// Number of its call sites.
    pub site_count: u32,
    /// Zero.
    pub reserved: u32,
}

/// One `call *slot(%rip)` or `jmp *slot(%rip)` of a slot that is also loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSite {
    /// Virtual address (unrelocated) of the instruction's 32-bit displacement, which ends the instruction.
    pub displacement_vaddr: u64,
}

/// What tells files of one build-id apart in the names of their plans: FNV-1a over inode, size and change time (seconds,
/// nanoseconds). A build-id says what the linker made, or what somebody told it to say; not that nobody has changed it since.
/// Without the device, whose number is another one each time a container's file system is mounted.
pub const fn file_stamp(words: [u64; 4]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < 32 {
        hash = (hash ^ (words[at / 8] >> (at % 8 * 8) & 0xff)).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

const _: () = assert!(size_of::<PlanHeader>() == 24);
const _: () = assert!(size_of::<PlanReloc>() == 24);
const _: () = assert!(size_of::<PlanSite>() == 8);
