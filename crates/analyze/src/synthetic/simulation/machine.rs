//! CPUs, locks, barriers, queues and sleeps, instant by instant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use transect_profile_model::{OtherThread, SchedTables, SchedWait, WaitKind};

use super::program::{Do, Program};
use super::{INSTANT, Recording};

/// Instants for which a thread keeps its CPU while others want it.
const QUANTUM: i64 = 400;
/// Mean instants between two samples of a running thread.
pub(super) const SAMPLING: u64 = 150;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    NotStarted,
    Active,
    Blocked,
    Done,
}

pub(super) struct Thread {
    pub state: State,
    pub next: usize,
    /// Instants left of the current step.
    pub left: f64,
    pub spinning: bool,
    /// Since when it has its CPU; `None` without.
    pub on_cpu: Option<i64>,
    /// Which one it has, or had.
    pub cpu: usize,
    pub blocked_at: i64,
    pub kind: WaitKind,
    pub object: String,
    pub holder: Option<OtherThread>,
    /// Criticality gained so far at low parallelism, and each thread's of it when this one blocked.
    pub low: i64,
    pub low_before: Vec<i64>,
    pub timer: Option<i64>,
    pub slice_at: i64,
    /// Fixed point with 16 bits of fraction.
    pub criticality: i64,
    pub sampled: i64,
    pub sliced: i64,
    pub active_ns: i64,
    pub active_sampled: i64,
    pub active_sliced: i64,
    pub running_ns: i64,
    pub started: i64,
    pub ended: i64,
    pub parent: Option<u32>,
}

/// Samples, criticality in fixed point, active ns.
pub(super) type Sampled = (i64, i64, i64);

