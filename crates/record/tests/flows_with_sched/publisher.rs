//! A made-up schedule, published as the programs in the kernel do, by a thread of the test: whatever the program really
//! does, its flows are charged by what was published.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use transect_event_abi::published::{ACTIVE, FRACTION_BITS, Published, key, place};
use transect_profile_model::{LossKind, Profile, Timing};
use transect_testkit::judged;

use crate::program::{Program, sums};
use crate::timetable::{Change, integrate, unpublished};

/// Pages in a memory file.
struct Pages {
    file: Arc<OwnedFd>,
    at: &'static Published,
}

impl Pages {
    fn new() -> Pages {
        let file = rustix::fs::memfd_create("pages", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, size_of::<Published>() as u64).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: a fresh mapping, as large as the type, never unmapped; every value of its bytes is valid.
        let at = unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            let size = size_of::<Published>();
            let at = rustix::mm::mmap(std::ptr::null_mut(), size, flags, MapFlags::SHARED, file.as_fd(), 0).unwrap();
            &*at.cast::<Published>()
        };
        Pages { file: Arc::new(file), at }
    }

    /// Takes a record, as `sched_published_claim` does.
    fn claim(&self, pid: i32, application: u32) -> usize {
        use std::os::unix::fs::MetadataExt;
        let space = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
        let key = key(space as u32, pid as u32);
        // Somebody else has its first place.
        self.at.threads[place(key, 0)].key.store(1, Ordering::SeqCst);
        let index = place(key, 1);
        self.at.threads[index].application.store(application, Ordering::SeqCst);
        self.at.threads[index].key.store(key, Ordering::SeqCst);
        index
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The state machine, as simple as can be.
struct Schedule<'a> {
    pages: &'a Pages,
    application: usize,
    thread: usize,
    changes: Vec<Change>,
    criticality: u64,
    idle: u64,
    gained: u64,
    since: u64,
    /// How long each change takes.
    changing: Duration,
}

impl Schedule<'_> {
    fn apply(&mut self, active: u32, own: bool) {
        let time = monotonic();
        let last = self.changes.last().copied().unwrap_or(Change { time, published: time, active: 0, own: false });
        let passed = time - last.time;
        match last.active {
            0 => self.idle += passed,
            n => self.criticality += (passed << FRACTION_BITS) / u64::from(n),
        }
        if last.own && !own {
            self.gained += self.criticality - self.since;
        }
        if own && !last.own {
            self.since = self.criticality;
        }
        let set = |cell: &AtomicU64, value| cell.store(value, Ordering::SeqCst);
        let turn = |cell: &AtomicU32| cell.fetch_add(1, Ordering::SeqCst);
        let a = &self.pages.at.applications[self.application];
        // From its first turn to its last a record is waited for; before the first, the old state is read. In the kernel
        // no thread reads while its own record changes: here the thread's changes with the application's.
        let t = &self.pages.at.threads[self.thread];
        turn(&t.sequence);
        turn(&a.sequence);
        let published = monotonic();
        a.active.store(active, Ordering::SeqCst);
        if !self.changing.is_zero() {
            std::thread::sleep(self.changing);
        }
        set(&a.time, time);
        set(&a.criticality, self.criticality);
        set(&a.idle, self.idle);
        t.flags.store(if own { ACTIVE } else { 0 }, Ordering::SeqCst);
        set(&t.gained, self.gained);
        set(&t.since, self.since);
        set(&t.time, time);
        set(&t.attribution, self.criticality + (self.idle << FRACTION_BITS));
        turn(&a.sequence);
        turn(&t.sequence);
        self.changes.push(Change { time, published, active, own });
    }
}

/// Records the program under a schedule that changes every `every`, in order of `steps` (active threads, and whether
/// the program's main thread is one), again and again.
fn record(program: &Program, timing: Timing, every: Duration, steps: &[(u32, bool)]) -> (Profile, Vec<Change>) {
    record_slow(program, timing, every, steps, Duration::ZERO)
}

