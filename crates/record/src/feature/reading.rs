//! Reading: which ring is whose, whose addresses mean what, and what has ended.

mod draining;
mod forks;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod kernel;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use transect_event_abi::region_arena::{RING_CAPACITY, RING_USED};
use transect_feature_region::SiteKind;

use super::budget::Budget;
use super::catalog::{Catalog, Image};
use super::choice::Choice;
use super::fold::{RegionNumber, ThreadFold};
use super::incomplete_slot::IncompleteSlot;
use super::kernel_events::KernelEvents;
use super::on_cpu_state::OnCpuState;
use super::pid_namespace_map::PidNamespaceMap;
use super::rate_limiter::{RateLimiter, Wake};
use super::reader::{Collected, HotObject, Update};
use super::region_file::RegionFile;
use super::region_spans::RegionSpans;
use super::task_events::TaskEvents;
use super::task_list::TaskList;
use super::unknown_tasks::UnknownTasks;
use crate::clock::ticks;
use forks::Forks;
#[cfg(feature = "fuzzing")]
pub use fuzzing::fuzz;

/// Longest sleep; a ring that is half full ends it.
const NAP: Duration = Duration::from_millis(4);
/// The same where not every ring can wake us.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// How often it is looked which threads there are.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often a process' objects are looked at for the sake of an unknown site.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Which program in memory a ring's addresses belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ImageKey {
    /// By the kernel's random bytes.
    Random(u64),
    /// The only one of a process.
    Process(i32),
}

/// Whose events these are.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    thread: usize,
    image: usize,
}

/// A file, and who writes to its rings.
struct OpenFile {
    file: Arc<RegionFile>,
    rings: Vec<Option<Bound>>,
    /// What had been written to each when it was last looked.
    written: Vec<u64>,
    /// Rings that had an event that was not there.
    incomplete: HashMap<usize, IncompleteSlot>,
}

/// The reader's thread at work.
pub struct Reading {
    files: Vec<OpenFile>,
    /// Images by process, and since when: of those whose children are met by being forked.
    announced: HashMap<i32, (u64, u64)>,
    /// What children begin in that are not met yet.
    forks: Forks,
    outer: PidNamespaceMap,
    kernel: Option<KernelEvents>,
    /// Its programs tell of processes.
    kernel_tells: bool,
    /// A list for each process that was there before.
    task_events: Vec<TaskEvents>,
    /// There are such, even while they are being read.
    hears_lives: bool,
    /// Where threads were of which no more is known yet, by process and thread.
    unknown_tasks: UnknownTasks,
    /// Threads with switches that time may have passed.
    switched: Vec<usize>,
    kernel_lost: u64,
    /// Hears of loaders that have loaded something.
    tell_loaded: Sender<i32>,
    updates: Receiver<Update>,
    catalog: Catalog,
    keys: HashMap<ImageKey, usize>,
    images: Vec<(i32, Image, Instant)>,
    tasks: TaskList,
    folds: Vec<Option<ThreadFold>>,
    spans: RegionSpans,
    events: u64,
    unresolved: u64,
    refused: u64,
    rate_limiter: RateLimiter,
    /// Regions to be forgotten once the rings have been read.
    forget: Vec<RegionNumber>,
    /// Ticks that threads waited whose rings were given back.
    waited_before: u64,
}

/// A sum that a program has written: a damaged one is cut, so that it can be added up.
pub(super) fn told(sum: &AtomicU64) -> u64 {
    sum.load(Relaxed).min(1 << 48)
}

impl Reading {
    /// Nothing was read yet.
    pub fn new(
        updates: Receiver<Update>,
        budget: Option<(Budget, Wake)>,
        choice: Choice,
        say: Sender<HotObject>,
        tell_loaded: Sender<i32>,
    ) -> Self {
        Self {
            files: Vec::new(),
            announced: HashMap::new(),
            forks: Forks::default(),
            outer: PidNamespaceMap::default(),
            kernel: None,
            kernel_tells: false,
            task_events: Vec::new(),
            hears_lives: false,
            unknown_tasks: UnknownTasks::default(),
            switched: Vec::new(),
            kernel_lost: 0,
            tell_loaded,
            updates,
            catalog: Catalog::choosing(choice),
            keys: HashMap::new(),
            images: Vec::new(),
            tasks: TaskList::default(),
            folds: Vec::new(),
            spans: RegionSpans::default(),
            events: 0,
            unresolved: 0,
            refused: 0,
            rate_limiter: RateLimiter::new(budget, say),
            forget: Vec::new(),
            waited_before: 0,
        }
    }

