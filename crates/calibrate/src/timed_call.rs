//! What timing a call costs, measured in a few milliseconds at the start of a recording.

use std::sync::atomic::Ordering;

use transect_event_abi::probe_arena as arena;
use transect_probe::Handler;

use crate::probe_cost::{Place, Probed, Tier, call_repeatedly, shared_arena};
use crate::{CalibrateError, clock};

/// Costs of sampling a function's calls with a probe at its entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedCall {
    /// What a timed call of a function shows that does nothing: taken off every duration.
    pub empty_ticks: u64,
    /// What timing adds to a call.
    pub cost_ticks: f64,
    /// What switching a probe on and off again costs, the loss of the executing processor's prefetched code included.
    pub arming_ticks: f64,
}

const CALLS: u64 = 256;
const ROUNDS: usize = 12;

/// Of a 2.6 GHz server processor, for processes that are allowed no code of their own making.
const USUAL: TimedCall = TimedCall { empty_ticks: 24, cost_ticks: 64.0, arming_ticks: 275.0 };

/// Measures, in less than a millisecond. A process that may not make code gets the usual figures.
pub fn timed_call() -> TimedCall {
    measure().unwrap_or(USUAL)
}

fn measure() -> Result<TimedCall, CalibrateError> {
    let base = shared_arena()?;
    let (bare, probed) = (Probed::new(Place::Entry)?, Probed::new(Place::Entry)?);
    probed.install();
    let words = probed.handle(Tier::Time);
    probed.descriptor().enter.store(Handler::LatencyEnter.address(), Ordering::Relaxed);
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
    let (mut native, mut timed, mut off, mut shown, mut pair) = ([f64::INFINITY; 5]).into();
    for _ in 0..ROUNDS {
        least(&mut native, calls(&bare));
        probed.word().store(words.paired, Ordering::Release);
        let (samples, ticks) = sums(base);
        least(&mut timed, calls(&probed));
        let (more_samples, more_ticks) = sums(base);
        least(&mut shown, (more_ticks - ticks) as f64 / (more_samples - samples).max(1) as f64);
        probed.word().store(words.off, Ordering::Release);
        least(&mut off, calls(&probed));
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
    Ok(TimedCall {
        empty_ticks: shown as u64,
        cost_ticks: (timed - native).max(0.0),
        arming_ticks: (pair - timed - off).max(0.0),
    })
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
