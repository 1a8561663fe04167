//! Predicted savings of programs that waited for CPUs which other programs had.

use transect_analyze::synthetic::{Do, Program, Script};
use transect_analyze::{CriticalityView, Selection, criticality};
use transect_profile_model::{CallStack, Origin, Profile, SchedSample};

const SYNC_NS: i64 = 200_000;
const QUEUED_NS: i64 = 600_000;
const COUNT: i64 = 60;

/// A program computes for 400 µs and syncs for 200 µs, again and again. Beside other programs it has a CPU again only 600 µs after
/// each sync: active, at the stack that waited, as the recorder notes threads that mostly queued.
fn syncing(queued_ns: i64) -> Profile {
    let steps = (0..COUNT).flat_map(|_| [("compute", Do::Run(400.0)), ("save", Do::Sync(200.0))]).collect();
    let main = Script { name: "main".into(), steps, ..Script::default() };
    let mut profile = Program { cpus: 2, threads: vec![main] }.run().profile;
    let tables = &mut profile.sched;
    let mut later = 0;
    let mut moved: Vec<(i64, i64)> = Vec::new();
    for wait in &mut tables.waits {
        moved.push((wait.end_ns, later + queued_ns));
        wait.begin_ns += later;
        wait.end_ns += later;
        later += queued_ns;
    }
    for moment in &mut tables.moments {
        let before = moved.partition_point(|&(end, _)| end <= moment.time_ns);
        moment.time_ns += before.checked_sub(1).map_or(0, |at| moved[at].1);
    }
    let stack = tables.waits[0].stack.unwrap();
    tables.stacks.push(CallStack { ..tables.stacks[stack as usize].clone() });
    let (samples, criticality_ns) = (if later > 0 { COUNT } else { 0 }, later);
    let (origin, active_ns) = (Origin::StackTop, later);
    tables.samples.push(SchedSample { task: 0, stack, n: 1, origin, samples, criticality_ns, active_ns, spin: false });
    let task = &mut tables.tasks[0];
    task.end_ns += later;
    task.runnable_ns += later;
    task.criticality_ns += later;
    tables.parallelism.iter_mut().filter(|level| level.n == 1).for_each(|level| level.ns += later);
    let session = profile.meta.criticality.as_mut().unwrap();
    session.busy_ns += later;
    session.end_ns += later;
    profile.meta.wall_ns += later;
    profile
}

fn view(profile: &Profile) -> CriticalityView {
    criticality(profile, &Selection::default()).unwrap()
}

#[test]
fn a_wait_goes_with_the_queue_for_a_cpu_after_it() {
    for queued_ns in [0, QUEUED_NS] {
        let profile = syncing(queued_ns);
        let view = view(&profile);
        let gone = COUNT * (SYNC_NS + queued_ns);
        let truth = gone as f64 / profile.meta.wall_ns as f64;
        let rows = view.what_if.iter().filter(|row| row.path == "save" && row.speedup.is_infinite());
        let mut count = 0;
        for row in rows {
            count += 1;
            assert!((row.saving - truth).abs() < 0.05, "{:?} {} of {truth}", row.scope, row.saving);
            assert!(row.saving_low - 0.01 <= truth && truth <= row.saving_high + 0.01, "{row:?}");
        }
        assert!(count > 0, "{queued_ns}");
    }
}

#[test]
fn what_others_took_is_told_and_makes_ranges_wider() {
    let alone = view(&syncing(0)).contention;
    assert_eq!((alone.of_run, alone.much), (0.0, false));
    let mut profile = syncing(QUEUED_NS);
    let wide = view(&profile);
    // Each round takes 400 + 200 + 600 µs.
    assert!((wide.contention.of_run - 0.5).abs() < 0.03 && wide.contention.much, "{:?}", wide.contention);
    // On an idle machine nobody else can have had them.
    profile.meta.machine_busy_ns = Some(0);
    assert_eq!(view(&profile).contention.of_run, 0.0);
}
