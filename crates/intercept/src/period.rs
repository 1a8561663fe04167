//! How often a hot flow is timed: adaptive sampling within an overhead budget.
//!
//! Each thread has a time τ: a flow whose timed calls come closer together than τ gets a longer period, so every hot
//! flow costs at most one timed call per τ, whatever its rate; long and rare calls are all timed. τ itself is steered
//! so that the thread's timed calls cost no more than the budget. The gap to the next timed call is random around the
//! period, so that no rhythm of the program is in step with it; each timed call stands for the gap it ended.

use transect_event_abi::thread::{OUTLIER_MEANS, OUTLIER_US};

/// Least cost of a timed call that goes through Rust, ticks per microsecond × this / 1024: about 350 ns, with what it displaces
/// from caches and predictors. A loop of such calls takes 150 ns each.
const SLOW_CALL_SHARE: u64 = 358;
/// Cost of a timed call in halves of what its return takes, which is known: 150 ns in a loop of SQLite's, 220 in nginx, 330 in a
/// database server, whose timed calls cost 650 to 1,100 ns each by its CPU time.
const HALVES: u64 = 5;
/// A return that takes this many times as long as a call's least cost was interrupted.
const INTERRUPTED: u64 = 16;
/// Longest gap.
const GAP_MAX: u64 = 1 << 20;
/// A flow's calls come from as many gaps at least, or so.
const LEAST_GAPS: u64 = 64;
/// A gap grows by at most this factor at once, for the first calls of a flow tell little about its rate.
const GROWTH: u64 = 8;
/// Short calls may come this many times faster than a thread's time suggests.
const BURST: u32 = 16;
/// Window in which cost is held against the budget, microseconds.
const WINDOW_US: u64 = 1000;
/// Least part of it in which the thread had a CPU: one in so many.
const LEAST_OF_WINDOW: u64 = 4;
/// Longest τ, microseconds.
const TAU_MOST_US: u64 = 16_000;
/// Fraction bits of [`on_cpu`].
pub const ON_CPU_BITS: u32 = 16;
/// A thread that never waits.
pub const ALWAYS_ON_CPU: u32 = 1 << ON_CPU_BITS;
/// A flow's first calls on a thread are all timed: a few calls may be few because each takes long.
pub const LEARNING: u64 = 32;
/// A flow whose mean call takes longer is timed every time, which costs it 5 % at most; microseconds.
const COSTLY_US: u64 = 10;
/// The same of input and output, which comes often and waits for devices and peers: their kernel side is known exactly where it may be recorded.
const COSTLY_IO_US: u64 = 25;
/// Standard deviations up to this many means call for no more timed calls.
const SPREAD: f32 = 4.0;
/// An API that waits or locks and took at least this long on its last call is timed every time, microseconds.
const LONG_US: u64 = 10;

/// The fixed facts of a recording.
#[derive(Clone, Copy)]
pub struct Budget {
    /// Ticks per microsecond.
    pub ticks_per_us: u64,
    /// Share of run time, parts per million.
    pub ppm: u64,
}

impl Budget {
    /// What a timed call cost whose return took so many ticks so far, ticks.
    pub fn cost_of(self, returned: u64) -> u32 {
        let least = self.cost();
        (if returned < least * INTERRUPTED { returned * HALVES / 2 } else { 0 }).max(least) as u32
    }

    /// Least cost of one timed call, ticks.
    fn cost(self) -> u64 {
        (self.ticks_per_us * SLOW_CALL_SHARE / 1024).max(1)
    }

    /// Shortest sensible τ: one hot flow alone uses half of the budget, in 256 ticks.
    pub fn tau_floor(self) -> u32 {
        ((self.cost() * 2_000_000 / self.ppm.max(1)) >> 8).clamp(1, 1 << 24) as u32
    }

    /// Whether that many ticks after a window's start the cost is held against the budget.
    pub fn is_window(self, elapsed: u64) -> bool {
        elapsed >= WINDOW_US * self.ticks_per_us
    }

    /// τ after a window in which the thread had a CPU for `ran` ticks, of which its timed calls took `cost`; `None` while that is too
    /// little to tell.
    pub fn steer(self, tau: u32, ran: u64, cost: u32) -> Option<u32> {
        if ran < WINDOW_US * self.ticks_per_us / LEAST_OF_WINDOW {
            return None;
        }
        let spent = u64::from(cost) * 1_000_000 / ran.max(1);
        // Below that where a flow's short calls come in little of the time: long ones among them are met by chance.
        let floor = (self.tau_floor() / BURST).max(1);
        let next = if spent > self.ppm {
            // Straight to where the measured rate would have met the budget, at most 16-fold.
            (tau as u64 * spent / self.ppm.max(1)).min(tau as u64 * 16).max(tau as u64 + 1)
        } else if spent < self.ppm / 2 {
            tau as u64 * 7 / 8
        } else {
            tau as u64
        };
        Some(next.clamp(floor as u64, self.tau_most()) as u32)
    }

