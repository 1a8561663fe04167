//! What holds for each kind of probes.

use std::time::{Duration, Instant};

use transect_bpf_collect::function_time::{KernelFunctionTimer, KernelFunctions, KernelText};
use transect_bpf_collect::{SchedCollector, SchedSettings, Storage};
use transect_call_walk::{Callee, Function, FunctionTimer, Request, Timing};
use transect_profile_model::KernelTiming;
use transect_testkit::judged;

use crate::programs::{READS, Running};

type Case = (&'static str, fn(&mut SchedCollector<'_>, &mut KernelFunctionTimer) -> Result<(), String>);

pub const CASES: &[Case] = &[
    ("calls open at both ends of the window", open_at_both_ends),
    ("calls in known numbers", known_numbers),
    ("only what the parent calls", only_called_by_parent),
    ("shares are those of the program's own clock", shares),
    ("cost of timing", cost),
    ("what can't be timed is told", refusals),
    ("callees are those of the kernel's text", callees),
    ("nothing is left of a timer that is killed", killed),
];

fn settings() -> SchedSettings {
    SchedSettings {
        cpus: 1,
        min_parallelism: 1,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        wait_budget: 0,
        stack_depth: 16,
        sample_hz: 0,
        per_process: false,
        waits: false,
        stacks: false,
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
        publish_threads: false,
        launched_only: false,
        system_calls: false,
    }
}

fn system_call_name(number: u32) -> Option<String> {
    (number == 0).then(|| "read".to_owned())
}

