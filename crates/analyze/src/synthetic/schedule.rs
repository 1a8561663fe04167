//! A schedule of threads as the scheduler's collector would tell it, of any size.

use transect_profile_model::{
    CallStack, Component, FrameId, Origin, OtherThread, Parallelism, Process, Profile, SchedSample, SchedSession,
    SchedTables, SchedWait, Slice, Space, StackFrame, StackId, Task, TaskId, TimedSample, Timing, WaitKind,
};

use super::empty;
use super::large::Random;

const MS: i64 = 1_000_000;
const CPUS: usize = 8;
const WORKERS: u32 = 12;
/// Length of a round of four phases.
const ROUND: i64 = 2_000 * MS;

/// What a thread does next: active for a while, of it without a CPU, then a wait.
struct Step {
    active_ns: i64,
    runnable_ns: i64,
    stack: StackId,
    wait_ns: i64,
    kind: WaitKind,
    object: &'static str,
    wait_stack: StackId,
    holder: Option<TaskId>,
    waker: Option<TaskId>,
}

/// A compressor of fifteen threads for `seconds`, with about `slices` slices: workers side by side, then in a convoy
/// behind one lock, then waiting at a barrier while `main` runs alone, then all waiting for the logger's `fsync`.
///
/// Criticality, parallelism and idle time are swept from the slices, so that sums are exact to the last ns.
pub fn scheduled_compressor(slices: usize, seconds: i64) -> Profile {
    let mut profile = empty();
    let mut stacks = Stacks::new(&mut profile);
    let end = seconds * 1_000 * MS;
    profile.meta.command =
        ["/opt/compressor/bin/compressor", "--threads", "12", "corpus.tar"].map(str::to_owned).into();
    profile.meta.wall_ns = end;
    profile.meta.machine.cpus = CPUS as u32;
    profile.meta.collectors = vec!["sched".into()];
    profile.meta.timing = Timing::Count;
    profile.processes.push(Process {
        pid: 4000,
        parent_pid: 1,
        executable: "/opt/compressor/bin/compressor".into(),
        start_ns: 0,
        wall_ns: end,
    });
    let places = Places::new(&mut stacks);
    let stacks = (stacks.frames, stacks.stacks);
    (profile.sched.frames, profile.sched.stacks) = stacks;
    for lane in 0..WORKERS + 3 {
        profile.sched.tasks.push(task(lane, end));
    }
    let pace = pace_for(slices as f64 * ROUND as f64 / end as f64, &places);
    for lane in 0..WORKERS + 3 {
        walk(&mut profile, lane, end, pace, &places);
    }
    finish(&mut profile, end);
    profile
}

fn task(lane: TaskId, end: i64) -> Task {
    let (name, group) = match lane {
        0 => ("compressor".to_owned(), "main"),
        1 => ("logger".to_owned(), "logger"),
        2 => ("prefetch".to_owned(), "prefetch"),
        n => (format!("worker-{}", n - 3), "worker"),
    };
    Task {
        process: 0,
        tid: 4000 + lane as i32,
        name,
        group: group.into(),
        parent: (lane > 0).then_some(0),
        start_ns: 0,
        end_ns: end,
        criticality_ns: 0,
        running_ns: 0,
        runnable_ns: 0,
        blocked_ns: 0,
        unattributed_ns: 0,
        ..Task::default()
    }
}

/// Stacks that the threads are in.
struct Places {
    compress: StackId,
    match_: StackId,
    flush: StackId,
    index: StackId,
    log: StackId,
    read: StackId,
    in_lock: StackId,
    in_barrier: StackId,
    in_sync: StackId,
    in_queue: StackId,
    in_join: StackId,
    in_read: StackId,
}