    /// Longest τ: what is timed once in that costs next to nothing, and calls that are always timed may use up the budget.
    fn tau_most(self) -> u64 {
        (TAU_MOST_US * self.ticks_per_us) >> 8
    }
}

/// What a time of a thread is on a CPU, by [`on_cpu`].
pub fn while_on_cpu(ticks: u64, on_cpu: u32) -> u64 {
    ((u128::from(ticks) * u128::from(on_cpu)) >> ON_CPU_BITS) as u64
}

/// Part of its time in which a thread has a CPU, after a window of `elapsed` ticks in which it had one for `ran`: calls that are far
/// apart in time may yet be all that it does.
pub fn on_cpu(before: u32, ran: u64, elapsed: u64) -> u32 {
    let part = (ran << ON_CPU_BITS) / elapsed.max(ran).max(1);
    ((u64::from(before) + part) / 2).max(1) as u32
}

/// The gap after a timed call that ended a gap of `gap` calls, `apart` (256 ticks) after the one before.
pub fn next_gap(gap: u32, apart: u32, tau: u32, random: u32) -> u32 {
    // Calls that fit in tau at the rate seen.
    let wanted = (gap as u64 * tau as u64 / (apart as u64).max(1)).min(gap as u64 * GROWTH).clamp(1, GAP_MAX);
    if wanted == 1 {
        return 1;
    }
    // Uniform in [1, 2·wanted − 1], mean `wanted`.
    1 + ((random as u64 * (2 * wanted - 1)) >> 32) as u32
}

/// The gap to a random call of the next `every` after the block in which the timed call number `calls` lies. In step with each
/// other, a call and those that it makes would all be timed together or not at all.
pub fn gap_to_next_block(every: u32, calls: u64, random: u32) -> u32 {
    let within = (calls % every as u64) as u32;
    (every - within).saturating_add(((random as u64 * every as u64) >> 32) as u32)
}

/// True if a blocking call of this length keeps its flow fully timed.
pub fn is_long(ticks: u64, ticks_per_us: u64) -> bool {
    ticks > LONG_US * ticks_per_us
}

/// A sampled duration beyond this is an outlier: the thread may have lost its CPU, for a time slice or a steal. What
/// interrupts and page faults take is less, and meets calls as often as they take long.
pub fn outlier(mean_ticks: u64, ticks_per_us: u64) -> u64 {
    mean_ticks * OUTLIER_MEANS + OUTLIER_US * ticks_per_us
}

/// No gap stands for more of a flow's calls so far than this, whatever its rate seemed to be.
pub fn longest_gap(calls: u64) -> u32 {
    (calls / LEAST_GAPS).clamp(1, GAP_MAX) as u32
}

/// True if some of a flow's timed calls, each for its `k`, took so much longer than the rest that they are half of the
/// time: from then on they are no accident. `squares`: Σ k(k−1)·d².
pub fn has_tail(squares: f32, total_ticks: u64) -> bool {
    let total = total_ticks as f32;
    4.0 * squares > total * total
}

/// τ of a flow whose durations, of this mean and with Σ k(k−1)·d² and Σ k(k−1), differ widely: what timing more of its calls
/// gains in precision is in proportion to their standard deviation (Neyman's allocation). A power of two, 64 at most.
pub fn for_spread(tau: u32, mean: u64, squares: f32, weights: f32) -> u32 {
    let even = (mean as f32).max(1.0) * SPREAD;
    let ratio = squares / (weights.max(1.0) * even * even);
    // The root's exponent.
    let shift = (32 - (ratio.min(65_536.0) as u32).leading_zeros()) / 2;
    (tau >> shift.min(6)).max(1)
}

/// True if calls that take so long are all timed, which is cheap beside them.
pub fn is_costly(ticks: u64, io: bool, ticks_per_us: u64) -> bool {
    ticks > if io { COSTLY_IO_US } else { COSTLY_US } * ticks_per_us
}

/// Next state of a 32-bit xorshift generator (Marsaglia 2003).
pub fn random(state: u32) -> u32 {
    let mut x = state | 1;
    x ^= x << 13;
    x ^= x >> 17;
    x ^ (x << 5)
}

fn budget() -> Budget {
    let h = crate::arena::header();
    Budget { ticks_per_us: h.ticks_per_us as u64, ppm: h.budget_ppm as u64 }
}

