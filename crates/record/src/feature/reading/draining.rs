//! Emptying rings: their events are folded in their order, and those that never come are given up.

use std::sync::atomic::Ordering::Acquire;

use transect_event_abi::region_arena::{RING_ENDED, RING_USED};

use super::{LOOK_AGAIN, OpenFile, Reading};
use crate::clock::ticks;
use crate::feature::event_folder::{ADDRESS, EventFolder};
use crate::feature::fold::ThreadFold;
use crate::feature::region_file::ReadEvent;

impl Reading {
    /// Reads what there is by now. Switches of a thread are known before the events that it wrote after them are folded: it is
    /// noted what was written before it is asked for them.
    pub(super) fn drain_all(&mut self) -> usize {
        let asked = ticks();
        let rings = self.rings();
        for &(file, index) in &rings {
            let open = &mut self.files[file];
            open.written[index] = open.file.written(index);
        }
        let mut read = self.drain_kernel();
        for (file, index) in rings {
            match self.files[file].file.ring(index).state.load(Acquire) {
                RING_USED if self.bind(file, index) => {
                    read += self.drain(file, index);
                    self.pass_over(file, index);
                }
                RING_ENDED => {
                    if self.bind(file, index) {
                        self.drain_whole(file, index);
                        self.release(file, index);
                    }
                    self.files[file].file.free_ring(index);
                }
                _ => {}
            }
        }
        self.settle(asked);
        read
    }

    /// Reads a ring to its end.
    pub(super) fn drain_whole(&mut self, file: usize, index: usize) {
        loop {
            let open = &mut self.files[file];
            open.written[index] = open.file.written(index);
            self.drain_task_events(false);
            if self.drain_rest(file, index) == 0 {
                break;
            }
        }
    }

    /// Reads what had been written when it was last looked; what is not there of that never comes.
    pub(super) fn drain_rest(&mut self, file: usize, index: usize) -> usize {
        let mut read = 0;
        loop {
            read += self.drain(file, index);
            let Some(bound) = self.files[file].rings[index] else { return read };
            let open = &self.files[file];
            if open.file.missing(index, open.written[index]).is_none() {
                return read;
            }
            open.file.skip(index);
            self.tasks.threads[bound.thread].interrupted += 1;
        }
    }

    fn drain(&mut self, file: usize, index: usize) -> usize {
        self.drain_until(file, index, u64::MAX)
    }

    /// Reads what a ring had until then.
    pub(super) fn drain_until(&mut self, file: usize, index: usize, until: u64) -> usize {
        let Some(bound) = &self.files[file].rings[index] else { return 0 };
        let (thread, image) = (bound.thread, bound.image);
        let mut unknown = Vec::new();
        let read = {
            let Self { files, catalog, images, folds, spans, rate_limiter, .. } = self;
            let Some(fold) = folds[thread].as_mut() else { return 0 };
            let sites = &images[image].1.sites;
            let OpenFile { file, written, .. } = &files[file];
            file.drain(index, written[index], until, |event| {
                // Order must be kept: behind an unknown site all wait for the next look.
                let mut event_folder = EventFolder { sites, catalog, fold, rate_limiter, thread: thread as u32, spans };
                if !unknown.is_empty() || !event_folder.take(event) {
                    unknown.push(event);
                }
            })
        };
        if !unknown.is_empty() {
            self.take_unknown(thread, image, &unknown);
        }
        if read > 0 {
            self.events += read as u64;
            self.rate_limiter.warm(thread);
        }
        read
    }

    /// Gives up events that are not there although later ones are: at once where the thread is back in a frame around them,
    /// else after a while.
    fn pass_over(&mut self, file: usize, index: usize) {
        loop {
            let open = &mut self.files[file];
            let (Some(bound), written) = (open.rings[index], open.written[index]) else { return };
            let Some(place) = open.file.missing(index, written) else { break };
            // A handler runs below what it has interrupted; one on a stack of its own is waited for.
            let frame = self.folds[bound.thread].as_ref().and_then(ThreadFold::innermost_stack);
            let (mut later, mut is_over) = (false, false);
            for stack in open.file.behind(index, written) {
                later = true;
                is_over |= frame.is_some_and(|frame| stack >= frame);
            }
            if !later {
                break;
            }
            let incomplete = open.incomplete.entry(index).or_default();
            if !incomplete.is_given_up(place, written) && !is_over {
                return;
            }
            incomplete.pass_over(&open.file, index);
            self.tasks.threads[bound.thread].interrupted += 1;
            self.drain(file, index);
        }
        let open = &mut self.files[file];
        if let Some(incomplete) = open.incomplete.get_mut(&index) {
            incomplete.goes_on();
            incomplete.clear_late(&open.file, index);
        }
    }

    pub(super) fn take_unknown(&mut self, thread: usize, image: usize, events: &[ReadEvent]) {
        for event in events {
            let known = self.images[image].1.sites.contains_key(&(event.what & ADDRESS));
            if !known && self.images[image].2.elapsed() >= LOOK_AGAIN {
                self.look(image, self.images[image].0);
            }
            // A child of fork that is gone already was like its parent.
            let address = event.what & ADDRESS;
            let like = std::iter::once(image)
                .chain(0..self.images.len())
                .find(|&other| self.images[other].1.sites.contains_key(&address));
            let Self { catalog, images, folds, spans, rate_limiter, .. } = self;
            let taken = match (like, folds[thread].as_mut()) {
                (Some(like), Some(fold)) => {
                    let sites = &images[like].1.sites;
                    EventFolder { sites, catalog, fold, rate_limiter, thread: thread as u32, spans }.take(*event)
                }
                _ => false,
            };
            self.unresolved += u64::from(!taken);
        }
    }
}
