//! Blurs a picture row by row and starts two threads for each row.
use std::time::Instant;

const WIDTH: usize = 400;

#[inline(never)]
fn blur_part(part: &mut [f32]) {
    for i in 1..part.len() {
        part[i] = part[i] * 0.75 + part[i - 1] * 0.25;
    }
}

#[inline(never)]
fn blur_row(row: &mut [f32]) {
    let (left, right) = row.split_at_mut(WIDTH / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| blur_part(left)); // culprit
        scope.spawn(|| blur_part(right)); // culprit
    }); // culprit
}

fn main() {
    let rows: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(30000);
    let begin = Instant::now();
    let mut row: Vec<f32> = (0..WIDTH).map(|i| (i * 7919 % 256 + 1) as f32).collect();
    let mut sum = 0.0;
    for _ in 0..rows {
        blur_row(&mut row);
        sum += row[7];
    }
    let threaded = begin.elapsed().as_secs_f64();
    // The same without threads, by a tenth of the rows.
    let start = Instant::now();
    for _ in 0..rows / 10 {
        blur_part(&mut row);
        sum += row[7];
    }
    let alone = start.elapsed().as_secs_f64() * 10.0;
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {:.4}, \"wall_s\": {wall:.4}, \"result\": {sum}}}", threaded - alone);
}
