//! The scheduler's view of programs on paper: sums, places, kinds, holders, findings; and of damaged tables.

mod programs;

use programs::programs;
use proptest::prelude::*;
use std::collections::BTreeSet;

use transect_analyze::synthetic::{Program, Recording, scheduled_compressor};
use transect_analyze::{CriticalityView, FindingKind, PathState, Selection, criticality, summary};
use transect_profile_model::{Lock, Profile, WaitKind};

fn view(profile: &Profile) -> CriticalityView {
    criticality(profile, &Selection::default()).unwrap()
}

fn run(name: &str) -> Recording {
    let found = programs().into_iter().find(|(other, _)| *other == name);
    found.map(|(_, program): (_, Program)| program.run()).unwrap()
}

/// Sums that hold whatever the tables say.
fn check_sums(view: &CriticalityView) {
    let sum = |state| view.paths.iter().filter(|row| row.state == state).map(|row| row.criticality_ns).sum::<i64>();
    assert_eq!(sum(PathState::Running), view.busy_ns);
    assert_eq!(sum(PathState::Waiting), view.idle_ns);
    assert_eq!(view.elapsed_ns, view.busy_ns + view.idle_ns);
    assert_eq!(view.corrected_ns, view.paths.iter().map(|row| row.corrected_ns).sum::<i64>());
    assert!(view.paths.windows(2).all(|pair| pair[0].corrected_ns >= pair[1].corrected_ns));
    assert!(view.waits.windows(2).all(|pair| pair[0].critical_ns >= pair[1].critical_ns));
    for row in &view.what_if {
        let (low, best, high) = (row.saving_low, row.saving, row.saving_high);
        assert!(0.0 <= low && low <= best && best <= high && high <= 1.0, "{row:?}");
    }
    let nodes = view.graph.nodes.len();
    assert!(view.graph.edges.iter().all(|edge| edge.from < nodes && edge.to < nodes && edge.cascaded_ns >= edge.ns));
}

#[test]
fn all_time_is_distributed() {
    for (name, program) in programs() {
        let recording = program.run();
        let view = view(&recording.profile);
        check_sums(&view);
        assert_eq!(view.elapsed_ns, recording.elapsed_ns, "{name}");
        let critical: i64 = view.waits.iter().map(|row| row.critical_ns).sum();
        assert!(critical <= view.elapsed_ns, "{name}: waits are critical for {critical} of {} ns", view.elapsed_ns);
        assert_eq!(view.parallelism.iter().map(|row| row.ns).sum::<i64>(), view.elapsed_ns, "{name}");
        let threads: i64 = view.threads.iter().map(|row| row.criticality_ns).sum();
        let groups: i64 = view.groups.iter().map(|row| row.criticality_ns).sum();
        assert!((threads - view.busy_ns).abs() <= view.threads.len() as i64, "{name}: {threads} {}", view.busy_ns);
        assert_eq!(threads, groups, "{name}");
        // What spinning threads lose others gain.
        assert_eq!(view.corrected_ns, view.elapsed_ns, "{name}");
        let active: f64 = view.over_time.iter().map(|step| step.mean * (step.end_ns - step.start_ns) as f64).sum();
        let counted: i64 = view.parallelism.iter().map(|row| i64::from(row.n) * row.ns).sum();
        assert!((active - counted as f64).abs() <= counted as f64 * 1e-3, "{name}: {active} {counted}");
    }
}

#[test]
fn the_exact_sums_of_a_large_recording_stay_exact() {
    let view = view(&scheduled_compressor(20_000, 60));
    check_sums(&view);
    let idle: i64 = view.over_time.iter().map(|step| step.idle_ns).sum();
    assert!((idle - view.idle_ns).abs() <= view.over_time.len() as i64);
}

