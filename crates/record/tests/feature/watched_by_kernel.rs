//! The same counts through uprobes.

use std::ffi::OsString;
use std::time::Duration;

use transect_bpf_collect::privilege;
use transect_profile_model::{Loss, LossKind, Profile, RegionMethod};
use transect_record::feature::{FeatureTarget, record};

use crate::attached::Running;
use crate::counts::{is_exact, is_unwound};
use crate::program::{alone, build, check_times, entries, settings};

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
        let outcome = program.record(&["3", "2000", "2"], RegionMethod::Usdt);
        assert_eq!(outcome.status, Some(0));
        is_exact(&outcome.profile, 5, 2000);
        let session = outcome.profile.meta.feature.as_ref().unwrap();
        assert!(session.event_ns > 20.0 && session.event_ns < 100_000.0, "{}", session.event_ns);
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
    let attempt = |_| {
        let target = FeatureTarget::Launch { command: command.clone(), follow: true };
        record(&settings(target, RegionMethod::Usdt)).unwrap().profile
    };
    let profile = (0..8).map(attempt).find(|profile| !late(profile)).expect("the recorder was late eight times");
    is_exact(&profile, 4, 500);
    let ours = profile.processes.iter().filter(|process| process.executable == program.path.to_str().unwrap());
    assert_eq!(ours.count(), 4, "{:?}", profile.processes);
}

#[test]
fn a_running_process() {
    let _alone = alone();
    if !can_watch() {
        return;
    }
    let running = Running::start();
    let before = running.rounds();
    let target = FeatureTarget::Attach { pid: running.pid(), duration: Some(Duration::from_millis(700)) };
    let profile = record(&settings(target, RegionMethod::Usdt)).unwrap().profile;
    let after = running.rounds();
    let found = entries(&profile);
    let rounds = found[&vec![1]];
    assert!(rounds > 5 && rounds <= (after - before) as i64, "{rounds} of {}", after - before);
    let steps = found[&vec![1, 2]] + found.get(&vec![2]).copied().unwrap_or(0);
    assert!((rounds - 1) * 100 <= steps && steps <= (rounds + 1) * 100, "{steps} steps in {rounds} rounds");
    check_times(&profile);
    assert_eq!(running.changed_bytes(), 0);
    assert!(running.works());
}
