//! All that is known of what is walked through, growing from step to step.

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::{CallOfRecord, OpenThread, SystemCall};
use transect_call_walk::{CallTree, ExactTotals, Split, Stratum, SystemCallTotals, ThreadTotals, Unit};

use super::evidence::{Evidence, Sum, SumKey, WaitsSeen};
use super::frames::Frames;
use super::groups::{GroupKey, Threads, split};
use super::joined_tree::JoinedTree;
use super::loss::NotKept;
use crate::sched::call_stack::NO_STACK;
use crate::sched::kernel_symbols::SymbolSource;
use crate::sched::system_call_budget::CountedCalls;

/// How long the walk itself held a thread, to set probes, ns.
#[derive(Debug, Default)]
struct Held {
    /// Blocked, and runnable after that.
    whole: (f64, f64),
    /// Of it in system calls, by number.
    calls: HashMap<u32, (f64, f64)>,
}

impl Held {
    fn add(&mut self, call: CallOfRecord, sum: &Sum) {
        let add = |to: &mut (f64, f64)| *to = (to.0 + sum.waits.ns, to.1 + sum.runnable.ns);
        add(&mut self.whole);
        if let CallOfRecord::Inside(call) = call {
            add(self.calls.entry(call.number).or_default());
        }
    }
}

/// What is left of a time without what the walk took.
fn without(mut time: Split, held: (f64, f64)) -> Split {
    time.blocked_ns = (time.blocked_ns - held.0).max(0.0);
    time.runnable_ns = (time.runnable_ns - held.1).max(0.0);
    time
}

/// Threads, stacks and trees.
pub(super) struct WalkState {
    pub threads: Threads,
    pub frames: Frames,
    /// A tree for each thread group; new ones at the end.
    pub trees: Vec<JoinedTree>,
    unit: Unit,
    /// The unit is page faults, which are counted.
    pub faults: bool,
    /// Nothing more will come.
    last: bool,
    wanted: Option<String>,
    /// Tree of each thread; `None` if its group is not wanted.
    of_task: HashMap<u32, Option<usize>>,
    /// Everything that was seen of each thread.
    sums: HashMap<u32, HashMap<SumKey, Sum>>,
    /// Samples that came.
    pub samples: u64,
    /// What was seen with stacks that have not come yet.
    pending: Vec<(SumKey, Sum)>,
    executables: HashMap<i32, String>,
    /// Processes that run another program since this was looked at last.
    replaced: Vec<i32>,
    held: HashMap<u32, Held>,
    /// Exact times in system calls.
    pub calls: CountedCalls,
    /// What waits were for; at the end only.
    pub waits: WaitsSeen,
    /// Waits of which that is not kept.
    pub waits_refused: u64,
    /// Waits of which the object is not.
    pub objects_refused: u64,
    /// Losses up to now.
    pub not_kept: NotKept,
    /// Samples and waits whose stacks were too deep.
    pub truncated: u64,
    /// Some thread has slept since before it was met: nothing tells where.
    pub sleepers: bool,
}

impl WalkState {
    /// Nothing is known. Trees count `unit`, and only groups of the name `wanted` are looked at.
    pub fn new(kernel: SymbolSource, with_kernel: bool, unit: Unit, wanted: Option<String>) -> Self {
        Self {
            threads: Threads::default(),
            frames: Frames::new(kernel, with_kernel),
            trees: Vec::new(),
            unit,
            faults: false,
            last: false,
            wanted,
            of_task: HashMap::default(),
            sums: HashMap::default(),
            samples: 0,
            pending: Vec::new(),
            executables: HashMap::default(),
            replaced: Vec::new(),
            held: HashMap::default(),
            calls: CountedCalls::default(),
            waits: WaitsSeen::default(),
            waits_refused: 0,
            objects_refused: 0,
            not_kept: NotKept::default(),
            truncated: 0,
            sleepers: false,
        }
    }