/// τ of a new thread: timed calls that come closer together choose their next gap, none where all are timed.
pub fn first_tau() -> u32 {
    match crate::slot::fixed_period() {
        Some(_) => u32::MAX,
        None if crate::slot::adaptive() => budget().tau_floor() * 4,
        None => 0,
    }
}

/// The recording's budget.
pub fn current() -> Budget {
    budget()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { ticks_per_us: 2100, ppm: 30_000 };

    #[test]
    fn gaps_have_the_wanted_mean() {
        let (mut state, mut sum) = (12345u32, 0u64);
        for _ in 0..100_000 {
            state = random(state);
            sum += next_gap(100, 50, 100, state) as u64;
        }
        let mean = sum as f64 / 100_000.0;
        assert!((mean - 200.0).abs() < 2.0, "{mean}");
    }

    #[test]
    fn one_call_of_each_block_is_timed_at_a_random_place() {
        let (mut state, mut at, mut places) = (12345u32, 1u64, [0; 7]);
        for block in 1..7000 {
            state = random(state);
            at += u64::from(gap_to_next_block(7, at, state));
            assert_eq!(at / 7, block);
            places[(at % 7) as usize] += 1;
        }
        assert!(places.iter().all(|n| (900..1100).contains(n)), "{places:?}");
        assert!(gap_to_next_block(u32::MAX, 0, u32::MAX) > 1);
    }

    #[test]
    fn rare_calls_are_all_timed() {
        assert_eq!(next_gap(1, 5000, 4000, u32::MAX), 1);
    }

    #[test]
    fn a_flow_with_a_tail_is_timed_more_often() {
        assert_eq!(for_spread(1000, 10, 0.0, 0.0), 1000);
        // As wide as its mean.
        assert_eq!(for_spread(1000, 10, 200.0, 1.0), 1000);
        // A hundred times.
        let wide = for_spread(6400, 10, 1e6, 1.0);
        assert!((200..=400).contains(&wide), "{wide}");
        assert_eq!(for_spread(6400, 10, f32::MAX, 1.0), 100);
        assert_eq!(for_spread(0, 10, f32::MAX, 1.0), 1);
    }

    #[test]
    fn one_long_call_is_no_tail_before_it_counts() {
        assert!(!has_tail(0.0, 1000));
        assert!(!has_tail(100.0 * 99.0 * 10.0 * 10.0, 100_000));
        assert!(has_tail(100.0 * 99.0 * 1e4 * 1e4, 100_000));
    }

    #[test]
    fn a_timed_call_costs_what_its_return_says() {
        let least = u64::from(BUDGET.cost_of(0));
        assert_eq!(least, BUDGET.cost());
        assert_eq!(u64::from(BUDGET.cost_of(least)), least * 5 / 2, "displaced from caches");
        assert_eq!(u64::from(BUDGET.cost_of(1_000_000)), least, "it lost its CPU");
    }

    #[test]
    fn the_cost_is_held_against_the_time_on_a_cpu() {
        // 100 µs of timed calls in a window of 1 ms, of which the thread had a CPU for less, or for a half.
        let window = 1000 * BUDGET.ticks_per_us;
        assert!(BUDGET.is_window(window) && !BUDGET.is_window(window - 1));
        let cost = (window / 10) as u32;
        assert_eq!(BUDGET.steer(1000, window / 5, cost), None);
        let (all, half) = (BUDGET.steer(1000, window, cost), BUDGET.steer(1000, window / 2, cost));
        assert_eq!((all, half), (Some(3333), Some(6666)));
    }

    #[test]
    fn a_thread_that_waits_has_a_cpu_for_a_part() {
        assert_eq!(on_cpu(ALWAYS_ON_CPU, 100, 100), ALWAYS_ON_CPU);
        let settled = (0..40).fold(ALWAYS_ON_CPU, |part, _| on_cpu(part, 1_000, 100_000));
        assert!((650..=660).contains(&settled), "{settled}");
        assert_eq!(on_cpu(1, 0, 1000), 1);
    }

    #[test]
    fn tau_settles_where_the_cost_meets_the_budget() {
        // Twenty hot flows, each timed once per tau.
        let mut tau = BUDGET.tau_floor();
        for _ in 0..200 {
            let window = 2_100_000 * 2;
            let calls = 20 * window / ((tau as u64) << 8);
            if let Some(t) = BUDGET.steer(tau, window, (calls * BUDGET.cost()) as u32) {
                tau = t;
            }
        }
        let window = 1_000_000_000u64;
        let spent = 20.0 * (window as f64 / ((tau as u64) << 8) as f64) * BUDGET.cost() as f64 / window as f64;
        assert!(spent < 0.031 && spent > 0.012, "{spent}");
    }
}
