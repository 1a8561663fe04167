//! Reading: which ring is whose, whose addresses mean what, and what has ended.

mod told_by_kernel;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use transect_event_abi::region_arena::{RING_CAPACITY, RING_ENDED, RING_USED};
use transect_feature_region::SiteKind;

use super::budget::Budget;
use super::catalog::{Catalog, Image};
use super::fold::{RegionNumber, ThreadFold};
use super::heat::Heat;
use super::kernel_events::KernelEvents;
use super::lives::Lives;
use super::outer_number::OuterNumbers;
use super::presence::Presence;
use super::reader::{Collected, HotObject, News};
use super::region_file::{ReadEvent, RegionFile};
use super::stays::Stays;
use super::strangers::Strangers;
use super::taker::{ADDRESS, Taker};
use super::task_list::TaskList;
use crate::clock::ticks;

/// Longest sleep; a ring that is half full ends it.
const NAP: Duration = Duration::from_millis(4);
/// The same where not every ring can wake us.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// How often it is looked which threads there are.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often a process' objects are looked at for the sake of an unknown site.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long an event may take that was begun, once its thread waits for it.
const STUCK: Duration = Duration::from_millis(500);

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
}

/// The reader's thread at work.
pub struct Reading {
    files: Vec<OpenFile>,
    /// Images by process.
    announced: HashMap<i32, u64>,
    outer: OuterNumbers,
    /// Full rings without anything to read, and since when: file, number.
    stuck: HashMap<(usize, usize), Instant>,
    kernel: Option<KernelEvents>,
    lives: Option<Lives>,
    /// Where threads were of which no more is known yet, by process and thread.
    strangers: Strangers,
    /// Threads with switches that time may have passed.
    switched: Vec<usize>,
    kernel_lost: u64,
    /// Hears of loaders that have loaded something.
    tell_loaded: Sender<i32>,
    news: Receiver<News>,
    catalog: Catalog,
    keys: HashMap<ImageKey, usize>,
    images: Vec<(i32, Image, Instant)>,
    tasks: TaskList,
    folds: Vec<Option<ThreadFold>>,
    stays: Stays,
    events: u64,
    unresolved: u64,
    refused: u64,
    heat: Heat,
    /// Regions to be forgotten once the rings have been read.
    forget: Vec<RegionNumber>,
}

