//! The thread that empties the rings and folds their events, all through the recording, as the session sees it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use transect_bpf_collect::region_events::EventSource;

use super::budget::{Budget, HotRegion};
use super::catalog::Catalog;
use super::choice::Choice;
use super::fold::RegionNumber;
use super::rate_limiter::Wake;
use super::reading::Reading;
use super::region_file::RegionFile;
use super::region_spans::RegionSpans;
use super::task_list::{ProcessFacts, ThreadFacts};
use crate::RecordError;

/// Longest wait for a look at a process' objects.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// What the session tells the reader.
#[derive(Debug)]
pub enum Update {
    /// Events are written to another file, too.
    File(Arc<RegionFile>),
    /// A process is recorded from `start` on; threads that it has already may be in regions if `midway`.
    Process {
        /// Its number.
        pid: i32,
        /// The number under which it knows itself.
        own: i32,
        /// Ticks.
        start: u64,
        /// It was running before.
        midway: bool,
        /// The process that forked it, if it is one of ours, and its thread: it runs the same program.
        like: Option<(i32, i32)>,
    },
    /// The objects of a process are to be looked at, which waits for it.
    Look {
        /// Its number.
        pid: i32,
        /// It has not run yet: its time begins when that is done.
        begins: bool,
        /// Hears that it was done.
        done: Sender<()>,
    },
    /// The births and ends of this process' threads are to be heard, which waits for it.
    Threads {
        /// Its number.
        pid: i32,
        /// Hears that it was done.
        done: Sender<()>,
    },
    /// Events come from programs in the kernel.
    Kernel(EventSource),
    /// A copy of what was read so far is wanted.
    SoFar(Sender<Collected>),
    /// Nobody writes to this file any more.
    Over(Arc<RegionFile>),
    /// The sites of a region have been switched on, or off, because that was asked for.
    Chosen {
        /// Path of its object.
        path: String,
        /// Its number there.
        number: u32,
        /// On.
        on: bool,
    },
    /// The sites of a region have been switched off.
    Off(RegionNumber),
    /// A process has become another program.
    Replaced {
        /// Its number.
        pid: i32,
    },
    /// A process has ended.
    Ended {
        /// Its number.
        pid: i32,
        /// Ticks.
        end: u64,
    },
}

/// What was read.
#[derive(Debug)]
pub struct Collected {
    /// Objects with regions.
    pub catalog: Catalog,
    /// Processes.
    pub processes: Vec<ProcessFacts>,
    /// Threads.
    pub threads: Vec<ThreadFacts>,
    /// Spans by thread.
    pub spans: RegionSpans,
    /// Events.
    pub events: u64,
    /// Events whose site is in no known object.
    pub unresolved: u64,
    /// Regions whose sites were switched off, and what share of the threads' time their events took.
    pub off: Vec<HotRegion>,
    /// Events of threads that found no ring.
    pub refused: u64,
    /// CPU time is known: switches of threads were told, but for so many for which there was no room.
    pub switches: Option<u64>,
    /// Events for which the kernel's programs had no room.
    pub lost: u64,
}

impl Collected {
    /// Leaves out what other processes have done.
    pub fn keep_only(&mut self, pid: i32) {
        let processes = places(self.processes.iter().map(|process| process.pid == pid));
        let threads = places(self.threads.iter().map(|thread| processes[thread.process].is_some()));
        self.processes.retain(|process| process.pid == pid);
        self.threads.retain_mut(|thread| {
            let place = processes[thread.process];
            thread.process = place.unwrap_or_default();
            place.is_some()
        });
        self.spans.renumber(|thread| threads.get(thread as usize).copied().flatten().map(|place| place as u32));
    }
}

/// By place among all: place among those that are kept.
fn places(kept: impl Iterator<Item = bool>) -> Vec<Option<usize>> {
    let mut next = 0..;
    kept.map(|kept| if kept { next.next() } else { None }).collect()
}

/// The thread.
#[derive(Debug)]
pub struct Reader {
    over: Arc<AtomicBool>,
    updates: Sender<Update>,
    hot: Receiver<HotObject>,
    loaded: Receiver<i32>,
    /// None once it has ended.
    thread: Option<JoinHandle<Collected>>,
}

/// A region that is to be switched off.
#[derive(Debug)]
pub struct HotObject {
    /// Path of its object.
    pub path: String,
    /// Its number there.
    pub number: u32,
    /// Its number in the recording.
    pub region: RegionNumber,
}

impl Reader {
    /// Starts it. With a budget it says which regions are to be switched off, and wakes who does that. `choice`: of regions
    /// whose sites can't be switched, only these are heard.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(budget: Option<(Budget, Wake)>, choice: Choice) -> Result<Reader, RecordError> {
        let over = Arc::new(AtomicBool::new(false));
        let (updates, heard) = channel();
        let (say, hot) = channel();
        let (tell, loaded) = channel();
        let flag = over.clone();
        let thread = std::thread::Builder::new()
            .name("region-reader".to_owned())
            .spawn(move || Reading::new(heard, budget, choice, say, tell).run(&flag))
            .map_err(RecordError::system("start the reader of region events"))?;
        Ok(Reader { over, updates, hot, loaded, thread: Some(thread) })
    }

    /// Tells it something.
    pub fn tell(&self, updates: Update) {
        // If it is gone, `finish` says so.
        let _ = self.updates.send(updates);
    }

    /// Lets it look at the objects of a process that was recorded by probes before they are gone with it.
    pub fn look(&self, pid: i32) {
        self.look_at(pid, false);
    }

    /// The same for one that stands at its entry point: what it has waited is not its time.
    pub fn look_before_it_runs(&self, pid: i32) {
        self.look_at(pid, true);
    }

    fn look_at(&self, pid: i32, begins: bool) {
        let (done, looked) = channel();
        self.tell(Update::Look { pid, begins, done });
        // If it is gone, `finish` says so.
        let _ = looked.recv_timeout(LOOK_PATIENCE);
    }

    /// Hears of the births and ends of a process' threads from the kernel, where this user may: otherwise it is looked now and
    /// then which there are, and those of short ones are guessed. To be called while the process is held.
    pub fn hear_threads(&self, pid: i32) {
        let (done, heard) = channel();
        self.tell(Update::Threads { pid, done });
        // If it is gone, `finish` says so.
        let _ = heard.recv_timeout(LOOK_PATIENCE);
    }

    /// Regions that are to be switched off, since the last call.
    pub fn take_hot(&self) -> impl Iterator<Item = HotObject> {
        self.hot.try_iter()
    }

    /// Processes whose loader has loaded something, as the kernel's programs tell, since the last call.
    pub fn take_loaded(&self) -> impl Iterator<Item = i32> {
        self.loaded.try_iter()
    }

    /// A copy of what was read so far.
    ///
    /// # Errors
    /// If the thread has failed.
    pub fn so_far(&self) -> Result<Collected, RecordError> {
        let (tell, told) = channel();
        self.tell(Update::SoFar(tell));
        told.recv_timeout(LOOK_PATIENCE).map_err(|_| RecordError::Ended)
    }

    /// Reads what is left, and ends.
    ///
    /// # Errors
    /// If the thread has failed.
    pub fn finish(&mut self) -> Result<Collected, RecordError> {
        self.over.store(true, Release);
        self.thread.take().and_then(|thread| thread.join().ok()).ok_or(RecordError::Ended)
    }
}
