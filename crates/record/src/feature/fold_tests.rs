//! Folding against a machine that keeps its stack of regions itself.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Regions of each function: an outermost one, one inside of it, one inside of that.
const DEPTH: u32 = 3;
const FUNCTIONS: u32 = 4;
const TOP: u64 = 1 << 40;

#[derive(Debug, Clone)]
enum Step {
    Call(u32),
    Return,
    Begin,
    End,
    /// Back to a frame so far below the top, of whose regions so many remain.
    Throw(usize, usize),
}

#[derive(Debug, Clone, Copy)]
enum What {
    Begin(u32),
    End(u32),
    Restore,
}

#[derive(Debug, Clone)]
struct Event {
    ticks: u64,
    what: What,
    stack: u64,
    remain: Vec<u32>,
}

type Truth = BTreeMap<Vec<u32>, (u64, u64)>;

#[derive(Debug)]
struct Frame {
    function: u32,
    stack: u64,
    open: u32,
}

/// The machine.
#[derive(Debug, Default)]
struct Machine {
    frames: Vec<Frame>,
    now: u64,
    events: Vec<Event>,
    truth: Truth,
}

fn parents() -> Vec<u32> {
    (0..FUNCTIONS * DEPTH).map(|region| if region % DEPTH == 0 { NONE } else { region - 1 }).collect()
}

impl Machine {
    fn stack(&self) -> Vec<u32> {
        self.frames.iter().flat_map(|f| (0..f.open).map(move |depth| f.function * DEPTH + depth)).collect()
    }

    fn spend(&mut self, time: u64) {
        self.now += time;
        let stack = self.stack();
        self.truth.entry(stack).or_default().1 += time;
    }

    fn event(&mut self, what: What, stack: u64, remain: Vec<u32>) {
        self.events.push(Event { ticks: self.now, what, stack, remain });
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap()
    }

    fn begin(&mut self) {
        let Frame { function, stack, open } = *self.frame();
        if open < DEPTH {
            let region = function * DEPTH + open;
            self.event(What::Begin(region), stack, Vec::new());
            self.frame().open += 1;
            let stack = self.stack();
            self.truth.entry(stack).or_default().0 += 1;
        }
    }

    fn end(&mut self) {
        let Frame { function, stack, open } = *self.frame();
        if open > 0 {
            self.event(What::End(function * DEPTH + open - 1), stack, Vec::new());
            self.frame().open -= 1;
        }
    }

    fn leave(&mut self) {
        while self.frame().open > 0 {
            self.end();
            self.spend(1);
        }
        self.frames.pop();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call(function) => {
                let stack = self.frame().stack - 64;
                self.frames.push(Frame { function, stack, open: 0 });
            }
            Step::Return if self.frames.len() > 1 => self.leave(),
            Step::Return => {}
            Step::Begin => self.begin(),
            Step::End => self.end(),
            Step::Throw(frames, span) => {
                let length = self.frames.len().saturating_sub(frames).max(1);
                self.frames.truncate(length);
                let Frame { function, stack, open } = *self.frame();
                let span = open.min(span as u32);
                let remain = (0..span).map(|depth| function * DEPTH + depth).collect();
                self.event(What::Restore, stack, remain);
                self.frame().open = span;
            }
        }
    }
}

fn run(steps: &[(Step, u64)]) -> Machine {
    let mut machine = Machine::default();
    machine.frames.push(Frame { function: 0, stack: TOP, open: 0 });
    for (step, time) in steps {
        machine.spend(*time);
        machine.step(step);
    }
    while !machine.frames.is_empty() {
        machine.spend(1);
        machine.leave();
    }
    machine
}

fn fold(fold: &mut ThreadFold, events: &[Event], end: u64) {
    let parents = parents();
    let mut spans = |span: RegionSpan| assert!(span.start <= span.end);
    for event in events {
        match event.what {
            What::Begin(region) => fold.begin(event.ticks, region, event.stack, &parents, &mut spans),
            What::End(region) => fold.end(event.ticks, region, event.stack, &mut spans),
            What::Restore => fold.restore(event.ticks, event.stack, &event.remain, &mut spans),
        }
    }
    fold.finish(end, &mut spans);
}

fn found(fold: &ThreadFold) -> Truth {
    let mut found = Truth::new();
    for node in fold.nodes() {
        let mut stack = Vec::new();
        let mut at = node;
        while at.region != NONE {
            stack.push(at.region);
            at = &fold.nodes()[at.parent.unwrap() as usize];
        }
        stack.reverse();
        let sum = found.entry(stack).or_default();
        (sum.0, sum.1) = (sum.0 + node.entries, sum.1 + node.ticks);
    }
    found
}

