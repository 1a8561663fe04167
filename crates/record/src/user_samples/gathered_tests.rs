use transect_bpf_collect::SampledEvent;
use transect_bpf_collect::SchedSettings;
use transect_bpf_collect::thread_samples::Registers;
use transect_profile_model::{SchedTables, WaitKind};

use super::*;

const MS: u64 = 1_000_000;
/// No process has this number.
const PID: i32 = i32::MAX - 1;

fn gathered(rounds: bool) -> Gathered {
    let settings = SchedSettings {
        cpus: 2,
        min_parallelism: 2,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        kernel_halves: false,
        preemptions: false,
        event: SampledEvent::CpuClock,
        stack_depth: SchedSettings::MAX_STACK_DEPTH,
        sample_hz: 499,
        per_process: false,
        waits: true,
        wait_budget: 0,
        stacks: true,
        publish_threads: false,
        launched_only: true,
        system_calls: false,
    };
    Gathered::new(Collection::new(&settings, 0, &std::env::temp_dir()).unwrap(), 5.0 * MS as f64, rounds)
}

fn record(ms: u64, tid: i32, seen: Seen) -> ThreadRecord {
    ThreadRecord { time: ms * MS, tgid: PID, tid, seen }
}

fn sample(ms: u64, tid: i32, ip: u64) -> ThreadRecord {
    let registers = Registers { ip, sp: 0x7000, bp: 0, bx: 0 };
    record(ms, tid, Seen::Sample { period: 10 * MS, registers, stack: Vec::new() })
}

fn begins() -> ThreadRecord {
    record(0, PID, Seen::Named { name: "app".into(), program: true })
}

fn tables(gathered: Gathered, end: u64) -> (SchedTables, transect_profile_model::SchedSession) {
    let mut collected = gathered.finish(end * MS).unwrap();
    collected.timeline.load_into(&mut collected.tables, false).unwrap();
    (collected.tables, collected.session)
}

/// The first thread runs alone for 20 ms, together with a second one for 20, waits for it for 40, in the last 10 of which
/// nobody is active, and runs for 10.
#[test]
fn criticality_is_shared_among_active_threads() {
    let second = PID - 1;
    let mut gathered = gathered(false);
    gathered.add([
        begins(),
        sample(10, PID, 0x10),
        sample(19, PID, 0x10),
        record(20, second, Seen::Born { parent: PID, by: PID }),
        record(20, second, Seen::Runs),
        sample(30, second, 0x20),
        sample(31, PID, 0x11),
        record(40, PID, Seen::Stops { preempted: false }),
        sample(50, second, 0x20),
        record(70, second, Seen::Stops { preempted: false }),
        record(80, PID, Seen::Runs),
        record(90, PID, Seen::Ended),
        record(90, second, Seen::Runs),
        record(91, second, Seen::Ended),
    ]);
    let (tables, session) = tables(gathered, 100);
    assert!(session.estimate && !session.per_process);
    let ms = |ns: i64| (ns as f64 / MS as f64).round();
    // 20 + 20 / 2 + 10; 20 / 2 + 30 + 1.
    assert_eq!(tables.tasks.iter().map(|task| ms(task.criticality_ns)).collect::<Vec<_>>(), [40.0, 41.0]);
    assert_eq!((ms(session.busy_ns), ms(session.idle_ns)), (81.0, 10.0));
    assert_eq!(tables.tasks[1].parent, Some(0));
    assert_eq!(tables.tasks.iter().map(|task| ms(task.running_ns)).collect::<Vec<_>>(), [50.0, 51.0]);
    let idle: Vec<_> = tables.waits.iter().map(|wait| (wait.task, ms(wait.idle_ns), ms(wait.ns))).collect();
    // The wait that ended the time in which nobody was active, and the other one.
    assert_eq!(idle.iter().map(|wait| wait.1).sum::<f64>(), 10.0);
    assert!(idle.contains(&(0, 10.0, 40.0)) && idle.contains(&(1, 0.0, 20.0)), "{idle:?}");
    // Samples stand for half of what the second thread ran: the rest lies where nobody looked.
    let of = |task: u32| tables.samples.iter().filter(move |sample| sample.task == task);
    assert!(of(0).map(|sample| sample.criticality_ns).sum::<i64>() <= tables.tasks[0].criticality_ns);
    assert_eq!(of(1).map(|sample| sample.samples).sum::<i64>(), 2);
    assert!(tables.tasks[1].unattributed_ns > 0);
    assert!(tables.parallelism.iter().any(|row| row.n == 2 && ms(row.ns) == 20.0));
}

