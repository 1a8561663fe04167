//! Regions that tell nothing by events, because they have no sites (hot loops) or their sites were too hot: samples divide what
//! the regions around them have. Each sample whose stack holds such a region moves the time that it stands for from the stack
//! without it, whose time is exact, to the whole stack. So all rows add up to the thread's lifetime as before.

use std::collections::HashMap;

use transect_profile_model::{
    FeatureRegion, FeatureTables, HOT_LOOP, RegionId, RegionMethod, RegionNode, RegionNodeId,
};

use super::reader::Collected;
use super::sampling::{DEVIATIONS, SeenSupplementary, StackSamples, SupplementaryTimes, row};
use crate::clock::Clock;

/// What samples told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampleCounts {
    /// Samples.
    pub samples: u64,
    /// Of which the region stack can't be told.
    pub untold: u64,
}

/// Whether a reason for having no sites is that samples see the region as well, and cost less.
pub(super) fn is_hot_loop(irregular: Option<&str>) -> bool {
    irregular.is_some_and(|why| why.starts_with(HOT_LOOP))
}

/// Divides the times of `feature`. `roots`: by thread, the row of its root.
pub(super) fn divide(
    feature: &mut FeatureTables,
    roots: &[RegionNodeId],
    collected: &Collected,
    clock: &Clock,
    sampled: &SupplementaryTimes,
) -> SampleCounts {
    let numbers = numbers(collected, sampled);
    let silent: Vec<RegionId> = collected.off.iter().map(|hot| hot.region).collect();
    // Entries until then are not the region's.
    for node in feature.nodes.iter_mut().filter(|node| node.region.is_some_and(|region| silent.contains(&region))) {
        node.entries = None;
    }
    let mut tree = Tree::of(feature);
    let mut told = SampleCounts::default();
    for thread in &sampled.threads {
        let start_ns = thread.begin.saturating_sub(clock.started_monotonic_ns()) as i64;
        let same = (0..collected.threads.len()).filter(|&at| {
            let known = &collected.threads[at];
            known.tid == thread.tid && collected.processes[known.process].pid == thread.pid
        });
        let started = |at: &usize| {
            let ticks = collected.threads[*at].start.saturating_sub(clock.epoch());
            ((ticks as f64 / clock.rate()) as i64).abs_diff(start_ns)
        };
        let Some(root) = same.min_by_key(started).map(|at| roots[at]) else { continue };
        let mut moved: Vec<(RegionNodeId, Vec<RegionId>, &SeenSupplementary)> = Vec::new();
        for seen in &thread.seen {
            told.samples += seen.samples.on.count;
            let stack = seen.regions.as_ref().and_then(|stack| {
                stack.iter().map(|region| numbers.get(*region as usize).copied().flatten()).collect::<Option<Vec<_>>>()
            });
            let Some(mut stack) = stack else {
                told.untold += seen.samples.on.count;
                continue;
            };
            let off = &silent[..seen.silent.min(silent.len())];
            let by_events = |region: RegionId| {
                let known = &tree.feature.regions[region as usize];
                known.sites > 0 && !off.contains(&region)
            };
            // What nobody wants to see.
            stack.retain(|region| tree.feature.regions[*region as usize].method.is_some());
            let around = stack.iter().copied().filter(|region| by_events(*region));
            let Some(from) = tree.find(root, around) else { continue };
            tree.feature.nodes[from as usize].samples += seen.samples.on.count as i64;
            if !stack.iter().all(|region| by_events(*region)) {
                moved.push((from, stack, seen));
            }
        }
        tree.divide(root, &moved);
    }
    told
}

/// Regions as the recording numbers them by those of the samples.
fn numbers(collected: &Collected, sampled: &SupplementaryTimes) -> Vec<Option<RegionId>> {
    let translation = &sampled.translation;
    let first: Vec<Option<RegionId>> = translation
        .components
        .iter()
        .map(|component| {
            let same = collected.catalog.objects.iter().find(|object| object.path == component.path);
            same.map(|object| object.first_region)
        })
        .collect();
    let number =
        |region: &FeatureRegion| Some(first[region.component as usize]? + RegionId::try_from(region.number).ok()?);
    translation.feature.regions.iter().map(number).collect()
}

