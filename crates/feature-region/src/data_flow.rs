//! Which regions are open at each instruction of a function: forward data-flow from its entry, where none are.
//!
//! ```text
//! after a begin of R    in + R
//! after an end of R     in without R and what is above it
//! after a restore in R  in, cut so that R is on top; outside of regions: cut to what the functions around the inlined one
//!                       opened, or to what all ways onward agree with
//! where ways meet       what both have, if that is the same; else their common part, and it is not certain
//! at a landing pad      the common part of all calls that lead there, not certain where they differ; so also behind it, up
//!                       to the restoring site. Tables of unwinding take in calls between others that never throw: those
//!                       outside of the region, or else of the inlined function, that the site is in do not count
//! ```
//!
//! Ways are followed by rank: first the sure ones, then those behind calls through pointers (which may not return), then
//! those of generously read tables. A way of a higher rank never changes what one of a lower rank has found.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use crate::body::{Body, EdgeKind, Exit};
use crate::inline_chain::InlineChains;
use crate::region_stack::{EMPTY, RegionStacks, StackId};
use crate::region_table::{RegionIndex, RegionTable, Site, SiteKind};

/// What is known at an instruction, before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub stack: StackId,
    /// False where it is only a part of what may be open.
    pub certain: bool,
    /// Control came by unwinding, and no restoring site was passed since: handlers of inner and outer functions that were
    /// inlined share this code, and may have different regions open until then.
    unwound: bool,
    rank: u8,
}

/// Something that could not be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DoubtKind {
    /// Ways to this instruction disagree about what is open.
    WaysDisagree,
    /// A region ends here that is not the innermost one.
    EndsOutOfTurn,
    /// A region begins here outside of the one that encloses it in the source.
    BeginsOutsideParent,
    /// The function is left here with open regions.
    OpenAtExit,
    /// Control comes back here by unwinding, and it can't be told to which region.
    UnknownAfterUnwinding,
    /// No way leads to this site.
    SiteNotReached,
    /// The code of two functions, which disagree about what is open in it.
    SharedCode,
}

impl DoubtKind {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaysDisagree => "ways that meet here disagree about open regions",
            Self::EndsOutOfTurn => "a region ends that is not the innermost open one",
            Self::BeginsOutsideParent => "a region begins outside of the one that encloses it",
            Self::OpenAtExit => "the function is left with open regions",
            Self::UnknownAfterUnwinding => "unknown which regions an exception leaves open",
            Self::SiteNotReached => "no way leads to this site",
            Self::SharedCode => "code of two functions that disagree about open regions",
        }
    }
}

/// What came of one function.
#[derive(Debug, Default)]
pub(crate) struct Solution {
    /// By step of the body; `None` where no way leads.
    pub states: Vec<Option<State>>,
    /// After each restoring site, by its address.
    pub restored: HashMap<u64, StackId>,
    /// Kinds and addresses.
    pub doubts: Vec<(DoubtKind, u64)>,
}

/// Highest rank.
const RANKS: u8 = 3;

pub(crate) fn solve(
    body: &Body,
    table: &RegionTable,
    chains: &InlineChains<'_>,
    stacks: &mut RegionStacks,
) -> Solution {
    let mut flow = Flow::new(body, table, chains, stacks);
    if body.steps.is_empty() {
        return Solution::default();
    }
    flow.meet(0, State { stack: EMPTY, certain: true, unwound: false, rank: 1 }, EdgeKind::Sure);
    for rank in 1..=RANKS {
        flow.rank = rank;
        flow.open_ways();
        flow.run();
        while flow.decide_restores() {
            flow.run();
        }
    }
    flow.finish()
}

