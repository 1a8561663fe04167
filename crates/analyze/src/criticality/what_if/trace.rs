//! A stretch of the recording as steps of each thread: work, and the points at which it wakes, starts or waits for
//! others.

use rustc_hash::FxHashMap;
use transect_profile_model::{OtherThread, SchedWait, WaitKind};

use super::super::Source;
use super::demand::{CLASSES, Queues, measure};
use super::hold::Holds;
use super::lock::LockKey;
use super::made_for::add_requests;
use super::meeting::{Meetings, arrange};
use super::polling::Polling;
use super::pooling::Pooling;
use super::timeline::{SKEW, Timelines};

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A piece of work.
    Work(u32),
    /// The waits within a piece that were not seen one by one.
    Pause(u32),
    /// Ends a wait.
    Fire(u32),
    /// Comes to a meeting at which it did not have to wait.
    Meet(u32),
    /// Starts a thread.
    Spawn(u32),
    /// Waits.
    Block(u32),
    /// Takes a mutex, or waits for it.
    Lock(u32),
    /// Gives it back.
    Unlock(u32),
    /// Goes on only after a thread's end.
    Await(u32),
}

/// Work between two points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub task: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Its thread (see [`Pooling`]), what it comes after and what before: pieces alike are made of the same code.
    pub signature: u32,
    /// A stack that it is known to begin with.
    pub stack: Option<u32>,
    /// CPU time that it takes, ns, by class of the number of active threads.
    pub demand: [f32; CLASSES],
    /// Time in it that its thread waited without being seen one by one, ns.
    pub pause: f32,
    /// Time in it that its thread queued for a CPU although the threads on CPUs left it its part of one, ns: it waited for a thread
    /// before it on the same CPU, or for other programs. After it was woken, ...
    pub lag: f32,
    /// ... and after it had lost its CPU.
    pub preempted: f32,
}

impl Piece {
    /// CPU time that it takes, ns.
    pub fn work(&self) -> f64 {
        self.demand.iter().map(|&part| f64::from(part)).sum()
    }
}

/// How a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// By a step of another thread.
    Token,
    /// When all of a meeting have come.
    Meeting(u32),
    /// After its time.
    Time,
    /// After the stretch that is looked at.
    Never,
}

/// One wait of the stretch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// Row of the table.
    pub row: u32,
    pub ending: Ending,
    /// Time left when it was begun, or when the stretch begins, ns.
    pub ns: f64,
    /// From the end of this thread's wait before it to its own end; what a thread of fixed rate keeps.
    pub period: f64,
    /// Threads of fixed rate sleep less if they work longer.
    pub elastic: bool,
    /// What a holder did that ran all the time from its begin to its end.
    pub held: Option<u32>,
}

/// One hold of a mutex in the stretch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Possession {
    /// Number of the mutex.
    pub mutex: u32,
    /// How long its thread waited for it, ns.
    pub waited: f64,
    pub begin_ns: i64,
    /// It is given back at once.
    pub passing: bool,
}

/// Steps of all threads in a stretch of time.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub start_ns: i64,
    pub end_ns: i64,
    /// Per thread its range in `steps`.
    pub threads: Vec<(u32, u32)>,
    pub steps: Vec<Step>,
    pub pieces: Vec<Piece>,
    pub waits: Vec<Wait>,
    pub holds: Vec<Possession>,
    /// Of each mutex the hold that began before the stretch.
    pub owned: Vec<Option<u32>>,
    /// Number of different signatures.
    pub signatures: usize,
    /// Threads that others start in the stretch.
    pub spawned: Vec<bool>,
    /// Start of threads whose maker is not known, since the stretch's start, ns.
    pub late: Vec<f64>,
    /// Members of each meeting.
    pub meetings: Vec<u32>,
    /// The thread with whose end the recording ended.
    pub last: Option<u32>,
    /// Threads that ended of themselves before it: somebody may have waited for that without having to wait.
    pub ended: Vec<bool>,
    /// Threads, with begin and end of the time in which they slept again and again until something was done.
    pub polled: Vec<(u32, i64, i64)>,
}

/// What a thread comes to at some instant; in the order of points at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    /// A thread has ended that it joined.
    Await(u32),
    /// From here on somebody waits for a lock that it holds.
    Held(u32),
    /// It ends a wait.
    Fire(u32),
    /// It gives a mutex back.
    Unlock(u32),
    /// It comes to a meeting.
    Meet(u32),
    /// It starts a thread.
    Spawn(u32),
    /// It comes for a mutex.
    Lock(u32),
    /// It waits.
    Block(u32),
}

pub(super) type Points = Vec<(u32, i64, Point)>;

