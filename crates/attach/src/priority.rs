//! First in line for a processor while threads of another process stand and wait for us.

/// Gives this thread its priority back when dropped.
#[derive(Debug)]
pub struct Urgent {
    before: i32,
}

const HIGHEST: i32 = -20;

impl Urgent {
    /// The highest ordinary priority for this thread; `None` without the privilege for it. (Real-time scheduling would
    /// be worse: woken before the reporting thread has left its processor, the kernel makes the tracer sleep a tick.)
    pub fn begin() -> Option<Urgent> {
        let before = rustix::process::getpriority_process(None).ok()?;
        rustix::process::setpriority_process(None, HIGHEST).ok()?;
        Some(Urgent { before })
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
    }
}
