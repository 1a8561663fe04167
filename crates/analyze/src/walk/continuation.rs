//! Where a chain that ends in waiting goes on: in whoever is waited for (the holder of the lock, else who ended the wait),
//! weighted by the time waited. CrossWalk's second Squid bottleneck needs it: `select` in the proxy, `unlink` in its helper.
//!
//! The walk's own tables hold sums by thread group; who was waited for and when, the scheduler's do.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{ComponentId, Profile, Space, StackFrame, StackId, TaskId, WalkChain, WalkEnd, WalkGroup};

use super::waiting::kind_and_object;
use crate::Names;
use crate::criticality::{begins_there, is_agent, is_c_library, public_name, wait_stacks};
use crate::names::file_name;

/// Waits that are followed, the longest first.
const FOLLOWED: usize = 50_000;
/// Threads that wait for one another, at most.
const DEEPEST: usize = 6;
/// Whoever is waited for less than this part of the time is not what the chain waits for.
const LEAST_PARTNER: f64 = 0.5;

/// What the thread group did that a chain waits for, while it waited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkContinuation {
    /// The threads that were waited for.
    pub thread_group: String,
    /// Their process; of several that run one program, the one that was waited for longest.
    pub process: i32,
    /// Processes that were waited for: one, or several that run one program (a compiler that is started for each file).
    pub processes: i64,
    /// Its executable (file name).
    pub executable: String,
    /// Part of the waiting group's total that was waited for them, 0.0–1.0.
    pub waited_share: f64,
    /// Part of it that the last frame holds.
    pub share: f64,
    /// Why it ends there.
    pub ends: WalkEnd,
    /// Kind and object, if it waits again.
    pub waiting_for: String,
    /// Its frames, root first; none if no function of it has enough.
    pub frames: Vec<WalkContinuedFrame>,
}

/// One frame of a continuation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkContinuedFrame {
    /// Its name; a system call's is bare.
    pub function: String,
    /// The component that holds it (display name); `None` for the kernel and for code without a file.
    pub component: Option<String>,
    /// User or kernel.
    pub space: Space,
    /// Part of the waiting group's total, 0.0–1.0.
    pub share: f64,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line in it; 0 if unknown.
    pub line: i32,
}

/// Follows chains of one profile.
pub(super) struct Continuations<'a> {
    profile: &'a Profile,
    names: &'a Names,
    threshold: f64,
    agent: Vec<bool>,
    c_library: Vec<bool>,
    wait_stacks: Vec<Option<StackId>>,
    /// Rows of each thread, in order of time.
    moments: Vec<Vec<usize>>,
    waits: Vec<Vec<usize>>,
}

/// A stretch of waiting: how much, and between which instants.
struct Stretch {
    task: TaskId,
    range: Range<i64>,
    ns: f64,
    /// Row of the wait.
    row: usize,
}

/// Time by source line.
type Lines<'a> = BTreeMap<(&'a str, i32), f64>;

/// Threads of one name of one program, in however many processes: executable and name.
type Kind<'a> = (&'a str, &'a str);

/// Who is waited for.
struct Next {
    continuation: WalkContinuation,
    /// The row of each process of it, and its name.
    groups: Vec<(u32, String)>,
    /// The waits that it ends in.
    waits: Vec<Stretch>,
}

/// What threads did in some time, as weights of their stacks.
#[derive(Default)]
struct Activity {
    /// Blocked, by wait: each a stretch of its own.
    blocked: Vec<Stretch>,
    /// Active, by stack, ns.
    active: BTreeMap<StackId, f64>,
}

impl<'a> Continuations<'a> {
    /// `None` where nobody recorded who waited for whom.
    pub fn new(profile: &'a Profile, names: &'a Names, threshold: f64) -> Option<Self> {
        let tables = &profile.sched;
        let whole = profile.meta.criticality.as_ref().is_some_and(|session| !session.estimate);
        if !whole || tables.waits.is_empty() || !profile.walk.chains.iter().any(|chain| chain.ends == WalkEnd::Waiting)
        {
            return None;
        }
        let by_task = |rows: &mut dyn Iterator<Item = (TaskId, usize)>| {
            let mut of_task = vec![Vec::new(); tables.tasks.len()];
            rows.for_each(|(task, row)| of_task[task as usize].push(row));
            of_task
        };
        let mut waits = by_task(&mut tables.waits.iter().enumerate().map(|(row, wait)| (wait.task, row)));
        // Sums of waits have no time of their own.
        for rows in &mut waits {
            rows.retain(|&row| !tables.waits[row].is_sum());
            rows.sort_by_key(|&row| tables.waits[row].begin_ns);
        }
        let files = || profile.components.iter().map(|component| component.path.as_str());
        Some(Self {
            profile,
            names,
            threshold,
            agent: files().map(is_agent).collect(),
            c_library: files().map(|path| is_c_library(file_name(path))).collect(),
            wait_stacks: wait_stacks(tables),
            moments: by_task(&mut tables.moments.iter().enumerate().map(|(row, moment)| (moment.task, row))),
            waits,
        })
    }

