//! What a lock's repair saves, against programs that are run again with the lock's work gone, or with a lock for each thread.

use transect_analyze::synthetic::{Do, Program, Script, Step};
use transect_analyze::{FindingKind, FindingRow, Selection, WhatIfRow, criticality, summary};
use transect_profile_model::{CallStack, Lock, Profile, Space, StackFrame, WaitKind};

/// Numbers around 1.0 that look random.
fn jitter(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    0.6 + 0.8 * ((*seed >> 40) as f64 / f64::from(1 << 24))
}

/// Threads that prepare by themselves and update under a lock, or under one each.
fn updating(threads: usize, cpus: usize, (critical, private): (f64, f64), split: bool) -> Program {
    let mut seed = 7;
    let mut all = vec![Script { name: "main".into(), steps: Vec::new(), ..Script::default() }];
    for n in 0..threads {
        let lock = if split { n } else { 0 };
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..80 {
            let (private, critical) = (private * jitter(&mut seed), critical * jitter(&mut seed));
            steps.extend([("prepare", Do::Run(private)), ("work", Do::Lock(lock))]);
            steps.extend([("update", Do::Run(critical)), ("work", Do::Unlock(lock))]);
        }
        all.push(Script { name: format!("worker{n}"), steps, ..Script::default() });
    }
    let ids = 1..=threads;
    all[0].steps = ids.clone().map(|id| ("start", Do::Spawn(id))).chain(ids.map(|id| ("join", Do::Join(id)))).collect();
    Program { cpus, threads: all }
}

