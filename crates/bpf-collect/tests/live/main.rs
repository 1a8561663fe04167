//! The collector in the running kernel: programs of many shapes are followed, and the sums, the counted threads and the
//! audit must be right. The same binary runs under other kernels in a virtual machine (tests/vm).

mod programs;
mod recording;
mod system_calls;

use std::process::ExitCode;
use std::time::Duration;

use programs::Program;
use recording::{Outcome, Recording, settings};
use transect_bpf_collect::privilege::prepare_to_load;
use transect_bpf_collect::{SchedCollector, SchedSettings, Storage};
use transect_testkit::{Cases, judged};

type Case = (&'static str, fn() -> Result<(), String>);

const CASES: &[Case] = &[
    ("loads under all settings", loads_under_all_settings),
    ("sums of a shell that forks", shell_that_forks),
    ("sums of a storm of short threads", storm_of_threads),
    ("sums of processes apart", processes_apart),
    ("exec by a thread that is not the first", exec_by_a_thread),
    ("a pid namespace inside", pid_namespace),
    ("attaching to a busy process", attaching),
    ("sleeps are blocked time", sleeps),
    ("a thread that computes alone has all its time", alone),
    ("two that compute share theirs", shared),
    ("idle time goes to waits", idle_time),
    ("killed programs end their threads", killed),
    ("system calls in known numbers", system_calls::known_numbers),
    ("short and long system calls that alternate", system_calls::alternating),
    ("times of system calls are parts of their threads'", system_calls::parts_of_threads),
    ("a system call open at the reading", system_calls::open_at_the_reading),
    ("counting system calls now and then", system_calls::now_and_then),
];

fn main() -> ExitCode {
    if let Some(program) = programs::asked_for() {
        programs::run(program);
        return ExitCode::SUCCESS;
    }
    let cases = Cases::asked_for();
    if cases.listed(CASES.iter().map(|(name, _)| *name)) {
        return ExitCode::SUCCESS;
    }
    if let Err(why) = prepare_to_load() {
        println!("NOT RUN: the collector in this kernel: {why}");
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in CASES.iter().filter(|(name, _)| cases.chosen(name)) {
        *if Cases::ran(name, case) { &mut passed } else { &mut failed } += 1;
    }
    println!("test result: {}. {passed} passed; {failed} failed; 0 ignored", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is wrong whatever the machine does, inside of what is judged.
fn exact(outcome: Result<(), String>) {
    if let Err(why) = outcome {
        panic!("{why}");
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Constants decide which code the verifier sees.
fn loads_under_all_settings() -> Result<(), String> {
    const DEEP: u32 = SchedSettings::MAX_STACK_DEPTH;
    for (stacks, waits, publish_threads, per_process, stack_depth, sample_hz) in [
        (true, true, true, false, DEEP, 997),
        (true, true, false, true, 1, 0),
        (false, true, true, true, DEEP, 0),
        (false, false, false, false, 1, 997),
    ] {
        let settings =
            SchedSettings { stacks, waits, publish_threads, per_process, stack_depth, sample_hz, ..settings() };
        let mut storage = Storage::default();
        SchedCollector::load(&mut storage, &settings, &[], |_| {}).map_err(|why| format!("{settings:?}: {why}"))?;
    }
    Ok(())
}

fn shell_that_forks() -> Result<(), String> {
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (echo $i | cat | cat >/dev/null) & done; wait; sleep 0.05";
    let outcome = Recording::launch(settings(), Program::Shell(script))?;
    outcome.sums_hold()?;
    ensure(outcome.threads() >= 30, || format!("only {} threads", outcome.threads()))
}

fn storm_of_threads() -> Result<(), String> {
    let outcome = Recording::launch(settings(), Program::Storm)?;
    outcome.sums_hold()?;
    let wanted = programs::STORM_THREADS + 1;
    ensure(outcome.threads() == wanted, || format!("{} threads instead of {wanted}", outcome.threads()))
}

fn processes_apart() -> Result<(), String> {
    let script = "for i in 1 2 3 4 5; do sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i+1)); done' & done; wait";
    let outcome = Recording::launch(SchedSettings { per_process: true, ..settings() }, Program::Shell(script))?;
    outcome.sums_hold()?;
    ensure(outcome.applications() >= 6, || format!("{} applications", outcome.applications()))
}

fn exec_by_a_thread() -> Result<(), String> {
    let outcome = Recording::launch(settings(), Program::ExecByThread)?;
    outcome.sums_hold()?;
    ensure(outcome.execs >= 1, || format!("{} execs seen", outcome.execs))?;
    // Its other threads are gone, and it goes on under the process's number.
    ensure(outcome.tid_after_exec == outcome.pid, || {
        format!("thread {} goes on after exec in process {}", outcome.tid_after_exec, outcome.pid)
    })
}

fn pid_namespace() -> Result<(), String> {
    let script = "unshare --pid --fork sh -c 'sleep 0.05; (sleep 0.05) & wait' || exit 77";
    let outcome = Recording::launch(settings(), Program::Shell(script))?;
    if outcome.status == Some(77) {
        println!("NOT RUN: pid namespaces: unshare is refused here");
        return Ok(());
    }
    outcome.sums_hold()?;
    // The shell inside is number 1 there, and has another one here.
    ensure(outcome.tasks.values().any(|task| task.ns_tgid == 1 && task.tgid != 1), || {
        "no process has the number 1 in its namespace".to_owned()
    })
}

fn attaching() -> Result<(), String> {
    let outcome = Recording::attach(settings(), Program::Busy, Duration::from_millis(600))?;
    outcome.sums_hold()?;
    ensure(outcome.threads() == programs::BUSY_THREADS + 1, || format!("{} threads", outcome.threads()))
}

fn sleeps() -> Result<(), String> {
    let outcome = Recording::launch(settings(), Program::Shell("exec sleep 0.3"))?;
    outcome.sums_hold()?;
    let blocked: u64 = outcome.tasks.values().map(|task| task.blocked_ns).sum();
    ensure(blocked >= 300_000_000 && outcome.idle_ns() >= 300_000_000, || {
        format!("blocked {blocked} ns, idle {} ns in a sleep of 0.3 s", outcome.idle_ns())
    })
}

/// Nothing else of the application is active: criticality is active time.
fn alone() -> Result<(), String> {
    let outcome = Recording::launch(settings(), Program::Compute(1))?;
    outcome.sums_hold()?;
    let (criticality, active) = outcome.most_critical();
    // Of an instant that n threads share it loses (n - 1) / n: at most half of what the others have of it.
    let others = outcome.active_ns() - active;
    ensure(criticality <= active && active - criticality <= others / 2 + 1000, || {
        format!("criticality {criticality} ns of {active} ns, others were active for {others} ns")
    })
}

/// Both are active all the time, running or queued.
fn shared() -> Result<(), String> {
    judged("two that compute share theirs", || {
        let outcome = Recording::launch(settings(), Program::Compute(2)).unwrap();
        exact(outcome.sums_hold());
        let (criticality, active) = outcome.most_critical();
        let close = (2 * criticality).abs_diff(active) <= active / 5;
        ensure(close, || format!("criticality {criticality} ns of {active} ns"))
    });
    Ok(())
}

fn idle_time() -> Result<(), String> {
    let script = "sleep 0.1; (sleep 0.1) & (sleep 0.15) & wait";
    let outcome = Recording::launch(settings(), Program::Shell(script))?;
    outcome.sums_hold()?;
    ensure(outcome.wait_idle_ns == outcome.idle_ns(), || {
        format!("waits have {} ns of {} ns idle", outcome.wait_idle_ns, outcome.idle_ns())
    })
}

fn killed() -> Result<(), String> {
    let outcome: Outcome = Recording::launch_and_kill(settings(), Program::Busy, Duration::from_millis(300))?;
    outcome.sums_hold()?;
    ensure(outcome.open == 0, || format!("{} threads are still counted", outcome.open))
}
