//! Each finding fires on the program that it is about, and not on one that looks like it but has no problem.

use transect_analyze::synthetic::{
    Call, ProfileBuilder, ThreadSpec, image_server, large, large_latency, latency_service,
};
use transect_analyze::{FindingKind, FindingRow, summary};
use transect_profile_model::{
    ApiClass, CallStack, Lock, Profile, SchedSession, SchedWait, Space, StackFrame, Task, Timing, WaitKind,
};

const MS: i64 = 1_000_000;
const LIBRARIES: [&str; 5] =
    ["/lib/libc.so.6", "/lib/libstdc++.so.6", "/lib/libz.so.1", "/opt/liballoc.so", "/opt/libqueue.so"];
// Their rows in the component table.
const C: u32 = 1;
const CXX: u32 = 2;
const Z: u32 = 3;
const ALLOC: u32 = 4;

fn thread(group: &str, own_ns: i64, calls: Vec<Call>) -> ThreadSpec {
    ThreadSpec { name: group.into(), group: group.into(), own_ns, active: 1, calls }
}

fn profile(threads: impl IntoIterator<Item = ThreadSpec>) -> Profile {
    let builder = ProfileBuilder::new("/opt/app", &LIBRARIES);
    threads.into_iter().fold(builder, ProfileBuilder::thread).build()
}

fn kinds(profile: &Profile) -> Vec<FindingKind> {
    summary(profile).iter().map(|row| row.kind).collect()
}

fn find(profile: &Profile, kind: FindingKind) -> FindingRow {
    let rows = summary(profile);
    rows.iter().find(|row| row.kind == kind).unwrap_or_else(|| panic!("no {kind:?} in {rows:#?}")).clone()
}

fn assert_nothing(profile: &Profile) {
    let rows = summary(profile);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0].kind, FindingKind::Nothing, "{rows:#?}");
}

/// `count` calls of `self_ns` in all.
fn call(callee: u32, api: &str, calls: i64, self_ns: i64) -> Call {
    Call::new(callee, api, calls, self_ns)
}

#[test]
fn string_counting_in_an_ordered_map() {
    let compare = call(CXX, "std::string::compare(char const*) const", 30_000_000, 90 * MS).inner([call(
        C,
        "strcmp",
        30_000_000,
        420 * MS,
    )]);
    let profile = profile([thread("main", 300 * MS, vec![compare])]);
    let row = find(&profile, FindingKind::TinyCalls);
    assert_eq!(row.finding, "strcmp in libc.so.6 is called 30.0 million times for very little each");
    assert!(row.evidence.starts_with("52 % of the running time (420 ms) in 30.0 million calls"), "{}", row.evidence);
    assert!(row.evidence.contains("100 % of them from libstdc++.so.6; 14 ns a call"), "{}", row.evidence);
    assert!(row.next.contains("--view callers --component libc.so.6 --api strcmp"), "{}", row.next);
    assert_eq!(summary(&profile)[0], row, "ranked first");
    assert!(!kinds(&profile).contains(&FindingKind::HeavyComponent), "libc's share is explained by strcmp");
}

#[test]
fn millions_of_cheap_calls_that_cost_nothing_are_no_finding() {
    let profile = profile([thread(
        "main",
        900 * MS,
        vec![call(C, "strcmp", 3_000_000, 12 * MS), call(Z, "crc32", 900, 70 * MS)],
    )]);
    assert_nothing(&profile);
}

#[test]
fn writing_in_tiny_pieces() {
    let write = call(C, "write", 400_000, 160 * MS).class(ApiClass::Io).bytes(400_000 * 16);
    let row = find(&profile([thread("main", 300 * MS, vec![write])]), FindingKind::TinyIo);
    assert_eq!(row.finding, "write in libc.so.6 moves 16 bytes at a time");
}

#[test]
fn writing_in_large_pieces_or_waiting_for_single_bytes_is_no_finding() {
    let large = call(C, "write", 40_000, 160 * MS).class(ApiClass::Io).bytes(40_000 * 65_536);
    assert_nothing(&profile([thread("main", 300 * MS, vec![large])]));
    // A byte through a pipe as a signal: each read waits for a peer.
    let signal = call(C, "read", 12_000, 240 * MS * 2).class(ApiClass::Io).bytes(12_000);
    assert_nothing(&profile([thread("main", 900 * MS, vec![signal])]));
}

#[test]
fn copying_few_bytes_millions_of_times() {
    let copy = call(C, "memcpy", 8_000_000, 120 * MS).bytes(8_000_000 * 24);
    let row = find(&profile([thread("main", 700 * MS, vec![copy])]), FindingKind::TinyCalls);
    assert!(row.evidence.contains("24 bytes a call"), "{}", row.evidence);
}

