//! What timing a call costs, measured in a few milliseconds at the start of a recording.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use transect_event_abi::probe_arena as arena;
use transect_probe::Handler;
use transect_probe::scope::{self, ThreadScope};

use crate::probe_cost::{Place, Probed, Tier, call_repeatedly, shared_arena};
use crate::{CalibrateError, clock};

/// Costs of sampling a function's calls with a probe at its entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedCall {
    /// What a timed call of a function shows that does nothing, in the unit of the handlers (ticks, ns, faults).
    pub empty: u64,
    /// What a timed call of a longer function shows beside its duration. Less than `empty`: a CPU works on while it finds out
    /// where a call returns to that goes to the probe, and the shortest functions end meanwhile.
    pub added: u64,
    /// What timing adds to a call.
    pub cost_ticks: f64,
    /// What it adds to a call of a function that does nothing: more, for nothing hides it.
    pub empty_cost_ticks: f64,
    /// What counting adds to a call, detours included.
    pub count_ticks: f64,
    /// What switching a probe on and off again costs, the loss of the executing CPU's prefetched code included.
    pub arming_ticks: f64,
}

impl TimedCall {
    /// What a call took that shows `shown`.
    ///
    /// Calls up to `empty - added` all show `empty`: what shows about that is taken for half of it.
    pub fn net(&self, shown: f64) -> f64 {
        let (empty, added) = (self.empty as f64, self.added.min(self.empty) as f64);
        let hidden = empty - added;
        let (low, high) = (empty - hidden / 4.0, empty + hidden / 4.0);
        if shown >= high { shown - added } else { ((shown - low).max(0.0) * (high - added) / (high - low)).max(0.0) }
    }

    /// Calls up to this show about the same as an empty one, whatever they take.
    pub fn hidden(&self) -> f64 {
        1.25 * self.empty.saturating_sub(self.added) as f64
    }

    /// What timing adds to a call that shows `shown`.
    pub fn cost(&self, shown: f64) -> f64 {
        let hidden = self.empty.saturating_sub(self.added) as f64;
        if shown >= self.empty as f64 + hidden / 4.0 {
            self.cost_ticks
        } else {
            self.cost_ticks.midpoint(self.empty_cost_ticks)
        }
    }
}

/// The arena is the process' own: one measurement at a time.
static ALONE: Mutex<()> = Mutex::new(());

const CALLS: u64 = 256;
const ROUNDS: usize = 12;
/// Multiplications of three cycles each: longer than all that the CPU does about a call's return.
const LONGER: usize = 64;

/// Of a 2.6 GHz server CPU, for processes that are allowed no code of their own making.
const USUAL: TimedCall = TimedCall {
    empty: 51,
    added: 24,
    cost_ticks: 101.0,
    empty_cost_ticks: 126.0,
    count_ticks: 20.0,
    arming_ticks: 275.0,
};

/// The same, for handlers that ask the kernel three times at each end of a call.
const USUAL_ASKED: TimedCall = TimedCall {
    empty: 150,
    added: 150,
    cost_ticks: 2_500.0,
    empty_cost_ticks: 2_500.0,
    count_ticks: 20.0,
    arming_ticks: 275.0,
};

/// Measures calls timed by the clock, in some two milliseconds. A process that may not make code gets the usual figures.
pub fn timed_call() -> TimedCall {
    let measured = |multiplications| measure(Handler::LatencyEnter, Handler::TimeExit, multiplications);
    let (Ok(empty), Ok(longer)) = (measured(0), measured(LONGER)) else { return USUAL };
    TimedCall {
        empty: empty.shown as u64,
        added: (longer.shown - longer.native).clamp(0.0, empty.shown) as u64,
        cost_ticks: longer.cost,
        empty_cost_ticks: empty.cost,
        count_ticks: empty.counting,
        arming_ticks: empty.arming,
    }
}

/// Measures calls of which the thread's CPU time is taken, in a few milliseconds; `empty` is in ns.
pub fn cpu_timed_call() -> TimedCall {
    asked(Handler::CpuEnter, Handler::CpuExit).unwrap_or(USUAL_ASKED)
}

/// Measures calls of which the thread's page faults are counted, in a few milliseconds; `empty` is in faults.
pub fn fault_counted_call() -> TimedCall {
    asked(Handler::FaultsEnter, Handler::FaultsExit).unwrap_or(TimedCall { empty: 0, added: 0, ..USUAL_ASKED })
}

/// Of handlers that ask the kernel: what that takes is the same for short functions and long ones.
fn asked(enter: Handler, exit: Handler) -> Result<TimedCall, CalibrateError> {
    let call = measure(enter, exit, 0)?;
    let shown = call.shown as u64;
    Ok(TimedCall {
        empty: shown,
        added: shown,
        cost_ticks: call.cost,
        empty_cost_ticks: call.cost,
        count_ticks: call.counting,
        arming_ticks: call.arming,
    })
}

