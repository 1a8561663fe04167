//! Thread groups and what is exactly known of their threads' time.

use std::collections::BTreeMap;
use std::ffi::c_char;

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::text;
use transect_call_walk::Split;

use super::evidence::Evidence;
use crate::sched::task::RawTask;

/// A thread group: its process, as the initial pid namespace numbers it, and its threads' common name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    /// Process.
    pub tgid: i32,
    /// `main`, or the threads' name without trailing numbers.
    pub name: String,
}

/// What is known of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupFacts {
    /// Threads.
    pub threads: u64,
    /// Their time since each of them was first observed.
    pub time: Split,
}

/// All threads that were met.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    tasks: BTreeMap<u32, RawTask>,
    /// Totals of those that live, up to the last step.
    open: HashMap<u32, Split>,
    /// Threads whose name may be another than before.
    renamed: Vec<u32>,
    /// Names that threads had at first, and that they took.
    names: HashMap<u32, ([c_char; 16], [c_char; 16])>,
}

impl Threads {
    /// Takes in a step's evidence.
    pub fn update(&mut self, evidence: &Evidence) {
        for (number, task) in &evidence.tasks {
            let mut task = task.clone();
            // What a thread ends with may be known from its birth only.
            if let Some((_, name)) = self.names.get(number).filter(|(birth, _)| *birth == task.record.comm) {
                task.record.comm = *name;
            }
            self.tasks.insert(*number, task);
            self.renamed.push(*number);
        }
        self.open.clear();
        for (looked, open) in evidence.open.iter().enumerate() {
            let task = &open.task;
            let time = split(task.running_ns, task.runnable_ns, task.blocked_ns);
            self.open.insert(task.task, time);
            // Its birth may not have come yet.
            let known = self.tasks.entry(task.task).or_default();
            if !known.known {
                (known.record, known.known, known.begin) = (*task, true, task.time);
            }
            // Threads, and processes that were forked, take their names after they have begun.
            if looked < MAX_LOOKED
                && let Some(name) = name_of(task.tgid, task.tid)
                && name != known.record.comm
            {
                let birth = self.names.get(&task.task).map_or(known.record.comm, |(birth, _)| *birth);
                self.names.insert(task.task, (birth, name));
                known.record.comm = name;
                self.renamed.push(task.task);
            }
        }
    }

    /// Threads whose name may be another than before the last update.
    pub fn renamed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.renamed)
    }

    /// All threads by number.
    pub fn all(&self) -> &BTreeMap<u32, RawTask> {
        &self.tasks
    }

    /// The group that a thread belongs to, by its last name.
    pub fn group(&self, task: u32) -> Option<GroupKey> {
        let record = &self.tasks.get(&task)?.record;
        let name = if record.tid == record.tgid {
            "main".to_owned()
        } else {
            crate::assemble::group(&text(&record.comm), "", "")
        };
        Some(GroupKey { tgid: record.tgid, name })
    }

    /// A thread's exact time since it was first observed.
    pub fn time(&self, task: u32) -> Option<Split> {
        let record = &self.tasks.get(&task)?.record;
        let open = self.open.get(&task).copied();
        Some(open.unwrap_or_else(|| split(record.running_ns, record.runnable_ns, record.blocked_ns)))
    }

    /// All groups and their threads' exact times.
    pub fn groups(&self) -> BTreeMap<GroupKey, GroupFacts> {
        let mut groups: BTreeMap<GroupKey, GroupFacts> = BTreeMap::new();
        for &number in self.tasks.keys() {
            let Some(key) = self.group(number) else { continue };
            let facts = groups.entry(key).or_default();
            let Some(time) = self.time(number) else { continue };
            facts.threads += 1;
            facts.time.on_ns += time.on_ns;
            facts.time.runnable_ns += time.runnable_ns;
            facts.time.blocked_ns += time.blocked_ns;
        }
        groups
    }
}

pub(crate) fn split(on_ns: u64, runnable_ns: u64, blocked_ns: u64) -> Split {
    Split { on_ns: on_ns as f64, runnable_ns: runnable_ns as f64, blocked_ns: blocked_ns as f64 }
}

/// Of how many threads the name is read again at each step.
const MAX_LOOKED: usize = 512;

/// The name of a living thread, as the kernel's records have it.
fn name_of(tgid: i32, tid: i32) -> Option<[c_char; 16]> {
    let text = std::fs::read(format!("/proc/{tgid}/task/{tid}/comm")).ok()?;
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(text.iter().take_while(|byte| **byte != b'\n')).take(15) {
        *to = from.cast_signed();
    }
    Some(name)
}