/// The same with a publisher that takes so long for each change.
fn record_slow(
    program: &Program,
    timing: Timing,
    every: Duration,
    steps: &[(u32, bool)],
    changing: Duration,
) -> (Profile, Vec<Change>) {
    let pages = Pages::new();
    let over = AtomicBool::new(false);
    let main = AtomicU32::new(0);
    const APPLICATION: u32 = 5;
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let pid = loop {
                match main.load(Ordering::SeqCst) {
                    0 => std::hint::spin_loop(),
                    pid => break pid,
                }
            };
            let thread = pages.claim(pid as i32, APPLICATION);
            let mut schedule = Schedule {
                pages: &pages,
                application: APPLICATION as usize,
                thread,
                changes: Vec::new(),
                criticality: 77 << FRACTION_BITS,
                idle: 5,
                gained: 0,
                since: 0,
                changing,
            };
            for &(active, own) in steps.iter().cycle() {
                schedule.apply(active, own);
                main.store(0, Ordering::SeqCst);
                if over.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::sleep(every);
            }
            schedule.changes
        });
        let profile = program.record(timing, Some(pages.file.clone()), &mut |pid| {
            main.store(pid as u32, Ordering::SeqCst);
            while main.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
            Ok(())
        });
        over.store(true, Ordering::SeqCst);
        (profile, publisher.join().unwrap())
    })
}

/// Compares the flows of the noted calls with the timetable, of a recording that lost nothing.
fn compare(program: &Program, profile: &Profile, changes: &[Change], within: f64) -> Result<(), String> {
    compare_calls(program, profile, changes, within)?;
    no_loss(profile)
}