/// The restoring site of a landing pad, if control passes it before it divides.
fn restoring_site<'a>(body: &Body, table: &'a RegionTable, pad: u32) -> Option<&'a Site> {
    let mut step = body.steps.get(pad as usize)?;
    loop {
        if let Some(site) = table.site_at(step.vaddr) {
            return Some(site).filter(|site| site.kind == SiteKind::Restore);
        }
        (step.falls == Some(EdgeKind::Sure)).then_some(())?;
        step = &body.steps[*body.at.get(&step.end)? as usize];
    }
}

/// What one choice at a restoring site leads to.
struct Trial {
    /// Nothing that is known speaks against it.
    fits: bool,
    /// It is what other ways say, too.
    agrees: bool,
}

struct Flow<'a> {
    body: &'a Body,
    table: &'a RegionTable,
    chains: &'a InlineChains<'a>,
    stacks: &'a mut RegionStacks,
    /// Ways from each step but to the next one.
    jumps: HashMap<u32, Vec<(u32, EdgeKind)>>,
    /// Regions that landing pads restore.
    pad_regions: HashMap<u32, RegionIndex>,
    states: Vec<Option<State>>,
    work: Vec<u32>,
    rank: u8,
    /// Restoring sites outside of regions with open regions before them, and what they were decided to leave open.
    undecided: HashMap<u32, Option<u32>>,
    doubts: HashSet<(DoubtKind, u64)>,
    /// Meetings of ways that agreed, and that didn't, for trials.
    agreed: u32,
    disagreed: u32,
}

impl<'a> Flow<'a> {
    fn new(body: &'a Body, table: &'a RegionTable, chains: &'a InlineChains<'a>, stacks: &'a mut RegionStacks) -> Self {
        let mut jumps: HashMap<u32, Vec<(u32, EdgeKind)>> = HashMap::default();
        let mut pad_regions = HashMap::default();
        let mut of_pads: HashMap<u32, Vec<u32>> = HashMap::default();
        for &(from, to, kind) in &body.jumps {
            if kind == EdgeKind::Unwind {
                of_pads.entry(to).or_default().push(from);
            } else {
                jumps.entry(from).or_default().push((to, kind));
            }
        }
        for (pad, mut calls) in of_pads {
            match restoring_site(body, table, pad) {
                Some(Site { region: Some(region), .. }) => {
                    pad_regions.insert(pad, *region);
                }
                Some(site) => chains.keep_inside(site.vaddr, &mut calls, |call| body.steps[call as usize].vaddr),
                None => {}
            }
            for call in calls {
                jumps.entry(call).or_default().push((pad, EdgeKind::Unwind));
            }
        }
        Self {
            body,
            table,
            chains,
            stacks,
            jumps,
            pad_regions,
            states: vec![None; body.steps.len()],
            work: Vec::new(),
            rank: 1,
            undecided: HashMap::default(),
            doubts: HashSet::default(),
            agreed: 0,
            disagreed: 0,
        }
    }

    /// Rank of a way that begins where `number` is: calls through pointers come before tables.
    fn rank_of(&self, number: u32, kind: EdgeKind) -> u8 {
        match kind {
            EdgeKind::Sure | EdgeKind::Unwind => 1,
            EdgeKind::Doubtful if self.body.steps[number as usize].falls == Some(EdgeKind::Doubtful) => 2,
            EdgeKind::Doubtful => 3,
        }
    }

    /// Ways of the present rank become open: where they begin is looked at again.
    fn open_ways(&mut self) {
        for (number, step) in self.body.steps.iter().enumerate() {
            let number = number as u32;
            let doubtful = step.falls == Some(EdgeKind::Doubtful)
                || self.jumps.get(&number).is_some_and(|jumps| jumps.iter().any(|(_, k)| *k == EdgeKind::Doubtful));
            if doubtful && self.states[number as usize].is_some() {
                self.work.push(number);
            }
        }
    }

