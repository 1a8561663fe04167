//! Random programs whose times are known exactly, and a walk over one: a sampler with noise, waits of which only some
//! have stacks, a timer that costs time.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{collections::HashMap, time::Duration};

use transect_call_walk::{
    CallTree, ExactTotals, Frame, Function, NodeId, Observation, Request, Search, Settings, State, Step,
    SystemCallTotals, ThreadTotals, Timed, Timing, Unit,
};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

pub fn user(address: u64) -> Function {
    Function::User { component: 0, address }
}

pub fn kernel(address: u64) -> Function {
    Function::Kernel { address }
}

pub fn frames(functions: &[Function]) -> Vec<Frame> {
    functions.iter().map(|&function| Frame { function, inlined: matches!(function, Function::Other { .. }) }).collect()
}

/// A place where the program spends time.
#[derive(Debug, Clone)]
pub struct Place {
    pub stack: Vec<Function>,
    pub state: State,
    /// Probability of the next visit, by phase.
    pub weight: Vec<f64>,
    /// Mean length of a visit, ns.
    pub mean_ns: f64,
}

#[derive(Debug, Clone)]
pub struct Program {
    pub places: Vec<Place>,
    /// Each phase lasts this long, in turn, ns.
    pub phase_ns: f64,
}

impl Program {
    /// A tree of up to `depth` levels below main, with inlined functions, system calls and waits in them.
    pub fn random(random: &mut Random, depth: usize, phases: usize) -> Self {
        let mut places = Vec::new();
        let mut number = 1;
        grow(random, &mut vec![user(0)], 1.0, depth, &mut number, phases, &mut places);
        Self { places, phase_ns: 1.5e9 }
    }

    fn phases(&self) -> usize {
        self.places[0].weight.len()
    }
}

fn grow(
    random: &mut Random,
    stack: &mut Vec<Function>,
    weight: f64,
    depth: usize,
    number: &mut u64,
    phases: usize,
    places: &mut Vec<Place>,
) {
    let in_kernel = stack.iter().any(|function| matches!(function, Function::SystemCall { .. }));
    let callees = if depth == 0 || weight < 0.02 { 0 } else { 1 + random.below(4) };
    let own = if callees == 0 { 1.0 } else { random.unit().powi(3) * 0.5 };
    let waits = in_kernel && callees == 0 && random.below(2) == 0;
    let mut by_phase: Vec<f64> = (0..phases).map(|_| if phases == 1 { 1.0 } else { 0.2 + random.unit() }).collect();
    by_phase.iter_mut().for_each(|part| *part *= weight * own);
    let mean_ns = 10f64.powf(3.7 + 1.8 * random.unit()) * if waits { 10.0 } else { 1.0 };
    let state = if waits { State::Blocked } else { State::On };
    // Weights are of time, not of visits.
    by_phase.iter_mut().for_each(|part| *part /= mean_ns);
    places.push(Place { stack: stack.clone(), state, weight: by_phase, mean_ns });
    let mut parts: Vec<f64> = (0..callees).map(|_| random.unit().powi(4) + 0.01).collect();
    let sum: f64 = parts.iter().sum();
    parts.iter_mut().for_each(|part| *part *= weight * (1.0 - own) / sum);
    for part in parts {
        *number += 1;
        let function = match random.below(10) {
            _ if in_kernel => kernel(*number),
            0 => Function::Other { number: *number as u32 },
            1..=3 => Function::SystemCall { number: random.below(8) as u32 },
            _ => user(*number),
        };
        if stack.contains(&function) {
            continue;
        }
        stack.push(function);
        grow(random, stack, part, depth - 1, number, phases, places);
        stack.pop();
    }
}

/// How good the collectors are.
#[derive(Debug, Clone)]
pub struct Machine {
    pub sample_hz: f64,
    /// Part of the waits with a stack.
    pub stacks_of_waits: f64,
    /// Cost of one timed call, and how wrong its calibration is.
    pub probe_ns: f64,
    pub probe_error: f64,
    pub user: bool,
    pub kernel: bool,
    /// Factor on the callees' times as the timer sees them: a timer that is wrong.
    pub bias: f64,
}

impl Default for Machine {
    fn default() -> Self {
        let (sample_hz, stacks_of_waits) = (997.0, 1.0);
        Self { sample_hz, stacks_of_waits, probe_ns: 150.0, probe_error: 0.05, user: true, kernel: true, bias: 1.0 }
    }
}

