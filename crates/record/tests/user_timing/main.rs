//! Functions of running programs timed by probes for a moment, against programs that time themselves.
//!
//! What can't run here (no compiler, no right to trace) says NOT RUN.

mod killed;
mod program;

use std::time::Duration;

use program::{Program, Truth};
use transect_call_walk::{Callee, Function, FunctionTimer, Request, Timing, UntimedReason};
use transect_record::walk::user_timing::UserTimer;
use transect_testkit::judged;

const WINDOW: Duration = Duration::from_millis(300);

/// One window, and what the program has noted of the same time.
fn window(timer: &mut UserTimer, program: &Program, parent: &str, callees: &[&str]) -> (Timing, Truth) {
    let function = |name: &str| Function::User { component: 0, address: program.address(name) };
    let request = Request {
        group: 0,
        parent: function(parent),
        callees: callees.iter().map(|name| Callee { function: function(name), within: None }).collect(),
        window: WINDOW,
    };
    timer.begin(&request).unwrap();
    std::thread::sleep(WINDOW);
    let timing = timer.end().unwrap();
    assert_eq!(timing.callees.len(), callees.len());
    (timing, program.truth(timer.last_window()))
}

fn near(what: &str, found: f64, truth: f64, points: f64) -> Result<(), String> {
    let close = (found - truth).abs() <= points / 100.0;
    if close { Ok(()) } else { Err(format!("{what}: {found:.4}, in truth {truth:.4}")) }
}

fn wall(timing: &Timing, callee: usize) -> f64 {
    timing.callees[callee].unwrap_or_else(|| panic!("not timed: {:?}", timing.untimed)).wall_ns
}

fn parent(timing: &Timing) -> f64 {
    timing.parent.unwrap_or_else(|| panic!("not timed: {:?}", timing.untimed)).wall_ns
}

#[test]
fn shares_are_those_that_the_program_measures_needs_ptrace() {
    for (threads, kind) in [(1, "plain"), (3, "plain"), (2, "sleep"), (1, "g"), (1, "deep")] {
        let Some(program) = Program::start(threads, kind) else { return };
        let Some(mut timer) = program.timer() else { return };
        // On a crowded machine a thread may lose its CPU between its own look at the clock and the call.
        for _ in 0..2 {
            judged(&format!("shares of {kind} {threads}"), || {
                let (timing, truth) = window(&mut timer, &program, "work", &["first", "second", "third"]);
                let work = parent(&timing);
                let time = timing.lasted_ns * threads as f64;
                let found = [work / time, wall(&timing, 0) / work, wall(&timing, 1) / work, wall(&timing, 2) / work];
                let whole = truth.lasted * threads as f64;
                let true_ones =
                    [truth.work / whole, truth.first / truth.work, truth.second / truth.work, truth.third / truth.work];
                let worst = found.iter().zip(true_ones).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                eprintln!(
                    "{kind} {threads}: off by {:.2} points, longest stop {} us",
                    worst * 100.0,
                    timing.longest_stop_ns / 1000
                );
                if worst > 0.02 {
                    return Err(format!("{found:.4?}, in truth {true_ones:.4?}: {timing:?}"));
                }
                Ok(())
            });
        }
        timer.finish().unwrap();
        program.check();
    }
}

#[test]
fn a_function_entered_once_has_its_whole_time_needs_ptrace() {
    for threads in [1, 3] {
        let Some(program) = Program::start(threads, "plain") else { return };
        let Some(mut timer) = program.timer() else { return };
        for _ in 0..2 {
            judged("a function entered once", || {
                let (timing, truth) = window(&mut timer, &program, "forever", &["work", "first", "second"]);
                near("forever", parent(&timing) / (timing.lasted_ns * threads as f64), 1.0, 1.0)?;
                near("work", wall(&timing, 0) / parent(&timing), truth.work / truth.lasted / threads as f64, 2.0)
            });
        }
        if threads == 1 {
            judged("main with one thread", || {
                let (timing, _) = window(&mut timer, &program, "main", &["forever"]);
                near("main", parent(&timing) / timing.lasted_ns, 1.0, 1.0)?;
                near("forever in main", wall(&timing, 0) / parent(&timing), 1.0, 1.0)
            });
        }
        timer.finish().unwrap();
        program.check();
    }
}

#[test]
fn a_blocked_program_is_inside_main_needs_ptrace() {
    let Some(program) = Program::start(1, "blocked") else { return };
    let Some(mut timer) = program.timer() else { return };
    judged("a blocked program", || {
        let (timing, _) = window(&mut timer, &program, "main", &["work"]);
        assert_eq!(timing.callees[0].unwrap().calls, 0);
        near("main", parent(&timing) / timing.lasted_ns, 1.0, 1.0)
    });
    timer.finish().unwrap();
    program.check();
}

