//! What was seen of a user's own processes, record by record: threads and their times, code, and stacks of samples.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap as HashMap;
use transect_attach::Mapping;
use transect_bpf_collect::CodeMapping;
use transect_bpf_collect::thread_samples::{Seen as Record, ThreadRecord};

use super::estimate::Weights;
use super::translation::Translation;
use crate::clock::monotonic_ns;
use crate::feature::choice::Choice;
use crate::sched::call_stack::StackNumber;
use crate::sched::mapped_file::MappedFiles;
use crate::sched::place::Place;
use crate::user_samples::call_walk::Values;
use crate::user_samples::process_code::{ProcessCode, UnwindImages};
use crate::user_samples::thread_times::ThreadTimes;
use crate::walk::NewStack;

/// A thread.
pub(super) struct OneThread {
    pub tid: i32,
    pub tgid: i32,
    pub name: String,
    pub times: ThreadTimes,
    /// By stack, and how many regions were without events by then ([`Gathered::silent`]).
    pub samples: HashMap<(StackNumber, usize), StackSamples>,
    /// Of the time for which it was preempted, ns: what samples stand for already.
    preempted: f64,
}

/// Samples with one stack.
#[derive(Debug, Clone, Copy, Default)]
pub struct StackSamples {
    /// By time on a CPU.
    pub on: Weights,
    /// The same and the time for which the thread was preempted since its sample before.
    pub all: Weights,
}

impl StackSamples {
    /// One more, of `ns` on a CPU after `preempted` ns without.
    pub fn add_one(&mut self, ns: f64, preempted: f64) {
        self.on.add_one(ns);
        self.all.add_one(ns + preempted);
    }

    /// More.
    pub fn add(&mut self, other: &Self) {
        self.on.add(&other.on);
        self.all.add(&other.all);
    }
}

/// All of it.
#[derive(Default)]
pub(super) struct Gathered {
    /// Read, but older ones of other CPUs may come.
    pub waiting: Vec<ThreadRecord>,
    processes: HashMap<i32, ProcessCode>,
    images: UnwindImages,
    pub files: MappedFiles,
    /// Files that the translation knows.
    pub told: usize,
    pub translation: Translation,
    numbers: HashMap<(Vec<Place>, bool), StackNumber>,
    /// The latest thread of each number.
    living: HashMap<i32, usize>,
    pub threads: Vec<OneThread>,
    pub executables: HashMap<i32, String>,
    pub parents: HashMap<i32, i32>,
    pub lost: u64,
    /// A program that replaces another is a thread of its own, as beside events.
    programs_apart: bool,
    /// When regions that had sent events until then became silent, `CLOCK_MONOTONIC`, ns.
    pub silent: Arc<Mutex<Vec<u64>>>,
}

impl Gathered {
    /// Nothing yet; `silent` grows meanwhile.
    pub fn of(silent: Arc<Mutex<Vec<u64>>>) -> Self {
        Self { silent, programs_apart: true, ..Self::default() }
    }

    /// Nothing yet, of the regions that are wanted.
    pub fn choosing(choice: Choice) -> Self {
        Self { translation: Translation::choosing(choice), ..Self::default() }
    }

    /// A process that runs already.
    pub fn meet(&mut self, pid: i32, tids: &[i32]) {
        let now = monotonic_ns();
        for &tid in tids {
            let name = transect_attach::read_text(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            self.add(pid, tid, name.trim_end_matches('\n').to_owned(), ThreadTimes::new(now, false));
        }
        if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) {
            self.executables.insert(pid, path.to_string_lossy().into_owned());
        }
        for mapping in Mapping::all(pid).unwrap_or_default() {
            if mapping.executable && mapping.inode != 0 {
                let path = mapping.path.to_string_lossy().into_owned();
                self.map(pid, &path, mapping.device, mapping.inode, (mapping.start, mapping.end, mapping.offset));
            }
        }
    }

    fn map(
        &mut self,
        tgid: i32,
        path: &str,
        (major, minor): (u32, u32),
        inode: u64,
        (start, end, offset): (u64, u64, u64),
    ) {
        let file = self.files.number(tgid, path, rustix::fs::makedev(major, minor), inode);
        self.processes.entry(tgid).or_default().map(start, end, offset, file);
    }

