//! Short stops beside the kernel's events, which see nothing of the time that a user's programs spend in the kernel: threads
//! that do so are stopped for a moment now and then. One in a system call stands at its end then.

use rustc_hash::FxHashMap as HashMap;
use transect_attach::Target;

use super::gathered::{Gathered, LookTime};
use super::jitter;
use super::look::Look;
use super::stopped_samples::{MOST_HZ, Stopped, state};
use crate::sched::call_stack::StackNumber;

/// Mean time between two rounds, ns.
const PERIOD: u64 = 1_000_000_000 / MOST_HZ as u64;
/// Stops in a round at most.
const MOST: usize = 4;
/// Time in the kernel that is worth it, ns, and its share of the thread's time on CPUs.
const WORTH_NS: f64 = 5e6;
const WORTH_SHARE: f64 = 0.04;

/// See above.
pub(crate) struct KernelStops {
    /// `None`: it can't be stopped.
    targets: HashMap<i32, Option<Target>>,
    /// Where threads slept when they were stopped for that.
    sleepers: HashMap<i32, Sleeper>,
    next: u64,
    random: u64,
}

/// A stopped thread goes on with its call, which is a new wait then: it is known by its stack.
struct Sleeper {
    look: Look,
    /// The part of its stack that is nearest to the stack pointer.
    top: Vec<u8>,
    stack: StackNumber,
    at: u64,
}

/// Bytes of a stack by which a wait is known again.
const TOP: usize = 512;
/// A sleeping thread is not stopped again so soon, ns.
const LET_SLEEP: u64 = 50_000_000;

impl KernelStops {
    /// None yet.
    pub fn new(now: u64) -> Self {
        Self { targets: HashMap::default(), sleepers: HashMap::default(), next: now, random: now | 1 }
    }

    /// Stops threads that spend time in the kernel, if it is time for that.
    pub fn round(&mut self, gathered: &mut Gathered, now: u64) {
        if now < self.next {
            return;
        }
        self.next = now + jitter::around(PERIOD, &mut self.random);
        for target in self.targets.values().flatten() {
            target.finish_unfinished();
        }
        let mut threads = gathered.running(now);
        threads.retain(|&(_, _, unsampled, all)| unsampled > WORTH_NS && unsampled > WORTH_SHARE * all);
        if !threads.is_empty() {
            let first = self.random as usize % threads.len();
            threads.rotate_left(first);
        }
        for (tgid, tid, ..) in threads.into_iter().take(MOST) {
            if let Some(stopped) = self.stop(tgid, tid, 'R') {
                gathered.stopped((tgid, tid), &stopped);
            }
        }
    }

    /// Stops a thread that sleeps, for registers that the kernel does not tell otherwise. What it waits for goes on after.
    /// False if it could not be, and nothing was noted.
    pub fn look(&mut self, gathered: &mut Gathered, (tgid, tid): (i32, i32), look: &Look, when: LookTime) -> bool {
        let now = when.until;
        let mut top = vec![0; TOP];
        let target = self.targets.entry(tgid).or_insert_with(|| Target::open(tgid).ok());
        let filled = target.as_ref().map_or(0, |target| target.memory().read_some(look.sp(), &mut top));
        top.truncate(filled);
        if let Some(known) = self.sleepers.get(&tid) {
            if known.look.is_there(look) && known.top == top {
                gathered.look_at_known((tgid, tid), look, known.stack, when);
                return true;
            }
            if now < known.at + LET_SLEEP {
                return false;
            }
        }
        let stopped = self.stop(tgid, tid, 'S').filter(|stopped| stopped.registers.sp == look.sp());
        if let Some(stopped) = &stopped {
            let stack = gathered.look_at_stopped((tgid, tid), look, stopped, when);
            self.sleepers.insert(tid, Sleeper { look: *look, top, stack, at: now });
        }
        stopped.is_some()
    }

    fn stop(&mut self, tgid: i32, tid: i32, wanted: char) -> Option<Stopped> {
        if state(tgid, tid) != Some(wanted) {
            return None;
        }
        let target = self.targets.entry(tgid).or_insert_with(|| Target::open(tgid).ok());
        let stopped = Stopped::take(target.as_ref()?, tid);
        if stopped.is_none() && target.as_ref().is_some_and(Target::finish_unfinished) {
            // It may have become another program.
            *target = Target::open(tgid).ok();
        }
        stopped
    }
}
