//! Samples where the kernel gives no events at all (`kernel.perf_event_paranoid` above 2, as Debian has it): threads that
//! run are stopped for a moment, at odd times, and their registers and the top of their stack are read. Nothing is put
//! into the program: it has no signal and no timer more than it would have, and is not traced between two stops. Times on
//! CPUs are the kernel's own sums.
//!
//! Threads and processes that come and go between two rounds are not met; what they took is counted.

use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustc_hash::FxHashMap as HashMap;
use transect_attach::{AttachError, Mapping, Target};
use transect_bpf_collect::CodeMapping;
use transect_bpf_collect::thread_samples::{self, Registers, STACK_BYTES, Seen, ThreadRecord};
use transect_profile_model::{Loss, LossKind};

use super::jitter;
use super::source::threads_of;
use crate::clock::monotonic_ns;
use crate::sched::mapped_file::has_names;

/// Most rounds a second: a stop takes the thread some 30 µs, which is half a per cent then.
pub(crate) const MOST_HZ: u32 = 150;
/// How often new child processes are looked for, ns.
const CHILDREN_EVERY: u64 = 10_000_000;
/// How often it is looked whether code has been mapped, ns.
const MAPPINGS_EVERY: u64 = 100_000_000;

/// Processes that are sampled.
pub(crate) struct StoppedSamples {
    processes: HashMap<i32, Watched>,
    period: u64,
    random: u64,
    /// The latest round.
    at: u64,
    children_at: u64,
    /// Why the first process that could not be opened could not.
    pub refused: Option<AttachError>,
}

/// One process.
#[derive(Default)]
struct Watched {
    target: Option<Target>,
    program: PathBuf,
    mapped: Vec<Mapping>,
    mapped_at: u64,
    threads: HashMap<i32, Known>,
}

/// What was known of a thread at the latest round.
#[derive(Default)]
struct Known {
    /// Time on CPUs, ns.
    ran: u64,
    name: String,
}

/// A thread in the moment of a stop.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// When it was asked to stop, ns.
    pub at: u64,
    pub registers: Registers,
    /// From the stack pointer on.
    pub stack: Vec<u8>,
    /// The system call that it was in.
    pub call: Option<i64>,
}

impl Stopped {
    /// Stops a thread for this; `None` if it can't be stopped.
    pub fn take(target: &Target, tid: i32) -> Option<Self> {
        let stop = target.stop_thread(tid).ok()?;
        let at = monotonic_ns() - stop.began().elapsed().as_nanos() as u64;
        let held = stop.registers().next()?;
        let registers = Registers { ip: held.rip, sp: held.general[7], bp: held.general[6], bx: held.general[3] };
        let mut stack = vec![0; STACK_BYTES as usize];
        let filled = target.memory().read_some(registers.sp, &mut stack);
        stack.truncate(filled);
        Some(Self { at, registers, stack, call: Some(held.call).filter(|_| held.in_call) })
    }
}

impl StoppedSamples {
    /// Of a process, and all that it makes, at this rate; `running`: it runs already, and who calls knows its
    /// threads and mappings.
    pub fn start(pid: i32, hertz: u32, running: bool) -> Self {
        let period = 1_000_000_000 / u64::from(hertz.max(1));
        let mut process = Watched::default();
        if running {
            process.program = program_of(pid).unwrap_or_default();
            for tid in threads_of(pid).unwrap_or_default() {
                process.threads.insert(tid, Known { ran: on_cpu(pid, tid).unwrap_or(0), name: name(pid, tid) });
            }
        }
        let at = monotonic_ns();
        let processes = HashMap::from_iter([(pid, process)]);
        Self { processes, period, random: at | 1, at, children_at: at, refused: None }
    }

    /// Time until the next round: by chance between half and one and a half of the period.
    pub fn pause(&mut self) -> Duration {
        Duration::from_nanos(jitter::around(self.period, &mut self.random))
    }

    /// One round; what was seen goes to `each`.
    pub fn read(&mut self, mut each: impl FnMut(ThreadRecord)) {
        let now = monotonic_ns();
        let interval = now - self.at;
        self.at = now;
        if now - self.children_at >= CHILDREN_EVERY {
            self.children_at = now;
            self.meet_children(now - interval, &mut each);
        }
        let refused = &mut self.refused;
        self.processes.retain(|&pid, process| {
            let lives = process.round(pid, now, interval, &mut each, refused);
            if !lives {
                for &tid in process.threads.keys() {
                    each(ThreadRecord { time: now, tgid: pid, tid, seen: Seen::Ended });
                }
            }
            lives
        });
    }

