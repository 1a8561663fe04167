//! Exact times of system calls.

use std::collections::BTreeMap;
use std::time::Duration;

use transect_bpf_collect::{Clocks, SchedCollector, SchedSettings, Storage, SystemCallTotals};
use transect_testkit::judged;

use crate::programs::{FAULTS, PARENT_CALLS, Program, ROUNDS, SLEEP_MS, SLEEPS};
use crate::recording::{Recording, now, settings};
use crate::{ensure, exact};

const READ: u32 = 0;
const PREAD: u32 = 17;
const GETPPID: u32 = 110;
const CLOCK_NANOSLEEP: u32 = 230;
const EXIT: u32 = 60;
const EXIT_GROUP: u32 = 231;

fn with_system_calls() -> SchedSettings {
    SchedSettings { system_calls: true, ..settings() }
}

fn sum_of(totals: &SystemCallTotals, number: u32) -> (u64, Clocks) {
    let mut sum = (0, Clocks::default());
    for total in totals.calls.iter().filter(|total| total.call.number == number && !total.call.compat) {
        sum.0 += total.count;
        sum.1.running_ns += total.time.running_ns;
        sum.1.runnable_ns += total.time.runnable_ns;
        sum.1.blocked_ns += total.time.blocked_ns;
    }
    sum
}

pub fn known_numbers() -> Result<(), String> {
    let outcome = Recording::launch(with_system_calls(), Program::SystemCalls)?;
    outcome.sums_hold()?;
    let totals = &outcome.system_calls;
    let (parents, parent_time) = sum_of(totals, GETPPID);
    ensure(parents == PARENT_CALLS, || format!("{parents} times getppid instead of {PARENT_CALLS}"))?;
    ensure(parent_time.blocked_ns == 0 && parent_time.running_ns > 0, || format!("getppid: {parent_time:?}"))?;
    let (sleeps, sleeping) = sum_of(totals, CLOCK_NANOSLEEP);
    let asked = SLEEPS * SLEEP_MS * 1_000_000;
    ensure(sleeps == SLEEPS && sleeping.blocked_ns >= asked, || {
        format!("{sleeps} sleeps, {sleeping:?}, asked for {SLEEPS} and {asked} ns")
    })?;
    let waits = outcome.waits_in.get(&CLOCK_NANOSLEEP).copied().unwrap_or_default();
    ensure(waits == sleeping.blocked_ns, || {
        let told: Vec<_> =
            outcome.waits.iter().map(|wait| (wait.task, wait.system_call, wait.call, wait.begin, wait.end)).collect();
        format!(
            "waits {:?}, blocked in sleeps {sleeping:?}, all of them {told:?}, threads {:?}, lost {:?}",
            outcome.waits_in, outcome.tasks, outcome.lost
        )
    })?;
    ensure(sum_of(totals, EXIT).0 == 1 && sum_of(totals, EXIT_GROUP).0 == 1, || "exit is not counted once".to_owned())?;
    let faults: u64 = totals.threads.iter().map(|thread| thread.user_faults + thread.kernel_faults).sum();
    ensure(faults >= FAULTS, || format!("{faults} faults of more than {FAULTS}"))
}

/// The thread's own clock is the truth: it does hardly anything else.
pub fn alternating() -> Result<(), String> {
    let outcome = Recording::launch(with_system_calls(), Program::AlternatingCalls)?;
    let (count, time) = sum_of(&outcome.system_calls, PREAD);
    ensure(count >= 4 * ROUNDS, || format!("{count} calls in {ROUNDS} rounds of four"))?;
    let lived: u64 = outcome.system_calls.threads.iter().map(|thread| thread.counted.running_ns).sum();
    ensure(time.running_ns * 100 >= lived * 80, || format!("{time:?} in the calls of {lived} ns on the CPU"))
}

pub fn parts_of_threads() -> Result<(), String> {
    let script = "for i in 1 2 3 4 5 6; do (echo $i | cat | cat >/dev/null) & done; wait; sleep 0.05";
    for program in [Program::Shell(script), Program::Storm, Program::UnevenCalls, Program::ExecByThread] {
        judged(&format!("times of system calls of {program:?}"), || are_parts(program));
    }
    Ok(())
}