#[test]
fn a_library_that_takes_most_of_the_time_in_many_apis() {
    let calls = (0..8).map(|n| call(Z, &format!("inflate_step{n}"), 5_000, 60 * MS)).collect();
    let profile = profile([thread("main", 300 * MS, calls)]);
    let row = find(&profile, FindingKind::HeavyComponent);
    assert_eq!(row.finding, "libz.so.1 takes an unusual share of the time");
    assert!(row.evidence.starts_with("62 % of the running time (480 ms) in 40,000 calls"), "{}", row.evidence);
    assert_eq!(kinds(&profile), [FindingKind::HeavyComponent]);
}

#[test]
fn one_api_that_takes_the_time_is_named_instead_of_its_library() {
    let profile = profile([thread("main", 300 * MS, vec![call(Z, "deflate", 5_000, 600 * MS)])]);
    assert_eq!(kinds(&profile), [FindingKind::HeavyApi]);
    assert_eq!(summary(&profile)[0].finding, "deflate in libz.so.1 takes a large share of the time");
}

#[test]
fn an_allocator_that_returns_memory_too_eagerly() {
    let free =
        call(ALLOC, "free", 50_000, 40 * MS).inner([call(C, "madvise", 50_000, 120 * MS), call(C, "munmap", 20, MS)]);
    let row = find(&profile([thread("main", 400 * MS, vec![free])]), FindingKind::EagerMemoryReturn);
    assert_eq!(row.finding, "liballoc.so returns memory to the kernel again and again (madvise)");
    assert!(row.evidence.starts_with("50,020 calls of madvise, munmap take 121 ms, 22 %"), "{}", row.evidence);
}

#[test]
fn returning_memory_now_and_then_is_no_finding() {
    let free = call(ALLOC, "free", 50_000, 40 * MS).inner([call(C, "madvise", 900, 5 * MS)]);
    assert_nothing(&profile([thread("main", 400 * MS, vec![free])]));
}

/// Four stages, one thread each, that end together; `busy_ms` of each, the rest waiting.
fn pipeline(busy_ms: [i64; 4]) -> Profile {
    let longest = busy_ms.into_iter().max().unwrap();
    let main = thread("main", MS, vec![call(C, "pthread_join", 4, longest * MS).class(ApiClass::Wait)]);
    let stage = |(number, busy): (usize, i64)| {
        let wait = call(C, "pthread_cond_wait", 2_000, (longest - busy) * MS).class(ApiClass::Wait);
        thread(&format!("stage{number}"), busy * MS, vec![wait])
    };
    profile(std::iter::once(main).chain(busy_ms.into_iter().enumerate().map(stage)))
}

#[test]
fn an_unbalanced_pipeline() {
    let unbalanced = pipeline([100, 110, 900, 120]);
    let row = find(&unbalanced, FindingKind::Imbalance);
    assert_eq!(row.finding, "Group stage2 is 9 times as busy as group stage0");
    assert!(row.evidence.contains("stage2 900 ms (1 thread), stage3 120 ms"), "{}", row.evidence);
    let row = find(&unbalanced, FindingKind::Waiting);
    assert!(row.evidence.contains("pthread_cond_wait") && row.evidence.contains("left out"), "{}", row.evidence);
}

#[test]
fn a_balanced_pipeline_whose_main_thread_joins_is_no_finding() {
    assert_nothing(&pipeline([880, 860, 900, 870]));
}

#[test]
fn a_mostly_idle_helper_beside_a_worker_pool_is_no_imbalance() {
    let workers = (0..7).map(|_| thread("worker", 900 * MS, vec![]));
    let wait = call(C, "poll", 40, 890 * MS).class(ApiClass::Wait);
    assert_nothing(&profile(workers.chain([thread("logger", 10 * MS, vec![wait])])));
}

#[test]
fn threads_of_one_group_that_share_work_unevenly() {
    let worker = |busy: i64| {
        let wait = call(C, "pthread_barrier_wait", 10, (900 - busy) * MS).class(ApiClass::Wait);
        thread("worker", busy * MS, vec![wait])
    };
    let row = find(&profile([worker(900), worker(300), worker(310), worker(290)]), FindingKind::Imbalance);
    assert_eq!(row.finding, "The threads of group worker share their work unevenly");
    assert!(row.evidence.contains("mean 450 ms (2.0 times)"), "{}", row.evidence);
    assert_nothing(&profile([worker(900), worker(850), worker(880), worker(810)]));
}

fn lock(object: &str, acquisitions: i64, contended: i64, wait_ns: i64) -> Lock {
    Lock {
        process: 0,
        object: object.into(),
        path: "app!work > liballoc.so!malloc".into(),
        acquisitions,
        contended,
        wait_ns,
        hold_ns: acquisitions * 40,
        hold_ns_low: None,
        hold_ns_high: None,
    }
}

