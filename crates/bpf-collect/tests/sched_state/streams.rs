//! Streams of scheduler events: what really happened on a machine, and what of it arrived.

use proptest::prelude::*;

use crate::model::{Event, Reported};

/// What becomes of one event on its way.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Arrives,
    Lost,
    Twice,
    /// After the event behind it.
    Late,
    /// With the time of a CPU whose clock is off by so much.
    Skewed(i64),
    /// Tells the opposite: what a missed event in between looks like.
    Wrong,
}

/// Time between two events: none, a few nanoseconds, a slice, a long sleep.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0u64), 3 => 1u64..20, 6 => 20u64..1_000_000, 1 => 1_000_000u64..10_000_000_000]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Late),
        2 => (-5_000i64..5_000).prop_map(Fate::Skewed),
        1 => Just(Fate::Wrong),
    ]
}

/// Each event changes its thread: a machine that loses nothing.
pub fn faithful(threads: usize, events: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((0..threads, pause()), 1..events).prop_map(move |steps| {
        let mut now = 1_000_000;
        let mut active = vec![false; threads];
        steps
            .into_iter()
            .map(|(thread, pause)| {
                now += pause;
                active[thread] = !active[thread];
                Event { now, thread, told: if active[thread] { Reported::Active } else { Reported::Blocked } }
            })
            .collect()
    })
}

/// What happened, and what arrived of it.
pub fn lossy(threads: usize, events: usize) -> impl Strategy<Value = (Vec<Event>, Vec<Event>)> {
    faithful(threads, events).prop_flat_map(|happened| {
        let length = happened.len();
        (Just(happened), prop::collection::vec(fate(), length)).prop_map(|(happened, fates)| {
            let arrived = deliver(&happened, &fates);
            (happened, arrived)
        })
    })
}

fn deliver(happened: &[Event], fates: &[Fate]) -> Vec<Event> {
    let mut arrived = Vec::new();
    let mut late = None;
    for (event, fate) in happened.iter().zip(fates) {
        let mut event = *event;
        let overdue: Option<Event> = late.take();
        match fate {
            Fate::Arrives => arrived.push(event),
            Fate::Lost => {}
            Fate::Twice => arrived.extend([event, event]),
            Fate::Late => late = Some(event),
            Fate::Skewed(by) => {
                event.now = event.now.saturating_add_signed(*by);
                arrived.push(event);
            }
            Fate::Wrong => {
                event.told = if event.told == Reported::Active { Reported::Blocked } else { Reported::Active };
                arrived.push(event);
            }
        }
        arrived.extend(overdue);
    }
    arrived.extend(late);
    arrived
}
