//! The same counts through uprobes.

use std::ffi::OsString;
use std::time::Duration;

use transect_bpf_collect::privilege;
use transect_profile_model::{Loss, LossKind, Profile, RegionMethod};
use transect_record::feature::FeatureTarget;
use transect_testkit::judged;

use crate::attached::Running;
use crate::counts::{is_exact, is_unwound};
use crate::program::{alone, build, check_times, entries, record, settings};

/// Says why if not.
fn can_watch() -> bool {
    match privilege::prepare_to_load() {
        Ok(()) => true,
        Err(why) => {
            println!("NOT RUN: {why}");
            false
        }
    }
}

#[test]
fn threads_and_children() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let program = build("threads.c", false, flags);
        judged(&format!("cost of an event {flags:?}"), || {
            let outcome = program.record(&["3", "2000", "2"], RegionMethod::Usdt);
            assert_eq!(outcome.status, Some(0));
            is_exact(&outcome.profile, 5, 2000);
            let cost = outcome.profile.meta.feature.as_ref().unwrap().event_ns;
            if cost > 20.0 && cost < 100_000.0 { Ok(()) } else { Err(format!("{cost} ns")) }
        });
    }
}

#[test]
fn compiled_in_sites_are_watched_too() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    let program = build("threads.c", true, &[]);
    is_exact(&program.record(&["2", "1000"], RegionMethod::Usdt).profile, 2, 1000);
}

#[test]
fn exceptions_and_long_jumps() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    let program = build("unwinding.cc", false, &[]);
    let profile = program.record(&["200"], RegionMethod::Usdt).profile;
    is_unwound(&profile, 200);
}

#[test]
fn programs_that_a_shell_starts() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    let program = build("threads.c", false, &[]);
    let script = format!("{0} 1 500; {0} 1 500 1; exec {0} 1 500", program.path.display());
    let command = ["sh", "-c", &script].map(OsString::from).to_vec();
    // A program runs while the recorder learns of it: where that took long it says so, and it is tried again.
    let late = |profile: &Profile| {
        let ours = |loss: &&Loss| loss.what == LossKind::UntimedCalls && loss.place == program.path.to_str().unwrap();
        profile.loss.iter().any(|loss| ours(&loss))
    };
    judged("programs that a shell starts, watched by the kernel", || {
        let target = FeatureTarget::Launch { command: command.clone(), follow: true };
        let profile = record(&settings(target, RegionMethod::Usdt)).unwrap().profile;
        if late(&profile) {
            return Err(format!("the recorder was late: {:?}", profile.loss));
        }
        is_exact(&profile, 4, 500);
        let ours = profile.processes.iter().filter(|process| process.executable == program.path.to_str().unwrap());
        assert_eq!(ours.count(), 4, "{:?}", profile.processes);
        Ok(())
    });
}

#[test]
fn a_running_process() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    let running = Running::start();
    judged("a running process, watched by the kernel", || {
        let before = running.rounds();
        let target = FeatureTarget::Attach { pids: vec![running.pid()], duration: Some(Duration::from_millis(700)) };
        let profile = record(&settings(target, RegionMethod::Usdt)).unwrap().profile;
        let after = running.rounds();
        let found = entries(&profile);
        let entered = |stack: &[i64]| found.get(stack).copied().unwrap_or(0);
        let (rounds, steps) = (entered(&[1]), entered(&[1, 2]) + entered(&[2]));
        assert!(rounds <= (after - before) as i64, "{rounds} of {}", after - before);
        assert!((rounds - 1) * 100 <= steps && steps <= (rounds + 1) * 100, "{steps} steps in {rounds} rounds");
        check_times(&profile);
        if rounds > 5 { Ok(()) } else { Err(format!("{rounds} rounds")) }
    });
    assert_eq!(running.changed_bytes(), 0);
    assert!(running.works());
}
