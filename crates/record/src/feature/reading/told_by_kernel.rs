//! What the kernel tells beside the rings: events of regions that its programs watch, and what becomes of processes and
//! threads.

use std::collections::HashMap;

use transect_bpf_collect::region_events::{KernelEvent, TaskChange};

use super::{Bound, ImageKey, Reading};
use crate::feature::lives::LifeChange;
use crate::feature::region_file::ReadEvent;
use crate::feature::taker::Taker;

impl Reading {
    /// Folds what the kernel's programs tell.
    pub(super) fn drain_kernel(&mut self) -> usize {
        let Some(mut kernel) = self.kernel.take() else { return 0 };
        let events = kernel.take();
        let count = events.len();
        for (ticks, event) in events {
            match event {
                KernelEvent::Site { what, stack, tgid, tid, .. } => {
                    let bound = match kernel.threads.get(&tid) {
                        Some(bound) => *bound,
                        None => {
                            let bound = self.bound(ImageKey::Process(tgid), tgid, tid, ticks, String::new());
                            kernel.threads.insert(tid, bound);
                            bound
                        }
                    };
                    self.events += 1;
                    self.take_one(bound, ReadEvent { ticks, what, stack });
                }
                KernelEvent::Task { change, tgid, tid, .. } => {
                    self.task(change, tgid, tid, ticks, &mut kernel.threads);
                }
            }
        }
        self.kernel = Some(kernel);
        count
    }

    fn take_one(&mut self, bound: Bound, event: ReadEvent) {
        let Bound { thread, image } = bound;
        let Self { catalog, images, folds, stays, heat, .. } = self;
        let sites = &images[image].1.sites;
        let taken = folds[thread]
            .as_mut()
            .is_some_and(|fold| Taker { sites, catalog, fold, heat, thread: thread as u32, stays }.take(event));
        if !taken {
            self.take_unknown(thread, image, &[event]);
        }
    }

    fn task(&mut self, change: TaskChange, tgid: i32, tid: i32, now: u64, threads: &mut HashMap<i32, Bound>) {
        match change {
            TaskChange::Forked { parent } if self.tasks.is_running(parent) => {
                self.tasks.begin(tgid, now, true);
                self.tasks.resemble(tgid, Some(parent));
                // It runs the same program.
                if let Some(&image) = self.keys.get(&ImageKey::Process(parent)) {
                    self.keys.insert(ImageKey::Process(tgid), image);
                }
            }
            TaskChange::Began if self.tasks.is_running(tgid) => {
                let thread = self.tasks.thread(tgid, tid, now, String::new());
                self.tasks.lives_since(thread, now);
            }
            TaskChange::Replaced if self.tasks.is_running(tgid) => {
                threads.remove(&tgid);
                self.keys.remove(&ImageKey::Process(tgid));
                let used = |thread: usize| self.folds.get(thread).is_some_and(Option::is_some);
                if !self.tasks.becomes_program(tgid, used) {
                    self.tasks.replaced(tgid, now);
                }
            }
            TaskChange::Ended => {
                threads.remove(&tid);
                self.tasks.thread_ended(tgid, tid, now);
            }
            TaskChange::ProcessEnded => {
                self.keys.remove(&ImageKey::Process(tgid));
                self.tasks.process_ended(tgid, now);
            }
            TaskChange::Loaded => {
                // The session may be at its end.
                let _ = self.tell_loaded.send(tgid);
            }
            TaskChange::Forked { .. } | TaskChange::Began | TaskChange::Replaced => {}
        }
    }

    /// Takes in births and ends of threads.
    pub(super) fn drain_lives(&mut self, last: bool) {
        // The first process is told of after it was begun to be heard.
        let Some(lives) = self.lives.as_mut().filter(|_| !self.tasks.processes.is_empty()) else { return };
        lives.read(last, |pid, tid, change, now| match change {
            LifeChange::Began => self.tasks.born(pid, tid, now),
            LifeChange::Ended => self.tasks.thread_ended(pid, tid, now),
        });
    }
}
