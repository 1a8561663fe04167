//! Processes and threads of the recording: when they began and ended, and their names.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use transect_event_abi::region_arena::RingRecord;

use super::fold::ThreadFold;
use super::reading::told;
use crate::clock::ticks;

/// A process, or one program of it.
#[derive(Debug, Clone)]
pub struct ProcessFacts {
    /// Number.
    pub pid: i32,
    /// Parent's number.
    pub parent: i32,
    /// Executable.
    pub executable: String,
    /// Ticks.
    pub start: u64,
    /// Ticks; `None` while it runs.
    pub end: Option<u64>,
    midway: bool,
}

/// A thread.
#[derive(Debug, Clone)]
pub struct ThreadFacts {
    /// Index in [`TaskList::processes`].
    pub process: usize,
    /// Number.
    pub tid: i32,
    /// Name, the last that was seen.
    pub name: String,
    /// Ticks.
    pub start: u64,
    /// Ticks; `None` while it runs.
    pub end: Option<u64>,
    /// Ticks at which it was last known to live, until its end is told exactly: `end` then is when it was missed.
    alive: Option<u64>,
    /// It may have been in regions when it was first seen.
    pub midway: bool,
    /// Its tree, once the recording is over.
    pub fold: Option<ThreadFold>,
    /// Events that found no room.
    pub dropped: u64,
    /// Events that a signal handler has interrupted and never returned to.
    pub interrupted: u64,
    /// Times that it waited for room.
    pub waited: u64,
    /// How long, ticks.
    pub waited_ticks: u64,
}

impl ThreadFacts {
    /// It has used this ring.
    pub fn note_ring(&mut self, ring: &RingRecord) {
        self.dropped += told(&ring.dropped);
        self.waited += told(&ring.waited);
        self.waited_ticks += told(&ring.waited_ticks);
    }
}

/// So many threads may have come since one that was not heard of when it came.
const JUST_GONE: usize = 256;

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct TaskList {
    /// Processes in the order in which they were met.
    pub processes: Vec<ProcessFacts>,
    /// Threads in the order in which they were met.
    pub threads: Vec<ThreadFacts>,
    running: HashMap<i32, usize>,
    living: HashMap<(usize, i32), usize>,
}

impl TaskList {
    /// A process is recorded from `start` on.
    pub fn begin(&mut self, pid: i32, start: u64, midway: bool) {
        if let Some(&number) = self.running.get(&pid) {
            let process = &mut self.processes[number];
            (process.start, process.midway) = (process.start.min(start), midway);
            // It has had events, or switches, before its launcher announced it.
            for thread in self.threads.iter_mut().filter(|thread| thread.process == number && !midway) {
                thread.midway = false;
            }
            return;
        }
        let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().to_string_lossy().into_owned();
        self.running.insert(pid, self.processes.len());
        self.processes.push(ProcessFacts { pid, parent: parent_of(pid), executable, start, end: None, midway });
        self.look_at(self.processes.len() - 1, start);
    }

    /// A process was met; it is a child of another one if it is unknown. If it is gone already, it ran the same program as
    /// `like`.
    pub fn known(&mut self, pid: i32, since: u64, like: Option<i32>) {
        if self.process_at(pid, since).is_none() {
            self.begin(pid, since, true);
        }
        self.name(pid);
        self.resemble(pid, like);
    }

    /// A process was forked: it began as its parent's program, whatever it is by now.
    pub fn forked(&mut self, pid: i32, parent: i32) {
        let Some(of_parent) = self.processes.iter().rposition(|process| process.pid == parent) else { return };
        if let Some(&process) = self.running.get(&pid) {
            self.processes[process].executable = self.processes[of_parent].executable.clone();
            self.processes[process].parent = parent;
        }
    }

    /// A process that is gone already ran the same program as `like`, which has forked it.
    fn resemble(&mut self, pid: i32, like: Option<i32>) {
        let like = like
            .filter(|&like| like != pid)
            .and_then(|like| self.processes.iter().rposition(|process| process.pid == like));
        if let (Some(&process), Some(like)) = (self.running.get(&pid), like)
            && self.processes[process].executable.is_empty()
        {
            self.processes[process].executable = self.processes[like].executable.clone();
            self.processes[process].parent = self.processes[like].pid;
        }
    }

