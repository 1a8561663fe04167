//! What is recorded of a running process beside the scheduler's events: by a thread of its own, for the kernel binds a tracer to
//! its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::RecordError;

/// How often it is looked whether the wait for the beginning is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A recording that ends when it is told.
#[derive(Debug)]
pub(crate) struct AttachedCollector<T> {
    enough: Arc<AtomicBool>,
    /// Hears when it has begun.
    begun: Receiver<()>,
    thread: JoinHandle<Result<T, RecordError>>,
}

impl<T: Send + 'static> AttachedCollector<T> {
    /// Starts the thread, named after the collector. `run` gets what tells it that it is enough, and what it tells its beginning
    /// by.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(
        collector: &str,
        run: impl FnOnce(Arc<AtomicBool>, Sender<()>) -> Result<T, RecordError> + Send + 'static,
    ) -> Result<Self, RecordError> {
        let enough = Arc::<AtomicBool>::default();
        let over = enough.clone();
        let (tell, begun) = channel();
        let thread = std::thread::Builder::new()
            .name(collector.to_owned())
            .spawn(move || run(over, tell))
            .map_err(RecordError::system("start a thread for a collector"))?;
        Ok(Self { enough, begun, thread })
    }

    /// Waits until it has begun or can't; true if it was `enough` before.
    pub fn wait_begun(&self, enough: impl Fn() -> bool) -> bool {
        while self.begun.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if enough() {
                return true;
            }
        }
        false
    }

    /// Ends it.
    ///
    /// # Errors
    /// If nothing could be recorded.
    pub fn finish(self) -> Result<T, RecordError> {
        self.enough.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Err(RecordError::Ended))
    }
}