    fn run(&mut self) {
        while let Some(number) = self.work.pop() {
            let Some(state) = self.states[number as usize] else { continue };
            let step = self.body.steps[number as usize];
            // An exception leaves from inside of the call.
            let ways = self.jumps.get(&number).cloned().unwrap_or_default();
            for &(to, kind) in ways.iter().filter(|(_, kind)| *kind == EdgeKind::Unwind) {
                if self.pad_regions.get(&to).is_some_and(|&region| self.stacks.cut_to(state.stack, region).is_none()) {
                    continue;
                }
                self.meet(to, State { unwound: true, ..state }, kind);
            }
            let Some(after) = self.apply(number, state) else { continue };
            for &(to, kind) in ways.iter().filter(|(_, kind)| *kind != EdgeKind::Unwind) {
                self.pass(number, to, after, kind);
            }
            if let Some(kind) = step.falls
                && let Some(&to) = self.body.at.get(&step.end)
            {
                self.pass(number, to, after, kind);
            }
        }
    }

    fn pass(&mut self, from: u32, to: u32, after: State, kind: EdgeKind) {
        let rank = self.rank_of(from, kind).max(after.rank);
        if rank <= self.rank {
            self.meet(to, State { rank, ..after }, kind);
        }
    }

    /// A way with `new` leads to step `to`.
    fn meet(&mut self, to: u32, new: State, kind: EdgeKind) {
        let place = &mut self.states[to as usize];
        let Some(known) = *place else {
            *place = Some(new);
            self.work.push(to);
            return;
        };
        let same = known.stack == new.stack && known.certain == new.certain;
        if same && known.unwound >= new.unwound {
            self.agreed += 1;
            return;
        }
        if !same && new.rank > known.rank {
            self.disagreed += 1;
            return;
        }
        if !same && known.certain && new.certain && !known.unwound && !new.unwound && kind != EdgeKind::Unwind {
            self.disagreed += 1;
            self.doubts.insert((DoubtKind::WaysDisagree, self.body.steps[to as usize].vaddr));
        }
        let stack = self.stacks.common(known.stack, new.stack);
        let unwound = known.unwound || new.unwound;
        let joined = State { stack, certain: same && known.certain, unwound, rank: known.rank.max(new.rank) };
        if joined != known {
            *place = Some(joined);
            self.work.push(to);
        }
    }

    /// What is open after a step; `None` if that is not decided yet.
    fn apply(&mut self, number: u32, state: State) -> Option<State> {
        let vaddr = self.body.steps[number as usize].vaddr;
        let Some(site) = self.table.site_at(vaddr) else { return Some(state) };
        match (site.kind, site.region) {
            (SiteKind::Begin, Some(region)) => {
                let parent = self.table.regions.get(region as usize).and_then(|region| region.parent);
                if state.certain && parent.is_some_and(|parent| self.stacks.cut_to(state.stack, parent).is_none()) {
                    self.doubts.insert((DoubtKind::BeginsOutsideParent, vaddr));
                }
                Some(State { stack: self.stacks.push(state.stack, region), ..state })
            }
            (SiteKind::End, Some(region)) => {
                if let Some((top, below)) = self.stacks.pop(state.stack)
                    && top == region
                {
                    return Some(State { stack: below, ..state });
                }
                if state.certain {
                    self.disagreed += 1;
                    self.doubts.insert((DoubtKind::EndsOutOfTurn, vaddr));
                }
                let below = self.stacks.cut_to(state.stack, region).and_then(|stack| self.stacks.pop(stack));
                Some(State { stack: below.map_or(state.stack, |(_, below)| below), certain: false, ..state })
            }
            (SiteKind::Restore, Some(region)) => match self.stacks.cut_to(state.stack, region) {
                Some(stack) => Some(State { stack, certain: true, unwound: false, ..state }),
                None => {
                    self.doubts.insert((DoubtKind::UnknownAfterUnwinding, vaddr));
                    Some(State { certain: false, unwound: false, ..state })
                }
            },
            (SiteKind::Restore, None) if state.stack == EMPTY => Some(State { certain: true, unwound: false, ..state }),
            (SiteKind::Restore, None) => match *self.undecided.entry(number).or_default() {
                Some(length) => {
                    Some(State { stack: self.stacks.cut(state.stack, length), certain: true, unwound: false, ..state })
                }
                None => None,
            },
            // The table has no such site.
            (SiteKind::Begin | SiteKind::End, None) => Some(state),
        }
    }

