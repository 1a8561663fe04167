//! Folding one thread's events into its tree of region stacks.
//!
//! A region is open from its begin to its end. What is left by unwinding (an exception, `longjmp`) has no end: the stack
//! tells. A site's stack pointer above that of an open region's begin says that the region's frame is gone; within one
//! frame, sites of restoring say which regions are open. Frames whose stack pointer moves (`alloca`) have their own regions'
//! begins below: an enclosing region of the same function is not dropped for that.

use rustc_hash::FxHashMap as HashMap;

use super::on_cpu_state::OnCpuState;

/// Number of a region in the recording, over all objects.
pub type RegionNumber = u32;
/// Stacks of regions of a thread that are told apart.
const MOST_NODES: usize = 1 << 16;
/// No region.
pub const NONE: RegionNumber = u32::MAX;

/// A stack of regions of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldNode {
    /// The stack without its last region; `None` for the root.
    pub parent: Option<u32>,
    /// The last region; [`NONE`] for the root.
    pub region: RegionNumber,
    /// Times that it was entered on this stack.
    pub entries: u64,
    /// Ticks in which this was the whole stack.
    pub ticks: u64,
    /// Of these, ticks off the CPUs.
    pub off_ticks: u64,
    /// The child that was entered last, and its region.
    recent: (RegionNumber, u32),
}

impl FoldNode {
    fn new(parent: Option<u32>, region: RegionNumber) -> Self {
        Self { parent, region, entries: 0, ticks: 0, off_ticks: 0, recent: (NONE, 0) }
    }
}

/// What does not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfitting {
    /// Ends of regions that had begun before the recording: their time so far was given to them.
    pub begun_before: u64,
    /// Ends of regions that were not open.
    pub unmatched: u64,
    /// Regions that were left without an end.
    pub unwound: u64,
    /// Entries on stacks beyond [`MOST_NODES`], as recursion makes them without end.
    pub folded: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    region: RegionNumber,
    stack: u64,
    node: u32,
    since: u64,
}

/// What a child of fork begins in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Regions that are open, outermost first, with the stack pointers of their begins.
    pub open: Vec<(RegionNumber, u64)>,
    /// There may be others, which had begun before the recording.
    pub midway: bool,
}

/// A span in a region, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSpan {
    /// The stack's node.
    pub node: u32,
    /// Begin.
    pub start: u64,
    /// End.
    pub end: u64,
}

/// One thread's tree as it grows.
#[derive(Debug, Clone)]
pub struct ThreadFold {
    nodes: Vec<FoldNode>,
    children: HashMap<(u32, RegionNumber), u32>,
    open: Vec<Open>,
    root: u32,
    node: u32,
    start: u64,
    now: u64,
    /// Regions may have been open when it was first looked at.
    midway: bool,
    /// But not these, which were switched on later: of one that was open then, the begin is not known.
    late: Vec<RegionNumber>,
    /// Nodes that it was forked with.
    inherited: Option<usize>,
    on_cpu: OnCpuState,
    unfitting: Unfitting,
}

impl ThreadFold {
    /// A thread that is outside of all regions at `start` or, if `midway`, may be in some.
    pub fn new(start: u64, midway: bool, on_cpu: OnCpuState) -> Self {
        let root = FoldNode::new(None, NONE);
        Self {
            nodes: vec![root],
            children: HashMap::default(),
            open: Vec::new(),
            root: 0,
            node: 0,
            start,
            now: start,
            midway,
            late: Vec::new(),
            inherited: None,
            on_cpu,
            unfitting: Unfitting::default(),
        }
    }

    /// It was off the CPU for so long before its first event, beside what its switches tell.
    #[must_use]
    pub fn off_before(mut self, ticks: u64) -> Self {
        self.nodes[0].off_ticks += ticks;
        self
    }

    /// Events of regions have been folded.
    pub fn is_used(&self) -> bool {
        self.nodes.len() > 1 + self.inherited.unwrap_or(0) || self.now > self.start
    }

    /// It was held until then. Of use only before its first event.
    pub fn begins_at(&mut self, ticks: u64) {
        self.on_cpu.pass(ticks, false);
        self.nodes[self.root as usize].off_ticks = 0;
        (self.start, self.now) = (ticks, ticks);
    }

    /// The regions that it is in, and was in at `ticks`: a child that was forked then begins there.
    pub fn inside_at(&self, ticks: u64) -> Inherited {
        let then = self.open.iter().take_while(|open| open.since <= ticks);
        Inherited { open: then.map(|open| (open.region, open.stack)).collect(), midway: self.midway }
    }

