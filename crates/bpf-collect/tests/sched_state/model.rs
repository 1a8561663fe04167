//! What criticality *is*, in exact rational numbers, from the definitions and not from the code under test:
//!
//! - A thread is active from the event that says so up to the event that says otherwise.
//! - While n > 0 threads are active, each gains interval / n.
//! - While n = 0, the interval goes to the wait that ends it.
//! - Nothing counts before the first thread is active, or is found when the application is attached to.
//! - CPUs' clocks differ: an event is no earlier than the one before it.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

/// What an event tells of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reported {
    Active,
    Blocked,
}

/// One event as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub now: u64,
    pub thread: usize,
    pub told: Reported,
}

/// What follows from the events.
#[derive(Debug, Default)]
pub struct Truth {
    pub threads: Vec<ThreadTruth>,
    pub busy: u64,
    pub idle: u64,
    /// Time at each number of active threads.
    pub histogram: Vec<u64>,
    /// Active at the end.
    pub active: u32,
}

#[derive(Clone, Debug, Default)]
pub struct ThreadTruth {
    pub criticality: BigRational,
    /// Of it, while fewer threads were active than there are CPUs.
    pub low: BigRational,
    pub active_ns: u64,
    /// Between two active intervals.
    pub blocked_ns: u64,
    /// Idle time of the application that this thread's wake-ups ended.
    pub idle_charged: u64,
    pub active: bool,
}

/// An interval in which a thread was active: `[from, to)` in place of the event in the stream and time.
struct Slice {
    thread: usize,
    from: usize,
    to: usize,
}

/// Where counting begins.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code)] // each test that has this file uses one of them
pub enum Begin {
    /// With the first thread that becomes active.
    Activity,
    /// With the first event, which tells what was found.
    Found,
}

/// Criticality of every thread after `events`, at the time `end`.
pub fn truth(threads: usize, cpus: u32, events: &[Event], begin: Begin, end: u64) -> Truth {
    // The instants: time of each event, never going back, and the end.
    let mut instants = Vec::with_capacity(events.len() + 1);
    let mut latest = 0;
    for now in events.iter().map(|event| event.now).chain([end]) {
        latest = now.max(latest);
        instants.push(latest);
    }
    let slices = slices(threads, events);
    // Number of active threads between instant k and k + 1.
    let mut parallelism = vec![0u32; events.len()];
    for slice in &slices {
        parallelism[slice.from..slice.to].iter_mut().for_each(|n| *n += 1);
    }
    let mut result =
        Truth { threads: vec![ThreadTruth::default(); threads], histogram: vec![0; threads + 1], ..Truth::default() };
    let first = match begin {
        Begin::Activity => slices.iter().map(|slice| slice.from).min().unwrap_or(events.len()),
        Begin::Found => 0,
    };
    let length = |k: usize| instants[k + 1] - instants[k];
    for (k, n) in parallelism.iter().enumerate().skip(first) {
        result.histogram[*n as usize] += length(k);
    }
    result.idle = result.histogram[0];
    result.busy = result.histogram[1..].iter().sum();
    for slice in &slices {
        let thread = &mut result.threads[slice.thread];
        for (k, n) in parallelism.iter().enumerate().take(slice.to).skip(slice.from) {
            let gain = BigRational::new(BigInt::from(length(k)), BigInt::from(*n));
            if *n < cpus {
                thread.low += &gain;
            }
            thread.criticality += gain;
            thread.active_ns += length(k);
        }
        thread.active |= slice.to == events.len();
        // Idle right up to this wake-up, and there was activity before.
        let mut before = slice.from;
        while before > first && parallelism[before - 1] == 0 {
            before -= 1;
            thread.idle_charged += length(before);
        }
    }
    for thread in 0..threads {
        let mut own = slices.iter().filter(|slice| slice.thread == thread).peekable();
        while let Some(slice) = own.next() {
            if let Some(next) = own.peek() {
                result.threads[thread].blocked_ns += instants[next.from] - instants[slice.to];
            }
        }
    }
    result.active = result.threads.iter().filter(|thread| thread.active).count() as u32;
    debug_assert!(result.threads.iter().all(|thread| thread.criticality >= BigRational::zero()));
    result
}

fn slices(threads: usize, events: &[Event]) -> Vec<Slice> {
    let mut open: Vec<Option<usize>> = vec![None; threads];
    let mut slices = Vec::new();
    for (k, event) in events.iter().enumerate() {
        match (event.told, open[event.thread]) {
            (Reported::Active, None) => open[event.thread] = Some(k),
            (Reported::Blocked, Some(from)) => {
                slices.push(Slice { thread: event.thread, from, to: k });
                open[event.thread] = None;
            }
            // It tells nothing new.
            (Reported::Active, Some(_)) | (Reported::Blocked, None) => {}
        }
    }
    for (thread, from) in open.into_iter().enumerate() {
        if let Some(from) = from {
            slices.push(Slice { thread, from, to: events.len() });
        }
    }
    slices
}