/// The finding about the lock, or about what is done under it.
fn finding(profile: &Profile) -> FindingRow {
    let rows = summary(profile);
    let is_it = |row: &&FindingRow| row.place.function.as_deref() == Some("update");
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{rows:#?}")).clone()
}

fn what_if(profile: &Profile) -> Vec<WhatIfRow> {
    let rows = criticality(profile, &Selection::default()).unwrap().what_if;
    rows.into_iter().filter(|row| row.speedup.is_infinite()).collect()
}

#[test]
fn the_most_that_a_locks_repair_saves_is_no_less_than_it_saves() {
    let times = [(200.0, 200.0), (200.0, 20.0), (200.0, 600.0)];
    let programs = times.into_iter().flat_map(|times| [(2, 2, times), (4, 4, times), (4, 2, times)]);
    for (threads, cpus, times) in programs {
        let program = updating(threads, cpus, times, false);
        let base = program.run();
        let saved = |other: &Program| 100.0 - other.run().elapsed_ns as f64 * 100.0 / base.elapsed_ns as f64;
        let removed = saved(&program.sped_up("update", f64::INFINITY));
        let split = saved(&updating(threads, cpus, times, true));
        let most = finding(&base.profile).saves_percent.unwrap();
        let what = format!(
            "{threads} threads on {cpus} CPUs, {times:?}: removed {removed:.1}, split {split:.1}, said {most:.1}"
        );
        assert!(most + 1.0 >= removed.max(split), "{what}");
        let told = what_if(&base.profile).into_iter().find(|row| row.path == "[contention]");
        let (low, high) = told.map_or((0.0, 0.0), |row| (row.saving_low * 100.0, row.saving_high * 100.0));
        assert!(low - 6.0 <= split && split <= high + 6.0, "{what}: told {low:.1} to {high:.1}");
        let row = finding(&base.profile);
        let worded = row.evidence.contains("is the bound, with nothing done under it");
        assert!(most - high < 10.0 || worded || row.kind != FindingKind::CriticalWait, "{what}: {row:#?}");
        assert!(most <= removed + 12.0, "{what}");
    }
}

/// Makes most holders those that are still giving the lock back when others come, as where it is handed on, and gives these calls
/// a part of what is done under it.
fn at_unlock(profile: &mut Profile) {
    let tables = &mut profile.sched;
    let of = |name: &str| tables.frames.iter().position(|frame| frame.function == name).unwrap() as u32;
    let (root, work, update) = (of("worker_main"), of("work"), of("update"));
    let unlock = tables.frames.len() as u32;
    tables.frames.push(StackFrame {
        function: "__pthread_mutex_unlock_usercnt".into(),
        component: Some(1),
        file: String::new(),
        line: 0,
        inlined: false,
        space: Space::User,
    });
    let handing = tables.stacks.len() as u32;
    tables.stacks.push(CallStack { frames: vec![root, work, unlock], complete: true, linked: 0 });
    let locks = tables.waits.iter_mut().filter(|wait| wait.kind == WaitKind::Mutex);
    for (number, holder) in locks.filter_map(|wait| wait.holder.as_mut()).enumerate() {
        if number % 8 > 0 {
            holder.stack = Some(handing);
        }
    }
    let is_update = |stack: u32| tables.stacks[stack as usize].frames.contains(&update);
    for moment in tables.moments.iter_mut().filter(|moment| is_update(moment.stack)).step_by(5) {
        moment.stack = handing;
    }
    let mut moved = Vec::new();
    for sample in tables.samples.iter_mut().filter(|sample| is_update(sample.stack)) {
        let mut part = sample.clone();
        part.stack = handing;
        (part.samples, part.criticality_ns, part.active_ns) =
            (sample.samples / 5, sample.criticality_ns / 5, sample.active_ns / 5);
        sample.samples -= part.samples;
        sample.criticality_ns -= part.criticality_ns;
        sample.active_ns -= part.active_ns;
        moved.push(part);
    }
    tables.samples.extend(moved);
}

#[test]
fn what_is_done_at_a_contended_locks_calls_goes_with_what_is_done_under_it() {
    for (threads, cpus, times) in [(2, 2, (200.0, 20.0)), (4, 4, (200.0, 200.0))] {
        let program = updating(threads, cpus, times, false);
        let mut base = program.run();
        at_unlock(&mut base.profile);
        let truth = 1.0 - program.sped_up("update", f64::INFINITY).run().elapsed_ns as f64 / base.elapsed_ns as f64;
        let rows = what_if(&base.profile);
        assert!(rows.iter().all(|row| !row.path.contains("unlock") && row.path != "work"), "{rows:#?}");
        let row = rows.iter().find(|row| row.path == "update").unwrap();
        assert!((row.saving - truth).abs() < 0.07, "{row:?}, truth {truth:.3}");
        assert!(row.saving_low <= truth && truth <= row.saving_high + 0.01, "{row:?}, truth {truth:.3}");
        let findings = summary(&base.profile);
        let blamed = |row: &FindingRow| row.place.api.as_deref().is_some_and(|api| api.contains("unlock"));
        assert!(!findings.iter().any(blamed), "{findings:#?}");
    }
}

#[test]
fn a_lock_whose_calls_were_not_all_seen_is_held_for_longer_than_they_tell() {
    let mut profile = updating(4, 4, (200.0, 20.0), false).run().profile;
    let most = finding(&profile).saves_percent;
    profile.locks.push(Lock {
        process: 0,
        object: "mutex lock0".into(),
        path: "app!work".into(),
        acquisitions: 3,
        contended: 1,
        wait_ns: 10_000,
        hold_ns: 900_000,
        hold_ns_low: None,
        hold_ns_high: None,
    });
    assert_eq!(finding(&profile).saves_percent, most);
}

/// Who reads waits for a lock whose holder waits for another lock, which is held for long.
fn two_locks() -> Program {
    let script = |name: &str, steps| Script { name: name.into(), steps, ..Script::default() };
    let mut main: Vec<Step> = vec![("main", Do::Spawn(1)), ("main", Do::Spawn(2))];
    let (mut editor, mut archiver): (Vec<Step>, Vec<Step>) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        main.extend([("think", Do::Run(30.0)), ("read", Do::Lock(0)), ("read", Do::Run(5.0)), ("read", Do::Unlock(0))]);
    }
    for _ in 0..400 {
        editor.extend([("edit", Do::Run(20.0)), ("save", Do::Lock(0)), ("save", Do::Lock(1)), ("save", Do::Run(10.0))]);
        editor.extend([("save", Do::Unlock(1)), ("save", Do::Unlock(0))]);
        archiver.extend([
            ("pack", Do::Lock(1)),
            ("pack", Do::Run(900.0)),
            ("pack", Do::Unlock(1)),
            ("rest", Do::Sleep(30.0)),
        ]);
    }
    Program { cpus: 4, threads: vec![script("main", main), script("editor", editor), script("archiver", archiver)] }
}

