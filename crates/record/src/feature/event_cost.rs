//! What one event costs here.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::ticks;

/// Events of one round.
const EVENTS: usize = 4096;
/// Rounds; the quickest counts.
const ROUNDS: usize = 32;

/// Ticks of an event as the program's side writes it: clock, place, three stores.
pub fn event_ticks() -> f64 {
    let ring: Vec<[AtomicU64; 3]> = (0..EVENTS).map(|_| [const { AtomicU64::new(0) }; 3]).collect();
    let written = AtomicU64::new(0);
    let round = || {
        let start = ticks();
        for _ in 0..EVENTS {
            let now = ticks();
            let place = written.load(Relaxed);
            written.store(place.wrapping_add(1), Relaxed);
            let event = &ring[place as usize % EVENTS];
            event[0].store(now, Relaxed);
            event[1].store(place, Relaxed);
            event[2].store(start, Relaxed);
        }
        ticks().wrapping_sub(start)
    };
    let quickest = (0..ROUNDS).map(|_| round()).min().unwrap_or(0);
    quickest as f64 / EVENTS as f64
}
