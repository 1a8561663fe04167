//! Runs a trace again with other amounts of work.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::trace::{Ending, Step, Trace};
use crate::sharing::Sharing;

/// How long a piece waits for a CPU beyond what its part of them takes, ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lag {
    /// If its thread was woken for it.
    pub woken: f64,
    /// In any case.
    pub preempted: f64,
}

/// How much of everything there is in a run.
pub(super) struct Load<'a> {
    pub trace: &'a Trace,
    /// CPU time of each piece, ns.
    pub work: &'a [f64],
    /// Of each wait that ends by time: how long it takes, ns, and whether it keeps its period instead.
    pub waits: &'a [(f64, bool)],
    /// Of each wait that another thread ends: how long it takes at most, ns.
    pub limits: &'a [f64],
    /// Of each hold of a mutex: how long it is waited for at most, ns.
    pub patience: &'a [f64],
    /// Time of each piece's waits that were not seen one by one, ns.
    pub pauses: &'a [f64],
    /// How long each piece waits for a CPU.
    pub lags: &'a [Lag],
    pub sharing: &'a Sharing,
}

/// When each thread had done its last step that could be done, ns since the stretch's start; `None` for threads that never
/// came to any.
pub(super) fn replay(load: &Load<'_>) -> Vec<Option<f64>> {
    Replay::new(load).run()
}

#[derive(Clone, Copy, PartialEq)]
struct Instant(f64);

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

const NOBODY: u32 = u32::MAX;
/// Beside a real-time thread others may get nothing.
const LEAST_RATE: f64 = 1e-9;

struct Replay<'a> {
    load: &'a Load<'a>,
    now: f64,
    /// Of each group of threads: CPU time that one active from the start would have got, which part of a CPU each gets now, and how
    /// many are active.
    shares: Vec<f64>,
    rates: Vec<f64>,
    active: Vec<usize>,
    /// Others are active than when the rates were looked up.
    stale: bool,
    /// Per thread the next step.
    next: Vec<u32>,
    /// Of each group: work ends by its share, waits and late threads by time.
    works: Vec<BinaryHeap<Reverse<(Instant, u32)>>>,
    /// With the wait that the timer ends, if another thread may end it before.
    timers: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    /// Per wait: whether it was ended before it was begun, and who waits.
    fired: Vec<bool>,
    waiter: Vec<u32>,
    /// Per mutex: the hold that has it, and who waits for which.
    owned: Vec<Option<u32>>,
    queues: Vec<VecDeque<(u32, u32)>>,
    missing: Vec<u32>,
    gathered: Vec<Vec<u32>>,
    resumed: Vec<f64>,
    /// Threads that have waited since their last piece, and the piece with whose lag each is done, and when it was resumed before.
    woken: Vec<bool>,
    lagged: Vec<(u32, f64)>,
    /// Threads that have done all their steps, and who waits for that.
    over: Vec<bool>,
    awaiting: Vec<Vec<u32>>,
    done: Vec<Option<f64>>,
    ready: Vec<u32>,
}