fn something(truth: &Truth) -> Truth {
    truth.iter().filter(|(_, sums)| **sums != (0, 0)).map(|(stack, sums)| (stack.clone(), *sums)).collect()
}

fn step(unwinds: bool) -> impl Strategy<Value = (Step, u64)> {
    let plain = prop_oneof![
        3 => (0..FUNCTIONS).prop_map(Step::Call),
        3 => Just(Step::Return),
        4 => Just(Step::Begin),
        4 => Just(Step::End),
    ];
    let all = prop_oneof![
        12 => plain.clone(),
        1 => (0..4usize, 0..3usize).prop_map(|(frames, span)| Step::Throw(frames, span)),
    ];
    let step = if unwinds { all.boxed() } else { plain.boxed() };
    (step, 0..20u64)
}

proptest! {
    #[test]
    fn trees_are_what_happened(steps in prop::collection::vec(step(true), 0..200)) {
        let machine = run(&steps);
        let mut thread = ThreadFold::new(0, false, OnCpuState::unheard());
        fold(&mut thread, &machine.events, machine.now);
        prop_assert_eq!(something(&found(&thread)), something(&machine.truth));
        prop_assert_eq!(thread.unfitting().unmatched, 0);
        prop_assert_eq!(thread.open_regions().count(), 0);
    }

    #[test]
    fn regions_that_were_open_before_are_known_once_they_end(
        before in prop::collection::vec(step(false), 0..60),
        after in prop::collection::vec(step(false), 0..60),
    ) {
        let whole: Vec<_> = before.iter().chain(&after).cloned().collect();
        let (first, all) = (run_open(&before), run(&whole));
        let mut thread = ThreadFold::new(first.now, true, OnCpuState::unheard());
        fold(&mut thread, &all.events[first.events.len()..], all.now);
        // What happened since, and nothing of before.
        let mut since = all.truth.clone();
        for (stack, sums) in &first.truth {
            let sum = since.get_mut(stack).unwrap();
            (sum.0, sum.1) = (sum.0 - sums.0, sum.1 - sums.1);
        }
        prop_assert_eq!(something(&found(&thread)), something(&since));
        prop_assert_eq!(thread.unfitting().unmatched, 0);
    }
}

/// As [`run`], but what is open remains open.
fn run_open(steps: &[(Step, u64)]) -> Machine {
    let mut machine = Machine::default();
    machine.frames.push(Frame { function: 0, stack: TOP, open: 0 });
    for (step, time) in steps {
        machine.spend(*time);
        machine.step(step);
    }
    machine
}

#[test]
fn a_frame_that_grows_keeps_its_regions() {
    let parents = parents();
    let mut none = |_: RegionSpan| {};
    let mut thread = ThreadFold::new(0, false, OnCpuState::unheard());
    // Region 0 begins behind an alloca, 1 begins after the alloca's end: one frame.
    thread.begin(10, 0, 900, &parents, &mut none);
    thread.begin(20, 1, 1000, &parents, &mut none);
    thread.end(30, 1, 1000, &mut none);
    thread.end(50, 0, 1000, &mut none);
    thread.finish(60, &mut none);
    let expected = [(vec![], (0, 20)), (vec![0], (1, 30)), (vec![0, 1], (1, 10))];
    assert_eq!(found(&thread), expected.into_iter().collect());
    assert_eq!(thread.unfitting(), Unfitting::default());
}

/// Open regions as (region, stack pointer), and which are left by a restoring at `stack`.
fn restored(open: &[(u32, u64)], stack: u64, remain: &[u32]) -> Vec<u32> {
    let mut none = |_: RegionSpan| {};
    let mut thread = ThreadFold::new(0, false, OnCpuState::unheard());
    open.iter().for_each(|&(region, stack)| thread.begin(10, region, stack, &parents(), &mut none));
    thread.restore(20, stack, remain, &mut none);
    thread.open_regions().collect()
}

#[test]
fn regions_that_are_off_take_none_along_when_a_frame_is_restored() {
    // Region 0 around it, or 1 between them, is off.
    assert_eq!(restored(&[(1, 1000), (3, 900)], 1000, &[0, 1]), [1]);
    assert_eq!(restored(&[(0, 1000), (2, 1000), (3, 900)], 1000, &[0, 1, 2]), [0, 2]);
    assert_eq!(restored(&[(0, 1000), (2, 1000)], 1000, &[0, 1]), [0]);
}

#[test]
fn a_frame_that_has_grown_keeps_its_regions_when_it_is_restored() {
    assert_eq!(restored(&[(0, 1000), (1, 900), (3, 800)], 900, &[0, 1]), [0, 1]);
    assert_eq!(restored(&[(0, 1000), (1, 900), (2, 900)], 900, &[0, 1]), [0, 1]);
}