/// Rows by the one around and the region.
struct Tree<'a> {
    feature: &'a mut FeatureTables,
    rows: HashMap<(RegionNodeId, RegionId), RegionNodeId>,
}

impl<'a> Tree<'a> {
    fn of(feature: &'a mut FeatureTables) -> Self {
        let rows = (0..).zip(&feature.nodes);
        let rows = rows.filter_map(|(row, node)| Some(((node.parent?, node.region?), row))).collect();
        Self { feature, rows }
    }

    fn find(&self, root: RegionNodeId, mut stack: impl Iterator<Item = RegionId>) -> Option<RegionNodeId> {
        stack.try_fold(root, |row, region| self.rows.get(&(row, region)).copied())
    }

    /// The same; rows that are not there are made.
    fn make(&mut self, root: RegionNodeId, stack: &[RegionId]) -> RegionNodeId {
        let thread = self.feature.nodes[root as usize].thread;
        stack.iter().fold(root, |parent, &region| {
            *self.rows.entry((parent, region)).or_insert_with(|| {
                let knows_cpu = self.feature.nodes[parent as usize].cpu_ns.is_some();
                let row = row(thread, Some(parent), Some(region));
                self.feature.nodes.push(RegionNode { cpu_ns: row.cpu_ns.filter(|_| knows_cpu), ..row });
                self.feature.nodes.len() as RegionNodeId - 1
            })
        })
    }

    /// Moves times of a thread from rows to stacks.
    fn divide(&mut self, root: RegionNodeId, moved: &[(RegionNodeId, Vec<RegionId>, &SeenSupplementary)]) {
        let mut ways: HashMap<(RegionNodeId, RegionNodeId), StackSamples> = HashMap::new();
        let mut whole: HashMap<RegionNodeId, StackSamples> = HashMap::new();
        for (from, stack, seen) in moved {
            let to = self.make(root, stack);
            ways.entry((*from, to)).or_default().add(&seen.samples);
            whole.entry(*from).or_default().add(&seen.samples);
        }
        let rates: HashMap<RegionNodeId, Rates> =
            whole.iter().map(|(&from, whole)| (from, Rates::of(&self.feature.nodes[from as usize], whole))).collect();
        for (&(from, to), part) in &ways {
            let rates = &rates[&from];
            let (ns, on) = ((part.all.sum * rates.all) as i64, (part.on.sum * rates.on) as i64);
            let (spread, count) = (rates.spread(part), part.on.count as i64);
            let node = &mut self.feature.nodes[from as usize];
            node.exclusive_ns -= ns;
            node.cpu_ns = node.cpu_ns.map(|cpu| cpu - on);
            node.samples -= count;
            let node = &mut self.feature.nodes[to as usize];
            node.method = RegionMethod::Sample;
            node.exclusive_ns += ns;
            node.exclusive_ns_low += (ns - spread).max(0);
            node.exclusive_ns_high += ns + spread;
            node.cpu_ns = node.cpu_ns.map(|cpu| cpu + on);
            node.samples += count;
        }
        for (&from, part) in &whole {
            let spread = rates[&from].spread(part);
            let node = &mut self.feature.nodes[from as usize];
            node.exclusive_ns_low = (node.exclusive_ns - spread).max(0);
            node.exclusive_ns_high = node.exclusive_ns + spread;
        }
    }
}

/// A row's time by what samples of it say: those that stand for more than there is share what there is.
struct Rates {
    /// The row's time on a CPU, ns.
    there: f64,
    /// Of time on a CPU.
    on: f64,
    /// Of that and preempted time.
    all: f64,
}

impl Rates {
    fn of(node: &RegionNode, whole: &StackSamples) -> Self {
        let elapsed = node.exclusive_ns.max(0) as f64;
        let there = node.cpu_ns.map_or(elapsed, |cpu| (cpu as f64).clamp(0.0, elapsed));
        let on = (there / whole.on.sum.max(1.0)).min(1.0);
        Self { there, on, all: (elapsed / whole.all.sum.max(1.0)).min(on) }
    }

