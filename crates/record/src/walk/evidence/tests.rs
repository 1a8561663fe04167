//! What the gatherer makes of records whose times are known.

use transect_bpf_collect::record::{sched_object, sched_sample, sched_wait};

use super::*;

const MS: u64 = 1_000_000;
/// `SYSTEM_CALL_NONE`.
const OUTSIDE: u32 = u32::MAX;
const FSYNC: u32 = 74;
const TASK: u32 = 5;

/// A wait in `call`, in ms, after a slice in which the thread was ready for a while and on a CPU for the rest.
fn wait(stack: u64, call: u32, slice: Option<(u64, u64)>, begin: u64, end: u64) -> Record<'static> {
    let (slice_begin, ready) = slice.unwrap_or((begin, 0));
    Record::Wait(sched_wait {
        task: TASK,
        stack,
        call,
        slice_begin: slice_begin * MS,
        slice_runnable_ns: ready * MS,
        begin: begin * MS,
        end: end * MS,
        object: sched_object::default(),
        ..sched_wait::default()
    })
}

fn sample(time: u64) -> Record<'static> {
    Record::Sample(sched_sample {
        task: TASK,
        stack: 9,
        call: OUTSIDE,
        time: time * MS,
        active_ns: MS,
        period: MS as u32,
        ..Default::default()
    })
}

fn sums(gatherer: &mut Gatherer, open: Vec<OpenThread>) -> HashMap<(StackNumber, u32), Sum> {
    gatherer.take(open, false).sums.into_iter().map(|(key, sum)| ((key.stack, key.call), sum)).collect()
}

#[test]
fn time_ready_after_a_wait_is_that_waits() {
    let mut gatherer = Gatherer::default();
    gatherer.accept(&wait(77, FSYNC, None, 0, 10));
    // No stack was taken of the next one, and the third begins after 20 ms on a CPU.
    gatherer.accept(&wait(0, FSYNC, Some((10, 6)), 17, 20));
    gatherer.accept(&wait(77, OUTSIDE, Some((20, 4)), 25, 26));
    gatherer.accept(&wait(77, FSYNC, Some((26, 9)), 55, 56));
    let sums = sums(&mut gatherer, Vec::new());
    let ready =
        |stack, call| sums.get(&(stack, call)).map(|sum| (sum.runnable.ns as u64 / MS, sum.waits.ns as u64 / MS));
    assert_eq!(ready(1, FSYNC), Some((6, 11)));
    assert_eq!(ready(NO_STACK, FSYNC), Some((4, 3)), "known, though of no stack");
    assert_eq!(ready(1, OUTSIDE), Some((0, 1)), "it may have been preempted since");
}

#[test]
fn time_after_a_preemption_is_no_waits() {
    let mut gatherer = Gatherer::default();
    gatherer.accept(&wait(77, FSYNC, None, 0, 10));
    let preempted =
        sched_preempted { task: TASK, begin: 13 * MS, end: 17 * MS, stack: 9, call: OUTSIDE, ..Default::default() };
    gatherer.accept(&Record::Preempted(preempted));
    // Ready for 6 ms in this slice: 2 of them after the wait.
    gatherer.accept(&wait(77, FSYNC, Some((10, 6)), 18, 20));
    gatherer.accept(&wait(77, FSYNC, Some((20, 1)), 22, 23));
    let sums = sums(&mut gatherer, Vec::new());
    assert_eq!(sums[&(2, OUTSIDE)].preempted.ns as u64 / MS, 4);
    assert_eq!(sums[&(1, FSYNC)].runnable.ns as u64 / MS, 2 + 1);
}

#[test]
fn a_wait_under_way_counts_once_in_all() {
    let mut gatherer = Gatherer::default();
    let mut whole = Times::default();
    for until in [4, 9] {
        let Record::Wait(open) = wait(77, FSYNC, None, 1, until) else { unreachable!() };
        gatherer.wait_so_far(TASK, &open, false);
        whole.add(&sums(&mut gatherer, Vec::new())[&(1, FSYNC)].waits);
    }
    gatherer.accept(&wait(77, FSYNC, None, 1, 21));
    whole.add(&sums(&mut gatherer, Vec::new())[&(1, FSYNC)].waits);
    assert_eq!((whole.count, whole.ns as u64 / MS), (1, 20));
}

