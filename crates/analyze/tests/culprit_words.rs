//! What a finding says of a function's samples, and of what it calls in standard libraries, on stacks of which all is known.

use transect_analyze::synthetic::{Call, ProfileBuilder, ThreadSpec};
use transect_analyze::{CutQuery, FindingKind, FindingRow, cut, summary, synthetic};
use transect_profile_model::{
    CallStack, Component, Flow, Origin, OtherThread, Process, Profile, SchedSample, SchedSession, SchedWait, Space,
    StackFrame, TIME_LIMIT, Task, TimedSample, WaitKind,
};

const MS: i64 = 1_000_000;

/// A stack, root first, with its milliseconds: as many samples of the timer, and stacks at context switches.
struct Seen<'a> {
    stack: &'a [&'a str],
    samples: i64,
    switches: i64,
}

fn seen<'a>(stack: &'a [&'a str], samples: i64) -> Seen<'a> {
    Seen { stack, samples, switches: 0 }
}

/// One thread of one program; a sample and a switch are a millisecond and ten.
fn profile(stacks: &[Seen<'_>]) -> Profile {
    let mut profile = synthetic::empty();
    for path in ["/opt/app", "/usr/lib/libc.so.6", "/usr/lib/libdb.so.1"] {
        let executable = path == "/opt/app";
        let (path, build_id) = (path.to_owned(), String::new());
        profile.components.push(Component { path, build_id, executable, synthetic: false, static_in: None });
    }
    let (mut ns, mut now) = (0, 0);
    for (number, seen) in stacks.iter().enumerate() {
        let mut frames = Vec::new();
        for function in seen.stack {
            frames.push(profile.sched.frames.len() as u32);
            let of_c = ["memcpy", "nanosleep", "fstatat", "epoll_wait", "accept4", "read"].contains(function);
            profile.sched.frames.push(StackFrame {
                function: (*function).to_owned(),
                component: Some(if function.starts_with("db_") { 2 } else { of_c.into() }),
                file: String::new(),
                line: 0,
                inlined: false,
                space: Space::User,
            });
        }
        profile.sched.stacks.push(CallStack { frames, complete: true, linked: 0 });
        let stack = number as u32;
        for (origin, samples, each) in [(Origin::Sample, seen.samples, MS), (Origin::StackTop, seen.switches, 10 * MS)]
        {
            let (criticality_ns, active_ns) = (samples * each, samples * each);
            let row = SchedSample { task: 0, stack, n: 1, origin, samples, criticality_ns, active_ns, spin: false };
            profile.sched.samples.extend((samples > 0).then_some(row));
            ns += samples * each;
        }
        for _ in 0..seen.samples {
            now += MS;
            profile.sched.moments.push(TimedSample { time_ns: now, task: 0, stack, period_ns: MS });
        }
    }
    let executable = "/opt/app".to_owned();
    profile.processes.push(Process { pid: 7, parent_pid: 1, executable, start_ns: 0, wall_ns: ns });
    profile.sched.tasks.push(Task {
        process: 0,
        tid: 7,
        name: "app".to_owned(),
        group: "main".to_owned(),
        parent: None,
        start_ns: 0,
        end_ns: ns,
        criticality_ns: ns,
        running_ns: now,
        runnable_ns: ns - now,
        blocked_ns: 0,
        unattributed_ns: 0,
        ..Task::default()
    });
    profile.meta.wall_ns = ns;
    profile.meta.criticality = Some(SchedSession {
        estimate: false,
        per_process: false,
        cpus: 1,
        sample_hz: 1000,
        min_parallelism: 1,
        stack_depth: 64,
        busy_ns: ns,
        idle_ns: 0,
        unattributed_ns: 0,
        drift: 0,
        slices: 0,
        critical_slices: 0,
        start_ns: 0,
        end_ns: ns,
    });
    profile
}

/// The finding that is about this function.
fn finding(profile: &Profile, function: &str) -> FindingRow {
    let rows = summary(profile);
    let found = rows.iter().find(|row| row.place.function.as_deref() == Some(function)).cloned();
    found.unwrap_or_else(|| panic!("none of {function}: {rows:#?}"))
}

#[test]
fn samples_are_those_of_the_cut_and_switches_are_told_apart() {
    let stacks = [
        Seen { stack: &["main", "work"], samples: 57, switches: 23 },
        Seen { stack: &["main", "idle"], samples: 30, switches: 1 },
    ];
    let profile = profile(&stacks);
    for (function, samples, switches) in [("work", 57, "23 stacks"), ("idle", 30, "1 stack")] {
        let query = CutQuery {
            by: vec!["function".parse().unwrap()],
            measure: "samples".parse().unwrap(),
            ..CutQuery::default()
        };
        let counted = cut(&profile, &query).unwrap().rows;
        let is_it = |row: &&transect_analyze::CutRow| format!("{:?}", row.keys[0]).contains(function);
        assert_eq!(counted.iter().find(is_it).unwrap().value, samples);
        let evidence = finding(&profile, function).evidence;
        let words = format!("; {samples} samples and {switches} at context switches");
        assert!(evidence.contains(&words), "{evidence}");
        assert_eq!(evidence.contains("; 80 % of its active time without a CPU"), function == "work", "{evidence}");
    }
    let none = self::profile(&[seen(&["main", "work"], 60), seen(&["main", "rest"], 40)]);
    assert!(finding(&none, "work").evidence.contains("; 60 samples"), "no switches, no word of them");
    assert!(!finding(&none, "work").evidence.contains("switches"));
}

#[test]
fn the_function_of_a_library_that_takes_the_time_is_named_with_who_called_it() {
    let hash = ["main.main", "main.hash", "io.copyBuffer", "crypto/sha256.(*digest).Write", "crypto/sha256.block"];
    let copy = ["main.main", "main.hash", "io.copyBuffer", "runtime.memmove"];
    let all = profile(&[seen(&hash, 720), seen(&copy, 40), seen(&["main.main", "main.rest"], 240)]);
    assert_eq!(
        finding(&all, "main.hash").finding,
        "main.hash spends 72 % of the time in crypto/sha256.block, called by io.copyBuffer"
    );
    // By several ways: the one with most of it.
    let direct = ["main.main", "main.hash", "crypto/sha256.Sum256", "crypto/sha256.block"];
    let ways = profile(&[seen(&hash, 400), seen(&direct, 200), seen(&["main.main", "main.hash"], 300)]);
    assert_eq!(
        finding(&ways, "main.hash").finding,
        "main.hash takes 100 % of the time, 67 % in crypto/sha256.block, called by io.copyBuffer"
    );
    // Of each function that it calls, where no function has most of all.
    let sort = ["main.main", "main.hash", "sort.Ints", "slices.partitionOrdered[go.shape.int]"];
    let two = profile(&[seen(&hash, 450), seen(&sort, 350), seen(&["main.main", "main.rest"], 200)]);
    assert_eq!(
        finding(&two, "main.hash").finding,
        "main.hash takes 80 % of the time, 45 % in crypto/sha256.block (called by io.copyBuffer) and 35 % in \
         slices.partitionOrdered[go.shape.int] (called by sort.Ints)"
    );
}

#[test]
fn leaves_of_the_libraries_of_cpp_and_rust_are_named_alike() {
    let cpp =
        ["main", "load(int)", "std::vector<int>::push_back(int const&)", "std::vector<int>::_M_realloc_insert(int)"];
    let found = finding(&profile(&[seen(&cpp, 900), seen(&["main", "rest"], 100)]), "load(int)").finding;
    assert!(found.contains("_M_realloc_insert") && found.contains(", called by std::vector"), "{found}");
    let rust = ["app::main", "app::load", "alloc::vec::Vec<T>::extend_from_slice", "memcpy"];
    let found = finding(&profile(&[seen(&rust, 900), seen(&["app::main", "app::rest"], 100)]), "app::load").finding;
    assert!(found.contains("in memcpy, called by ") && found.contains("extend_from_slice"), "{found}");
}

#[test]
fn a_function_of_a_library_that_does_the_work_itself_is_called_by_nobody_else() {
    let all = profile(&[seen(&["main", "work", "memcpy"], 950), seen(&["main", "rest"], 50)]);
    assert_eq!(finding(&all, "work").finding, "work spends 95 % of the time in memcpy");
    // What many functions of the library share is none's.
    let spread: Vec<String> = (0..5).map(|n| format!("encoding/json.step{n}")).collect();
    let stacks: Vec<[&str; 4]> =
        spread.iter().map(|leaf| ["main.main", "main.load", "encoding/json.Unmarshal", leaf.as_str()]).collect();
    let stacks: Vec<Seen<'_>> = stacks.iter().map(|stack| seen(stack, 200)).collect();
    assert_eq!(
        finding(&profile(&stacks), "main.load").finding,
        "main.load spends 100 % of the time in encoding/json.Unmarshal"
    );
}

#[test]
fn the_largest_function_of_a_library_is_named_with_the_call() {
    let steps: Vec<String> = (0..4).map(|n| format!("db_part{n}")).collect();
    let stacks: Vec<[&str; 4]> = steps.iter().map(|leaf| ["main", "load", "db_step", leaf.as_str()]).collect();
    let mut stacks: Vec<Seen<'_>> = stacks.iter().map(|stack| seen(stack, 150)).collect();
    stacks.push(seen(&["main", "load", "db_step", "db_exec"], 400));
    let mut named = profile(&stacks);
    calls(&mut named, 0, "db_step", 8, MS);
    assert_eq!(finding(&named, "load").finding, "load spends 100 % of the time in db_step, 40 % in db_exec");
    // All are alike.
    let mut alike = profile(&stacks[..4]);
    calls(&mut alike, 0, "db_step", 8, MS);
    assert_eq!(finding(&alike, "load").finding, "load spends 100 % of the time in db_step");
}

/// So few samples that it is no finding of its own, in the only function of a program.
#[test]
fn one_function_is_not_said_to_be_spread() {
    let all = profile(&[seen(&["work"], 3)]);
    let rows = summary(&all);
    assert!(rows.iter().all(|row| !row.finding.contains("spread over")), "{rows:#?}");
    assert_eq!(rows[0].place.function.as_deref(), Some("work"), "{rows:#?}");
}

/// A run of two milliseconds met by two samples: they say nothing of it.
#[test]
fn two_samples_are_no_finding() {
    for stacks in [vec![seen(&["work"], 2)], vec![seen(&["main", "one"], 1), seen(&["main", "other"], 1)]] {
        let rows = summary(&profile(&stacks));
        assert!(
            rows.iter().all(|row| row.kind != FindingKind::HeavyComponent && row.place.function.is_none()),
            "{rows:#?}"
        );
    }
}

/// A library has less than half of the time, in many functions; of the others none comes near it.
#[test]
fn a_component_of_less_than_half_is_named_where_nothing_else_is() {
    let names: Vec<String> = (0..9)
        .map(|n| format!("db_{n}"))
        .chain((0..6).map(|n| format!("part_{n}")))
        .chain((0..5).map(|n| format!("x_{n}")))
        .collect();
    let stacks: Vec<[&str; 2]> = names.iter().map(|name| ["main", name.as_str()]).collect();
    let mut seen: Vec<Seen<'_>> = stacks.iter().map(|stack| self::seen(stack, 50)).collect();
    let first = |seen: &[Seen<'_>]| {
        let mut profile = profile(seen);
        let path = "/usr/lib/libx.so.1".to_owned();
        profile.components.push(Component { path, ..profile.components[2].clone() });
        let of_x = profile.sched.frames.iter_mut().filter(|frame| frame.function.starts_with("x_"));
        of_x.for_each(|frame| frame.component = Some(3));
        summary(&profile).into_iter().next().unwrap()
    };
    let row = first(&seen);
    assert!(row.finding.starts_with("libdb.so.1 takes 45 % of the time with what it calls, spread over"), "{row:#?}");
    // A function that has a good part by itself says more.
    seen.push(self::seen(&["main", "part_0"], 250));
    let row = first(&seen);
    assert_eq!(row.place.function.as_deref(), Some("part_0"), "{row:#?}");
}

/// Calls that `caller` (a component) makes of a function of the second one.
fn calls(profile: &mut Profile, caller: u32, api: &str, calls: i64, each_ns: i64) {
    let flows = ProfileBuilder::new("/opt/app", &["/usr/lib/libc.so.6"])
        .thread(ThreadSpec {
            name: "app".into(),
            group: "main".into(),
            own_ns: MS,
            active: 1,
            calls: vec![Call::new(1, api, calls, calls * each_ns)],
        })
        .build();
    profile.meta.timing = flows.meta.timing;
    if profile.threads.is_empty() {
        profile.threads = flows.threads;
    }
    profile.flows.extend(flows.flows.into_iter().map(|flow| Flow { caller, ..flow }));
}

#[test]
fn each_caller_has_its_own_calls() {
    let stacks =
        [seen(&["main", "walk", "fstatat"], 300), seen(&["main", "compare", "fstatat"], 600), seen(&["main"], 100)];
    let mut profile = profile(&stacks);
    calls(&mut profile, 0, "fstatat", 90_000, 10_000);
    // Those of another component are none of theirs.
    let (path, build_id) = ("/usr/lib/libother.so".to_owned(), String::new());
    profile.components.push(Component { path, build_id, executable: false, synthetic: false, static_in: None });
    calls(&mut profile, 2, "fstatat", 53_514, 10_000);
    let evidence = |function| finding(&profile, function).evidence;
    assert!(
        evidence("walk").contains("; 90,000 calls of fstatat, here and elsewhere, 10.0 µs each"),
        "{}",
        evidence("walk")
    );
    assert!(evidence("compare").contains("; 90,000 calls of fstatat, here and elsewhere"), "{}", evidence("compare"));
    let mut alone = self::profile(&stacks[1..]);
    calls(&mut alone, 0, "fstatat", 90_000, 10_000);
    let evidence = finding(&alone, "compare").evidence;
    assert!(evidence.contains("; 90,000 calls of fstatat, 10.0 µs each"), "{evidence}");
}

/// Larger calls are advised where calls could be larger: not for messages, nor after each seek.
#[test]
fn more_with_each_call_where_that_is_possible() {
    let copies = |others: &[(&str, i64)]| {
        let mut profile = profile(&[seen(&["main", "copy", "read"], 900), seen(&["main"], 100)]);
        calls(&mut profile, 0, "read", 90_000, 10_000);
        profile.flows[0].bytes = Some(90_000 * 64);
        others.iter().for_each(|&(api, number)| calls(&mut profile, 0, api, number, 100));
        finding(&profile, "copy").next.starts_with("Move more with each call")
    };
    assert!(copies(&[]) && copies(&[("lseek", 10)]));
    assert!(!copies(&[("socket", 1)]) && !copies(&[("accept4", 1)]) && !copies(&[("lseek", 90_000)]));
}

/// The thread waits behind its samples, in the last stack, to its end: kind, object and number of waits; beginning and length, ns.
fn then_waits(profile: &mut Profile, (kind, object, count): (WaitKind, &str, i64), (begin_ns, idle_ns): (i64, i64)) {
    profile.sched.waits.push(SchedWait {
        task: 0,
        kind,
        object: object.into(),
        stack: Some(2),
        holder: None,
        waker: None,
        count,
        begin_ns,
        end_ns: begin_ns + idle_ns,
        ns: idle_ns,
        idle_ns,
        holder_gain_ns: 0,
    });
    let task = &mut profile.sched.tasks[0];
    (task.blocked_ns, task.end_ns) = (idle_ns, begin_ns + idle_ns);
    profile.meta.wall_ns = begin_ns + idle_ns;
    let session = profile.meta.criticality.as_mut().unwrap();
    (session.idle_ns, session.end_ns) = (idle_ns, begin_ns + idle_ns);
}

/// A function that works and sleeps through what it calls: the sleep has a row of its own.
#[test]
fn a_call_that_sleeps_is_not_hidden_in_its_caller() {
    let stacks = [
        seen(&["main", "eval"], 350),
        seen(&["main", "eval", "work"], 200),
        seen(&["main", "eval", "nap", "nanosleep"], 0),
    ];
    let mut profile = profile(&stacks);
    then_waits(&mut profile, (WaitKind::Sleep, "", 9), (550 * MS, 450 * MS));
    assert_eq!(finding(&profile, "nap").finding, "nap waits 45 % of the time in nanosleep: a sleep");
    assert!(finding(&profile, "eval").finding.starts_with("eval takes 35 % of the time"));
    // It ran into its own limit, which no event came to end.
    profile.sched.waits[0].kind = WaitKind::Poll;
    profile.sched.waits[0].object = TIME_LIMIT.into();
    let found = finding(&profile, "nap").finding;
    assert_eq!(found, "nap waits 45 % of the time in nanosleep: a time limit that ran out (a sleep)");
}

/// Go's scheduler waits for events and for the next timer of a goroutine in one call.
#[test]
fn a_timer_of_go_is_no_request() {
    let stacks = [
        seen(&["handle"], 80),
        seen(&["net.(*netFD).accept", "accept4"], 20),
        seen(&["runtime.mcall", "runtime.schedule", "runtime.netpoll", "epoll_wait"], 0),
    ];
    let mut profile = profile(&stacks);
    then_waits(&mut profile, (WaitKind::Poll, "[eventpoll]", 50), (100 * MS, 900 * MS));
    assert!(summary(&profile).iter().all(|row| row.kind != FindingKind::Blocked));
    profile.sched.waits[0].object = TIME_LIMIT.into();
    let rows = summary(&profile);
    let found = rows.iter().find(|row| row.kind == FindingKind::Blocked).expect("a sleep");
    assert_eq!(
        found.finding,
        "No goroutine can run 90 % of the time: all wait, most often until a timer runs out (time.Sleep, a time limit)"
    );
}

/// A server that is asked for something a tenth of the time.
fn server(accepts: bool) -> Profile {
    let take: &[&str] = if accepts { &["main", "take", "accept4"] } else { &["main", "take"] };
    let mut profile =
        profile(&[seen(&["main", "answer"], 90), seen(take, 10), seen(&["main", "loop", "epoll_wait"], 0)]);
    then_waits(&mut profile, (WaitKind::Poll, "[eventpoll]", 50), (100 * MS, 900 * MS));
    profile
}

#[test]
fn waiting_for_requests_is_no_finding_of_a_server() {
    let rows = summary(&server(true));
    assert!(rows.iter().all(|row| row.kind != FindingKind::Blocked), "{rows:#?}");
    assert_eq!(rows[0].place.function.as_deref(), Some("answer"), "what it does when asked: {rows:#?}");
    assert_eq!(rows[0].percent.round(), 9.0, "of all of the time");
    assert!(rows[0].evidence.starts_with("90.0 ms of 1.00 s (waiting for requests: 900 ms of the run)"), "{rows:#?}");
    // A client's wait for its answer has the same calls.
    let client = summary(&server(false));
    assert_eq!(
        (client[0].kind, client[0].place.function.as_deref()),
        (FindingKind::Blocked, Some("loop")),
        "{client:#?}"
    );
    // One who was recorded ended it: that is what takes the time.
    let mut asked = server(true);
    asked.sched.waits[0].waker = Some(OtherThread { task: 0, stack: None });
    assert!(summary(&asked).iter().any(|row| row.kind == FindingKind::Blocked));
}
