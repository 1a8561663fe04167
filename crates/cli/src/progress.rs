//! A line on the terminal for work that takes longer than half a second.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long work may take before it is worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows what is being done until dropped; nothing if it takes less than half a second or stderr is no terminal.
#[derive(Debug)]
pub struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins `work`, named as in "reading p.transect".
    pub fn start(work: impl Into<String>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { running: None };
        }
        let work = work.into();
        let (done, waiting) = channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || {
            if waiting.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let line = indicatif::ProgressBar::new_spinner().with_message(work);
            line.set_style(
                indicatif::ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
                    .unwrap_or_else(|_| indicatif::ProgressStyle::default_spinner()),
            );
            line.enable_steady_tick(Duration::from_millis(100));
            let _ = waiting.recv();
            line.finish_and_clear();
        });
        Self { running: thread.ok().map(|thread| (done, thread)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.running.take() {
            drop(done);
            let _ = thread.join();
        }
    }
}
