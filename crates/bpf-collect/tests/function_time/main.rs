//! Timing of kernel functions by each kind of probes that the running kernel allows, against what is known: numbers of
//! calls, waits of known length, and times as the program itself takes them. The same binary runs under other kernels in
//! a virtual machine (tests/vm).
//!
//! usage: function_time [--expect KIND,KIND...] [word of a case's name]

mod cases;
mod programs;

use std::process::ExitCode;
use std::time::Instant;

use transect_bpf_collect::privilege::prepare_to_load;
use transect_profile_model::KernelTiming;
use transect_testkit::Cases;

fn main() -> ExitCode {
    if let Some(role) = programs::asked_for() {
        programs::run(&role);
        return ExitCode::SUCCESS;
    }
    // A case for nextest is a kind of probes: making its timer takes longest.
    let asked = Cases::asked_for();
    if asked.listed(kinds().map(KernelTiming::as_str)) {
        return ExitCode::SUCCESS;
    }
    if let Err(why) = prepare_to_load() {
        println!("NOT RUN: the function timer in this kernel: {why}");
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    let (mut expected, mut only, mut exact) = (Vec::new(), String::new(), false);
    while let Some(argument) = arguments.next() {
        if argument == "--expect" {
            let kinds = arguments.next().unwrap_or_default();
            expected = kinds.split(',').filter_map(KernelTiming::parse).collect();
        } else if argument == "--exact" {
            exact = true;
        } else if !argument.starts_with('-') {
            only = argument;
        }
    }
    let (mut passed, mut failed) = (0, 0);
    let mut note = |right: bool| *if right { &mut passed } else { &mut failed } += 1;
    for timing in kinds().filter(|timing| !exact || timing.as_str() == only) {
        let start = Instant::now();
        let made = cases::with_timer(timing, |collector, timer| {
            println!("{}: {:.0} ns a call ({:.1} s)", timing.as_str(), timer.cost_ns(), start.elapsed().as_secs_f64());
            for (name, case) in cases::CASES {
                let name = format!("{}: {name}", timing.as_str());
                if exact || name.contains(&only) {
                    note(Cases::ran(&name, || case(collector, timer)));
                }
            }
            Ok(())
        });
        match made {
            Ok(()) => {}
            Err(why) if expected.contains(&timing) => {
                note(Cases::ran(&format!("{} is there", timing.as_str()), || Err(why)));
            }
            Err(why) => {
                let why: String = why.lines().next().unwrap_or_default().chars().take(300).collect();
                // Where the caller says what is to be there, the rest is not missing.
                let word = if expected.is_empty() { "NOT RUN" } else { "not in this kernel, as expected" };
                println!("{word}: {} in this kernel: {why}", timing.as_str());
            }
        }
    }
    println!("test result: {}. {passed} passed; {failed} failed; 0 ignored", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Those that are probes.
fn kinds() -> impl Iterator<Item = KernelTiming> {
    KernelTiming::ALL.into_iter().filter(|timing| *timing != KernelTiming::Sampling)
}