/// A wait that was looked at is of the kind that its system call says, and stands for others like it.
#[test]
fn waits_are_what_was_seen_of_them() {
    let mut gathered = gathered(false);
    gathered.add([begins(), record(1, PID, Seen::Stops { preempted: false })]);
    gathered.take(2 * MS);
    assert_eq!(gathered.next_looks(2 * MS, 9), [(PID, PID)]);
    let sleeps = |task| Box::new(sched_wait { task, system_call: 230, ..sched_wait::default() });
    let stack = gathered.collection.user_stack(&[], true, None);
    let what = What::Waits { stack, record: sleeps(1), until: 2 * MS, gap: 5 * MS };
    gathered.waiting.push(Noted { time: 2 * MS, tgid: PID, tid: PID, what });
    gathered.take(3 * MS);
    assert_eq!(gathered.next_looks(3 * MS, 9), [(PID, PID)]);
    // It sleeps on.
    assert_eq!(gathered.next_looks(100 * MS, 9), []);
    gathered.add([
        record(3, PID, Seen::Runs),
        record(4, PID, Seen::Stops { preempted: false }),
        record(6, PID, Seen::Runs),
        // Nobody has looked at this one, and the thread has not been made active since.
        record(7, PID, Seen::Stops { preempted: false }),
    ]);
    let (tables, session) = tables(gathered, 10);
    let sleeps: Vec<_> = tables.waits.iter().filter(|wait| wait.kind == WaitKind::Sleep).collect();
    assert_eq!(sleeps.iter().map(|wait| wait.ns).sum::<i64>(), 7 * MS as i64);
    assert_eq!(sleeps.iter().map(|wait| wait.idle_ns).sum::<i64>(), session.idle_ns);
    assert_eq!(session.idle_ns, 7 * MS as i64);
}

fn stopped(ms: u64, ip: u64) -> Stopped {
    let registers = Registers { ip, sp: 0x7000, bp: 0, bx: 0 };
    Stopped { at: ms * MS, registers, stack: Vec::new(), call: Some(0) }
}

/// A thread that is woken for a moment again and again is mostly found where it waits.
#[test]
fn stops_count_only_where_the_thread_ran() {
    let mut gathered = gathered(false);
    gathered.add([
        begins(),
        record(10, PID, Seen::Stops { preempted: false }),
        record(20, PID, Seen::Runs),
        record(30, PID, Seen::Stops { preempted: true }),
        record(40, PID, Seen::Runs),
        record(50, PID, Seen::Ended),
    ]);
    for ms in [15, 16, 25, 35, 45] {
        gathered.stopped((PID, PID), &stopped(ms, ms));
    }
    let (tables, _) = tables(gathered, 50);
    assert_eq!(tables.samples.iter().map(|sample| sample.samples).sum::<i64>(), 3);
}

/// Time in the kernel, which samples miss, lies where the thread was stopped.
#[test]
fn stops_stand_for_what_samples_miss() {
    let mut gathered = gathered(false);
    gathered.add([begins(), sample(10, PID, 0x10), sample(20, PID, 0x10)]);
    gathered.take(30 * MS);
    let running = gathered.running(100 * MS);
    assert_eq!(running, [(PID, PID, 80.0 * MS as f64, 100.0 * MS as f64)]);
    for ms in 30..90 {
        gathered.stopped((PID, PID), &stopped(ms, 0x20 + ms % 2));
    }
    gathered.add([record(100, PID, Seen::Ended)]);
    let (tables, _) = tables(gathered, 100);
    let total: i64 = tables.samples.iter().map(|sample| sample.criticality_ns).sum();
    assert!((total - 100 * MS as i64).abs() < 1000 && tables.tasks[0].unattributed_ns < 1000, "{total}");
    let calls = tables.samples.iter().filter(|sample| sample.samples == 30).map(|sample| sample.criticality_ns);
    assert!((calls.sum::<i64>() - 80 * MS as i64).abs() < 1000);
}

