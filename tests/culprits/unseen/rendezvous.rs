// Hands each number to another thread over a channel without room, and both wait for each other.
use std::sync::mpsc::{sync_channel, SyncSender};
#[inline(never)]
fn feed_number(to: &SyncSender<u64>, n: u64) {
    to.send(n).unwrap(); // HERE
}
fn mixed(mut x: u64) -> u64 { for _ in 0..100 { x = (x ^ (x >> 31)).wrapping_mul(0x9e3779b97f4a7c15); } x }
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(120000);
    let timing = std::env::var("OWN_CLOCK").is_ok();
    let begun = std::time::Instant::now();
    let (to, from) = sync_channel(0);
    let adder = std::thread::spawn(move || from.iter().fold(0u64, |a: u64, x: u64| a.wrapping_add(x)));
    let mut spent = std::time::Duration::ZERO;
    for i in 0..n {
        let x = mixed(i);
        let t = std::time::Instant::now();
        feed_number(&to, x);
        if timing { spent += t.elapsed(); }
    }
    drop(to);
    println!("{}", adder.join().unwrap() & 7);
    if timing { eprintln!("own clock: {:.3} of {:.3} s", spent.as_secs_f64(), begun.elapsed().as_secs_f64()); }
}
