use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::Profile;

/// Nodes beyond this many are left out of a tree, the smallest first: they are too narrow to be seen.
const MOST_NODES: usize = 30_000;

/// The region stacks of all threads joined: one entry per node in each column, parents first; the first is the root.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegionTree {
    /// Row of the stack without its last region, -1 at the root.
    pub parent: Vec<i32>,
    /// The last region, as [`RegionRow::id`](super::RegionRow::id); -1 at the root.
    pub region: Vec<i64>,
    /// Wall time in which this was the whole stack, ns.
    pub exclusive_ns: Vec<i64>,
    /// Of it on CPU, -1 if unknown.
    pub cpu_ns: Vec<i64>,
    /// Entries, -1 if unknown.
    pub entries: Vec<i64>,
    /// Stack samples.
    pub samples: Vec<i64>,
    /// Nodes left out; their time is their parents'.
    pub left_out: usize,
}

/// The tree of a profile's regions; empty without the feature collector.
pub fn region_tree(profile: &Profile) -> RegionTree {
    let nodes = &profile.feature.nodes;
    let mut tree = RegionTree::default();
    if nodes.is_empty() {
        return tree;
    }
    tree.push(-1, -1);
    let mut known: FxHashMap<(usize, u32), usize> = FxHashMap::default();
    let mut place: Vec<usize> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let at = match (node.parent, node.region) {
            (Some(parent), Some(region)) => {
                let above = place[parent as usize];
                *known.entry((above, region)).or_insert_with(|| tree.push(above as i32, i64::from(region)))
            }
            _ => 0,
        };
        tree.add(at, node.exclusive_ns, node.cpu_ns.unwrap_or(-1), node.entries.unwrap_or(-1), node.samples);
        place.push(at);
    }
    tree.without_the_narrow()
}

impl RegionTree {
    fn push(&mut self, parent: i32, region: i64) -> usize {
        self.parent.push(parent);
        self.region.push(region);
        self.exclusive_ns.push(0);
        self.samples.push(0);
        self.cpu_ns.push(-1);
        self.entries.push(-1);
        self.parent.len() - 1
    }

    fn add(&mut self, at: usize, exclusive_ns: i64, cpu_ns: i64, entries: i64, samples: i64) {
        self.exclusive_ns[at] = self.exclusive_ns[at].saturating_add(exclusive_ns);
        self.samples[at] = self.samples[at].saturating_add(samples);
        for (sum, part) in [(&mut self.cpu_ns[at], cpu_ns), (&mut self.entries[at], entries)] {
            if part >= 0 {
                *sum = (*sum).max(0).saturating_add(part);
            }
        }
    }

    /// Keeps the widest nodes, with all above them.
    fn without_the_narrow(self) -> Self {
        if self.parent.len() <= MOST_NODES {
            return self;
        }
        let mut total = self.exclusive_ns.clone();
        for id in (1..total.len()).rev() {
            let part = total[id];
            let above = &mut total[self.parent[id] as usize];
            *above = above.saturating_add(part);
        }
        let mut order = total.clone();
        order.sort_unstable_by_key(|&ns| std::cmp::Reverse(ns));
        let border = order[MOST_NODES];
        let mut kept = Self::default();
        let mut row_of: Vec<usize> = Vec::with_capacity(total.len());
        for (id, &time) in total.iter().enumerate() {
            let above = usize::try_from(self.parent[id]).ok().map(|parent| row_of[parent]);
            // A parent has at least the time of its children: it was kept.
            let at = match above {
                Some(above) if time <= border => {
                    kept.left_out += 1;
                    above
                }
                _ => kept.push(above.map_or(-1, |above| above as i32), self.region[id]),
            };
            kept.add(at, self.exclusive_ns[id], self.cpu_ns[id], -1, self.samples[id]);
            if above.is_none_or(|above| above != at) {
                kept.entries[at] = self.entries[id];
            }
            row_of.push(at);
        }
        kept
    }
}