/// What calls of one function show and cost.
struct Measurement {
    /// What one takes without probe, ticks.
    native: f64,
    /// What a timed one shows.
    shown: f64,
    /// What timing adds to one, ticks.
    cost: f64,
    /// What counting adds to one, ticks.
    counting: f64,
    /// What switching the probe costs, ticks.
    arming: f64,
}

fn measure(enter: Handler, exit: Handler, multiplications: usize) -> Result<Measurement, CalibrateError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let base = shared_arena()?;
    let function = || Probed::with_work(Place::Entry, multiplications);
    let (bare, probed) = (function()?, function()?);
    probed.install();
    let words = probed.handle(Tier::Time);
    probed.descriptor().enter.store(enter.address(), Ordering::Relaxed);
    probed.descriptor().exit.store(exit.address(), Ordering::Relaxed);
    // SAFETY: the arena begins with its header, followed by the records; all fields are atomic, zero is valid.
    let record = unsafe { &*((base + arena::SITES_OFFSET) as *const arena::SiteRecord) };
    record.off.store(words.off, Ordering::Relaxed);
    record.word.store(probed.word() as *const _ as u64, Ordering::Relaxed);
    record.remaining.store(i32::MAX, Ordering::Relaxed);
    let calls = |probed: &Probed| {
        let start = clock::begin();
        call_repeatedly(probed.function(), CALLS);
        (clock::end() - start) as f64 / CALLS as f64
    };
    let least = |value: &mut f64, new: f64| *value = value.min(new);
    let (mut native, mut timed, mut off, mut shown, mut pair, mut counted) = ([f64::INFINITY; 6]).into();
    for _ in 0..ROUNDS {
        least(&mut native, calls(&bare));
        probed.word().store(words.paired, Ordering::Release);
        let (samples, ticks) = sums(base);
        least(&mut timed, calls(&probed));
        let (more_samples, more_ticks) = sums(base);
        least(&mut shown, (more_ticks - ticks) as f64 / (more_samples - samples).max(1) as f64);
        probed.word().store(words.off, Ordering::Release);
        least(&mut off, calls(&probed));
        probed.descriptor().enter.store(Handler::Count.address(), Ordering::Relaxed);
        probed.word().store(words.paired, Ordering::Release);
        least(&mut counted, calls(&probed));
        probed.word().store(words.off, Ordering::Release);
        probed.descriptor().enter.store(enter.address(), Ordering::Relaxed);
        const PAIRS: u32 = 32;
        let start = clock::begin();
        for _ in 0..PAIRS {
            probed.word().store(words.paired, Ordering::Release);
            call_repeatedly(probed.function(), 1);
            probed.word().store(words.off, Ordering::Release);
            call_repeatedly(probed.function(), 1);
        }
        least(&mut pair, (clock::end() - start) as f64 / f64::from(PAIRS));
    }
    let cost = |ticks: f64, without: f64| (ticks - without).max(0.0);
    Ok(Measurement {
        native,
        shown,
        cost: cost(timed, native),
        counting: cost(counted, native),
        arming: cost(pair, timed + off),
    })
}

/// Costs of timing a function and its callees ([`transect_probe::scope`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScopedCall {
    /// What a timed call of a function shows that does nothing: taken off its own time.
    pub empty_ticks: f64,
    /// What timing adds to a call of the function.
    pub parent_ticks: f64,
    /// What timing adds to a callee's call: it is part of the function's time.
    pub callee_ticks: f64,
    /// What a call costs that doesn't count.
    pub miss_ticks: f64,
}

/// Of a 2.6 GHz server CPU.
const USUAL_SCOPED: ScopedCall =
    ScopedCall { empty_ticks: 24.0, parent_ticks: 64.0, callee_ticks: 64.0, miss_ticks: 15.0 };

/// Measures, in less than a millisecond. A process that may not make code gets the usual figures.
pub fn scoped_call() -> ScopedCall {
    measure_scoped().unwrap_or(USUAL_SCOPED)
}

