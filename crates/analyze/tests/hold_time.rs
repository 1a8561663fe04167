//! Predicted savings of programs whose calls of locks were recorded, too.

use transect_analyze::synthetic::{Do, Program, Script};
use transect_analyze::{Selection, criticality};
use transect_profile_model::{Lock, Profile, WaitKind};

const THREADS: usize = 4;
const ROUNDS: usize = 60;
/// CPU time of `mix` under the lock and beside it, and of `parse`, µs.
const HELD: f64 = 6.0;
const BESIDE: f64 = 100.0;
const PARSE: f64 = 120.0;

/// Threads parse, mix, take a lock, and mix a little more: by the holders' stacks all mixing may be done under the lock.
fn mixing(parse: f64) -> Profile {
    let worker = |number: usize| {
        let round = |round: usize| {
            let part = 0.5 + ((round * 7 + number * 13) % 17) as f64 / 17.0;
            let under = [("mix", Do::Lock(0)), ("mix", Do::Run(HELD)), ("mix", Do::Unlock(0))];
            [("parse", Do::Run(parse * part)), ("mix", Do::Run(BESIDE))].into_iter().chain(under)
        };
        Script { name: format!("worker{number}"), steps: (0..ROUNDS).flat_map(round).collect(), ..Script::default() }
    };
    let started = (1..=THREADS).map(|id| ("main", Do::Spawn(id)));
    let joined = (1..=THREADS).map(|id| ("main", Do::Join(id)));
    let main = Script { name: "main".into(), steps: started.chain(joined).collect(), ..Script::default() };
    Program { cpus: THREADS, threads: [main].into_iter().chain((1..=THREADS).map(worker)).collect() }.run().profile
}

fn with_holds(mut profile: Profile) -> Profile {
    let object = profile.sched.waits.iter().find(|wait| wait.kind == WaitKind::Mutex).unwrap().object.clone();
    let hold_ns = (HELD * 1e3) as i64 * (THREADS * ROUNDS) as i64;
    profile.locks = vec![Lock {
        process: 0,
        object: format!("mutex {object}"),
        path: "app!mix".into(),
        acquisitions: (THREADS * ROUNDS) as i64,
        contended: 1,
        wait_ns: 1,
        hold_ns,
        hold_ns_low: Some(hold_ns - hold_ns / 20),
        hold_ns_high: Some(hold_ns + hold_ns / 20),
    }];
    profile
}

#[test]
fn a_lock_bounds_a_run_by_the_time_for_which_its_calls_held_it() {
    let truth = 1.0 - mixing(0.0).meta.wall_ns as f64 / mixing(PARSE).meta.wall_ns as f64;
    let saving = |profile: &Profile| {
        let view = criticality(profile, &Selection::default()).unwrap();
        let row = view.what_if.into_iter().find(|row| row.path == "parse" && row.speedup.is_infinite()).unwrap();
        (row.saving, row.saving_low, row.saving_high)
    };
    let (best, low, high) = saving(&with_holds(mixing(PARSE)));
    assert!((best - truth).abs() < 0.05 && low <= truth && truth <= high, "{best} ({low} to {high}), true {truth}");
    let (best, ..) = saving(&mixing(PARSE));
    assert!(best < truth / 2.0, "without the calls it is not known: {best}");
}