impl Places {
    fn new(stacks: &mut Stacks) -> Self {
        let worker = ["clone3", "start_thread", "worker_main(Queue<Block>&)"];
        let main = ["_start", "__libc_start_main", "main"];
        let mut below = |root: &[&str], rest: &[&str]| stacks.stack(root, rest);
        Self {
            compress: below(&worker, &["compress_block", "deflate", "deflate_slow"]),
            match_: below(&worker, &["compress_block", "deflate", "deflate_slow", "longest_match"]),
            flush: below(&worker, &["flush_output", "crc32_update"]),
            index: below(&main, &["build_index", "std::map<std::string, Block>::operator[]", "std::_Rb_tree_insert"]),
            log: below(&["clone3", "start_thread", "log_loop"], &["format_record"]),
            read: below(&["clone3", "start_thread", "prefetch_loop"], &["read_block"]),
            in_lock: below(&worker, &["flush_output", "pthread_mutex_lock"]),
            in_barrier: below(&worker, &["pthread_barrier_wait"]),
            in_sync: below(&["clone3", "start_thread", "log_loop"], &["commit_batch", "fsync"]),
            in_queue: below(&worker, &["Queue<Block>::pop()", "pthread_cond_wait"]),
            in_join: below(&main, &["collect_results", "pthread_cond_wait"]),
            in_read: below(&["clone3", "start_thread", "prefetch_loop"], &["read_block", "read"]),
        }
    }
}

struct Stacks {
    frames: Vec<StackFrame>,
    stacks: Vec<CallStack>,
    executable: u32,
}

impl Stacks {
    fn new(profile: &mut Profile) -> Self {
        for (path, executable) in
            [("/opt/compressor/bin/compressor", true), ("/usr/lib/x86_64-linux-gnu/libc.so.6", false)]
        {
            profile.components.push(Component {
                path: path.into(),
                build_id: String::new(),
                executable,
                synthetic: false,
                static_in: None,
            });
        }
        Self { frames: Vec::new(), stacks: Vec::new(), executable: 0 }
    }

    fn stack(&mut self, root: &[&str], rest: &[&str]) -> StackId {
        let frames = root.iter().chain(rest).map(|function| self.frame(function)).collect();
        self.stacks.push(CallStack { frames, complete: true, linked: 0 });
        (self.stacks.len() - 1) as StackId
    }

    fn frame(&mut self, function: &str) -> FrameId {
        if let Some(at) = self.frames.iter().position(|frame| frame.function == function) {
            return at as FrameId;
        }
        let of_libc = ["clone", "start_thread", "__libc", "pthread_", "fsync", "read"];
        let library = of_libc.iter().any(|start| function == *start || function.starts_with("pthread_"))
            || function.starts_with("clone")
            || function.starts_with("__libc");
        let line = 20 + 37 * self.frames.len() as i32;
        self.frames.push(StackFrame {
            function: function.into(),
            component: Some(if library { 1 } else { self.executable }),
            file: if library { String::new() } else { format!("/src/compressor/{}.cc", function.len() % 5) },
            line: if library { 0 } else { line },
            inlined: false,
            space: Space::User,
        });
        (self.frames.len() - 1) as FrameId
    }
}

/// How many times faster than at pace 1 threads take turns for so many slices a round.
fn pace_for(wanted: f64, places: &Places) -> f64 {
    let mut pace = 1.0;
    for _ in 0..6 {
        let mut made = 0;
        for lane in 0..WORKERS + 3 {
            let mut random = Random(0x5eed + u64::from(lane));
            let mut now = 0;
            while now < ROUND {
                let step = step(lane, now, pace, &mut random, places);
                now += step.active_ns.max(1) + step.wait_ns.max(0);
                made += 1;
            }
        }
        pace *= wanted / f64::from(made);
    }
    pace
}

