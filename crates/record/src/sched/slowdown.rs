//! By how much the recording's own work makes a run longer: work delays those that wait for it, and a thread that sleeps by
//! the clock waits for nobody.

use std::collections::HashMap;
use std::hash::Hash;

/// Part of a thread's life in sleeps from which nothing but its own time sets its pace.
const MOSTLY: f64 = 0.5;

/// Part of the active time that can be the recording's: programs whose every call is timed are up to 40 times slower.
const MOST_OF_BUSY: f64 = 0.98;

/// What one thread did.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadLife<K> {
    /// Threads of one kind do the same: beside one another, or one after the other.
    pub kind: K,
    /// From its beginning to its end, ns.
    pub life_ns: i64,
    /// Of it in sleeps that a time ends, ns.
    pub slept_ns: i64,
    /// What the recording took of it, on a CPU, ns.
    pub spent_ns: f64,
}

/// The share of a run of `whole` ns by which it is longer. `room`: the time on CPUs of which work takes that share where threads
/// wait for one another.
///
/// A thread that mostly sleeps is late by what was taken of its own time, whatever others do. Eight of them at once are late by
/// the eighth part of all that was taken; eight that come one after the other, by all of it.
pub(super) fn share<K: Hash + Eq>(threads: impl IntoIterator<Item = ThreadLife<K>>, whole: i64, room: f64) -> f64 {
    let mut sleepers: HashMap<K, (f64, f64)> = HashMap::new();
    let mut others = 0.0;
    for thread in threads {
        if thread.slept_ns as f64 >= MOSTLY * thread.life_ns.max(1) as f64 {
            let (spent, life) = sleepers.entry(thread.kind).or_default();
            *spent += thread.spent_ns;
            *life += thread.life_ns as f64;
        } else {
            others += thread.spent_ns;
        }
    }
    let late = |(spent, life): (f64, f64)| spent / life.max(whole as f64).max(1.0);
    others / room.max(1.0) + sleepers.into_values().map(late).sum::<f64>()
}

/// Of a `share` what is possible in a run whose threads were active for some time and idle for some, ns: no more than the active
/// time can have been added, and what the program waited for the recorder, `held` at most. A little was the program's own.
pub(super) fn possible(share: f64, (busy, idle): (i64, i64), held: i64) -> f64 {
    let whole = busy + idle;
    let most = if whole > 0 { (busy as f64 * MOST_OF_BUSY + held.min(idle) as f64) / whole as f64 } else { 1.0 };
    share.clamp(0.0, most.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(kind: &str, life_ns: i64, slept_ns: i64, spent_ns: f64) -> ThreadLife<&str> {
        ThreadLife { kind, life_ns, slept_ns, spent_ns }
    }

    #[test]
    fn sleepers_beside_one_another_are_late_by_their_own_cost_each() {
        // Eight threads that sleep 90 of 100 ns and lose 4 each: the run is 4 % longer. They are active for a third of the run, with
        // 80 ns on CPUs.
        let eight = || (0..8).map(|_| thread("us", 100, 90, 4.0));
        assert!((share(eight(), 100, 80.0 * 3.0) - 0.04).abs() < 1e-9);
        // The same one after the other: each is late, and the next one with it.
        let turns = (0..8).map(|_| thread("sleep", 12, 11, 0.5));
        assert!((share(turns, 100, 80.0) - 0.04).abs() < 1e-9);
    }

    #[test]
    fn what_the_program_waited_was_not_added() {
        // Active for 0.2 s and blocked for 0.8 s.
        assert_eq!(possible(0.1, (200, 800), 0), 0.1);
        assert!((possible(1.0, (200, 800), 0) - 0.196).abs() < 1e-9);
        // Of these in waits for the recorder, 50 ms.
        assert!((possible(1.0, (200, 800), 50) - 0.246).abs() < 1e-9);
        assert_eq!((possible(-0.1, (200, 800), 0), possible(3.0, (0, 0), 0)), (0.0, 1.0));
    }

    #[test]
    fn work_that_others_wait_for_delays_them_all() {
        // Two that hand work to and fro: what either loses, both wait for.
        let two = [thread("a", 100, 0, 10.0), thread("b", 100, 0, 10.0)];
        assert!((share(two, 100, 100.0) - 0.2).abs() < 1e-9);
        // A clock beside them that hardly does anything hides none of it.
        let clock = [thread("a", 100, 0, 20.0), thread("tick", 100, 99, 0.0)];
        assert!((share(clock, 100, 100.0) - 0.2).abs() < 1e-9);
        assert_eq!(share(std::iter::empty::<ThreadLife<u8>>(), 0, 0.0), 0.0);
    }
}
