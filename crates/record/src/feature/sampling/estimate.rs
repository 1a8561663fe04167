//! From what was seen of a thread to the times of its region stacks: its exact time on and off CPUs is divided as
//! samples and waits divide, so that all rows add up to its lifetime.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{RegionId, RegionMethod, RegionNode, RegionNodeId, ThreadId};

use crate::user_samples::thread_times::Exact;

/// Times of one kind, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weights {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub sum: f64,
    /// Sum of their squares.
    pub squares: f64,
}

impl Weights {
    /// One more.
    pub fn add_one(&mut self, ns: f64) {
        self.add(&Self { count: 1, sum: ns, squares: ns * ns });
    }

    /// More.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// What was seen with one stack.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The region stack, outermost first; `None` if it can't be told.
    pub regions: Option<Vec<RegionId>>,
    /// Samples by the time that each stands for: on a CPU, or preempted.
    pub samples: Weights,
    /// Waits.
    pub waits: Weights,
    /// Time without CPU that followed waits, ns.
    pub runnable: f64,
}

/// Samples and how many of them couldn't be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampleCounts {
    pub samples: u64,
    pub untold: u64,
}

/// Of the normal distribution: 95 % lie within so many standard deviations.
pub const DEVIATIONS: f64 = 1.96;

/// A share with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    value: f64,
    low: f64,
    high: f64,
}

/// Wilson's interval of a share of weights; as many count as equal weights with the same spread would.
fn share(part: f64, whole: &Weights) -> Share {
    if whole.sum <= 0.0 || whole.squares <= 0.0 {
        return Share { value: 0.0, low: 0.0, high: 1.0 };
    }
    let value = (part / whole.sum).clamp(0.0, 1.0);
    let count = whole.sum * whole.sum / whole.squares;
    let z2 = DEVIATIONS * DEVIATIONS;
    let middle = (value + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let half = DEVIATIONS * (value * (1.0 - value) / count + z2 / (4.0 * count * count)).sqrt() / (1.0 + z2 / count);
    Share { value, low: (middle - half).clamp(0.0, value), high: (middle + half).clamp(value, 1.0) }
}

/// Sums of one region stack.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    samples: Weights,
    waits: Weights,
    runnable: f64,
}

/// Adds a thread's tree to `nodes`, parents first.
pub(super) fn add_thread(thread: ThreadId, exact: &Exact, seen: &[Seen], nodes: &mut Vec<RegionNode>) -> SampleCounts {
    let mut told = SampleCounts::default();
    let mut whole = Sums::default();
    // What can't be told is in the row of no region.
    let mut stacks: HashMap<Vec<RegionId>, Sums> = HashMap::default();
    for one in seen {
        told.samples += one.samples.count;
        told.untold += if one.regions.is_none() { one.samples.count } else { 0 };
        let stack = stacks.entry(one.regions.clone().unwrap_or_default()).or_default();
        for sums in [stack, &mut whole] {
            sums.samples.add(&one.samples);
            sums.waits.add(&one.waits);
            sums.runnable += one.runnable;
        }
    }
    let known_runnable = whole.runnable.min(exact.runnable);
    let active = exact.running + exact.runnable - known_runnable;
    let root = nodes.len() as RegionNodeId;
    nodes.push(row(thread, None, None));
    let mut known: HashMap<Vec<RegionId>, RegionNodeId> = HashMap::default();
    known.insert(Vec::new(), root);
    let mut order: Vec<_> = stacks.into_iter().collect();
    order.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut given_ns, mut given_cpu) = (0, 0);
    for (stack, sums) in order {
        let node = node_of(&stack, thread, &mut known, nodes);
        let on = share(sums.samples.sum, &whole.samples);
        let off = wait_share(&sums.waits, &whole.waits, exact.blocked);
        let runnable = if whole.runnable > 0.0 { sums.runnable / whole.runnable * known_runnable } else { 0.0 };
        let time = |on: f64, off: f64| (on * active + off * exact.blocked + runnable).round() as i64;
        let row = &mut nodes[node as usize];
        row.samples = sums.samples.count as i64;
        (row.exclusive_ns_low, row.exclusive_ns_high) = (time(on.low, off.low), time(on.high, off.high));
        if stack.is_empty() {
            continue;
        }
        row.exclusive_ns = time(on.value, off.value);
        row.cpu_ns = Some((on.value * exact.running).round() as i64);
        given_ns += row.exclusive_ns;
        given_cpu += row.cpu_ns.unwrap_or(0);
    }
    let row = &mut nodes[root as usize];
    row.exclusive_ns = exact.wall.round() as i64 - given_ns;
    row.cpu_ns = Some(exact.running.round() as i64 - given_cpu);
    row.exclusive_ns_low = row.exclusive_ns_low.min(row.exclusive_ns);
    row.exclusive_ns_high = row.exclusive_ns_high.max(row.exclusive_ns);
    told
}

