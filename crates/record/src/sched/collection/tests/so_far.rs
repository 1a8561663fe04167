use super::*;

fn sched_of(collected: Collected) -> SchedTables {
    let mut profile = empty();
    collected.merge_into(&mut profile).load_into(&mut profile.sched, true).unwrap();
    profile.sched
}

/// What is handed out meanwhile is what a recording that ended there has, and changes nothing of what comes later: both have
/// their first rows in one file.
#[test]
fn a_recording_goes_on_after_what_there_is_so_far() {
    let turns = |n: u64| (0..1500).map(|turn| (5 + turn % 7, 3 + turn % 5, 1 + (n + turn) % 9)).collect();
    let threads: Vec<Thread> = (0..40).map(|n| Thread { birth: n, turns: turns(n), last: 4 }).collect();
    let (mut events, _, now) = scenario(&threads);
    events.sort_by_key(|event| !matches!(event, Event::Stack { .. }));
    let (before, after) = events.split_at(events.len() / 2);
    let folder = tempfile::tempdir().unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    before.iter().for_each(|event| collection.accept(event.record()));
    let so_far = collection.so_far(totals(now, 10), None);
    after.iter().for_each(|event| collection.accept(event.record()));
    let ended_there = tables(before.iter(), totals(now, 10)).0.sched;
    assert!(!ended_there.waits.is_empty() && sched_of(so_far.tables().unwrap()) == ended_there);
    let without = tables(events.iter(), totals(now, 10)).0.sched;
    assert!(sched_of(collection.finish(totals(now, 10)).unwrap()) == without);
}