    /// Half of the interval: of a known whole, of which little is left uncertain where nearly all is this.
    fn spread(&self, part: &StackSamples) -> i64 {
        let rest = (1.0 - part.on.sum * self.on / self.there.max(1.0)).max(0.0);
        let one = part.all.sum / part.all.count.max(1) as f64;
        (self.all * (DEVIATIONS * (part.all.squares * rest).sqrt()).max(one)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: Option<RegionNodeId>, region: Option<RegionId>, ms: i64) -> RegionNode {
        RegionNode {
            parent,
            region,
            thread: 0,
            method: RegionMethod::Probe,
            entries: region.map(|_| 1),
            exclusive_ns: ms * 1_000_000,
            exclusive_ns_low: ms * 1_000_000,
            exclusive_ns_high: ms * 1_000_000,
            cpu_ns: Some(ms * 500_000),
            samples: 0,
        }
    }

    fn seen(count: u64, preempted: f64) -> SeenSupplementary {
        let mut samples = StackSamples::default();
        (0..count).for_each(|_| samples.add_one(4e6, preempted * 4e6));
        SeenSupplementary { silent: 0, regions: None, samples }
    }

    /// A root with region 0, of which samples see 100 ms on a CPU in the silent regions 1 and 2; `preempted`: times as
    /// long without one.
    fn divided(exclusive_ms: i64, preempted: f64) -> FeatureTables {
        let nodes = vec![node(None, None, 50), node(Some(0), Some(0), exclusive_ms)];
        let mut feature = FeatureTables { nodes, ..FeatureTables::default() };
        let parts = [seen(20, preempted), seen(5, preempted)];
        Tree::of(&mut feature).divide(0, &[(1, vec![0, 1], &parts[0]), (1, vec![0, 1, 2], &parts[1])]);
        feature
    }

    #[test]
    fn time_is_moved_and_none_is_made() {
        let nodes = divided(400, 0.0).nodes;
        let times: Vec<(Option<RegionId>, i64)> =
            nodes.iter().map(|node| (node.region, node.exclusive_ns / 1_000_000)).collect();
        assert_eq!(times, [(None, 50), (Some(0), 300), (Some(1), 80), (Some(2), 20)]);
        assert_eq!(nodes.iter().filter_map(|node| node.cpu_ns).sum::<i64>(), 225_000_000);
        assert_eq!((nodes[3].parent, nodes[3].entries, nodes[3].method), (Some(2), None, RegionMethod::Sample));
        assert_eq!((nodes[1].entries, nodes[1].method), (Some(1), RegionMethod::Probe));
        for node in &nodes[1..] {
            assert!(
                node.exclusive_ns_low < node.exclusive_ns && node.exclusive_ns < node.exclusive_ns_high,
                "{node:?}"
            );
        }
    }

    #[test]
    fn what_is_preempted_takes_longer() {
        let nodes = divided(400, 1.0).nodes;
        let times: Vec<i64> = nodes.iter().map(|node| node.exclusive_ns / 1_000_000).collect();
        assert_eq!(times, [50, 200, 160, 40]);
        let on_cpu: Vec<i64> = nodes.iter().filter_map(|node| Some(node.cpu_ns? / 1_000_000)).collect();
        assert_eq!(on_cpu, [25, 100, 80, 20]);
        // Not longer than it was at all.
        let times: Vec<i64> = divided(120, 2.0).nodes.iter().map(|node| node.exclusive_ns / 1_000_000).collect();
        assert_eq!(times, [50, 0, 96, 24]);
    }

    #[test]
    fn no_more_is_moved_than_was_on_a_cpu() {
        let nodes = divided(60, 0.0).nodes;
        let times: Vec<i64> = nodes.iter().map(|node| node.exclusive_ns / 1_000_000).collect();
        assert_eq!(times, [50, 30, 24, 6]);
        assert_eq!(nodes[1].cpu_ns, Some(0));
    }
}
