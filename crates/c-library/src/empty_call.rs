//! What a timed call shows of itself: measured once, on a function that only returns.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use transect_probe::trampoline::{self, Call, Request, WORD};
use transect_probe::{Descriptor, Handler};

use crate::{arena, handler, registry};

/// Calls in a batch, and batches.
const CALLS: u64 = 64;
const BATCHES: usize = 15;

/// Ticks that an empty timed call shows: the median of some batches. 0 before the library has begun.
pub fn ticks() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| measure().unwrap_or(0))
}

fn measure() -> Option<u64> {
    let mut library = registry::lock();
    let access = library.policy.access;
    let own = crate::own_code::some_address();
    let place = library.regions.allocate(trampoline::CAPACITY as u64, &(own..own + 1), 0, access).ok()?;
    let request = Request { block: place.block, code: &[0xC3], fixups: &[], resume: None, call: Call::Paired };
    let built = trampoline::build(&request).ok()?;
    let id = library.reserve_id()?;
    drop(library);
    // SAFETY: the place was given out to us; nobody else knows it.
    unsafe { std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), place.write as *mut u8, built.length) };
    // SAFETY: a block begins with its descriptor.
    let descriptor = unsafe { &*(place.write as *const Descriptor) };
    handler::fill(id, arena::slot(id)?, descriptor);
    descriptor.enter.store(Handler::TimeEnter.address(), Ordering::Release);
    let word = (place.write + WORD as u64) as *const std::sync::atomic::AtomicU64;
    // SAFETY: 8-aligned, in the block.
    unsafe { &*word }.store(built.on, Ordering::Release);
    // SAFETY: the block's code is a function that returns.
    let function: extern "C" fn() = unsafe { std::mem::transmute((place.block + WORD as u64) as usize) };
    let sum = || arena::counters(id).map(|counters| counters.ticks.load(Ordering::Relaxed)).sum::<u64>();
    let mut batches = [0; BATCHES];
    for batch in &mut batches {
        let before = sum();
        (0..CALLS).for_each(|_| function());
        *batch = (sum() - before) / CALLS;
    }
    batches.sort_unstable();
    Some(batches[BATCHES / 2])
}