    /// Takes in a step's evidence.
    pub fn learn(&mut self, mut evidence: Evidence, last: bool) {
        self.last = last;
        let programs = evidence.executables.iter().map(|(_, path)| path.clone()).collect();
        self.frames.add_files(std::mem::take(&mut evidence.files), programs);
        self.executables.extend(std::mem::take(&mut evidence.executables));
        self.replaced.append(&mut evidence.replaced);
        self.frames.prepare(&evidence.stacks, &mut evidence.read);
        for stack in &evidence.stacks {
            self.frames.add_stack(stack);
        }
        self.frames.add_truncated(&evidence.truncated);
        self.threads.update(&evidence);
        let unseen = |open: &OpenThread| open.wait.is_none_or(|wait| wait.stack == 0) && open.task.running_ns == 0;
        self.sleepers = evidence.open.iter().any(|open| open.task.blocked_ns > 0 && unseen(open));
        for task in self.threads.renamed() {
            self.regroup(task);
        }
        for (key, sum) in &evidence.sums {
            self.samples += sum.samples.count;
            self.sums.entry(key.task).or_default().entry(*key).or_default().add(sum);
        }
        // What is missing of a stack is found in others: if not in those of this step, maybe in the next one's.
        let (mut new, waited) = (evidence.sums.clone(), std::mem::take(&mut self.pending));
        new.sort_by_key(|(key, _)| !self.frames.is_complete(key.stack));
        for (key, sum) in &new {
            self.truncated += if self.frames.is_truncated(key.stack) { sum.samples.count + sum.waits.count } else { 0 };
        }
        for (key, sum) in new {
            self.place(key, sum, last);
        }
        for (key, sum) in waited {
            self.place(key, sum, last || self.frames.is_truncated(key.stack));
        }
        self.calls = std::mem::take(&mut evidence.calls);
        self.waits = std::mem::take(&mut evidence.waits);
        self.not_kept = std::mem::take(&mut evidence.not_kept);
        self.stratify();
    }

    /// Path of a process' program.
    pub fn executable(&self, tgid: i32) -> Option<&str> {
        self.executables.get(&tgid).map(String::as_str)
    }

    /// Processes that run another program since the last call, with the numbers of their trees.
    pub fn take_replaced(&mut self) -> Vec<(i32, Vec<usize>)> {
        let trees = |tgid| (0..self.trees.len()).filter(|&tree| self.trees[tree].key.tgid == tgid).collect();
        std::mem::take(&mut self.replaced).into_iter().map(|tgid| (tgid, trees(tgid))).collect()
    }

    /// Samples and waits that are in no tree: their stacks, or threads, never came.
    pub fn unplaced(&self) -> u64 {
        self.pending.iter().map(|(_, sum)| sum.samples.count + sum.waits.count).sum()
    }

    /// Tree of a thread, if its group is wanted.
    pub fn group_of(&self, task: u32) -> Option<usize> {
        self.of_task.get(&task).copied().flatten()
    }

    /// The trees, in the order that the search numbers them by.
    pub fn call_trees(&self) -> Vec<&CallTree> {
        self.trees.iter().map(|tree| &tree.tree).collect()
    }

    /// A thread may have got another name.
    fn regroup(&mut self, task: u32) {
        let Some(&before) = self.of_task.get(&task) else { return };
        let same = |key: &GroupKey| before.is_some_and(|before| *key == self.trees[before].key);
        let Some(key) = self.threads.group(task).filter(|key| !same(key)) else { return };
        if let Some(before) = before {
            self.trees[before].tree.forget(task);
        }
        self.held.remove(&task);
        self.pending.retain(|(pending, _)| pending.task != task);
        let tree = self.tree_of(key);
        self.of_task.insert(task, tree);
        let sums: Vec<(SumKey, Sum)> =
            self.sums.get(&task).into_iter().flatten().map(|(key, sum)| (*key, *sum)).collect();
        for (key, sum) in sums {
            self.place(key, sum, self.last);
        }
    }

    fn tree_of(&mut self, key: GroupKey) -> Option<usize> {
        if self.wanted.as_ref().is_some_and(|wanted| *wanted != key.name) {
            return None;
        }
        let known = self.trees.iter().position(|tree| tree.key == key);
        Some(known.unwrap_or_else(|| {
            self.trees.push(JoinedTree::new(key, self.unit));
            self.trees.len() - 1
        }))
    }