    /// The process of this number at that time; its end may have been seen before its ring was.
    fn process_at(&self, pid: i32, since: u64) -> Option<usize> {
        let then = |process: &ProcessFacts| process.pid == pid && process.end.is_some_and(|end| end >= since);
        self.running.get(&pid).copied().or_else(|| self.processes.iter().rposition(then))
    }

    /// Executable of a process that was not the final program yet when it was met.
    fn name(&mut self, pid: i32) {
        let Some(&process) = self.running.get(&pid) else { return };
        if let Ok(path) = fs::read_link(format!("/proc/{pid}/exe")) {
            self.processes[process].executable = path.to_string_lossy().into_owned();
        }
    }

    /// It has become another program.
    pub fn replaced(&mut self, pid: i32, now: u64) {
        self.ended(pid, now);
        self.begin(pid, now, false);
    }

    /// It has ended, with all of its threads.
    pub fn ended(&mut self, pid: i32, end: u64) {
        let Some(process) = self.running.remove(&pid) else { return };
        self.processes[process].end = Some(end);
        let mut gone = Vec::new();
        self.living.retain(|&(of, _), thread| {
            if of == process {
                gone.push(*thread);
            }
            of != process
        });
        for thread in gone {
            (self.threads[thread].end, self.threads[thread].alive) = (Some(end), None);
        }
    }

    /// The thread of this number that lives at `since`.
    pub fn thread(&mut self, pid: i32, tid: i32, since: u64, name: String) -> usize {
        let process = self.process_at(pid, since).unwrap_or_default();
        if let Some(&thread) = self.living.get(&(process, tid)) {
            return thread;
        }
        // Its end may have been seen before its ring was.
        let ended = |t: &ThreadFacts| t.process == process && t.tid == tid && t.end.is_some_and(|end| end >= since);
        if let Some(thread) = self.threads.iter().rposition(ended) {
            return thread;
        }
        self.add(process, tid, since, name)
    }

    /// The kernel says that a process that is recorded made a thread. It may be known, and be gone, by then.
    pub fn born(&mut self, pid: i32, tid: i32, start: u64) {
        let Some(&process) = self.running.get(&pid) else { return };
        let gone = |thread: &ThreadFacts| thread.tid == tid && thread.end.is_some_and(|end| end >= start);
        if let Some(&thread) = self.living.get(&(process, tid)) {
            self.lives_since(thread, start);
        } else if !self.threads.iter().rev().take(JUST_GONE).any(gone) {
            self.add(process, tid, start, String::new());
        }
    }

    /// A thread that lives.
    pub fn living(&self, pid: i32, tid: i32) -> Option<usize> {
        self.living.get(&(*self.running.get(&pid)?, tid)).copied()
    }

    /// Threads of a process that runs.
    pub fn threads_of(&self, pid: i32) -> Vec<usize> {
        let Some(process) = self.running.get(&pid) else { return Vec::new() };
        self.living.iter().filter(|((of, _), _)| of == process).map(|(_, thread)| *thread).collect()
    }

    /// A process that was held begins only now, with all of its threads.
    pub fn begins_at(&mut self, pid: i32, start: u64) {
        let Some(&process) = self.running.get(&pid) else { return };
        self.processes[process].start = start;
        for thread in self.threads.iter_mut().filter(|thread| thread.process == process && thread.end.is_none()) {
            thread.start = start;
        }
    }

    /// A thread that lived at `then`: its end may have been seen before what it did.
    pub fn thread_at(&self, pid: i32, tid: i32, then: u64) -> Option<usize> {
        let process = self.process_at(pid, then)?;
        let is = |thread: &ThreadFacts| {
            thread.process == process && thread.tid == tid && thread.end.is_none_or(|end| end >= then)
        };
        self.threads.iter().rposition(is)
    }

    /// A process was recorded at `then`.
    pub fn was_running(&self, pid: i32, then: u64) -> bool {
        self.process_at(pid, then).is_some()
    }

    /// A process is recorded and has not ended.
    pub fn is_running(&self, pid: i32) -> bool {
        self.running.contains_key(&pid)
    }

