//! How a chain ends and what to do next, in plain words.

use transect_profile_model::{
    Metric, Profile, RECORDING_OVERHEAD, Space, StackId, TaskId, WAITING_FOR_CPU, WaitKind, WalkChain, WalkEnd,
    WalkGroup, WalkNode, WalkSession,
};

use super::chain::WalkFrameRow;
use super::group::WalkGroupRow;
use super::waiting::{kind_and_object, waiting_in_words};
use crate::finding::words::{brief, counted, percent, shell, time};

/// Advice where the agent's own start has the time.
const OWN_START: &str = "This is the recorder's time, not the program's: --collect -flow records without it.";
/// Advice to those who wait for a CPU.
const NO_CPU: &str = "Other threads have the CPUs: measure on an idle machine, run fewer threads, or see \
                            where it computes with transect walk --metric cpu.";

/// What time without a stack, or with one that does not begin at a known function, is called.
const UNKNOWN: &str = "[unknown]";
/// With fewer samples and waits a thread's time can't be told apart.
const FEW_SAMPLES: i64 = 30;

/// From this width on an interval is named in words, 0.0–1.0.
const WIDE: f64 = 0.2;

/// A chain with what is said about it.
pub(super) struct Ending<'a> {
    pub profile: &'a Profile,
    pub session: &'a WalkSession,
    pub chain: &'a WalkChain,
    pub group: &'a WalkGroupRow,
    pub frames: &'a [WalkFrameRow],
}

impl<'a> Ending<'a> {
    fn last(&self) -> Option<&'a WalkFrameRow> {
        self.frames.last()
    }

    /// The program's own last frame: where the chain can be changed. That is not the system call's wrapper, nor what
    /// the C library does around it.
    fn last_of_program(&self) -> Option<&'a WalkFrameRow> {
        let entry = self.frames.iter().find(|frame| frame.space == Space::Kernel).map(|frame| frame.function.as_str());
        let user = || self.frames.iter().rev().filter(|frame| frame.space == Space::User);
        let own = |frame: &&WalkFrameRow| {
            let component = frame.component.as_deref().unwrap_or_default();
            let library = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libm.so", "[vdso]"];
            !library.iter().any(|name| component.starts_with(name)) && entry != Some(frame.function.as_str())
        };
        // `sub_4f30` says little: a caller with a name says more.
        let named = |frame: &&WalkFrameRow| own(frame) && !frame.function.starts_with("sub_");
        user().find(named).or_else(|| user().find(own)).or_else(|| user().next())
    }

    /// What the program is recorded by again: its command, or the process if it was not launched.
    fn target(&self) -> String {
        let meta = &self.profile.meta;
        match meta.exit_status {
            None => format!("-p {}", self.group.process),
            _ => format!("-- {}", meta.command.iter().map(|word| shell(word)).collect::<Vec<_>>().join(" ")),
        }
    }

    /// What the last function holds with what it calls.
    fn all(&self, last: &WalkFrameRow) -> Times {
        self.profile.walk.nodes.get(last.node as usize).map_or([0; 4], times)
    }

    /// What the last function holds itself, without what it calls.
    fn own(&self, last: &WalkFrameRow) -> Times {
        let callees = self.profile.walk.nodes.iter().filter(|node| node.parent == Some(last.node)).map(times);
        callees
            .fold(self.all(last), |own, callee| std::array::from_fn(|i| own[i].saturating_sub(callee[i])))
            .map(|own| own.max(0))
    }

    /// Whether what the last function does itself is mostly to ask again until another thread is done.
    fn spins(&self) -> bool {
        let (sched, function) = (&self.profile.sched, self.last().map(|last| last.function.as_str()));
        let of_group = |task: TaskId| {
            let task = sched.tasks.get(task as usize);
            task.is_some_and(|task| task.group == self.group.thread_group)
        };
        let at_leaf = |stack: StackId| {
            let frames = sched.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
            let mut leaf = frames.iter().rev().filter_map(|&id| sched.frames.get(id as usize));
            leaf.find(|frame| !frame.inlined).map(|frame| frame.function.as_str())
        };
        let own = sched.samples.iter().filter(|sample| of_group(sample.task) && at_leaf(sample.stack) == function);
        let (spun, all) = own.fold((0, 0), |(spun, all), sample| {
            (spun + if sample.spin { sample.active_ns } else { 0 }, all + sample.active_ns)
        });
        spun * 2 > all
    }

    /// Callees of the last frame (or roots, if there is none), largest first, with their shares.
    fn below(&self) -> Vec<(&'a str, f64)> {
        let parent = self.last().map(|frame| frame.node);
        let of = |node: &&WalkNode| node.group == self.chain.group && node.parent == parent;
        let whole = self.group.total.max(1) as f64;
        let mut callees: Vec<(&str, f64)> = self
            .profile
            .walk
            .nodes
            .iter()
            .filter(of)
            .map(|node| (node.function.as_str(), node.total as f64 / whole))
            .collect();
        callees.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        callees
    }
}

