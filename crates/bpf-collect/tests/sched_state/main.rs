//! The scheduler's state machine against an exact model: random streams of events, faithful and lossy.

#[allow(unsafe_code)]
mod machine;
mod model;
mod streams;

use machine::{HISTOGRAM, Machine, NS};
use model::{Begin, Event, Reported, Truth, truth};
use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{Signed, ToPrimitive, Zero};
use proptest::prelude::*;

/// More than any stream's last event.
const AFTER: u64 = 777;

/// Feeds the events, advances to `end`; returns the idle time charged to each thread.
fn feed(machine: &mut Machine, events: &[Event], end: u64) -> Vec<u64> {
    let mut idle = vec![0; machine.threads as usize];
    for event in events {
        match event.told {
            Reported::Active => idle[event.thread] += machine.activate(event.thread, event.now),
            Reported::Blocked => machine.block(event.thread, event.now),
        }
    }
    machine.advance(end);
    idle
}

fn end_of(events: &[Event]) -> u64 {
    events.iter().map(|event| event.now).max().unwrap_or(0) + AFTER
}

/// Nanoseconds of a fixed-point number.
fn exact(fixed: u64) -> BigRational {
    BigRational::new(BigInt::from(fixed), BigInt::from(NS))
}

/// What division may leave over: each event moves less than one last digit per thread between threads.
fn rounding(threads: usize, events: usize) -> BigRational {
    exact((threads * (events + 1)) as u64)
}

/// Everything that holds for any stream: the sums, and agreement with the definitions applied to what arrived.
fn check(machine: &Machine, expected: &Truth, idle_charged: &[u64], events: &[Event], end: u64) {
    let clock = machine.clock();
    let threads = expected.threads.len();
    let tolerance = rounding(threads, events.len());
    let mut sum = 0u128;
    for (k, wanted) in expected.threads.iter().enumerate() {
        let got = machine.thread(k);
        sum += u128::from(got.criticality);
        for (what, got, wanted) in
            [("criticality", got.criticality, &wanted.criticality), ("low", got.low, &wanted.low)]
        {
            let difference = (exact(got) - wanted).abs();
            assert!(difference <= tolerance, "{what} of thread {k}: {} instead of {wanted}", exact(got));
        }
        assert_eq!(got.active_ns, wanted.active_ns, "active time of thread {k}");
        assert_eq!(got.blocked_ns, wanted.blocked_ns, "blocked time of thread {k}");
        assert_eq!(got.active != 0, wanted.active, "state of thread {k}");
        assert_eq!(idle_charged[k], wanted.idle_charged, "idle time charged to thread {k}");
    }
    // The remainder is carried on: the sum is short of the busy time by less than a last digit per thread, however long
    // it ran.
    let missing = u128::from(clock.busy) * u128::from(NS) - sum;
    assert!(missing < threads as u128, "sum of criticality is {missing} / {NS} ns short of busy time");
    assert_eq!(clock.busy, expected.busy);
    assert_eq!(clock.idle, expected.idle);
    assert_eq!(clock.active, expected.active);
    for n in 0..HISTOGRAM {
        assert_eq!(machine.histogram(n), expected.histogram.get(n as usize).copied().unwrap_or(0), "h[{n}]");
    }
    if let Some(first) = first_activity(events) {
        assert_eq!(clock.busy + clock.idle, end - first, "elapsed time");
    }
}

