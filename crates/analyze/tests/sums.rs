//! The component view is a partition of the threads' lifetime, whatever the call tree.

use proptest::prelude::*;
use transect_analyze::synthetic::{Call, ProfileBuilder, ThreadSpec};
use transect_analyze::{CutDimensions, Selection, components, flows, threads, totals};
use transect_profile_model::{
    ApiClass, CallStack, Flow, Origin, Parallelism, Profile, SchedSample, Space, StackFrame, Task, TimedSample,
};

const LIBRARIES: [&str; 4] = ["/lib/liba.so", "/lib/libb.so", "/usr/lib/liba.so", "/lib/libc.so.6"];

fn call() -> impl Strategy<Value = Call> {
    let class = prop_oneof![
        5 => Just(ApiClass::Compute),
        1 => Just(ApiClass::Io),
        1 => Just(ApiClass::Lock),
        1 => Just(ApiClass::Wait),
    ];
    let leaf =
        (1_u32..5, 0_usize..6, class, 1_i64..1000, 0_i64..5_000_000).prop_map(|(callee, api, class, calls, ns)| {
            // An API has one class, so the class is part of the name.
            Call::new(callee, &format!("{}_{api}", class.as_str()), calls, ns).class(class)
        });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (1_u32..5, 0_usize..6, 1_i64..1000, 0_i64..5_000_000, prop::collection::vec(inner, 0..4)).prop_map(
            |(callee, api, calls, ns, inner)| {
                let other = inner.into_iter().filter(|inner| inner.callee != callee);
                Call::new(callee, &format!("compute_{api}"), calls, ns).inner(other)
            },
        )
    })
}

