//! A program under the collector, from its start or from the middle, and what came of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Child;
use std::time::{Duration, Instant};

use transect_bpf_collect::record::{FRACTION_BITS, Record, sched_task, sched_wait, task_event};
use transect_bpf_collect::{
    ApplicationTotals, Audit, CallOfRecord, Lost, SchedCollector, SchedSettings, Storage, SystemCall, SystemCallTotals,
};

use crate::programs::{Program, thread_state, wait_until};

/// As most runs have them.
pub fn settings() -> SchedSettings {
    SchedSettings {
        cpus: 2,
        min_parallelism: 2,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
        wait_budget: 0,
        stack_depth: 64,
        sample_hz: 199,
        per_process: false,
        stacks: true,
        waits: true,
        publish_threads: true,
        launched_only: false,
        system_calls: false,
    }
}

/// What the records told.
#[derive(Default)]
struct Records {
    tasks: BTreeMap<u32, sched_task>,
    execs: usize,
    tid_after_exec: i32,
    wait_idle_ns: u64,
    waits_in: BTreeMap<u32, u64>,
    waits: Vec<sched_wait>,
}

impl Records {
    fn take(&mut self, bytes: &[u8]) {
        match Record::decode(bytes).unwrap() {
            Record::Task(task) => {
                if task.event == task_event::EXEC {
                    self.execs += 1;
                    self.tid_after_exec = task.tid;
                }
                self.tasks.insert(task.task, task);
            }
            Record::Wait(wait) => {
                self.wait_idle_ns += wait.idle;
                self.waits.push(wait);
                if let CallOfRecord::Inside(call) = SystemCall::of_record(wait.call) {
                    *self.waits_in.entry(call.number).or_default() += wait.end - wait.begin;
                }
            }
            _ => {}
        }
    }
}

/// Everything that is known at the end.
pub struct Outcome {
    /// The process that was started.
    pub pid: i32,
    pub status: Option<i32>,
    /// Last word on each thread.
    pub tasks: BTreeMap<u32, sched_task>,
    /// Threads that had not ended.
    pub open: usize,
    pub execs: usize,
    pub tid_after_exec: i32,
    /// Idle time charged to waits.
    pub wait_idle_ns: u64,
    /// Lengths of waits that say in which system call they were.
    pub waits_in: BTreeMap<u32, u64>,
    /// All waits, in the order in which they ended.
    pub waits: Vec<sched_wait>,
    /// If they were wanted.
    pub system_calls: SystemCallTotals,
    totals: Vec<ApplicationTotals>,
    audits: Vec<Audit>,
    pub lost: Lost,
}

pub struct Recording;

impl Recording {
    /// From before the program's first instruction to its end.
    pub fn launch(settings: SchedSettings, program: Program) -> Result<Outcome, String> {
        record(settings, program, None, false)
    }

    /// As `launch`, but the program is killed after a while.
    pub fn launch_and_kill(settings: SchedSettings, program: Program, after: Duration) -> Result<Outcome, String> {
        record(settings, program, Some(after), false)
    }

    /// A while in the life of a program that runs already.
    pub fn attach(settings: SchedSettings, program: Program, during: Duration) -> Result<Outcome, String> {
        record(settings, program, Some(during), true)
    }
}

pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel reports mappings of all programs on the machine, and there is room for some hundreds until they are read: what
/// other programs do may be too much for once. Three times in a row it would be ours.
fn record(
    settings: SchedSettings,
    program: Program,
    during: Option<Duration>,
    attach: bool,
) -> Result<Outcome, String> {
    for _ in 0..2 {
        let outcome = record_once(settings, program, during, attach)?;
        if outcome.lost.mappings == 0 {
            return Ok(outcome);
        }
        println!("  {program:?} is recorded again: {:?}", outcome.lost);
    }
    record_once(settings, program, during, attach)
}