pub(super) struct Machine<'a> {
    pub program: &'a Program,
    pub now: i64,
    pub threads: Vec<Thread>,
    pub owner: BTreeMap<usize, usize>,
    pub lock_waiters: BTreeMap<usize, VecDeque<usize>>,
    pub barriers: BTreeMap<usize, Vec<usize>>,
    pub spins: BTreeMap<usize, Vec<usize>>,
    pub queues: BTreeMap<usize, usize>,
    pub consumers: BTreeMap<usize, VecDeque<usize>>,
    pub putters: BTreeMap<usize, VecDeque<usize>>,
    pub joiners: BTreeMap<usize, Vec<usize>>,
    pub raised: BTreeSet<usize>,
    pub turn: VecDeque<usize>,
    pub levels: Vec<i64>,
    pub idle_since: Option<i64>,
    pub tables: SchedTables,
    pub frames: BTreeMap<(&'static str, u32), u32>,
    pub stacks: BTreeMap<Vec<u32>, u32>,
    /// By thread, stack, active threads and whether it spins.
    pub samples: BTreeMap<(u32, u32, i32, bool), Sampled>,
    pub random: u64,
}

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program) -> Self {
        let thread = || Thread {
            state: State::NotStarted,
            next: 0,
            left: 0.0,
            spinning: false,
            on_cpu: None,
            cpu: 0,
            blocked_at: 0,
            kind: WaitKind::Other,
            object: String::new(),
            holder: None,
            low: 0,
            low_before: Vec::new(),
            timer: None,
            slice_at: 0,
            criticality: 0,
            sampled: 0,
            sliced: 0,
            active_ns: 0,
            active_sampled: 0,
            active_sliced: 0,
            running_ns: 0,
            started: 0,
            ended: 0,
            parent: None,
        };
        Self {
            program,
            now: 0,
            threads: program.threads.iter().map(|_| thread()).collect(),
            owner: BTreeMap::new(),
            lock_waiters: BTreeMap::new(),
            barriers: BTreeMap::new(),
            spins: BTreeMap::new(),
            queues: BTreeMap::new(),
            consumers: BTreeMap::new(),
            putters: BTreeMap::new(),
            joiners: BTreeMap::new(),
            raised: BTreeSet::new(),
            turn: VecDeque::new(),
            levels: vec![0; program.threads.len() + 1],
            idle_since: None,
            tables: SchedTables::default(),
            frames: BTreeMap::new(),
            stacks: BTreeMap::new(),
            samples: BTreeMap::new(),
            random: 88_172_645_463_325_252,
        }
    }

    pub fn run(mut self) -> Recording {
        self.start(0, None);
        while self.threads[0].state != State::Done {
            self.instant();
            assert!(self.now < 20_000_000, "the program does not end");
        }
        self.finish()
    }

    fn instant(&mut self) {
        let active: Vec<usize> =
            (0..self.threads.len()).filter(|&id| self.threads[id].state == State::Active).collect();
        let n = active.len();
        self.levels[n] += 1;
        if n == 0 {
            self.idle_since.get_or_insert(self.now);
        }
        for &id in &active {
            self.threads[id].criticality += (INSTANT << 16) / n as i64;
            self.threads[id].active_ns += INSTANT;
            if n < self.program.cpus {
                self.threads[id].low += (INSTANT << 16) / n as i64;
            }
        }
        self.assign_cpus();
        self.now += 1;
        let running: Vec<usize> = active.into_iter().filter(|&id| self.threads[id].on_cpu.is_some()).collect();
        for &id in &running {
            self.threads[id].running_ns += INSTANT;
            if self.random().is_multiple_of(SAMPLING) {
                self.sample(id, n as i32);
            }
        }
        for id in 0..self.threads.len() {
            if self.threads[id].timer.is_some_and(|at| at <= self.now) {
                self.threads[id].timer = None;
                self.wake(id, None);
            }
        }
        for id in running {
            if self.threads[id].state == State::Active && !self.threads[id].spinning {
                self.threads[id].left -= 1.0;
                self.advance(id);
            }
        }
    }

    fn assign_cpus(&mut self) {
        let expired = |thread: &Thread| thread.on_cpu.is_some_and(|since| self.now - since >= QUANTUM);
        let may = |id: usize, cpu: usize| self.program.threads[id].cpu.is_none_or(|pinned| pinned == cpu);
        let wanted = |cpu: usize| self.turn.iter().any(|&id| self.threads[id].on_cpu.is_none() && may(id, cpu));
        let gives = |&id: &usize| expired(&self.threads[id]) && wanted(self.threads[id].cpu);
        if let Some(place) = self.turn.iter().position(gives)
            && let Some(id) = self.turn.remove(place)
        {
            self.threads[id].on_cpu = None;
            self.turn.push_back(id);
        }
        // Who may run anywhere takes the last one: the first are pinned to.
        for cpu in (0..self.program.cpus).rev() {
            let taken = |&id: &usize| self.threads[id].on_cpu.is_some() && self.threads[id].cpu == cpu;
            if self.turn.iter().any(taken) {
                continue;
            }
            let may = |id: usize| self.program.threads[id].cpu.is_none_or(|pinned| pinned == cpu);
            if let Some(&id) = self.turn.iter().find(|&&id| self.threads[id].on_cpu.is_none() && may(id)) {
                (self.threads[id].on_cpu, self.threads[id].cpu) = (Some(self.now), cpu);
            }
        }
    }

    /// Goes through steps that take no time.
    fn advance(&mut self, id: usize) {
        while self.threads[id].state == State::Active && self.threads[id].left <= 0.0 && !self.threads[id].spinning {
            let Some(&(_, step)) = self.program.threads[id].steps.get(self.threads[id].next) else {
                return self.end(id);
            };
            self.step(id, step);
        }
    }

    fn step(&mut self, id: usize, step: Do) {
        let carried = self.threads[id].left;
        match step {
            Do::Run(time) => self.threads[id].left = carried + time,
            Do::Lock(lock) => {
                if let Some(&owner) = self.owner.get(&lock) {
                    self.lock_waiters.entry(lock).or_default().push_back(id);
                    let stack = self.stack(owner, None);
                    let holder = OtherThread { task: owner as u32, stack: Some(stack) };
                    return self.block(id, WaitKind::Mutex, format!("lock{lock}"), Some(holder));
                }
                self.owner.insert(lock, id);
            }
            Do::Unlock(lock) => {
                self.owner.remove(&lock);
                if let Some(waiter) = self.lock_waiters.entry(lock).or_default().pop_front() {
                    self.wake(waiter, Some(id));
                }
            }
            Do::Barrier(barrier, count) => {
                let waiting = self.barriers.entry(barrier).or_default();
                if waiting.len() + 1 < count {
                    waiting.push(id);
                    self.threads[id].next += 1;
                    return self.block(id, WaitKind::Barrier, format!("barrier{barrier}"), None);
                }
                std::mem::take(waiting).into_iter().for_each(|waiter| self.wake(waiter, Some(id)));
            }
            Do::SpinBarrier(barrier, count) => {
                let waiting = self.spins.entry(barrier).or_default();
                if waiting.len() + 1 < count {
                    waiting.push(id);
                    self.threads[id].next += 1;
                    self.threads[id].spinning = true;
                    return;
                }
                for waiter in std::mem::take(waiting) {
                    self.threads[waiter].spinning = false;
                }
            }
            Do::Put(queue, places) => {
                if *self.queues.entry(queue).or_default() >= places {
                    self.putters.entry(queue).or_default().push_back(id);
                    return self.block(id, WaitKind::Condition, format!("room{queue}"), None);
                }
                *self.queues.entry(queue).or_default() += 1;
                if let Some(consumer) = self.consumers.entry(queue).or_default().pop_front() {
                    self.wake(consumer, Some(id));
                }
            }
            Do::Take(queue) => {
                if *self.queues.entry(queue).or_default() == 0 {
                    self.consumers.entry(queue).or_default().push_back(id);
                    return self.block(id, WaitKind::Condition, format!("items{queue}"), None);
                }
                *self.queues.entry(queue).or_default() -= 1;
                if let Some(putter) = self.putters.entry(queue).or_default().pop_front() {
                    self.wake(putter, Some(id));
                }
            }
            Do::Sleep(time) => return self.block_until(id, WaitKind::Sleep, "", self.now + time.round() as i64),
            Do::Poll(_, flag) if self.raised.contains(&flag) => {}
            Do::Poll(time, _) => {
                return self.block_until(id, WaitKind::Sleep, "", self.now + time.round() as i64);
            }
            Do::Raise(flag) => drop(self.raised.insert(flag)),
            Do::Until(period) => {
                let at = ((self.now as f64 / period).floor() + 1.0) * period;
                return self.block_until(id, WaitKind::Sleep, "", at.round() as i64);
            }
            Do::Sync(time) => {
                return self.block_until(id, WaitKind::FileSync, "journal", self.now + time.round() as i64);
            }
            Do::Spawn(child) => self.start(child, Some(id as u32)),
            Do::Join(child) => {
                if self.threads[child].state != State::Done {
                    self.joiners.entry(child).or_default().push(id);
                    self.threads[id].next += 1;
                    return self.block(id, WaitKind::Join, String::new(), None);
                }
            }
        }
        self.threads[id].next += 1;
    }

    fn start(&mut self, id: usize, parent: Option<u32>) {
        let thread = &mut self.threads[id];
        (thread.state, thread.parent, thread.started, thread.slice_at) = (State::Active, parent, self.now, self.now);
        self.turn.push_back(id);
        self.advance(id);
    }

    fn end(&mut self, id: usize) {
        self.close_slice(id, -1);
        self.threads[id].state = State::Done;
        self.threads[id].ended = self.now;
        self.leave_cpu(id);
        for joiner in self.joiners.remove(&id).unwrap_or_default() {
            self.wake(joiner, Some(id));
        }
    }

    fn leave_cpu(&mut self, id: usize) {
        self.threads[id].on_cpu = None;
        self.turn.retain(|&other| other != id);
    }

    fn block_until(&mut self, id: usize, kind: WaitKind, object: &str, at: i64) {
        self.threads[id].next += 1;
        if at > self.now {
            self.threads[id].timer = Some(at);
            self.block(id, kind, object.to_owned(), None);
        }
    }

    fn block(&mut self, id: usize, kind: WaitKind, object: String, holder: Option<OtherThread>) {
        self.leave_cpu(id);
        let low_before = self.threads.iter().map(|thread| thread.low).collect();
        let thread = &mut self.threads[id];
        thread.low_before = low_before;
        (thread.state, thread.blocked_at, thread.left) = (State::Blocked, self.now, 0.0);
        (thread.kind, thread.object, thread.holder) = (kind, object, holder);
    }

    pub fn wake(&mut self, id: usize, waker: Option<usize>) {
        let api = match self.threads[id].kind {
            WaitKind::Mutex => "pthread_mutex_lock",
            WaitKind::Barrier => "pthread_barrier_wait",
            WaitKind::Condition => "pthread_cond_wait",
            WaitKind::Sleep => "clock_nanosleep",
            WaitKind::FileSync => "fsync",
            _ => "pthread_join",
        };
        let stack = self.stack_before(id, api);
        let waker = waker.map(|waker| OtherThread { task: waker as u32, stack: Some(self.stack(waker, None)) });
        let idle_ns = self.idle_since.take().map_or(0, |since| (self.now - since) * INSTANT);
        let row = self.tables.waits.len() as i32;
        let party = self.threads[id].holder.or(waker).map(|party| party.task as usize);
        let gain = |party: usize| self.threads[party].low - self.threads[id].low_before[party];
        let holder_gain_ns = party.map_or(0, gain) >> 16;
        self.close_slice(id, row);
        let thread = &mut self.threads[id];
        let (begin_ns, end_ns) = (thread.blocked_at * INSTANT, self.now * INSTANT);
        self.tables.waits.push(SchedWait {
            task: id as u32,
            kind: thread.kind,
            object: std::mem::take(&mut thread.object).into(),
            stack: Some(stack),
            holder: thread.holder.take(),
            waker,
            count: 1,
            begin_ns,
            end_ns,
            ns: end_ns - begin_ns,
            idle_ns,
            holder_gain_ns,
        });
        (thread.state, thread.slice_at) = (State::Active, self.now);
        self.turn.push_back(id);
        // Who polls looks again.
        if let Some((_, Do::Poll(..))) = thread.next.checked_sub(1).map(|at| self.program.threads[id].steps[at]) {
            thread.next -= 1;
            return;
        }
        // The step at which it blocked is done again (locks, queues) or behind it.
        if thread.kind != WaitKind::Mutex && thread.kind != WaitKind::Condition {
            return;
        }
        thread.left = 0.0;
    }

    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