    /// Decides what one restoring site leaves open: in a function that was not inlined nothing, in one that was the regions
    /// around the call, as the debug information says if nothing onward speaks against it; else if one choice, and only
    /// one, agrees with all that is known onward.
    fn decide_restores(&mut self) -> bool {
        let open: Vec<u32> = self.undecided.iter().filter(|(_, choice)| choice.is_none()).map(|(at, _)| *at).collect();
        for number in open {
            let Some(state) = self.states[number as usize] else { continue };
            let vaddr = self.body.steps[number as usize].vaddr;
            let told = self.chains.opened_around(vaddr, &self.stacks.regions(state.stack));
            let choice = told.filter(|&length| self.try_restore(number, length).fits).or_else(|| {
                let trials: Vec<(u32, Trial)> = (0..=self.stacks.length(state.stack))
                    .map(|length| (length, self.try_restore(number, length)))
                    .filter(|(_, trial)| trial.fits)
                    .collect();
                let mut agreeing = trials.iter().filter(|(_, trial)| trial.agrees).peekable();
                // A way that only ends the function agrees with nothing, if it leaves nothing open.
                let only = if agreeing.peek().is_some() || self.rank < RANKS {
                    agreeing.next().filter(|_| agreeing.next().is_none())
                } else {
                    trials.first().filter(|_| trials.len() == 1)
                };
                only.map(|(length, _)| *length)
            });
            if let Some(length) = choice {
                self.undecided.insert(number, Some(length));
                self.work.push(number);
                return true;
            }
        }
        false
    }

    /// What would come of a restoring site that leaves `length` regions open.
    fn try_restore(&mut self, number: u32, length: u32) -> Trial {
        let before = self.exits_with_open_regions();
        let kept = (self.states.clone(), self.doubts.clone(), self.undecided.clone());
        (self.agreed, self.disagreed) = (0, 0);
        self.undecided.insert(number, Some(length));
        self.work.push(number);
        self.run();
        let fits = self.disagreed == 0 && self.exits_with_open_regions() == before;
        (self.states, self.doubts, self.undecided) = kept;
        Trial { fits, agrees: self.agreed > 0 }
    }

    fn exits_with_open_regions(&self) -> usize {
        let exits = self.body.steps.iter().zip(&self.states).filter(|(step, _)| step.exit.is_some());
        exits.filter(|(_, state)| state.is_some_and(|state| state.certain && state.stack != EMPTY)).count()
    }

    fn finish(mut self) -> Solution {
        let mut restored = HashMap::default();
        for (number, step) in self.body.steps.iter().enumerate() {
            let Some(state) = self.states[number] else { continue };
            if step.exit.is_some_and(|exit| exit != Exit::Unknown) && state.certain && state.stack != EMPTY {
                self.doubts.insert((DoubtKind::OpenAtExit, step.vaddr));
            }
            if self.table.site_at(step.vaddr).is_some_and(|site| site.kind == SiteKind::Restore) {
                match self.apply(number as u32, state) {
                    Some(after) if after.certain => {
                        restored.insert(step.vaddr, after.stack);
                    }
                    _ => {
                        self.doubts.insert((DoubtKind::UnknownAfterUnwinding, step.vaddr));
                    }
                }
            }
        }
        let mut doubts: Vec<_> = self.doubts.into_iter().collect();
        doubts.sort_unstable_by_key(|&(kind, vaddr)| (vaddr, kind));
        Solution { states: self.states, restored, doubts }
    }
}
