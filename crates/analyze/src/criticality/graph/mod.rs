//! Who waits for whom.

mod cascade;
mod knot;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{SchedWait, WaitKind};

use self::cascade::{Blocked, Target};
use super::Source;
use super::tally::Tally;

/// Threads, devices and the time that the ones waited for the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitGraph {
    /// Thread groups and what is outside of the program.
    pub nodes: Vec<WaitNode>,
    /// Waits between them, longest first.
    pub edges: Vec<WaitEdge>,
    /// Strongly connected nodes that wait (for a percent of the time or more) for nobody outside of their knot: where
    /// waiting ends, most blamed first. Numbers of nodes.
    pub knots: Vec<Vec<usize>>,
}

/// What a node of the graph is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A group of threads.
    #[default]
    Group,
    /// One thread.
    Thread,
    /// Files.
    Disk,
    /// Sockets.
    Net,
    /// Sleeping.
    Timer,
    /// Page faults.
    Memory,
    /// Whatever else is outside of the program, or not known.
    Other,
}

/// One node of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitNode {
    /// Name of the group or thread, or `disk`, `net`, `timer`, `memory`, `other`.
    pub name: String,
    /// What it is.
    pub what: NodeKind,
    /// Its threads.
    pub threads: i64,
    /// Time that its threads waited, ns.
    pub wait_ns: i64,
    /// Criticality of its threads, ns.
    pub self_ns: i64,
    /// Time that others waited for it, directly or through others, while it did not wait itself, ns.
    pub blamed_ns: i64,
    /// The knot it belongs to.
    pub knot: Option<usize>,
}

/// Waits of one node for another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitEdge {
    /// The waiting node's number.
    pub from: usize,
    /// The node it waits for: who holds the lock, or else who ended the wait.
    pub to: usize,
    /// Time waited, ns.
    pub ns: i64,
    /// The same and the time that others waited for the waiting threads meanwhile, ns (wPerf, OSDI '18).
    pub cascaded_ns: i64,
    /// See [`crate::CriticalWaitRow`].
    pub critical_ns: i64,
    /// Waits.
    pub count: i64,
    /// Kinds with their time, longest first.
    pub kinds: Vec<(WaitKind, i64)>,
    /// Objects, longest first; a few.
    pub objects: Vec<String>,
}

/// Names of what is outside of the program, in the order of their node numbers.
const OUTSIDE: [(&str, NodeKind); 5] = [
    ("disk", NodeKind::Disk),
    ("net", NodeKind::Net),
    ("timer", NodeKind::Timer),
    ("memory", NodeKind::Memory),
    ("other", NodeKind::Other),
];
/// Edges lighter than this part of the elapsed time tie no knots.
const LIGHT: f64 = 0.01;
/// Objects named on an edge.
const OBJECTS: usize = 4;

/// The node that a wait without a known thread to wait for leads to.
fn outside(kind: WaitKind) -> usize {
    match kind {
        WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync => 0,
        WaitKind::Socket => 1,
        WaitKind::Sleep => 2,
        WaitKind::PageFault => 3,
        _ => 4,
    }
}

/// Who waits for whom, thread groups as nodes.
pub(super) fn graph(source: &Source<'_>) -> WaitGraph {
    let (mut nodes, group_of) = nodes(source);
    let outside_from = nodes.len() - OUTSIDE.len();
    let tasks = &source.tables.tasks;
    let mut edges = Edges::default();
    let mut blocked: Vec<Blocked> = Vec::with_capacity(source.tables.waits.len());
    for (row, wait) in source.tables.waits.iter().enumerate().filter(|(_, wait)| (wait.task as usize) < tasks.len()) {
        if source.is_recorders(row) {
            continue;
        }
        let other = |task: &u32| *task != wait.task && (*task as usize) < tasks.len();
        let party = wait.holder.map(|p| p.task).filter(other).or(wait.waker.map(|p| p.task).filter(other));
        let from = group_of[wait.task as usize];
        let (to, target) = match party {
            Some(task) => (group_of[task as usize], Target::Task(task)),
            None => (outside_from + outside(wait.kind), Target::Outside),
        };
        nodes[from].wait_ns += wait.ns;
        let edge = edges.add((from, to), wait, wait.idle_ns + source.gains[row], source.objects.of(row));
        let SchedWait { task, begin_ns, end_ns, ns, .. } = *wait;
        blocked.push(Blocked {
            task,
            target,
            edge,
            begin_ns,
            end_ns,
            ns: ns.min(end_ns - begin_ns),
            merged: wait.is_sum(),
        });
    }
    if blocked.windows(2).any(|pair| pair[0].end_ns > pair[1].end_ns) {
        blocked.sort_by_key(|wait| wait.end_ns);
    }
    let cascaded = cascade::cascade(&blocked, tasks.len(), edges.sums.len());
    let mut blamed = vec![0.0; nodes.len()];
    for (task, ns) in cascaded.blamed.iter().enumerate() {
        blamed[group_of[task]] += ns;
    }
    let mut rows = edges.rows(source, &cascaded.edges);
    for row in rows.iter().filter(|row| row.to >= outside_from) {
        blamed[row.to] += row.cascaded_ns as f64;
    }
    nodes.iter_mut().zip(blamed).for_each(|(node, ns)| node.blamed_ns = ns.round() as i64);
    rows.sort_by_key(|row| (Reverse(row.ns), row.from, row.to));
    let mut graph = WaitGraph { nodes, edges: rows, knots: Vec::new() };
    tie(&mut graph, source);
    drop_unused(&mut graph);
    graph
}

