//! Without the collector: the estimate of a schedule that the program notes.

use transect_profile_model::{Timing, WaitKind};
use transect_record::sched_estimate::estimate;
use transect_testkit::judged;

use crate::program::{Program, sums};
use crate::scheduler::{THREADS, timetable};
use crate::timetable::integrate;

#[test]
fn threads_that_spin_and_sleep() {
    let program = Program::build(THREADS);
    // On a busy machine a thread may lose its CPU between two notes, which then don't tell its whole schedule.
    judged("estimate of threads that spin and sleep", || {
        let mut profile = program.record(Timing::Full, None, &mut |pid| {
            let _ = rustix::process::setpriority_process(rustix::process::Pid::from_raw(pid), -15);
            Ok(())
        });
        estimate(&mut profile);
        let calls = program.calls();
        program.forget_notes();
        let changes = timetable(&calls);
        let length = |name: &str| calls.get(name).into_iter().flatten().map(|(from, to)| to - from).sum::<u64>() as f64;
        // Threads that wait for a CPU: between notes nobody knows, and awake in a sleep the agent doesn't.
        let unseen = (length("gap") + length("awake")) / 2.0;
        let outcome = [("early", "spin_a"), ("late", "spin_b"), ("main", "spin_c")].iter().find_map(|(group, api)| {
            let expected: f64 = calls[*api].iter().map(|&(begin, end)| integrate(&changes, begin, end).0).sum();
            let tables = &profile.sched;
            let here = |stack: u32| {
                let frames = &tables.stacks[stack as usize].frames;
                let name = |at: usize| tables.frames[frames[at] as usize].function.as_str();
                // The clock that the function reads is a call of its library's.
                frames.len() > 1 && name(0) == *group && [*api, "[libspin.so]"].contains(&name(1))
            };
            let samples = tables.samples.iter().filter(|sample| here(sample.stack));
            let got = samples.map(|sample| sample.criticality_ns).sum::<i64>() as f64;
            let close = (got - expected).abs() < 0.05 * expected + unseen + (length(api) - sums(&profile, api).2);
            (!close).then(|| format!("{group}: {got} for {expected}"))
        });
        // The rest is the loader's, and what lies between the calls.
        let session = profile.meta.criticality.unwrap();
        assert!(session.estimate && session.busy_ns + session.idle_ns <= profile.meta.wall_ns);
        if let Some(failure) = outcome {
            return Err(failure);
        }
        // Who comes late has nothing to wait for.
        for kind in [WaitKind::Sleep, WaitKind::Join] {
            if !profile.sched.waits.iter().any(|wait| wait.kind == kind && wait.ns > 0) {
                return Err(format!("no wait is a {kind:?}"));
            }
        }
        Ok(())
    });
}
