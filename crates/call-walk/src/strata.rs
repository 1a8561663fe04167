//! Strata: the parts of a thread group's time whose totals are known exactly, with what was seen in each.

use std::collections::BTreeMap;

use crate::{CallTree, ExactTotals, Frame, Function, NodeId, State, Stratum, ThreadTotals, observation::Seen};

/// Below this many observations a thread's stratum is divided together with the group's other such ones.
const ENOUGH: u64 = 5;
/// Above this part of the exact time seen, there is nothing to pool for.
const NEARLY_ALL: f64 = 0.9;
/// A division that had to be borrowed from elsewhere counts as so many observations.
const BORROWED: f64 = 4.0;

/// What a stratum is divided into, each in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// On a CPU: by samples.
    On,
    /// Blocked: by waits.
    Blocked,
    /// Runnable after a wait: by what was seen to follow waits.
    Woken,
    /// Runnable for any other reason: preempted, which happens where a thread runs.
    Preempted,
    /// See [`State::Weight`].
    Weight,
}

impl Part {
    pub fn state(self) -> State {
        match self {
            Self::On => State::On,
            Self::Blocked => State::Blocked,
            Self::Woken => State::Runnable,
            Self::Preempted => State::Preempted,
            Self::Weight => State::Weight,
        }
    }

    /// Waiting, and what follows it.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Blocked | Self::Woken)
    }

    fn seen_as(state: State) -> Self {
        match state {
            State::On => Self::On,
            State::Runnable => Self::Woken,
            State::Preempted => Self::Preempted,
            State::Blocked => Self::Blocked,
            State::Weight => Self::Weight,
        }
    }
}

/// One stratum of one thread (or of all that were pooled) in one part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Division {
    /// Its exact total.
    pub exact: f64,
    /// Nothing was seen in it: `cells` are from elsewhere.
    pub borrowed: bool,
    /// Of `seen`, what was measured one by one.
    pub measured: f64,
    /// All of `cells`.
    pub seen: Seen,
    /// What was seen where.
    pub cells: Vec<(NodeId, Seen)>,
}

impl Division {
    fn add(&mut self, node: NodeId, seen: Seen) {
        self.seen.add(&seen);
        self.cells.push((node, seen));
    }

    fn is_thin(&self) -> bool {
        self.seen.count < ENOUGH && self.measured < NEARLY_ALL * self.exact
    }
}

type Key = (Option<u32>, Stratum, Part);
type Divisions = BTreeMap<Key, Division>;

/// Divisions of all strata that have time; each has cells. Nodes are added for time that was never seen.
pub(crate) fn divide(tree: &mut CallTree, exact: &ExactTotals) -> Vec<(Part, Division)> {
    let mut divisions = Divisions::new();
    for (&(thread, node, state, stratum), &seen) in &tree.seen {
        let known = exact.threads.get(&thread);
        let stratum = match stratum {
            Stratum::SystemCall(number)
                if state != State::Weight && known.is_some_and(|t| t.system_calls.contains_key(&number)) =>
            {
                Stratum::SystemCall(number)
            }
            _ => Stratum::User,
        };
        let division = divisions.entry((Some(thread), stratum, Part::seen_as(state))).or_default();
        division.add(node, seen);
        division.exact = division.seen.amount;
        division.measured = if state.is_measured() { division.seen.amount } else { 0.0 };
    }
    for (&thread, totals) in &exact.threads {
        for part in [Part::On, Part::Blocked, Part::Woken] {
            set_times(&mut divisions, thread, totals, part);
        }
        if let Some(weight) = totals.weight {
            divisions.entry((Some(thread), Stratum::User, Part::Weight)).or_default().exact = weight;
        }
    }
    tell_preempted(&mut divisions, exact);
    let mut pooled = Divisions::new();
    for (key, division) in divisions.into_iter().filter(|(_, division)| division.exact > 0.0) {
        if division.is_thin() {
            let pool = pooled.entry((None, key.1, key.2)).or_default();
            pool.exact += division.exact;
            pool.measured += division.measured;
            division.cells.into_iter().for_each(|(node, seen)| pool.add(node, seen));
        } else {
            pooled.insert(key, division);
        }
    }
    for (&(_, stratum, part), division) in &mut pooled {
        if division.cells.is_empty() {
            let places = borrow(tree, stratum, part);
            let all: f64 = places.iter().map(|place| place.1).sum();
            for (node, weight) in places {
                let amount = division.exact * weight / all;
                let squares = amount * division.exact / BORROWED;
                division.add(node, Seen { amount, squares, count: 1 });
            }
            division.borrowed = true;
        }
    }
    pooled.into_iter().map(|((_, _, part), division)| (part, division)).collect()
}

