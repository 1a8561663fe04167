//! The slow half of a timed call's return: folding with weights, waits, locks, the next period.

use core::sync::atomic::{AtomicU32, Ordering};

use transect_event_abi::api_table::{class, handler};
use transect_event_abi::arena::OPTION_HISTOGRAM;
use transect_event_abi::process::{SLOT_DLSYM, SLOT_STATIC};
use transect_event_abi::thread::{
    CALLED_BACK_OFFSET, COUNTERS_OFFSET, CRITICALITY_OFFSET, CalledBack, FlowCounters, HISTOGRAM_BUCKETS,
    HISTOGRAMS_OFFSET, bucket,
};

use crate::frame::{self, Frame};
use crate::nesting::{self, Standing};
use crate::published::{self, Share};
use crate::thread::ThreadState;
use crate::{
    active, arch, arena, cpu_time, enter, extent_map, hold, lock, period, process, slot, spawn, static_component, tail,
    wait,
};

/// What an empty fenced call shows, ticks.
static SAMPLED: AtomicU32 = AtomicU32::new(0);
/// How much of a longer call is hidden in that, ticks.
static HIDDEN: AtomicU32 = AtomicU32::new(0);

/// Notes the calibrated values.
pub fn know_sampled(empty: u64, hidden: u64) {
    SAMPLED.store(empty as u32, Ordering::Relaxed);
    HIDDEN.store(hidden as u32, Ordering::Relaxed);
}

/// A call's duration by the ticks between the two readings of the clock.
fn net(flags: u32, raw: u64) -> u64 {
    if flags & frame::SAMPLED_CALL == 0 {
        // SAFETY: a static of the agent.
        return raw.saturating_sub(unsafe { arch::transect_empty.load(Ordering::Relaxed) });
    }
    unhidden(raw, SAMPLED.load(Ordering::Relaxed).into(), HIDDEN.load(Ordering::Relaxed).into())
}

/// The first `hidden` ticks of a call pass while the clock is still being read: a call that long shows no more than an
/// empty one, longer ones show that much less. What shows nothing is taken as half of what can be hidden.
fn unhidden(raw: u64, empty: u64, hidden: u64) -> u64 {
    let doubtful = (hidden + 3 * raw).saturating_sub(3 * empty) / 2;
    doubtful.min((raw + hidden).saturating_sub(empty))
}

/// Return through Rust. Returns the thread's state, null if it has none any more.
///
/// # Safety
/// Called by the trampoline only, with the frame of the call that returns.
pub unsafe extern "C" fn slow_exit(frame: *mut Frame, now: u64) -> *mut ThreadState {
    // SAFETY: the frame is open and belongs to the call that returns; the state is this thread's, reread here because
    // a coroutine may have moved between threads.
    unsafe {
        let state = arch::thread();
        if state.is_null() {
            return state;
        }
        if (*state).top != frame {
            frame::leave_above(state, frame, now);
        }
        let f = &mut *frame;
        let here = crate::thread::owns(state, f.record);
        let slot = f.slot;
        if f.flags & frame::WAITING != 0 {
            wait::leave(state, f, now);
        }
        if f.flags & frame::RESOLVE != 0 {
            enter::resolve(slot);
            if is_internal(slot) {
                // Not a call between components after all: what it called was called by the caller.
                f.called_back = frame::CalledBack::default();
                charge(state, f.parent, slot, (f.child, f.child), f.child);
                (*state).top = f.parent;
                tail::end_all(state, f, now, WHOLE);
                return state;
            }
        }
        let raw = now.saturating_sub(f.start);
        let ticks = net(f.flags, raw);
        let (share, inner_share) = if published::on() {
            let share = published::share(state, f, now);
            (share, share)
        } else {
            let shared = active::integral(now).saturating_sub(f.integral).min(raw);
            (Share { attributed: if raw > 0 { shared as f64 / raw as f64 } else { 0.0 }, criticality: None }, WHOLE)
        };
        let c = f.record;
        f.child = f.child.wrapping_add(tail::left_for(f, slot, 0, now));
        let left = nesting::left(f, now);
        tail::end_all(state, f, now, inner_share);
        let standing = Standing::of(f, left);
        let covered = standing.is_covered();
        fold_call(state, f, &standing, ticks, share);
        (*state).top = f.parent;
        if f.flags & frame::LENT != 0 {
            spawn::take_back();
        }
        if f.flags & frame::THREADING != 0 && f.rax as u32 != 0 {
            crate::thread::unwrap_failed(f.size);
        }
        if f.flags & frame::SIZED != 0 {
            let size = slot::kind(slot).bytes(f.size, f.rax);
            if size < 1 << 48 {
                process::bytes(slot).fetch_add(size * f.weight as u64, Ordering::Relaxed);
            }
        }
        if arena::header().options & OPTION_HISTOGRAM != 0 {
            histogram(state, slot, ticks, f.weight);
        }
        if here && f.weight > 0 {
            adapt(state, c, slot, ticks, now, f.weight);
        }
        standing.end(f, ticks);
        // Last, for the lock is held from here on as the program sees it.
        if f.flags & frame::LOCKING != 0 {
            lock::acquired(state, f, now);
        }
        if f.flags & frame::RELOCKING != 0 {
            hold::reacquired(state, f.flags & frame::PRESERVING == 0);
        }
        // What is timed inside of another call of its flow only for that one's sake would lengthen it.
        if slot::adaptive() && f.weight > 0 && !covered {
            charge_budget(&mut *state, now);
        }
        state
    }
}

