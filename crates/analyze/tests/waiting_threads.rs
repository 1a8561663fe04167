//! What is said of threads that wait: one figure for a wait, nothing for idle threads, and no more than the run took.

use transect_analyze::synthetic::{Do, Program, Script, Step};
use transect_analyze::{FindingRow, Selection, criticality, summary, totals};
use transect_profile_model::{CallStack, Origin, Profile, SchedSample, SchedWait, Space, StackFrame, WaitKind};

fn two(main: Vec<Step>, helper: Vec<Step>) -> Program {
    let script = |name: &str, steps| Script { name: name.into(), steps, ..Script::default() };
    let start = [("main", Do::Spawn(1))].into_iter().chain(main).collect();
    Program { cpus: 2, threads: vec![script("main", start), script("helper", helper)] }
}

/// Of each of the main thread's naps another thread works for a part.
fn napping() -> Profile {
    let main = (0..60).flat_map(|_| [("nap", Do::Sleep(500.0)), ("look", Do::Run(40.0))]).collect();
    let helper = (0..60).flat_map(|_| [("help", Do::Run(200.0)), ("help", Do::Until(540.0))]).collect();
    two(main, helper).run().profile
}

fn about<'a>(rows: &'a [FindingRow], function: &str) -> Option<&'a FindingRow> {
    rows.iter().find(|row| row.place.function.as_deref() == Some(function))
}

/// A server that ran already: its main thread waits for connections, another one for requests on one, and sleeps in each.
fn serving() -> Profile {
    let request = [("next", Do::Sleep(2_000.0)), ("compute", Do::Run(100.0)), ("look_up", Do::Sleep(1_000.0))];
    let main = vec![("main", Do::Sleep(190_000.0))];
    let mut profile = two(main, request.repeat(60)).run().profile;
    let next = profile.sched.frames.iter().position(|frame| frame.function == "next").unwrap() as u32;
    let stacks = profile.sched.stacks.clone();
    for wait in &mut profile.sched.waits {
        if wait.task == 0 {
            (wait.kind, wait.object, wait.stack) = (WaitKind::Socket, "tcp *:4711".into(), None);
        } else if wait.stack.is_some_and(|stack| stacks[stack as usize].frames.contains(&next)) {
            wait.kind = WaitKind::Poll;
        }
    }
    profile.meta.exit_status = None;
    profile.meta.listening = vec![profile.processes[0].pid];
    profile
}

#[test]
fn waiting_for_requests_is_no_cause_and_a_sleep_in_each_is() {
    let rows = summary(&serving());
    let row = &rows[0];
    assert_eq!(row.place.function.as_deref(), Some("look_up"), "{rows:#?}");
    assert!((row.percent - 100.0 * 60.0 / 190.0).abs() < 3.0, "{row:#?}");
    let waits = |row: &FindingRow| row.finding.contains("tcp") || row.place.function.as_deref() == Some("next");
    assert!(!rows.iter().any(waits), "{rows:#?}");
}

/// One thread asks another by a queue, again and again, and waits for its answer in another queue.
#[test]
fn of_two_that_take_turns_who_asks_comes_first() {
    for (ask, answer) in [(490.0, 510.0), (510.0, 490.0)] {
        let main: Vec<Step> =
            (0..60).flat_map(|_| [("ask", Do::Run(ask)), ("ask", Do::Put(0, 1)), ("ask", Do::Take(1))]).collect();
        let helper: Vec<Step> = (0..60)
            .flat_map(|_| [("answer", Do::Take(0)), ("answer", Do::Run(answer)), ("answer", Do::Put(1, 1))])
            .collect();
        let rows = summary(&two(main, helper).run().profile);
        assert_eq!(rows[0].place.function.as_deref(), Some("ask"), "{rows:#?}");
        assert!(about(&rows, "answer").is_some(), "{rows:#?}");
    }
    let longer = |answer| {
        let main: Vec<Step> =
            (0..60).flat_map(|_| [("ask", Do::Run(400.0)), ("ask", Do::Put(0, 1)), ("ask", Do::Take(1))]).collect();
        let helper: Vec<Step> = (0..60)
            .flat_map(|_| [("answer", Do::Take(0)), ("answer", Do::Run(answer)), ("answer", Do::Put(1, 1))])
            .collect();
        summary(&two(main, helper).run().profile)
    };
    assert_eq!(longer(600.0)[0].place.function.as_deref(), Some("answer"), "what takes clearly longer is the cause");
}

#[test]
fn a_wait_has_one_figure() {
    let rows = summary(&napping());
    let row = about(&rows, "nap").unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(Some(row.percent), row.saves_percent, "{row:#?}");
    // 60 naps of 500 µs each in rounds of 540 µs.
    assert!((row.percent - 92.6).abs() < 2.0, "{row:#?}");
    assert!(row.finding.contains(&format!("waits {:.0} % of the time", row.percent)), "{row:#?}");
    assert!(row.evidence.contains("60 waits, 500 µs each"), "{row:#?}");
}

