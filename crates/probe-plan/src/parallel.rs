//! Work on slices by as many threads as there are CPUs.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

static ALONE: AtomicBool = AtomicBool::new(false);

/// From now on this process plans on the calling thread alone: for a library inside of somebody else's program, which
/// must not create threads there, least of all under the loader's lock, which they may need to start.
pub fn plan_on_one_thread() {
    ALONE.store(true, Ordering::Relaxed);
}

fn cpus() -> usize {
    if ALONE.load(Ordering::Relaxed) { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) }
}

/// Fewer items than this aren't worth a thread.
const LEAST: usize = 256;

/// Runs `work` on pieces of `items`.
pub(crate) fn for_each_chunk<T: Send>(items: &mut [T], work: impl Fn(&mut [T]) + Sync) {
    let size = piece(items.len());
    if size >= items.len() {
        return work(items);
    }
    let chunks = Mutex::new(items.chunks_mut(size));
    let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(chunk) = next() {
            work(chunk);
        }
    };
    thread::scope(|scope| {
        // Those that can't be had are done without.
        (1..cpus()).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, run)));
        run();
    });
}

/// Runs `work` on pieces of `items` and gives the answers in order.
pub(crate) fn map_chunks<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let size = piece(items.len());
    if size >= items.len() {
        return vec![work(items)];
    }
    let chunks: Vec<&[T]> = items.chunks(size).collect();
    map_pieces(&chunks, |chunk| work(chunk))
}

fn piece(count: usize) -> usize {
    let threads = cpus();
    if threads == 1 {
        return count;
    }
    // Twice as many pieces as threads: they don't take equally long.
    count.div_ceil(threads * 2).max(LEAST)
}

/// Runs `work` on each of `items`, which are of unequal weight, and gives the answers in order.
pub(crate) fn map_pieces<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = cpus().min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            match items.get(index) {
                Some(item) => done.push((index, work(item))),
                None => return done,
            }
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, run).ok()).collect();
        let mut all = run();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, answer)| answer).collect()
}