impl Reading {
    /// Nothing was read yet.
    pub fn new(news: Receiver<News>, budget: Option<Budget>, say: Sender<HotObject>, tell_loaded: Sender<i32>) -> Self {
        Self {
            files: Vec::new(),
            announced: HashMap::new(),
            outer: OuterNumbers::default(),
            stuck: HashMap::new(),
            kernel: None,
            lives: None,
            strangers: Strangers::default(),
            switched: Vec::new(),
            kernel_lost: 0,
            tell_loaded,
            news,
            catalog: Catalog::default(),
            keys: HashMap::new(),
            images: Vec::new(),
            tasks: TaskList::default(),
            folds: Vec::new(),
            stays: Stays::default(),
            events: 0,
            unresolved: 0,
            refused: 0,
            heat: Heat::new(budget, say),
            forget: Vec::new(),
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
            self.heat.judge(&self.catalog);
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.tasks.look();
                self.end_rings();
            }
            if read < 64 {
                match self.files.as_slice() {
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
        self.drain_lives(true);
        self.conclude()
    }

    /// All rings that were ever used: file, number.
    fn rings(&self) -> Vec<(usize, usize)> {
        let files = self.files.iter().enumerate();
        files.flat_map(|(number, open)| (0..open.file.ring_count()).map(move |index| (number, index))).collect()
    }

    fn hear(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::File(file) => {
                    let rings = (0..RING_CAPACITY).map(|_| None).collect();
                    self.files.push(OpenFile { file, rings, written: vec![0; RING_CAPACITY] });
                }
                News::Kernel(source) => match KernelEvents::open(source) {
                    Ok(kernel) => self.kernel = Some(kernel),
                    // Everything it tells is lost.
                    Err(_) => self.kernel_lost = 1,
                },
                News::Look { pid, done } => {
                    // A program that was replaced is so before its successor is looked at.
                    self.drain_kernel();
                    let image = self.image(ImageKey::Process(pid), pid);
                    self.look(image);
                    // Who has asked may have given up.
                    let _ = done.send(());
                }
                News::Threads { pid, done } => {
                    self.lives = Lives::of(pid).ok();
                    // Who has asked may have given up.
                    let _ = done.send(());
                }
                News::Over(file) => self.close(&file),
                News::Off(region) => self.forget.push(region),
                News::Chosen { path, number, on } => {
                    let object = self.catalog.objects.iter().find(|object| object.path == path);
                    let Some(region) = object.map(|object| object.first_region + number) else { continue };
                    if on {
                        // It may have been switched off just before.
                        self.forget.retain(|forgotten| *forgotten != region);
                        self.heat.speak(region);
                    } else {
                        self.forget.push(region);
                    }
                }
                News::Process { pid, own, start, midway, like } => {
                    self.outer.note(own, pid);
                    self.drain_kernel();
                    self.tasks.begin(pid, start, midway);
                    if let Some(parent) = like {
                        self.tasks.forked(pid, parent);
                    }
                }
                News::Replaced { pid } => self.replaced(pid),
                News::Ended { pid, end } => {
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
                    fold.forget(region, &mut |stay| self.stays.add(thread as u32, stay));
                }
            }
            self.heat.silence(region);
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
        self.refused += file.header().refused.load(Relaxed);
        self.files.remove(number);
    }

    /// Looks at objects that were just loaded, while their threads wait.
    fn answer(&mut self) {
        for number in 0..self.files.len() {
            let file = self.files[number].file.clone();
            for (place, pid, image) in file.asked() {
                let pid = self.outer.of(pid, image);
                // Another program by exec, in the same process.
                if self.announced.insert(pid, image).is_some_and(|before| before != image) {
                    self.replaced(pid);
                }
                self.tasks.known(pid, ticks(), None);
                let index = self.image(ImageKey::Random(image), pid);
                self.look(index);
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

    fn replaced(&mut self, pid: i32) {
        self.keys.remove(&ImageKey::Process(pid));
        for (file, index) in self.rings() {
            let ring = self.files[file].file.ring(index);
            // One that was just taken still names its last owner.
            let taken = ring.state.load(Acquire) == RING_USED && ring.start_ticks.load(Acquire) != 0;
            if taken && self.outer.process(ring, &self.files[file].file) == pid {
                self.end_ring(file, index);
            }
        }
        self.tasks.replaced(pid, ticks());
    }

    fn image(&mut self, key: ImageKey, pid: i32) -> usize {
        *self.keys.entry(key).or_insert_with(|| {
            let long_ago = Instant::now().checked_sub(LOOK_AGAIN).unwrap_or_else(Instant::now);
            self.images.push((pid, Image::default(), long_ago));
            self.images.len() - 1
        })
    }

    fn look(&mut self, index: usize) {
        let (pid, image, looked) = &mut self.images[index];
        *looked = Instant::now();
        self.catalog.look(*pid, image);
        self.heat.grow(self.catalog.parents.len());
    }

    fn bind(&mut self, file: usize, index: usize) -> bool {
        if self.files[file].rings[index].is_some() {
            return true;
        }
        let ring = self.files[file].file.ring(index);
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
            self.look(image);
        }
        self.fold_of(thread, start);
        Bound { thread, image }
    }

    /// A thread's tree; made if need be.
    fn fold_of(&mut self, thread: usize, start: u64) -> &mut ThreadFold {
        if self.folds.len() <= thread {
            self.folds.resize_with(thread + 1, || None);
        }
        let (facts, heard) = (&self.tasks.threads[thread], self.lives.is_some());
        self.folds[thread].get_or_insert_with(|| {
            let start = facts.start.min(start);
            let own = (self.tasks.processes[facts.process].pid, facts.tid);
            let (presence, off) = if heard { self.strangers.take(own, start) } else { (Presence::unheard(), 0) };
            ThreadFold::new(start, facts.midway, presence).off_before(off)
        })
    }

    /// Reads what there is by now. Switches of a thread are known before the events that it wrote after them are folded: it is
    /// noted what was written before it is asked for them.
    fn drain_all(&mut self) -> usize {
        let asked = ticks();
        let rings = self.rings();
        for &(file, index) in &rings {
            let open = &mut self.files[file];
            open.written[index] = open.file.written(index);
        }
        let mut read = self.drain_kernel();
        for (file, index) in rings {
            match self.files[file].file.ring(index).state.load(Acquire) {
                RING_USED if self.bind(file, index) => read += self.drain(file, index),
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
    fn drain_whole(&mut self, file: usize, index: usize) {
        loop {
            let open = &mut self.files[file];
            open.written[index] = open.file.written(index);
            self.drain_lives(false);
            if self.drain(file, index) == 0 {
                break;
            }
        }
    }

    fn drain(&mut self, file: usize, index: usize) -> usize {
        let Some(bound) = &self.files[file].rings[index] else { return 0 };
        let (thread, image) = (bound.thread, bound.image);
        let mut unknown = Vec::new();
        let read = {
            let Self { files, catalog, images, folds, stays, heat, .. } = self;
            let Some(fold) = folds[thread].as_mut() else { return 0 };
            let sites = &images[image].1.sites;
            let OpenFile { file, written, .. } = &files[file];
            file.drain(index, written[index], |event| {
                // Order must be kept: behind an unknown site all wait for the next look.
                let mut taker = Taker { sites, catalog, fold, heat, thread: thread as u32, stays };
                if !unknown.is_empty() || !taker.take(event) {
                    unknown.push(event);
                }
            })
        };
        if !unknown.is_empty() {
            self.take_unknown(thread, image, &unknown);
        }
        if read == 0 && self.files[file].file.is_stuck(index) {
            self.pass_over(file, index, thread);
        }
        if read > 0 {
            self.events += read as u64;
            self.heat.warm(thread);
        }
        read
    }

    /// A ring is full and has nothing to read: after a while the event that is not there is given up.
    fn pass_over(&mut self, file: usize, index: usize, thread: usize) {
        let since = *self.stuck.entry((file, index)).or_insert_with(Instant::now);
        if since.elapsed() >= STUCK {
            self.stuck.remove(&(file, index));
            self.files[file].file.skip(index);
            self.tasks.threads[thread].dropped += 1;
        }
    }

    fn take_unknown(&mut self, thread: usize, image: usize, events: &[ReadEvent]) {
        for event in events {
            let known = self.images[image].1.sites.contains_key(&(event.what & ADDRESS));
            if !known && self.images[image].2.elapsed() >= LOOK_AGAIN {
                self.look(image);
            }
            // A child of fork that is gone already was like its parent.
            let address = event.what & ADDRESS;
            let like = std::iter::once(image)
                .chain(0..self.images.len())
                .find(|&other| self.images[other].1.sites.contains_key(&address));
            let Self { catalog, images, folds, stays, heat, .. } = self;
            let taken = match (like, folds[thread].as_mut()) {
                (Some(like), Some(fold)) => {
                    let sites = &images[like].1.sites;
                    Taker { sites, catalog, fold, heat, thread: thread as u32, stays }.take(*event)
                }
                _ => false,
            };
            self.unresolved += u64::from(!taken);
        }
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
        let (ring, thread) = (open.file.ring(index), &mut self.tasks.threads[bound.thread]);
        thread.dropped += ring.dropped.load(Relaxed);
        thread.waited += ring.waited.load(Relaxed);
    }

    fn conclude(mut self) -> Collected {
        let now = ticks();
        self.hear();
        let refused = self.files.iter().map(|open| open.file.header().refused.load(Relaxed)).sum::<u64>();
        let refused = refused + self.refused;
        for (file, index) in self.rings() {
            self.release(file, index);
        }
        let folds = &self.folds;
        self.tasks.conclude(now, |thread| folds.get(thread)?.as_ref().map(ThreadFold::last_event));
        for (index, fold) in self.folds.into_iter().enumerate() {
            let Some(mut fold) = fold else { continue };
            let thread = &mut self.tasks.threads[index];
            let end = thread.end.unwrap_or(now);
            fold.finish(end, &mut |stay| self.stays.add(index as u32, stay));
            thread.fold = Some(fold);
        }
        Collected {
            catalog: self.catalog,
            processes: self.tasks.processes,
            threads: self.tasks.threads,
            stays: self.stays,
            events: self.events,
            unresolved: self.unresolved,
            off: self.heat.off,
            refused,
            switches: self.lives.is_some().then(|| self.lives.as_ref().map_or(0, Lives::lost)),
            lost: self.kernel_lost + self.kernel.as_ref().map_or(0, KernelEvents::lost),
        }
    }
}
