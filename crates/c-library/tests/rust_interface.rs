//! The Rust interface: programs that count themselves are the truth.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use transect::probe::{Action, Error, Options, Probes};
use transect::{Status, probe::Probe};

static CALLS: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn counts_itself(n: u64) -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed);
    black_box(n).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline(never)]
fn sleeps(nanos: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(black_box(nanos)));
}

fn status(result: Result<(), Error>) -> Status {
    result.map_or_else(|error| error.status(), |()| Status::Ok)
}

/// One test: probes of a process are one thing.
#[test]
fn a_program_probes_its_own_functions() {
    let probes = Probes::start(&Options::default()).unwrap();
    let probe = probes.at(counts_itself as *const ()).unwrap();
    assert!(probe.function().unwrap().ends_with("counts_itself"), "{:?}", probe.function());
    assert_eq!(probes.at(counts_itself as *const ()).unwrap(), probe, "one site, one id");
    assert_eq!(probes.find(&probe.function().unwrap()).unwrap(), probe);
    let matching: Vec<Probe> = probes.matching("*::counts_itself").unwrap();
    assert_eq!(matching, [probe]);

    // Nothing is there yet.
    assert_eq!(status(probe.activate()), Status::NotInstalled);
    assert!(!probe.is_active());
    assert_eq!(status(probes.find("no_such_function").map(drop)), Status::NotFound);
    let inside = (counts_itself as *const ()).cast::<u8>().wrapping_add(3).cast();
    assert!(matches!(probes.at(inside), Err(Error::NotAnEntry { .. } | Error::NotProbeable { .. })));
    assert_eq!(status(probe.set_action(Action::Handler(9999))), Status::Argument);

    // Installed, switched and taken out while threads run through it.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(counts_itself(3), 3u64.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                }
            });
        }
        for round in 0..50 {
            probes.install(&[probe]).unwrap();
            for _ in 0..1000 {
                probe.activate().unwrap();
                probe.deactivate().unwrap();
            }
            if round % 10 == 0 {
                probes.restore(&[probe]).unwrap();
                assert_eq!(status(probe.activate()), Status::NotInstalled);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });

    // Exact counts, in four threads.
    probes.install(&[probe]).unwrap();
    probe.reset().unwrap();
    let before = CALLS.load(Ordering::Relaxed);
    probe.activate().unwrap();
    assert!(probe.is_active());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|n| assert_ne!(counts_itself(n), 1)));
        }
    });
    probe.deactivate().unwrap();
    counts_itself(1);
    assert_eq!(probe.calls(), CALLS.load(Ordering::Relaxed) - before - 1);

    // Times: no call is shorter than what it sleeps.
    let slow = probes.at(sleeps as *const ()).unwrap();
    slow.set_action(Action::Time).unwrap();
    probes.install(&[slow]).unwrap();
    slow.activate().unwrap();
    for _ in 0..5 {
        sleeps(2_000_000);
    }
    let times = slow.times().unwrap();
    assert_eq!((times.calls, times.timed), (5, 5));
    assert!(times.total_ns >= 10_000_000 && times.max_ns >= 2_000_000, "{times:?}");
    assert!(times.p50_ns >= 1_800_000 && times.mean_ns * 5 <= times.total_ns + 5, "{times:?}");
    slow.reset().unwrap();
    assert_eq!(slow.times().unwrap().calls, 0);

    probes.restore_all().unwrap();
    assert!(!slow.is_active());
    assert_eq!(status(slow.activate()), Status::NotInstalled);
}

#[test]
fn the_example_runs() {
    // Built beside this test.
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/probe_own_functions");
    let output = Command::new(&example).output().unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("100 of 100 calls counted"), "{text}");
}