#[test]
fn samples_stand_for_those_that_did_not_count() {
    let mut gatherer = Gatherer::default();
    gatherer.sampling(false, 10 * MS);
    (11..=15).for_each(|time| gatherer.accept(&sample(time)));
    gatherer.sampling(true, 16 * MS);
    assert!(sums(&mut gatherer, Vec::new()).is_empty());
    (17..=19).for_each(|time| gatherer.accept(&sample(time)));
    // Five are owed: the first stands for three of them at most, the second for the rest.
    let seen = sums(&mut gatherer, Vec::new())[&(1, OUTSIDE)].samples;
    let square = |times: u64| ((times * MS) as f64).powi(2);
    assert_eq!((seen.count, seen.ns as u64 / MS), (3, 4 + 3 + 1));
    assert!((seen.squares / (square(4) + square(3) + square(1)) - 1.0).abs() < 1e-9, "each is one sample");
    // A record that comes late is still of its time.
    gatherer.accept(&sample(14));
    assert!(sums(&mut gatherer, Vec::new()).is_empty());
}

#[test]
fn what_is_owed_is_time_and_not_samples() {
    let mut gatherer = Gatherer::default();
    gatherer.sampling(false, 10 * MS);
    (11..=14).for_each(|time| gatherer.accept(&sample(time)));
    gatherer.sampling(true, 15 * MS);
    // Samples come less often from here on: the first stands for all of the four milliseconds.
    for time in [20, 25] {
        let Record::Sample(sample) = sample(time) else { unreachable!() };
        gatherer.accept(&Record::Sample(sched_sample { period: 5 * MS as u32, ..sample }));
    }
    assert_eq!(sums(&mut gatherer, Vec::new())[&(1, OUTSIDE)].samples.ns as u64 / MS, 5 + 4 + 5);
}

#[test]
fn samples_stand_for_the_time_since_the_last() {
    let mut gatherer = Gatherer::default();
    for (time, period) in [(1, 1), (6, 5), (11, 5)] {
        let Record::Sample(sample) = sample(time) else { unreachable!() };
        gatherer.accept(&Record::Sample(sched_sample { period: period * 1000, ..sample }));
    }
    let sums = sums(&mut gatherer, Vec::new());
    let samples = sums.get(&(1, OUTSIDE)).map(|sum| sum.samples);
    assert_eq!(samples, Some(Times { count: 3, ns: 11e3, squares: 51e6 }));
}

#[test]
fn waits_that_the_walk_ended_are_told_from_those_of_another_tracer() {
    let ended_by = |name: &str| {
        let Record::Wait(mut wait) = wait(77, OUTSIDE, None, 0, 10) else { unreachable!() };
        wait.waker_context = waker_context::OTHER_TASK;
        wait.waker_comm.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from.cast_signed());
        let mut gatherer = Gatherer::default();
        gatherer.accept(&Record::Wait(wait));
        gatherer.take(Vec::new(), false).sums[0].0.by_walk
    };
    assert!(ended_by("transect") && !ended_by("strace"));
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut gatherer = Gatherer::default();
    for number in 0..MAX_WAITS as u64 + 3 {
        gatherer.accept(&wait(number + 1, OUTSIDE, None, 0, 1));
    }
    gatherer.accept(&Record::Sample(sched_sample { task: TASK, call: OUTSIDE, period: 1, ..Default::default() }));
    gatherer.reject();
    let evidence = gatherer.take(Vec::new(), true);
    assert_eq!(evidence.waits.refused, 3);
    assert_eq!((evidence.not_kept.stackless, evidence.not_kept.malformed), (1, 1));
    assert_eq!(evidence.not_kept.stacks, 0);
    for number in 0..MAX_STACKS as u64 {
        gatherer.accept(&wait(number + 1, OUTSIDE, None, 2, 3));
    }
    gatherer.accept(&wait(u64::MAX, OUTSIDE, None, 4, 5));
    assert_eq!(gatherer.take(Vec::new(), true).not_kept.stacks, 1);
}
