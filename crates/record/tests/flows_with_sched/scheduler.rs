//! The same with the real collector: programs whose threads spin at times that they note, so that the number of active
//! threads at each instant is known. Needs the privilege to load BPF programs; says so and passes where there is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use transect_bpf_collect::record::Record;
use transect_bpf_collect::{SchedCollector, SchedSettings, Storage, privilege};
use transect_profile_model::{LossKind, Profile, Timing};
use transect_testkit::judged;

use crate::program::{Calls, Program, sums};
use crate::timetable::{Change, integrate};

/// Above the programs' own: what they wait for of the recorder is to be short.
const RECORDERS_PRIORITY: i32 = -20;

/// Records the program with the collector beside; the profile, and the criticality of threads that have ended by id, ns.
fn record(program: &Program, timing: Timing) -> Option<(Profile, BTreeMap<i32, f64>)> {
    if let Err(error) = privilege::prepare_to_load() {
        eprintln!("NOT RUN: {error}");
        return None;
    }
    // Of this thread and those that it starts.
    let _ = rustix::process::setpriority_process(None, RECORDERS_PRIORITY);
    let settings = SchedSettings {
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        min_parallelism: 2,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        wait_budget: 0,
        stack_depth: 16,
        sample_hz: 0,
        per_process: false,
        waits: false,
        stacks: false,
        publish_threads: true,
        launched_only: false,
        system_calls: false,
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
    };
    let (requests, inbox) = channel::<(i32, std::sync::mpsc::Sender<()>)>();
    let (ready, loaded) = channel();
    let collector = std::thread::spawn(move || {
        let ended = std::cell::RefCell::new(BTreeMap::new());
        let mut storage = Storage::default();
        let mut collector = SchedCollector::load(&mut storage, &settings, &[], |bytes| {
            if let Ok(Record::Task(task)) = Record::decode(bytes) {
                // The last record of a thread is that of its end.
                ended.borrow_mut().insert(task.tid, task.criticality as f64 / 65536.0);
            }
        })
        .unwrap();
        ready.send(collector.published().try_clone_to_owned().unwrap()).unwrap();
        loop {
            match inbox.recv_timeout(Duration::from_millis(5)) {
                Ok((pid, reply)) => {
                    collector.follow_process(pid).unwrap();
                    reply.send(()).unwrap();
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
            collector.consume().unwrap();
        }
        collector.consume().unwrap();
        drop(collector);
        ended.into_inner()
    });
    let published = loaded.recv().unwrap();
    let profile = program.record(timing, Some(Arc::new(published)), &mut |pid| {
        let (reply, followed) = channel();
        requests.send((pid, reply)).unwrap();
        followed.recv().unwrap();
        // Others on the machine are not to keep its threads waiting between their notes.
        let _ = rustix::process::setpriority_process(rustix::process::Pid::from_raw(pid), -15);
        Ok(())
    });
    drop(requests);
    Some((profile, collector.join().unwrap()))
}

/// The number of active threads over time: those that spin.
pub fn timetable(calls: &Calls) -> Vec<Change> {
    let spins = calls
        .iter()
        .filter(|c| c.0.starts_with("spin") || matches!(c.0.as_str(), "active" | "awake"))
        .flat_map(|c| c.1);
    let mut steps: Vec<(u64, i32)> = spins.flat_map(|&(begin, end)| [(begin, 1), (end, -1)]).collect();
    steps.sort_unstable();
    let mut active = 0;
    let changes = steps.into_iter().map(|(time, step)| {
        active += step;
        Change { time, published: time, active: active as u32, own: true }
    });
    changes.collect()
}

/// Runs on a machine that does other things, too: a thread that loses its CPU between two notes is active where
/// the notes don't say so.
fn judged_by(
    name: &str,
    program: &Program,
    timing: &Timing,
    test: impl Fn(&Profile, &BTreeMap<i32, f64>) -> Result<(), String>,
) {
    judged(name, || {
        let Some((profile, threads)) = record(program, timing.clone()) else { return Ok(()) };
        let outcome = test(&profile, &threads);
        program.forget_notes();
        outcome
    });
}

/// How long children took to end, of which nobody notes how long they were active, ns.
fn leaving(calls: &Calls) -> u64 {
    let ends = |name: &str| {
        let mut ends: Vec<u64> = calls.get(name).into_iter().flatten().map(|call| call.1).collect();
        ends.sort_unstable();
        ends
    };
    ends("left").iter().zip(ends("spin_b")).map(|(left, end)| left.saturating_sub(end)).sum()
}

/// Holds each function that spins against the timetable, and returns the sum of criticality.
fn compare(program: &Program, profile: &Profile, within: f64) -> Result<f64, String> {
    let calls = program.calls();
    let changes = timetable(&calls);
    // A thread that waits for a CPU between two notes is active then: one more than the notes say, which changes
    // the sum of the others' shares by half at most.
    let gaps: u64 = calls.get("gap").into_iter().flatten().map(|gap| gap.1).sum::<u64>() + leaving(&calls);
    let mut sum = 0.0;
    for (api, stretches) in calls.iter().filter(|c| c.0.starts_with("spin")) {
        let (mut expected, mut noted) = (0.0, 0.0);
        for &(begin, end) in stretches {
            expected += integrate(&changes, begin, end).0;
            noted += (end - begin) as f64;
        }
        let (attributed, criticality, total) = sums(profile, api);
        let criticality = criticality.unwrap();
        for got in [attributed, criticality] {
            if (got - expected).abs() > within * expected + (noted - total) + gaps as f64 / 2.0 {
                let gaps = format!("{gaps} ns in gaps");
                return Err(format!("{api}: expected {expected:.0} got {attributed}, {criticality}; {gaps}"));
            }
        }
        sum += criticality;
    }
    let lost: Vec<_> = profile.loss.iter().filter(|l| l.what == LossKind::DroppedEvents).collect();
    // A recorder that is kept from its CPU drops what does not fit.
    if lost.is_empty() { Ok(sum) } else { Err(format!("{lost:?}")) }
}

/// A sleep gains nothing but what its thread, awake again, waits for a CPU.
fn sleeps_gain_nothing(program: &Program, profile: &Profile) -> Result<(), String> {
    let calls = program.calls();
    let changes = timetable(&calls);
    let expected: f64 = calls["awake"].iter().map(|&(begin, end)| integrate(&changes, begin, end).0).sum();
    let (_, criticality, total) = sums(profile, "clock_nanosleep");
    let criticality = criticality.unwrap();
    let gaps: u64 = calls.get("gap").into_iter().flatten().map(|gap| gap.1).sum();
    let close = (criticality - expected).abs() < total * 0.02 + gaps as f64 / 2.0;
    if close { Ok(()) } else { Err(format!("sleeps: expected {expected} of {total}, criticality {criticality}")) }
}

pub const THREADS: &str = r#"
static unsigned long began;
static void *early(void *_) { SINCE(began); sleep_until(began + 50000000); NOTED(spin_a, 120000); return 0; }
static void *late(void *_) { SINCE(began); sleep_until(began + 90000000); NOTED(spin_b, 150000); return 0; }
int main(int argc, char **argv) {
    OPEN_NOTES();
    began = now();
    pthread_t threads[3];
    pthread_create(&threads[0], 0, early, 0);
    pthread_create(&threads[1], 0, late, 0);
    pthread_create(&threads[2], 0, late, 0);
    SINCE(began);
    NOTED(spin_c, 130000);
    for (int i = 0; i < 3; i++) { pthread_join(threads[i], 0); gap(); }
    fclose(notes);
    return 0;
}
"#;

#[test]
fn threads_share_by_the_exact_number_of_active_ones() {
    let program = Program::build(THREADS);
    for timing in [Timing::Full, Timing::Adaptive { budget: 0.03 }] {
        judged_by("threads share by the number of active ones", &program, &timing, |profile, threads| {
            let sum = compare(&program, profile, 0.02)?;
            sleeps_gain_nothing(&program, profile)?;
            // All that threads gained but for what they did between the noted calls, and for the loader.
            let whole: f64 = threads.values().sum();
            let fits = sum < whole;
            if fits { Ok(()) } else { Err(format!("{sum} of {whole}")) }
        });
    }
}

/// Threads of all processes of the application count, those of children and of what they become included.
#[test]
fn processes_share_as_threads_do() {
    let program = Program::build(
        r#"
int main(int argc, char **argv) {
    OPEN_NOTES();
    /* What begins an image waits for the recorder. */
    if (argc > 3) { SINCE_BLOCKED(atol(argv[2]), atol(argv[3])); NOTED(spin_b, 100000); fclose(notes); _exit(0); }
    unsigned long began = now();
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            SINCE(began);
            sleep_until(began + 30000000ul * (i + 1));
            NOTED(spin_a, 80000);
            char time[32], before[32];
            sprintf(before, "%lu", used());
            fclose(notes);
            closefrom(3);
            sprintf(time, "%lu", last);
            execl(argv[0], argv[0], argv[1], time, before, (char *)0);
            _exit(3);
        }
    SINCE(began);
    NOTED(spin_c, 150000);
    while (wait(0) > 0) { gap(); fprintf(notes, "left 0 %lu\n", now()); }
    fclose(notes);
    return 0;
}
"#,
    );
    judged_by("processes share as threads do", &program, &Timing::Full, |profile, _| {
        assert_eq!(profile.processes.len(), 5);
        compare(&program, profile, 0.02)?;
        sleeps_gain_nothing(&program, profile)?;
        Ok(())
    });
}

/// exec in a thread that is not the first: it takes the process' id over.
#[test]
fn exec_in_a_later_thread() {
    let program = Program::build(
        r#"
static char **arguments;
static void *work(void *_) {
    NOTED(spin_b, 60000);
    fclose(notes);
    execl(arguments[0], arguments[0], arguments[1], "again", (char *)0);
    return 0;
}
static unsigned long began;
static void *other(void *_) { SINCE(began); NOTED(spin_c, 60000); return 0; }
int main(int argc, char **argv) {
    OPEN_NOTES();
    arguments = argv;
    pthread_t thread;
    if (argc > 2) {
        began = now();
        pthread_create(&thread, 0, other, 0);
        SINCE(began);
        NOTED(spin_a, 60000);
        pthread_join(thread, 0);
        fclose(notes);
        return 0;
    }
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return 1;
}
"#,
    );
    judged_by("exec in a later thread", &program, &Timing::Full, |profile, _| {
        assert_eq!(profile.processes.len(), 2);
        compare(&program, profile, 0.02).map(drop)
    });
}

/// A thread that is blocked and woken all the time, so that its record changes while it is read.
#[test]
fn short_slices_add_up() {
    let program = Program::build(
        r#"
static int pipes[2][2];
static void *echo(void *_) { char c; while (read(pipes[0][0], &c, 1) == 1) write(pipes[1][1], &c, 1); return 0; }
int main(int argc, char **argv) {
    OPEN_NOTES();
    pipe(pipes[0]); pipe(pipes[1]);
    pthread_t thread;
    pthread_create(&thread, 0, echo, 0);
    unsigned long end = now() + 300000000ul;
    for (char c = 0; now() < end; c++) {
        write(pipes[0][1], &c, 1);
        read(pipes[1][0], &c, 1);
        spin_a(20);
    }
    close(pipes[0][1]);
    pthread_join(thread, 0);
    fclose(notes);
    return 0;
}
"#,
    );
    judged_by("short slices add up", &program, &Timing::Full, short_slices);
}

fn short_slices(profile: &Profile, threads: &BTreeMap<i32, f64>) -> Result<(), String> {
    let (attributed, criticality, total) = sums(profile, "spin_a");
    let criticality = criticality.unwrap();
    let told = || format!("criticality {criticality}, attributed {attributed}, of {total}");
    // The echoing thread is blocked by then or will be soon.
    if criticality > total * 1.001 || criticality <= total * 0.8 || (attributed - criticality).abs() >= total * 0.01 {
        return Err(told());
    }
    // Outermost calls of the flows are all that threads did.
    let outermost = |p: &Profile| -> f64 {
        p.flows
            .iter()
            .filter(|f| f.caller == 0 || f.api != "clock_gettime")
            .filter_map(|f| f.criticality_ns)
            .sum::<i64>() as f64
    };
    let whole: f64 = threads.values().sum();
    let outermost = outermost(profile);
    if outermost < whole * 1.01 { Ok(()) } else { Err(format!("{outermost} of {whole}")) }
}
