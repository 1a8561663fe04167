//! Finds the places in code whose 32-bit displacement leads to the linkage slots.
//!
//! Every byte position is a possible displacement. The inner loops work on 64 positions at a time without branches, so
//! that the compiler turns them into vector code; only windows with a hit are looked at one by one.

use std::ops::Range;

/// Positions tested together.
const WINDOW: usize = 64;

/// Calls `hit` with each position `p` in `code` where `start + p + displacement(p)`, modulo 2^32, lies in `targets`;
/// `start` is the address of the first byte.
pub(crate) fn displacements(code: &[u8], start: u64, targets: Range<u64>, hit: impl FnMut(usize)) {
    search(code, start as u32, 1, targets, hit);
}

/// Calls `hit` with each position in `code` whose four bytes are an address in `targets`.
pub(crate) fn addresses(code: &[u8], targets: Range<u64>, hit: impl FnMut(usize)) {
    search(code, 0, 0, targets, hit);
}

/// `step` is 1 if the value counts from its own position, 0 if not.
fn search(code: &[u8], start: u32, step: u32, targets: Range<u64>, mut hit: impl FnMut(usize)) {
    let width = targets.end.saturating_sub(targets.start).min(u64::from(u32::MAX)) as u32;
    let origin = start.wrapping_sub(targets.start as u32);
    let matches = |p: usize, raw: [u8; 4]| {
        let at = origin.wrapping_add((p as u32).wrapping_mul(step));
        at.wrapping_add(u32::from_le_bytes(raw)) < width
    };
    let mut p = 0;
    while p + WINDOW + 4 <= code.len() {
        if window_has_hit(&code[p..p + WINDOW + 4], origin.wrapping_add((p as u32).wrapping_mul(step)), step, width) {
            for q in p..p + WINDOW {
                if matches(q, [code[q], code[q + 1], code[q + 2], code[q + 3]]) {
                    hit(q);
                }
            }
        }
        p += WINDOW;
    }
    for (q, raw) in code[p..].windows(4).enumerate() {
        if matches(p + q, [raw[0], raw[1], raw[2], raw[3]]) {
            hit(p + q);
        }
    }
}

/// One pass for each alignment of a displacement in the window.
#[inline]
fn window_has_hit(window: &[u8], origin: u32, step: u32, width: u32) -> bool {
    let mut any = false;
    for phase in 0..4u32 {
        let bytes = &window[phase as usize..phase as usize + WINDOW];
        let first = origin.wrapping_add(phase.wrapping_mul(step));
        let mut lane = 0u32;
        for word in bytes.chunks_exact(4) {
            let displacement = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            any |= first.wrapping_add(lane).wrapping_add(displacement) < width;
            lane = lane.wrapping_add(step.wrapping_mul(4));
        }
    }
    any
}

/// Calls `hit` with the position of the immediate of everything that looks like `movabs $imm64, %reg`.
pub(crate) fn wide_immediates(code: &[u8], mut hit: impl FnMut(usize)) {
    // REX.W with or without B, then B8+reg.
    let is_movabs = |raw: u16| raw & 0xf8fe == 0xb848;
    let mut p = 0;
    while p + WINDOW + 2 <= code.len() {
        let mut any = false;
        for phase in 0..2 {
            for pair in code[p + phase..p + phase + WINDOW].chunks_exact(2) {
                any |= is_movabs(u16::from_le_bytes([pair[0], pair[1]]));
            }
        }
        if any {
            for q in p..p + WINDOW {
                if is_movabs(u16::from_le_bytes([code[q], code[q + 1]])) {
                    hit(q + 2);
                }
            }
        }
        p += WINDOW;
    }
    for (q, pair) in code[p..].windows(2).enumerate() {
        if is_movabs(u16::from_le_bytes([pair[0], pair[1]])) {
            hit(p + q + 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = Vec<u8>> {
        // Few distinct bytes, so that hits are common.
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0x48, 0x49, 0xb8, 0xbf, 0xff]), 0..400)
    }

    fn word(code: &[u8], p: usize) -> u32 {
        u32::from_le_bytes([code[p], code[p + 1], code[p + 2], code[p + 3]])
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_loop_finds(code in code(), start in 0..0x1_0000u64, low in 0..0x1_0000u64, width in 1..0x800u64) {
            let targets = low..low + width;
            let mut found = Vec::new();
            displacements(&code, start, targets.clone(), |p| found.push(p));
            let reaches = |p: &usize| {
                let at = (start as u32).wrapping_add(*p as u32);
                targets.contains(&u64::from(at.wrapping_add(word(&code, *p))))
            };
            let last = code.len().saturating_sub(3);
            prop_assert_eq!(found, (0..last).filter(reaches).collect::<Vec<_>>());

            let mut found = Vec::new();
            addresses(&code, targets.clone(), |p| found.push(p));
            let is_address = |p: &usize| targets.contains(&u64::from(word(&code, *p)));
            prop_assert_eq!(found, (0..last).filter(is_address).collect::<Vec<_>>());

            let mut found = Vec::new();
            wide_immediates(&code, |p| found.push(p));
            let movabs = |p: &usize| matches!(code[p - 2], 0x48 | 0x49) && (0xb8..=0xbf).contains(&code[p - 1]);
            prop_assert_eq!(found, (2..=code.len().max(1)).filter(movabs).collect::<Vec<_>>());
        }
    }
}