/// Makes a timer and hands it on, or says why there is none.
pub fn with_timer<T>(
    timing: KernelTiming,
    run: impl FnOnce(&mut SchedCollector<'_>, &mut KernelFunctionTimer) -> Result<T, String>,
) -> Result<T, String> {
    let mut storage = Storage::default();
    let mut collector = SchedCollector::load(&mut storage, &settings(), &[], |_| {}).map_err(|why| why.to_string())?;
    let (timer, refused) = KernelFunctionTimer::load(&collector, Some(timing), system_call_name);
    let mut timer = timer.ok_or_else(|| refused.first().map(|one| one.why.clone()).unwrap_or_default())?;
    run(&mut collector, &mut timer)
}

fn kernel(functions: &KernelFunctions, names: &[&str]) -> Result<Function, String> {
    let found = names.iter().find_map(|name| functions.named(name).first().copied());
    found.map(|address| Function::Kernel { address }).ok_or_else(|| format!("the kernel has no {names:?}"))
}

fn request(parent: Function, callees: &[(Function, Option<usize>)]) -> Request {
    let callees = callees.iter().map(|&(function, within)| Callee { function, within }).collect();
    Request { group: 0, parent, callees, window: Duration::from_millis(200) }
}

/// Times what happens during `during`.
fn timed(timer: &mut KernelFunctionTimer, request: &Request, during: impl FnOnce()) -> Result<Timing, String> {
    let untimed = timer.begin(request).map_err(|why| why.to_string())?;
    if let Some(one) = untimed.first() {
        return Err(one.reason.to_string());
    }
    during();
    timer.end().map_err(|why| why.to_string())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// An instruction takes a nanosecond of this machine's time (dev/vm/run.sh --icount).
fn counts_instructions() -> bool {
    std::env::var_os("TRANSECT_INSTRUCTIONS").is_some()
}

const READ: Function = Function::SystemCall { number: 0 };

/// It waits in a read of a pipe all the time: every function on the way has all of the window.
fn open_at_both_ends(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let program = Running::start("reads");
    collector.follow_process(program.pid()).map_err(|why| why.to_string())?;
    let ksys_read = kernel(timer.functions(), &["ksys_read"])?;
    let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
    let pipe_read = kernel(timer.functions(), &["pipe_read", "anon_pipe_read"])?;
    for asked in [
        request(READ, &[(ksys_read, None), (vfs_read, Some(0)), (pipe_read, Some(1))]),
        request(ksys_read, &[(vfs_read, None), (pipe_read, Some(0))]),
    ] {
        judged("calls open at both ends of the window", || {
            let found = timed(timer, &asked, || std::thread::sleep(Duration::from_millis(150))).unwrap();
            assert!(found.callees.iter().all(Option::is_some), "{found:?}");
            let whole = found.lasted_ns;
            for one in found.parent.iter().chain(found.callees.iter().flatten()) {
                assert!(one.calls == 1 && one.on_ns.is_some(), "{found:?}");
                ensure((one.wall_ns - whole).abs() < 0.02 * whole, || format!("{found:?}"))?;
                ensure(one.on_ns.is_some_and(|on| on < 0.01 * whole), || format!("on a CPU: {found:?}"))?;
            }
            Ok(())
        });
    }
    Ok(())
}

fn known_numbers(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let mut program = Running::start("reads");
    collector.follow_process(program.pid()).map_err(|why| why.to_string())?;
    let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
    let read_zero = kernel(timer.functions(), &["read_zero"])?;
    let pipe_read = kernel(timer.functions(), &["pipe_read", "anon_pipe_read"])?;
    let asked = request(vfs_read, &[(read_zero, None), (pipe_read, None)]);
    // While a thread is inside of the bpf system call the kernel runs no program of a kprobe on that CPU
    // (`bpf_prog_active`), and it may be preempted there: a return can be missed, which is told. Three times in a row it
    // would be ours.
    let mut missed = timer.missed();
    for _ in 0..3 {
        let found = timed(timer, &asked, || {
            program.round();
            // It waits for the next line by then.
            std::thread::sleep(Duration::from_millis(50));
        })?;
        let calls: Vec<u64> = found.parent.iter().chain(found.callees.iter().flatten()).map(|one| one.calls).collect();
        // A read for the line that was open, and the next one.
        let wanted = [3 * READS + 2, 2 * READS, 2];
        // A read of nothing ends before.
        let fewer = [3 * READS + 2, READS, 2];
        ensure(calls == wanted || calls == fewer, || format!("calls {calls:?} instead of {wanted:?}: {found:?}"))?;
        if timer.missed() == missed {
            return Ok(());
        }
        missed = timer.missed();
    }
    Err(format!("returns were missed in each of three rounds, {missed} in all"))
}

fn only_called_by_parent(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let mut program = Running::start("reads");
    collector.follow_process(program.pid()).map_err(|why| why.to_string())?;
    let ksys_read = kernel(timer.functions(), &["ksys_read"])?;
    let read_zero = kernel(timer.functions(), &["read_zero"])?;
    // vfs_read is between the two.
    let found = timed(timer, &request(ksys_read, &[(read_zero, None)]), || drop(program.round()))?;
    let calls = found.callees.first().copied().flatten().map(|one| one.calls);
    ensure(calls == Some(0), || format!("called by another one, and counted: {found:?}"))
}

/// What the program's own clock says of reads of two kinds, without probes, is the truth of how the time in them divides.
fn shares(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
    let read_zero = kernel(timer.functions(), &["read_zero"])?;
    let read_random = kernel(timer.functions(), &["urandom_read_iter"])?;
    let asked = request(vfs_read, &[(read_zero, None), (read_random, None)]);
    judged("shares are those of the program's own clock", || share(collector, timer, &asked));
    Ok(())
}

fn share(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer, asked: &Request) -> Result<(), String> {
    let mut program = Running::start("reads");
    program.round();
    let own = program.round();
    let [zeros, random, nothing] = own[..] else { panic!("the program said {own:?}") };
    collector.follow_process(program.pid()).unwrap();
    let found = timed(timer, asked, || drop(program.round())).unwrap();
    let wall = |row: usize| found.callees.get(row).copied().flatten().and_then(|one| one.on_ns).unwrap_or(0.0);
    let share = wall(0) / (wall(0) + wall(1));
    let truth = (zeros - nothing) / (zeros + random - 2.0 * nothing);
    println!("  share {:.1} %, by its own clock {:.1} %", 100.0 * share, 100.0 * truth);
    // Elsewhere a host that is busy takes the time of either.
    let allowed = if counts_instructions() { 0.02 } else { 0.2 };
    ensure((share - truth).abs() <= allowed, || format!("share {share:.3}, by its own clock {truth:.3}: {found:?}"))
}

/// Seconds are not compared: where an instruction takes a nanosecond, the numbers are instructions.
fn cost(collector: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let mut program = Running::start("reads");
    program.round();
    let before = program.round();
    collector.follow_process(program.pid()).map_err(|why| why.to_string())?;
    let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
    let read_zero = kernel(timer.functions(), &["read_zero"])?;
    let mut with = Vec::new();
    let found = timed(timer, &request(vfs_read, &[(read_zero, None)]), || with = program.round())?;
    let after = program.round();
    // A read of nothing calls one or both of the functions, depending on the kernel.
    let added = (with[2] - before[2]) / READS as f64;
    let left = (after[2] - before[2]) / READS as f64;
    println!(
        "  {added:.0} ns more for a read while it is timed, {left:.0} ns after; calibrated {:.0} ns a call",
        timer.cost_ns()
    );
    // Instructions are counted, not timed: there is no machine to be busy.
    let instructions = counts_instructions();
    ensure(!instructions || added < 6_000.0, || format!("{added:.0} instructions more for each read"))?;
    ensure(!instructions || left.abs() < 60.0, || format!("{left:.0} instructions more for each read afterwards"))?;
    ensure(found.probes == 2, || format!("{} probes", found.probes))
}

fn refusals(_: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
    let entry = kernel(timer.functions(), &["asm_exc_page_fault"])?;
    let untraceable = kernel(timer.functions(), &["do_syscall_64"])?;
    let Function::Kernel { address } = vfs_read else { return Ok(()) };
    let inside = Function::Kernel { address: address + 1 };
    for function in [entry, untraceable, inside, Function::Other { number: 1 }, Function::Exception { address: 1 }] {
        ensure(timer.begin(&request(function, &[])).is_err(), || format!("{function:?} is timed"))?;
        let untimed = timer.begin(&request(vfs_read, &[(function, None)])).map_err(|why| why.to_string())?;
        ensure(untimed.len() == 1 && untimed[0].function == function, || format!("{function:?}: {untimed:?}"))?;
        let found = timer.end().map_err(|why| why.to_string())?;
        ensure(found.callees == [None] && found.parent.is_some(), || format!("{found:?}"))?;
    }
    Ok(())
}

fn callees(_: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let text = KernelText::open().map_err(|why| why.to_string())?;
    let functions = timer.functions();
    let begin = |name: &str| functions.named(name).first().copied().ok_or_else(|| format!("the kernel has no {name}"));
    let (ksys_read, vfs_read) = (begin("ksys_read")?, begin("vfs_read")?);
    let direct = text.kernel_callees(functions, ksys_read).map_err(|why| why.to_string())?;
    ensure(direct.direct.contains(&vfs_read), || format!("ksys_read calls {direct:x?}, not vfs_read {vfs_read:x}"))?;
    let by_pointer = text.kernel_callees(functions, vfs_read).map_err(|why| why.to_string())?;
    ensure(!by_pointer.indirect.is_empty(), || format!("vfs_read calls nobody by a pointer: {by_pointer:x?}"))
}

const TIMING: &str = "TRANSECT_FUNCTION_TIME_KIND";

/// The role of a process that is killed while it times.
pub fn time_until_killed() {
    let timing = std::env::var(TIMING).ok().and_then(|word| KernelTiming::parse(&word)).unwrap();
    let outcome = with_timer(timing, |_, timer| {
        let vfs_read = kernel(timer.functions(), &["vfs_read"])?;
        let read_zero = kernel(timer.functions(), &["read_zero"])?;
        timer.begin(&request(vfs_read, &[(read_zero, None)])).map_err(|why| why.to_string())?;
        println!("1");
        std::thread::sleep(Duration::from_secs(1_000));
        Ok(())
    });
    println!("{outcome:?}");
}

fn killed(_: &mut SchedCollector<'_>, timer: &mut KernelFunctionTimer) -> Result<(), String> {
    let timing = timer.timing();
    let tracing = "/sys/kernel/tracing";
    let debug = "/sys/kernel/debug";
    let mount = |kind: &str, folder: &str| {
        let _ = std::process::Command::new("mount").args(["-t", kind, kind, folder]).output();
    };
    if !std::fs::exists(format!("{tracing}/enabled_functions")).unwrap_or(false) {
        mount("tracefs", tracing);
    }
    if !std::fs::exists(format!("{debug}/kprobes")).unwrap_or(false) {
        mount("debugfs", debug);
    }
    let live = || {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let text = read(format!("{tracing}/enabled_functions")) + &read(format!("{debug}/kprobes/list"));
        text.lines().filter(|line| line.contains("vfs_read") || line.contains("read_zero")).count()
    };
    if live() > 0 {
        println!("NOT RUN: somebody else probes vfs_read");
        return Ok(());
    }
    let mut program = Running::start_with("timer", TIMING, timing.as_str());
    let said = program.numbers();
    ensure(said == [1.0], || format!("the timer said {said:?}"))?;
    let during = live();
    ensure(during > 0, || "probes are not seen while they are there".to_owned())?;
    drop(program);
    let start = Instant::now();
    while live() > 0 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure(live() == 0, || format!("{} of {during} are left", live()))
}
