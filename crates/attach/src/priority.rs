//! First in line for a CPU: on a crowded machine the time for which threads are held is the time for which they,
//! and we, wait for CPUs.

use std::fs;

use rustix::process::{Pid, getpriority_process, setpriority_process};

/// The highest ordinary priority. (Real-time scheduling of the tracer would be worse: woken before the reporting thread
/// has left its CPU, it would be made to sleep for a tick.)
const HIGHEST: i32 = -20;

/// Priorities raised for the time of a stop, given back when dropped. Without the privilege nothing is changed.
#[derive(Debug, Default)]
pub struct Urgent {
    /// Thread (`None`: this one), its priority before.
    before: Vec<(Option<Pid>, i32)>,
}

impl Urgent {
    /// Raises this thread's priority.
    pub fn begin() -> Urgent {
        let mut urgent = Urgent::default();
        urgent.raise(None);
        urgent
    }

    /// Raises the priority of threads that have been asked to stop: where more threads are runnable than there are
    /// CPUs, they can't stand before they have run.
    pub fn raise_all(&mut self, threads: impl Iterator<Item = i32>) {
        threads.filter_map(Pid::from_raw).for_each(|thread| self.raise(Some(thread)));
    }

    /// A thread has made another one, which has its priority: that one is to get back what its maker had.
    pub fn inherited(&mut self, maker: i32, born: i32) {
        let usual = self.before.iter().find(|(thread, _)| *thread == Pid::from_raw(maker)).map(|&(_, usual)| usual);
        if let (Some(usual), Some(born)) = (usual, Pid::from_raw(born)) {
            self.before.push((Some(born), usual));
        }
    }

    /// Gives all but this thread their priority back. To be done while they stand: one that goes on with it takes the CPU of whoever
    /// has let it go, for tens of milliseconds.
    pub fn give_back_others(&mut self) {
        for (thread, before) in self.before.extract_if(.., |(thread, _)| thread.is_some()) {
            let _ = setpriority_process(thread, before);
        }
    }

    fn raise(&mut self, thread: Option<Pid>) {
        if let Ok(before) = getpriority_process(thread)
            && before != HIGHEST
            && setpriority_process(thread, HIGHEST).is_ok()
        {
            self.before.push((thread, before));
        }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // Ourselves last.
        for (thread, before) in self.before.drain(..).rev() {
            let _ = setpriority_process(thread, before);
        }
    }
}

/// More threads are runnable than there are CPUs: the fourth field of `/proc/loadavg` is runnable threads / all
/// threads.
pub fn is_crowded() -> bool {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let runnable = text.split_whitespace().nth(3).and_then(|field| field.split('/').next()?.parse::<usize>().ok());
    runnable.is_some_and(|runnable| runnable > cpus())
}

/// CPUs that this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_their_priority_back_before_this_thread() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, usual) = (Pid::from_child(&child), getpriority_process(None).unwrap());
        let mut urgent = Urgent::begin();
        urgent.raise_all([child.id().cast_signed()].into_iter());
        let both = || [Some(pid), None].map(|thread| getpriority_process(thread).unwrap());
        if both() == [HIGHEST; 2] {
            urgent.give_back_others();
            assert_eq!(both(), [usual, HIGHEST]);
        }
        drop(urgent);
        assert_eq!(both(), [usual; 2]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
