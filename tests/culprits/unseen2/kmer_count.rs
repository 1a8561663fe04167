//! Counts the pieces of a genome in a HashMap, whose hash is safe against attacks but slow for what is short.
use std::collections::HashMap;
use std::time::Instant;

fn genome(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            b"ACGT"[(state >> 62) as usize]
        })
        .collect()
}

#[inline(never)]
fn count_piece<'a>(counts: &mut HashMap<&'a [u8], u32>, piece: &'a [u8]) {
    *counts.entry(piece).or_insert(0) += 1; // culprit
}

#[inline(never)]
fn is_masked(piece: &[u8]) -> bool {
    piece[0] == b'N' || piece[1] == b'N'
}

fn main() {
    let length: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60_000_000);
    let begin = Instant::now();
    let genome = genome(length);
    let mut counts = HashMap::new();
    let mut counting = 0.0;
    for block in genome.chunks(4096) {
        let start = Instant::now();
        for piece in block.windows(6) {
            if !is_masked(piece) {
                count_piece(&mut counts, piece);
            }
        }
        counting += start.elapsed().as_secs_f64();
    }
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {counting:.4}, \"wall_s\": {wall:.4}, \"result\": {}}}", counts.len());
}