/// Cuts the stretch from `start_ns` to `end_ns` into steps.
pub(super) fn trace(
    source: &Source<'_>,
    (timelines, polling, queues): (&Timelines, &Polling, &Queues),
    (holds, keys): (&Holds, &[Option<LockKey>]),
    (start_ns, end_ns): (i64, i64),
    meet: Meetings,
) -> Trace {
    let mut trace = Trace { start_ns, end_ns, ..Trace::default() };
    let mut points: Points = Vec::new();
    add_waits(&mut trace, &mut points, source, timelines, |row| holds.find(keys[row as usize]).is_none());
    add_holds(&mut trace, &mut points, source, timelines, holds);
    add_threads(&mut trace, &mut points, source, timelines);
    add_requests(&mut trace, &mut points, source);
    polling.shorten(&mut trace, &mut points);
    arrange(source, timelines, &mut trace, &mut points, meet);
    points.sort_unstable();
    let mut cutter = Cutter::new(source, timelines, &queues.pooling, trace);
    let mut rest = &points[..];
    for task in 0..source.tables.tasks.len() as u32 {
        let mine = rest.partition_point(|&(of, ..)| of <= task);
        cutter.thread(task, &rest[..mine]);
        rest = &rest[mine..];
    }
    let mut trace = cutter.trace;
    measure(&mut trace, source, timelines, queues);
    for piece in &mut trace.pieces {
        let polls =
            |&(task, begin, end): &(u32, i64, i64)| task == piece.task && begin < piece.end_ns && end > piece.start_ns;
        if trace.polled.iter().any(polls) {
            piece.pause = 0.0;
        }
    }
    trace
}

/// `wanted`: rows that are replayed as waits.
fn add_waits(
    trace: &mut Trace,
    points: &mut Points,
    source: &Source<'_>,
    timelines: &Timelines,
    wanted: impl Fn(u32) -> bool,
) {
    let tables = source.tables;
    let (start_ns, end_ns) = (trace.start_ns, trace.end_ns);
    let inside = |at: &i64| *at >= start_ns && *at <= end_ns;
    for rows in &timelines.single {
        let wait = |row: u32| &tables.waits[row as usize];
        let from = rows.partition_point(|&row| wait(row).end_ns <= start_ns);
        let mut before = rows[..from].last().map_or(start_ns, |&row| wait(row).end_ns);
        for &row in rows[from..].iter().take_while(|&&row| wait(row).begin_ns < end_ns) {
            let wait = wait(row);
            if !wanted(row) {
                before = wait.end_ns;
                continue;
            }
            let id = trace.waits.len() as u32;
            let party = wait.waker.or(wait.holder).filter(|party| party.task != wait.task);
            let fired = party.and_then(|party| Some((party.task, timelines.active(tables, party.task, wait.end_ns)?)));
            let ending = match fired.filter(|(_, at)| inside(at)) {
                _ if wait.end_ns > end_ns => Ending::Never,
                Some((task, at)) => {
                    points.push((task, at, Point::Fire(id)));
                    Ending::Token
                }
                None => Ending::Time,
            };
            points.push((wait.task, wait.begin_ns.max(start_ns), Point::Block(id)));
            let mut stack = None;
            if let Some(holder) = held(wait).filter(|_| inside(&wait.begin_ns) && ending == Ending::Token)
                && timelines.waited(tables, holder.task, (wait.begin_ns, wait.end_ns), |_| true) == 0
            {
                points.push((holder.task, wait.begin_ns, Point::Held(id)));
                stack = source.holders.stack(row as usize);
            }
            let ns = (wait.end_ns - wait.begin_ns.max(start_ns)) as f64;
            let period = (wait.end_ns - before.max(start_ns)) as f64;
            before = wait.end_ns;
            trace.waits.push(Wait { row, ending, ns, period, elastic: false, held: stack });
        }
    }
}

/// The mutexes whose holds are known.
fn add_holds(trace: &mut Trace, points: &mut Points, source: &Source<'_>, timelines: &Timelines, holds: &Holds) {
    trace.owned = vec![None; holds.0.len()];
    for (mutex, (_, holds)) in holds.0.iter().enumerate() {
        for hold in holds.iter().filter(|hold| hold.end_ns > trace.start_ns && hold.want_ns < trace.end_ns) {
            let id = trace.holds.len() as u32;
            trace.holds.push(Possession {
                mutex: mutex as u32,
                waited: (hold.begin_ns - hold.want_ns.max(trace.start_ns)).max(0) as f64,
                begin_ns: hold.begin_ns,
                passing: hold.end_ns == hold.begin_ns,
            });
            if hold.begin_ns <= trace.start_ns {
                trace.owned[mutex] = Some(id);
            } else {
                points.push((hold.task, hold.want_ns.max(trace.start_ns), Point::Lock(id)));
            }
            let given = hold.end_ns > hold.begin_ns && hold.end_ns <= trace.end_ns;
            if let Some(at) = timelines.active(source.tables, hold.task, hold.end_ns).filter(|_| given) {
                points.push((hold.task, at, Point::Unlock(id)));
            }
        }
    }
}

