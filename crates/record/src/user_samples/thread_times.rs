//! When a thread ran, was preempted and waited, from the switches of its CPUs.

/// A thread's exact times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Exact {
    pub wall: f64,
    pub running: f64,
    pub runnable: f64,
    pub blocked: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was heard of it yet: it is as its first record says.
    Unknown,
    Running,
    Preempted,
    Waiting,
    Ended,
}

/// One thread's times so far, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadTimes {
    /// Since when it is recorded.
    pub begin: u64,
    state: State,
    since: u64,
    running: u64,
    preempted: u64,
    waiting: u64,
    /// How often it waited.
    pub waits: u64,
    /// How often it lost its CPU.
    pub preemptions: u64,
}

impl ThreadTimes {
    /// A thread that is known from `begin` on; `born`: it has just been made and waits for a CPU.
    pub fn new(begin: u64, born: bool) -> Self {
        let state = if born { State::Preempted } else { State::Unknown };
        Self { begin, state, since: begin, running: 0, preempted: 0, waiting: 0, waits: 0, preemptions: 0 }
    }

    fn pass(&mut self, time: u64, was: State, next: State) {
        let state = if self.state == State::Unknown { was } else { self.state };
        let time = time.max(self.since);
        let passed = time - self.since;
        match state {
            State::Running => self.running += passed,
            State::Preempted => self.preempted += passed,
            State::Waiting => self.waiting += passed,
            State::Unknown | State::Ended => {}
        }
        (self.state, self.since) = (next, time);
    }

    /// It got a CPU.
    pub fn runs(&mut self, time: u64) {
        self.pass(time, State::Waiting, State::Running);
    }

    /// It was seen running.
    pub fn is_running(&mut self, time: u64) {
        if self.state == State::Unknown {
            self.pass(time, State::Running, State::Running);
        }
    }

    /// It left its CPU.
    pub fn stops(&mut self, time: u64, preempted: bool) {
        let next = if preempted { State::Preempted } else { State::Waiting };
        self.waits += u64::from(!preempted);
        self.preemptions += u64::from(preempted);
        self.pass(time, State::Running, next);
    }

    /// It, or the recording, has ended. A thread of which nothing was heard has waited all the time.
    pub fn ends(&mut self, time: u64) {
        self.pass(time, State::Waiting, State::Ended);
    }

    /// It runs, or would if it had a CPU.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Running | State::Preempted)
    }

    /// It has a CPU.
    pub fn has_cpu(&self) -> bool {
        self.state == State::Running
    }

    /// It waits for something.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Time on CPUs up to now, ns.
    pub fn running_at(&self, time: u64) -> u64 {
        self.running + if self.has_cpu() { time.saturating_sub(self.since) } else { 0 }
    }

    /// Its times.
    pub fn exact(&self) -> Exact {
        let [running, runnable, blocked] = [self.running, self.preempted, self.waiting].map(|time| time as f64);
        Exact { wall: running + runnable + blocked, running, runnable, blocked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_to_the_life() {
        let mut times = ThreadTimes::new(100, true);
        times.runs(110);
        times.stops(150, false);
        times.runs(250);
        times.stops(260, true);
        times.runs(300);
        times.ends(400);
        times.ends(500);
        assert_eq!(times.exact(), Exact { wall: 300.0, running: 150.0, runnable: 50.0, blocked: 100.0 });
        assert_eq!(times.waits, 1);
    }

    #[test]
    fn the_first_record_tells_what_was_before() {
        let mut running = ThreadTimes::new(0, false);
        running.is_running(10);
        running.stops(30, false);
        running.ends(40);
        assert_eq!(running.exact(), Exact { wall: 40.0, running: 30.0, runnable: 0.0, blocked: 10.0 });
        let mut waiting = ThreadTimes::new(0, false);
        waiting.runs(10);
        waiting.ends(15);
        assert_eq!(waiting.exact(), Exact { wall: 15.0, running: 5.0, runnable: 0.0, blocked: 10.0 });
        let mut silent = ThreadTimes::new(0, false);
        silent.ends(7);
        assert_eq!(silent.exact().blocked, 7.0);
    }
}
