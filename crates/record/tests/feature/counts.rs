//! Exact counts: threads, children, back-pressure.

use std::ffi::OsString;

use transect_profile_model::{Loss, Profile, RegionMethod};
use transect_record::feature::{FeatureTarget, Overflow};

use crate::program::{alone, build, check_times, entries, record, settings};

pub fn is_exact(profile: &Profile, workers: i64, rounds: i64) {
    let inner = (rounds + 2) / 3;
    let expected = [
        (vec![0], workers * rounds),
        (vec![0, 1], workers * inner),
        (vec![0, 1, 2], workers * inner),
        (vec![0, 2], workers * rounds),
    ];
    assert_eq!(entries(profile), expected.into_iter().collect());
    // The timeline keeps the longest spans only.
    let lost: Vec<_> = profile.loss.iter().filter(|loss| !loss.place.starts_with("timeline")).collect();
    assert_eq!(lost, Vec::<&Loss>::new());
    check_times(profile);
}

#[test]
fn compiled_in_events_of_threads_and_children() {
    let _alone = alone();
    let program = build("threads.c", true, &[]);
    let outcome = program.record(&["3", "50000", "2"], RegionMethod::Trace);
    assert_eq!(outcome.status, Some(0));
    is_exact(&outcome.profile, 5, 50_000);
}

#[test]
fn probes_in_threads_and_children() {
    let _alone = alone();
    let program = build("threads.c", false, &[]);
    let outcome = program.record(&["3", "50000", "2"], RegionMethod::Probe);
    assert_eq!(outcome.status, Some(0));
    is_exact(&outcome.profile, 5, 50_000);
}

#[test]
fn static_programs() {
    let _alone = alone();
    for traces in [true, false] {
        let program = build("threads.c", traces, &["-static"]);
        let method = if traces { RegionMethod::Trace } else { RegionMethod::Probe };
        is_exact(&program.record(&["2", "20000", "1"], method).profile, 3, 20_000);
    }
}

#[test]
fn probes_before_there_is_a_thread_control_block() {
    let _alone = alone();
    for flags in [&["-static"][..], &["-static-pie"], &["-static", "-nostdlib", "-DBARE"]] {
        let outcome = build("early.c", false, flags).record(&[], RegionMethod::Probe);
        assert_eq!(outcome.status, Some(0), "{flags:?}");
        assert_eq!(entries(&outcome.profile), [(vec![0], 1), (vec![1], 100)].into_iter().collect(), "{flags:?}");
        check_times(&outcome.profile);
    }
}

/// A begin is left after each of its instructions: between those that take its place and that fill it in, an event is missing.
#[test]
fn events_that_a_signal_handler_never_returns_to() {
    let _alone = alone();
    let program = build("abandoned.c", true, &[]);
    // Rings that are full in between, inside of a region and outside; and a thread that ends soon.
    for arguments in [&["30000"][..], &["30000", "inside"], &["10"]] {
        let profile = program.record(arguments, RegionMethod::Trace).profile;
        let entered: i64 =
            entries(&profile).iter().filter(|(stack, _)| stack.ends_with(&[1])).map(|(_, times)| times).sum();
        let times: i64 = arguments[0].parse().unwrap();
        assert_eq!((entered - 1) % times, 0, "{arguments:?}: {:?}", profile.loss);
        assert!((entered - 1) / times > 20, "{arguments:?}: {entered}");
        let lost: Vec<&Loss> = profile.loss.iter().filter(|loss| loss.reason.contains("siglongjmp")).collect();
        assert!(matches!(lost[..], [loss] if (5..15).contains(&loss.count)), "{arguments:?}: {:?}", profile.loss);
        assert!(!profile.loss.iter().any(|loss| loss.reason.contains("full")), "{arguments:?}: {:?}", profile.loss);
        check_times(&profile);
    }
}

#[test]
fn what_is_refused_is_counted() {
    let _alone = alone();
    let program = build("threads.c", true, &[]);
    let mut settings = program.launch(&["4", "400000"], RegionMethod::Trace);
    settings.overflow = Overflow::Count;
    let profile = record(&settings).unwrap().profile;
    let session = profile.meta.feature.as_ref().unwrap();
    // Of each round 4 events, of each third one 4 more.
    assert_eq!(session.events + session.dropped, 4 * (400_000 * 4 + 133_334 * 4));
    assert_eq!(session.blocked, 0);
    check_times(&profile);
}

/// `unwinding.cc` of so many rounds.
pub fn is_unwound(profile: &Profile, rounds: i64) {
    let thrown = [vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 1], vec![0, 1, 2, 1, 2]];
    let more = [vec![0, 1, 2, 1, 2, 1], vec![0, 1, 2, 1, 2, 1, 2], vec![0], vec![0, 3]];
    let expected = thrown.into_iter().chain(more).map(|stack| (stack, rounds)).collect();
    assert_eq!(entries(profile), expected);
    assert_eq!(profile.loss, []);
    check_times(profile);
}

#[test]
fn exceptions_and_long_jumps() {
    let _alone = alone();
    for traces in [true, false] {
        let program = build("unwinding.cc", traces, &[]);
        let method = if traces { RegionMethod::Trace } else { RegionMethod::Probe };
        let profile = program.record(&["1000"], method).profile;
        is_unwound(&profile, 1000);
    }
}

#[test]
fn programs_that_a_shell_starts() {
    let _alone = alone();
    for method in [RegionMethod::Trace, RegionMethod::Probe] {
        let program = build("threads.c", method == RegionMethod::Trace, &[]);
        let script = format!("{0} 1 3000; {0} 1 3000 1; exec {0} 1 3000", program.path.display());
        let command = ["sh", "-c", &script].map(OsString::from).to_vec();
        let profile = record(&settings(FeatureTarget::Launch { command, follow: true }, method)).unwrap().profile;
        is_exact(&profile, 4, 3000);
        assert_eq!(profile.components.len(), 1);
        // Shells are recorded only where probes were asked for.
        let ours = profile.processes.iter().filter(|process| process.executable == program.path.to_str().unwrap());
        assert_eq!(ours.count(), 4, "{method:?} {:?}", profile.processes);
    }
}