#[test]
fn findings_lead_to_the_bottleneck() {
    // By what they could save: computing that takes longer than the serial part, or than the run queue, comes first.
    let second = |name: &str| usize::from(["serial between parallel", "overload"].contains(&name));
    let expected = [
        ("hot mutex", FindingKind::CriticalWait, "update"),
        ("mutex, saturated", FindingKind::CriticalWait, "update"),
        ("barrier, one heavy", FindingKind::SerialCode, "heavy"),
        ("spin barrier", FindingKind::Spinning, "heavy"),
        ("pipeline", FindingKind::SerialCode, "compress"),
        ("serial between parallel", FindingKind::SerialCode, "merge_results"),
        ("commit path", FindingKind::CriticalWait, "commit"),
        ("overload", FindingKind::Oversubscription, "worker"),
        ("sleeper", FindingKind::Blocked, "back_off"),
        ("two halves", FindingKind::SerialCode, "left_half"),
    ];
    for (name, kind, word) in expected {
        let rows = summary(&run(name).profile);
        let row = &rows[second(name)];
        let text = format!("{} {}", row.finding, row.evidence);
        assert!(row.kind == kind && text.contains(word), "{name}: {rows:#?}");
        assert!(rows.iter().all(|row| row.view == "criticality"), "{name}");
    }
}

/// A lock's holder does much beside: without the lock it does that still.
#[test]
fn a_locks_repair_saves_no_more_than_it_is_held() {
    let mut profile = run("hot mutex").profile;
    let saved = |profile: &Profile| {
        let rows = summary(profile);
        let row = rows.iter().find(|row| row.kind == FindingKind::CriticalWait).unwrap();
        (row.percent, row.saves_percent.unwrap())
    };
    let (critical, unknown) = saved(&profile);
    assert!(unknown > critical + 5.0, "{critical} {unknown}");
    let wall_ns = view(&profile).elapsed_ns;
    let mut held = |part: f64| {
        let hold_ns = (wall_ns as f64 * part) as i64;
        let (object, path) = ("mutex lock0".to_owned(), "app!worker_main".to_owned());
        profile.locks = vec![Lock {
            process: 0,
            object,
            path,
            acquisitions: 1,
            contended: 1,
            wait_ns: 0,
            hold_ns,
            hold_ns_low: None,
            hold_ns_high: None,
        }];
        saved(&profile).1
    };
    assert_eq!(held(0.01), unknown, "held for less than others waited: not all calls were seen");
    assert!((held((critical + 2.0) / 100.0) - critical - 2.0).abs() < 0.1);
    assert_eq!(held(1.0), unknown);
}

#[test]
fn what_a_holder_calls_is_told_with_its_line() {
    let mut profile = run("hot mutex").profile;
    let tables = &mut profile.sched;
    for frame in tables.frames.iter_mut().filter(|frame| frame.function == "update") {
        (frame.file, frame.line) = ("/src/app.c".into(), 7);
    }
    let sync = tables.frames.len() as u32;
    let mut frame = tables.frames[0].clone();
    (frame.function, frame.file, frame.line) = ("fsync".into(), String::new(), 0);
    tables.frames.push(frame);
    let holders: BTreeSet<_> = tables.waits.iter().filter_map(|wait| wait.holder?.stack).collect();
    for stack in holders {
        tables.stacks[stack as usize].frames.push(sync);
    }
    let rows = summary(&profile);
    let lock = rows.iter().find(|row| row.kind == FindingKind::CriticalWait).unwrap();
    assert!(lock.finding.contains("holds in update at app.c:7 while it calls fsync"), "{}", lock.finding);
    assert!(lock.evidence.contains("100 % of it while the holder was in fsync"), "{}", lock.evidence);
}

