//! Programs with more threads than CPUs: what queues for a CPU is charged to what has one.

use transect_analyze::synthetic::{Do, Program, Script};
use transect_analyze::{CriticalityView, Selection, criticality};
use transect_profile_model::{Origin, Profile, SchedSample};

const THREADS: usize = 6;
const CPUS: i64 = 2;

/// Each thread works for three parts of its CPU time and rests in the fourth; all of its queueing is noted where it rests, as the
/// recorder does with threads that queue after a wake-up.
fn crowded() -> Program {
    let worker = |number: usize| {
        // Of different lengths, so as not to keep step with the sampler or with others.
        let part = |round: usize| (60 + (round * 7 + number * 13) % 80) as f64;
        let round = |round| [("work", Do::Run(3.0 * part(round))), ("rest", Do::Run(part(round)))];
        Script { name: format!("worker{number}"), steps: (0..80).flat_map(round).collect(), ..Script::default() }
    };
    let started = (1..=THREADS).map(|id| ("main", Do::Spawn(id)));
    let joined = (1..=THREADS).map(|id| ("main", Do::Join(id)));
    let main = Script { name: "main".into(), steps: started.chain(joined).collect(), ..Script::default() };
    Program { cpus: CPUS as usize, threads: [main].into_iter().chain((1..=THREADS).map(worker)).collect() }
}

fn queued(mut profile: Profile) -> Profile {
    let tables = &mut profile.sched;
    let named = |frame: &u32| tables.frames[*frame as usize].function == "rest";
    let rest = tables.stacks.iter().position(|stack| stack.frames.iter().any(named)).unwrap() as u32;
    let mut queues = Vec::new();
    for sample in tables.samples.iter_mut().filter(|sample| i64::from(sample.n) > CPUS) {
        let part = |ns: i64| ns * (i64::from(sample.n) - CPUS) / i64::from(sample.n);
        let (criticality_ns, active_ns) = (part(sample.criticality_ns), part(sample.active_ns));
        queues.push(SchedSample {
            stack: rest,
            origin: Origin::StackTop,
            samples: 1,
            criticality_ns,
            active_ns,
            ..*sample
        });
        sample.criticality_ns -= criticality_ns;
        sample.active_ns -= active_ns;
    }
    tables.samples.extend(queues);
    profile
}

fn view(profile: &Profile) -> CriticalityView {
    criticality(profile, &Selection::default()).unwrap()
}

#[test]
fn a_queue_is_the_time_of_those_that_have_the_cpus() {
    let profile = queued(crowded().run().profile);
    let view = view(&profile);
    let ns = |name: &str| {
        view.places.iter().filter(|place| place.function == name).map(|place| place.ns).sum::<i64>() as f64
    };
    let run = profile.meta.wall_ns as f64;
    assert!((ns("work") / run - 0.75).abs() < 0.03, "{} of {run}", ns("work"));
    assert!((ns("rest") / run - 0.25).abs() < 0.03, "{} of {run}", ns("rest"));
    let all: i64 = view.places.iter().map(|place| place.ns).sum();
    assert!((all as f64 / run - 1.0).abs() < 0.01, "{all} of {run}");
}

#[test]
fn a_function_saves_its_part_of_the_cpu_time() {
    let program = crowded();
    let recording = program.run();
    let view = view(&queued(recording.profile));
    for speedup in [1.1, 2.0] {
        let truth = 1.0 - program.sped_up("work", speedup).run().elapsed_ns as f64 / recording.elapsed_ns as f64;
        let row = view.what_if.iter().find(|row| row.path == "work" && row.speedup == speedup).unwrap();
        assert!((row.saving - truth).abs() < 0.04, "{speedup}: {} of {truth}", row.saving);
        assert!(row.saving_low <= truth + 0.01 && truth <= row.saving_high + 0.01, "{row:?}");
    }
}