/// What shares are shares of.
pub(crate) fn whole(session: &WalkSession) -> &'static str {
    match session.metric {
        _ if session.critical => "critical time",
        Metric::Wall => "time",
        Metric::Cpu => "CPU time",
        Metric::PageFaults => "page faults",
        Metric::Cycles => "CPU cycles",
        Metric::CacheMisses => "cache misses",
    }
}

/// A node's part and times: total, on CPU, runnable, blocked.
type Times = [i64; 4];

fn times(node: &WalkNode) -> Times {
    [node.total, node.on_ns, node.runnable_ns, node.blocked_ns]
}

fn share(share: f64) -> String {
    percent(share * 100.0)
}

/// `huffman 9.9 %, dequantize 8.9 %, idct 8.4 %`.
fn largest(callees: &[(&str, f64)]) -> String {
    callees
        .iter()
        .take(3)
        .map(|(name, part)| format!("{} {}", brief(name), share(*part)))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn conclusion(ending: &Ending<'_>) -> String {
    let of = format!("{}'s {}", ending.group.thread_group, whole(ending.session));
    let threshold = share(ending.session.threshold);
    let Some(last) = ending.last() else {
        let roots = ending.below();
        if ending.group.total <= 0 {
            return format!("Nothing was seen of {of}: the threads idled or ended too soon.");
        }
        return match roots.first() {
            None => format!("No function could be told apart in {of}: no sample and no stack was taken."),
            Some((UNKNOWN, part)) => {
                let rest = if roots.len() > 1 {
                    format!("; of the rest the largest: {}", largest(&roots[1..]))
                } else {
                    String::new()
                };
                format!(
                    "Of {} of {of} it is not known which function holds it: its stacks have no beginning, or none was taken{rest}.",
                    share(*part)
                )
            }
            Some(_) => format!("No function holds {threshold} of {of}; the largest: {}.", largest(&roots)),
        };
    };
    let function = brief(&last.function);
    // A share from a handful of samples is a hint, and must read like one. Of a part the interval is as wide.
    let in_words = |part: f64| match last.share_high - last.share_low >= WIDE {
        true => {
            let bound = |bound: f64| share((bound - last.share + part).clamp(0.0, 1.0));
            format!("{} ({} to {}, few samples)", share(part), bound(last.share_low), bound(last.share_high))
        }
        false => share(part),
    };
    let part = in_words(ending.chain.share);
    match ending.chain.ends {
        WalkEnd::Waiting if is_crowded(ending.all(last)) => {
            format!("Ends in waiting: {part} of {of} is spent in {function}, most of it runnable, without a CPU.")
        }
        WalkEnd::Waiting => {
            let woken = match ending.chain.woken_by.as_str() {
                "" => String::new(),
                waker => format!("; woken by {waker}"),
            };
            let what = waiting_in_words(&ending.chain.waiting_for);
            format!("Ends in waiting: {part} of {of} is spent in {function} waiting for {what}{woken}.")
        }
        WalkEnd::Function => {
            let [total, on, runnable, blocked] = ending.own(last);
            let part = in_words(total as f64 / ending.group.total.max(1) as f64);
            let (ns, what) = [(on, "on CPU"), (runnable, "runnable, without a CPU"), (blocked, "blocked")]
                .into_iter()
                .max_by_key(|&(ns, _)| ns)
                .unwrap_or_default();
            let how = match ending.session.metric {
                Metric::Wall if !ending.session.critical => format!(", {} of it {what}", time(ns)),
                _ => String::new(),
            };
            match ending.spins() {
                true => {
                    format!("Ends in a loop that waits for another thread: {function} holds {part} of {of}{how}.")
                }
                false => format!("Ends in a function: {function} itself holds {part} of {of}{how}."),
            }
        }
        WalkEnd::Spread | WalkEnd::NothingAboveThreshold => {
            let callees = ending.below();
            let list = if callees.is_empty() { String::new() } else { format!("; the largest: {}", largest(&callees)) };
            format!("Spreads out: {function} holds {part} of {of}, but nothing it calls holds {threshold}{list}.")
        }
    }
}

/// Most of the time no CPU was free.
fn is_crowded([_, on, runnable, blocked]: Times) -> bool {
    runnable > on.saturating_add(blocked)
}

pub(super) fn next(ending: &Ending<'_>) -> String {
    let place = ending.last_of_program().map(|frame| {
        let line = if frame.line > 0 { format!(":{}", frame.line) } else { String::new() };
        match frame.file.as_str() {
            "" => match &frame.component {
                Some(component) => format!("{} ({component})", brief(&frame.function)),
                None => brief(&frame.function),
            },
            file => format!("{} ({}{line})", brief(&frame.function), crate::names::file_name(file)),
        }
    });
    if ending.last().is_some_and(|last| last.function == RECORDING_OVERHEAD) {
        return OWN_START.to_owned();
    }
    match ending.chain.ends {
        WalkEnd::Waiting if ending.last().is_some_and(|last| is_crowded(ending.all(last))) => NO_CPU.to_owned(),
        WalkEnd::Waiting => waiting_next(ending, place.as_deref()),
        WalkEnd::Function => match (ending.last(), place) {
            (Some(last), _) if is_crowded(ending.own(last)) => NO_CPU.to_owned(),
            (Some(_), _) if ending.spins() => "See who it waits for: --view criticality".to_owned(),
            (Some(last), Some(place)) if last.space == Space::Kernel => {
                format!("The kernel works for {place}: call it less often, or for more at a time.")
            }
            (Some(last), Some(place)) if ending.last_of_program().is_some_and(|of| of.function != last.function) => {
                format!("{} takes the time: have {place} call it less often, or on less.", brief(&last.function))
            }
            (Some(_), Some(place)) => {
                format!("Look at {place}: make it faster, or call it less often.")
            }
            _ => String::new(),
        },
        WalkEnd::Spread | WalkEnd::NothingAboveThreshold => {
            // The largest callee, a bit below, so that the search goes on there. What has no name leads nowhere.
            let below = ending.below();
            let known = below.iter().find(|(name, _)| !matches!(*name, UNKNOWN | RECORDING_OVERHEAD | WAITING_FOR_CPU));
            let lower = (known.map_or(0.0, |(_, part)| *part) * 90.0).floor();
            let unknown = below.iter().filter(|(name, _)| *name == UNKNOWN).map(|(_, part)| *part).sum::<f64>();
            if unknown >= ending.session.threshold {
                unknown_next(ending)
            } else if lower < 1.0 {
                "Measure again under load, or for longer (--duration).".to_owned()
            } else if lower >= ending.session.threshold * 100.0 {
                String::new()
            } else {
                let target = ending.target();
                format!(
                    "To go on from here, record with a lower threshold: transect walk --threshold {lower:.0}% {target}"
                )
            }
        }
    }
}

/// Advice where most stacks do not say where they begin.
fn unknown_next(ending: &Ending<'_>) -> String {
    let seen: i64 = ending
        .profile
        .walk
        .nodes
        .iter()
        .filter(|node| node.group == ending.chain.group && node.parent.is_none())
        .map(|node| node.samples)
        .sum();
    match seen < FEW_SAMPLES {
        true => format!(
            "It ran for too short a time to tell more ({}).",
            counted(seen, "sample or wait", "samples and waits")
        ),
        false => "Which stacks are missing, and why: --view loss.".to_owned(),
    }
}

fn waiting_next(ending: &Ending<'_>, place: Option<&str>) -> String {
    let (kind, _) = kind_and_object(&ending.chain.waiting_for);
    let place = place.unwrap_or("the caller");
    let waker = ending.chain.woken_by.split(" in ").next().unwrap_or_default();
    // The waker is a thread of this recording: its own chain says why it takes so long.
    let is_waker = |group: &&WalkGroup| {
        let process = ending.profile.processes.get(group.process as usize);
        let executable = process.map_or("", |process| crate::names::file_name(&process.executable));
        !waker.is_empty() && (group.thread_group == waker || (group.thread_group == "main" && executable == waker))
    };
    // Of many processes of one program, the one that took longest.
    let known = ending.profile.walk.groups.iter().rev().filter(is_waker).max_by_key(|group| group.total);
    match (kind, known) {
        (Some(WaitKind::FileSync), _) => {
            format!("Sync less often or several writes at once in {place}, or use a faster disk.")
        }
        (Some(WaitKind::FileRead | WaitKind::PageFault), _) => {
            format!("Read ahead or keep the data in memory: {place} waits for every piece.")
        }
        (Some(WaitKind::FileWrite), _) => format!("Write less, or later, in {place}; or use a faster disk."),
        (Some(WaitKind::RunQueue), _) => NO_CPU.to_owned(),
        (Some(WaitKind::Sleep), _) => format!("{place} sleeps on purpose: if there is work meanwhile, do not sleep."),
        (kind, Some(group)) => {
            let pid = ending.profile.processes.get(group.process as usize).map_or(0, |process| process.pid);
            let whose = format!("the chain of {waker}, {} of process {pid}", group.thread_group);
            match kind {
                Some(WaitKind::Pipe | WaitKind::Socket | WaitKind::Poll | WaitKind::Condition | WaitKind::Futex) => {
                    format!("Unless {place} merely waits for work, see {whose}: what takes it so long?")
                }
                _ => format!("See {whose}: what takes it so long?"),
            }
        }
        (
            Some(WaitKind::Mutex | WaitKind::Rwlock | WaitKind::Condition | WaitKind::Barrier | WaitKind::Semaphore)
            | Some(WaitKind::Join | WaitKind::Futex | WaitKind::Spin),
            None,
        ) => match ending.profile.sched.tasks.is_empty() {
            true => format!("See who holds it up: transect criticality {}", ending.target()),
            false => "See who holds it up: --view criticality".to_owned(),
        },
        (_, None) if waker == "interrupt" => {
            format!("A device or a timer ends the wait: {place} waits for the outside, or for a time.")
        }
        (Some(WaitKind::Pipe | WaitKind::Socket | WaitKind::Poll | WaitKind::Child), None) if !waker.is_empty() => {
            format!("The answer comes from {waker}: walk that process (transect walk -p PID).")
        }
        (Some(WaitKind::Pipe | WaitKind::Socket | WaitKind::Poll | WaitKind::Child), None) => {
            format!("If {place} has no work, this is idling; else walk the process that it waits for (-p PID).")
        }
        _ => String::new(),
    }
}
