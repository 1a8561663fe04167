//! `unwind_abi.h` in Rust. A test compares them.

pub(crate) const WORDS: u32 = 4608 * 1024;
pub(crate) const MAPPINGS: u32 = 128 * 1024;
pub(crate) const RULES: u32 = 65536;
pub(crate) const CACHE_SLOTS: u32 = 65536;
pub(crate) const BUCKET_SHIFT: u32 = 12;
pub(crate) const BUCKETS: u32 = 1 << BUCKET_SHIFT;
pub(crate) const BUCKET_SLOTS: u32 = 8;
pub(crate) const GROUP_SHIFT: u32 = 10;

pub(crate) const SPACE_FIRST_BITS: u32 = 20;
pub(crate) const SPACE_COUNT_BITS: u32 = 12;
pub(crate) const SPACE_NUMBER_BITS: u32 = 17;
pub(crate) const SPACE_OWNER_BITS: u32 = 15;
pub(crate) const HEAD: u64 = 1 << 63;

pub(crate) const FRAME_POINTER: u8 = 1;
pub(crate) const END: u8 = 2;
pub(crate) const UNSUPPORTED: u8 = 3;
pub(crate) const CFA_SP: u8 = 4;
pub(crate) const CFA_BP: u8 = 5;
pub(crate) const CFA_BX: u8 = 6;
pub(crate) const CFA_AT_SP: u8 = 7;
pub(crate) const CFA_AT_BP: u8 = 8;
pub(crate) const CFA_PLT: u8 = 9;
pub(crate) const SIGNAL: u8 = 10;
pub(crate) const RETURN_IN_BX: u8 = 11;
pub(crate) const RULES_FIXED: u16 = 4;

pub(crate) const SAVED_SAME: u8 = 0;
pub(crate) const SAVED_AT_BASE: u8 = 254;
pub(crate) const SAVED_UNKNOWN: u8 = 255;
pub(crate) const BASE_CFA: u8 = 0;
pub(crate) const BASE_BP: u8 = 1;
pub(crate) const BASE_BX: u8 = 2;

/// `struct unwind_mapping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Mapping {
    pub start: u64,
    pub length: u32,
    pub offset: u32,
    pub index: u32,
    pub groups: u32,
}

/// An address space as the kernel reads it: all in one word.
pub(crate) fn pack_space(first: u32, count: u32, number: u32, tgid: i32) -> u64 {
    u64::from(first)
        | u64::from(count) << SPACE_FIRST_BITS
        | u64::from(number) << (SPACE_FIRST_BITS + SPACE_COUNT_BITS)
        | owner(tgid) << OWNER_SHIFT
}

const OWNER_SHIFT: u32 = 64 - SPACE_OWNER_BITS;

fn owner(tgid: i32) -> u64 {
    u64::from(tgid.cast_unsigned() >> BUCKET_SHIFT)
}

/// Whether a slot of the bucket of `tgid` is that process's.
pub(crate) fn is_of(space: u64, tgid: i32) -> bool {
    space != 0 && space >> OWNER_SHIFT == owner(tgid)
}

/// The slots of its bucket.
pub(crate) fn slots_of(tgid: i32) -> std::ops::Range<u32> {
    let first = (tgid.cast_unsigned() & (BUCKETS - 1)) * BUCKET_SLOTS;
    first..first + BUCKET_SLOTS
}