fn measure_scoped() -> Result<ScopedCall, CalibrateError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let base = shared_arena()?;
    let (bare, probed) = (Probed::new(Place::Entry)?, Probed::new(Place::Entry)?);
    probed.install();
    let words = probed.handle(Tier::Time);
    // SAFETY: the arena has the rules at this offset; all fields are atomic, zero is valid.
    let rules = unsafe { &*((base + arena::RULES_OFFSET) as *const arena::CallerRules) };
    for limit in [&rules.limit, &rules.miss_limit, &rules.callers[0].size] {
        limit.store(u64::MAX, Ordering::Relaxed);
    }
    probed.descriptor().user_exit.store(std::ptr::from_ref(rules) as u64, Ordering::Relaxed);
    probed.descriptor().exit.store(Handler::ScopeExit.address(), Ordering::Relaxed);
    let calls = |probed: &Probed| {
        let start = clock::begin();
        call_repeatedly(probed.function(), CALLS);
        (clock::end() - start) as f64 / CALLS as f64
    };
    let enter = |handler: Handler| {
        probed.descriptor().enter.store(handler.address(), Ordering::Relaxed);
        probed.word().store(words.paired, Ordering::Release);
        call_repeatedly(probed.function(), 1);
    };
    let least = |value: &mut f64, new: f64| *value = value.min(new);
    let (mut native, mut shown, mut parent, mut callee, mut miss) = ([f64::INFINITY; 5]).into();
    for _ in 0..ROUNDS {
        least(&mut native, calls(&bare));
        enter(Handler::ScopeEnter);
        let scope = own_scope(base)
            .ok_or(CalibrateError::CodeMemory { step: "thread's entry", errno: rustix::io::Errno::SRCH })?;
        let before = scope.parent_ticks.load(Ordering::Relaxed);
        least(&mut parent, calls(&probed));
        least(&mut shown, (scope.parent_ticks.load(Ordering::Relaxed) - before) as f64 / CALLS as f64);
        scope.parent_slot.store(u64::MAX, Ordering::Relaxed);
        enter(Handler::CalleeEnter);
        least(&mut callee, calls(&probed));
        rules.callers[0].size.store(0, Ordering::Relaxed);
        least(&mut miss, calls(&probed));
        rules.callers[0].size.store(u64::MAX, Ordering::Relaxed);
        scope.parent_slot.store(0, Ordering::Relaxed);
        probed.word().store(words.off, Ordering::Release);
    }
    let cost = |ticks: f64| (ticks - native).max(0.0);
    Ok(ScopedCall {
        empty_ticks: shown,
        parent_ticks: cost(parent),
        callee_ticks: cost(callee),
        miss_ticks: cost(miss),
    })
}

/// This thread's entry: others of threads that measured before may be there, too.
fn own_scope(base: u64) -> Option<&'static ThreadScope> {
    let scopes = (base + arena::CODE_OFFSET) as *const ThreadScope;
    // SAFETY: `shared_arena` maps the entries behind the arena, for ever; all fields are atomic.
    let mut all = (0..scope::THREADS).map(|index| unsafe { &*scopes.add(index) });
    all.find(|scope| scope.key.load(Ordering::Relaxed) == thread_pointer())
}

fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word that a thread's register points to is that address.
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// Samples and ticks of the arena's first site.
fn sums(base: u64) -> (u64, u64) {
    (0..arena::SHARDS).fold((0, 0), |(samples, ticks), shard| {
        let index = shard * arena::SITE_CAPACITY;
        // SAFETY: within the arena; all fields are atomic.
        let counters = unsafe { &*((base + arena::SHARDS_OFFSET) as *const arena::SiteCounters).add(index) };
        (samples + counters.samples.load(Ordering::Relaxed), ticks + counters.ticks.load(Ordering::Relaxed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions from nothing to 200 cycles: what is left of a timed call is what the function takes without probe, but for what
    /// shows the same as an empty function.
    #[test]
    fn what_timing_adds_is_taken_off_whatever_the_length() {
        transect_testkit::judged("what timing adds is taken off", || {
            let call = timed_call();
            let hidden = (call.empty - call.added) as f64;
            for multiplications in [0, 2, 8, 16, 24, 32, 64] {
                // The least of several tries: others may have the CPU.
                let error = (0..20).map(|_| {
                    let one = measure(Handler::LatencyEnter, Handler::TimeExit, multiplications).unwrap();
                    (call.net(one.shown) - one.native).abs()
                });
                let error = error.fold(f64::INFINITY, f64::min);
                if error > hidden / 2.0 + 6.0 {
                    return Err(format!("{multiplications}: {error} ticks, {call:?}"));
                }
            }
            Ok(())
        });
    }

    #[test]
    fn net_times_ascend_from_nothing() {
        let call = TimedCall {
            empty: 51,
            added: 24,
            cost_ticks: 101.0,
            empty_cost_ticks: 126.0,
            count_ticks: 14.0,
            arming_ticks: 0.0,
        };
        let net: Vec<f64> = (0..400).map(|shown| call.net(f64::from(shown))).collect();
        assert!(net.is_sorted() && net[0] == 0.0 && net[24] == 0.0 && net[399] == 375.0);
        assert!((10.0..20.0).contains(&net[51]), "{}", net[51]);
        let asked = TimedCall { empty: 150, added: 150, ..call };
        assert_eq!((asked.net(149.0), asked.net(150.0), asked.net(170.0)), (0.0, 0.0, 20.0));
    }

    /// At once and one after the other: what is measured of a thread is its own.
    #[test]
    fn threads_measure_the_same() {
        for _ in 0..3 {
            let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(scoped_call)).collect();
            for thread in threads {
                let cost = thread.join().unwrap();
                assert!(cost.empty_ticks > 0.0 && cost.parent_ticks > cost.empty_ticks, "{cost:?}");
                assert!(cost.callee_ticks > cost.miss_ticks && cost.miss_ticks > 0.0, "{cost:?}");
            }
        }
    }
}