    /// `since`: when the round before was. They have begun after it, as far as is known.
    fn meet_children(&mut self, since: u64, each: &mut impl FnMut(ThreadRecord)) {
        let parents: Vec<(i32, PathBuf, Vec<i32>)> = self
            .processes
            .iter()
            .map(|(&pid, process)| (pid, process.program.clone(), process.threads.keys().copied().collect()))
            .collect();
        for (pid, program, tids) in parents {
            for tid in tids {
                let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
                for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
                    // One that has ended has no program any more.
                    if let Entry::Vacant(place) = self.processes.entry(child)
                        && program_of(child).is_some()
                    {
                        each(ThreadRecord {
                            time: since,
                            tgid: child,
                            tid: child,
                            seen: Seen::Born { parent: pid, by: pid },
                        });
                        let threads = HashMap::from_iter([(child, Known::default())]);
                        // If it runs another one by now, its first round sees that.
                        place.insert(Watched { threads, program: program.clone(), ..Watched::default() });
                    }
                }
            }
        }
    }
}

impl Watched {
    /// False if the process has ended.
    fn round(
        &mut self,
        pid: i32,
        now: u64,
        interval: u64,
        each: &mut impl FnMut(ThreadRecord),
        refused: &mut Option<AttachError>,
    ) -> bool {
        let Some(program) = program_of(pid) else { return false };
        if program != self.program || self.target.is_none() {
            if program != self.program {
                // The program of its maker, until now.
                let seen = Seen::Named { name: name(pid, pid), program: true };
                each(ThreadRecord { time: now, tgid: pid, tid: pid, seen });
                self.mapped.clear();
            }
            match Target::open(pid) {
                Ok(target) => self.target = Some(target),
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
            (self.program, self.mapped_at) = (program, 0);
        }
        if let Some(target) = &self.target {
            target.finish_unfinished();
        }
        let Ok(tids) = threads_of(pid) else { return false };
        self.threads.retain(|&tid, _| {
            let lives = tids.contains(&tid);
            if !lives {
                each(ThreadRecord { time: now, tgid: pid, tid, seen: Seen::Ended });
            }
            lives
        });
        for tid in tids {
            self.look_at(pid, tid, now, interval, each);
        }
        true
    }

    /// Notes how long a thread ran, and takes a sample of one that runs.
    fn look_at(&mut self, pid: i32, tid: i32, now: u64, interval: u64, each: &mut impl FnMut(ThreadRecord)) {
        let Some(ran) = on_cpu(pid, tid) else { return };
        let record = |time, seen| ThreadRecord { time, tgid: pid, tid, seen };
        let known = self.threads.entry(tid).or_insert_with(|| {
            if tid != pid {
                each(record(now - interval, Seen::Born { parent: pid, by: pid }));
            }
            Known::default()
        });
        let since = ran.saturating_sub(known.ran);
        if since == 0 {
            return;
        }
        known.ran = ran;
        let name = name(pid, tid);
        if name != known.name {
            known.name.clone_from(&name);
            each(record(now, Seen::Named { name, program: false }));
        }
        let runs = state(pid, tid) == Some('R');
        each(record(now - since.min(interval), Seen::Runs));
        let stopped = self.target.as_ref().filter(|_| runs).and_then(|target| Stopped::take(target, tid));
        if let Some(Stopped { registers, stack, .. }) = stopped {
            self.tell_mappings(registers.ip, pid, tid, now, each);
            each(record(now, Seen::Sample { period: interval, registers, stack }));
        }
        each(record(now, Seen::Stops { preempted: runs }));
    }

    /// Tells code that was mapped since, where it may be needed.
    fn tell_mappings(&mut self, ip: u64, pid: i32, tid: i32, now: u64, each: &mut impl FnMut(ThreadRecord)) {
        let known = self.mapped.iter().any(|mapping| (mapping.start..mapping.end).contains(&ip));
        if known && now - self.mapped_at < MAPPINGS_EVERY {
            return;
        }
        self.mapped_at = now;
        for mapping in Mapping::all(pid).unwrap_or_default() {
            let path = mapping.path.to_string_lossy().into_owned();
            if mapping.executable && has_names(&path, mapping.inode) && !self.mapped.contains(&mapping) {
                let code = CodeMapping {
                    start: mapping.start,
                    end: mapping.end,
                    offset: mapping.offset,
                    device: mapping.device,
                    inode: mapping.inode,
                    path,
                };
                each(ThreadRecord { time: now, tgid: pid, tid, seen: Seen::Mapped(code) });
                self.mapped.push(mapping);
            }
        }
    }
}

fn program_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn task(pid: i32, tid: i32, file: &str) -> Option<String> {
    fs::read_to_string(Path::new("/proc").join(format!("{pid}/task/{tid}/{file}"))).ok()
}

/// Time that a thread had on CPUs, ns.
fn on_cpu(pid: i32, tid: i32) -> Option<u64> {
    task(pid, tid, "schedstat")?.split_whitespace().next()?.parse().ok()
}

fn name(pid: i32, tid: i32) -> String {
    task(pid, tid, "comm").unwrap_or_default().trim_end_matches('\n').to_owned()
}

/// As `/proc` has it: `R` runs.
pub(crate) fn state(pid: i32, tid: i32) -> Option<char> {
    task(pid, tid, "stat")?.rsplit_once(") ")?.1.chars().next()
}

/// CPU time of children that this process has waited for, and theirs, ns.
pub(crate) fn time_of_children() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// Says how it was sampled, and what of the time `spent` is missing in the time that threads `ran`, ns.
pub(crate) fn loss(spent: f64, ran: f64, hertz: u32) -> Loss {
    let missing = (spent - ran).max(0.0);
    Loss {
        what: LossKind::TruncatedStacks,
        place: "samples".to_owned(),
        count: (missing * f64::from(hertz) / 1e9) as i64,
        reason: format!(
            "the kernel gives this user no events (kernel.perf_event_paranoid is {}), so threads were stopped for a moment, \
             {hertz} times a second; {:.1} % of the CPU time was in threads and processes that ended before they were met",
            thread_samples::paranoid(),
            100.0 * missing / spent.max(1.0)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_runs_is_sampled_and_let_go() {
        let script = "trap 'exit 7' USR1; while :; do :; done";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id().cast_signed();
        // Before its trap is set (USR1 is bit 9) the signal would end it.
        let caught = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap().to_owned();
            u64::from_str_radix(&caught, 16).unwrap() & 1 << 9 != 0
        };
        let end = Instant::now() + Duration::from_secs(20);
        while !caught() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut samples = StoppedSamples::start(pid, 500, false);
        let (mut records, mut taken) = (Vec::new(), 0);
        let end = Instant::now() + Duration::from_secs(20);
        while taken < 5 && samples.refused.is_none() && Instant::now() < end {
            std::thread::sleep(samples.pause());
            samples.read(|record| {
                taken += usize::from(matches!(record.seen, Seen::Sample { .. }));
                records.push(record);
            });
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // It lives, nobody traces it, and it takes its signals as ever.
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        let ended = (0..2000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            child.try_wait().unwrap()
        });
        if ended.is_none() {
            let _ = child.kill();
        }
        if let Some(why) = samples.refused {
            eprintln!("not tested: {why}");
            return;
        }
        assert_eq!(ended.and_then(|status| status.code()), Some(7));
        assert!(status.contains("TracerPid:\t0"), "{status}");
        assert!(taken >= 5, "{taken} samples");
        let mut code: Vec<(u64, u64)> = Vec::new();
        for record in &records {
            match &record.seen {
                Seen::Mapped(mapped) => code.push((mapped.start, mapped.end)),
                // The shell is in its own code, a library's, or the kernel's page of such.
                Seen::Sample { registers, stack, .. } => {
                    assert!(!code.is_empty() && registers.ip != 0 && !stack.is_empty());
                }
                _ => {}
            }
        }
        assert!(records.iter().any(|record| matches!(
            &record.seen,
            Seen::Sample { registers, .. } if code.iter().any(|(start, end)| (*start..*end).contains(&registers.ip))
        )));
    }
}