/// Holds a timed call that returned at `now` against the thread's budget.
fn charge_budget(s: &mut ThreadState, now: u64) {
    let budget = period::current();
    // Reading the clock lengthens the calls around this one: by chance of the time, one in sixteen is measured.
    if now & 0xf0 == 0 {
        s.call_cost =
            (3 * u64::from(s.call_cost) + u64::from(budget.cost_of(arch::ticks().wrapping_sub(now)))) as u32 / 4;
    }
    s.window_cost = s.window_cost.saturating_add(s.call_cost);
    let elapsed = now.wrapping_sub(s.window_start);
    if !budget.is_window(elapsed) {
        return;
    }
    s.window_start = now;
    let (ran, cpu_ns) = cpu_time::since(s.window_cpu_ns, elapsed);
    if let Some(tau) = budget.steer(s.tau, ran, s.window_cost) {
        s.tau = tau;
        s.on_cpu = period::on_cpu(s.on_cpu, ran, now.wrapping_sub(s.steered));
        s.steered = now;
        s.window_cost = 0;
        s.window_cpu_ns = cpu_ns;
        s.switches = cpu_time::switches();
    }
}

/// How long a timed call took, ticks.
#[derive(Clone, Copy)]
pub struct Took {
    /// All of it.
    pub ticks: u64,
    /// What the calls since the last timed one are given each.
    pub between: u64,
    /// Of `ticks`, the callee's own. May be less than nothing: what is called inside stands for all of its calls, also those
    /// that nobody saw.
    pub own: u64,
    /// In the total of a call around it.
    pub covered: bool,
}

/// The duration that the calls between are given: a sampled short call that was interrupted or preempted once says nothing
/// about its neighbours. What is beyond the usual counts once, not `k` times, if it is the first that would change the sum;
/// the interval holds what that leaves out. Where more of them come, some of the neighbours were as long.
///
/// # Safety
/// As for [`fold`].
pub unsafe fn usual(c: *const FlowCounters, ticks: u64, weight: u32) -> u64 {
    if weight <= 1 {
        return ticks;
    }
    // SAFETY: as in `fold`.
    let (total, calls) = unsafe { ((*c).total.load(Ordering::Relaxed), calls(c)) };
    let mean = total / calls;
    let limit = period::outlier(mean, arena::header().ticks_per_us as u64);
    // SAFETY: as in `fold`.
    let squares = unsafe { squares(c) }.0;
    if ticks > limit && !period::has_tail(squares, total) { mean } else { ticks }
}

/// A flow's calls so far: no less than one.
unsafe fn calls(c: *const FlowCounters) -> u64 {
    // SAFETY: as in `fold`.
    let (issued, left) = unsafe { ((*c).issued.load(Ordering::Relaxed), (*c).countdown.load(Ordering::Relaxed)) };
    issued.wrapping_sub(left as i32 as i64 as u64).max(1)
}

