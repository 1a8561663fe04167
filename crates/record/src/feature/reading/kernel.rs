//! What the kernel tells beside the rings: events of regions that its programs watch, and what becomes of processes and
//! threads.

use std::collections::HashMap;

use transect_bpf_collect::region_events::{KernelEvent, TaskChange};

use super::{Bound, ImageKey, Reading};
use crate::feature::event_folder::EventFolder;
use crate::feature::fold::ThreadFold;
use crate::feature::region_file::ReadEvent;
use crate::feature::task_events::TaskEvent;

impl Reading {
    /// Takes in what the kernel tells of threads, and folds the events of its programs.
    pub(super) fn drain_kernel(&mut self) -> usize {
        let Some(mut kernel) = self.kernel.take() else {
            self.drain_task_events(false);
            return 0;
        };
        let events = kernel.take();
        self.drain_task_events(false);
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
        let Self { catalog, images, folds, spans, rate_limiter, .. } = self;
        let sites = &images[image].1.sites;
        let taken = folds[thread].as_mut().is_some_and(|fold| {
            EventFolder { sites, catalog, fold, rate_limiter, thread: thread as u32, spans }.take(event)
        });
        if !taken {
            self.take_unknown(thread, image, &[event]);
        }
    }

    fn task(&mut self, change: TaskChange, tgid: i32, tid: i32, now: u64, threads: &mut HashMap<i32, Bound>) {
        match change {
            TaskChange::Forked { parent } if self.tasks.was_running(parent, now) => {
                self.forks_child((parent, tid), tgid, now);
                self.begin_child((parent, tid), tgid, now);
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
                // Its switches alone may have been heard of.
                let used =
                    |thread: usize| self.folds.get(thread).and_then(Option::as_ref).is_some_and(ThreadFold::is_used);
                if !self.tasks.becomes_program(tgid, used) {
                    self.tasks.replaced(tgid, now);
                } else if let Some(thread) = self.tasks.living(tgid, tgid)
                    && let Some(Some(fold)) = self.folds.get_mut(thread)
                {
                    fold.leave_all(now, &mut |span| self.spans.add(thread as u32, span));
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

    /// Takes in births, ends and switches of threads.
    pub(super) fn drain_task_events(&mut self, last: bool) {
        // The first process is announced after its events have begun.
        if self.tasks.processes.is_empty() {
            return;
        }
        let mut changes = Vec::new();
        for events in &mut self.task_events {
            events.read(last, |pid, tid, change, now| changes.push((pid, tid, change, now)));
        }
        for (pid, tid, change, now) in changes {
            match change {
                TaskEvent::Forked { parent, by } => self.forked((parent, by), pid, now),
                TaskEvent::Replaced => self.became_program(pid, now),
                TaskEvent::Began => self.tasks.born(pid, tid, now),
                TaskEvent::Runs => self.switched(pid, tid, now, true),
                TaskEvent::Stops => self.switched(pid, tid, now, false),
                TaskEvent::Ended => {
                    self.tasks.thread_ended(pid, tid, now);
                    self.unknown_tasks.ended((pid, tid));
                }
            }
        }
    }

    fn switched(&mut self, pid: i32, tid: i32, now: u64, on: bool) {
        if let Some(thread) = self.tasks.living(pid, tid) {
            // What it did before it is counted is not of its time.
            let now = now.max(self.tasks.threads[thread].start);
            if self.fold_of(thread).switched(now, on) {
                self.switched.push(thread);
            }
        } else if !self.tasks.is_running(pid) {
            self.unknown_tasks.switched((pid, tid), now, on);
        }
    }

    /// All events up to `ticks` have been folded.
    pub(super) fn settle(&mut self, ticks: u64) {
        let Self { switched, folds, .. } = self;
        switched.retain(|&thread| {
            let fold = folds[thread].as_mut();
            fold.is_some_and(|fold| {
                fold.settle(ticks);
                fold.awaits_switches()
            })
        });
        self.unknown_tasks.settle(ticks);
    }
}