/// Exact times of one thread in one part: of each system call, and of the rest if the whole is known.
fn set_times(divisions: &mut Divisions, thread: u32, totals: &ThreadTotals, part: Part) {
    let whole = totals.whole.map(|whole| whole.of(part.state()).max(0.0));
    let mut calls: Vec<(Key, f64)> = Vec::with_capacity(totals.system_calls.len());
    for (&number, call) in &totals.system_calls {
        let key = (Some(thread), Stratum::SystemCall(number), part);
        let mut time = call.split.of(part.state()).max(0.0);
        // An open call may not be in the total, though its wait is seen.
        if part.is_wait() {
            time = time.max(divisions.get(&key).map_or(0.0, |division| division.seen.amount));
        }
        calls.push((key, time));
    }
    let in_calls: f64 = calls.iter().map(|call| call.1).sum();
    // The totals are read one after the other: never more in the calls than in the whole.
    let fit = whole.filter(|&whole| in_calls > whole).map_or(1.0, |whole| whole / in_calls);
    for (key, time) in calls {
        divisions.entry(key).or_default().exact = time * fit;
    }
    if let Some(whole) = whole {
        divisions.entry((Some(thread), Stratum::User, part)).or_default().exact = (whole - in_calls).max(0.0);
    }
}

/// Divides the runnable time: what follows waits is known, or else was seen as far as they were; the rest is preemption,
/// and what was not seen of it happened where the thread runs.
fn tell_preempted(divisions: &mut Divisions, exact: &ExactTotals) {
    let ready: Vec<Key> = divisions.keys().filter(|key| key.2 == Part::Woken).copied().collect();
    for (thread, stratum, part) in ready {
        let waits = divisions.get(&(thread, stratum, Part::Blocked)).cloned().unwrap_or_default();
        let running = divisions.get(&(thread, stratum, Part::On)).cloned().unwrap_or_default();
        let known = thread.and_then(|thread| exact.threads.get(&thread)).map(|totals| &totals.woken_ns);
        let Some(woken) = divisions.get_mut(&(thread, stratum, part)) else { continue };
        let all = woken.exact;
        woken.exact = match known.filter(|known| !known.is_empty()) {
            Some(known) => known.get(&stratum).copied().unwrap_or(0.0),
            None => {
                let seen = if waits.exact > 0.0 { waits.seen.amount / waits.exact } else { 1.0 };
                woken.seen.amount / seen.clamp(f64::MIN_POSITIVE, 1.0)
            }
        };
        woken.exact = woken.exact.min(all);
        let preempted = all - woken.exact;
        if woken.cells.is_empty() {
            // It follows waits, if none of which it was seen to follow.
            (woken.cells, woken.seen, woken.borrowed) = (waits.cells, waits.seen, true);
        }
        let division = divisions.entry((thread, stratum, Part::Preempted)).or_default();
        division.exact = preempted;
        let unseen = (preempted - division.measured).max(0.0) / running.seen.amount.max(f64::MIN_POSITIVE);
        for (node, seen) in running.cells.into_iter().filter(|_| unseen > 0.0) {
            let (amount, squares) = (seen.amount * unseen, seen.squares * unseen * unseen);
            division.add(node, Seen { amount, squares, ..seen });
        }
    }
}

/// Where time most plausibly is of which nothing was seen: nodes and weights.
fn borrow(tree: &mut CallTree, stratum: Stratum, part: Part) -> Vec<(NodeId, f64)> {
    let seen = |tree: &CallTree, wanted: &dyn Fn(NodeId, State, Stratum) -> bool| -> Vec<(NodeId, f64)> {
        let cells = tree.seen.iter().filter(|((_, node, state, stratum), _)| wanted(*node, *state, *stratum));
        cells.map(|(&(_, node, ..), seen)| (node, seen.amount)).collect()
    };
    // The same elsewhere in the group; who is runnable was preempted where it ran, or woken where it slept.
    let like = match part {
        Part::Preempted => &[State::Preempted, State::On, State::Runnable, State::Blocked][..],
        other => &[other.state()],
    };
    for like in like {
        let places = seen(tree, &|_, state, in_stratum| state == *like && in_stratum == stratum);
        if !places.is_empty() {
            return places;
        }
    }
    let mut places = match stratum {
        Stratum::SystemCall(_) => seen(tree, &|_, _, in_stratum| in_stratum == stratum),
        // Outside system calls a thread blocks in faults only.
        Stratum::User if part == Part::Blocked => {
            seen(tree, &|node, _, _| tree.node(node).stratum == stratum && tree.entry(node).is_some())
        }
        Stratum::User => Vec::new(),
    };
    if !places.is_empty() {
        places.iter_mut().for_each(|place| place.0 = tree.entry(place.0).unwrap_or(place.0));
        return places;
    }
    if stratum == Stratum::User {
        // What all stacks begin with is certain.
        let mut roots = seen(tree, &|_, _, _| true);
        roots.iter_mut().for_each(|place| place.0 = tree.ancestry(place.0).last().unwrap_or(place.0));
        roots.retain(|root| tree.node(root.0).function != Function::Unknown);
        if !roots.is_empty() {
            return roots;
        }
    }
    let frame = |function| Frame { function, inlined: false };
    let root = tree.child(None, &frame(Function::Unknown));
    match stratum {
        Stratum::SystemCall(number) => {
            vec![(tree.child(Some(root), &frame(Function::SystemCall { number })), 1.0)]
        }
        Stratum::User => vec![(root, 1.0)],
    }
}

impl CallTree {
    /// The system call or fault by which the node was reached.
    pub(crate) fn entry(&self, node: NodeId) -> Option<NodeId> {
        let entries = self.ancestry(node).filter(|&node| {
            matches!(self.node(node).function, Function::SystemCall { .. } | Function::Exception { .. })
        });
        entries.last()
    }
}
