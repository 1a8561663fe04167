//! How long threads wanted a CPU and had none, by the kernel's sums of each (`/proc/PID/task/TID/schedstat`), which are read
//! now and then while they live: nothing is asked of the program.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use transect_event_abi::arena::{EXTENT_PROCESS, EXTENT_THREAD};
use transect_event_abi::thread::THREAD_LIVE;

use crate::arena::Arena;
use crate::extent::Head;

/// Threads of one reading, some 10 µs each: of more, others come next time.
const MOST: usize = 64;

/// A thread's sums since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Time in which it was runnable without one, ns.
    pub queued_ns: u64,
    /// How often it gave its CPU up, to wait.
    pub voluntary: u64,
    /// How often it lost it.
    pub involuntary: u64,
}

impl Queued {
    fn read(pid: u32, tid: u32) -> Option<Self> {
        let file = |name: &str| transect_attach::read_text(format!("/proc/{pid}/task/{tid}/{name}")).ok();
        Self::parse(&file("schedstat")?, &file("status")?)
    }

    fn parse(schedstat: &str, status: &str) -> Option<Self> {
        let mut sums = schedstat.split_whitespace().map(str::parse);
        let switches = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        Some(Self {
            on_cpu_ns: sums.next()?.ok()?,
            queued_ns: sums.next()?.ok()?,
            voluntary: switches("voluntary_ctxt_switches")?,
            involuntary: switches("nonvoluntary_ctxt_switches")?,
        })
    }

    /// Of the time without a CPU, what came after a loss of it, not after a wait, ns: by how often each happened.
    pub fn preempted_ns(&self) -> f64 {
        self.queued_ns as f64 * self.involuntary as f64 / (self.involuntary + self.voluntary).max(1) as f64
    }
}

/// Sums of a program's threads.
#[derive(Debug)]
pub(crate) struct QueueWatch {
    next: Instant,
    first: usize,
    threads: HashMap<(u32, u32), Queued>,
}

impl QueueWatch {
    /// Between two readings. What comes after a thread's last one is taken to be like what was before.
    pub const EVERY: Duration = Duration::from_millis(50);

    /// Nothing yet.
    pub fn new() -> Self {
        Self { next: Instant::now() + Self::EVERY, first: 0, threads: HashMap::default() }
    }

    /// Reads threads that live, if it is time for that.
    pub fn round(&mut self, arena: &Arena) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Self::EVERY;
        let extents = arena.extents();
        let processes: HashMap<u32, u32> = extents
            .iter()
            .filter(|(_, kind)| *kind == EXTENT_PROCESS)
            .map(|&(extent, _)| (extent, Head::read(arena, extent).pid))
            .collect();
        let living = |&(extent, kind): &(u32, u32)| {
            let head = (kind == EXTENT_THREAD).then(|| arena.read(extent, 0, 16))?;
            let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
            let (process, tid, state) = (word(0)?, word(4)?, word(8)?);
            Some((*processes.get(&process)?, tid)).filter(|_| state == THREAD_LIVE)
        };
        let mut threads: Vec<(u32, u32)> = extents.iter().filter_map(living).collect();
        let all = threads.len().max(1);
        threads.rotate_left(self.first % all);
        self.first = (self.first + MOST) % all;
        for &(pid, tid) in threads.iter().take(MOST) {
            self.threads.extend(Queued::read(pid, tid).map(|queued| ((pid, tid), queued)));
        }
    }

    /// By process and thread number.
    pub fn threads(&self) -> &HashMap<(u32, u32), Queued> {
        &self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_and_divided_by_how_a_cpu_was_left() {
        let status = "Name:\tw\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t30\n";
        let queued = Queued::parse("500 400 41\n", status).unwrap();
        assert_eq!(queued, Queued { on_cpu_ns: 500, queued_ns: 400, voluntary: 10, involuntary: 30 });
        assert_eq!(queued.preempted_ns(), 300.0);
        assert_eq!(Queued::parse("", status), None);
    }

    /// The kernel knows this thread.
    #[test]
    fn a_thread_that_computes_has_time_on_a_cpu() {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert!(Queued::read(std::process::id(), tid).unwrap().on_cpu_ns > 0);
    }
}
