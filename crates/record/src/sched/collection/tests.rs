//! Streams of records whose tables are known, in any order and with any of them lost.

use proptest::prelude::*;
use transect_bpf_collect::record::{sched_object, stack_flags, waker_context};
use transect_profile_model::{Component, Origin, Profile, SchedTables, WaitKind};

use super::*;

mod so_far;

const ORIGIN: u64 = 1_000_000;
/// A process that is not there, so that its addresses stay addresses.
const TGID: i32 = i32::MAX - 7;

/// A record that owns what it refers to.
#[derive(Debug, Clone)]
enum Event {
    Task(sched_task),
    Wait(Box<sched_wait>),
    Sample(sched_sample),
    Stack { id: u64, user: Vec<[u8; 8]> },
}

impl Event {
    fn record(&self) -> Record<'_> {
        match self {
            Self::Task(task) => Record::Task(*task),
            Self::Wait(wait) => Record::Wait(**wait),
            Self::Sample(sample) => Record::Sample(*sample),
            Self::Stack { id, user } => Record::Stack(Stack::new(*id, TGID, stack_flags::COMPLETE, &[], user)),
        }
    }
}

fn settings() -> SchedSettings {
    SchedSettings {
        cpus: 4,
        min_parallelism: 3,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
        wait_budget: 0,
        stack_depth: 64,
        sample_hz: 1000,
        per_process: false,
        waits: true,
        stacks: true,
        publish_threads: false,
        launched_only: false,
        system_calls: false,
    }
}

/// One wait of a thread: how long it ran before, how long it waited, its stack.
type Turn = (u64, u64, u64);

/// A thread's birth, turns, and activity before its end.
#[derive(Debug, Clone)]
struct Thread {
    birth: u64,
    turns: Vec<Turn>,
    last: u64,
}

fn stack(id: u64) -> Event {
    Event::Stack { id, user: [id * 16, id * 32 + 1, 0x51].map(u64::to_ne_bytes).to_vec() }
}

fn comm(name: &str) -> [std::ffi::c_char; 16] {
    let mut comm = [0; 16];
    name.bytes().zip(&mut comm).for_each(|(byte, at)| *at = byte as _);
    comm
}

