//! Three workers take jobs from a list with `while let`, which keeps its lock until the job is done.
use std::sync::Mutex;
use std::time::Instant;

fn mixed(mut state: u64, rounds: u64) -> u64 {
    for i in 0..rounds {
        state = (state ^ (state >> 31) ^ i).wrapping_mul(0x9e3779b97f4a7c15);
    }
    state
}

#[inline(never)]
fn resize_photo(photo: u64) -> u64 {
    mixed(photo, 1_000_000)
}

#[inline(never)]
fn work_off(photos: &Mutex<Vec<u64>>) -> u64 {
    let mut sum = 0u64;
    while let Some(photo) = photos.lock().unwrap().pop() { // culprit
        sum = sum.wrapping_add(resize_photo(photo));
    }
    sum
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(800);
    let begin = Instant::now();
    let photos = Mutex::new((0..count).collect::<Vec<_>>());
    let sum = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| work_off(&photos))).collect();
        workers.into_iter().fold(0u64, |sum, worker| sum.wrapping_add(worker.join().unwrap()))
    });
    let wall = begin.elapsed().as_secs_f64();
    // All jobs are done under the lock: two of three workers always wait. One job by itself says how long it was held.
    let start = Instant::now();
    let again = (0..count / 20).fold(0u64, |sum, photo| sum.wrapping_add(resize_photo(photo)));
    let held = start.elapsed().as_secs_f64() * 20.0;
    println!("{{\"culprit_s\": {:.4}, \"wall_s\": {wall:.4}, \"result\": {}}}", held.min(wall), sum.wrapping_add(again) % 1000);
}