fn compare_calls(program: &Program, profile: &Profile, changes: &[Change], within: f64) -> Result<(), String> {
    for (api, calls) in program.calls().into_iter().filter(|c| c.0.starts_with("spin")) {
        let (mut attributed, mut criticality, mut noted, mut unseen) = (0.0, 0.0, 0.0, 0.0);
        for (begin, end) in calls {
            noted += (end - begin) as f64;
            unseen += (unpublished(changes, begin) + unpublished(changes, end)) as f64;
            let (a, c) = integrate(changes, begin, end);
            attributed += a;
            criticality += c;
        }
        let (got_attributed, got_criticality, total) = sums(profile, &api);
        let got_criticality = got_criticality.unwrap();
        // Off its CPU between note and call, a program notes more than the call; a publisher off its own is late.
        let error = |got: f64, expected: f64| ((got - expected).abs() - (noted - total) - unseen) / total;
        for (what, got, expected) in
            [("attributed", got_attributed, attributed), ("criticality", got_criticality, criticality)]
        {
            ensure(error(got, expected) < within, || format!("{api}: {what} {got} for {expected}"))?;
        }
    }
    Ok(())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Judges what comes of recordings of a program, each with notes of its own.
fn judged_by(name: &str, program: &Program, mut attempt: impl FnMut() -> Result<(), String>) {
    judged(name, || {
        let outcome = attempt();
        program.forget_notes();
        outcome
    });
}

const STEPS: [(u32, bool); 7] = [(1, true), (4, true), (3, false), (0, false), (2, true), (7, true), (1, false)];

const LONG_CALLS: &str = r#"
int main(int argc, char **argv) {
    OPEN_NOTES();
    for (int i = 0; i < 12; i++) { NOTED(spin_a, 7000); NOTED(spin_b, 23000); NOTED(spin_c, 900); }
    fclose(notes);
    return 0;
}
"#;

#[test]
fn long_calls_follow_the_published_schedule() {
    let program = Program::build(LONG_CALLS);
    judged_by("long calls follow the published schedule", &program, || {
        let (profile, changes) = record(&program, Timing::Full, Duration::from_millis(3), &STEPS);
        ensure(changes.len() > 50, || format!("{} changes", changes.len()))?;
        compare(&program, &profile, &changes, 0.005)
    });
}

/// The CPU of a virtual machine may go away in the middle of a change: half of it is never taken for the whole.
#[test]
fn half_a_change_is_never_read() {
    let program = Program::build(LONG_CALLS);
    let changing = Duration::from_millis(4);
    judged_by("half a change is never read", &program, || {
        let (profile, changes) = record_slow(&program, Timing::Full, Duration::from_millis(3), &STEPS, changing);
        compare(&program, &profile, &changes, 0.005)
    });
}

/// Sampled calls are scaled to all, criticality like time. A short and constant schedule, for nothing else is known of
/// the calls between.
#[test]
fn sampled_calls_are_scaled() {
    let program = Program::build(
        r#"
int main(int argc, char **argv) {
    OPEN_NOTES();
    unsigned long begin = now();
    for (int i = 0; i < 400000; i++) spin_a(0);
    note("spin_a", begin, now());
    fclose(notes);
    return 0;
}
"#,
    );
    judged_by("sampled calls are scaled", &program, || {
        let timing = Timing::Adaptive { budget: 0.03 };
        let (profile, _) = record(&program, timing, Duration::from_millis(500), &[(4, true)]);
        let (attributed, criticality, total) = sums(&profile, "spin_a");
        let flow = profile.flows.iter().find(|f| f.api == "spin_a").unwrap();
        assert_eq!(flow.calls, 400_000);
        let criticality = criticality.unwrap();
        ensure(flow.timed_calls < 100_000, || format!("{} of {} are timed", flow.timed_calls, flow.calls))?;
        ensure((attributed / total - 0.25).abs() < 0.002, || format!("{attributed} of {total}"))?;
        ensure((criticality / total - 0.25).abs() < 0.002, || format!("{criticality} of {total}"))?;
        no_loss(&profile)
    });
}

/// Changes every 100 µs, calls of 30: most calls see none or one.
#[test]
fn short_calls_follow_a_fast_schedule() {
    let program = Program::build(
        r#"
int main(int argc, char **argv) {
    OPEN_NOTES();
    for (int i = 0; i < 10000; i++) NOTED(spin_a, 30);
    fclose(notes);
    return 0;
}
"#,
    );
    judged_by("short calls follow a fast schedule", &program, || {
        let (profile, changes) = record(&program, Timing::Full, Duration::from_micros(100), &STEPS);
        compare(&program, &profile, &changes, 0.02)
    });
}

/// A new program in the same process finds the pages again, whatever descriptors it has closed.
#[test]
fn exec_after_closing_everything_stays_exact() {
    let program = Program::build(
        r#"
int main(int argc, char **argv) {
    OPEN_NOTES();
    NOTED(spin_a, 40000);
    fclose(notes);
    for (int fd = 0; fd < 1024; fd++) close(fd);
    if (argc < 3) { execl(argv[0], argv[0], argv[1], "again", (char *)0); _exit(3); }
    _exit(0);
}
"#,
    );
    judged_by("exec after closing everything", &program, || {
        let (profile, changes) = record(&program, Timing::Full, Duration::from_millis(3), &STEPS);
        assert_eq!((profile.processes.len(), program.calls()["spin_a"].len()), (2, 2));
        compare(&program, &profile, &changes, 0.005)
    });
}

/// A thread and a child for which there is no record: the thread's calls have no criticality and are counted, the child
/// counts active threads itself, and says so.
#[test]
fn what_is_not_published_is_counted() {
    let program = Program::build(
        r#"
static void *work(void *path) { for (int i = 0; i < 7; i++) spin_b(2000); return 0; }
int main(int argc, char **argv) {
    OPEN_NOTES();
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    if (fork() == 0) { spin_c(20000); _exit(0); }
    wait(0);
    NOTED(spin_a, 20000);
    fclose(notes);
    return 0;
}
"#,
    );
    judged_by("what is not published", &program, || {
        let (profile, changes) = record(&program, Timing::Full, Duration::from_millis(2), &[(4, true), (4, false)]);
        let (of_thread, criticality, of_thread_total) = sums(&profile, "spin_b");
        assert_eq!(criticality, Some(0.0));
        let thread = profile.flows.iter().find(|f| f.api == "spin_b").unwrap().thread;
        let calls: i64 = profile.flows.iter().filter(|f| f.thread == thread).map(|f| f.timed_calls).sum();
        assert_eq!(loss(&profile, "timed calls without criticality"), calls);
        let (of_child, criticality, of_child_total) = sums(&profile, "spin_c");
        assert_eq!(criticality, None);
        assert_eq!(loss(&profile, "the scheduler collector's clock could not be had"), 1);
        let told = || format!("thread {of_thread} of {of_thread_total}, child {of_child} of {of_child_total}");
        ensure((of_thread / of_thread_total - 0.25).abs() < 0.002, told)?;
        ensure((of_child / of_child_total - 1.0).abs() < 0.01, told)?;
        compare_calls(&program, &profile, &changes, 0.005)
    });
}

/// Without the collector nothing of this is there.
#[test]
fn flows_alone_have_no_criticality() {
    let program = Program::build(LONG_CALLS);
    judged_by("flows alone", &program, || {
        let profile = program.record(Timing::Full, None, &mut |_| Ok(()));
        let (attributed, criticality, total) = sums(&profile, "spin_a");
        assert_eq!(criticality, None);
        assert_eq!(loss(&profile, ""), 0, "{:?}", profile.loss);
        ensure((attributed / total - 1.0).abs() < 0.001, || format!("{attributed} of {total}"))
    });
}

fn loss(profile: &Profile, words: &str) -> i64 {
    profile.loss.iter().filter(|l| l.what == LossKind::DroppedEvents && l.reason.contains(words)).map(|l| l.count).sum()
}

/// Readers wait for a publisher that is off its CPU, but not for ever.
fn no_loss(profile: &Profile) -> Result<(), String> {
    ensure(loss(profile, "") == 0, || format!("{:?}", profile.loss))
}