/// Groups in order of their first thread, then what is outside; and the node of each thread.
fn nodes(source: &Source<'_>) -> (Vec<WaitNode>, Vec<usize>) {
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    let mut nodes: Vec<WaitNode> = Vec::new();
    let mut group_of = Vec::with_capacity(source.tables.tasks.len());
    for task in &source.tables.tasks {
        let node = *index.entry(&task.group).or_insert_with(|| {
            nodes.push(WaitNode { name: task.group.clone(), what: NodeKind::Group, ..WaitNode::default() });
            nodes.len() - 1
        });
        nodes[node].threads += 1;
        nodes[node].self_ns += task.criticality_ns;
        group_of.push(node);
    }
    nodes.extend(OUTSIDE.map(|(name, what)| WaitNode { name: name.to_owned(), what, ..WaitNode::default() }));
    (nodes, group_of)
}

#[derive(Default)]
struct Edges {
    index: FxHashMap<(usize, usize), u32>,
    last: Option<((usize, usize), u32)>,
    sums: Vec<EdgeSum>,
}

#[derive(Default)]
struct EdgeSum {
    ends: (usize, usize),
    ns: i64,
    critical_ns: i64,
    count: i64,
    kinds: Tally<WaitKind>,
    objects: Tally<u32>,
}

impl Edges {
    fn add(&mut self, ends: (usize, usize), wait: &SchedWait, critical_ns: i64, object: u32) -> u32 {
        let edge = match self.last {
            Some((last, edge)) if last == ends => edge,
            _ => *self.index.entry(ends).or_insert_with(|| {
                self.sums.push(EdgeSum { ends, ..EdgeSum::default() });
                self.sums.len() as u32 - 1
            }),
        };
        self.last = Some((ends, edge));
        let sum = &mut self.sums[edge as usize];
        sum.ns += wait.ns;
        sum.critical_ns += critical_ns;
        sum.count += wait.count;
        sum.kinds.add(wait.kind, wait.ns);
        sum.objects.add(object, wait.ns);
        edge
    }

    fn rows(self, source: &Source<'_>, cascaded: &[f64]) -> Vec<WaitEdge> {
        let row = |(sum, cascaded): (EdgeSum, &f64)| {
            let mut kinds: Vec<_> = sum.kinds.iter().collect();
            kinds.sort_by_key(|&(kind, ns)| (Reverse(ns), kind));
            let mut objects: Vec<_> = sum.objects.iter().collect();
            objects.sort_by_key(|&(object, ns)| (Reverse(ns), object));
            let names = objects.into_iter().map(|(object, _)| source.objects.name(object));
            WaitEdge {
                from: sum.ends.0,
                to: sum.ends.1,
                ns: sum.ns,
                cascaded_ns: (cascaded.round() as i64).max(sum.ns),
                critical_ns: sum.critical_ns,
                count: sum.count,
                kinds,
                objects: names.filter(|name| !name.is_empty()).take(OBJECTS).map(str::to_owned).collect(),
            }
        };
        self.sums.into_iter().zip(cascaded).map(row).collect()
    }
}

/// Finds the knots.
fn tie(graph: &mut WaitGraph, source: &Source<'_>) {
    let least = (source.session.busy_ns + source.session.idle_ns) as f64 * LIGHT;
    let heavy = graph.edges.iter().filter(|edge| edge.cascaded_ns as f64 >= least && edge.from != edge.to);
    let heavy: Vec<(usize, usize)> = heavy.map(|edge| (edge.from, edge.to)).collect();
    graph.knots = knot::knots(graph.nodes.len(), &heavy);
    let nodes = &mut graph.nodes;
    graph.knots.sort_by_key(|knot| (Reverse(knot.iter().map(|&node| nodes[node].blamed_ns).sum::<i64>()), knot[0]));
    for (number, knot) in graph.knots.iter().enumerate() {
        knot.iter().for_each(|&node| nodes[node].knot = Some(number));
    }
}

/// Leaves out what is outside and nobody waits for.
fn drop_unused(graph: &mut WaitGraph) {
    let mut used: Vec<bool> = graph.nodes.iter().map(|node| node.what == NodeKind::Group).collect();
    graph.edges.iter().for_each(|edge| used[edge.to] = true);
    let mut number = 0;
    let renumbered: Vec<usize> = used
        .iter()
        .map(|&used| {
            number += usize::from(used);
            number.saturating_sub(1)
        })
        .collect();
    let mut keep = used.iter();
    graph.nodes.retain(|_| *keep.next().unwrap_or(&true));
    graph.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (renumbered[edge.from], renumbered[edge.to]));
    graph.knots.iter_mut().flatten().for_each(|node| *node = renumbered[*node]);
}
