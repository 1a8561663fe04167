//! A process doesn't notice that it was stopped, or that it made calls for somebody else.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use transect_attach::{AttachError, Target, runs};
use transect_testkit::judged;

use crate::program::{Running, compile, wait_for_state};

#[test]
fn sleepers_sleep_on() {
    let mut sleeps = Running::start(&compile("sleeps", &[]), &[]);
    let before = sleeps.ask("?");
    let target = Target::open(sleeps.pid()).unwrap();
    let threads: Vec<i32> = std::fs::read_dir(format!("/proc/{}/task", sleeps.pid()))
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(threads.len(), 12);
    for _ in 0..30 {
        let stop = target.stop_all().unwrap();
        assert_eq!(stop.thread_count(), 12);
        drop(stop);
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..50 {
        for thread in &threads {
            let mut stop = target.stop_thread(*thread).unwrap();
            let address = stop.map_private(8192).unwrap();
            stop.unmap(address, 8192).unwrap();
        }
    }
    assert_eq!(sleeps.ask("?"), before);
}

/// Process and thread that [`tracer_that_dies`] holds.
const HELD: &str = "HELD_BY_A_TRACER_THAT_DIES";
/// Its exit status.
const DIED: i32 = 86;

#[test]
#[ignore = "the process that the next test has die"]
fn tracer_that_dies() {
    let Ok(held) = std::env::var(HELD) else { return };
    let (pid, tid) = held.split_once(' ').unwrap();
    let target = Target::open(pid.parse().unwrap()).unwrap();
    let mut stop = target.stop_thread(tid.parse().unwrap()).unwrap();
    stop.map_private(8192).unwrap();
    std::mem::forget(stop);
    std::process::exit(DIED);
}

#[test]
fn threads_go_on_whose_tracer_dies_while_they_make_calls_for_it() {
    let threads = |running: &Running| -> Vec<(i32, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap().flatten();
        tasks
            .map(|task| {
                let status = std::fs::read_to_string(task.path().join("status")).unwrap();
                let blocked = status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned();
                (task.file_name().to_str().unwrap().parse().unwrap(), blocked)
            })
            .collect()
    };
    let mut sleeps = Running::start(&compile("sleeps", &[]), &[]);
    let mut works = Running::start(&compile("worker", &[]), &["4"]);
    let (slept, worked) = (sleeps.ask("?"), works.ask("?"));
    for running in [&sleeps, &works] {
        let pid = running.pid();
        let before = threads(running);
        for _ in 0..20 {
            for &(tid, _) in &before {
                let mut tracer = std::process::Command::new(std::env::current_exe().unwrap());
                tracer.args(["--exact", "transparency::tracer_that_dies", "--ignored"]);
                let held = tracer.env(HELD, format!("{pid} {tid}")).stdout(std::process::Stdio::null()).status();
                assert_eq!(held.unwrap().code(), Some(DIED));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // A thread gets its mask back as soon as it runs, which a busy machine delays.
        let patience = Instant::now() + Duration::from_secs(20);
        while threads(running) != before && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(threads(running), before);
    }
    assert_eq!(sleeps.ask("?"), slept);
    let rounds = |told: &str| {
        let mut numbers = told.split(' ').map(|number| number.parse::<u64>().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    };
    let ((before, _), (after, wrong)) = (rounds(&worked), rounds(&works.ask("?")));
    assert_eq!(wrong, 0);
    assert!(after > before);
}

#[test]
fn timeouts_end_when_they_would_have_ended() {
    let program = compile("timed_waits", &[]);
    judged("timeouts under stops", || timeouts(&program));
}

fn timeouts(program: &Path) -> Result<(), String> {
    let mut waits = Running::start(program, &[]);
    let target = Target::open(waits.pid()).unwrap();
    // Stops come sooner than the timeouts of 300 ms: begun again in full, no wait would end before the last stop.
    for _ in 0..60 {
        drop(target.stop_all().unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = waits.ask("?");
    let (calls, wrong) = told.rsplit_once(' ').unwrap();
    assert_eq!(wrong, "0", "too short, or failed: {told}");
    let ended = |call: &str| call.split_once(':').unwrap().0.parse::<u32>().unwrap();
    if calls.split(' ').all(|call| ended(call) >= 4) {
        return Ok(());
    }
    Err(format!("waits that ended, and the longest one: {told}"))
}

#[test]
fn stops_are_short_under_eighty_threads() {
    let mut worker = Running::start(&compile("worker", &[]), &["80"]);
    let target = Target::open(worker.pid()).unwrap();
    let mut times = Vec::new();
    for _ in 0..20 {
        let stop = target.stop_all().unwrap();
        assert_eq!(stop.thread_count(), 81);
        times.push(stop.elapsed());
        drop(stop);
        std::thread::sleep(Duration::from_millis(3));
    }
    times.sort_unstable();
    println!("until all of 81 threads stood: median {:?}; stops {:?}", times[10], target.stop_times());
    assert!(worker.ask("?").ends_with(" 0 4"));
}

#[test]
fn threads_that_are_born_meanwhile_hold_nobody_up() {
    let program = compile("births", &[]);
    judged("stops of threads that are born", || stops_of_births(&program));
}

fn stops_of_births(program: &Path) -> Result<(), String> {
    let mut births = Running::start(program, &[]);
    let target = Target::open(births.pid()).unwrap();
    for _ in 0..transect_testkit::sized(100, 400) {
        let before: u64 = births.ask("?").parse().unwrap();
        let began = Instant::now();
        drop(target.stop_all().unwrap());
        // Its maker of threads waits for each: if one of them stood still, so would it.
        while births.ask("?").parse::<u64>().unwrap() < before + 2 {
            if began.elapsed() >= Duration::from_secs(5) {
                return Err("no thread was made since".to_owned());
            }
        }
        if began.elapsed() >= Duration::from_secs(5) {
            return Err(format!("a stop took {:?}", began.elapsed()));
        }
    }
    Ok(())
}

#[test]
fn a_stopped_process_stays_stopped() {
    let mut worker = Running::start(&compile("worker", &[]), &["3"]);
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &worker.pid().to_string()]).status().unwrap().success());
    signal("-STOP");
    wait_for_state(worker.pid(), 'T');
    let target = Target::open(worker.pid()).unwrap();
    for _ in 0..20 {
        let mut stop = target.stop_one().unwrap();
        let address = stop.map_private(8192).unwrap();
        stop.unmap(address, 8192).unwrap();
        drop(stop);
        drop(target.stop_all().unwrap());
        // It needs a CPU for a moment to stop again.
        wait_for_state(worker.pid(), 'T');
    }
    signal("-CONT");
    assert!(worker.ask("?").ends_with(" 0 4"));
}

/// The parent of a vfork child can't be stopped, and must not be: the child runs in its memory.
#[test]
fn a_vfork_child_is_waited_for() {
    let program = compile("vfork", &[]);
    // It lives for so long after this moment, however late the rest comes.
    let began = Instant::now();
    let mut running = Running::start(&program, &["300"]);
    let target = Target::open(running.pid()).unwrap();
    drop(target.stop_all().unwrap());
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(running.ask("?"), "here");
    drop(target);
    let forever = Running::start(&program, &["30000"]);
    let target = Target::open(forever.pid()).unwrap();
    match target.stop_all().map(|_| ()) {
        Err(AttachError::Unstoppable { tid, .. }) => assert_eq!(tid, forever.pid()),
        other => panic!("{other:?}"),
    }
}

/// One that could not be stopped: its vfork child lives longer than a stop waits, unless the machine starts that late.
fn unstoppable() -> Option<(Running, Target)> {
    let program = compile("vfork", &[]);
    let mut found = None;
    judged("a thread that can't be stopped", || {
        let running = Running::start(&program, &["6500"]);
        let target = Target::open(running.pid()).unwrap();
        match target.stop_all().map(|_| ()) {
            Err(AttachError::Unstoppable { .. }) => {
                found = Some((running, target));
                Ok(())
            }
            Ok(()) => Err("it was stopped".to_owned()),
            Err(other) => panic!("{other:?}"),
        }
    });
    found
}

/// A thread that could not be stopped stands when it wakes: it is let go then, also by who no longer knows of it.
#[test]
fn who_could_not_be_stopped_goes_on() {
    let Some((mut running, target)) = unstoppable() else { return };
    assert!(!target.finish_unfinished());
    drop(target);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !transect_attach::finish_left() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running.ask("?"), "here");
}

/// The same thread is held by a later stop, and let go by it: nothing is left to be done, and our child's end is ours.
#[test]
fn who_could_not_be_stopped_is_stopped_later() {
    let Some((mut running, target)) = unstoppable() else { return };
    drop(target.stop_all().unwrap());
    assert!(target.finish_unfinished());
    assert_eq!(running.ask("?"), "here");
    drop(target);
    assert!(transect_attach::finish_left());
    running.child.kill().unwrap();
    assert_eq!(running.child.wait().unwrap().code(), None);
}

#[test]
fn a_process_whose_first_thread_has_ended() {
    let mut running = Running::start(&compile("leaderless", &[]), &[]);
    wait_for_state(running.pid(), 'Z');
    let target = Target::open(running.pid()).unwrap();
    let mut stop = target.stop_one().unwrap();
    let address = stop.map_private(8192).unwrap();
    drop(stop);
    target.memory().write(address, b"x").unwrap();
    drop(target.stop_all().unwrap());
    assert_eq!(running.ask("?"), "here");
}

#[test]
fn a_process_runs_until_its_last_thread_has_ended() {
    let mut leaderless = Running::start(&compile("leaderless", &[]), &[]);
    let pid = leaderless.pid();
    wait_for_state(pid, 'Z');
    assert!(runs(pid));
    leaderless.child.kill().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while runs(pid) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!runs(pid), "nobody has waited for it, but it has ended");
    leaderless.child.wait().unwrap();
    assert!(!runs(pid));
}

/// That threads ended before they could be held says nothing of those that they made: none may go on in code that is about
/// to be taken away.
#[test]
fn all_threads_are_held_of_those_that_end_all_the_time() {
    let mut relay = Running::start(&compile("relay", &[]), &[]);
    let counted: u64 = relay.line().parse().unwrap();
    let target = Target::open(relay.pid()).unwrap();
    let counts = || [0, 8, 16].map(|offset| target.memory().read_u64(counted + offset).unwrap());
    for _ in 0..transect_testkit::sized(60, 400) {
        let stop = target.stop_all().unwrap();
        let before = counts();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(counts(), before, "a thread goes on beside {} that are held", stop.thread_count());
        drop(stop);
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn calls_are_made_by_threads_that_end_all_the_time() {
    let relay = Running::start(&compile("relay", &[]), &[]);
    let target = Target::open(relay.pid()).unwrap();
    for _ in 0..transect_testkit::sized(100, 400) {
        let mut stop = target.stop_one().unwrap();
        let address = stop.map_private(8192).unwrap();
        drop(stop);
        assert!(target.mappings().unwrap().iter().any(|mapping| mapping.start <= address && address < mapping.end));
        target.stop_one().unwrap().unmap(address, 8192).unwrap();
        assert!(target.is_alive());
    }
}

/// Recordings of one process by several collectors, each of which has a thread of its own make its calls.
#[test]
fn calls_are_made_by_several_threads_at_once() {
    let mut worker = Running::start(&compile("worker", &[]), &["8"]);
    let pid = worker.pid();
    let threads: Vec<i32> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().unwrap())
        .collect();
    std::thread::scope(|scope| {
        for &tid in &threads[threads.len() - 4..] {
            scope.spawn(move || {
                let target = Target::open(pid).unwrap();
                for _ in 0..transect_testkit::sized(400, 20000) {
                    let mut stop = target.stop_thread(tid).unwrap();
                    let address = stop.map_private(8192).unwrap();
                    stop.unmap(address, 8192).unwrap();
                }
            });
        }
    });
    assert!(worker.ask("?").ends_with(" 0 4"));
}

/// One that holds a thread for long, as on a busy machine, keeps nobody from calls.
#[test]
fn calls_are_made_while_another_thread_stands_in_its_call_site() {
    let worker = Running::start(&compile("worker", &[]), &["2"]);
    let pid = worker.pid();
    let other = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok())
        .find(|&tid| tid != pid)
        .unwrap();
    let target = Target::open(pid).unwrap();
    let mut stop = target.stop_thread(other).unwrap();
    let first = stop.map_private(8192).unwrap();
    let beside = std::thread::spawn(move || {
        let target = Target::open(pid).unwrap();
        let mut stop = target.stop_thread(pid).unwrap();
        let address = stop.map_private(8192).unwrap();
        stop.unmap(address, 8192).unwrap();
    });
    beside.join().unwrap();
    stop.unmap(first, 8192).unwrap();
}

/// On a crowded machine whoever pauses between two stops would wait for a CPU after each.
#[test]
fn pauses_between_stops_end_first_in_line_as_root() {
    let sleeps = Running::start(&compile("sleeps", &[]), &[]);
    let (pid, (tell, told)) = (sleeps.pid(), std::sync::mpsc::channel());
    let stops = std::thread::spawn(move || {
        let target = Target::open(pid).unwrap();
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        for _ in 0..20 {
            drop(target.share_memory("shared", 4096).unwrap());
        }
    });
    let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
    let (mut asleep, mut in_line) = (0, 0);
    while let Ok(line) = std::fs::read_to_string(&stat) {
        let fields: Vec<&str> = line.rsplit_once(") ").unwrap().1.split(' ').collect();
        let is_asleep = fields[0] == "S";
        asleep += usize::from(is_asleep);
        in_line += usize::from(is_asleep && fields[16] == "-20");
        if stops.is_finished() {
            break;
        }
    }
    stops.join().unwrap();
    assert!(asleep > 10 && in_line * 10 >= asleep * 9, "{in_line} of {asleep} times it slept it was first in line");
}