/// Σ k(k−1)·d² and Σ k(k−1) of a flow.
unsafe fn squares(c: *const FlowCounters) -> (f32, f32) {
    // SAFETY: as in `fold`.
    let word = unsafe { (*c).variance.load(Ordering::Relaxed) };
    (f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32))
}

/// All of the time counts.
const WHOLE: Share = Share { attributed: 1.0, criticality: None };

/// Folds the call of a frame, which took so many ticks, and charges it to the call around it.
unsafe fn fold_call(state: *mut ThreadState, f: &mut Frame, standing: &Standing, ticks: u64, share: Share) {
    // SAFETY: the frame's counters are of this thread, as are the frames around it.
    unsafe {
        let c = f.record;
        let own = standing.own(ticks, f.child);
        let ticks = standing.counted(ticks);
        let between = usual(c, ticks, f.weight);
        let covered = standing.is_covered();
        fold(state, c, Took { ticks, between, own, covered }, share, f.weight);
        let called_back = core::mem::take(&mut f.called_back);
        if standing.is_part() {
            standing.hand_on(called_back);
        } else if called_back.ticks != 0 && crate::thread::owns(state, c) {
            let (cell, k) = (called_back_of(c), if between == ticks { f.weight.into() } else { 1 });
            add(&(*cell).ticks, called_back.ticks.wrapping_mul(k));
            add(&(*cell).same_edge, called_back.same_edge.wrapping_mul(k));
        }
        if f.weight == 0 {
            return;
        }
        let k = if covered { 1 } else { f.weight as u64 };
        let charged = ticks + between * (k - 1);
        let inside = ticks + between * (stands_for(k) - 1);
        let parent = standing.charged_to(f);
        if charge(state, parent, f.slot, (charged, inside), part(charged, share.attributed)) || standing.is_part() {
            return;
        }
        // A callback of the enclosing call made this one. That is folded through Rust, too.
        let same_edge = if slot::edge((*parent).slot) == slot::edge(f.slot) { inside } else { 0 };
        (*parent).called_back.add(frame::CalledBack { ticks: inside, same_edge });
        (*parent).flags |= frame::SLOW;
    }
}

/// Folds one timed call.
///
/// # Safety
/// `c` are counters of the calling thread's.
pub unsafe fn fold(state: *mut ThreadState, c: *mut FlowCounters, took: Took, share: Share, weight: u32) {
    // SAFETY: counters are written by one thread; relaxed read-modify-writes keep nested signal handlers' changes.
    unsafe {
        let depth = (*c).depth.load(Ordering::Relaxed).wrapping_sub(1);
        (*c).depth.store(depth, Ordering::Relaxed);
        if weight == 0 {
            return;
        }
        let Took { ticks, between, own, covered } = took;
        let k = weight as u64;
        if !covered {
            let all = ticks + between * (k - 1);
            add(&(*c).total, all);
            add(&(*c).attributed, part(all, share.attributed));
            if let Some(criticality) = share.criticality
                && crate::thread::owns(state, c)
            {
                add(&*criticality_of(c), part(all, criticality));
            }
        }
        let own_between = if between == ticks { own } else { (own as i64 - (ticks - between) as i64).max(0) as u64 };
        add(&(*c).own, own.wrapping_add(own_between.wrapping_mul(k - 1)));
        add(&(*c).timed, 1);
        if k > 1 {
            // Σ k(k−1)·d² and Σ k(k−1): variance of the estimated total (Horvitz–Thompson, ratio form).
            let (a, b) = squares(c);
            let w = (k * (k - 1)) as f32;
            // Also of what did not count `k` times.
            let d = ticks as f32;
            let (a, b) = (a + w * d * d, b + w);
            (*c).variance.store(a.to_bits() as u64 | (b.to_bits() as u64) << 32, Ordering::Relaxed);
        }
    }
}

/// A share of a duration, rounded.
fn part(ticks: u64, share: f64) -> u64 {
    (ticks as f64 * share + 0.5) as u64
}

/// Where the criticality of a thread's own flow is summed.
unsafe fn criticality_of(c: *const FlowCounters) -> *const core::sync::atomic::AtomicU64 {
    // SAFETY: the array lies in the extent, with one element for each slot.
    unsafe { place_of(c).0.add(CRITICALITY_OFFSET).cast::<core::sync::atomic::AtomicU64>().add(place_of(c).1) }
}

