//! What is observed of a thread: for how long it did what, and in which unit that counts.

use transect_profile_model::Metric;

/// What a thread did in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Was on a CPU.
    On,
    /// Was runnable, after a wait.
    Runnable,
    /// Was runnable, after it had lost its CPU there. (What is in the exact total beyond that and what followed
    /// waits is divided as the time on CPUs is.)
    Preempted,
    /// Was blocked.
    Blocked,
    /// Not time but the metric's own unit: faults, cycles, misses, or time weighted by criticality.
    Weight,
}

/// A time by what the thread did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Split {
    /// On a CPU, ns.
    pub on_ns: f64,
    /// Runnable: wanted a CPU and had none, ns.
    pub runnable_ns: f64,
    /// Blocked, ns.
    pub blocked_ns: f64,
}

impl Split {
    /// All of it.
    pub fn wall_ns(&self) -> f64 {
        self.on_ns + self.runnable_ns + self.blocked_ns
    }

    pub(crate) fn add_to(&mut self, state: State, ns: f64) {
        match state {
            State::On => self.on_ns += ns,
            State::Runnable | State::Preempted => self.runnable_ns += ns,
            State::Blocked => self.blocked_ns += ns,
            State::Weight => {}
        }
    }

    pub(crate) fn scaled(&self, factor: f64) -> Self {
        Self {
            on_ns: self.on_ns * factor,
            runnable_ns: self.runnable_ns * factor,
            blocked_ns: self.blocked_ns * factor,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.on_ns += other.on_ns;
        self.runnable_ns += other.runnable_ns;
        self.blocked_ns += other.blocked_ns;
    }
}

/// What a tree's totals count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Wall time, ns.
    #[default]
    Wall,
    /// Time on a CPU, ns.
    Cpu,
    /// The observations' own weight ([`State::Weight`]).
    Weight,
}

impl From<Metric> for Unit {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Wall => Self::Wall,
            Metric::Cpu => Self::Cpu,
            Metric::PageFaults | Metric::Cycles | Metric::CacheMisses => Self::Weight,
        }
    }
}

/// A part of a thread's time whose total is known exactly: samples only say how it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stratum {
    /// Outside system calls: the program's own code, faults and interrupts.
    User,
    /// In a system call, whatever it calls.
    SystemCall(u32),
}

/// What one sample, or one wait, adds at the end of its stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The thread, by the caller's number; threads of one number are counted as one.
    pub thread: u32,
    /// What it did.
    pub state: State,
    /// For how long, ns (an on-CPU sample: CPU time since the thread's last one), or the metric's weight.
    pub amount: f64,
}

/// Sums of what was seen of one thread at one node in one state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub amount: f64,
    pub squares: f64,
    pub count: u64,
}

impl State {
    /// Measured one by one, so that what was seen is a lower bound; otherwise samples stand for what is between them.
    pub(crate) fn is_measured(self) -> bool {
        matches!(self, Self::Blocked | Self::Runnable | Self::Preempted)
    }

    /// Whether it counts in a tree of that unit.
    pub(crate) fn counts_in(self, unit: Unit) -> bool {
        match unit {
            Unit::Wall => self != Self::Weight,
            Unit::Cpu => self == Self::On,
            Unit::Weight => self == Self::Weight,
        }
    }
}

impl Split {
    pub(crate) fn of(&self, state: State) -> f64 {
        match state {
            State::On => self.on_ns,
            State::Runnable | State::Preempted => self.runnable_ns,
            State::Blocked => self.blocked_ns,
            State::Weight => 0.0,
        }
    }
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.amount += other.amount;
        self.squares += other.squares;
        self.count += other.count;
    }
}