/// Lays the slices and waits of one thread from its start to `end`.
fn walk(profile: &mut Profile, lane: TaskId, end: i64, pace: f64, places: &Places) {
    let mut random = Random(0x5eed + u64::from(lane));
    let mut now = profile.sched.tasks[lane as usize].start_ns;
    let mut sampled = 0;
    while now < end {
        let step = step(lane, now, pace, &mut random, places);
        let active = step.active_ns.min(end - now).max(1);
        let wait = step.wait_ns.min(end - now - active);
        let row = if wait > 0 {
            profile.sched.waits.push(SchedWait {
                task: lane,
                kind: step.kind,
                object: step.object.into(),
                stack: Some(step.wait_stack),
                holder: step.holder.map(|task| OtherThread { task, stack: Some(places.flush) }),
                waker: step.waker.map(|task| OtherThread { task, stack: Some(places.flush) }),
                count: 1,
                begin_ns: now + active,
                end_ns: now + active + wait,
                ns: wait,
                idle_ns: 0,
                holder_gain_ns: 0,
            });
            (profile.sched.waits.len() - 1) as i32
        } else {
            -1
        };
        let runnable_ns = step.runnable_ns.min(active / 2);
        profile.sched.slices.push(Slice {
            task: lane,
            start_ns: now,
            active_ns: active,
            runnable_ns,
            criticality_ns: 0,
            wait: row,
        });
        // One sample a millisecond of running; what comes between gains its weight at the next.
        sampled += active - runnable_ns;
        if sampled > MS {
            sampled = 0;
            profile.sched.moments.push(TimedSample {
                time_ns: now + active / 2,
                task: lane,
                stack: step.stack,
                period_ns: 1_000_000,
            });
        }
        now += active + wait.max(0);
    }
}

fn step(lane: TaskId, now: i64, pace: f64, random: &mut Random, places: &Places) -> Step {
    let time = now % ROUND;
    let phase = match time * 100 / ROUND {
        0..45 => 0,
        45..75 => 1,
        75..90 => 2,
        _ => 3,
    };
    let until = |share: i64| (ROUND * share / 100 - time).max(1);
    let some =
        |random: &mut Random, ns: i64| ((ns / 2 + random.below(ns as u64) as i64) as f64 / pace).max(40.0) as i64;
    let step = |active_ns, stack, wait_ns, kind, object, wait_stack| Step {
        active_ns,
        runnable_ns: 0,
        stack,
        wait_ns,
        kind,
        object,
        wait_stack,
        holder: None,
        waker: Some(0),
    };
    let queue = "Queue<Block>::ready+0x28";
    match (lane, phase) {
        (0, 2) => step(until(90), places.index, 1, WaitKind::Condition, "results", places.in_join),
        (0, _) => step(
            some(random, 20_000),
            places.index,
            until([75, 75, 90, 175][phase as usize]).max(1),
            WaitKind::Condition,
            "results",
            places.in_join,
        ),
        (1, 3) => step(
            some(random, 90_000),
            places.log,
            some(random, 9_000_000).max(MS / 2),
            WaitKind::FileSync,
            "/var/lib/compressor/journal.log",
            places.in_sync,
        ),
        (1, _) => step(
            some(random, 60_000),
            places.log,
            until(90).min(some(random, 40_000_000)),
            WaitKind::Condition,
            "log_queue",
            places.in_sync,
        ),
        (2, 3) => {
            step(some(random, 30_000), places.read, until(100), WaitKind::FileRead, "/data/corpus.tar", places.in_read)
        }
        (2, _) => step(
            some(random, 700_000),
            places.read,
            some(random, 2_500_000),
            WaitKind::FileRead,
            "/data/corpus.tar",
            places.in_read,
        ),
        (n, 0) => {
            let busy = some(random, 1_400_000).min(until(45));
            let stack = if random.below(3) == 0 { places.compress } else { places.match_ };
            let runnable_ns = if random.below(4) == 0 { busy / 3 } else { 0 };
            let wait = match random.below(3) {
                0 => step(busy, stack, some(random, 160_000), WaitKind::Condition, queue, places.in_queue),
                1 => step(busy, stack, some(random, 90_000), WaitKind::PageFault, "", stack),
                _ => Step {
                    holder: Some(3 + (n + 1) % WORKERS),
                    ..step(busy, stack, some(random, 300_000), WaitKind::Mutex, "output_lock+0x8", places.in_lock)
                },
            };
            Step { runnable_ns, ..wait }
        }
        (n, 1) => {
            // Turn by turn: each holds the lock for a share of the turn.
            let turn = ((600_000.0 / pace) as i64).max(100);
            let mine = (i64::from(n) - 3) * turn;
            let whole = turn * i64::from(WORKERS);
            let at = time % whole;
            let inside = at - mine;
            let begin = if inside < 0 { -inside } else { whole - inside };
            if !(0..turn).contains(&inside) {
                let wait = begin.min(until(75));
                let before = 3 + (n - 3 + WORKERS - 1) % WORKERS;
                Step {
                    holder: Some(before),
                    waker: Some(before),
                    ..step(
                        (turn / 40).max(1),
                        places.compress,
                        wait,
                        WaitKind::Mutex,
                        "output_lock+0x8",
                        places.in_lock,
                    )
                }
            } else {
                Step {
                    holder: Some(3 + (n - 2) % WORKERS),
                    ..step(
                        (turn - inside).min(until(75)),
                        places.flush,
                        whole / 2,
                        WaitKind::Mutex,
                        "output_lock+0x8",
                        places.in_lock,
                    )
                }
            }
        }
        (_, 2) => step(
            (2_000.0 / pace).max(40.0) as i64,
            places.compress,
            until(90),
            WaitKind::Barrier,
            "round_barrier",
            places.in_barrier,
        ),
        (_, _) => step(
            (2_000.0 / pace).max(40.0) as i64,
            places.compress,
            until(100),
            WaitKind::Condition,
            queue,
            places.in_queue,
        ),
    }
}