    fn tree_of_task(&mut self, task: u32) -> Option<usize> {
        if let Some(&tree) = self.of_task.get(&task) {
            return tree;
        }
        let key = self.threads.group(task)?;
        let tree = self.tree_of(key);
        self.of_task.insert(task, tree);
        tree
    }

    /// Adds to a tree, or to what is pending; `settled`: what is missing of its stack will not be known later.
    fn place(&mut self, key: SumKey, sum: Sum, settled: bool) {
        if key.stack == NO_STACK {
            return;
        }
        if key.by_walk && self.frames.is_held(key.stack) {
            // It is our doing: no time of the program.
            self.held.entry(key.task).or_default().add(SystemCall::of_record(key.call), &sum);
            return;
        }
        let known = self.threads.all().contains_key(&key.task);
        let placed = match self.tree_of_task(key.task) {
            Some(tree) => self.trees[tree].add(key, &sum, &mut self.frames, settled),
            None => known,
        };
        if !placed {
            self.pending.push((key, sum));
        }
    }

    fn stratify(&mut self) {
        let tasks: Vec<u32> = self.threads.all().keys().copied().collect();
        let mut exact: Vec<ExactTotals> = Vec::new();
        for task in tasks {
            let (Some(tree), Some(time)) = (self.tree_of_task(task), self.threads.time(task)) else { continue };
            exact.resize(self.trees.len(), ExactTotals::default());
            let time = without(time, self.held.get(&task).map_or((0.0, 0.0), |held| held.whole));
            // Of what is no time, lifetimes say nothing.
            let whole = (self.unit != Unit::Weight).then_some(time);
            let totals = ThreadTotals { whole, ..ThreadTotals::default() };
            exact[tree].threads.insert(task, totals);
        }
        exact.resize(self.trees.len(), ExactTotals::default());
        // Of a part of their time nothing is said of the whole.
        let is_whole = self.calls.until.is_none() && self.unit != Unit::Weight;
        let counted = is_whole.then_some(&self.calls.totals.calls);
        for total in counted.into_iter().flatten().filter(|total| !total.call.compat) {
            let Some(&Some(tree)) = self.of_task.get(&total.task) else { continue };
            let Some(thread) = exact[tree].threads.get_mut(&total.task) else { continue };
            let time = split(total.time.running_ns, total.time.runnable_ns, total.time.blocked_ns);
            let held = self.held.get(&total.task).and_then(|held| held.calls.get(&total.call.number));
            let split = without(time, held.copied().unwrap_or_default());
            thread.system_calls.insert(total.call.number, SystemCallTotals { calls: total.count, split });
        }
        for (task, sums) in &self.sums {
            let Some(&Some(tree)) = self.of_task.get(task) else { continue };
            let Some(thread) = exact[tree].threads.get_mut(task) else { continue };
            for (key, sum) in sums.iter().filter(|(_, sum)| sum.waits.ns + sum.runnable.ns > 0.0) {
                let stratum = match SystemCall::of_record(key.call) {
                    CallOfRecord::Inside(call) if thread.system_calls.contains_key(&call.number) && !call.compat => {
                        Stratum::SystemCall(call.number)
                    }
                    _ => Stratum::User,
                };
                let ours = key.by_walk && self.frames.is_held(key.stack);
                *thread.woken_ns.entry(stratum).or_default() += if ours { 0.0 } else { sum.runnable.ns };
            }
        }
        for thread in self.calls.totals.threads.iter().filter(|_| self.faults) {
            let Some(&Some(tree)) = self.of_task.get(&thread.task) else { continue };
            if let Some(totals) = exact[tree].threads.get_mut(&thread.task) {
                totals.weight = Some((thread.user_faults + thread.kernel_faults) as f64);
            }
        }
        for (tree, exact) in self.trees.iter_mut().zip(&exact) {
            tree.tree.post_stratify(exact);
        }
    }
}