/// A program as it runs under the walk.
pub struct Run<'a> {
    pub program: &'a Program,
    pub machine: Machine,
    pub random: Random,
    pub tree: CallTree,
    pub exact: ExactTotals,
    /// True times by place.
    pub truth: Vec<f64>,
    pub now_ns: f64,
    pub windows: Vec<Duration>,
    pub requests: Vec<Request>,
    pub steps: Vec<Step>,
    cpu_since_sample: f64,
    next_sample: f64,
    /// By phase: sums of the places' weights up to each.
    sums: Vec<Vec<f64>>,
    nodes: Vec<Option<NodeId>>,
}

impl<'a> Run<'a> {
    pub fn new(program: &'a Program, machine: Machine, seed: u64) -> Self {
        let truth = vec![0.0; program.places.len()];
        let (tree, exact) = (CallTree::new(Unit::Wall), ExactTotals::default());
        let (windows, requests, steps) = (Vec::new(), Vec::new(), Vec::new());
        let random = Random(seed);
        let (cpu_since_sample, next_sample, now_ns) = (0.0, 0.0, 0.0);
        let sums = (0..program.phases())
            .map(|phase| {
                let add = |sum: &mut f64, place: &Place| {
                    *sum += place.weight[phase];
                    Some(*sum)
                };
                program.places.iter().scan(0.0, add).collect()
            })
            .collect();
        let nodes = vec![None; program.places.len()];
        Self {
            program,
            machine,
            random,
            tree,
            exact,
            truth,
            now_ns,
            windows,
            requests,
            steps,
            cpu_since_sample,
            next_sample,
            sums,
            nodes,
        }
    }

    /// Lets it run; gives what was done: place and time.
    pub fn pass(&mut self, ns: f64) -> Vec<(usize, f64)> {
        let end = self.now_ns + ns;
        let mut done = Vec::new();
        while self.now_ns < end {
            let phase = (self.now_ns / self.program.phase_ns) as usize % self.program.phases();
            let sums = &self.sums[phase];
            let point = self.random.unit() * sums[sums.len() - 1];
            let chosen = sums.partition_point(|&sum| sum < point).min(sums.len() - 1);
            let time = self.random.exponential(self.program.places[chosen].mean_ns).min(end - self.now_ns);
            self.spend(chosen, time);
            done.push((chosen, time));
        }
        done
    }

    fn spend(&mut self, chosen: usize, time: f64) {
        let place = &self.program.places[chosen];
        self.truth[chosen] += time;
        self.now_ns += time;
        let thread = self.exact.threads.entry(1).or_default();
        add(thread.whole.get_or_insert_default(), place.state, time);
        let call = place.stack.iter().find_map(|function| match function {
            Function::SystemCall { number } => Some(*number),
            _ => None,
        });
        if let Some(number) = call {
            let totals: &mut SystemCallTotals = thread.system_calls.entry(number).or_default();
            totals.calls += 1;
            add(&mut totals.split, place.state, time);
        }
        if place.state == State::Blocked {
            if self.random.unit() < self.machine.stacks_of_waits {
                self.observe(chosen, time);
            }
            return;
        }
        // The sampler's clock ticks in wall time, a little irregularly.
        self.cpu_since_sample += time;
        if self.now_ns >= self.next_sample {
            let amount = std::mem::take(&mut self.cpu_since_sample);
            self.observe(chosen, amount);
        }
        while self.next_sample <= self.now_ns {
            self.next_sample += 1e9 / self.machine.sample_hz * (0.9 + 0.2 * self.random.unit());
        }
    }

    fn observe(&mut self, chosen: usize, amount: f64) {
        let place = &self.program.places[chosen];
        if self.nodes[chosen].is_none() {
            self.nodes[chosen] = self.tree.insert(&frames(&place.stack), &mut Vec::new());
        }
        if let Some(node) = self.nodes[chosen] {
            self.tree.observe(node, Observation { thread: 1, state: place.state, amount });
        }
    }