/// Waits have their exact times; only what has no stack is shared out, and uncertain.
fn wait_share(part: &Weights, whole: &Weights, blocked: f64) -> Share {
    const COMPLETE: f64 = 0.98;
    if whole.sum >= blocked * COMPLETE {
        let value = if whole.sum > 0.0 { part.sum / whole.sum } else { 0.0 };
        return Share { value, low: value, high: value };
    }
    let sampled = share(part.sum, whole);
    // At least what was seen.
    let floor = (part.sum / blocked.max(1.0)).min(sampled.value);
    Share { low: sampled.low.max(floor), ..sampled }
}

fn node_of(
    stack: &[RegionId],
    thread: ThreadId,
    known: &mut HashMap<Vec<RegionId>, RegionNodeId>,
    nodes: &mut Vec<RegionNode>,
) -> RegionNodeId {
    if let Some(&node) = known.get(stack) {
        return node;
    }
    let Some((&region, below)) = stack.split_last() else { return 0 };
    let parent = node_of(below, thread, known, nodes);
    let node = nodes.len() as RegionNodeId;
    nodes.push(row(thread, Some(parent), Some(region)));
    known.insert(stack.to_vec(), node);
    node
}

/// A row of samples, without any yet.
pub fn row(thread: ThreadId, parent: Option<RegionNodeId>, region: Option<RegionId>) -> RegionNode {
    RegionNode {
        parent,
        region,
        thread,
        method: RegionMethod::Sample,
        entries: None,
        exclusive_ns: 0,
        exclusive_ns_low: 0,
        exclusive_ns_high: 0,
        cpu_ns: Some(0),
        samples: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: u64) -> Weights {
        Weights { count, sum: count as f64 * 1e6, squares: count as f64 * 1e12 }
    }

    #[test]
    fn rows_add_up_to_the_lifetime() {
        let exact = Exact { wall: 2e9, running: 1e9, runnable: 0.1e9, blocked: 0.9e9 };
        let seen = [
            Seen { regions: Some(vec![]), samples: samples(250), ..Seen::default() },
            Seen { regions: Some(vec![3]), samples: samples(500), runnable: 0.05e9, ..Seen::default() },
            Seen {
                regions: Some(vec![3, 4]),
                samples: samples(150),
                waits: Weights { count: 3, sum: 0.9e9, squares: 0.27e18 },
                ..Seen::default()
            },
            Seen { regions: None, samples: samples(100), ..Seen::default() },
        ];
        let mut nodes = Vec::new();
        let told = add_thread(5, &exact, &seen, &mut nodes);
        assert_eq!(told, SampleCounts { samples: 1000, untold: 100 });
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes.iter().map(|node| node.exclusive_ns).sum::<i64>(), 2_000_000_000);
        assert_eq!(nodes.iter().filter_map(|node| node.cpu_ns).sum::<i64>(), 1_000_000_000);
        let deep = nodes.iter().find(|node| node.region == Some(4)).unwrap();
        assert_eq!((deep.parent, deep.samples), (Some(1), 150));
        // 15 % of 1.05 s of activity, and all of the waiting.
        assert_eq!(deep.exclusive_ns, 157_500_000 + 900_000_000);
        assert!(deep.exclusive_ns_low < deep.exclusive_ns && deep.exclusive_ns < deep.exclusive_ns_high);
        let half = (deep.exclusive_ns_high - deep.exclusive_ns_low) as f64 / 2.0;
        let expected = DEVIATIONS * (0.15f64 * 0.85 / 1000.0).sqrt() * 1.05e9;
        assert!((half / expected - 1.0).abs() < 0.02, "{half} {expected}");
        assert_eq!(nodes[0].samples, 350);
    }

    #[test]
    fn a_thread_without_samples_is_wholly_unknown() {
        let exact = Exact { wall: 5e5, running: 5e5, ..Exact::default() };
        let mut nodes = Vec::new();
        add_thread(0, &exact, &[], &mut nodes);
        assert_eq!((nodes.len(), nodes[0].exclusive_ns), (1, 500_000));
    }

    #[test]
    fn parents_are_made_where_no_sample_hit_them() {
        let exact = Exact { wall: 1e9, running: 1e9, ..Exact::default() };
        let seen = [Seen { regions: Some(vec![1, 2, 1]), samples: samples(10), ..Seen::default() }];
        let mut nodes = Vec::new();
        add_thread(0, &exact, &seen, &mut nodes);
        let regions: Vec<_> = nodes.iter().map(|node| (node.parent, node.region, node.exclusive_ns)).collect();
        let whole = 1_000_000_000;
        assert_eq!(regions, [(None, None, 0), (Some(0), Some(1), 0), (Some(1), Some(2), 0), (Some(2), Some(1), whole)]);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // Samples of a thread that is in a region for 30 % of its time, by a generator of its own.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as f64 / u64::MAX as f64
        };
        let held = (0..2000).filter(|_| {
            let hits = (0..400).filter(|_| next() < 0.3).count() as u64;
            let share = share(hits as f64, &Weights { count: 400, sum: 400.0, squares: 400.0 });
            share.low <= 0.3 && 0.3 <= share.high
        });
        let held = held.count();
        assert!((1860..1945).contains(&held), "{held} of 2000");
    }
}