    /// Who a chain waits for and where they were meanwhile, one after the other; empty if it does not wait, or for nobody.
    pub fn of(&self, chain: &WalkChain) -> Vec<WalkContinuation> {
        let mut found = Vec::new();
        let Some(group) = self.profile.walk.groups.get(chain.group as usize) else { return found };
        if chain.ends != WalkEnd::Waiting {
            return found;
        }
        let mut waits = self.waits_of(chain, group);
        let mut share = chain.share;
        let mut met: Vec<(u32, String)> = vec![self.group_of_walk(group)];
        while found.len() < DEEPEST {
            let Some(next) = self.go_on(&waits, share, &met) else { break };
            let is_waiting = next.continuation.ends == WalkEnd::Waiting;
            (share, waits) = (next.continuation.share, next.waits);
            met.extend(next.groups);
            found.push(next.continuation);
            if !is_waiting {
                break;
            }
        }
        found
    }

    /// A walk's group as the scheduler's tables name it.
    fn group_of_walk(&self, group: &WalkGroup) -> (u32, String) {
        let pid = self.profile.processes.get(group.process as usize).map_or(0, |process| process.pid);
        let main = || self.profile.sched.tasks.iter().find(|task| task.process == group.process && task.tid == pid);
        let name = match group.thread_group.as_str() {
            "main" => main().map_or("main", |task| task.group.as_str()),
            name => name,
        };
        (group.process, name.to_owned())
    }

    fn group(&self, task: TaskId) -> Option<(u32, &'a str)> {
        self.profile.sched.tasks.get(task as usize).map(|task| (task.process, task.group.as_str()))
    }