    /// A child of fork becomes another program before anything was seen of it: it is that from its beginning on. False if
    /// it is no child, or one of its threads is `used`.
    pub fn becomes_program(&mut self, pid: i32, used: impl Fn(usize) -> bool) -> bool {
        let Some(&number) = self.running.get(&pid) else { return false };
        let mut own = self.threads.iter_mut().enumerate().filter(|(_, thread)| thread.process == number);
        if !self.processes[number].midway || own.any(|(thread, _)| used(thread)) {
            return false;
        }
        self.processes[number].midway = false;
        for thread in self.threads.iter_mut().filter(|thread| thread.process == number) {
            thread.midway = false;
        }
        self.name(pid);
        true
    }

    /// Somebody saw a thread end, more exactly than [`TaskList::look`] does.
    pub fn thread_ended(&mut self, pid: i32, tid: i32, end: u64) {
        // There may be events of the whole machine's threads.
        if !self.processes.iter().any(|process| process.pid == pid) {
            return;
        }
        let is = |thread: &ThreadFacts| thread.tid == tid && thread.start <= end;
        let of = |thread: &ThreadFacts| self.processes[thread.process].pid == pid;
        let Some(number) = self.threads.iter().rposition(|thread| is(thread) && of(thread)) else { return };
        let thread = &mut self.threads[number];
        // Of a process that has become a program that is not recorded, the end came before.
        let told = thread.end.filter(|_| thread.alive.is_none()).map_or(end, |told| told.min(end));
        (thread.end, thread.alive) = (Some(told), None);
        self.living.remove(&(thread.process, tid));
    }

    /// Somebody saw a process end, more exactly than [`TaskList::look`] does.
    pub fn process_ended(&mut self, pid: i32, end: u64) {
        self.ended(pid, end);
        let then = |process: &&mut ProcessFacts| process.pid == pid && process.start <= end;
        if let Some(process) = self.processes.iter_mut().rev().find(then) {
            process.end = Some(end);
        }
    }

    /// It was heard of only after its first event.
    pub fn lives_since(&mut self, thread: usize, start: u64) {
        let thread = &mut self.threads[thread];
        thread.start = thread.start.min(start);
        let process = &mut self.processes[thread.process];
        process.start = process.start.min(start);
    }

    fn add(&mut self, process: usize, tid: i32, start: u64, name: String) -> usize {
        let facts = &self.processes[process];
        let main = tid == facts.pid;
        let start = if main { facts.start } else { start };
        let end = facts.end;
        if end.is_none() {
            self.living.insert((process, tid), self.threads.len());
        }
        self.threads.push(ThreadFacts {
            process,
            tid,
            name,
            start,
            end,
            alive: None,
            // A child of fork is in the regions that its parent was in; other threads begin outside.
            midway: facts.midway && (main || start <= facts.start),
            fold: None,
            dropped: 0,
            interrupted: 0,
            waited: 0,
            waited_ticks: 0,
        });
        self.threads.len() - 1
    }

    /// Looks which threads there are.
    pub fn look(&mut self) {
        let pids: Vec<(i32, usize)> = self.running.iter().map(|(pid, process)| (*pid, *process)).collect();
        for (pid, process) in pids {
            if is_over(pid) {
                // Read afterwards: it may have gone on until just before it was looked at.
                self.ended(pid, ticks());
            } else {
                self.look_at(process, ticks());
            }
        }
    }

    fn look_at(&mut self, process: usize, now: u64) {
        let pid = self.processes[process].pid;
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        let there: HashSet<i32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        for &tid in &there {
            let thread = match self.living.get(&(process, tid)) {
                Some(&thread) => thread,
                // Its end may have been told already.
                None if is_exiting(pid, tid) => continue,
                None => self.add(process, tid, now, String::new()),
            };
            self.threads[thread].alive = Some(now);
            if let Ok(name) = transect_attach::read_text(format!("/proc/{pid}/task/{tid}/comm")) {
                self.threads[thread].name = name.trim_end_matches('\n').to_owned();
            }
        }
        let threads = &mut self.threads;
        self.living.retain(|&(of, tid), thread| {
            // A listing that is read while other threads end may leave out one that lives.
            let lives = of != process || there.contains(&tid) || Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
            if !lives {
                let thread = &mut threads[*thread];
                thread.end = Some(ticks());
                thread.alive.get_or_insert(thread.start);
            }
            lives
        });
    }