#[test]
fn what_is_called_too_often_is_not_timed_needs_ptrace() {
    let Some(program) = Program::start(1, "tiny") else { return };
    let Some(mut timer) = program.timer() else { return };
    judged("what is called too often", || {
        let (timing, truth) = window(&mut timer, &program, "work", &["first", "tiny"]);
        // Where the machine hardly lets it call, it is timed after all.
        if timing.callees[1].is_some() {
            return Err(format!("tiny is timed: {timing:?}"));
        }
        assert_eq!(timing.untimed.last().unwrap().reason, UntimedReason::TooShort);
        near("first", wall(&timing, 0) / parent(&timing), truth.first / truth.work, 3.0)
    });
    timer.finish().unwrap();
    program.check();
}

#[test]
fn what_is_left_by_longjmp_is_not_timed_or_harmed_needs_ptrace() {
    let Some(program) = Program::start(1, "jumps") else { return };
    let Some(mut timer) = program.timer() else { return };
    let (timing, _) = window(&mut timer, &program, "jumps", &["spin"]);
    assert_eq!(timing.parent, None);
    assert!(matches!(timing.untimed.last().unwrap().reason, UntimedReason::Refused(_)), "{:?}", timing.untimed);
    judged("what is left by longjmp", || {
        let (timing, truth) = window(&mut timer, &program, "work", &["first", "jumps"]);
        near("first", wall(&timing, 0) / parent(&timing), truth.first / truth.work, 2.0)
    });
    timer.finish().unwrap();
    program.check();
}

#[test]
fn forked_children_are_left_clean_needs_ptrace() {
    let Some(program) = Program::start(1, "fork") else { return };
    let Some(mut timer) = program.timer() else { return };
    judged("a program that forks", || {
        let (timing, _) = window(&mut timer, &program, "work", &["first", "second"]);
        let (whole, parts) = (parent(&timing), wall(&timing, 0) + wall(&timing, 1));
        if whole > parts { Ok(()) } else { Err(format!("{parts} ns of {whole}")) }
    });
    timer.finish().unwrap();
    program.check();
}

#[test]
fn a_killed_program_is_gone_needs_ptrace() {
    let Some(mut program) = Program::start(2, "plain") else { return };
    let Some(mut timer) = program.timer() else { return };
    let request = Request {
        group: 0,
        parent: Function::User { component: 0, address: program.address("work") },
        callees: Vec::new(),
        window: WINDOW,
    };
    timer.begin(&request).unwrap();
    program.kill();
    assert!(matches!(timer.end(), Err(UntimedReason::Gone(_))));
    assert!(matches!(timer.begin(&request), Err(UntimedReason::Gone(_))));
    timer.finish().unwrap();
}

/// Not a judgement: how long stops take, for those who look.
#[test]
fn stops_are_short_needs_ptrace() {
    for threads in [1, 4] {
        let Some(program) = Program::start(threads, "sleep") else { return };
        let Some(mut timer) = program.timer() else { return };
        eprintln!("{threads} threads: attaching held them {} us at most", timer.longest_stop_ns() / 1000);
        let mut stops: Vec<u64> = Vec::new();
        for _ in 0..20 {
            let function = |name: &str| Function::User { component: 0, address: program.address(name) };
            let callees = ["first", "third"].map(|name| Callee { function: function(name), within: None });
            let request = Request { group: 0, parent: function("work"), callees: callees.into(), window: WINDOW / 100 };
            let before = timer.stop_times();
            timer.begin(&request).unwrap();
            std::thread::sleep(WINDOW / 100);
            timer.end().unwrap();
            let after = timer.stop_times();
            stops.push((after.total_ns - before.total_ns) / (after.count - before.count));
        }
        stops.sort_unstable();
        eprintln!(
            "{threads} threads: a stop takes {} us at least, {} in the middle",
            stops[0] / 1000,
            stops[10] / 1000
        );
        timer.finish().unwrap();
        program.check();
    }
}

#[test]
fn static_programs_are_timed_needs_ptrace() {
    let Some(program) = Program::start_with(1, "plain", &["-static"]) else { return };
    let Some(mut timer) = program.timer() else { return };
    judged("static programs", || {
        let (timing, truth) = window(&mut timer, &program, "work", &["first", "second"]);
        near("first", wall(&timing, 0) / parent(&timing), truth.first / truth.work, 5.0)?;
        let (timing, _) = window(&mut timer, &program, "main", &["work"]);
        near("main", parent(&timing) / timing.lasted_ns, 1.0, 1.0)
    });
    timer.finish().unwrap();
    program.check();
}

#[test]
fn exceptions_pass_through_timed_functions_needs_ptrace() {
    let Some(program) = Program::start(1, "throw") else { return };
    let Some(mut timer) = program.timer() else { return };
    // The exception leaves `first` and `middle`, and ends inside of `work`.
    for (parent, callee) in [("middle", "first"), ("work", "middle"), ("main", "work")] {
        let (timing, _) = window(&mut timer, &program, parent, &[callee]);
        // What can't be seen to end is not said to be exact.
        assert_eq!(timing.callees, [None], "{parent}: {timing:?}");
        // (An unwinder's own frames can't always be followed: then not even main is timed.)
        assert!(parent == "main" || timing.parent.is_none(), "{timing:?}");
    }
    timer.finish().unwrap();
    program.check();
}