/// What happened between two rounds has no order, but somebody must have been the first.
#[test]
fn a_round_is_begun_by_who_waits_for_no_other() {
    let second = PID - 1;
    let mut gathered = gathered(true);
    gathered.add([
        begins(),
        record(1, second, Seen::Born { parent: PID, by: PID }),
        record(2, PID, Seen::Stops { preempted: false }),
        record(2, second, Seen::Stops { preempted: false }),
    ]);
    gathered.take(2 * MS);
    let stack = gathered.collection.user_stack(&[], true, None);
    // The first one sleeps, the second waits for a word in memory.
    for (task, tid, system_call) in [(1, PID, 230), (2, second, 202)] {
        let record = Box::new(sched_wait { task, system_call, ..sched_wait::default() });
        let what = What::Waits { stack, record, until: 3 * MS, gap: 5 * MS };
        gathered.waiting.push(Noted { time: 3 * MS, tgid: PID, tid, what });
    }
    gathered.add([
        record(20, second, Seen::Runs),
        record(21, PID, Seen::Runs),
        record(22, second, Seen::Ended),
        record(22, PID, Seen::Ended),
    ]);
    let (tables, session) = tables(gathered, 22);
    let of =
        |task: u32| tables.waits.iter().filter(move |wait| wait.task == task).map(|wait| wait.idle_ns).sum::<i64>();
    assert_eq!((of(0), of(1), session.idle_ns), (18 * MS as i64, 0, 18 * MS as i64));
}

/// Waits of 1 and of 4 ms alternate, and it is looked at the thread at odd times: what was met tells how long each kind took,
/// though nobody knows which wait comes next, and a look may come before the record of the wait that it met.
#[test]
fn short_waits_are_met_as_long_as_they_take() {
    let mut gathered = gathered(false);
    gathered.add([begins()]);
    let mut truth = [0, 0];
    let (mut at, mut waits) = (MS, Vec::new());
    for number in 0..4000 {
        let kind = number % 2;
        let length = [MS, 4 * MS][kind];
        let record = |time, seen| ThreadRecord { time, tgid: PID, tid: PID, seen };
        gathered.add([record(at, Seen::Stops { preempted: false }), record(at + length, Seen::Runs)]);
        waits.push((at, at + length, [0_i64, 230][kind]));
        truth[kind] += length;
        at += length + MS / 4;
    }
    let (mut looked, mut random) = (0, 88_172_645_463_325_252_u64);
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let gap = 2 * MS + MS / 2 + random % (5 * MS);
        looked += gap;
        let Some(wait) = waits.iter().find(|(_, end, _)| looked < *end) else { break };
        if wait.0 > looked + 20_000 {
            continue;
        }
        let stack = gathered.collection.user_stack(&[], true, Some(wait.2));
        let record = Box::new(sched_wait { task: 1, system_call: wait.2, ..sched_wait::default() });
        let what = What::Waits { stack, record, until: looked + 20_000, gap };
        gathered.waiting.push(Noted { time: looked, tgid: PID, tid: PID, what });
    }
    let (tables, _) = tables(gathered, at / MS + 1);
    for (name, truth) in [("read", truth[0]), ("clock_nanosleep", truth[1])] {
        let is = |stack: u32| {
            tables.stacks[stack as usize].frames.iter().any(|&id| tables.frames[id as usize].function == name)
        };
        let found: i64 = tables.waits.iter().filter(|wait| wait.stack.is_some_and(is)).map(|wait| wait.ns).sum();
        let off = (found - truth as i64) as f64 / truth as f64;
        assert!(off.abs() < 0.12, "{name}: {found} of {truth}");
    }
}

/// Time in the kernel that stops stand for lies in the timeline, as samples do.
#[test]
fn stops_are_moments() {
    let mut gathered = gathered(false);
    gathered.add([begins(), sample(10, PID, 0x10), sample(20, PID, 0x10)]);
    for ms in 30..90 {
        gathered.stopped((PID, PID), &stopped(ms, 0x20));
    }
    gathered.add([record(100, PID, Seen::Ended)]);
    let (tables, _) = tables(gathered, 100);
    let periods = |call: bool| {
        let of = tables.moments.iter().filter(|moment| {
            let frames = &tables.stacks[moment.stack as usize].frames;
            frames.iter().any(|&id| tables.frames[id as usize].function == "read") == call
        });
        of.map(|moment| moment.period_ns).sum::<i64>()
    };
    assert_eq!(periods(false), 20 * MS as i64);
    assert!((periods(true) - 80 * MS as i64).abs() < 1000, "{}", periods(true));
    assert!(tables.moments.is_sorted_by_key(|moment| moment.time_ns));
}