impl<'a> Replay<'a> {
    fn new(load: &'a Load<'a>) -> Self {
        let trace = load.trace;
        let threads = trace.threads.len();
        let groups = load.sharing.groups();
        Self {
            load,
            now: 0.0,
            shares: vec![0.0; groups],
            rates: vec![1.0; groups],
            active: vec![0; groups],
            stale: true,
            next: trace.threads.iter().map(|&(first, _)| first).collect(),
            works: vec![BinaryHeap::new(); groups],
            timers: BinaryHeap::with_capacity(threads),
            fired: vec![false; trace.waits.len()],
            waiter: vec![NOBODY; trace.waits.len()],
            owned: trace.owned.clone(),
            queues: vec![VecDeque::new(); trace.owned.len()],
            missing: trace.meetings.clone(),
            gathered: vec![Vec::new(); trace.meetings.len()],
            resumed: vec![0.0; threads],
            woken: vec![false; threads],
            lagged: vec![(NOBODY, 0.0); threads],
            over: vec![false; threads],
            awaiting: vec![Vec::new(); threads],
            done: vec![None; threads],
            ready: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Option<f64>> {
        let trace = self.load.trace;
        for thread in 0..trace.threads.len() as u32 {
            if trace.spawned[thread as usize] {
                continue;
            }
            match trace.late[thread as usize] {
                late if late > 0.0 => self.timers.push(Reverse((Instant(late), thread, NOBODY))),
                _ => self.ready.push(thread),
            }
        }
        loop {
            while let Some(thread) = self.ready.pop() {
                self.steps(thread);
            }
            if !self.tick() {
                return self.done;
            }
        }
    }

    /// Goes on to the next instant at which something happens.
    fn tick(&mut self) -> bool {
        if std::mem::take(&mut self.stale) {
            self.load.sharing.rates(&self.active, &mut self.rates);
        }
        let end = |group: usize| {
            let Reverse((at, _)) = self.works[group].peek()?;
            Some((self.now + (at.0 - self.shares[group]) / self.rates[group].max(LEAST_RATE), group))
        };
        let work = (0..self.works.len()).filter_map(end).min_by(|a, b| a.0.total_cmp(&b.0));
        let timer = self.timers.peek().map(|Reverse((at, ..))| at.0);
        match (work, timer) {
            (None, None) => return false,
            (Some((at, group)), timer) if timer.is_none_or(|timer| at <= timer) => {
                if let Some(Reverse((share, thread))) = self.works[group].pop() {
                    self.go_on(at.max(self.now), Some(group));
                    self.shares[group] = share.0.max(self.shares[group]);
                    self.active[group] -= 1;
                    self.stale = true;
                    self.ready.push(thread);
                }
            }
            (_, timer) => {
                let at = timer.unwrap_or(self.now).max(self.now);
                self.go_on(at, None);
                if let Some(Reverse((_, thread, wait))) = self.timers.pop() {
                    self.time_out(thread, wait);
                }
            }
        }
        true
    }

    /// Threads work until `at`; the share of a group whose work ends then is known by that.
    fn go_on(&mut self, at: f64, but: Option<usize>) {
        for group in (0..self.shares.len()).filter(|&group| Some(group) != but) {
            self.shares[group] += (at - self.now) * self.rates[group];
        }
        self.now = at;
    }

    /// A thread's steps up to the next that takes time.
    fn steps(&mut self, thread: u32) {
        let trace = self.load.trace;
        let end = trace.threads[thread as usize].1;
        while self.next[thread as usize] < end {
            let step = trace.steps[self.next[thread as usize] as usize];
            self.next[thread as usize] += 1;
            match step {
                Step::Work(piece) => {
                    if self.lags(thread, piece) {
                        return;
                    }
                    let group = self.load.sharing.group(thread);
                    let end = self.shares[group] + self.load.work[piece as usize];
                    self.works[group].push(Reverse((Instant(end), thread)));
                    self.active[group] += 1;
                    self.stale = true;
                    return;
                }
                Step::Pause(piece) => {
                    let pause = self.load.pauses[piece as usize];
                    if pause > 0.0 {
                        self.timers.push(Reverse((Instant(self.now + pause), thread, NOBODY)));
                        return;
                    }
                }
                Step::Spawn(child) => self.ready.push(child),
                Step::Fire(wait) => {
                    if let Ending::Meeting(meeting) = trace.waits[wait as usize].ending {
                        if !self.come(meeting, thread) {
                            return;
                        }
                    } else {
                        self.fired[wait as usize] = true;
                        let waiter = std::mem::replace(&mut self.waiter[wait as usize], NOBODY);
                        if waiter != NOBODY {
                            self.resume(waiter);
                        }
                    }
                }
                Step::Meet(meeting) => {
                    if !self.come(meeting, thread) {
                        return;
                    }
                }
                Step::Await(child) if self.over[child as usize] => {}
                Step::Await(child) => {
                    self.awaiting[child as usize].push(thread);
                    self.done[thread as usize] = Some(self.now);
                    return;
                }
                Step::Lock(hold) => {
                    if !self.lock(thread, hold) {
                        return;
                    }
                }
                Step::Unlock(hold) => self.unlock(hold),
                Step::Block(wait) => {
                    if !self.block(thread, wait) {
                        return;
                    }
                }
            }
        }
        self.done[thread as usize] = Some(self.now);
        self.over[thread as usize] = true;
        for waiter in std::mem::take(&mut self.awaiting[thread as usize]) {
            self.resume(waiter);
        }
    }

    /// Whether a thread has to wait for a CPU before a piece: one that follows a wait does so if there was one.
    fn lags(&mut self, thread: u32, piece: u32) -> bool {
        let (at, trace) = (thread as usize, self.load.trace);
        let woken = std::mem::take(&mut self.woken[at]);
        if self.lagged[at].0 == piece {
            self.resumed[at] = self.lagged[at].1;
            return false;
        }
        let lag = self.load.lags[piece as usize];
        // The step before this one, if it is not the thread's first.
        let place = self.next[at] - 1;
        let waited = place > trace.threads[at].0
            && match trace.steps[place as usize - 1] {
                Step::Block(_) | Step::Await(_) => true,
                Step::Lock(hold) => trace.holds[hold as usize].waited > 0.0,
                _ => false,
            };
        let lag = lag.preempted + if waited && !woken { 0.0 } else { lag.woken };
        if lag <= 0.0 {
            return false;
        }
        self.next[at] = place;
        self.lagged[at] = (piece, self.resumed[at]);
        self.timers.push(Reverse((Instant(self.now + lag), thread, NOBODY)));
        true
    }

    fn time_out(&mut self, thread: u32, wait: u32) {
        if let Some(hold) = wait.checked_sub(self.waiter.len() as u32).filter(|_| wait != NOBODY) {
            // It goes on without the mutex.
            let queue = &mut self.queues[self.load.trace.holds[hold as usize].mutex as usize];
            let before = queue.len();
            queue.retain(|&waits| waits != (thread, hold));
            if queue.len() == before {
                return;
            }
        } else if wait != NOBODY {
            if self.waiter[wait as usize] != thread {
                return;
            }
            self.waiter[wait as usize] = NOBODY;
        }
        self.resume(thread);
    }

    fn resume(&mut self, thread: u32) {
        self.resumed[thread as usize] = self.now;
        self.woken[thread as usize] = true;
        self.ready.push(thread);
    }

    /// Takes a mutex; false if the thread waits for it, behind those that came before.
    fn lock(&mut self, thread: u32, hold: u32) -> bool {
        let mutex = self.load.trace.holds[hold as usize].mutex as usize;
        if self.owned[mutex].is_none() {
            self.owned[mutex] = Some(hold);
            return true;
        }
        let patience = self.load.patience[hold as usize];
        if patience <= 0.0 {
            return true;
        }
        if patience.is_finite() {
            self.timers.push(Reverse((Instant(self.now + patience), thread, self.waiter.len() as u32 + hold)));
        }
        self.queues[mutex].push_back((thread, hold));
        self.done[thread as usize] = Some(self.now);
        false
    }

    /// Gives a mutex back that the hold may have done without.
    fn unlock(&mut self, hold: u32) {
        let mutex = self.load.trace.holds[hold as usize].mutex as usize;
        if self.owned[mutex] == Some(hold) {
            let next = self.queues[mutex].pop_front();
            self.owned[mutex] = next.map(|(_, hold)| hold);
            if let Some((thread, _)) = next {
                self.resume(thread);
            }
        }
    }

    /// Begins a wait; true if it is over at once.
    fn block(&mut self, thread: u32, id: u32) -> bool {
        let wait = &self.load.trace.waits[id as usize];
        match wait.ending {
            // Whatever comes after the stretch is not waited for: the thread has done what it did.
            Ending::Never => {
                self.done[thread as usize] = Some(self.now);
                false
            }
            Ending::Token if self.fired[id as usize] => true,
            Ending::Token => {
                let limit = self.load.limits[id as usize];
                if limit <= 0.0 {
                    return true;
                }
                if limit.is_finite() {
                    self.timers.push(Reverse((Instant(self.now + limit), thread, id)));
                }
                self.waiter[id as usize] = thread;
                self.done[thread as usize] = Some(self.now);
                false
            }
            Ending::Meeting(meeting) => self.come(meeting, thread),
            Ending::Time => {
                let (ns, keeps_period) = self.load.waits[id as usize];
                let until = if keeps_period { self.resumed[thread as usize] + wait.period } else { self.now + ns };
                if until <= self.now {
                    return true;
                }
                self.timers.push(Reverse((Instant(until), thread, NOBODY)));
                false
            }
        }
    }

    /// A thread comes to a meeting; true if it is the last.
    fn come(&mut self, meeting: u32, thread: u32) -> bool {
        let missing = &mut self.missing[meeting as usize];
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            self.gathered[meeting as usize].push(thread);
            self.done[thread as usize] = Some(self.now);
            return false;
        }
        for other in std::mem::take(&mut self.gathered[meeting as usize]) {
            self.resume(other);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Wait;
    use super::*;

    /// One waits at most `limit` for the other, which ends its wait after 50 ns of work, and works for twice 100 ns then.
    fn ends(limit: f64, lag: Lag) -> Vec<Option<f64>> {
        let wait = Wait { row: 0, ending: Ending::Token, ns: limit, period: limit, elastic: false, held: None };
        let trace = Trace {
            threads: vec![(0, 3), (3, 5)],
            steps: vec![Step::Block(0), Step::Work(0), Step::Work(2), Step::Work(1), Step::Fire(0)],
            waits: vec![wait],
            spawned: vec![false; 2],
            late: vec![0.0; 2],
            ..Trace::default()
        };
        let (work, waits, limits) = ([100.0, 50.0, 100.0], [(limit, false)], [limit]);
        let sharing = Sharing::even(2);
        let load = Load {
            trace: &trace,
            work: &work,
            waits: &waits,
            limits: &limits,
            patience: &[],
            pauses: &[0.0; 3],
            lags: &[lag, Lag::default(), Lag::default()],
            sharing: &sharing,
        };
        replay(&load)
    }

    #[test]
    fn a_wait_ends_once_by_its_time_or_by_its_waker() {
        let ends = |limit| ends(limit, Lag::default());
        assert_eq!(ends(10.0), [Some(210.0), Some(50.0)], "nobody waits any more when it is ended");
        assert_eq!(ends(80.0), [Some(250.0), Some(50.0)], "nobody waits any more when its time is over");
        assert_eq!(ends(f64::INFINITY), [Some(250.0), Some(50.0)]);
    }

    #[test]
    fn who_was_woken_queues_and_who_did_not_wait_does_not() {
        let woken = Lag { woken: 30.0, preempted: 0.0 };
        assert_eq!(ends(f64::INFINITY, woken), [Some(280.0), Some(50.0)]);
        assert_eq!(ends(0.0, woken), [Some(200.0), Some(50.0)]);
        assert_eq!(ends(0.0, Lag { woken: 30.0, preempted: 7.0 }), [Some(207.0), Some(50.0)]);
    }
}