/// Where the calls are summed that callbacks made inside those of a thread's own flow.
unsafe fn called_back_of(c: *const FlowCounters) -> *const CalledBack {
    // SAFETY: as in `criticality_of`.
    unsafe { place_of(c).0.add(CALLED_BACK_OFFSET).cast::<CalledBack>().add(place_of(c).1) }
}

/// The extent that holds a thread's own counters, its own or that of a context of it, and their slot.
fn place_of(c: *const FlowCounters) -> (*const u8, usize) {
    let extent: *const u8 = extent_map::start_of(c.cast());
    (extent, (c as usize - extent as usize - COUNTERS_OFFSET) / size_of::<FlowCounters>())
}

fn add(cell: &core::sync::atomic::AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// True if a slot turned out to stay inside its object.
fn is_internal(slot: u32) -> bool {
    let (caller, callee) = slot::edge(slot);
    static_component::object_of(caller) == static_component::object_of(callee)
        && slot::kind(slot).flags & (SLOT_DLSYM | SLOT_STATIC) == 0
}

/// Calls that a timed one, which stands for `k` with the gap before it, stands for within the timed call around it. Of
/// `--timing every=N` both gaps end in one block of N calls, so that both are long or both are short: their product is too large by
/// a twelfth in the mean, where N is not.
fn stands_for(k: u64) -> u64 {
    match slot::fixed_period() {
        Some(every) if k > 1 => u64::from(every),
        _ => k,
    }
}

/// Charges a call's time to the enclosing frame if the callee of that frame made it, or to the thread as outermost. False if
/// it is neither.
unsafe fn charge(
    state: *mut ThreadState,
    parent: *mut Frame,
    slot: u32,
    (ticks, inside): (u64, u64),
    attributed: u64,
) -> bool {
    // SAFETY: parents are frames of the pool or the sentinel; never unmapped.
    unsafe {
        if (*parent).slot == 0 {
            add(&(*(*state).header).outermost_ticks, ticks);
            add(&(*(*state).header).outermost_attributed, attributed);
            return true;
        }
        let is_linked = nesting::is_linked((*parent).slot, slot);
        if is_linked {
            (*parent).child = (*parent).child.wrapping_add(inside);
        }
        is_linked
    }
}

/// Chooses the next gap of a flow (see [`period`]).
///
/// # Safety
/// As for [`fold`].
pub unsafe fn adapt(state: *mut ThreadState, c: *mut FlowCounters, slot: u32, ticks: u64, now: u64, weight: u32) {
    let kind = slot::kind(slot);
    // Calls of `syscall` are held against their period at each entry.
    let by_number = kind.handler == handler::SYSCALL;
    if kind.always_enters() && !by_number {
        return;
    }
    // SAFETY: as in `fold`.
    unsafe {
        let s = &mut *state;
        let gap = match slot::fixed_period_of(kind) {
            _ if slot::adaptive() => adaptive_gap(s, c, slot, ticks, now, weight),
            Some(every) => {
                s.random = period::random(s.random);
                period::gap_to_next_block(every, calls(c), s.random)
            }
            None => return,
        };
        let old = (*c).period.load(Ordering::Relaxed);
        if by_number && old != u32::MAX {
            (*c).period.store(gap, Ordering::Relaxed);
        } else if gap != old && old != u32::MAX && old != 0 {
            // The lease granted at entry was for the old gap: change it by the difference, never below one call.
            let left = (*c).countdown.load(Ordering::Relaxed) as i32 as i64;
            let mut by = gap as i64 - old as i64;
            if by < 1 - left {
                // The call has used up the lease by calling itself. At a random depth from here on: else the same depth
                // would be timed each time.
                s.random = period::random(s.random);
                by = 1 - left + ((s.random as u64 * old as u64) >> 32) as i64;
            }
            arch::add_own_u64(&(*c).issued, by as u64);
            arch::add_own_u32(&(*c).countdown, by as u32);
            (*c).period.store((old as i64 + by).max(1) as u32, Ordering::Relaxed);
        }
    }
}

/// The next gap of a flow by the budget.
unsafe fn adaptive_gap(s: &mut ThreadState, c: *mut FlowCounters, slot: u32, ticks: u64, now: u64, weight: u32) -> u32 {
    let budget = period::current();
    let class = slot::kind(slot).class;
    let io = class == class::IO;
    let long = match class {
        class::WAIT | class::LOCK => period::is_long(ticks, budget.ticks_per_us),
        class::IO => period::is_costly(ticks, io, budget.ticks_per_us),
        _ => false,
    };
    // SAFETY: as in `fold`.
    unsafe {
        let stamp = (now >> 8) as u32;
        let apart = stamp.wrapping_sub((*c).last.load(Ordering::Relaxed));
        (*c).last.store(stamp, Ordering::Relaxed);
        let timed = (*c).timed.load(Ordering::Relaxed);
        let calls = calls(c);
        // Of system calls by number the ones that wait are timed by themselves, and tell nothing of the others.
        let by_number = slot::kind(slot).handler == handler::SYSCALL;
        let mean = if by_number { ticks } else { (*c).total.load(Ordering::Relaxed) / calls };
        // Of a function that computes, what it took while others had the CPU is no reason to time it.
        let busy = if class == class::COMPUTE { period::while_on_cpu(mean, s.on_cpu) } else { mean };
        if timed < period::LEARNING || period::is_costly(busy, io, budget.ticks_per_us) || long {
            return 1;
        }
        s.random = period::random(s.random);
        let (a, b) = squares(c);
        let apart = period::while_on_cpu(apart.into(), s.on_cpu) as u32;
        let gap = period::next_gap(weight, apart, period::for_spread(s.tau, mean, a, b), s.random);
        gap.min(period::longest_gap(calls))
    }
}

unsafe fn histogram(state: *mut ThreadState, slot: u32, ticks: u64, weight: u32) {
    let Some(number) = slot::histogram(slot) else { return };
    // SAFETY: the histograms lie in this thread's extent; `number` is below their capacity.
    unsafe {
        let base = ((*state).header as *mut u8).add(HISTOGRAMS_OFFSET) as *mut AtomicU32;
        let cell = base.add(number as usize * HISTOGRAM_BUCKETS + bucket(ticks));
        (*cell).store((*cell).load(Ordering::Relaxed).saturating_add(weight), Ordering::Relaxed);
    }
}

/// Folds a call that was left without return.
///
/// # Safety
/// As for [`frame::abandon`].
pub unsafe fn fold_abandoned(state: *mut ThreadState, frame: *mut Frame, now: u64) {
    // SAFETY: see above.
    unsafe {
        let f = &mut *frame;
        if f.flags & frame::WAITING != 0 {
            wait::leave(state, f, now);
        }
        if f.flags & frame::LENT != 0 {
            spawn::take_back();
        }
        let ticks = now.saturating_sub(f.start);
        let share = if published::on() {
            published::share(state, f, now)
        } else {
            let shared = active::integral(now).saturating_sub(f.integral).min(ticks);
            Share { attributed: if ticks > 0 { shared as f64 / ticks as f64 } else { 0.0 }, criticality: None }
        };
        let left_inside = nesting::left(f, now);
        tail::forget_all(f);
        let standing = Standing::of(f, left_inside);
        fold_call(state, f, &standing, ticks, share);
        standing.end(f, ticks);
        let left = &(*f.record).abandoned;
        left.store(left.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        f.tail = 0;
        if f.flags & frame::RESOLVE != 0 {
            enter::resolve(f.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unhidden;

    #[test]
    fn what_reading_the_clock_hides_is_given_back() {
        let (empty, hidden) = (60, 12);
        assert_eq!(unhidden(0, empty, hidden), 0);
        assert_eq!(unhidden(empty, empty, hidden), 6, "an empty call and one of 12 ticks show the same");
        assert_eq!(unhidden(empty + 12, empty, hidden), 24);
        assert_eq!(unhidden(empty + 100, empty, hidden), 112);
        for raw in 0..200 {
            let (now, next) = (unhidden(raw, empty, hidden), unhidden(raw + 1, empty, hidden));
            assert!(now <= next && next <= now + 2, "{raw}: {now}, {next}");
        }
    }

    #[test]
    fn nothing_hidden_is_a_plain_difference() {
        for raw in 0..200u64 {
            assert!(unhidden(raw, 60, 0) <= raw.saturating_sub(60));
        }
        assert_eq!(unhidden(160, 60, 0), 100);
    }
}