/// The records of threads, and the tables that they are to become. Each nanosecond of activity is worth half of
/// criticality.
fn scenario(threads: &[Thread]) -> (Vec<Event>, SchedTables, u64) {
    let (mut events, mut expected, mut now) = (Vec::new(), SchedTables::default(), 0);
    for (index, thread) in threads.iter().enumerate() {
        let (task, main) = (index as u32 + 1, index == 0);
        let parent = u32::from(!main);
        let tid = TGID - index as i32;
        let name = if main { "app".to_owned() } else { format!("worker-{index}") };
        let begin = if main { ORIGIN } else { ORIGIN + 10 + thread.birth };
        let record = sched_task {
            r#type: 1,
            event: task_event::BORN,
            task,
            parent,
            tid,
            tgid: TGID,
            ns_tid: 100 + index as i32,
            ns_tgid: 100,
            parent_tgid: if main { 1 } else { TGID },
            time: begin,
            comm: comm("app"),
            ..Default::default()
        };
        events.push(Event::Task(record));
        let (mut time, mut active, mut sampled) = (begin, 0, 0);
        for (number, &(run, wait, id)) in thread.turns.iter().enumerate() {
            let (slice_begin, blocked) = (time, time + run);
            // Half of the slices are sampled, at their end.
            if number % 2 == 0 {
                let gained = active + run - sampled;
                sampled = active + run;
                let criticality = gained << (FRACTION_BITS - 1);
                let sample = sched_sample {
                    task,
                    time: blocked,
                    criticality,
                    active_ns: gained,
                    stack: id,
                    n: 2,
                    ..Default::default()
                };
                events.push(Event::Sample(sample));
            }
            active += run;
            time = blocked + wait;
            let object = sched_object { r#type: 5, inode: id, name: [0; 28], ..Default::default() };
            events.push(Event::Wait(Box::new(sched_wait {
                task,
                begin: blocked,
                end: time,
                idle: wait / 2,
                slice_begin,
                slice_runnable_ns: run / 3,
                slice_criticality: run << (FRACTION_BITS - 1),
                system_call: if id % 2 == 0 { 202 } else { 45 },
                arguments: [0x1000 + id, 128, 2, 0],
                object: if id % 2 == 0 { sched_object::default() } else { object },
                n: 1,
                stack: id,
                holder: if id % 4 == 0 { 1 } else { 0 },
                holder_stack: if id % 8 == 0 { id } else { 0 },
                waker: if id % 3 == 0 { 1 } else { 0 },
                waker_context: waker_context::TASK,
                holder_gain: wait << FRACTION_BITS,
                waker_gain: wait << (FRACTION_BITS - 1),
                ..Default::default()
            })));
        }
        let end = time + thread.last;
        active += thread.last;
        now = now.max(end);
        events.push(Event::Task(sched_task {
            event: task_event::EXIT,
            time: end,
            criticality: active << (FRACTION_BITS - 1),
            unattributed: (active - sampled) << (FRACTION_BITS - 1),
            running_ns: active / 2,
            runnable_ns: active - active / 2,
            blocked_ns: thread.turns.iter().map(|turn| turn.1).sum(),
            comm: comm(&name),
            ..record
        }));
        expected.tasks.push(transect_profile_model::Task {
            parent: (!main).then_some(0),
            process: 0,
            tid: 100 + index as i32,
            group: if main { "main".to_owned() } else { "worker".to_owned() },
            name,
            start_ns: (begin - ORIGIN) as i64,
            end_ns: (end - ORIGIN) as i64,
            criticality_ns: (active / 2) as i64,
            running_ns: (active / 2) as i64,
            runnable_ns: (active - active / 2) as i64,
            blocked_ns: thread.turns.iter().map(|turn| turn.1 as i64).sum(),
            unattributed_ns: 0,
            ..transect_profile_model::Task::default()
        });
    }
    let mut ids: Vec<u64> = threads.iter().flat_map(|thread| thread.turns.iter().map(|turn| turn.2)).collect();
    ids.sort_unstable();
    ids.dedup();
    events.extend(ids.iter().map(|&id| stack(id)));
    (events, expected, now)
}

fn tables<'a>(events: impl Iterator<Item = &'a Event>, totals: Totals) -> (Profile, Vec<transect_profile_model::Loss>) {
    let folder = tempfile::tempdir().unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    events.for_each(|event| collection.accept(event.record()));
    collection.between();
    let collected = collection.finish(totals).unwrap();
    let loss = collected.loss.clone();
    let mut profile = empty();
    let mut timeline = collected.merge_into(&mut profile);
    timeline.load_into(&mut profile.sched, true).unwrap();
    (profile, loss)
}

fn empty() -> Profile {
    let meta = serde_json::json!({
        "schema": 1, "command": [], "collectors": [], "timing": {"mode": "full"}, "overhead_estimate": 0.0, "wall_ns": 0,
        "started_unix_ns": 0, "exit_status": null,
        "machine": {"hostname": "", "kernel": "", "cpu": "", "cpus": 4, "memory_bytes": 0},
        "clock": {"source": "tsc", "ticks_per_ns": 1.0, "timed_call_ns": 0.0, "counted_call_ns": 0.0},
    });
    Profile::new(serde_json::from_value(meta).unwrap())
}

fn totals(now: u64, busy_ns: u64) -> Totals {
    let application = ApplicationTotals {
        application: 0,
        busy_ns,
        idle_ns: 50,
        idle_open_ns: 0,
        histogram: vec![50, busy_ns, 0, 3],
        active: 0,
        criticality: 0,
    };
    Totals { applications: vec![application], now, drift: 1, ..Default::default() }
}

fn threads() -> impl Strategy<Value = Vec<Thread>> {
    let turn = (1_u64..1000, 1_u64..1000, 1_u64..40);
    let thread = (0_u64..500, prop::collection::vec(turn, 0..12), 1_u64..300).prop_map(|(birth, turns, last)| Thread {
        birth,
        turns,
        last,
    });
    prop::collection::vec(thread, 1..6)
}

