//! The search: which shares are known how well, what to time next, and when it is done.

use std::time::Duration;

use transect_profile_model::ShareMethod;

use crate::{
    CallTree, Chain, NodeId, Request, Share, Timing, UntimedReason,
    calls::Calls,
    chains::chains,
    evidence::Timings,
    needs::{Needs, request},
    shares::shares,
};

/// A tree of fewer samples and waits is not searched through, unless it was observed for `LONG_NS`.
const FEW_SAMPLES: u64 = 30;
const LONG_NS: f64 = 1e9;
/// A first, short window tells which functions are too short for probes: this part of a whole one, but not less than
/// `SHORTEST_WINDOW`.
const SHORT_WINDOW: u32 = 10;
const SHORTEST_WINDOW: Duration = Duration::from_millis(5);

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// A function is followed if at least this share of its group's total is in it, 0.0–1.0.
    pub threshold: f64,
    /// Length of one step.
    pub window: Duration,
    /// Probes allowed at once; with fewer than two nothing is timed.
    pub max_probes: usize,
    /// Functions of the program can be timed.
    pub time_user: bool,
    /// Functions of the kernel can be timed.
    pub time_kernel: bool,
}

/// A decision of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The thread group.
    pub group: usize,
    /// The function whose callees were looked at; `None` above a root.
    pub parent: Option<NodeId>,
    /// The callee.
    pub node: NodeId,
    /// Its share, 0.0–1.0.
    pub share: f64,
    /// How it was measured.
    pub method: ShareMethod,
    /// It is followed further.
    pub followed: bool,
    /// Why it was not timed though that would have helped; empty if it was, will be, or need not be.
    pub note: String,
}

/// After a request that came at a bad moment so many evaluations pass before the next one, twice as many each time.
const FIRST_PAUSE: u32 = 2;
const LONGEST_PAUSE: u32 = 64;

/// One thread group in the search.
#[derive(Debug, Clone, Default)]
struct Group {
    calls: Calls,
    timings: Timings,
    shares: Vec<Share>,
    needs: Needs,
    /// What was said of each node last.
    said: Vec<Option<(bool, ShareMethod)>>,
    complete: bool,
    /// The tree's version and the answers that this is of.
    seen: Option<(u64, usize)>,
    answers: usize,
    /// Evaluations until it is asked for again, and how many these were at first.
    pause: u32,
    last_pause: u32,
}

/// The search through the trees of all thread groups.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    groups: Vec<Group>,
    /// What samples said when the last request was made, until it is answered and evaluated.
    before: Option<Calls>,
    answer: Option<(Request, Timing)>,
}

