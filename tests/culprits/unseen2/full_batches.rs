//! The writer waits up to 20 milliseconds for a batch to fill, but nobody sends more before the first is written.
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

struct Record {
    number: u64,
    written: Sender<u64>,
}

fn mixed(mut state: u64, rounds: u64) -> u64 {
    for i in 0..rounds {
        state = (state ^ (state >> 31) ^ i).wrapping_mul(0x9e3779b97f4a7c15);
    }
    state
}

#[inline(never)]
fn fill_batch(records: &Receiver<Record>, first: Record) -> Vec<Record> {
    let mut batch = vec![first];
    while batch.len() < 16 {
        match records.recv_timeout(Duration::from_millis(20)) { // culprit
            Ok(record) => batch.push(record),
            Err(_) => break,
        }
    }
    batch
}

fn write_all(records: Receiver<Record>) -> f64 {
    let mut filling = 0.0;
    while let Ok(first) = records.recv() {
        let start = Instant::now();
        let batch = fill_batch(&records, first);
        filling += start.elapsed().as_secs_f64();
        for record in batch {
            record.written.send(mixed(record.number, 100_000)).unwrap();
        }
    }
    filling
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(70);
    let begin = Instant::now();
    let (to, records) = channel();
    let writer = std::thread::spawn(move || write_all(records));
    let mut sum = 0u64;
    for number in 0..count {
        let (written, answer) = channel();
        to.send(Record { number: mixed(number, 200_000), written }).unwrap();
        sum = sum.wrapping_add(answer.recv().unwrap());
    }
    drop(to);
    let filling = writer.join().unwrap();
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {filling:.4}, \"wall_s\": {wall:.4}, \"result\": {}}}", sum % 1000);
}
