//! What a timed call costs and shows, measured at start.

use core::sync::atomic::Ordering;

use crate::{arch, exit, hold_cost, period, process, slot};

/// Calls in a batch.
const ROUNDS: u64 = 16;
/// Steps of the chain: about 60 cycles, more than the reading of a clock can hide.
const CHAIN: u32 = 8;

/// Measures what a timed call costs and shows on this machine, on slots of our own that no report lists.
pub(crate) fn calibrate() {
    const TARGETS: [*const (); 5] = [
        nothing as *const (),
        nothing_1 as *const (),
        nothing_2 as *const (),
        nothing_3 as *const (),
        chain as *const (),
    ];
    let Some(first) = slot::reserve(TARGETS.len() as u32) else { return };
    let state = arch::thread();
    if state.is_null() {
        return;
    }
    for (i, target) in TARGETS.iter().enumerate() {
        let s = first + i as u32;
        slot::describe(s, u16::MAX, 0, 0, None, b"", transect_event_abi::process::SLOT_INTERNAL);
        slot::set_target(s, *target as u64);
    }
    // SAFETY: the stubs of our own slots enter the functions above; state and counters are this thread's.
    unsafe {
        let call = |s: u32| core::mem::transmute::<u64, extern "C" fn()>(arch::stub(s))();
        let total = |s: u32| (*arch::counters().add(s as usize)).total.load(Ordering::Relaxed);
        let tau = core::mem::replace(&mut (*state).tau, 0);
        slot::time_all(true);
        // The first calls meet cold caches.
        for i in 0..16 {
            call(first + i % 4);
        }
        let h = process::header();
        let (cost, empty) = median(|| {
            let (before, start) = (total(first), arch::ticks());
            for _ in 0..ROUNDS {
                call(first);
            }
            ((arch::ticks() - start) / ROUNDS, (total(first) - before) / ROUNDS)
        });
        h.timed_call_ticks.store(cost as u32, Ordering::Relaxed);
        // A sampled call goes through Rust and finds the branch predictor trained for others.
        let sum = || (0..4).map(|i| total(first + i)).sum::<u64>();
        let mut random = 0x1234_5678;
        for i in 0..5 {
            arch::transect_flags[(first + i) as usize].store(1, Ordering::Relaxed);
        }
        let (cost, sampled) = median(|| {
            let (before, start) = (sum(), arch::ticks());
            for _ in 0..ROUNDS {
                random = period::random(random);
                call(first + random % 4);
            }
            ((arch::ticks() - start) / ROUNDS, (sum() - before) / ROUNDS)
        });
        h.sampled_call_ticks.store(cost as u32, Ordering::Relaxed);
        // How long a chain of instructions takes, and how long a timed call says that it takes.
        let timed = core::mem::transmute::<u64, extern "C" fn(u64) -> u64>(arch::stub(first + 4));
        let plain = core::hint::black_box(chain as extern "C" fn(u64) -> u64);
        let mut x = 1;
        let (true_chain, shown) = median(|| {
            let start = arch::ticks();
            for _ in 0..ROUNDS {
                x = plain(x);
            }
            let (middle, before) = (arch::ticks(), total(first + 4));
            for _ in 0..ROUNDS {
                x = timed(x);
            }
            ((middle - start) / ROUNDS, (total(first + 4) - before) / ROUNDS)
        });
        core::hint::black_box(x);
        // Half of what is hidden from a chain: calls that don't wait for each other overlap by as much as that.
        let hidden = (sampled + true_chain).saturating_sub(shown).min(sampled / 2) / 2;
        hold_cost::calibrate(state);
        slot::time_all(false);
        (*state).tau = tau;
        let header = (*state).header;
        (*header).outermost_ticks.store(0, Ordering::Relaxed);
        (*header).outermost_attributed.store(0, Ordering::Relaxed);
        h.empty_call_ticks.store(empty as u32, Ordering::Relaxed);
        // The middle between a call that hides all it can and one that hides nothing.
        arch::transect_empty.store(empty.saturating_sub(hidden / 2), Ordering::Relaxed);
        exit::know_sampled(sampled, hidden);
    }
}

/// Medians of both figures over fifteen batches: an interrupt spoils one of them at most.
fn median(mut batch: impl FnMut() -> (u64, u64)) -> (u64, u64) {
    let (mut first, mut second) = ([0; 15], [0; 15]);
    for (a, b) in first.iter_mut().zip(&mut second) {
        (*a, *b) = batch();
    }
    first.sort_unstable();
    second.sort_unstable();
    (first[7], second[7])
}

extern "C" fn nothing() {}
extern "C" fn nothing_1() {
    core::hint::black_box(1);
}
extern "C" fn nothing_2() {
    core::hint::black_box(2);
}
extern "C" fn nothing_3() {
    core::hint::black_box(3);
}
/// Each step waits for the one before, so that calls in a row take what their chains take.
extern "C" fn chain(mut x: u64) -> u64 {
    for _ in 0..CHAIN {
        x = core::hint::black_box(x).wrapping_mul(3);
    }
    x
}