/// Sweeps criticality, parallelism and idle time, and makes samples of the moments.
fn finish(profile: &mut Profile, end: i64) {
    let tables = &mut profile.sched;
    in_order_of_end(tables);
    tables.moments.sort_unstable_by_key(|moment| moment.time_ns);
    let mut order: Vec<u32> = (0..tables.slices.len() as u32).collect();
    let at = |slices: &[Slice], row: u32| slices[row as usize].start_ns;
    order.sort_unstable_by_key(|&row| at(&tables.slices, row));
    let mut ends: Vec<(i64, u32)> = order
        .iter()
        .map(|&row| (tables.slices[row as usize].start_ns + tables.slices[row as usize].active_ns, row))
        .collect();
    ends.sort_unstable();
    let most = tables.tasks.len() + 1;
    let mut histogram = vec![0_i64; most];
    // In 2^-16 ns, as the kernel counts.
    let (mut s, mut e, mut n, mut now, mut gained) = (0, 0, 0_usize, 0_i64, 0_i128);
    let mut entered = vec![0_i128; tables.slices.len()];
    let mut woken: Vec<(u32, i64)> = Vec::new();
    while s < order.len() || e < ends.len() {
        let start = order.get(s).map(|&row| at(&tables.slices, row)).unwrap_or(i64::MAX);
        let stop = ends.get(e).map_or(i64::MAX, |end| end.0);
        let next = start.min(stop);
        let dt = next - now;
        histogram[n.min(most - 1)] += dt;
        if n > 0 {
            gained += (i128::from(dt) << 16) / n as i128;
        }
        if stop <= start {
            let row = ends[e].1 as usize;
            tables.slices[row].criticality_ns = ((gained - entered[row]) >> 16) as i64;
            (e, n) = (e + 1, n - 1);
        } else {
            if n == 0 && dt > 0 {
                woken.push((order[s], dt));
            }
            entered[order[s] as usize] = gained;
            (s, n) = (s + 1, n + 1);
        }
        now = next;
    }
    histogram[0] += end - now;
    idle_to_waits(tables, &woken);
    // What is idle at the end, the wait that lasts until then has.
    if let Some(last) = tables.waits.iter_mut().rfind(|wait| wait.end_ns == end) {
        last.idle_ns += end - now;
    }
    for slice in &tables.slices {
        let task = &mut tables.tasks[slice.task as usize];
        task.criticality_ns += slice.criticality_ns;
        task.runnable_ns += slice.runnable_ns;
        task.running_ns += slice.active_ns - slice.runnable_ns;
    }
    for wait in &tables.waits {
        tables.tasks[wait.task as usize].blocked_ns += wait.ns;
    }
    let idle_ns = histogram[0];
    // Rounding down loses less than a ns a slice; the sum of the threads is what counts as busy.
    let busy_ns: i64 = tables.tasks.iter().map(|task| task.criticality_ns).sum();
    tables.parallelism =
        (0..).zip(&histogram).filter(|(_, ns)| **ns > 0).map(|(n, &ns)| Parallelism { process: None, n, ns }).collect();
    let mut unattributed_ns = 0;
    for task in 0..tables.tasks.len() {
        let stacks: Vec<StackId> =
            tables.moments.iter().filter(|moment| moment.task as usize == task).map(|moment| moment.stack).collect();
        let whole = tables.tasks[task].criticality_ns;
        let mut left = whole;
        let mut counts: std::collections::BTreeMap<StackId, i64> = Default::default();
        for &stack in &stacks {
            *counts.entry(stack).or_default() += 1;
        }
        for (stack, samples) in counts {
            let criticality_ns = (whole as i128 * i128::from(samples) / stacks.len() as i128) as i64 * 99 / 100;
            left -= criticality_ns;
            tables.samples.push(SchedSample {
                task: task as TaskId,
                stack,
                n: 2,
                origin: Origin::Sample,
                samples,
                criticality_ns,
                active_ns: criticality_ns * 2,
                spin: false,
            });
        }
        tables.tasks[task].unattributed_ns = left;
        unattributed_ns += left;
    }
    let low = tables.slices.len() as i64 / 3;
    profile.meta.criticality = Some(SchedSession {
        estimate: false,
        per_process: false,
        cpus: CPUS as i64,
        sample_hz: 1_000,
        min_parallelism: CPUS as i64,
        stack_depth: 64,
        busy_ns,
        idle_ns,
        unattributed_ns,
        drift: 0,
        slices: tables.slices.len() as i64,
        critical_slices: low,
        start_ns: 0,
        end_ns: end,
    });
}