fn thread() -> impl Strategy<Value = ThreadSpec> {
    (0_usize..3, 0_i64..9_000_000, 1_i64..5, prop::collection::vec(call(), 0..6)).prop_map(
        |(group, own_ns, active, calls)| {
            let group = ["main", "worker", "writer"][group];
            ThreadSpec { name: group.into(), group: group.into(), own_ns, active, calls }
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    prop::collection::vec(prop::collection::vec(thread(), 1..5), 1..3).prop_map(|processes| {
        let mut builder = ProfileBuilder::new("/opt/app", &LIBRARIES);
        for (number, threads) in processes.into_iter().enumerate() {
            if number > 0 {
                builder = builder.process("/opt/app");
            }
            builder = threads.into_iter().fold(builder, ProfileBuilder::thread);
        }
        builder.build()
    })
}

proptest! {
    #[test]
    fn self_and_wait_add_up_to_the_lifetime(profile in profile()) {
        let rows = components(&profile, &Selection::default());
        let lifetime: i64 = profile.threads.iter().map(|thread| thread.wall_ns).sum();
        let sum: i64 = rows.iter().map(|row| row.self_ns.unwrap() + row.wait_ns.unwrap()).sum();
        prop_assert_eq!(sum, lifetime);
        prop_assert_eq!(totals(&profile).lifetime_ns, lifetime);

        let attributed: i64 = profile.threads.iter().map(|thread| thread.attributed_ns).sum();
        let sum: i64 = rows.iter().map(|row| row.self_attributed_ns.unwrap() + row.wait_attributed_ns.unwrap()).sum();
        let rounding = (profile.flows.len() + rows.len() * 2 + profile.threads.len()) as i64;
        prop_assert!((sum - attributed).abs() <= rounding, "{} of {}", sum, attributed);

        if lifetime > 0 {
            let raw: f64 = rows.iter().map(|row| row.self_raw_percent.unwrap() + row.wait_raw_percent.unwrap()).sum();
            prop_assert!((raw - 100.0).abs() < 1e-6, "{}", raw);
        }
    }

    /// Own times of sampled calls are off, each by its own chance: the rows are what the threads lived, all the same, and no
    /// share is more than that of the time.
    #[test]
    fn rows_add_up_whatever_estimates_say(profile in profile(), off in prop::collection::vec(0.2..3.0_f64, 8)) {
        let mut profile = profile;
        for (at, flow) in profile.flows.iter_mut().enumerate().filter(|(_, flow)| !flow.class.is_wait()) {
            flow.calls += 1;
            flow.timed_calls = flow.calls - 1;
            flow.self_ns = flow.self_ns.map(|ns| (ns as f64 * off[at % off.len()]) as i64);
        }
        let rows = components(&profile, &Selection::default());
        let totals = totals(&profile);
        let sum: i64 = rows.iter().map(|row| row.self_ns.unwrap() + row.wait_ns.unwrap()).sum();
        // Less than a thousandth has no row.
        prop_assert!(sum <= totals.lifetime_ns && sum >= totals.lifetime_ns - totals.lifetime_ns / 1000, "{sum} of {}", totals.lifetime_ns);
        let sum: i64 = rows.iter().map(|row| row.self_attributed_ns.unwrap() + row.wait_attributed_ns.unwrap()).sum();
        let least = totals.attributed_ns - totals.attributed_ns / 1000 - rows.len() as i64 * 2;
        prop_assert!(sum >= least && sum <= totals.attributed_ns + rows.len() as i64 * 2, "{sum} of {}", totals.attributed_ns);
        prop_assert!(rows.iter().all(|row| row.self_attributed_ns <= row.self_ns.map(|ns| ns + 1)));
    }

    #[test]
    fn calls_are_neither_lost_nor_invented(profile in profile()) {
        let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
        let rows = components(&profile, &Selection::default());
        prop_assert_eq!(rows.iter().map(|row| row.calls_in).sum::<i64>(), calls);
        prop_assert_eq!(rows.iter().map(|row| row.calls_out).sum::<i64>(), calls);
        prop_assert_eq!(rows.iter().flat_map(|row| &row.others).map(|other| other.calls).sum::<i64>(), calls);
        for by in ["", "thread", "process", "feature", "thread,process,feature"] {
            let by = if by.is_empty() { CutDimensions::default() } else { by.parse().unwrap() };
            let rows = flows(&profile, &Selection { by: by.of_views().unwrap(), ..Selection::default() });
            prop_assert_eq!(rows.iter().map(|row| row.calls).sum::<i64>(), calls);
            let total: i64 = rows.iter().filter_map(|row| row.total_ns).sum();
            prop_assert_eq!(total, profile.flows.iter().filter_map(|flow| flow.total_ns).sum::<i64>());
        }
        let view = threads(&profile, &Selection::default());
        prop_assert_eq!(view.threads.iter().map(|row| row.busy_ns).sum::<Option<i64>>(), view.groups.iter().map(|g| g.busy_ns).sum::<Option<i64>>());
        prop_assert_eq!(view.groups.iter().map(|group| group.threads).sum::<i64>(), profile.threads.len() as i64);
    }
}

/// A script waits for a static program, in which no agent can be: the scheduler alone tells of that one's thread.
#[test]
fn a_program_without_recorded_calls_has_its_time_among_the_others() {
    const MS: i64 = 1_000_000;
    let wait = Call::new(2, "wait4", 1, 900 * MS).class(ApiClass::Wait);
    let shell = ThreadSpec { name: "sh".into(), group: "main".into(), own_ns: 100 * MS, active: 1, calls: vec![wait] };
    let builder = ProfileBuilder::new("/bin/sh", &["/opt/static", "/lib/libc.so.6"]).thread(shell);
    let mut profile = builder.process("/opt/static").build();
    let task = |process, tid, start_ns, running_ns, runnable_ns, blocked_ns| Task {
        process,
        tid,
        start_ns,
        end_ns: start_ns + running_ns + runnable_ns + blocked_ns,
        criticality_ns: running_ns + runnable_ns,
        running_ns,
        runnable_ns,
        blocked_ns,
        ..Task::default()
    };
    profile.sched.tasks =
        vec![task(0, 4000, 0, 100 * MS, 0, 900 * MS), task(1, 4100, 50 * MS, 800 * MS, 40 * MS, 20 * MS)];
    profile.sched.parallelism =
        vec![Parallelism { process: None, n: 0, ns: 60 * MS }, Parallelism { process: None, n: 1, ns: 940 * MS }];
    let frame = StackFrame {
        function: "crunch".into(),
        component: Some(1),
        file: String::new(),
        line: 0,
        inlined: false,
        space: Space::User,
    };
    profile.sched.frames = vec![frame];
    profile.sched.stacks = vec![CallStack { frames: vec![0], complete: true, linked: 0 }];
    let moment = |at: i64| TimedSample { task: 1, stack: 0, time_ns: at * MS, period_ns: MS };
    profile.sched.moments = (60..860).map(moment).collect();
    profile.sched.samples = vec![SchedSample {
        task: 1,
        stack: 0,
        n: 1,
        origin: Origin::Sample,
        samples: 800,
        criticality_ns: 840 * MS,
        active_ns: 840 * MS,
        spin: false,
    }];

    let rows = components(&profile, &Selection::default());
    let row = rows.iter().find(|row| row.component == "static").unwrap();
    assert_eq!((row.self_ns, row.wait_ns), (Some(840 * MS), Some(20 * MS)));
    assert_eq!((row.on_cpu_ns, row.runnable_ns), (Some(800 * MS), Some(40 * MS)));
    let lifetime: i64 = rows.iter().map(|row| row.self_ns.unwrap() + row.wait_ns.unwrap()).sum();
    let totals = totals(&profile);
    assert_eq!((lifetime, totals.lifetime_ns, totals.busy_ns), (1860 * MS, 1860 * MS, 940 * MS));
    let percent: f64 = rows.iter().map(|row| row.self_percent.unwrap() + row.wait_percent.unwrap()).sum();
    assert!((percent - 100.0).abs() < 0.01, "{percent}");

    let view = threads(&profile, &Selection::default());
    let attributed: i64 = view.threads.iter().map(|row| row.attributed_ns).sum();
    assert_eq!((view.threads.len(), attributed), (2, totals.attributed_ns), "shares add up to the whole");
}

/// An API calls a function of the program back, which calls the same library again: both calls are that time.
#[test]
fn calls_made_by_callbacks_count_once() {
    let thread = ThreadSpec {
        name: "main".into(),
        group: "main".into(),
        own_ns: 100,
        active: 1,
        calls: vec![Call::new(1, "for_each", 1, 1000)],
    };
    let mut profile = ProfileBuilder::new("/opt/app", &LIBRARIES).thread(thread).build();
    let outer = profile.flows[0].clone();
    profile.flows.push(Flow {
        api: "leaf".into(),
        symbol: "leaf".into(),
        calls: 50,
        timed_calls: 50,
        total_ns: Some(400),
        self_ns: Some(400),
        attributed_ns: Some(400),
        ..outer
    });
    (profile.flows[0].called_back_ns, profile.flows[0].called_back_same_edge_ns) = (400, 400);
    let rows = components(&profile, &Selection::default());
    let row = |name: &str| rows.iter().find(|row| row.component.ends_with(name)).unwrap();
    assert_eq!((row("lib/liba.so").self_ns, row("app").self_ns), (Some(1000), Some(100)));
    assert_eq!(row("app").others[0].total_ns, Some(1000));
    let rows = flows(&profile, &Selection::default());
    let parts = |api: &str| rows.iter().find(|row| row.api == api).map(|row| (row.self_ns, row.called_back_ns));
    assert_eq!(parts("for_each"), Some((Some(1000), Some(400))));
    assert_eq!(parts("leaf"), Some((Some(400), None)));
}