    /// Reads until `over`, and what is left then.
    pub fn run(mut self, over: &AtomicBool) -> Collected {
        let mut looked = Instant::now();
        loop {
            let last = over.load(Acquire);
            self.hear();
            self.answer();
            let forget = std::mem::take(&mut self.forget);
            let read = self.drain_all();
            self.forget_regions(&forget);
            if last {
                break;
            }
            self.rate_limiter.waited(self.waited_ticks());
            self.rate_limiter.judge(&self.catalog, Instant::now());
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.tasks.look();
                self.end_rings();
            }
            if read < 64 {
                match self.files.as_slice() {
                    [only] if only.incomplete.values().any(IncompleteSlot::waits) => only.file.sleep(SHORT_NAP),
                    [only] => only.file.sleep(NAP),
                    // One bell can be waited for: the others are looked at often.
                    [] => std::thread::sleep(SHORT_NAP),
                    [.., latest] => latest.file.sleep(SHORT_NAP),
                }
            }
        }
        self.files.iter().for_each(|open| open.file.end());
        // What was written between the last look and the end.
        self.drain_all();
        for (file, index) in self.rings() {
            self.drain_rest(file, index);
        }
        self.drain_task_events(true);
        self.conclude()
    }

    /// All rings that were ever used: file, number.
    fn rings(&self) -> Vec<(usize, usize)> {
        let files = self.files.iter().enumerate();
        files.flat_map(|(number, open)| (0..open.file.ring_count()).map(move |index| (number, index))).collect()
    }

    /// Ticks that all threads have waited for room so far.
    fn waited_ticks(&self) -> u64 {
        let of = |(file, index): (usize, usize)| {
            let open = &self.files[file];
            open.rings[index].map_or(0, |_| told(&open.file.ring(index).waited_ticks))
        };
        self.waited_before + self.rings().into_iter().map(of).sum::<u64>()
    }

    fn hear(&mut self) {
        while let Ok(updates) = self.updates.try_recv() {
            match updates {
                Update::File(file) => {
                    let rings = (0..RING_CAPACITY).map(|_| None).collect();
                    let written = vec![0; RING_CAPACITY];
                    self.files.push(OpenFile { file, rings, written, incomplete: HashMap::new() });
                }
                Update::Kernel(source) => match KernelEvents::open(source) {
                    Ok(kernel) => (self.kernel, self.kernel_tells) = (Some(kernel), true),
                    // Everything it tells is lost.
                    Err(_) => self.kernel_lost = 1,
                },
                Update::Look { pid, begins, done } => {
                    // A program that was replaced is so before its successor is looked at.
                    self.drain_kernel();
                    let image = self.image(ImageKey::Process(pid), pid);
                    self.look(image, pid);
                    if begins {
                        self.drain_task_events(false);
                        self.begins_now(pid);
                    }
                    // Who has asked may have given up.
                    let _ = done.send(());
                }
                Update::Threads { pid, done } => {
                    // All or none: of each it is either told or looked what its threads do.
                    match TaskEvents::of(pid) {
                        Ok(events) if self.hears_lives || self.tasks.processes.is_empty() => {
                            self.task_events.push(events)
                        }
                        _ => self.task_events.clear(),
                    }
                    self.hears_lives = !self.task_events.is_empty();
                    // Who has asked may have given up.
                    let _ = done.send(());
                }
                Update::SoFar(tell) => {
                    // Who has asked may have given up.
                    let _ = tell.send(self.so_far());
                }
                Update::Over(file) => self.close(&file),
                Update::Off(region) => self.forget.push(region),
                Update::Chosen { path, number, on } => {
                    let object = self.catalog.objects.iter().find(|object| object.path == path);
                    let Some(region) = object.map(|object| object.first_region + number) else { continue };
                    if on {
                        // It may have been switched off just before.
                        self.forget.retain(|forgotten| *forgotten != region);
                        self.rate_limiter.speak(region);
                        self.folds.iter_mut().flatten().for_each(|fold| fold.comes_on(region));
                    } else {
                        self.forget.push(region);
                    }
                }
                Update::Process { pid, own, start, midway, like } => {
                    self.outer.note(own, pid);
                    self.drain_kernel();
                    self.process(pid, start, midway, like);
                }
                Update::Replaced { pid } => self.replaced(pid, ticks()),
                Update::Ended { pid, end } => {
                    // Rings that it took at its end are bound while it is known.
                    self.drain_all();
                    self.tasks.ended(pid, end);
                }
            }
        }
    }

    fn forget_regions(&mut self, regions: &[RegionNumber]) {
        for &region in regions {
            for (thread, fold) in self.folds.iter_mut().enumerate() {
                if let Some(fold) = fold {
                    fold.forget(region, &mut |span| self.spans.add(thread as u32, span));
                }
            }
            self.forks.forget(region);
            self.rate_limiter.silence(region);
        }
    }

    /// Reads the rest of a file and lets it go.
    fn close(&mut self, file: &Arc<RegionFile>) {
        let Some(number) = self.files.iter().position(|open| Arc::ptr_eq(&open.file, file)) else { return };
        for index in 0..file.ring_count() {
            if self.bind(number, index) {
                self.drain_whole(number, index);
                self.release(number, index);
            }
        }
        self.refused += told(&file.header().refused);
        self.files.remove(number);
    }

    /// Looks at objects that were just loaded, while their threads wait.
    fn answer(&mut self) {
        for number in 0..self.files.len() {
            let file = self.files[number].file.clone();
            for (place, pid, image) in file.asked() {
                // What it was before is told before.
                self.drain_task_events(false);
                let pid = self.outer.of(pid, image);
                // Another program by exec, in the same process.
                if self.announced.insert(pid, (image, ticks())).is_some_and(|before| before.0 != image) {
                    self.replaced(pid, ticks());
                }
                self.tasks.known(pid, ticks(), None);
                // Children of fork share it, each may load what the others have not.
                let index = self.image(ImageKey::Random(image), pid);
                self.look(index, pid);
                let restores =
                    |number: &u32| self.catalog.sites.get(*number as usize).filter(|s| s.kind == SiteKind::Restore);
                for (&site, number) in &self.images[index].1.sites {
                    if let Some(facts) = restores(number) {
                        file.note_restore(site, image, facts.remain.len());
                    }
                }
                file.answer(place);
            }
        }
    }

    fn replaced(&mut self, pid: i32, now: u64) {
        self.end_rings_of(pid);
        self.tasks.replaced(pid, now);
    }

    /// A process has become another program, or is gone.
    fn end_rings_of(&mut self, pid: i32) {
        self.forks.take(pid);
        self.keys.remove(&ImageKey::Process(pid));
        for (file, index) in self.rings() {
            let ring = self.files[file].file.ring(index);
            // One that was just taken still names its last owner.
            let taken = ring.state.load(Acquire) == RING_USED && ring.start_ticks.load(Acquire) != 0;
            if taken && self.outer.process(ring, &self.files[file].file) == pid {
                self.end_ring(file, index);
            }
        }
    }

    /// A process that was held until now is let go.
    fn begins_now(&mut self, pid: i32) {
        let now = ticks();
        let of_it = self.tasks.threads_of(pid);
        let used = |thread: &usize| self.folds.get(*thread).and_then(Option::as_ref).is_some_and(ThreadFold::is_used);
        if of_it.iter().any(used) {
            return;
        }
        self.tasks.begins_at(pid, now);
        for thread in of_it {
            self.fold_of(thread).begins_at(now);
        }
    }

    fn image(&mut self, key: ImageKey, pid: i32) -> usize {
        *self.keys.entry(key).or_insert_with(|| {
            let long_ago = Instant::now().checked_sub(LOOK_AGAIN).unwrap_or_else(Instant::now);
            self.images.push((pid, Image::default(), long_ago));
            self.images.len() - 1
        })
    }

    /// Looks at what process `pid` of an image has mapped.
    fn look(&mut self, index: usize, pid: i32) {
        let (_, image, looked) = &mut self.images[index];
        *looked = Instant::now();
        self.catalog.look(pid, image);
        self.rate_limiter.grow(self.catalog.parents.len());
    }

    fn bind(&mut self, file: usize, index: usize) -> bool {
        if self.files[file].rings[index].is_some() {
            return true;
        }
        let shared = self.files[file].file.clone();
        let ring = shared.ring(index);
        if ring.start_ticks.load(Acquire) == 0 {
            return false;
        }
        // That its process was forked is told before, or that it is gone.
        self.drain_task_events(false);
        let start = ring.start_ticks.load(Acquire);
        if start == 0 {
            return false;
        }
        let pid = self.outer.process(ring, &self.files[file].file);
        let tid = self.outer.thread(ring, pid);
        let random = ring.image.load(Relaxed);
        let name: Vec<u8> = ring.name.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let name = String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or_default()).into_owned();
        let key = if random == 0 { ImageKey::Process(pid) } else { ImageKey::Random(random) };
        let bound = self.bound(key, pid, tid, start, name);
        self.files[file].rings[index] = Some(bound);
        true
    }

    /// What a thread's events are folded into; made if need be.
    fn bound(&mut self, key: ImageKey, pid: i32, tid: i32, start: u64, name: String) -> Bound {
        let image = self.image(key, pid);
        // A child of fork that is gone already was the same program.
        self.tasks.known(pid, start, Some(self.images[image].0));
        let thread = self.tasks.thread(pid, tid, start, name);
        self.tasks.lives_since(thread, start);
        if self.images[image].1.sites.is_empty() {
            self.look(image, pid);
        }
        self.fold_of(thread);
        Bound { thread, image }
    }

    /// A thread's tree; made if need be.
    fn fold_of(&mut self, thread: usize) -> &mut ThreadFold {
        if self.folds.len() <= thread {
            self.folds.resize_with(thread + 1, || None);
        }
        let (facts, heard) = (&self.tasks.threads[thread], self.hears_lives);
        self.folds[thread].get_or_insert_with(|| {
            let start = facts.start;
            let own = (self.tasks.processes[facts.process].pid, facts.tid);
            let (on_cpu, off) = if heard { self.unknown_tasks.take(own, start) } else { (OnCpuState::unheard(), 0) };
            let mut fold = ThreadFold::new(start, facts.midway, on_cpu).off_before(off);
            if own.0 == own.1
                && let Some(inherited) = self.forks.take(own.0)
            {
                fold.inherit(&inherited);
            }
            fold
        })
    }

    /// Ends the rings of threads that are gone.
    fn end_rings(&mut self) {
        for (file, index) in self.rings() {
            let open = &self.files[file];
            if open.file.ring(index).state.load(Acquire) != RING_USED {
                continue;
            }
            let Some(bound) = &open.rings[index] else { continue };
            if self.tasks.threads[bound.thread].end.is_some() || !open.file.is_current(index) {
                self.end_ring(file, index);
            }
        }
    }

    fn end_ring(&mut self, file: usize, index: usize) {
        self.files[file].file.end_ring(index);
        if self.bind(file, index) {
            self.drain_whole(file, index);
            self.release(file, index);
        }
        self.files[file].file.free_ring(index);
    }

    /// Takes the ring from its thread.
    fn release(&mut self, file: usize, index: usize) {
        let open = &mut self.files[file];
        let Some(bound) = open.rings[index].take() else { return };
        open.incomplete.remove(&index);
        let ring = open.file.ring(index);
        self.tasks.threads[bound.thread].note_ring(ring);
        self.waited_before += told(&ring.waited_ticks);
    }

    fn conclude(mut self) -> Collected {
        let now = ticks();
        self.hear();
        for (file, index) in self.rings() {
            self.release(file, index);
        }
        let parts = (std::mem::take(&mut self.tasks), std::mem::take(&mut self.folds), std::mem::take(&mut self.spans));
        let catalog = std::mem::take(&mut self.catalog);
        self.collected(now, parts, catalog)
    }

    /// A copy of what was read by now; reading goes on.
    fn so_far(&mut self) -> Collected {
        self.drain_all();
        let mut tasks = self.tasks.clone();
        for (file, index) in self.rings() {
            let open = &self.files[file];
            if let Some(bound) = &open.rings[index] {
                tasks.threads[bound.thread].note_ring(open.file.ring(index));
            }
        }
        self.collected(ticks(), (tasks, self.folds.clone(), self.spans.clone()), self.catalog.clone())
    }

    /// What was read, of threads that go on until `now`.
    fn collected(
        &self,
        now: u64,
        (mut tasks, folds, mut spans): (TaskList, Vec<Option<ThreadFold>>, RegionSpans),
        catalog: Catalog,
    ) -> Collected {
        let refused = self.files.iter().map(|open| told(&open.file.header().refused)).sum::<u64>();
        tasks.conclude(now, |thread| folds.get(thread)?.as_ref().map(ThreadFold::last_event));
        for (index, fold) in folds.into_iter().enumerate() {
            let Some(mut fold) = fold else { continue };
            let thread = &mut tasks.threads[index];
            let end = thread.end.unwrap_or(now);
            fold.finish(end, &mut |span| spans.add(index as u32, span));
            thread.fold = Some(fold);
        }
        Collected {
            catalog,
            processes: tasks.processes,
            threads: tasks.threads,
            spans,
            events: self.events,
            unresolved: self.unresolved,
            off: self.rate_limiter.off.clone(),
            refused: refused + self.refused,
            switches: self.hears_lives.then(|| self.task_events.iter().map(TaskEvents::lost).sum()),
            lost: self.kernel_lost + self.kernel.as_ref().map_or(0, KernelEvents::lost),
        }
    }
}
