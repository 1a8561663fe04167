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
pub(crate) const OTHER_STACK: u8 = 12;
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../bpf/unwind_abi.h");

    /// Value of a `#define` of numbers, `*` and `<<`, or of an enumerator.
    fn value(name: &str) -> u64 {
        for line in HEADER.lines() {
            let mut words = line.split_whitespace();
            if words.next() == Some("#define") && words.next() == Some(name) {
                let text: String = line.split("/*").next().unwrap().split_whitespace().skip(2).collect();
                return evaluate(text.trim_matches(['(', ')']));
            }
        }
        let kinds = HEADER.split("enum unwind_rule_kind {").nth(1).unwrap().split('}').next().unwrap();
        let kinds =
            kinds.lines().filter_map(|line| line.trim().split([',', ' ']).next()).filter(|kind| !kind.is_empty());
        let place = kinds.into_iter().position(|kind| kind == name);
        place.unwrap_or_else(|| panic!("{name} is not in the header")) as u64
    }

    fn evaluate(text: &str) -> u64 {
        if let Some((a, b)) = text.split_once("<<") {
            return evaluate(a) << evaluate(b);
        }
        if let Some((a, b)) = text.split_once('*') {
            return evaluate(a) * evaluate(b);
        }
        let number = text.trim_end_matches("ull");
        number.parse().unwrap_or_else(|_| value(number))
    }

    #[test]
    fn the_header_says_the_same() {
        for (name, ours) in [
            ("UNWIND_WORDS", u64::from(WORDS)),
            ("UNWIND_MAPPINGS", u64::from(MAPPINGS)),
            ("UNWIND_RULES", u64::from(RULES)),
            ("UNWIND_CACHE_SLOTS", u64::from(CACHE_SLOTS)),
            ("UNWIND_GROUP_SHIFT", u64::from(GROUP_SHIFT)),
            ("UNWIND_BUCKETS", u64::from(BUCKETS)),
            ("UNWIND_BUCKET_SLOTS", u64::from(BUCKET_SLOTS)),
            ("UNWIND_SPACE_FIRST_BITS", u64::from(SPACE_FIRST_BITS)),
            ("UNWIND_SPACE_COUNT_BITS", u64::from(SPACE_COUNT_BITS)),
            ("UNWIND_SPACE_NUMBER_BITS", u64::from(SPACE_NUMBER_BITS)),
            ("UNWIND_SPACE_OWNER_BITS", u64::from(SPACE_OWNER_BITS)),
            ("UNWIND_HEAD", HEAD),
            ("UNWIND_FRAME_POINTER", u64::from(FRAME_POINTER)),
            ("UNWIND_END", u64::from(END)),
            ("UNWIND_UNSUPPORTED", u64::from(UNSUPPORTED)),
            ("UNWIND_CFA_SP", u64::from(CFA_SP)),
            ("UNWIND_CFA_BP", u64::from(CFA_BP)),
            ("UNWIND_CFA_BX", u64::from(CFA_BX)),
            ("UNWIND_CFA_AT_SP", u64::from(CFA_AT_SP)),
            ("UNWIND_CFA_AT_BP", u64::from(CFA_AT_BP)),
            ("UNWIND_CFA_PLT", u64::from(CFA_PLT)),
            ("UNWIND_SIGNAL", u64::from(SIGNAL)),
            ("UNWIND_RETURN_IN_BX", u64::from(RETURN_IN_BX)),
            ("UNWIND_OTHER_STACK", u64::from(OTHER_STACK)),
            ("UNWIND_RULES_FIXED", u64::from(RULES_FIXED)),
            ("UNWIND_SAVED_SAME", u64::from(SAVED_SAME)),
            ("UNWIND_SAVED_AT_BASE", u64::from(SAVED_AT_BASE)),
            ("UNWIND_SAVED_UNKNOWN", u64::from(SAVED_UNKNOWN)),
            ("UNWIND_BASE_CFA", u64::from(BASE_CFA)),
            ("UNWIND_BASE_BP", u64::from(BASE_BP)),
            ("UNWIND_BASE_BX", u64::from(BASE_BX)),
        ] {
            assert_eq!(value(name), ours, "{name}");
        }
        assert_eq!(SPACE_FIRST_BITS + SPACE_COUNT_BITS + SPACE_NUMBER_BITS + SPACE_OWNER_BITS, 64);
    }
}
