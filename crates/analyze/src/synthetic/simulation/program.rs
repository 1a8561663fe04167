//! Programs of threads on paper.

use super::Recording;
use super::machine::Machine;

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Do {
    /// Computes for so many instants (µs).
    Run(f64),
    /// Takes a mutex, waits if it is held.
    Lock(usize),
    /// Gives it back, wakes the first who waits; that one has to take it again.
    Unlock(usize),
    /// Waits until so many threads have come to the barrier.
    Barrier(usize, usize),
    /// Puts an item in a queue of so many places, waits while it is full.
    Put(usize, usize),
    /// Takes an item from a queue, waits while it is empty.
    Take(usize),
    /// Sleeps for so long.
    Sleep(f64),
    /// Sleeps until the next multiple of the period since the start.
    Until(f64),
    /// Sleeps for so long, again and again, until the flag is up.
    Poll(f64, usize),
    /// Raises a flag.
    Raise(usize),
    /// Has the disk write for so long.
    Sync(f64),
    /// Starts a thread.
    Spawn(usize),
    /// Waits for a thread's end.
    Join(usize),
    /// Waits in a loop until so many threads have come here.
    SpinBarrier(usize, usize),
}

/// A step: what, and in which function of the program.
pub type Step = (&'static str, Do);

/// One thread.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Name; the group is the name without trailing digits.
    pub name: String,
    /// The CPU that it is pinned to.
    pub cpu: Option<usize>,
    /// Its steps. Thread 0 is `main`; the others start when they are spawned.
    pub steps: Vec<Step>,
}

/// Some threads and the CPUs that they share.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// CPUs.
    pub cpus: usize,
    /// Threads; the program ends with the first.
    pub threads: Vec<Script>,
}

impl Program {
    /// The same with computing, sleeping and disk in `function` faster by a factor.
    #[must_use]
    pub fn sped_up(&self, function: &str, speedup: f64) -> Self {
        let mut program = self.clone();
        for (_, what) in program.threads.iter_mut().flat_map(|t| &mut t.steps).filter(|(at, _)| *at == function) {
            if let Do::Run(time) | Do::Sleep(time) | Do::Sync(time) = what {
                *time /= speedup;
            }
        }
        program
    }

    /// Runs it to its end. Seconds of the program's time are thousandths here, so that tests are quick.
    pub fn run(&self) -> Recording {
        Machine::new(self).run()
    }
}