    /// It was forked in these regions, which are no entries of its own. Nothing if that was known, or is known too late.
    pub fn inherit(&mut self, from: &Inherited) {
        if self.inherited.is_some() || self.is_used() {
            return;
        }
        for &(region, stack) in &from.open {
            let node = self.child(region);
            self.open.push(Open { region, stack, node, since: self.start });
            self.node = node;
        }
        self.inherited = Some(self.nodes.len() - 1);
        self.midway = from.midway;
    }

    /// It becomes another program, which is in none of its regions.
    pub fn leave_all(&mut self, ticks: u64, spans: &mut impl FnMut(RegionSpan)) {
        if !self.open.is_empty() {
            self.pass(ticks);
        }
        while !self.open.is_empty() {
            self.close(spans);
        }
        self.midway = false;
    }

    /// It can't have been in regions when it was first looked at.
    pub fn begins_outside(&mut self) {
        self.midway = false;
    }

    /// A region's sites are switched on.
    pub fn comes_on(&mut self, region: RegionNumber) {
        if self.midway && !self.late.contains(&region) {
            self.late.push(region);
        }
    }

    /// Ticks of its last event.
    pub fn last_event(&self) -> u64 {
        self.now
    }

    /// Nodes; a parent may come after its child.
    pub fn nodes(&self) -> &[FoldNode] {
        &self.nodes
    }

    /// CPU time is known.
    pub fn knows_cpu(&self) -> bool {
        self.on_cpu.is_heard()
    }

    /// The thread came to a CPU (`on`), or left it. Of all that happened before the events to come; true if it is the
    /// first since time last passed.
    pub fn switched(&mut self, ticks: u64, on: bool) -> bool {
        self.on_cpu.switched(ticks, on);
        self.on_cpu.ahead() == 1
    }

    /// Switches are ahead of its time.
    pub fn awaits_switches(&self) -> bool {
        self.on_cpu.ahead() > 0
    }

    /// All events up to `ticks` have been folded: switches until then need not be kept.
    pub fn settle(&mut self, ticks: u64) {
        self.nodes[self.node as usize].off_ticks += self.on_cpu.pass(ticks, false);
    }

    /// What did not fit so far.
    pub fn unfitting(&self) -> Unfitting {
        self.unfitting
    }

    /// Stack pointer of the frame that has begun the innermost open region.
    pub fn innermost_stack(&self) -> Option<u64> {
        self.open.last().map(|open| open.stack)
    }

    /// Regions that are open, outermost first.
    #[cfg(test)]
    pub fn open_regions(&self) -> impl Iterator<Item = RegionNumber> {
        self.open.iter().map(|open| open.region)
    }

    /// The time passes; a clock that is a little behind (another CPU's) stands still.
    fn pass(&mut self, ticks: u64) {
        if ticks > self.now {
            if !self.on_cpu.is_on_until(ticks) {
                self.nodes[self.node as usize].off_ticks += self.on_cpu.pass(ticks, true);
            }
            self.nodes[self.node as usize].ticks += ticks - self.now;
            self.now = ticks;
        }
    }

    fn child(&mut self, region: RegionNumber) -> u32 {
        let parent = self.node;
        let recent = self.nodes[parent as usize].recent;
        if recent.0 == region {
            return recent.1;
        }
        let next = self.nodes.len() as u32;
        let child = match self.children.get(&(parent, region)) {
            Some(&child) => child,
            // The same region further out stands for it, else what is around it.
            None if next as usize >= MOST_NODES => {
                self.unfitting.folded += 1;
                let outer = self.open.iter().rfind(|open| open.region == region);
                return outer.map_or(parent, |open| open.node);
            }
            None => {
                self.nodes.push(FoldNode::new(Some(parent), region));
                self.children.insert((parent, region), next);
                next
            }
        };
        self.nodes[parent as usize].recent = (region, child);
        child
    }

    fn close(&mut self, spans: &mut impl FnMut(RegionSpan)) {
        if let Some(open) = self.open.pop() {
            spans(RegionSpan { node: open.node, start: open.since, end: self.now });
            self.node = self.open.last().map_or(self.root, |open| open.node);
        }
    }

    fn close_down_to(&mut self, length: usize, spans: &mut impl FnMut(RegionSpan)) {
        while self.open.len() > length {
            self.unfitting.unwound += 1;
            self.close(spans);
        }
    }