    fn add(&mut self, tgid: i32, tid: i32, name: String, times: ThreadTimes) -> usize {
        self.living.insert(tid, self.threads.len());
        self.threads.push(OneThread { tid, tgid, name, times, samples: HashMap::default(), preempted: 0.0 });
        self.threads.len() - 1
    }

    fn thread(&mut self, record: &ThreadRecord) -> usize {
        match self.living.get(&record.tid) {
            Some(&thread) => thread,
            None => self.add(record.tgid, record.tid, String::new(), ThreadTimes::new(record.time, false)),
        }
    }

    /// Takes in records up to a time, in their order.
    pub fn take(&mut self, horizon: u64) {
        self.waiting.sort_by_key(|record| record.time);
        let ready = self.waiting.partition_point(|record| record.time <= horizon);
        let rest = self.waiting.split_off(ready);
        for record in std::mem::replace(&mut self.waiting, rest) {
            self.one(record);
        }
    }

    fn one(&mut self, record: ThreadRecord) {
        let ThreadRecord { time, tgid, tid, .. } = record;
        match record.seen {
            Record::Lost(count) => self.lost += count,
            Record::Born { parent, .. } => {
                // Its maker's name, until it has another one.
                let name = self.threads.iter().rev().find(|thread| thread.tid == parent || thread.tgid == parent);
                let name = name.map(|thread| thread.name.clone()).unwrap_or_default();
                self.add(tgid, tid, name, ThreadTimes::new(time, true));
                if parent != tgid {
                    let code = self.processes.get(&parent).map(ProcessCode::of_child).unwrap_or_default();
                    self.processes.insert(tgid, code);
                    self.parents.insert(tgid, parent);
                    if let Some(executable) = self.executables.get(&parent).cloned() {
                        self.executables.insert(tgid, executable);
                    }
                }
            }
            Record::Named { ref name, program } => {
                let mut thread = self.thread(&record);
                if program && self.programs_apart {
                    self.threads[thread].times.ends(time);
                    thread = self.add(tgid, tid, String::new(), ThreadTimes::new(time, false));
                }
                name.clone_into(&mut self.threads[thread].name);
                if program {
                    self.processes.insert(tgid, ProcessCode::default());
                    self.executables.remove(&tgid);
                }
            }
            Record::Mapped(CodeMapping { start, end, offset, device, inode, path }) => {
                // The first code of a program is its own.
                self.executables.entry(tgid).or_insert_with(|| path.clone());
                self.map(tgid, &path, device, inode, (start, end, offset));
            }
            Record::Runs => {
                let thread = self.thread(&record);
                self.threads[thread].times.runs(time);
            }
            Record::Stops { preempted } => {
                let thread = self.thread(&record);
                self.threads[thread].times.stops(time, preempted);
            }
            Record::Ended => {
                let thread = self.thread(&record);
                self.threads[thread].times.ends(time);
                self.living.remove(&tid);
            }
            Record::Sample { period, registers, ref stack } => {
                let thread = self.thread(&record);
                self.threads[thread].times.is_running(time);
                let code = self.processes.entry(tgid).or_default();
                let stack = (registers.sp, stack.as_slice());
                let found = code.unwind(tgid, Values::of_sample(registers), stack, &mut self.images, &self.files);
                let number = self.number(found.places, found.complete);
                let silent = self.silent.lock().map_or(0, |times| times.partition_point(|at| *at <= time));
                let thread = &mut self.threads[thread];
                let preempted = thread.times.exact().runnable;
                let since = preempted - std::mem::replace(&mut thread.preempted, preempted);
                thread.samples.entry((number, silent)).or_default().add_one(period as f64, since);
            }
        }
    }

    fn number(&mut self, places: Vec<Place>, complete: bool) -> StackNumber {
        let next = self.numbers.len() as StackNumber + 1;
        let key = (places, complete);
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let files = self.files.since(self.told);
        self.told += files.len();
        self.translation.add_files(&files);
        let user = key.0.clone();
        self.translation.add_stacks(&[NewStack { number: next, complete, kernel: Vec::new(), user }]);
        self.numbers.insert(key, next);
        next
    }
}
