//! Passing waits on: while A waits for B and B itself waits for C, the time is C's.

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Another thread.
    Task(u32),
    /// Something that waits for nobody.
    Outside,
}

/// One wait as the cascade sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocked {
    pub task: u32,
    pub target: Target,
    /// Number of the edge that gets its time.
    pub edge: u32,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Time waited; less than the span for waits that were merged.
    pub ns: i64,
    pub merged: bool,
}

/// Result of [`cascade`].
pub(super) struct Cascaded {
    /// Per edge: time waited along it by the waiting thread and by those who waited for that thread meanwhile, ns.
    pub edges: Vec<f64>,
    /// Per thread: time that others waited for it, directly or through others, while it did not wait, ns.
    pub blamed: Vec<f64>,
}

/// Deeper chains are cut: they are loops that clocks of wakers and holders made.
const DEEPEST: usize = 64;

/// Sweeps over all waits in order of time, with the forest of who waits for whom at each instant ("wPerf: Generic
/// Off-CPU Analysis to Identify Bottleneck Waiting Events", OSDI '18, exact). A merged row counts at all instants of its
/// span in proportion. `waits` must be in order of their ends.
pub(super) fn cascade(waits: &[Blocked], tasks: usize, edges: usize) -> Cascaded {
    let begin_ns = |row: u32| waits[row as usize].begin_ns;
    let mut by_begin: Vec<u32> = (0..waits.len() as u32).collect();
    by_begin.sort_unstable_by_key(|&row| (begin_ns(row), row));
    let mut forest = Forest {
        nodes: vec![Node { weight: 1.0, since: 0, waiting: None }; tasks],
        result: Cascaded { edges: vec![0.0; edges], blamed: vec![0.0; tasks] },
    };
    let mut begins = by_begin.into_iter().peekable();
    let mut linked = vec![0u64; waits.len().div_ceil(64)];
    for (row, wait) in waits.iter().enumerate() {
        // A wait that begins at the very instant at which another ends comes after it, unless it ends there too.
        while let Some(begun) = begins.next_if(|&begun| begin_ns(begun) < wait.end_ns || begun as usize <= row) {
            let other = &waits[begun as usize];
            if other.end_ns > other.begin_ns && forest.link(other) {
                linked[begun as usize / 64] |= 1 << (begun % 64);
            }
        }
        if linked[row / 64] >> (row % 64) & 1 == 1 {
            forest.unlink(wait);
        }
    }
    forest.result
}

#[derive(Clone, Copy)]
struct Node {
    /// Itself and all who wait for it.
    weight: f64,
    /// Accounted up to here.
    since: i64,
    waiting: Option<(Target, u32)>,
}

struct Forest {
    nodes: Vec<Node>,
    result: Cascaded,
}

impl Forest {
    /// Accounts a thread's time up to `now`.
    fn flush(&mut self, task: u32, now: i64) {
        let node = &mut self.nodes[task as usize];
        let time = (now - node.since).max(0) as f64;
        node.since = node.since.max(now);
        match node.waiting {
            Some((_, edge)) => self.result.edges[edge as usize] += node.weight * time,
            None => self.result.blamed[task as usize] += (node.weight - 1.0).max(0.0) * time,
        }
    }

    /// Adds `weight` to `target` and all that it waits for.
    fn add(&mut self, mut target: Target, weight: f64, now: i64) {
        for _ in 0..DEEPEST {
            let Target::Task(task) = target else { return };
            self.flush(task, now);
            let node = &mut self.nodes[task as usize];
            node.weight += weight;
            let Some((next, _)) = node.waiting else { return };
            target = next;
        }
    }

    /// Whether `target` waits for `task`, or for so many that nobody can tell.
    fn reaches(&self, mut target: Target, task: u32) -> bool {
        for _ in 0..DEEPEST {
            let Target::Task(next) = target else { return false };
            if next == task {
                return true;
            }
            let Some((after, _)) = self.nodes[next as usize].waiting else { return false };
            target = after;
        }
        true
    }

