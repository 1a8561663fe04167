//! Writes rows with write! to a file without a buffer: each piece of a row is a system call.
use std::fs::File;
use std::io::Write;
use std::time::Instant;

#[inline(never)]
fn write_row(file: &mut File, row: u64, value: u64) {
    write!(file, "{},{},{};{}\n", row, value % 100, value % 1000, value).unwrap(); // culprit
}

#[inline(never)]
fn value_of(row: u64) -> u64 {
    (0..300).fold(row, |state, i| (state ^ (state >> 31) ^ i).wrapping_mul(0x9e3779b97f4a7c15))
}

fn main() {
    let rows: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(400_000);
    let begin = Instant::now();
    let mut file = File::create("rows.csv").unwrap();
    let (mut writing, mut sum) = (0.0, 0u64);
    for row in 0..rows {
        let value = value_of(row);
        let start = Instant::now();
        write_row(&mut file, row, value);
        writing += start.elapsed().as_secs_f64();
        sum ^= value;
    }
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {writing:.4}, \"wall_s\": {wall:.4}, \"result\": {}}}", sum % 1000);
}
