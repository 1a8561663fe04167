//! Counts the pairs of stars that are close with a chain of iterators over all pairs.
use std::time::Instant;

#[derive(Clone, Copy)]
struct Star {
    x: f64,
    y: f64,
    z: f64,
}

#[inline(never)]
fn sky(night: u64, count: usize) -> Vec<Star> {
    let mut state = night * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / 1e4
    };
    (0..count).map(|_| Star { x: next(), y: next(), z: next() }).collect()
}

fn distance(a: &Star, b: &Star) -> f64 {
    ((a.x - b.x).powi(2) + (a.y - b.y).powi(2) + (a.z - b.z).powi(2)).sqrt()
}

#[inline(never)]
fn close_pairs(stars: &[Star]) -> usize {
    stars
        .iter()
        .enumerate()
        .flat_map(|(i, a)| stars[i + 1..].iter().map(move |b| (a, b))) // culprit
        .filter(|(a, b)| distance(a, b) < 20.0) // culprit
        .count() // culprit
}

fn brightest(stars: &[Star]) -> f64 {
    stars.iter().map(|star| star.z).fold(0.0, f64::max)
}

fn main() {
    let nights: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(90);
    let begin = Instant::now();
    let (to, notes) = std::sync::mpsc::channel::<u64>();
    // Waits for notes that nobody sends.
    let reader = std::thread::spawn(move || notes.iter().count());
    let (mut pairing, mut sum) = (0.0, 0.0);
    for night in 0..nights {
        let stars = sky(night, 5000);
        let start = Instant::now();
        sum += close_pairs(&stars) as f64;
        pairing += start.elapsed().as_secs_f64();
        sum += brightest(&stars);
    }
    drop(to);
    sum += reader.join().unwrap() as f64;
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {pairing:.4}, \"wall_s\": {wall:.4}, \"result\": {sum}}}");
}
