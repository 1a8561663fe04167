//! What was timed, call by call: when it holds, when it is measured again, when samples stand instead.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Function, Request, Timed, Timing, Unit, UntimedReason,
    calls::{Call, Calls, Sampled},
};

/// A function whose mean call is shorter than so many probe costs is not timed.
const SHORTEST_IN_COSTS: f64 = 10.0;
/// Part of the cost that is taken off by which calibration may be wrong.
const COST_ERROR: f64 = 0.1;
/// No window is a better picture of the whole than this (standard deviation of a ratio).
const WINDOW_ERROR: f64 = 0.003;
/// Ratios nearer than this are not in conflict.
const SAME: f64 = 0.02;
/// Fewer samples in a window say nothing against what was timed in it.
const SAMPLES_TO_DISPUTE: u64 = 30;
/// Times that a call is timed.
const TRIES: u32 = 2;
/// Times that it is started over because the program changed.
const EPOCHS: u32 = 2;

/// A ratio of a callee's time to its caller's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub ratio: f64,
    pub variance: f64,
    /// The sampled one, if they are in dispute.
    pub disputed: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    caller_ns: f64,
    callee_ns: f64,
    cost_ns: f64,
    calls: u64,
    /// See [`Sampled::by_waits`].
    by_waits: f64,
    tries: u32,
    epochs: u32,
    conflict: bool,
    /// What samples said when it was disputed.
    disputed: Option<Sampled>,
}

impl Evidence {
    fn ratio(&self) -> Option<Ratio> {
        if self.caller_ns <= 0.0 {
            return None;
        }
        let ratio = (self.callee_ns / self.caller_ns).clamp(0.0, 1.0);
        let cost = COST_ERROR * self.cost_ns / self.caller_ns;
        // What another window would have given: calls and waits come at random.
        // (Twice what exponential times within and between the calls would give.)
        let by_calls = (2.0 * ratio * (1.0 - ratio)).powi(2) / self.calls.max(1) as f64;
        let by_waits = self.by_waits / self.caller_ns;
        let variance = by_calls + by_waits + cost * cost + WINDOW_ERROR * WINDOW_ERROR;
        Some(Ratio { ratio, variance, disputed: None })
    }

    /// Forgets what was timed.
    fn restart(&mut self) {
        *self = Self { epochs: self.epochs + 1, tries: self.tries, ..Self::default() };
        if self.epochs < EPOCHS {
            self.tries = 0;
        }
    }
}

/// What was timed in one thread group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timings {
    evidence: BTreeMap<Call, Evidence>,
    /// Functions that can't be timed, and why.
    untimed: BTreeMap<Function, String>,
    /// Calls of which probes see nothing.
    unseen: BTreeSet<Call>,
    /// Functions whose calls were counted in a first, short window.
    counted: BTreeSet<Function>,
    /// Callees of callees are not asked for.
    flat: bool,
    /// Why nothing can be timed any more.
    gone: Option<String>,
}

/// Whether two ratios differ by more than three standard deviations.
fn conflict(a: f64, b: f64, variance: f64) -> bool {
    (a - b).abs() > SAME.max(3.0 * variance.sqrt())
}

impl Timings {
    /// Why a call is not timed (again); `None` if it can be.
    pub fn refusal(&self, (caller, callee): Call) -> Option<&str> {
        let call = (caller, callee);
        if let Some(reason) = &self.gone {
            return Some(reason);
        }
        if self.unseen.contains(&call) {
            return Some("probes see none of its calls from there");
        }
        let again = u32::from(self.in_conflict(call));
        if self.evidence.get(&call).is_some_and(|evidence| evidence.tries >= TRIES + again) {
            return Some("timed twice");
        }
        self.untimed.get(&callee).or_else(|| self.untimed.get(&caller)).map(String::as_str)
    }

    pub fn is_counted(&self, function: Function) -> bool {
        self.counted.contains(&function)
    }

    /// Whether a call was timed.
    pub fn has(&self, call: Call) -> bool {
        self.evidence.contains_key(&call)
    }

    pub fn is_flat(&self) -> bool {
        self.flat
    }

    /// It is to be measured again, with fewer probes.
    pub fn in_conflict(&self, call: Call) -> bool {
        self.evidence.get(&call).is_some_and(|evidence| evidence.conflict && evidence.disputed.is_none())
    }

    /// The exact ratio, if there is one that says more than samples do.
    pub fn ratio(&self, call: Call, sampled_variance: f64) -> Option<Ratio> {
        let evidence = self.evidence.get(&call)?;
        let ratio = evidence.ratio().filter(|ratio| ratio.variance <= sampled_variance.max(SAME * SAME / 4.0))?;
        let disputed = evidence.disputed.map(|sampled| sampled.ratio());
        (!evidence.conflict || disputed.is_some()).then_some(Ratio { disputed, ..ratio })
    }