#[test]
fn waits_name_kind_holder_and_place() {
    let mutex = view(&run("hot mutex").profile);
    let row = &mutex.waits[0];
    assert_eq!((row.kind, row.object.as_str(), row.group.as_str()), (WaitKind::Mutex, "lock0", "worker"));
    assert_eq!(row.stack, ["worker_main", "update", "pthread_mutex_lock"]);
    assert_eq!(row.holder.as_ref().map(|party| party.function.as_str()), Some("update"));
    assert!(row.complete && row.threads == 4);

    let spin = view(&run("spin barrier").profile);
    let row = spin.waits.iter().find(|row| row.kind == WaitKind::Spin).unwrap();
    assert_eq!(row.meanwhile.as_ref().map(|party| party.function.as_str()), Some("heavy"));
    let path = |function: &str| spin.paths.iter().find(|row| row.place == function).unwrap();
    assert!(path("heavy").corrected_ns > path("heavy").criticality_ns * 2);
    assert!(path("wait_in_loop").corrected_ns * 5 < path("wait_in_loop").criticality_ns);

    let crowded = view(&run("overload").profile);
    assert_eq!((crowded.waits[0].kind, crowded.waits[0].holder.as_ref()), (WaitKind::RunQueue, None));
}

#[test]
fn the_graph_leads_to_who_works() {
    let view = view(&run("commit path").profile);
    let node = |name: &str| view.graph.nodes.iter().position(|node| node.name == name).unwrap();
    let (client, disk) = (node("client"), node("disk"));
    let edge = view.graph.edges.iter().find(|edge| (edge.from, edge.to) == (client, disk)).unwrap();
    // Who waits for the lock waits for the disk, whose waits are of one thread at a time.
    assert!(edge.cascaded_ns > edge.ns * 2, "{edge:?}");
    assert!(view.graph.knots.contains(&vec![disk]), "{:?}", view.graph.knots);
}

#[test]
fn a_selection_narrows_the_rows() {
    let profile = run("commit path").profile;
    let selection = Selection { api: Some("commit".into()), ..Selection::default() };
    let narrowed = criticality(&profile, &selection).unwrap();
    assert!(!narrowed.paths.is_empty() && narrowed.paths.iter().all(|row| row.stack.contains(&"commit".to_owned())));
    assert_eq!(narrowed.busy_ns, view(&profile).busy_ns);
    let top = criticality(&profile, &Selection { top: Some(1), ..Selection::default() }).unwrap();
    assert_eq!((top.paths.len(), top.waits.len()), (1, 1));
}

#[test]
fn a_recording_without_the_scheduler_has_no_view() {
    assert_eq!(criticality(&transect_analyze::synthetic::image_server(), &Selection::default()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(20, 300)))]

    /// Numbers out of range, times out of order and missing rows change figures, never sums; and nothing panics.
    #[test]
    fn damaged_tables_keep_their_sums(
        program in 0usize..15,
        changes in proptest::collection::vec((0u8..14, any::<u32>(), -2_000_000i64..60_000_000), 1..60),
    ) {
        let mut profile = programs().swap_remove(program).1.run().profile;
        let sched = &mut profile.sched;
        for (what, at, value) in changes {
            let at = at as usize;
            let (waits, samples, tasks) = (sched.waits.len(), sched.samples.len(), sched.tasks.len());
            match what {
                0 if waits > 0 => sched.waits[at % waits].begin_ns = value,
                1 if waits > 0 => sched.waits[at % waits].end_ns = value,
                2 if waits > 0 => sched.waits[at % waits].count = value % 9 + 2,
                3 if waits > 0 => sched.waits[at % waits].stack = None,
                4 if waits > 0 => sched.waits[at % waits].task = value as u32,
                5 if waits > 0 => sched.waits[at % waits].idle_ns = value.max(0),
                6 if waits > 0 => drop(sched.waits.remove(at % waits)),
                7 if samples > 0 => sched.samples[at % samples].criticality_ns = value.max(0),
                8 if samples > 0 => sched.samples[at % samples].stack = value as u32,
                9 if samples > 0 => sched.samples[at % samples].spin = true,
                10 => sched.tasks[at % tasks].end_ns = value,
                11 => sched.tasks[at % tasks].parent = Some(value as u32),
                12 => sched.moments.truncate(at % (sched.moments.len() + 1)),
                13 if waits > 0 => {
                    let row = &mut sched.waits[at % waits];
                    row.waker.iter_mut().chain(&mut row.holder).for_each(|party| party.task = value as u32 % 9);
                }
                _ => {}
            }
        }
        check_sums(&view(&profile));
        prop_assert!(!summary(&profile).is_empty());
    }
}