fn record_once(
    settings: SchedSettings,
    program: Program,
    during: Option<Duration>,
    attach: bool,
) -> Result<Outcome, String> {
    let told = RefCell::new(Records::default());
    let mut storage = Storage::default();
    let mut collector = SchedCollector::load(&mut storage, &settings, &[], |bytes| told.borrow_mut().take(bytes))
        .map_err(|why| why.to_string())?;
    let mut child = program.command().spawn().map_err(|why| why.to_string())?;
    let pid = child.id() as i32;
    if attach {
        let_go(&mut child);
        program.wait_until_at_work(pid);
    }
    collector.follow_process(pid).map_err(|why| why.to_string())?;
    if !attach {
        let_go(&mut child);
    }
    let start = Instant::now();
    let mut status = None;
    let deadline = during.unwrap_or(Duration::from_secs(60));
    while start.elapsed() < deadline && status.is_none() {
        collector.consume().map_err(|why| why.to_string())?;
        status = child.try_wait().map_err(|why| why.to_string())?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut audits = Vec::new();
    let mut audit = |collector: &mut SchedCollector<'_>| collector.audit().map(|found| audits.push(found));
    if attach {
        for _ in 0..3 {
            audit(&mut collector).map_err(|why| why.to_string())?;
        }
    } else {
        let _ = child.kill();
        status = child.wait().map(Some).map_err(|why| why.to_string())?;
        // A thread is gone from its process a little before it leaves its CPU; descendants may live on.
        let late = Instant::now();
        while late.elapsed() < Duration::from_secs(5) {
            let totals = collector.totals(now()).map_err(|why| why.to_string())?;
            if totals.iter().all(|total| total.active == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..2 {
            audit(&mut collector).map_err(|why| why.to_string())?;
        }
    }
    if attach {
        // Nothing changes while the totals are read.
        stop(pid)?;
    }
    collector.consume().map_err(|why| why.to_string())?;
    let at = now();
    let totals = collector.totals(at).map_err(|why| why.to_string())?;
    let open = collector.open_threads(at).map_err(|why| why.to_string())?;
    let system_calls = collector.system_call_totals(at).map_err(|why| why.to_string())?;
    let lost = collector.lost();
    if attach {
        let _ = child.kill();
        let _ = child.wait();
    }
    drop(collector);
    let mut told = told.into_inner();
    for thread in &open {
        told.tasks.insert(thread.task.task, thread.task);
    }
    Ok(Outcome {
        pid,
        status: status.and_then(|status| status.code()),
        open: open.len(),
        tasks: told.tasks,
        execs: told.execs,
        tid_after_exec: told.tid_after_exec,
        wait_idle_ns: told.wait_idle_ns,
        waits_in: told.waits_in,
        waits: told.waits,
        system_calls,
        totals,
        audits,
        lost,
    })
}

fn let_go(child: &mut Child) {
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"go\n");
    }
}

/// Stops the process and waits until all its threads are.
fn stop(pid: i32) -> Result<(), String> {
    let process = rustix::process::Pid::from_raw(pid).ok_or("no pid")?;
    rustix::process::kill_process(process, rustix::process::Signal::STOP).map_err(|why| why.to_string())?;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|why| why.to_string())?;
    for thread in threads.flatten() {
        let tid = thread.file_name().to_string_lossy().parse().map_err(|_| "no tid")?;
        wait_until("it has stopped", || thread_state(pid, tid).is_none_or(|state| state == 'T'));
    }
    Ok(())
}

impl Outcome {
    /// Threads that were followed.
    pub fn threads(&self) -> usize {
        self.tasks.len()
    }

    /// Applications that had threads.
    pub fn applications(&self) -> usize {
        self.totals.iter().filter(|total| total.busy_ns > 0).count()
    }

    pub fn idle_ns(&self) -> u64 {
        // What no wake-up has ended is nobody's.
        self.totals.iter().map(|total| total.idle_ns - total.idle_open_ns).sum()
    }

    /// Criticality and active time of the thread that has most of it, the first one apart: on a machine that is starved,
    /// getting ready takes it longer than others work.
    pub fn most_critical(&self) -> (u64, u64) {
        let others = self.tasks.values().filter(|task| task.tid != task.tgid);
        let most = others.max_by_key(|task| task.criticality);
        most.map_or((0, 0), |task| (task.criticality >> FRACTION_BITS, task.running_ns + task.runnable_ns))
    }

    /// Active time of all threads together.
    pub fn active_ns(&self) -> u64 {
        self.tasks.values().map(|task| task.running_ns + task.runnable_ns).sum()
    }

    /// What holds for every recording.
    pub fn sums_hold(&self) -> Result<(), String> {
        if self.lost != Lost::default()
            && self.lost != (Lost { busy_samples: self.lost.busy_samples, ..Lost::default() })
        {
            return Err(format!("lost: {:?}", self.lost));
        }
        for total in &self.totals {
            let mine = || self.tasks.values().filter(|task| task.application == total.application);
            let sum: u128 = mine().map(|task| u128::from(task.criticality)).sum();
            let busy = u128::from(total.busy_ns) << FRACTION_BITS;
            // Less than a last digit for each thread that was active at once.
            if sum > busy || busy - sum > 1 << FRACTION_BITS {
                return Err(format!(
                    "criticality of {} threads is {} ns, busy time {} ns",
                    mine().count(),
                    sum >> FRACTION_BITS,
                    total.busy_ns
                ));
            }
            let levels: u64 = total.histogram.iter().sum();
            if levels != total.busy_ns + total.idle_ns {
                return Err(format!("h[n] adds up to {levels}, not {} + {}", total.busy_ns, total.idle_ns));
            }
        }
        match self.audits.iter().find(|audit| audit.strays > 0) {
            Some(audit) => Err(format!("{audit:?}")),
            None => Ok(()),
        }
    }
}