    fn kind(&self, group: (u32, &'a str)) -> Kind<'a> {
        (self.profile.processes.get(group.0 as usize).map_or("", |process| process.executable.as_str()), group.1)
    }

    /// The waits that a chain ends in.
    fn waits_of(&self, chain: &WalkChain, group: &WalkGroup) -> Vec<Stretch> {
        let (kind, _) = kind_and_object(&chain.waiting_for);
        let (process, name) = self.group_of_walk(group);
        let nodes = &self.profile.walk.nodes;
        let last = chain.frames.iter().rev().filter_map(|frame| nodes.get(frame.node as usize));
        let last = last.into_iter().find(|node| node.space == Space::User).map_or("", |node| node.function.as_str());
        let tables = &self.profile.sched;
        let has = |stack: StackId| {
            let frames = tables.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
            frames.iter().any(|&id| tables.frames.get(id as usize).is_some_and(|frame| frame.function == last))
        };
        let through = |row: usize| last.is_empty() || self.wait_stacks[row].is_some_and(has);
        let mut rows: Vec<usize> = (0..self.profile.sched.tasks.len())
            .filter(|&task| self.group(task as TaskId) == Some((process, name.as_str())))
            .flat_map(|task| self.waits[task].iter().copied())
            .filter(|&row| kind.is_none_or(|kind| self.profile.sched.waits[row].kind == kind) && through(row))
            .collect();
        rows.sort_by_key(|&row| std::cmp::Reverse(self.profile.sched.waits[row].ns));
        rows.truncate(FOLLOWED);
        rows.into_iter().map(|row| self.stretch(row)).collect()
    }

    fn stretch(&self, row: usize) -> Stretch {
        let wait = &self.profile.sched.waits[row];
        Stretch { task: wait.task, range: wait.begin_ns..wait.end_ns, ns: wait.ns as f64, row }
    }

    /// The group that `waits` are for, what it did meanwhile, and its waits at the end of that.
    fn go_on(&self, waits: &[Stretch], share: f64, met: &[(u32, String)]) -> Option<Next> {
        let partner = |stretch: &Stretch| {
            let wait = &self.profile.sched.waits[stretch.row];
            wait.holder.or(wait.waker).map(|party| party.task).filter(|&task| task != stretch.task)
        };
        let all: f64 = waits.iter().map(|stretch| stretch.ns).sum();
        let mut by_group: BTreeMap<(u32, &str), f64> = BTreeMap::new();
        for stretch in waits {
            if let Some(group) = partner(stretch).and_then(|task| self.group(task)) {
                *by_group.entry(group).or_default() += stretch.ns;
            }
        }
        // One that starts a process for each piece of work waits for all of them.
        let mut by_kind: BTreeMap<Kind<'_>, f64> = BTreeMap::new();
        for (&group, &ns) in &by_group {
            *by_kind.entry(self.kind(group)).or_default() += ns;
        }
        let (kind, ns) = by_kind.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        by_group.retain(|&group, _| self.kind(group) == kind);
        let (&group, _) = by_group.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        if ns < all * LEAST_PARTNER {
            return None;
        }
        let is_partner = |task: TaskId| self.group(task).is_some_and(|group| self.kind(group) == kind);
        let mut activity = Activity::default();
        for stretch in waits {
            let Some(task) = partner(stretch).filter(|&task| is_partner(task)) else { continue };
            self.observe(task, &stretch.range, &mut activity);
        }
        let blocked: f64 = activity.blocked.iter().map(|stretch| stretch.ns).sum();
        let seen = activity.active.values().sum::<f64>() + blocked;
        let waited_share = share * ns / all;
        // Who is waited for is known even where no function of it has much of that time, or none was seen.
        let found = if seen > 0.0 { self.descend(&activity, waited_share / seen) } else { None };
        let (frames, ends, last) = match found {
            Some(found) => found,
            None if waited_share < self.threshold => return None,
            // From wherever it waits in turn.
            None if blocked >= seen / 2.0 && seen > 0.0 => (Vec::new(), WalkEnd::Waiting, activity.blocked),
            None => (Vec::new(), WalkEnd::NothingAboveThreshold, Vec::new()),
        };
        let of_all = if ends == WalkEnd::Waiting { blocked / seen } else { 1.0 };
        // Threads that wait for one another in a circle say nothing new.
        let is_at_work = matches!(ends, WalkEnd::Function | WalkEnd::Spread);
        if !is_at_work && met.iter().any(|(process, name)| (*process, name.as_str()) == group) {
            return None;
        }
        let process = self.profile.processes.get(group.0 as usize);
        let waiting_for = if ends == WalkEnd::Waiting { self.waiting_for(&last) } else { String::new() };
        let continuation = WalkContinuation {
            thread_group: group.1.to_owned(),
            process: process.map_or(0, |process| process.pid),
            processes: by_group.len() as i64,
            executable: process.map_or("", |process| file_name(&process.executable)).to_owned(),
            waited_share,
            share: frames.last().map_or(waited_share * of_all, |frame| frame.share),
            ends,
            waiting_for,
            frames,
        };
        let groups = by_group.into_keys().map(|(process, name)| (process, name.to_owned())).collect();
        Some(Next { continuation, groups, waits: last })
    }

    /// Adds what a thread did in a stretch of time.
    fn observe(&self, task: TaskId, range: &Range<i64>, activity: &mut Activity) {
        let tables = &self.profile.sched;
        let Some(life) = tables.tasks.get(task as usize) else { return };
        let range = range.start.max(life.start_ns)..range.end.min(life.end_ns.max(range.start));
        let mut active = (range.end - range.start).max(0) as f64;
        let rows = &self.waits[task as usize];
        // Waits of one thread don't overlap.
        let first = rows.partition_point(|&row| tables.waits[row].end_ns <= range.start);
        for &row in rows[first..].iter().take_while(|&&row| tables.waits[row].begin_ns < range.end) {
            let wait = &tables.waits[row];
            let part = wait.begin_ns.max(range.start)..wait.end_ns.min(range.end);
            let ns = (part.end - part.start).max(0) as f64;
            active -= ns;
            activity.blocked.push(Stretch { task, range: part, ns, row });
        }
        if active <= 0.0 {
            return;
        }
        let rows = &self.moments[task as usize];
        let from = rows.partition_point(|&row| tables.moments[row].time_ns < range.start);
        let to = rows.partition_point(|&row| tables.moments[row].time_ns < range.end);
        // Where no sample fell into the stretch, all of the thread's stand for it.
        let seen = if from < to { &rows[from..to] } else { &rows[..] };
        let all: f64 = seen.iter().map(|&row| tables.moments[row].period_ns.max(1) as f64).sum();
        for moment in seen.iter().map(|&row| &tables.moments[row]) {
            *activity.active.entry(moment.stack).or_default() += active * moment.period_ns.max(1) as f64 / all;
        }
    }

    /// Down from the root as long as one function holds enough; `None` if not even the root does.
    fn descend(&self, activity: &Activity, scale: f64) -> Option<(Vec<WalkContinuedFrame>, WalkEnd, Vec<Stretch>)> {
        let mut stacks: FxHashMap<StackId, (f64, f64)> = FxHashMap::default();
        for (&stack, &ns) in &activity.active {
            stacks.entry(stack).or_default().0 += ns;
        }
        for stretch in &activity.blocked {
            if let Some(stack) = self.wait_stacks[stretch.row] {
                stacks.entry(stack).or_default().1 += stretch.ns;
            }
        }
        let mut paths: Vec<(Vec<&StackFrame>, StackId, f64)> =
            stacks.iter().map(|(&stack, (active, blocked))| (self.path(stack), stack, active + blocked)).collect();
        paths.sort_by_key(|(_, stack, _)| *stack);
        let mut frames: Vec<WalkContinuedFrame> = Vec::new();
        loop {
            let depth = frames.len();
            let mut below: BTreeMap<(&str, Option<ComponentId>), (f64, Lines<'_>)> = BTreeMap::new();
            for (path, _, ns) in &paths {
                let Some(frame) = path.get(depth) else { continue };
                let (sum, lines) = below.entry((self.function(frame), frame.component)).or_default();
                *sum += ns;
                *lines.entry((frame.file.as_str(), frame.line)).or_default() += ns;
            }
            let heaviest = below.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
            let heaviest = heaviest.filter(|(_, (ns, _))| ns * scale >= self.threshold);
            let Some(((function, component), (ns, lines))) = heaviest else { break };
            let (function, line) = (function.to_owned(), lines.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)));
            let (file, line) = line.map_or((String::new(), 0), |((file, line), _)| (file.to_owned(), line));
            let is_here = |frame: &&StackFrame| self.function(frame) == function && frame.component == component;
            paths.retain(|(path, _, _)| path.get(depth).is_some_and(is_here));
            let space = paths.first().and_then(|(path, _, _)| path.get(depth)).map_or(Space::User, |frame| frame.space);
            let component = component.map(|id| self.names.get(id).to_owned());
            frames.push(WalkContinuedFrame { function, component, space, share: ns * scale, file, line });
        }
        let last = frames.last()?;
        let within = |stack: StackId| paths.iter().any(|(_, other, _)| *other == stack);
        let waits: Vec<&Stretch> =
            activity.blocked.iter().filter(|stretch| self.wait_stacks[stretch.row].is_some_and(within)).collect();
        let blocked: f64 = waits.iter().map(|stretch| stretch.ns).sum();
        let own: f64 = paths.iter().filter(|(path, _, _)| path.len() == frames.len()).map(|(_, _, ns)| ns).sum();
        let ends = match last.share {
            share if blocked * scale >= share / 2.0 => WalkEnd::Waiting,
            share if own * scale >= (share / 2.0).min(self.threshold) => WalkEnd::Function,
            _ => WalkEnd::Spread,
        };
        let copy = |stretch: &&Stretch| Stretch { range: stretch.range.clone(), ..**stretch };
        let waits = waits.iter().map(copy).collect();
        Some((frames, ends, waits))
    }

    /// Kind and object of most of the time.
    fn waiting_for(&self, waits: &[Stretch]) -> String {
        let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for stretch in waits {
            let wait = &self.profile.sched.waits[stretch.row];
            *sums.entry((wait.kind.as_str(), &wait.object)).or_default() += stretch.ns;
        }
        let most = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or_else(String::new, |((kind, object), _)| match object {
            "" => kind.to_owned(),
            object => format!("{kind}: {object}"),
        })
    }

    /// A stack as a walk shows it: from `main` or the thread's start routine on, of the C library the function that was called.
    fn path(&self, stack: StackId) -> Vec<&'a StackFrame> {
        let tables = &self.profile.sched;
        let Some(stack) = tables.stacks.get(stack as usize) else { return Vec::new() };
        let is = |of: &[bool], frame: &StackFrame| frame.component.is_some_and(|id| of.get(id as usize) == Some(&true));
        let frames = stack.frames.iter().filter_map(|&id| tables.frames.get(id as usize));
        let frames: Vec<&StackFrame> = frames.filter(|frame| !is(&self.agent, frame)).collect();
        let main = frames.iter().position(|frame| frame.function == "main");
        let begins = |frame: &&&StackFrame| begins_there(&frame.function);
        let first = main.unwrap_or_else(|| frames.iter().take_while(begins).count());
        let mut path: Vec<&StackFrame> = Vec::new();
        for frame in frames.get(first..).unwrap_or_default() {
            let inside = |before: &&StackFrame| is(&self.c_library, before) && is(&self.c_library, frame);
            if !path.last().is_some_and(inside) {
                path.push(frame);
            }
        }
        path
    }

    fn function<'b>(&self, frame: &'b StackFrame) -> &'b str {
        let in_c_library = frame.component.is_some_and(|id| self.c_library.get(id as usize) == Some(&true));
        if in_c_library { public_name(&frame.function) } else { &frame.function }
    }
}

#[cfg(test)]
mod tests;
