//! Children of fork: they begin in the regions that the thread was in which forked them.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;

use transect_event_abi::region_arena::RING_USED;

use super::{Bound, Reading};
use crate::feature::fold::{Inherited, RegionNumber};

/// Beyond so many, the oldest is forgotten: a shell's children are never met.
const MANY: usize = 4096;
/// In place of an image: a process that was attached to.
const ATTACHED: u64 = 0;

/// What children begin in that are not met yet, by process, and since when.
#[derive(Debug, Default)]
pub(super) struct Forks {
    waiting: HashMap<i32, (u64, Inherited)>,
}

impl Forks {
    fn add(&mut self, child: i32, now: u64, inherited: Inherited) {
        if self.waiting.len() >= MANY {
            let oldest = self.waiting.iter().min_by_key(|(_, (since, _))| *since).map(|(&child, _)| child);
            oldest.and_then(|child| self.waiting.remove(&child));
        }
        self.waiting.insert(child, (now, inherited));
    }

    /// A child is met, or is no child any more.
    pub fn take(&mut self, child: i32) -> Option<Inherited> {
        self.waiting.remove(&child).map(|(_, inherited)| inherited)
    }

    /// The sites of a region have been switched off.
    pub fn forget(&mut self, region: RegionNumber) {
        self.waiting.values_mut().for_each(|(_, inherited)| inherited.open.retain(|open| open.0 != region));
    }
}

impl Reading {
    /// The session tells of a process; `like`: the thread that has forked it.
    pub(super) fn process(&mut self, pid: i32, start: u64, midway: bool, like: Option<(i32, i32)>) {
        match like {
            Some(by) => {
                // Where the kernel tells this user nothing of forks it is late, and the parent may be further.
                if !self.forks.waiting.contains_key(&pid) {
                    self.forks_child(by, pid, start);
                }
                self.begin_child(by, pid, start);
            }
            None => {
                self.forks.take(pid);
                self.tasks.begin(pid, start, midway);
                if midway {
                    self.announced.insert(pid, (ATTACHED, start));
                } else {
                    self.began_outside(pid);
                }
            }
        }
    }

    /// No thread of a process was in regions when it was first met.
    fn began_outside(&mut self, pid: i32) {
        let Self { tasks, folds, .. } = self;
        for (thread, fold) in
            tasks.threads.iter().zip(folds).filter(|(thread, _)| tasks.processes[thread.process].pid == pid)
        {
            if thread.end.is_none()
                && let Some(fold) = fold
            {
                fold.begins_outside();
            }
        }
    }

    /// The kernel says that a thread has forked a process. Who launches programs to probe them tells of it, too.
    pub(super) fn forked(&mut self, by: (i32, i32), child: i32, now: u64) {
        if self.kernel_tells {
            return;
        }
        // Before any ring is asked whose it is.
        if let Some(&(image, _)) = self.announced.get(&by.0) {
            self.outer.forked(child, image);
        }
        self.forks_child(by, child, now);
        if let Some(&(image, _)) = self.announced.get(&by.0)
            && self.tasks.was_running(by.0, now)
        {
            // Its number may have been that of another one.
            self.tasks.ended(child, now);
            self.announced.insert(child, (image, now));
            self.begin_child(by, child, now);
        }
    }

    /// A process whose children are met by being forked has become another program.
    pub(super) fn became_program(&mut self, pid: i32, now: u64) {
        // How it came to be what it was is told late, if it was the first.
        let since = self.announced.get(&pid).map_or(u64::MAX, |&(_, since)| since);
        if self.kernel_tells || !self.tasks.is_running(pid) || now < since {
            return;
        }
        self.announced.remove(&pid);
        self.end_rings_of(pid);
        // Of children, those programs are recorded that have regions: they say so themselves.
        if self.tasks.processes.first().is_some_and(|first| first.pid == pid) {
            self.tasks.replaced(pid, now);
        } else {
            self.tasks.ended(pid, now);
        }
    }

    /// Notes what a child begins in: all that its parent's thread had done by then is folded, and nothing that came later.
    pub(super) fn forks_child(&mut self, (parent, thread): (i32, i32), child: i32, now: u64) {
        if let Some((file, index)) = self.ring_of(parent, thread, now) {
            let open = &mut self.files[file];
            open.written[index] = open.file.written(index);
            while self.drain_until(file, index, now) > 0 {}
        }
        let fold = self.tasks.thread_at(parent, thread, now).and_then(|thread| self.folds.get(thread)?.as_ref());
        let inherited = match fold {
            Some(fold) => Some(fold.inside_at(now)),
            // A child that has done nothing itself before it forks.
            None if parent == thread => self.forks.waiting.get(&parent).map(|(_, inherited)| inherited.clone()),
            None => None,
        };
        if let Some(inherited) = inherited {
            self.forks.add(child, now, inherited);
        }
    }

    /// The ring that a thread writes to, if it has any.
    fn ring_of(&mut self, pid: i32, tid: i32, now: u64) -> Option<(usize, usize)> {
        let rings = self.rings();
        let living = self.tasks.thread_at(pid, tid, now);
        let is = |bound: &Bound| Some(bound.thread) == living;
        let bound = |&(file, index): &(usize, usize)| self.files[file].rings[index].as_ref().is_some_and(is);
        if let Some(found) = rings.iter().copied().find(bound) {
            return Some(found);
        }
        let found = rings.into_iter().find(|&(file, index)| {
            let open = &self.files[file];
            let ring = open.file.ring(index);
            if open.rings[index].is_some()
                || ring.state.load(Acquire) != RING_USED
                || ring.start_ticks.load(Acquire) == 0
            {
                return false;
            }
            let process = self.outer.process(ring, &open.file);
            process == pid && self.outer.thread(ring, process) == tid
        })?;
        self.bind(found.0, found.1).then_some(found)
    }

    /// A child is recorded from the fork on.
    pub(super) fn begin_child(&mut self, (parent, by): (i32, i32), child: i32, now: u64) {
        self.tasks.begin(child, now, true);
        self.tasks.forked(child, parent);
        // It is called as who has forked it.
        let name = self.tasks.thread_at(parent, by, now).map(|thread| self.tasks.threads[thread].name.clone());
        let thread = self.tasks.thread(child, child, now, name.unwrap_or_default());
        self.tasks.lives_since(thread, now);
        let inherited = self.forks.take(child);
        let fold = self.fold_of(thread);
        if let Some(inherited) = inherited {
            fold.inherit(&inherited);
        }
    }
}