/// When the first thread became active: time never goes back.
fn first_activity(events: &[Event]) -> Option<u64> {
    let at = events.iter().position(|event| event.told == Reported::Active)?;
    events[..=at].iter().map(|event| event.now).max()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: transect_testkit::cases(64, 1000), ..ProptestConfig::default() })]

    #[test]
    fn faithful_streams_give_the_exact_values(
        (threads, cpus, events) in (1usize..12, 1u32..8).prop_flat_map(|(threads, cpus)| {
            (Just(threads), Just(cpus), streams::faithful(threads, 150))
        })
    ) {
        let end = end_of(&events);
        let mut machine = Machine::new(threads as u32, cpus);
        let idle = feed(&mut machine, &events, end);
        check(&machine, &truth(threads, cpus, &events, Begin::Activity, end), &idle, &events, end);
    }

    /// Whatever is lost, repeated, late or wrong: values follow from what arrived, sums hold, n is the number of threads
    /// that are held active and is never negative.
    #[test]
    fn lossy_streams_keep_the_sums(
        (threads, cpus, (_, arrived)) in (1usize..12, 1u32..8).prop_flat_map(|(threads, cpus)| {
            (Just(threads), Just(cpus), streams::lossy(threads, 150))
        })
    ) {
        let end = end_of(&arrived);
        let mut machine = Machine::new(threads as u32, cpus);
        let idle = feed(&mut machine, &arrived, end);
        check(&machine, &truth(threads, cpus, &arrived, Begin::Activity, end), &idle, &arrived, end);
    }

    #[test]
    fn n_is_right_once_every_thread_had_an_event(
        (threads, (happened, mut arrived)) in (1usize..12).prop_flat_map(|threads| {
            (Just(threads), streams::lossy(threads, 150))
        })
    ) {
        let state = |thread: usize, events: &[Event]| {
            events.iter().rev().find(|event| event.thread == thread).map_or(Reported::Blocked, |event| event.told)
        };
        let now = end_of(&happened).max(end_of(&arrived));
        for thread in 0..threads {
            arrived.push(Event { now, thread, told: state(thread, &happened) });
        }
        let mut machine = Machine::new(threads as u32, 4);
        feed(&mut machine, &arrived, now);
        let active = (0..threads).filter(|thread| state(*thread, &happened) == Reported::Active).count();
        prop_assert_eq!(machine.clock().active as usize, active);
    }

    #[test]
    fn weights_of_samples_add_up_to_criticality(
        (threads, events, samples) in (1usize..12).prop_flat_map(|threads| {
            (Just(threads), streams::faithful(threads, 150),
             prop::collection::vec((any::<prop::sample::Index>(), 0..threads, 0u64..2_000), 0..100))
        })
    ) {
        let mut due: Vec<(usize, usize, u64)> =
            samples.iter().map(|(at, thread, late)| (at.index(events.len()), *thread, *late)).collect();
        due.sort();
        let mut machine = Machine::new(threads as u32, 4);
        let mut weights = vec![0u64; threads];
        for (k, event) in events.iter().enumerate() {
            match event.told {
                Reported::Active => { machine.activate(event.thread, event.now); }
                Reported::Blocked => machine.block(event.thread, event.now),
            }
            let until = events.get(k + 1).map_or(u64::MAX, |next| next.now);
            let here = due.partition_point(|(at, ..)| *at < k)..due.partition_point(|(at, ..)| *at <= k);
            let mut now = event.now;
            for &(_, thread, late) in &due[here] {
                now = (now + late).min(until);
                weights[thread] += machine.sample(thread, now);
                prop_assert!(weights[thread] <= criticality_by(&machine, thread, now));
            }
        }
        let end = end_of(&events) + 1_000_000;
        machine.advance(end);
        for (thread, weight) in weights.iter_mut().enumerate() {
            *weight += machine.sample(thread, end);
            prop_assert_eq!(*weight, machine.thread(thread).criticality, "thread {}", thread);
        }
    }

    /// Time on a CPU: from getting to leaving, whatever of it was missed counts for nothing.
    #[test]
    fn running_time_is_the_time_between_getting_and_leaving_a_cpu(
        steps in prop::collection::vec((any::<bool>(), 0u64..10_000, -300i64..300), 1..200)
    ) {
        let mut machine = Machine::new(1, 4);
        machine.activate(0, 500);
        let (mut now, mut since, mut wanted) = (1_000u64, None, 0u64);
        for (gets, pause, skew) in steps {
            now += pause;
            let shown = now.saturating_add_signed(skew);
            if gets {
                machine.get_cpu(0, shown);
                since = Some(shown);
            } else {
                machine.leave_cpu(0, shown);
                wanted += since.take().map_or(0, |since: u64| shown.saturating_sub(since));
            }
        }
        now += AFTER;
        machine.advance(now);
        wanted += since.map_or(0, |since| now.saturating_sub(since));
        prop_assert_eq!(machine.thread(0).running_ns, wanted);
    }
}

/// Its criticality if nothing happened until `now`.
fn criticality_by(machine: &Machine, thread: usize, now: u64) -> u64 {
    let (clock, values) = (machine.clock(), machine.thread(thread));
    if values.active == 0 {
        values.criticality
    } else {
        values.criticality + (now - clock.time) * NS / u64::from(clock.active)
    }
}

#[test]
fn more_threads_than_the_histogram_has_rows() {
    let threads = HISTOGRAM + 500;
    let mut machine = Machine::new(threads, 4);
    for thread in 0..threads as usize {
        machine.activate(thread, 1_000);
    }
    machine.advance(1_000 + 1_524_000);
    assert_eq!(machine.clock().active, threads);
    assert_eq!(machine.histogram(HISTOGRAM - 1), 1_524_000);
    // Criticality still divides by the true number.
    assert_eq!(machine.thread(0).criticality, 1_000 * NS);
}

/// A day of a machine with many threads: the sums stay, and each thread's value is within a microsecond of the truth.
#[test]
#[ignore = "takes a minute without --release"]
fn millions_of_events_do_not_drift() {
    const THREADS: usize = 16;
    let mut machine = Machine::new(THREADS as u32, 8);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Denominators divide lcm(1..16): 128 bits hold these sums exactly.
    let mut gained = [Ratio::<i128>::zero(); THREADS];
    let mut active = [false; THREADS];
    let (mut now, mut busy, mut started) = (1_000u64, 0u64, false);
    let events = 5_000_000u64;
    for _ in 0..events {
        let step = next();
        let pause = if step & 0xf00 == 0 { step >> 40 & 0xff_ffff } else { step >> 40 & 0x3fff };
        now += pause;
        let n = active.iter().filter(|active| **active).count() as i128;
        if n > 0 {
            busy += pause;
            let gain = Ratio::new(i128::from(pause), n);
            for (gained, _) in gained.iter_mut().zip(active).filter(|(_, active)| *active) {
                *gained += gain;
            }
        }
        let thread = (step & 0xf) as usize;
        // One event in eight tells nothing new.
        active[thread] = if step >> 4 & 7 == 0 { active[thread] } else { !active[thread] };
        started |= active[thread];
        if active[thread] {
            machine.activate(thread, now);
        } else {
            machine.block(thread, now);
        }
    }
    assert!(started);
    let clock = machine.clock();
    assert_eq!(clock.busy, busy);
    let sum: u128 = (0..THREADS).map(|thread| u128::from(machine.thread(thread).criticality)).sum();
    let off = u128::from(busy) * u128::from(NS) - sum;
    assert!(off < THREADS as u128, "sum of criticality is {off} / {NS} ns short of {busy} ns");
    for (thread, wanted) in gained.iter().enumerate() {
        let got = machine.thread(thread).criticality as f64 / NS as f64;
        let wanted = wanted.to_f64().unwrap();
        assert!(
            (got - wanted).abs() < 1_000.0 && (got - wanted).abs() < wanted * 1e-6,
            "{thread}: {got} instead of {wanted}"
        );
    }
}