/// Stacks in words, since their numbers depend on the order in which they came.
fn readable(sched: &SchedTables) -> Vec<String> {
    let stack = |id: u32| {
        let frames = &sched.stacks[id as usize].frames;
        frames.iter().map(|&frame| sched.frames[frame as usize].function.as_str()).collect::<Vec<_>>().join(";")
    };
    let mut rows: Vec<String> = Vec::new();
    for sample in &sched.samples {
        rows.push(format!("{} {sample:?}", stack(sample.stack)).replace(&format!("stack: {}", sample.stack), ""));
    }
    for moment in &sched.moments {
        rows.push(format!("moment {} {} {}", moment.time_ns, moment.task, stack(moment.stack)));
    }
    rows.sort();
    for wait in &sched.waits {
        let party = |party: Option<transect_profile_model::OtherThread>| {
            party.map(|party| (party.task, party.stack.map(stack)))
        };
        rows.push(format!(
            "{} {:?} {} {:?} {:?} {:?} {} {} {} {} {} {}",
            wait.task,
            wait.kind,
            wait.object,
            wait.stack.map(stack),
            party(wait.holder),
            party(wait.waker),
            wait.count,
            wait.begin_ns,
            wait.end_ns,
            wait.ns,
            wait.idle_ns,
            wait.holder_gain_ns
        ));
    }
    rows.extend(sched.slices.iter().map(|slice| format!("{slice:?}")));
    rows.extend(sched.tasks.iter().map(|task| format!("{task:?}")));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(64, 500)))]

    #[test]
    fn tables_say_what_happened((threads, seed) in (threads(), any::<u64>())) {
        let (events, expected, now) = scenario(&threads);
        let busy = expected.tasks.iter().map(|task| task.criticality_ns as u64).sum();
        let (profile, loss) = tables(events.iter(), totals(now, busy));
        let sched = &profile.sched;
        prop_assert!(!loss.iter().any(|loss| loss.place.starts_with("scheduler: ")), "{:?}", loss);
        // Threads: samples and their last stack's cover all, but for threads that never waited and roundings.
        for (task, expected) in sched.tasks.iter().zip(&expected.tasks) {
            let samples: i64 = sched.samples.iter()
                .filter(|sample| sched.tasks[sample.task as usize].tid == task.tid).map(|s| s.criticality_ns).sum();
            prop_assert_eq!(samples + task.unattributed_ns, task.criticality_ns);
            let turns = &threads[(task.tid - 100) as usize].turns;
            prop_assert!(task.unattributed_ns <= turns.len() as i64 + 1 || turns.is_empty());
            prop_assert_eq!(task, &transect_profile_model::Task { unattributed_ns: task.unattributed_ns, ..expected.clone() });
        }
        prop_assert_eq!(sched.tasks.len(), expected.tasks.len());
        let session = profile.meta.criticality.as_ref().unwrap();
        let covered: i64 = sched.samples.iter().map(|sample| sample.criticality_ns).sum();
        prop_assert_eq!(session.busy_ns, covered + session.unattributed_ns);
        // Waits and slices of a thread take turns, and slices know the wait that followed.
        prop_assert!(sched.waits.is_sorted_by_key(|wait| wait.end_ns));
        prop_assert!(sched.slices.is_sorted_by_key(|slice| slice.start_ns + slice.active_ns));
        for (row, task) in sched.tasks.iter().enumerate() {
            let mut at = task.start_ns;
            for slice in sched.slices.iter().filter(|slice| slice.task as usize == row) {
                prop_assert_eq!(slice.start_ns, at);
                at += slice.active_ns;
                if let Ok(wait) = usize::try_from(slice.wait) {
                    prop_assert_eq!((sched.waits[wait].task as usize, sched.waits[wait].begin_ns), (row, at));
                    at = sched.waits[wait].end_ns;
                }
            }
            prop_assert_eq!(at, task.end_ns);
            let own = sched.slices.iter().filter(|slice| slice.task as usize == row);
            let roundings = threads[row].turns.len() as i64 + 1;
            prop_assert!((own.map(|slice| slice.criticality_ns).sum::<i64>() - task.criticality_ns).abs() <= roundings);
        }
        let turns: usize = threads.iter().map(|thread| thread.turns.len()).sum();
        prop_assert_eq!((sched.waits.len(), sched.slices.len()), (turns, turns + threads.len()));
        prop_assert_eq!(session.slices as usize, turns + threads.len());
        prop_assert_eq!(sched.moments.len(), threads.iter().map(|thread| thread.turns.len().div_ceil(2)).sum::<usize>());

        // In any other order the tables are the same.
        let mut state = seed | 1;
        let mut shuffled: Vec<(u64, &Event)> = events.iter().map(|event| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 20, event)
        }).collect();
        shuffled.sort_by_key(|(place, _)| *place);
        let (other, _) = tables(shuffled.iter().map(|(_, event)| *event), totals(now, busy));
        prop_assert_eq!(readable(sched), readable(&other.sched));

        // Whatever is lost, criticality is not.
        let kept = events.iter().enumerate().filter(|(number, event)| {
            matches!(event, Event::Task(_)) || (seed >> (number % 60)) & 1 == 0
        });
        let (lossy, _) = tables(kept.map(|(_, event)| event), totals(now, busy));
        let lossy = &lossy.sched;
        for (row, task) in lossy.tasks.iter().enumerate() {
            let samples: i64 = lossy.samples.iter().filter(|s| s.task as usize == row).map(|s| s.criticality_ns).sum();
            prop_assert_eq!(samples + task.unattributed_ns, task.criticality_ns);
            prop_assert!(task.unattributed_ns >= 0);
            prop_assert_eq!(task.criticality_ns, sched.tasks[row].criticality_ns);
        }
        for slice in &lossy.slices {
            prop_assert!(slice.criticality_ns <= slice.active_ns && slice.runnable_ns <= slice.active_ns);
        }
    }
}

