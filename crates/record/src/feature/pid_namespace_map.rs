//! Processes and threads write the numbers under which they know themselves; in a pid namespace of their own the recorder
//! knows them by others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use transect_event_abi::region_arena::RingRecord;

use super::region_file::RegionFile;

/// `AT_RANDOM`.
const RANDOM: u64 = 25;

/// The recorder's numbers of processes that write.
#[derive(Debug, Default)]
pub struct PidNamespaceMap {
    /// By own number and image.
    processes: HashMap<(i32, u64), i32>,
    /// Programs that were met in the recorder's own namespace: so are the children of fork that are gone already.
    here: HashSet<u64>,
    /// Children of fork, and their images, that were gone when their own numbers were looked for, in the order of their forks.
    gone: VecDeque<(i32, u64)>,
}

impl PidNamespaceMap {
    /// A process that was met while it lived knows itself by `own`: its rings may be read after its end.
    pub fn note(&mut self, own: i32, pid: i32) {
        if own != pid {
            self.processes.insert((own, 0), pid);
        }
    }

    /// A process was forked, by one that runs the program with these random bytes.
    pub fn forked(&mut self, child: i32, image: u64) {
        if image == 0 || self.here.contains(&image) {
            return;
        }
        match inside(child).and_then(|numbers| numbers.last().copied()) {
            Some(own) => drop(self.processes.insert((own, image), child)),
            None => self.gone.push_back((child, image)),
        }
    }

    /// The process that a ring belongs to.
    pub fn process(&mut self, ring: &RingRecord, file: &RegionFile) -> i32 {
        let (pid, image) = (ring.pid.load(Relaxed), ring.image.load(Relaxed));
        // Without image it was attached to, and the recorder knows whether it is elsewhere.
        if image == 0 && file.header().recorder.load(Relaxed) != 0 {
            return pid;
        }
        self.of(pid, image)
    }

    /// The process that knows itself by `pid` and runs the program with these random bytes (0: any program).
    pub fn of(&mut self, pid: i32, image: u64) -> i32 {
        if let Some(&known) = self.processes.get(&(pid, image)) {
            return known;
        }
        let is_here = image != 0 && fits(pid, image) && inside(pid).is_some_and(|numbers| numbers.len() == 1);
        let found = if is_here || self.here.contains(&image) {
            pid
        } else {
            elsewhere(pid, image).or_else(|| self.take_gone(image)).unwrap_or(pid)
        };
        if is_here {
            self.here.insert(image);
        }
        self.processes.insert((pid, image), found);
        found
    }

    fn take_gone(&mut self, image: u64) -> Option<i32> {
        let first = self.gone.iter().position(|&(_, of)| of == image)?;
        self.gone.remove(first).map(|(child, _)| child)
    }

    /// The thread that a ring belongs to; `process` is its process.
    pub fn thread(&self, ring: &RingRecord, process: i32) -> i32 {
        let tid = ring.tid.load(Relaxed);
        if process == ring.pid.load(Relaxed) {
            return tid;
        }
        if tid == ring.pid.load(Relaxed) {
            return process;
        }
        let tasks = numbers_in(&format!("/proc/{process}/task"));
        tasks.into_iter().find(|&task| inside(task).is_some_and(|numbers| numbers.last() == Some(&tid))).unwrap_or(tid)
    }
}

/// The number under which a process knows itself; its own if it is gone.
pub fn own_number(pid: i32) -> i32 {
    inside(pid).and_then(|numbers| numbers.last().copied()).unwrap_or(pid)
}

/// Threads and processes that know themselves by this number, whatever namespace they are in; that of the recorder's first.
pub fn all_of(number: i32) -> impl Iterator<Item = i32> {
    let knows_itself = move |process: &i32| {
        let numbers = inside(*process).unwrap_or_default();
        numbers.len() > 1 && numbers.last() == Some(&number)
    };
    let tasks = |process: i32| numbers_in(&format!("/proc/{process}/task"));
    let elsewhere =
        move || numbers_in("/proc").into_iter().filter(is_in_namespace).flat_map(tasks).filter(knows_itself);
    std::iter::once(number).chain(std::iter::once_with(elsewhere).flatten())
}

fn is_in_namespace(process: &i32) -> bool {
    inside(*process).is_some_and(|numbers| numbers.len() > 1)
}

/// Whether a process runs the program with these random bytes; 0 is any.
fn fits(process: i32, image: u64) -> bool {
    image == 0 || random_bytes(process) == Some(image)
}

/// A process of another namespace, if it has not ended.
fn elsewhere(pid: i32, image: u64) -> Option<i32> {
    numbers_in("/proc").into_iter().find(|&process| {
        let numbers = inside(process).unwrap_or_default();
        numbers.len() > 1 && numbers.last() == Some(&pid) && fits(process, image)
    })
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Numbers of a thread in the namespaces that it is in, from the recorder's own on.
fn inside(task: i32) -> Option<Vec<i32>> {
    let status = transect_attach::read_text(format!("/proc/{task}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// The first eight of the random bytes that the kernel has given the program.
fn random_bytes(process: i32) -> Option<u64> {
    let mut vector = Vec::new();
    File::open(format!("/proc/{process}/auxv")).ok()?.read_to_end(&mut vector).ok()?;
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let entry = vector.chunks_exact(16).find(|entry| word(entry) == RANDOM)?;
    let mut bytes = [0; 8];
    File::open(format!("/proc/{process}/mem")).ok()?.read_exact_at(&mut bytes, word(&entry[8..])).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_by_its_own_number() {
        let pid = std::process::id().cast_signed();
        let image = random_bytes(pid).unwrap();
        assert_eq!(PidNamespaceMap::default().of(pid, image), pid);
        // A program that is nowhere keeps its number.
        assert_eq!(PidNamespaceMap::default().of(pid, !image), pid);
    }
}
