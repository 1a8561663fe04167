//! What is recorded of running processes beside the scheduler's events: by a thread of its own, for the kernel binds a tracer to
//! its thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use transect_profile_model::Profile;

use crate::RecordError;
use crate::signals::Signals;

/// Names of collectors.
pub(crate) const FLOW: &str = "flow";
pub(crate) const LATENCY: &str = "latency";
pub(crate) const FEATURE: &str = "feature";
/// How often it is looked whether the wait for the beginning is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a snapshot waits for a collector, which looks a hundred times in that if it is wanted.
const PATIENCE: Duration = Duration::from_secs(3);

/// What came of it.
#[derive(Debug)]
pub(crate) struct AttachedOutcome {
    /// What was recorded.
    pub profile: Profile,
    /// What of ours had to stay in the processes, and why, in words.
    pub left_behind: Vec<String>,
}

/// What a collector is told that does not lead.
pub(crate) struct Orders {
    /// They end it.
    pub signals: Signals,
    /// Who wants the profile so far.
    pub asked: Receiver<Sender<Profile>>,
    begun: Sender<()>,
}

impl Orders {
    /// It is recorded from now on.
    pub fn begin(&self) {
        // Whoever waits may have given up.
        let _ = self.begun.send(());
    }
}

/// Who gives the orders.
#[derive(Debug)]
pub(crate) struct Asker {
    enough: Arc<AtomicBool>,
    ask: Sender<Sender<Profile>>,
    /// Hears when it has begun; behind a lock only so that threads can share it.
    begun: Mutex<Receiver<()>>,
}

impl Asker {
    /// The two ends.
    pub fn with_orders() -> (Self, Orders) {
        let enough = Arc::<AtomicBool>::default();
        let signals = Signals::led(enough.clone());
        let ((tell, begun), (ask, asked)) = (channel(), channel());
        (Self { enough, ask, begun: Mutex::new(begun) }, Orders { signals, asked, begun: tell })
    }

    /// The profile so far; `None` if the collector has ended, or is busy. `wake`: it has been asked.
    pub fn so_far(&self, wake: impl FnOnce()) -> Option<Profile> {
        let (reply, answer) = channel();
        self.ask.send(reply).ok()?;
        wake();
        answer.recv_timeout(PATIENCE).ok()
    }
}

/// A recording that ends when it is told.
#[derive(Debug)]
pub(crate) struct AttachedCollector {
    /// Its name.
    pub name: &'static str,
    asker: Asker,
    thread: JoinHandle<Result<AttachedOutcome, RecordError>>,
}

impl AttachedCollector {
    /// Starts the thread, named after the collector.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(
        name: &'static str,
        run: impl FnOnce(&Orders) -> Result<AttachedOutcome, RecordError> + Send + 'static,
    ) -> Result<Self, RecordError> {
        let (asker, orders) = Asker::with_orders();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&orders))
            .map_err(RecordError::system("start a thread for a collector"))?;
        Ok(Self { name, asker, thread })
    }

    /// Waits until it has begun or can't; true if it was `enough` before.
    pub fn wait_begun(&self, enough: impl Fn() -> bool) -> bool {
        let begun = self.asker.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if enough() {
                return true;
            }
        }
        false
    }

    /// The profile so far; `None` if it has ended, or is busy with the processes.
    pub fn so_far(&self) -> Option<Profile> {
        self.asker.so_far(|| self.thread.thread().unpark())
    }

    /// Ends it.
    ///
    /// # Errors
    /// If nothing could be recorded.
    pub fn finish(self) -> Result<AttachedOutcome, RecordError> {
        self.asker.enough.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Err(RecordError::Ended))
    }
}