#[test]
fn one_wait_in_words() {
    let turn = vec![(100, 60, 24)];
    let (events, _, now) = scenario(&[Thread { birth: 0, turns: turn, last: 30 }]);
    let (profile, _) = tables(events.iter(), totals(now, 65));
    let sched = &profile.sched;
    let wait = &sched.waits[0];
    assert_eq!((wait.kind, &*wait.object, wait.count), (WaitKind::Mutex, "0x1018", 1));
    assert_eq!((wait.begin_ns, wait.end_ns, wait.ns, wait.idle_ns, wait.holder_gain_ns), (100, 160, 60, 30, 60));
    assert_eq!(wait.holder.map(|party| (party.task, party.stack)), Some((0, wait.stack)));
    assert_eq!(wait.waker.map(|party| (party.task, party.stack)), Some((0, None)));
    let functions: Vec<&str> = sched.stacks[wait.stack.unwrap() as usize]
        .frames
        .iter()
        .map(|&frame| sched.frames[frame as usize].function.as_str())
        .collect();
    assert_eq!(functions, ["0x50", "0x300", "0x180"], "root first, calls before return addresses");
    assert!(sched.stacks[0].complete);
    let samples: Vec<_> =
        sched.samples.iter().map(|s| (s.origin, s.samples, s.criticality_ns, s.active_ns, s.n)).collect();
    assert_eq!(samples, [(Origin::Sample, 1, 50, 100, 2), (Origin::StackTop, 1, 15, 0, 2)]);
    assert_eq!(sched.parallelism.iter().map(|p| (p.n, p.ns)).collect::<Vec<_>>(), [(0, 50), (1, 65), (3, 3)]);
    let process = &profile.processes[0];
    assert_eq!((process.pid, process.executable.as_str(), process.start_ns, process.wall_ns), (100, "app", 0, 190));
    assert_eq!(profile.meta.collectors, ["sched"]);
}

#[test]
fn threads_that_live_at_the_end_have_their_slice_or_their_wait() {
    let (mut events, _, now) = scenario(&[
        Thread { birth: 0, turns: vec![(100, 60, 1)], last: 40 },
        Thread { birth: 0, turns: vec![(100, 60, 2)], last: 30 },
    ]);
    let mut open = Vec::new();
    for event in &events {
        if let Event::Task(task) = event
            && task.event == task_event::EXIT
        {
            // Without a name, as it is read from the kernel's state at the end.
            open.push(OpenThread {
                task: sched_task { comm: [0; 16], event: task_event::BORN, ..*task },
                wait: None,
                brief: None,
            });
        }
    }
    events.retain(|event| !matches!(event, Event::Task(task) if task.event == task_event::EXIT));
    let blocked_at = open[1].task.time;
    open[1].wait = Some(sched_wait {
        task: 2,
        begin: blocked_at,
        end: now + 500,
        slice_begin: blocked_at - 30,
        system_call: 35,
        ..Default::default()
    });
    let mut totals = totals(now + 500, 1000);
    totals.applications[0].idle_open_ns = 77;
    totals.open = open;
    let (profile, _) = tables(events.iter(), totals);
    let sched = &profile.sched;
    assert_eq!(sched.tasks[1].name, "app", "the last name that was told");
    assert_eq!(sched.slices.len(), 4);
    let last = sched.waits.last().unwrap();
    assert_eq!((last.task, last.kind, last.idle_ns), (1, WaitKind::Sleep, 77), "idle time that goes on");
    let end = (now + 500 - ORIGIN) as i64;
    assert_eq!(sched.slices.iter().map(|slice| slice.start_ns + slice.active_ns).max(), Some(end));
}