#[test]
fn what_is_done_under_a_lock_holds_up_who_waits_behind_its_waiters() {
    let program = two_locks();
    let base = program.run();
    let truth = 1.0 - program.sped_up("pack", f64::INFINITY).run().elapsed_ns as f64 / base.elapsed_ns as f64;
    let rows = what_if(&base.profile);
    let row = rows.iter().find(|row| row.path == "pack").unwrap();
    assert!(
        truth > 0.8 && row.saving_low - 0.05 <= truth && truth <= row.saving_high + 0.05,
        "{row:?}, truth {truth:.3}"
    );
}

/// Threads that rest under one lock and outside of it: where several come in turn, whoever is there first finds it free again and
/// again, though it is what bounds them.
fn resting(threads: usize, (under, outside): (f64, f64)) -> Program {
    let mut seed = 11;
    let mut all = vec![Script { name: "main".into(), steps: Vec::new(), ..Script::default() }];
    for n in 0..threads {
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..60 {
            steps.extend([
                ("work", Do::Lock(0)),
                ("store", Do::Sleep(under * jitter(&mut seed))),
                ("work", Do::Run(5.0)),
            ]);
            steps.extend([("work", Do::Unlock(0)), ("think", Do::Sleep(outside * jitter(&mut seed)))]);
        }
        all.push(Script { name: format!("worker{n}"), steps, ..Script::default() });
    }
    let ids = 1..=threads;
    all[0].steps = ids.clone().map(|id| ("start", Do::Spawn(id))).chain(ids.map(|id| ("join", Do::Join(id)))).collect();
    Program { cpus: 2, threads: all }
}

#[test]
fn a_sleep_under_a_lock_holds_up_those_that_find_it_free_at_times() {
    for (threads, times) in [(4, (3000.0, 3000.0)), (4, (3000.0, 1000.0)), (3, (3000.0, 5000.0)), (8, (2000.0, 6000.0))]
    {
        let program = resting(threads, times);
        let base = program.run();
        let rows = criticality(&base.profile, &Selection::default()).unwrap().what_if;
        let findings = summary(&base.profile);
        let said = |function: &str| {
            let row = findings.iter().find(|row| row.place.function.as_deref() == Some(function));
            row.and_then(|row| row.saves_percent).unwrap_or(0.0) / 100.0
        };
        assert!(said("think") < 0.1 && said("store") > 0.4, "{findings:#?}");
        for function in ["store", "think"] {
            for speedup in [2.0, f64::INFINITY] {
                let changed = program.sped_up(function, speedup).run();
                let truth = 1.0 - changed.elapsed_ns as f64 / base.elapsed_ns as f64;
                let row = rows.iter().find(|row| row.path == function && row.speedup == speedup);
                let (low, best, high) =
                    row.map_or((0.0, 0.0, 0.0), |row| (row.saving_low, row.saving, row.saving_high));
                let what = format!(
                    "{threads} threads, {times:?}, {function} {speedup}: {low:.3} {best:.3} {high:.3}, truth {truth:.3}"
                );
                println!("{what}");
                assert!(low - 0.03 <= truth && truth <= high + 0.03 && (best - truth).abs() < 0.06, "{what}");
            }
        }
    }
}
