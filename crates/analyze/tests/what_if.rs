//! Predicted savings against programs that are run again with the change made.

mod programs;

use programs::programs;
use transect_analyze::synthetic::{Do, Program, Script};
use transect_analyze::{CriticalityView, Selection, WhatIfRow, criticality, summary, totals};
use transect_profile_model::{SchedWait, WaitKind};

fn functions(program: &Program) -> Vec<&'static str> {
    let mut functions: Vec<&'static str> = Vec::new();
    for (at, what) in program.threads.iter().flat_map(|thread| &thread.steps) {
        if matches!(what, Do::Run(_) | Do::Sleep(_) | Do::Sync(_)) && !functions.contains(at) {
            functions.push(at);
        }
    }
    functions
}

fn rows<'a>(view: &'a CriticalityView, function: &str, speedup: f64) -> Vec<&'a WhatIfRow> {
    view.what_if.iter().filter(|row| row.path == function && row.speedup == speedup).collect()
}

#[test]
fn savings_are_those_of_the_changed_program() {
    let (mut total, mut contained, mut near) = (0, 0, 0);
    let mut misses = Vec::new();
    let mut width = 0.0;
    for (name, program) in programs() {
        let base = program.run();
        let view = criticality(&base.profile, &Selection::default()).unwrap();
        for function in functions(&program) {
            for speedup in [1.1, 2.0, f64::INFINITY] {
                let changed = program.sped_up(function, speedup).run();
                let truth = 1.0 - changed.elapsed_ns as f64 / base.elapsed_ns as f64;
                let Some(row) =
                    rows(&view, function, speedup).into_iter().max_by(|a, b| a.saving_high.total_cmp(&b.saving_high))
                else {
                    assert!(truth < 0.05, "{name}: {function} has no row, but {truth:.3} would be saved");
                    continue;
                };
                assert!(row.saving_low <= row.saving && row.saving <= row.saving_high);
                total += 1;
                width += row.saving_high - row.saving_low;
                let inside = (row.saving_low - 0.02..=row.saving_high + 0.02).contains(&truth);
                contained += i32::from(inside);
                let close = (row.saving - truth).abs() <= 0.05;
                near += i32::from(close);
                let note = format!(
                    "{}{} {name}: {function} ×{speedup}: {:.3} [{:.3}, {:.3}], truth {truth:.3}",
                    if inside { ' ' } else { '!' },
                    if close { ' ' } else { '~' },
                    row.saving,
                    row.saving_low,
                    row.saving_high
                );
                println!("{note}");
                if !inside && (row.saving - truth).abs() > 0.15 {
                    misses.push(note);
                }
            }
        }
    }
    println!(
        "{total} predictions, {contained} inside, {near} within 5 points, mean width {:.3}",
        width / f64::from(total)
    );
    assert!(contained * 10 >= total * 9, "{contained} of {total} are inside the bounds");
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn a_recording_that_goes_on_without_threads_predicts_the_same() {
    for (name, program) in programs() {
        let recording = program.run();
        let mut longer = recording.profile.clone();
        let session = longer.meta.criticality.as_mut().unwrap();
        (session.start_ns, session.end_ns) = (-recording.elapsed_ns, session.end_ns + 2 * recording.elapsed_ns);
        let view = |profile| criticality(profile, &Selection::default()).unwrap().what_if;
        assert_eq!(view(&longer), view(&recording.profile), "{name}");
    }
}

#[test]
fn times_are_of_the_clock_on_the_wall_also_with_processes_apart() {
    let mut recording = programs().swap_remove(0).1.run();
    // Each application has its own busy time.
    let session = recording.profile.meta.criticality.as_mut().unwrap();
    session.busy_ns *= 3;
    let view = criticality(&recording.profile, &Selection::default()).unwrap();
    assert!(!view.what_if.is_empty());
    for row in &view.what_if {
        assert_eq!(row.saving_ns, (row.saving * recording.elapsed_ns as f64).round() as i64, "{row:?}");
    }
}

/// A thread holds a lock that one waits for with which the program ends, and shares its only CPU with a third.
fn pinned(cpu: Option<usize>) -> Program {
    let low = vec![("hold", Do::Lock(0)), ("hold", Do::Run(4_000.0)), ("hold", Do::Unlock(0))];
    let high = vec![
        ("urgent", Do::Sleep(500.0)),
        ("urgent", Do::Lock(0)),
        ("urgent", Do::Run(100.0)),
        ("urgent", Do::Unlock(0)),
    ];
    let script = |name: &str, steps| Script { name: name.into(), steps, cpu };
    let main = (1..=3).map(|id| ("start", Do::Spawn(id))).chain([("wait", Do::Join(3))]).collect();
    let middle = vec![("middle", Do::Run(30_000.0))];
    let threads = vec![
        Script { name: "main".into(), steps: main, cpu: None },
        script("low", low),
        script("middle", middle),
        script("high", high),
    ];
    Program { cpus: 2, threads }
}

#[test]
fn threads_that_are_pinned_to_one_cpu_do_not_run_on_another() {
    let (program, unpinned) = (pinned(Some(0)), pinned(None));
    let base = program.run();
    let view = criticality(&base.profile, &Selection::default()).unwrap();
    let saved = |changed: &Program| 1.0 - changed.run().elapsed_ns as f64 / base.elapsed_ns as f64;
    let check = |function: &str, speedup: f64, truth: f64| {
        let rows = rows(&view, function, speedup).into_iter();
        let row = rows.max_by(|a, b| a.saving.total_cmp(&b.saving)).unwrap();
        assert!((row.saving_low - 0.02..=row.saving_high + 0.02).contains(&truth), "{truth}: {row:?}");
        assert!(truth > 0.3 && (row.saving - truth).abs() < 0.15, "{truth}: {row:?}");
    };
    for (function, speedup) in [("middle", f64::INFINITY), ("hold", f64::INFINITY), ("hold", 2.0)] {
        check(function, speedup, saved(&program.sped_up(function, speedup)));
    }
    check("[CPUs]", f64::INFINITY, saved(&unpinned));
    let times = totals(&base.profile).scheduled.unwrap();
    assert!(times.pinned_ns > 2_000_000 && times.others_ns * 10 < times.pinned_ns, "{times:?}");
    let competes = |program: &Program| {
        let findings = summary(&program.run().profile).into_iter();
        findings.map(|row| row.finding).find(|finding| finding.contains("compete for CPU 0"))
    };
    assert!(competes(&program).is_some_and(|finding| finding.starts_with("3 threads")), "{:?}", competes(&program));
    assert_eq!(competes(&unpinned), None);
}

/// Waits that come too fast are only summed up by thread, place and who ends them: the client's are as long as what the server does,
/// its own short waits included.
#[test]
fn summed_up_waits_for_a_server_shrink_with_the_servers_own() {
    let (_, program) = programs().into_iter().find(|(name, _)| *name == "syncing server, one client").unwrap();
    let base = program.run();
    let mut profile = base.profile;
    let mut sums: Vec<SchedWait> = Vec::new();
    for wait in std::mem::take(&mut profile.sched.waits) {
        let same = |sum: &&mut SchedWait| {
            (sum.task, sum.kind, sum.stack, sum.waker) == (wait.task, wait.kind, wait.stack, wait.waker)
        };
        match sums.iter_mut().find(same) {
            Some(sum) => {
                sum.end_ns = sum.end_ns.max(wait.end_ns);
                (sum.count, sum.ns, sum.idle_ns) =
                    (sum.count + wait.count, sum.ns + wait.ns, sum.idle_ns + wait.idle_ns);
            }
            None => sums.push(wait),
        }
    }
    profile.sched.waits = sums;
    let view = criticality(&profile, &Selection::default()).unwrap();
    let truth = 1.0 - program.sped_up("persist", f64::INFINITY).run().elapsed_ns as f64 / base.elapsed_ns as f64;
    let rows = rows(&view, "persist", f64::INFINITY);
    let row = rows.iter().max_by(|a, b| a.saving_high.total_cmp(&b.saving_high)).unwrap();
    assert!((row.saving_low - 0.05..=row.saving_high + 0.05).contains(&truth), "{row:?}, truth {truth:.3}");
}

/// Nothing says who holds a file's lock. Who gives it free has held it, also while it slept.
#[test]
fn a_sleep_under_a_lock_without_an_owner_is_what_others_wait_for() {
    let script = |name: &str, steps: &[_]| Script { name: name.to_owned(), steps: steps.to_vec(), ..Script::default() };
    let main = [
        ("main", Do::Spawn(1)),
        ("pause", Do::Sleep(200_000.0)),
        ("take", Do::Lock(0)),
        ("take", Do::Run(2_000.0)),
        ("take", Do::Unlock(0)),
        ("main", Do::Join(1)),
    ];
    let holder = [("hold", Do::Lock(0)), ("hold", Do::Sleep(1_000_000.0)), ("hold", Do::Unlock(0))];
    let program = Program { cpus: 2, threads: vec![script("main", &main), script("holder", &holder)] };
    let base = program.run();
    let mut profile = base.profile;
    let locks = profile.sched.waits.iter_mut().filter(|wait| wait.kind == WaitKind::Mutex);
    locks.for_each(|wait| wait.holder = None);
    let view = criticality(&profile, &Selection::default()).unwrap();
    let truth = 1.0 - program.sped_up("hold", f64::INFINITY).run().elapsed_ns as f64 / base.elapsed_ns as f64;
    let rows = rows(&view, "hold", f64::INFINITY);
    let row = rows.iter().max_by(|a, b| a.saving_high.total_cmp(&b.saving_high)).unwrap();
    assert!(
        truth > 0.7 && (row.saving_low - 0.02..=row.saving_high + 0.02).contains(&truth),
        "{row:?}, truth {truth:.3}"
    );
}

/// A thread that looks after something now and then waits for the word to end with a timeout, as runtimes' service threads do: its
/// waits are as many as the run is long.
#[test]
fn who_waits_with_a_timeout_until_it_is_told_keeps_nobody() {
    let main = vec![
        ("main", Do::Lock(0)),
        ("start", Do::Spawn(1)),
        ("work", Do::Run(600_000.0)),
        ("main", Do::Unlock(0)),
        ("wait", Do::Join(1)),
    ];
    let service = vec![("service", Do::Sleep(250_000.0)), ("service", Do::Sleep(250_000.0)), ("service", Do::Lock(0))];
    let script = |name: &str, steps| Script { name: name.into(), steps, cpu: None };
    let program = Program { cpus: 2, threads: vec![script("main", main), script("service", service)] };
    let mut recording = program.run();
    let tables = &mut recording.profile.sched;
    let number = tables.tasks.iter().position(|task| task.name.starts_with("service")).unwrap() as u32;
    let stack = tables.waits.iter().find(|wait| wait.task == number).unwrap().stack;
    let mut own: Vec<&mut SchedWait> = tables.waits.iter_mut().filter(|wait| wait.task == number).collect();
    assert_eq!(own.len(), 3);
    assert!(own[2].waker.is_some());
    for wait in &mut own {
        (wait.kind, wait.stack, wait.holder) = (WaitKind::Condition, stack, None);
    }
    let view = criticality(&recording.profile, &Selection::default()).unwrap();
    let saving = rows(&view, "work", f64::INFINITY).first().map_or(0.0, |row| row.saving);
    assert!(saving > 0.9, "{saving:.3}");
}