    fn link(&mut self, wait: &Blocked) -> bool {
        if wait.merged {
            let share = wait.ns as f64 / (wait.end_ns - wait.begin_ns) as f64;
            self.result.edges[wait.edge as usize] += wait.ns as f64;
            let alone = self.reaches(wait.target, wait.task);
            if !alone {
                self.add(wait.target, share, wait.begin_ns);
            }
            return !alone;
        }
        if self.nodes[wait.task as usize].waiting.is_some() {
            return false;
        }
        self.flush(wait.task, wait.begin_ns);
        let target = if self.reaches(wait.target, wait.task) { Target::Outside } else { wait.target };
        self.nodes[wait.task as usize].waiting = Some((target, wait.edge));
        let weight = self.nodes[wait.task as usize].weight;
        self.add(target, weight, wait.begin_ns);
        true
    }

    fn unlink(&mut self, wait: &Blocked) {
        if wait.merged {
            let share = wait.ns as f64 / (wait.end_ns - wait.begin_ns) as f64;
            self.add(wait.target, -share, wait.end_ns);
            return;
        }
        self.flush(wait.task, wait.end_ns);
        let node = &mut self.nodes[wait.task as usize];
        let weight = node.weight;
        if let Some((target, _)) = node.waiting.take() {
            self.add(target, -weight, wait.end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wait(task: u32, target: Target, edge: u32, begin_ns: i64, end_ns: i64) -> Blocked {
        Blocked { task, target, edge, begin_ns, end_ns, ns: end_ns - begin_ns, merged: false }
    }

    #[test]
    fn overlap_is_passed_on() {
        // 0 waits for 1 from 0 to 100; 1 waits for the disk from 20 to 60; 2 waits for 0 from 50 to 100.
        let waits = [
            wait(1, Target::Outside, 1, 20, 60),
            wait(0, Target::Task(1), 0, 0, 100),
            wait(2, Target::Task(0), 2, 50, 100),
        ];
        let cascaded = cascade(&waits, 3, 3);
        assert_eq!(cascaded.edges, [150.0, 40.0 + 40.0 + 10.0, 50.0]);
        assert_eq!(cascaded.blamed, [0.0, 20.0 + 40.0 * 2.0, 0.0]);
    }

    #[test]
    fn merged_rows_count_in_proportion() {
        let mut merged = wait(0, Target::Task(1), 0, 0, 100);
        (merged.merged, merged.ns) = (true, 25);
        let cascaded = cascade(&[wait(1, Target::Outside, 1, 20, 60), merged], 2, 2);
        assert_eq!(cascaded.edges, [25.0, 40.0 + 10.0]);
        assert_eq!(cascaded.blamed, [0.0, 15.0]);
    }

    /// The same by looking at every instant.
    fn by_instants(waits: &[Blocked], tasks: usize, edges: usize, end: i64) -> Cascaded {
        let mut result = Cascaded { edges: vec![0.0; edges], blamed: vec![0.0; tasks] };
        for now in 0..end {
            let at = |task: u32| waits.iter().find(|w| w.task == task && w.begin_ns <= now && now < w.end_ns);
            for task in 0..tasks as u32 {
                let (mut node, mut steps) = (task, 0);
                while let Some(wait) = at(node) {
                    result.edges[wait.edge as usize] += 1.0;
                    let Target::Task(next) = wait.target else { break };
                    node = next;
                    steps += 1;
                    if at(node).is_none() && steps > 0 {
                        result.blamed[node as usize] += 1.0;
                    }
                }
            }
        }
        result
    }

    proptest! {
        #[test]
        fn equals_looking_at_every_instant(
            spans in proptest::collection::vec((0u32..6, 0i64..12, 1i64..12, 0u32..7), 1..40),
        ) {
            // Threads wait for threads of higher number, so there are no loops; spans of a thread follow each other.
            let mut clocks = [0i64; 6];
            let mut waits: Vec<Blocked> = Vec::new();
            for (task, gap, length, target) in spans {
                let begin = clocks[task as usize] + gap;
                clocks[task as usize] = begin + length;
                let target = if target > task && target < 6 { Target::Task(target) } else { Target::Outside };
                waits.push(wait(task, target, 0, begin, begin + length));
            }
            waits.sort_by_key(|w| w.end_ns);
            (0..waits.len()).for_each(|n| waits[n].edge = n as u32);
            let found = cascade(&waits, 6, waits.len());
            let expected = by_instants(&waits, 6, waits.len(), *clocks.iter().max().unwrap());
            prop_assert_eq!(found.edges, expected.edges);
            prop_assert_eq!(found.blamed, expected.blamed);
        }
    }
}