    /// Takes an answer in. `before` has what samples said of the request's calls when it began, `now` what they say.
    pub fn absorb(&mut self, request: &Request, timing: &Timing, unit: Unit, short: bool, before: &Calls, now: &Calls) {
        let nested = |function| request.callees.iter().any(|c| c.function == function && c.within.is_some());
        // For these nothing follows from this window.
        let left_out =
            |function| timing.untimed.iter().any(|u| u.function == function && u.reason == UntimedReason::TooMany);
        let asked = request.callees.iter().map(|callee| callee.function).chain([request.parent]);
        self.counted.extend(asked.filter(|&function| !left_out(function)));
        for untimed in &timing.untimed {
            match &untimed.reason {
                UntimedReason::Gone(reason) => self.gone = Some(reason.clone()),
                UntimedReason::Later(_) | UntimedReason::TooMany => {}
                // It may be the nesting that is refused.
                UntimedReason::Refused(_) if nested(untimed.function) => self.flat = true,
                reason => {
                    self.untimed.insert(untimed.function, reason.to_string());
                }
            }
        }
        let Some(parent) = timing.parent else {
            self.untimed.entry(request.parent).or_insert_with(|| "its calls can't be seen".to_owned());
            return;
        };
        let timed = |index: usize| timing.callees.get(index).copied().flatten();
        let all = [(request.parent, Some(parent))].into_iter();
        let all = all.chain(request.callees.iter().enumerate().map(|(index, callee)| (callee.function, timed(index))));
        for (function, timed) in all.filter_map(|(function, timed)| Some((function, timed?))) {
            if is_short(&timed) {
                self.untimed.insert(function, UntimedReason::TooShort.to_string());
            }
        }
        let callees = request.callees.iter().enumerate();
        for (index, callee) in callees.filter(|(_, callee)| !short && !left_out(callee.function)) {
            let (function, within) = match callee.within {
                None => (request.parent, Some(parent)),
                Some(outer) => (request.callees[outer].function, timed(outer)),
            };
            let call = (function, callee.function);
            let evidence = self.evidence.entry(call).or_default();
            evidence.tries += 1;
            let (Some(outer), Some(inner)) = (within, timed(index)) else { continue };
            let (Some(caller_ns), Some(callee_ns)) = (in_unit(&outer, unit), in_unit(&inner, unit)) else { continue };
            if self.untimed.contains_key(&call.0) || self.untimed.contains_key(&call.1) {
                continue;
            }
            let meanwhile = during(before.sampled.get(&call), now.sampled.get(&call));
            if caller_ns <= 0.0 || inner.calls == 0 {
                // Certain only if samples say that it was called.
                if meanwhile.is_some_and(|sampled| conflict(0.0, sampled.ratio(), sampled.variance)) {
                    self.unseen.insert(call);
                }
                continue;
            }
            if evidence.conflict {
                // Measured again with fewer probes: that counts.
                (evidence.caller_ns, evidence.callee_ns, evidence.cost_ns, evidence.calls) = (0.0, 0.0, 0.0, 0);
            }
            let one = Evidence {
                caller_ns,
                callee_ns,
                cost_ns: inner.cost_ns,
                calls: inner.calls,
                by_waits: now.sampled.get(&call).map_or(0.0, |sampled| sampled.by_waits),
                ..Evidence::default()
            };
            evidence.caller_ns += one.caller_ns;
            evidence.callee_ns += one.callee_ns;
            evidence.cost_ns += one.cost_ns;
            evidence.calls += one.calls;
            evidence.by_waits = one.by_waits;
            let disagrees = meanwhile.zip(one.ratio()).is_some_and(|(sampled, exact)| {
                conflict(exact.ratio, sampled.ratio(), exact.variance + sampled.variance)
            });
            evidence.disputed = now.sampled.get(&call).copied().filter(|_| disagrees && evidence.conflict);
            evidence.conflict = disagrees;
        }
    }

    /// Nothing could be timed.
    pub fn failed(&mut self, request: &Request, reason: &UntimedReason) {
        match reason {
            UntimedReason::Gone(reason) => self.gone = Some(reason.clone()),
            UntimedReason::Later(_) | UntimedReason::TooMany => {}
            reason => {
                self.untimed.insert(request.parent, reason.to_string());
            }
        }
    }

    /// There is a process again.
    pub fn forget_the_end(&mut self) {
        self.gone = None;
    }

    /// Drops what no longer fits what samples say of the whole: the program does something else now, or did before.
    pub fn age(&mut self, calls: &Calls) {
        for (call, evidence) in &mut self.evidence {
            let Some((exact, sampled)) = evidence.ratio().zip(calls.sampled.get(call)) else { continue };
            let (known, variance) = match (evidence.conflict, evidence.disputed) {
                (_, Some(then)) => (then.ratio(), (then.variance - sampled.variance).max(0.0)),
                (true, None) => continue,
                (false, None) => (exact.ratio, exact.variance + sampled.variance),
            };
            if conflict(known, sampled.ratio(), variance) {
                evidence.restart();
            }
        }
    }
}

fn is_short(timed: &Timed) -> bool {
    timed.calls > 0 && timed.wall_ns < SHORTEST_IN_COSTS * timed.cost_ns
}

fn in_unit(timed: &Timed, unit: Unit) -> Option<f64> {
    match unit {
        Unit::Wall => Some(timed.wall_ns),
        Unit::Cpu => timed.on_ns,
        Unit::Weight => None,
    }
}

/// What samples say of a call between two looks; `None` if too little.
fn during(before: Option<&Sampled>, now: Option<&Sampled>) -> Option<Sampled> {
    let (before, now) = (before.copied().unwrap_or_default(), now?);
    let samples = now.samples.checked_sub(before.samples).filter(|&samples| samples >= SAMPLES_TO_DISPUTE)?;
    let caller = now.caller - before.caller;
    let callee = (now.callee - before.callee).clamp(0.0, caller.max(0.0));
    let few = (callee / caller * samples as f64 + 2.0) / (samples as f64 + 4.0);
    let variance = few * (1.0 - few) / (samples as f64 + 4.0);
    (caller > 0.0).then_some(Sampled { caller, callee, variance, samples, ..*now })
}