#[test]
fn ends_without_begin_are_counted() {
    let mut none = |_: RegionSpan| {};
    let mut thread = ThreadFold::new(0, false, OnCpuState::unheard());
    thread.end(10, 1, 1000, &mut none);
    thread.finish(20, &mut none);
    assert_eq!(thread.unfitting().unmatched, 1);
    assert_eq!(found(&thread), [(vec![], (0, 20))].into_iter().collect());
}

#[test]
fn frames_that_are_gone_take_their_regions_along() {
    let parents = parents();
    let mut none = |_: RegionSpan| {};
    let mut thread = ThreadFold::new(0, false, OnCpuState::unheard());
    thread.begin(10, 0, 1000, &parents, &mut none);
    thread.begin(20, 3, 900, &parents, &mut none);
    thread.begin(30, 6, 800, &parents, &mut none);
    // longjmp, and nothing said so.
    thread.begin(40, 1, 1000, &parents, &mut none);
    assert_eq!(thread.open_regions().collect::<Vec<_>>(), [0, 1]);
    thread.begin(50, 3, 900, &parents, &mut none);
    thread.end(60, 0, 1000, &mut none);
    assert_eq!(thread.open_regions().count(), 0);
    assert_eq!(thread.unfitting(), Unfitting { unwound: 4, ..Unfitting::default() });
}

#[test]
fn recursion_does_not_grow_without_end() {
    let mut fold = ThreadFold::new(0, false, OnCpuState::unheard());
    let (mut now, mut entries) = (0, 0);
    // Twenty levels of two regions: each way down is a stack of its own.
    for way in 0..1_u32 << 13 {
        for level in 0..20_u64 {
            now += 1;
            entries += 1;
            fold.begin(now, (way >> (level % 13)) & 1, 10_000 - level, &[], &mut |_| {});
        }
        for level in (0..20_u64).rev() {
            now += 1;
            fold.end(now, (way >> (level % 13)) & 1, 10_000 - level, &mut |_| {});
        }
    }
    fold.finish(now, &mut |_| {});
    assert!(fold.nodes().len() <= 1 << 16 && fold.unfitting().folded > 0);
    assert_eq!(fold.nodes().iter().map(|node| node.ticks).sum::<u64>(), now);
    assert_eq!(fold.nodes().iter().map(|node| node.entries).sum::<u64>(), entries);
    assert_eq!((fold.unfitting().unmatched, fold.unfitting().unwound), (0, 0));
}

#[test]
fn time_off_the_cpu_is_that_of_the_stack_that_had_it() {
    let parents = parents();
    let mut none = |_: RegionSpan| {};
    let mut thread = ThreadFold::new(0, false, OnCpuState::heard_from(0));
    // Waits for a CPU until 5; a region from 10 to 60, off from 20 to 45; outside, off from 70 on.
    for (ticks, on) in [(5, true), (20, false), (45, true), (70, false)] {
        thread.switched(ticks, on);
    }
    thread.begin(10, 0, 1000, &parents, &mut none);
    thread.settle(30);
    thread.end(60, 0, 1000, &mut none);
    thread.settle(80);
    thread.finish(100, &mut none);
    let off: Vec<_> = thread.nodes().iter().map(|node| (node.region, node.ticks, node.off_ticks)).collect();
    assert_eq!(off, [(NONE, 50, 5 + 30), (0, 50, 25)]);
}

#[test]
fn a_child_of_fork_begins_in_the_regions_of_its_parent() {
    let keep = &mut |_: RegionSpan| ();
    let mut parent = ThreadFold::new(0, false, OnCpuState::unheard());
    parent.begin(10, 0, 1000, &parents(), keep);
    parent.begin(20, 1, 1000, &parents(), keep);
    let mut child = ThreadFold::new(30, true, OnCpuState::unheard());
    child.inherit(&parent.inside_at(30));
    assert!(!child.is_used());
    // What the parent does later is its own.
    parent.begin(40, 2, 1000, &parents(), keep);
    assert_eq!(parent.inside_at(30).open, [(0, 1000), (1, 1000)]);
    child.end(50, 1, 1000, keep);
    assert_eq!(child.open_regions().collect::<Vec<_>>(), [0]);
    // Another one goes on as another program.
    child.leave_all(70, keep);
    child.finish(100, keep);
    let of = |region| child.nodes().iter().find(|node| node.region == region).map(|node| (node.entries, node.ticks));
    assert_eq!((of(1), of(0), of(NONE)), (Some((0, 20)), Some((0, 20)), Some((0, 30))));
    assert_eq!(child.unfitting(), Unfitting::default());
}