/// Panics at what is wrong; clocks that a busy machine keeps apart are told.
fn are_parts(program: Program) -> Result<(), String> {
    let outcome = Recording::launch(with_system_calls(), program).unwrap();
    let mut apart = Ok(());
    exact((|| {
        outcome.sums_hold()?;
        let totals = &outcome.system_calls;
        ensure(totals.lost == 0, || format!("{} lost", totals.lost))?;
        let mut inside: BTreeMap<u32, Clocks> = BTreeMap::new();
        for total in &totals.calls {
            let sum = inside.entry(total.task).or_default();
            sum.running_ns += total.time.running_ns;
            sum.blocked_ns += total.time.blocked_ns;
            sum.runnable_ns += total.time.runnable_ns;
        }
        for thread in &totals.threads {
            let task = outcome.tasks.get(&thread.task).ok_or_else(|| format!("no thread {}", thread.task))?;
            let whole =
                Clocks { running_ns: task.running_ns, runnable_ns: task.runnable_ns, blocked_ns: task.blocked_ns };
            ensure(thread.counted == whole, || format!("{program:?}: counted for {:?} of {whole:?}", thread.counted))?;
            let inside = inside.get(&thread.task).copied().unwrap_or_default();
            let told = || format!("{program:?}: in system calls {inside:?} of {whole:?}");
            ensure(inside.blocked_ns <= whole.blocked_ns, told)?;
            // Clocks of the application's time and of the CPU differ by a little at each switch.
            let within = |part: u64, whole: u64| part <= whole + whole / 50 + 100_000;
            if !within(inside.running_ns, whole.running_ns) || !within(inside.wall_ns(), whole.wall_ns()) {
                apart = Err(told());
            }
            ensure(inside.wall_ns() > 0, || format!("{program:?}: a thread without system calls: {whole:?}"))?;
        }
        ensure(totals.threads.len() == outcome.threads(), || {
            format!("{program:?}: {} threads of {}", totals.threads.len(), outcome.threads())
        })
    })());
    apart
}

pub fn open_at_the_reading() -> Result<(), String> {
    let during = Duration::from_millis(400);
    let outcome = Recording::attach(with_system_calls(), Program::ReadsForever, during)?;
    outcome.sums_hold()?;
    let (count, time) = sum_of(&outcome.system_calls, READ);
    let whole = during.as_nanos() as u64;
    ensure(count >= 1 && time.blocked_ns >= whole, || {
        format!("{count} reads, {time:?} of {whole} ns that it was blocked in one: {:?}", outcome.system_calls)
    })
}

/// While it is off nothing is counted, and what was counted is part of the time in which it was on.
pub fn now_and_then() -> Result<(), String> {
    judged("counting system calls now and then", on_and_off);
    Ok(())
}

fn on_and_off() -> Result<(), String> {
    let mut off = Ok(());
    exact(count_now_and_then(&mut off));
    off
}

/// Gives what is wrong, and notes what may be the machine's.
fn count_now_and_then(off: &mut Result<(), String>) -> Result<(), String> {
    let mut storage = Storage::default();
    let mut collector =
        SchedCollector::load(&mut storage, &with_system_calls(), &[], |_| {}).map_err(|why| why.to_string())?;
    let mut child = Program::Busy.command().spawn().map_err(|why| why.to_string())?;
    drop(child.stdin.take());
    Program::Busy.wait_until_at_work(child.id() as i32);
    // What was counted before and after a while that took so long, ns.
    let mut step = |on: Option<bool>, first: bool| -> Result<(SystemCallTotals, SystemCallTotals, u64), String> {
        if first {
            collector.follow_process(child.id() as i32).map_err(|why| why.to_string())?;
        }
        if let Some(on) = on {
            collector.count_system_calls(on).map_err(|why| why.to_string())?;
        }
        let begun = now();
        let before = collector.system_call_totals(begun).map_err(|why| why.to_string())?;
        std::thread::sleep(Duration::from_millis(200));
        collector.consume().map_err(|why| why.to_string())?;
        let ended = now();
        let after = collector.system_call_totals(ended).map_err(|why| why.to_string())?;
        Ok((before, after, ended - begun))
    };
    let counted = |totals: &SystemCallTotals| totals.threads.iter().map(|thread| thread.counted.wall_ns()).sum::<u64>();
    let outcome = (|| {
        let (_, on, _) = step(None, true)?;
        let (before, after, _) = step(Some(false), false)?;
        ensure(before == after, || format!("counted while it was off: {before:?}, then {after:?}"))?;
        ensure(counted(&after) > counted(&on), || "nothing was counted".to_owned())?;
        let (again, last, took) = step(Some(true), false)?;
        let threads = last.threads.len() as u64;
        let gained = counted(&last) - counted(&again);
        // The totals are read at another instant than the clock.
        *off = ensure(gained > threads * took / 20 * 19 && gained < threads * took / 20 * 21, || {
            format!("{gained} ns counted of {threads} threads in {took} ns")
        });
        let inside: u64 = last.calls.iter().map(|total| total.time.wall_ns()).sum();
        ensure(inside > 0 && inside < counted(&last), || format!("{inside} ns of {} in calls", counted(&last)))
    })();
    let _ = child.kill();
    let _ = child.wait();
    outcome
}