#[test]
fn a_lock_convoy() {
    let worker = || {
        let acquire = call(C, "pthread_mutex_lock", 100_000, 400 * MS).class(ApiClass::Lock);
        thread("worker", 400 * MS, vec![acquire])
    };
    let mut profile = profile([worker(), worker(), worker(), worker()]);
    let by_calls = find(&profile, FindingKind::ContendedLock);
    assert_eq!(by_calls.finding, "Threads wait for locks in pthread_mutex_lock");
    profile.locks = vec![lock("mutex 0x55d0 (arena)", 400_000, 180_000, 1_500 * MS)];
    let row = find(&profile, FindingKind::ContendedLock);
    assert_eq!(row.finding, "Threads wait for mutex 0x55d0 (arena)");
    assert!(row.evidence.contains("45 % of 400,000 acquisitions"), "{}", row.evidence);
    assert!(kinds(&profile).contains(&FindingKind::Waiting));
}

#[test]
fn a_hot_lock_that_nobody_waits_for() {
    let calls = vec![
        call(C, "pthread_mutex_lock", 6_000_000, 90 * MS).class(ApiClass::Lock),
        call(C, "pthread_mutex_unlock", 6_000_000, 60 * MS),
    ];
    let mut hot = profile([thread("main", 700 * MS, calls)]);
    assert_eq!(kinds(&hot), [FindingKind::HotLock], "the calls alone tell it");
    hot.locks = vec![lock("mutex 0x55d0 (arena)", 6_000_000, 12, MS / 10)];
    assert_eq!(kinds(&hot), [FindingKind::HotLock]);
    let row = &summary(&hot)[0];
    assert_eq!(row.finding, "mutex 0x55d0 (arena) is taken 6.00 million times without contention");
    assert!(row.evidence.contains("costs about 150 ms"), "{}", row.evidence);
}

#[test]
fn a_lock_taken_now_and_then_is_no_finding() {
    let calls = vec![
        call(C, "pthread_mutex_lock", 60_000, 2 * MS).class(ApiClass::Lock),
        call(C, "pthread_mutex_unlock", 60_000, MS),
    ];
    let mut cool = profile([thread("main", 700 * MS, calls)]);
    cool.locks = vec![lock("mutex 0x55d0", 60_000, 3, MS / 10)];
    assert_nothing(&cool);
}

#[test]
fn a_balanced_program_over_many_libraries_has_nothing() {
    let calls = (1..=5).flat_map(|c| (0..4).map(move |n| call(c, &format!("api{n}"), 20_000, 12 * MS))).collect();
    let profile = profile([thread("main", 500 * MS, calls)]);
    assert_nothing(&profile);
    let row = &summary(&profile)[0];
    assert_eq!(
        row.evidence,
        "740 ms of threads' lifetime examined; the busiest component, app, has 68 %; waiting has 0.0 %"
    );
}

#[test]
fn an_empty_recording_has_nothing() {
    assert_nothing(&transect_analyze::synthetic::empty());
}

#[test]
fn counts_alone_find_what_counts_can_tell() {
    let mut counted =
        profile([thread("main", 500 * MS, vec![call(C, "strcmp", 9_000_000, 0), call(C, "malloc", 5_000, 0)])]);
    counted.meta.timing = Timing::Count;
    for flow in &mut counted.flows {
        (flow.timed_calls, flow.total_ns, flow.self_ns, flow.attributed_ns) = (0, None, None, None);
    }
    let row = find(&counted, FindingKind::TinyCalls);
    assert!(row.evidence.starts_with("9.00 million calls, 100 % of all"), "{}", row.evidence);
    counted.flows[0].calls = 90_000;
    let rows = summary(&counted);
    assert_eq!(rows[0].kind, FindingKind::Nothing);
    assert!(rows[0].evidence.contains("no times were taken"), "{}", rows[0].evidence);
}

#[test]
fn findings_are_ranked_by_share_and_deterministic() {
    for profile in [image_server(), large(5_000, 4)] {
        let rows = summary(&profile);
        assert!(rows.is_sorted_by(|a, b| a.percent >= b.percent), "{rows:#?}");
        assert_eq!(rows, summary(&profile));
        for row in &rows {
            assert!(!row.evidence.is_empty() && !row.next.is_empty());
            assert!(row.view.parse::<transect_analyze::View>().is_ok(), "{}", row.view);
        }
    }
}

#[test]
fn a_function_that_is_slow_now_and_then() {
    let row = find(&latency_service(), FindingKind::HeavyTail);
    assert_eq!(row.finding, "Server::handle is slow now and then");
    assert!(row.evidence.contains("median 62.4 µs, 99th percentile 29.9 ms"), "{}", row.evidence);
    assert_eq!(row.view, "latency");
}