    /// `parents[r]`: the region of the same function around region r.
    fn encloses(outer: RegionNumber, inner: RegionNumber, parents: &[RegionNumber]) -> bool {
        // As many steps as there are regions: a damaged table may have a circle.
        let mut at = inner;
        for _ in 0..parents.len() {
            at = parents.get(at as usize).copied().unwrap_or(NONE);
            if at == outer || at == NONE {
                return at == outer;
            }
        }
        false
    }

    /// A region begins.
    pub fn begin(
        &mut self,
        ticks: u64,
        region: RegionNumber,
        stack: u64,
        parents: &[RegionNumber],
        spans: &mut impl FnMut(RegionSpan),
    ) {
        self.pass(ticks);
        while let Some(top) = self.open.last()
            && top.stack < stack
            && !Self::encloses(top.region, region, parents)
        {
            self.unfitting.unwound += 1;
            self.close(spans);
        }
        let node = self.child(region);
        self.nodes[node as usize].entries += u64::from(self.nodes[node as usize].region == region);
        self.open.push(Open { region, stack, node, since: self.now });
        self.node = node;
    }

    /// A region ends.
    pub fn end(&mut self, ticks: u64, region: RegionNumber, stack: u64, spans: &mut impl FnMut(RegionSpan)) {
        self.pass(ticks);
        match self.open.last() {
            Some(top) if top.region == region && top.stack == stack => self.close(spans),
            _ => self.end_elsewhere(region, stack, spans),
        }
    }

    fn end_elsewhere(&mut self, region: RegionNumber, stack: u64, spans: &mut impl FnMut(RegionSpan)) {
        let is = |open: &Open| open.region == region && open.stack == stack;
        let place = self.open.iter().rposition(is).or_else(|| {
            // The frame has grown or shrunk in between.
            self.open.iter().rposition(|open| open.region == region)
        });
        match place {
            Some(place) => {
                self.close_down_to(place + 1, spans);
                self.close(spans);
            }
            // Everything so far was inside of it: a new root is put above.
            None if self.midway && !self.late.contains(&region) => {
                self.close_below(stack, spans);
                if self.open.is_empty() {
                    self.unfitting.begun_before += 1;
                    self.begin_before(region, spans);
                } else {
                    self.unfitting.unmatched += 1;
                }
            }
            None => self.unfitting.unmatched += 1,
        }
    }

    fn begin_before(&mut self, region: RegionNumber, spans: &mut impl FnMut(RegionSpan)) {
        let new = self.nodes.len() as u32;
        let old = self.root;
        self.nodes.push(FoldNode { recent: (region, old), ..FoldNode::new(None, NONE) });
        self.nodes[old as usize].parent = Some(new);
        self.nodes[old as usize].region = region;
        self.children.insert((new, region), old);
        spans(RegionSpan { node: old, start: self.start, end: self.now });
        (self.root, self.node) = (new, new);
    }

    fn close_below(&mut self, stack: u64, spans: &mut impl FnMut(RegionSpan)) {
        while self.open.last().is_some_and(|top| top.stack < stack) {
            self.unfitting.unwound += 1;
            self.close(spans);
        }
    }

    /// Control came back by unwinding, into a frame whose stack pointer is `stack`: of its regions no others than those in
    /// `remain` are open, outermost first. Some of these may be off, or have begun before an alloca.
    pub fn restore(&mut self, ticks: u64, stack: u64, remain: &[RegionNumber], spans: &mut impl FnMut(RegionSpan)) {
        self.pass(ticks);
        self.close_below(stack, spans);
        let frame = self.open.iter().rposition(|open| open.stack != stack).map_or(0, |below| below + 1);
        let mut rest = remain.iter();
        let same = self.open[frame..].iter().take_while(|open| rest.any(|region| *region == open.region)).count();
        self.close_down_to(frame + same, spans);
    }

    /// The sites of a region have been switched off: it is open nowhere any more.
    pub fn forget(&mut self, region: RegionNumber, spans: &mut impl FnMut(RegionSpan)) {
        let Some(first) = self.open.iter().position(|open| open.region == region) else { return };
        let above: Vec<Open> = self.open[first..].iter().filter(|open| open.region != region).copied().collect();
        while self.open.len() > first {
            self.close(spans);
        }
        for open in above {
            let node = self.child(open.region);
            self.open.push(Open { node, since: self.now, ..open });
            self.node = node;
        }
    }

    /// The recording, or the thread, ends.
    pub fn finish(&mut self, ticks: u64, spans: &mut impl FnMut(RegionSpan)) {
        self.nodes[self.node as usize].off_ticks += self.on_cpu.end(ticks);
        self.pass(ticks);
        while !self.open.is_empty() {
            self.close(spans);
        }
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