    /// Times a request while the program goes on.
    pub fn time(&mut self, request: &Request) -> Timing {
        let done = self.pass(request.window.as_nanos() as f64);
        let mut timed = vec![Timed::default(); request.callees.len() + 1];
        let mut inside = vec![false; timed.len()];
        for (place, time) in done {
            let stack = &self.program.places[place].stack;
            let at = |function| stack.iter().position(|&other| other == function);
            for row in 0..timed.len() {
                let (function, within) = match row.checked_sub(1) {
                    None => (request.parent, None),
                    Some(callee) => (request.callees[callee].function, Some(request.callees[callee].within)),
                };
                // Called from its caller, inlined functions between.
                let is_in = at(function).is_some_and(|here| {
                    within.is_none_or(|within| {
                        let caller = within.map_or(request.parent, |within| request.callees[within].function);
                        let mut above = stack[..here].iter().rev();
                        above.find(|function| !matches!(function, Function::Other { .. })) == Some(&caller)
                    })
                });
                if is_in {
                    timed[row].wall_ns += time * if row > 0 { self.machine.bias } else { 1.0 };
                }
                if is_in && !inside[row] {
                    timed[row].calls += 1;
                    timed[row].wall_ns += self.machine.probe_ns * self.machine.probe_error * (self.random.unit() - 0.5);
                    timed[row].cost_ns += self.machine.probe_ns;
                }
                inside[row] = is_in;
            }
        }
        Timing {
            lasted_ns: request.window.as_nanos() as f64,
            parent: Some(timed[0]),
            callees: timed[1..].iter().copied().map(Some).collect(),
            untimed: Vec::new(),
            probes: timed.len() as u64,
            longest_stop_ns: 0,
        }
    }

    /// A walk: steps until it is complete, but not longer than `limit`.
    pub fn walk(&mut self, search: &mut Search, window: Duration, limit: Duration) {
        while self.now_ns < limit.as_nanos() as f64 {
            match search.next_request(&[&self.tree]) {
                Some(request) => {
                    self.windows.push(request.window);
                    let timing = self.time(&request);
                    search.timed(&request, Ok(timing));
                    self.requests.push(request);
                }
                None => drop(self.pass(window.as_nanos() as f64)),
            }
            self.tree.post_stratify(&self.exact);
            self.steps.extend(search.evaluate(&[&self.tree]));
            if search.is_complete() {
                break;
            }
        }
    }

    /// True share of each node of the tree.
    pub fn true_shares(&self) -> Vec<f64> {
        let all: f64 = self.truth.iter().sum();
        let mut by_path: HashMap<&[Function], f64> = HashMap::new();
        for (place, time) in self.program.places.iter().zip(&self.truth) {
            for depth in 1..=place.stack.len() {
                *by_path.entry(&place.stack[..depth]).or_default() += time / all;
            }
        }
        (0..self.tree.nodes.len() as NodeId)
            .map(|node| by_path.get(path(&self.tree, node).as_slice()).copied().unwrap_or_default())
            .collect()
    }

    /// Functions of the true chains for that threshold, root first.
    pub fn true_chains(&self, threshold: f64) -> Vec<Vec<Function>> {
        let all: f64 = self.truth.iter().sum();
        let mut by_path: HashMap<Vec<Function>, f64> = HashMap::new();
        for (place, time) in self.program.places.iter().zip(&self.truth) {
            for depth in 1..=place.stack.len() {
                *by_path.entry(place.stack[..depth].to_vec()).or_default() += time / all;
            }
        }
        by_path.retain(|_, share| *share >= threshold);
        let goes_on =
            |path: &Vec<Function>| by_path.keys().any(|other| other.len() > path.len() && other.starts_with(path));
        let mut ends: Vec<_> = by_path.keys().filter(|path| !goes_on(path)).cloned().collect();
        ends.sort();
        ends
    }
}

pub fn path(tree: &CallTree, node: NodeId) -> Vec<Function> {
    let mut path: Vec<Function> = tree.ancestry(node).map(|node| tree.node(node).function).collect();
    path.reverse();
    path
}

pub fn settings() -> Settings {
    Settings { threshold: 0.25, window: Duration::from_millis(200), max_probes: 4, time_user: true, time_kernel: true }
}

fn add(split: &mut transect_call_walk::Split, state: State, ns: f64) {
    match state {
        State::On => split.on_ns += ns,
        State::Runnable | State::Preempted => split.runnable_ns += ns,
        State::Blocked => split.blocked_ns += ns,
        State::Weight => {}
    }
}

pub fn thread(whole: transect_call_walk::Split) -> ThreadTotals {
    ThreadTotals { whole: Some(whole), ..ThreadTotals::default() }
}