/// Two that sleep one after the other while a third does so all the time: nobody runs beside.
#[test]
fn waits_that_overlap_are_counted_and_nobody_runs_beside_them() {
    let main = vec![("nap", Do::Sleep(5_000.0)), ("nap", Do::Sleep(5_000.0)), ("main", Do::Join(1))];
    let rows = summary(&two(main, vec![("nap", Do::Sleep(10_500.0))]).run().profile);
    let row = about(&rows, "nap").unwrap_or_else(|| panic!("{rows:#?}"));
    assert!(row.evidence.contains("3 waits, 6.83 ms each"), "{row:#?}");
    assert!(!row.evidence.contains("others ran"), "{row:#?}");
}

/// What a thread waits for is told where no stack says where.
#[test]
fn waits_without_a_stack_have_a_finding_and_a_prediction() {
    let mut profile = napping();
    let naps = profile.sched.waits.iter_mut().filter(|wait| wait.kind == WaitKind::Sleep && wait.task == 0);
    naps.for_each(|wait| wait.stack = None);
    let rows = summary(&profile);
    let row = rows.iter().find(|row| row.finding.starts_with("main (stack not known) waits"));
    let row = row.unwrap_or_else(|| panic!("{rows:#?}"));
    assert!((row.percent - 92.6).abs() < 2.0 && row.finding.ends_with(": a sleep"), "{row:#?}");
    assert!(row.evidence.contains("60 waits, 500 µs each"), "{row:#?}");
    assert_eq!(row.place.thread_group.as_deref(), Some("main"));
    let view = criticality(&profile, &Selection::default()).unwrap();
    let row = view.what_if.iter().find(|row| row.path == "[unattributed: main]").unwrap();
    assert_eq!(row.kind, Some(WaitKind::Sleep));
    let idle = profile.sched.waits.iter().filter(|wait| wait.stack.is_none()).map(|wait| wait.idle_ns).sum::<i64>();
    assert_eq!(totals(&profile).idle_without_stack_ns, idle);
}

/// Children may go on when the launched program has ended.
#[test]
fn no_finding_claims_more_than_the_run_took() {
    let mut profile = napping();
    profile.meta.wall_ns /= 3;
    let rows = summary(&profile);
    let row = about(&rows, "nap").unwrap_or_else(|| panic!("{rows:#?}"));
    assert!(row.evidence.starts_with("10.8 ms of 10.8 ms"), "{row:#?}");
    assert!(rows.iter().all(|row| row.saves_percent.is_none_or(|saves| saves <= 100.0)));
}

/// A thread of a pool is woken, queues for a CPU, finds nothing to do and waits again.
#[test]
fn who_waits_for_work_is_not_what_takes_the_time() {
    let main: Vec<Step> = (0..60).map(|_| ("solve", Do::Run(500.0))).collect();
    let mut profile = two(main, vec![("start", Do::Run(100.0)), ("await_task", Do::Take(0))]).run().profile;
    let tables = &mut profile.sched;
    let frame = |function: &str, component| StackFrame {
        function: function.into(),
        component: Some(component),
        file: String::new(),
        line: 0,
        inlined: false,
        space: Space::User,
    };
    let first = tables.frames.len() as u32;
    tables.frames.extend([frame("worker_main", 0), frame("await_task", 0), frame("pthread_cond_wait", 1)]);
    let stack = tables.stacks.len() as u32;
    tables.stacks.push(CallStack { frames: (first..first + 3).collect(), complete: true, linked: 0 });
    let wait = tables.waits[0].clone();
    let idle = SchedWait {
        task: 1,
        kind: WaitKind::Condition,
        stack: Some(stack),
        holder: None,
        waker: None,
        idle_ns: 0,
        ..wait
    };
    tables.waits.push(idle);
    let queued = profile.meta.wall_ns / 3;
    let origin = Origin::StackTop;
    tables.samples.push(SchedSample {
        task: 1,
        stack,
        n: 2,
        origin,
        samples: 20,
        criticality_ns: queued,
        active_ns: 2 * queued,
        spin: false,
    });
    let rows = summary(&profile);
    assert!(about(&rows, "await_task").is_none(), "{rows:#?}");
    let view = criticality(&profile, &Selection::default()).unwrap();
    let row = view.functions.iter().find(|row| row.function == "await_task").unwrap();
    assert_eq!((row.place_ns, row.inclusive_ns), (0, queued));
    let rows = view.what_if.iter().filter(|row| row.path == "await_task");
    assert!(rows.into_iter().all(|row| row.saving_high < 0.01), "{:#?}", view.what_if);
}

#[test]
fn times_that_cannot_be_are_no_crash() {
    let mut profile = napping();
    for task in &mut profile.sched.tasks {
        (task.runnable_ns, task.blocked_ns) = (-1, -(1 << 40));
    }
    assert!(!transect_analyze::threads(&profile, &Selection::default()).threads.is_empty());
    assert!(criticality(&profile, &Selection::default()).is_some());
}