#[test]
fn a_function_that_becomes_slow_in_mid_run() {
    let profile = latency_service();
    let row = find(&profile, FindingKind::LatencyShift);
    assert_eq!(row.finding, "Codec::encode becomes 4.5 times slower in mid-run");
    assert!(row.evidence.contains("until 7.00 s after the start"), "{}", row.evidence);
    let shifted = kinds(&profile).into_iter().filter(|kind| *kind == FindingKind::LatencyShift).count();
    assert_eq!(shifted, 1, "two modes that alternate are no shift");
    // The same of so short a function may be by the probes of what it calls.
    let mut short = profile;
    for slice in &mut short.latency_slices {
        (slice.bucket.low, slice.bucket.high) = (slice.bucket.low / 64, slice.bucket.high / 64 + 1);
    }
    assert!(!kinds(&short).contains(&FindingKind::LatencyShift));
}

#[test]
fn evenly_spread_latencies_are_no_finding() {
    let profile = large_latency(200);
    assert_nothing(&profile);
    assert!(summary(&profile)[0].evidence.contains("latencies of "));
}

/// A tail that takes little of the run's time is not worth a line.
#[test]
fn a_heavy_tail_that_costs_nothing_is_no_finding() {
    let mut profile = latency_service();
    for latency in &mut profile.latency {
        latency.calls_estimated = Some(latency.calls_seen);
        latency.histogram.iter_mut().for_each(|bucket| bucket.low /= 1_000);
        latency.histogram.iter_mut().for_each(|bucket| bucket.high /= 1_000);
        latency.total /= 1_000;
        latency.max /= 1_000;
    }
    assert_nothing(&profile);
}

/// The first thread waits in `words_of` for one process after the other, each 1 ms long; no sample met any of them.
#[test]
fn processes_too_short_for_samples_count_all_the_same() {
    let mut profile = profile([thread("main", MS, vec![])]);
    profile.meta.wall_ns = 100 * MS;
    profile.meta.criticality = Some(SchedSession {
        estimate: true,
        per_process: false,
        cpus: 2,
        sample_hz: 499,
        min_parallelism: 2,
        stack_depth: 64,
        busy_ns: 80 * MS,
        idle_ns: 20 * MS,
        unattributed_ns: 80 * MS,
        drift: 0,
        slices: 200,
        critical_slices: 200,
        start_ns: 0,
        end_ns: 100 * MS,
    });
    for (function, component) in [("main", 0), ("words_of", 0), ("pclose", C)] {
        profile.sched.frames.push(StackFrame {
            function: function.into(),
            component: Some(component),
            file: String::new(),
            line: 0,
            inlined: false,
            space: Space::User,
        });
    }
    profile.sched.stacks.push(CallStack { frames: vec![0, 1, 2], complete: true, linked: 0 });
    let task = |process: u32, start_ns, criticality_ns| Task {
        process,
        tid: 100 + process as i32,
        name: "app".into(),
        group: "app".into(),
        parent: (process > 0).then_some(0),
        start_ns,
        end_ns: start_ns + if process > 0 { MS } else { 100 * MS },
        criticality_ns,
        running_ns: criticality_ns,
        runnable_ns: 0,
        blocked_ns: 0,
        unattributed_ns: criticality_ns,
        ..Task::default()
    };
    profile.processes.resize(81, profile.processes[0].clone());
    profile.sched.tasks.push(task(0, 0, 0));
    profile.sched.tasks.extend((1..=80).map(|process| task(process, i64::from(process) * MS, MS)));
    profile.sched.waits.push(SchedWait {
        task: 0,
        kind: WaitKind::Child,
        object: "".into(),
        stack: Some(0),
        holder: None,
        waker: None,
        count: 80,
        begin_ns: 0,
        end_ns: 100 * MS,
        ns: 90 * MS,
        idle_ns: 10 * MS,
        holder_gain_ns: 0,
    });
    let row = find(&profile, FindingKind::ProcessStarts);
    assert_eq!(row.percent.round(), 90.0);
    // Who starts them was not seen, only who waits for their end.
    assert!(row.finding.ends_with("are started, and waited for by words_of"), "{}", row.finding);

    // Most are another program's, which was seen at no work.
    profile.processes[1].executable = "/usr/bin/shell".to_owned();
    profile.sched.tasks[1].end_ns = 100 * MS;
    profile.sched.tasks[21..].iter_mut().for_each(|task| task.parent = Some(1));
    profile.sched.tasks[1..21].iter_mut().for_each(|task| task.parent = Some(0));
    let row = find(&profile, FindingKind::ProcessStarts);
    assert_eq!(row.finding, "60 of 79 processes that live only a moment are started by shell");
}