    /// The recording ends. `last_event` tells the ticks of a thread's last event, if it has any.
    pub fn conclude(&mut self, now: u64, last_event: impl Fn(usize) -> Option<u64>) {
        self.processes.iter_mut().for_each(|process| process.end = process.end.or(Some(now)));
        for (number, thread) in self.threads.iter_mut().enumerate() {
            thread.end = match (thread.end, thread.alive) {
                // It ended between two looks: with its last event, if that came after the first of them, or midway.
                (Some(missed), Some(alive)) => match last_event(number) {
                    Some(event) if event > alive || event >= missed => Some(event),
                    _ => Some(alive + missed.saturating_sub(alive) / 2),
                },
                (end, _) => end.or(Some(now)),
            };
        }
    }
}

fn stat(pid: i32) -> Option<(char, i32)> {
    let text = transect_attach::read_text(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a thread is on its way out, or gone: it is listed for a while after its end was told.
fn is_exiting(pid: i32, tid: i32) -> bool {
    // The kernel's PF_EXITING, of include/linux/sched.h.
    const EXITING: u64 = 4;
    let flags = |text: String| -> Option<u64> {
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        // The ninth field of all, the seventh behind the name: proc_pid_stat(5).
        fields.nth(6)?.parse().ok()
    };
    let text = transect_attach::read_text(format!("/proc/{pid}/task/{tid}/stat"));
    !text.is_ok_and(|text| flags(text).is_none_or(|flags| flags & EXITING == 0))
}

fn parent_of(pid: i32) -> i32 {
    stat(pid).map_or(0, |(_, parent)| parent)
}

/// Whether a process has no thread that runs.
pub fn is_over(pid: i32) -> bool {
    match stat(pid) {
        None => true,
        // The first thread may have ended before the others.
        Some(('Z' | 'X', _)) => fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() <= 1),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::TaskList;
    use crate::clock::ticks;

    /// This process, and its number.
    fn own_process() -> (TaskList, i32) {
        let pid = std::process::id().cast_signed();
        let mut tasks = TaskList::default();
        tasks.begin(pid, ticks(), false);
        (tasks, pid)
    }

    #[test]
    fn short_threads_end_with_their_last_event() {
        let (mut tasks, pid) = own_process();
        // Numbers that no thread has.
        let start = ticks();
        let with_events = tasks.thread(pid, i32::MAX, start, String::new());
        let without = tasks.thread(pid, i32::MAX - 1, start, String::new());
        tasks.look();
        let missed = tasks.threads[without].end.expect("it was missed");
        tasks.conclude(missed + 1000, |thread| (thread == with_events).then_some(start + 1));
        assert_eq!(tasks.threads[with_events].end, Some(start + 1));
        assert_eq!(tasks.threads[without].end, Some(start + (missed - start) / 2));
        let own = tasks.threads.iter().find(|thread| thread.tid == pid).expect("the first thread is there");
        assert_eq!(own.end, Some(missed + 1000), "it lives on");
    }

    #[test]
    fn a_launched_process_that_was_met_before_it_was_told_of_began_outside() {
        let (mut tasks, pid) = (TaskList::default(), std::process::id().cast_signed());
        tasks.known(pid, ticks(), None);
        let first =
            |tasks: &TaskList| tasks.threads.iter().find(|thread| thread.tid == pid).map(|thread| thread.midway);
        assert_eq!(first(&tasks), Some(true));
        tasks.begin(pid, ticks(), false);
        assert_eq!(first(&tasks), Some(false));
    }

    #[test]
    fn what_is_told_exactly_stands() {
        let (mut tasks, pid) = own_process();
        let start = ticks();
        let thread = tasks.thread(pid, i32::MAX, start, String::new());
        tasks.look();
        tasks.thread_ended(pid, i32::MAX, start + 7);
        tasks.conclude(start + 1_000_000, |_| Some(start + 1));
        assert_eq!(tasks.threads[thread].end, Some(start + 7));
    }
}