fn in_order_of_end(tables: &mut SchedTables) {
    let mut order: Vec<u32> = (0..tables.waits.len() as u32).collect();
    order.sort_unstable_by_key(|&row| (tables.waits[row as usize].end_ns, row));
    let mut new_row = vec![0_i32; order.len()];
    for (new, &old) in (0..).zip(&order) {
        new_row[old as usize] = new;
    }
    tables.waits.sort_unstable_by_key(|wait| (wait.end_ns, wait.task));
    // Ties are broken by row above and by thread here: rows were laid thread by thread, so both agree.
    for slice in tables.slices.iter_mut().filter(|slice| slice.wait >= 0) {
        slice.wait = new_row[slice.wait as usize];
    }
    tables.slices.sort_unstable_by_key(|slice| (slice.start_ns + slice.active_ns, slice.task));
}

/// Idle time goes to the wait that ends it: the one before the slice that starts then.
fn idle_to_waits(tables: &mut SchedTables, woken: &[(u32, i64)]) {
    let mut by_end: std::collections::HashMap<(TaskId, i64), usize> = Default::default();
    for (row, wait) in tables.waits.iter().enumerate() {
        by_end.insert((wait.task, wait.end_ns), row);
    }
    for &(slice, idle) in woken {
        let slice = tables.slices[slice as usize];
        if let Some(&row) = by_end.get(&(slice.task, slice.start_ns)) {
            tables.waits[row].idle_ns += idle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_the_size_is_about_as_asked() {
        for (slices, seconds) in [(2_000, 2), (60_000, 6)] {
            let profile = scheduled_compressor(slices, seconds);
            let tables = &profile.sched;
            let session = profile.meta.criticality.as_ref().unwrap();
            let made = tables.slices.len();
            assert!(made > slices / 2 && made < slices * 2, "{made} of {slices}");
            let criticality: i64 = tables.tasks.iter().map(|task| task.criticality_ns).sum();
            assert_eq!(criticality, session.busy_ns);
            let elapsed: i64 = tables.parallelism.iter().map(|row| row.ns).sum();
            assert_eq!(elapsed, seconds * 1_000 * MS);
            assert!((session.busy_ns + session.idle_ns - elapsed).abs() <= made as i64);
        }
    }
}