/// Names come from a map such as just-in-time compilers write: no program is needed.
#[test]
fn a_cut_stack_is_known_by_what_was_waited_for() {
    let tgid = i32::MAX - 99;
    let map = std::path::PathBuf::from(format!("/tmp/perf-{tgid}.map"));
    std::fs::write(&map, "1000 10 pthread_cond_wait\n2000 10 take\n3000 10 futex_wait\n4000 10 pthread_mutex_unlock\n")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    let task = sched_task { task: 1, tid: tgid, tgid, ns_tid: tgid, ns_tgid: tgid, time: ORIGIN, ..Default::default() };
    collection.accept(Record::Task(task));
    collection.accept(Record::Task(sched_task { task: 2, tid: tgid - 1, ..task }));
    let frames = [0x3001_u64, 0x1001, 0x2001, 0x4001].map(u64::to_ne_bytes);
    let complete = stack_flags::COMPLETE;
    collection.accept(Record::Stack(Stack::new(1, tgid, complete, &[], &frames[..3])));
    collection.accept(Record::Stack(Stack::new(2, tgid, stack_flags::UNKNOWN_CODE, &[], &frames[..1])));
    collection.accept(Record::Stack(Stack::new(3, tgid, complete, &[], &frames[3..])));
    let wait = |begin, stack, address, value| {
        let arguments = [address, 128, value, 0];
        let (begin, end) = (ORIGIN + begin, ORIGIN + begin + 5);
        sched_wait { task: 1, begin, end, system_call: 202, arguments, stack, ..Default::default() }
    };
    collection.accept(Record::Wait(wait(10, 2, 0x70, 0)));
    collection.accept(Record::Wait(wait(20, 1, 0x70, 0)));
    collection.accept(Record::Wait(wait(30, 0, 0x70, 0)));
    collection.accept(Record::Wait(wait(40, 2, 0x78, 0)));
    collection.accept(Record::Wait(sched_wait { waker: 2, waker_stack: 3, ..wait(50, 2, 0x80, 2) }));
    collection.accept(Record::Wait(sched_wait { waker: 2, waker_stack: 1, ..wait(60, 2, 0x80, 2) }));
    let collected = collection.finish(totals(ORIGIN + 100, 10)).unwrap();
    std::fs::remove_file(map).unwrap();
    let mut profile = empty();
    collected.merge_into(&mut profile).load_into(&mut profile.sched, false).unwrap();
    let kinds: Vec<WaitKind> = profile.sched.waits.iter().map(|wait| wait.kind).collect();
    use WaitKind::{Condition, Futex, Mutex};
    assert_eq!(kinds, [Condition, Condition, Condition, Futex, Mutex, Mutex]);
    let holders: Vec<Option<u32>> =
        profile.sched.waits[4..].iter().map(|w| w.holder.map(|holder| holder.task)).collect();
    assert_eq!(holders, [Some(1), None], "who unlocked it has held it");
}

#[test]
fn processes_and_components_of_the_flow_collector_are_used() {
    let (events, _, now) = scenario(&[Thread { birth: 0, turns: vec![(5, 5, 1)], last: 5 }]);
    let folder = tempfile::tempdir().unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    events.iter().for_each(|event| collection.accept(event.record()));
    let mut collected = collection.finish(totals(now, 10)).unwrap();
    let component = |path: &str, build_id: &str| Component {
        path: path.to_owned(),
        build_id: build_id.to_owned(),
        executable: false,
        synthetic: false,
        static_in: None,
    };
    // The kernel resolves symbolic links, the dynamic linker doesn't.
    collected.components = vec![component("/usr/lib/libc.so.6", "c0de"), component("/tmp/b.so", "")];
    let mut profile = empty();
    profile.components = vec![component("/tmp/a.so", ""), component("/lib/libc.so.6", "c0de")];
    for (pid, start_ns) in [(99, 0), (100, -5), (100, 1_000_000)] {
        let executable = "/bin/app".to_owned();
        profile.processes.push(transect_profile_model::Process {
            pid,
            parent_pid: 1,
            executable,
            start_ns,
            wall_ns: 9,
        });
    }
    collected.merge_into(&mut profile);
    let paths: Vec<&str> = profile.components.iter().map(|component| component.path.as_str()).collect();
    assert_eq!(paths, ["/tmp/a.so", "/lib/libc.so.6", "/tmp/b.so"], "a file is one component, whatever its path");
    assert_eq!(profile.processes.len(), 3);
    assert_eq!(profile.sched.tasks[0].process, 1, "not the one that began later");
}