/// The thread that held the lock from the wait's begin to its end.
fn held(wait: &SchedWait) -> Option<OtherThread> {
    let lock = matches!(wait.kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock);
    let holder = wait.holder.filter(|holder| lock && holder.task != wait.task)?;
    wait.waker.is_none_or(|waker| waker.task == holder.task).then_some(holder)
}

/// Who starts whom, and who may go on only after whose end.
fn add_threads(trace: &mut Trace, points: &mut Points, source: &Source<'_>, timelines: &Timelines) {
    let tables = source.tables;
    let tasks = &tables.tasks;
    let (start_ns, end_ns) = (trace.start_ns, trace.end_ns);
    trace.spawned = vec![false; tasks.len()];
    trace.late = vec![0.0; tasks.len()];
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (id, task) in tasks.iter().enumerate() {
        let parent = task.parent.filter(|&parent| parent as usize != id && (parent as usize) < tasks.len());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(id as u32);
        }
        if task.start_ns <= start_ns || task.start_ns >= end_ns {
            continue;
        }
        match parent.and_then(|parent| Some((parent, timelines.active(tables, parent, task.start_ns)?))) {
            Some((parent, at)) if at >= start_ns && at <= end_ns => {
                trace.spawned[id] = true;
                points.push((parent, at, Point::Spawn(id as u32)));
            }
            _ => trace.late[id] = (task.start_ns - start_ns) as f64,
        }
    }
    // Of threads that are joined one after the other, waits show only those that ended last.
    let mut awaited = vec![false; tasks.len()];
    let mut joins: Vec<(u32, i64)> = Vec::new();
    for wait in &trace.waits {
        let row = &tables.waits[wait.row as usize];
        if matches!(row.kind, WaitKind::Join | WaitKind::Child) && row.end_ns <= end_ns {
            joins.push((row.task, row.end_ns));
        }
    }
    joins.sort_unstable();
    // A parent's joins are in the order of time, and each meets the children that ended since the one before.
    children.values_mut().for_each(|children| children.sort_by_key(|&child| tasks[child as usize].end_ns));
    let mut met: FxHashMap<u32, usize> = FxHashMap::default();
    for (parent, at) in joins {
        let children = children.get(&parent).map_or(&[][..], Vec::as_slice);
        let met = met.entry(parent).or_default();
        while let Some(&child) = children.get(*met).filter(|&&child| tasks[child as usize].end_ns <= at) {
            *met += 1;
            if tasks[child as usize].end_ns > start_ns && !std::mem::replace(&mut awaited[child as usize], true) {
                points.push((parent, at, Point::Await(child)));
            }
        }
    }
    trace.last = last(source, timelines, trace);
    let over = trace.last.map_or(i64::MIN, |last| tasks[last as usize].end_ns - SKEW);
    trace.ended = tasks.iter().map(|task| task.end_ns < over && task.end_ns > start_ns).collect();
}

/// The thread that was active at the end and with which the program ended: the main thread of the first process, else
/// of another. `None` if all main threads waited: then nobody's end matters more than others'.
fn last(source: &Source<'_>, timelines: &Timelines, trace: &Trace) -> Option<u32> {
    let (start, end) = super::span(source);
    if trace.end_ns < end {
        return None;
    }
    let tolerance = (end - start) / 1_000 + SKEW;
    let tasks = &source.tables.tasks;
    let ended_last = |id: &usize| {
        let task = &tasks[*id];
        let open = timelines.single[*id].last().map(|&row| &source.tables.waits[row as usize]);
        let waited = open.is_some_and(|wait| wait.end_ns >= task.end_ns && wait.ns > tolerance);
        task.group == "main" && task.end_ns >= end - tolerance && !waited
    };
    (0..tasks.len()).filter(ended_last).min_by_key(|&id| (tasks[id].process, id)).map(|id| id as u32)
}

struct Cutter<'a> {
    source: &'a Source<'a>,
    pooling: &'a Pooling,
    trace: Trace,
    /// Threads with waits that were merged.
    merged: Vec<bool>,
    signatures: FxHashMap<(u32, u32, u32), u32>,
    tags: FxHashMap<(u8, Option<WaitKind>, Option<u32>), u32>,
}