impl Search {
    /// A search that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, groups: Vec::new(), before: None, answer: None }
    }

    /// Looks at the trees (post-stratified; by group, new groups at the end) and decides again. Gives the decisions that
    /// are new or changed since the last time, callers first.
    pub fn evaluate(&mut self, trees: &[&CallTree]) -> Vec<Step> {
        self.groups.resize_with(trees.len().max(self.groups.len()), Group::default);
        for (tree, group) in trees.iter().zip(&mut self.groups).filter(|(tree, group)| group.is_behind(tree)) {
            group.calls = Calls::of(tree);
        }
        if let Some((request, timing)) = self.answer.take() {
            let before = self.before.take().unwrap_or_default();
            if let Some((group, tree)) = self.groups.get_mut(request.group).zip(trees.get(request.group)) {
                let short = request.window < self.settings.window;
                group.timings.absorb(&request, &timing, tree.unit, short, &before, &group.calls);
                group.answers += 1;
            }
        }
        let mut steps = Vec::new();
        for (number, (tree, group)) in trees.iter().zip(&mut self.groups).enumerate() {
            if !group.is_behind(tree) {
                continue;
            }
            group.pause = group.pause.saturating_sub(1);
            group.seen = Some((tree.version, group.answers));
            group.timings.age(&group.calls);
            group.shares = shares(tree, &group.calls, &group.timings);
            group.needs = Needs::of(tree, &group.calls, &group.shares, &group.timings, &self.settings);
            let enough = tree.samples() >= FEW_SAMPLES || tree.split.wall_ns() >= LONG_NS;
            group.complete = enough && group.needs.wanted.is_empty() && !group.needs.uncertain;
            steps.extend(group.news(number, tree, self.settings.threshold));
        }
        steps
    }

    /// What to time next, `None` if nothing is worth it as things are, or if the last answer was not evaluated yet. The
    /// trees as they were last evaluated.
    pub fn next_request(&mut self, trees: &[&CallTree]) -> Option<Request> {
        if self.before.is_some() || self.settings.max_probes < 2 {
            return None;
        }
        // Where the most time is, first.
        let mut order: Vec<usize> = (0..trees.len().min(self.groups.len())).collect();
        order.sort_by(|&a, &b| trees[b].total.total_cmp(&trees[a].total));
        for number in order.into_iter().filter(|&number| trees[number].samples() >= FEW_SAMPLES) {
            let group = &self.groups[number];
            if group.pause > 0 {
                continue;
            }
            let Some((parent, callees)) = request(&group.needs, &group.timings, self.settings.max_probes) else {
                continue;
            };
            let all = callees.iter().map(|callee| callee.function).chain([parent]);
            let known = all.into_iter().all(|function| group.timings.is_counted(function));
            let whole = self.settings.window;
            let window = if known { whole } else { (whole / SHORT_WINDOW).max(SHORTEST_WINDOW).min(whole * 9 / 10) };
            self.before = Some(group.calls.clone());
            return Some(Request { group: number, parent, callees, window });
        }
        None
    }

    /// Takes the answer to the last request; it counts from the next [`Search::evaluate`] on.
    pub fn timed(&mut self, request: &Request, answer: Result<Timing, UntimedReason>) {
        match answer {
            Ok(timing) => self.answer = Some((request.clone(), timing)),
            Err(reason) => {
                self.before = None;
                if let Some(group) = self.groups.get_mut(request.group) {
                    group.timings.failed(request, &reason);
                    if matches!(reason, UntimedReason::Later(_)) {
                        group.postpone();
                    }
                    group.answers += 1;
                    // Asked for again only when it was evaluated again.
                    group.needs = Needs::default();
                }
            }
        }
    }

    /// A group's process runs another program: what was against timing it was the old one's.
    pub fn replaced(&mut self, group: usize) {
        if let Some(group) = self.groups.get_mut(group) {
            group.timings.forget_the_end();
            group.pause = 0;
            group.answers += 1;
        }
    }

    /// Whether there is enough to go by, nothing is left to time and the decisions along all chains are certain, as last
    /// evaluated. More samples can make it false again, or true where they are all that helps.
    pub fn is_complete(&self) -> bool {
        !self.groups.is_empty() && self.before.is_none() && self.groups.iter().all(|group| group.complete)
    }

    /// Shares of all nodes of a group, as last evaluated.
    pub fn shares(&self, group: usize) -> &[Share] {
        self.groups.get(group).map_or(&[], |group| &group.shares)
    }

    /// The group's chains as last evaluated, the largest share first; at least one, which may have no frames. The tree
    /// as it was then.
    pub fn chains(&self, group: usize, tree: &CallTree) -> Vec<Chain> {
        chains(tree, self.shares(group), self.settings.threshold)
    }
}

impl Group {
    /// Whether something is new since it was evaluated.
    fn is_behind(&self, tree: &CallTree) -> bool {
        self.seen != Some((tree.version, self.answers))
    }

    /// Leaves it alone for a while: asking may take seconds where a thread does not stop.
    fn postpone(&mut self) {
        self.last_pause = (self.last_pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause = self.last_pause;
    }

    /// Decisions that are new or changed.
    fn news(&mut self, number: usize, tree: &CallTree, threshold: f64) -> Vec<Step> {
        self.said.resize(tree.nodes.len(), None);
        let mut steps = Vec::new();
        for (id, node) in tree.nodes.iter().enumerate() {
            let share = &self.shares[id];
            let followed = share.share >= threshold;
            let looked_at = node.parent.is_none_or(|parent| self.shares[parent as usize].share >= threshold)
                && (share.high >= threshold || self.said[id].is_some());
            if !looked_at || self.said[id] == Some((followed, share.method)) {
                continue;
            }
            self.said[id] = Some((followed, share.method));
            steps.push(Step {
                group: number,
                parent: node.parent,
                node: id as NodeId,
                share: share.share,
                method: share.method,
                followed,
                note: self.needs.notes.get(&(id as NodeId)).cloned().unwrap_or_default(),
            });
        }
        steps
    }
}