#[test]
fn records_that_cannot_be_read_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    collection.reject(&Record::decode(&[9; 12]).unwrap_err());
    let mut totals = totals(ORIGIN, 0);
    totals.lost = Lost { waits: 4, unpublished: 3, ..Default::default() };
    let collected = collection.finish(totals).unwrap();
    let counts: Vec<i64> = collected.loss.iter().map(|loss| loss.count).collect();
    assert_eq!(counts, [3, 4, 1], "{:?}", collected.loss);
    assert_eq!(collected.session.slices, 4);
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Ten million slices of two thousand threads with five thousand stacks: the memory that they take while they come. Run
/// it alone and optimised: `cargo test --release -p transect-record -- --ignored millions`.
#[test]
#[ignore = "takes a minute"]
fn millions_of_slices_take_little_memory() {
    let count: u64 = std::env::var("SLICES").map_or(10_000_000, |count| count.parse().unwrap());
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut collection = Collection::new(&settings(), ORIGIN, folder.path()).unwrap();
    let before = peak_kib();
    for task in 1..=2000 {
        let tid = TGID - task as i32;
        collection.accept(Record::Task(sched_task { task, tid, tgid: TGID, time: ORIGIN, ..Default::default() }));
    }
    let begun = std::time::Instant::now();
    for n in 0..count {
        let (task, id) = (1 + (n % 2000) as u32, 1 + n * 7 % 5000);
        if n < 5000 {
            let frames: Vec<[u8; 8]> = (0..30).map(|depth| (id * 64 + depth * 999_983).to_ne_bytes()).collect();
            collection.accept(Record::Stack(Stack::new(id, TGID, stack_flags::COMPLETE, &[], &frames)));
        }
        let begin = ORIGIN + n * 100;
        collection.accept(Record::Wait(sched_wait {
            task,
            begin,
            end: begin + 50_000 + n % 977,
            slice_begin: begin - 70,
            system_call: 202,
            arguments: [0x1000 + id % 900 * 64, 128, 2, 0],
            stack: id,
            n: (n % 3) as u32,
            waker: 1 + (n * 31 % 2000) as u32,
            waker_stack: 1 + n * 13 % 5000,
            ..Default::default()
        }));
    }
    let taken = peak_kib() - before;
    println!("{count} waits: {:.0} ns each, {} MiB", begun.elapsed().as_nanos() as f64 / count as f64, taken / 1024);
    assert!(taken < 40 << 10, "{taken} KiB");
    let begun = std::time::Instant::now();
    let mut collected = collection.finish(totals(ORIGIN + count * 100 + 60_000, 1)).unwrap();
    let (waits, slices) = collected.timeline.tables();
    let counted = (waits.map(|wait| wait.unwrap().count).sum::<i64>(), slices.map(Result::unwrap).count());
    assert_eq!((counted.0, counted.1 >= count as usize), (count as i64, true));
    println!("tables: {:.1} s, {} MiB at most", begun.elapsed().as_secs_f64(), (peak_kib() - before) / 1024);
}

/// What a sample by the timer costs, an interrupt, is not the cost of a stack that a wait has anyway.
#[test]
fn stacks_taken_at_switches_are_no_interrupts() {
    let turns: Vec<Turn> = (0..10).map(|turn| (100, 100, turn + 1)).collect();
    let (events, _, now) = scenario(&[Thread { birth: 0, turns, last: 50 }]);
    let (profile, _) = tables(events.iter(), totals(now, 1000));
    let seen = |origin| {
        let rows = profile.sched.samples.iter().filter(|sample| sample.origin == origin);
        rows.map(|sample| sample.samples).sum::<i64>()
    };
    assert!(seen(Origin::Sample) > 0 && seen(Origin::StackTop) > 0);
    let slices = profile.meta.criticality.as_ref().unwrap().slices;
    let waits = profile.sched.waits.len() as i64;
    let cost = slices * 350 + waits * 500 + seen(Origin::Sample) * 2000;
    assert_eq!(profile.meta.overhead.unwrap().kernel_ns, cost);
}