impl<'a> Cutter<'a> {
    fn new(source: &'a Source<'a>, timelines: &Timelines, pooling: &'a Pooling, trace: Trace) -> Self {
        Self {
            source,
            pooling,
            trace,
            merged: timelines.merged.iter().map(|rows| !rows.is_empty()).collect(),
            signatures: FxHashMap::default(),
            tags: FxHashMap::default(),
        }
    }

    fn thread(&mut self, task: u32, points: &[(u32, i64, Point)]) {
        let first = self.trace.steps.len() as u32;
        let row = &self.source.tables.tasks[task as usize];
        let mut cursor = row.start_ns.clamp(self.trace.start_ns, self.trace.end_ns);
        let end = row.end_ns.clamp(cursor, self.trace.end_ns);
        let (mut tag, mut stack) = (self.tag(0, None, None), None);
        for &(_, at, point) in points {
            let (next_tag, next_stack) = self.at(point);
            self.work(task, (cursor, at), (tag, next_tag), stack);
            cursor = cursor.max(at);
            (tag, stack) = (next_tag, next_stack);
            let step = match point {
                Point::Await(child) => Step::Await(child),
                Point::Held(_) => continue,
                Point::Fire(wait) => Step::Fire(wait),
                Point::Meet(meeting) => Step::Meet(meeting),
                Point::Spawn(child) => Step::Spawn(child),
                Point::Lock(id) => {
                    let hold = self.trace.holds[id as usize];
                    cursor = hold.begin_ns.clamp(cursor, self.trace.end_ns);
                    self.trace.steps.push(Step::Lock(id));
                    if !hold.passing {
                        continue;
                    }
                    Step::Unlock(id)
                }
                Point::Unlock(id) => Step::Unlock(id),
                Point::Block(wait) => {
                    cursor = self.wait(wait).end_ns.clamp(cursor, self.trace.end_ns);
                    Step::Block(wait)
                }
            };
            self.trace.steps.push(step);
        }
        let last_tag = self.tag(0, None, None);
        self.work(task, (cursor, end), (tag, last_tag), stack);
        self.trace.threads.push((first, self.trace.steps.len() as u32));
    }

    fn wait(&self, id: u32) -> &'a SchedWait {
        &self.source.tables.waits[self.trace.waits[id as usize].row as usize]
    }

    /// The tag of a point, and the stack that is known to run after it.
    fn at(&mut self, point: Point) -> (u32, Option<u32>) {
        match point {
            Point::Await(_) => (self.tag(1, None, None), None),
            Point::Held(id) => {
                let stack = self.trace.waits[id as usize].held;
                (self.tag(2, Some(self.wait(id).kind), stack), stack)
            }
            Point::Fire(id) => {
                let stack = self.wait(id).waker.and_then(|waker| waker.stack);
                (self.tag(3, Some(self.wait(id).kind), stack), None)
            }
            Point::Meet(_) => (self.tag(4, None, None), None),
            Point::Spawn(_) => (self.tag(5, None, None), None),
            Point::Lock(_) => (self.tag(7, None, None), None),
            Point::Unlock(_) => (self.tag(8, None, None), None),
            Point::Block(id) => {
                let stack = self.source.wait_stacks[self.trace.waits[id as usize].row as usize];
                (self.tag(6, Some(self.wait(id).kind), stack), None)
            }
        }
    }

    fn work(&mut self, task: u32, (start_ns, end_ns): (i64, i64), (from, to): (u32, u32), stack: Option<u32>) {
        if end_ns <= start_ns {
            return;
        }
        let next = self.signatures.len() as u32;
        let signature = *self.signatures.entry((self.pooling.of(task), from, to)).or_insert(next);
        self.trace.signatures = self.signatures.len();
        self.trace.steps.push(Step::Work(self.trace.pieces.len() as u32));
        if self.merged[task as usize] {
            self.trace.steps.push(Step::Pause(self.trace.pieces.len() as u32));
        }
        self.trace.pieces.push(Piece {
            task,
            start_ns,
            end_ns,
            signature,
            stack,
            demand: [0.0; CLASSES],
            pause: 0.0,
            lag: 0.0,
            preempted: 0.0,
        });
    }

    fn tag(&mut self, what: u8, kind: Option<WaitKind>, stack: Option<u32>) -> u32 {
        let path = stack.and_then(|stack| self.source.paths.stack(stack)).map(|facts| facts.path);
        let next = self.tags.len() as u32;
        *self.tags.entry((what, kind, path)).or_insert(next)
    }
}
