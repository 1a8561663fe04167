//! Seizing the threads of a process, none of which is disturbed by that, while it goes on to make new ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::check::{explain_permission, own_thread, traced};
use crate::error::AttachError;
use crate::process::{Status, is_gone, threads};
use crate::ptrace;
use crate::stop::Which;
use crate::target::Target;

/// So often a thread is asked for again that is refused although nobody traces it.
const SEIZURES: u32 = 10;
/// How long a thread is sought that can be seized before it ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// Listings of the threads, one after the other.
///
/// One that ended before it was seized may have made another one, so it is not enough that none could be seized. And a
/// listing leaves threads out while others end: the kernel goes on by their number then. Who ends is in one listing only.
pub struct Listings<'a> {
    target: &'a Target,
    which: Which,
    seen: Seen,
    deadline: Instant,
}

impl<'a> Listings<'a> {
    pub fn of(target: &'a Target, which: Which) -> Self {
        Listings { target, which, seen: Seen::default(), deadline: Instant::now() + PATIENCE }
    }

    /// Seizes all threads but those that are `held`, and notes them in `seized`, with whether they were ours already; none if
    /// all others have ended.
    ///
    /// # Errors
    /// If one can't be seized: those that are noted were.
    pub fn seize(&mut self, held: impl Fn(i32) -> bool, seized: &mut Vec<(i32, bool)>) -> Result<(), AttachError> {
        let (target, pid) = (self.target, self.target.pid());
        loop {
            let found = match self.which {
                Which::All => threads(pid),
                Which::One(tid) => vec![tid],
            };
            let mut new = self.seen.new_in(found);
            if new.is_empty() && self.seen.all() {
                return Ok(());
            }
            new.retain(|&tid| !held(tid));
            for tid in &new {
                if let Some(kept) = seize(pid, *tid, target.is_kept(), self.which)? {
                    seized.push((*tid, kept));
                }
            }
            if let (Some(tid), true) = (new.first(), Instant::now() > self.deadline) {
                let wait = "threads of the process begin and end faster than they are seized".to_owned();
                return Err(AttachError::Unstoppable { pid, tid: *tid, wait });
            }
        }
    }
}

/// What was listed.
#[derive(Default)]
struct Seen {
    last: Vec<i32>,
    known: BTreeSet<i32>,
    equal: bool,
}

impl Seen {
    /// Threads in `found` that were in none before.
    fn new_in(&mut self, found: Vec<i32>) -> Vec<i32> {
        self.equal = found == self.last;
        let new = found.iter().copied().filter(|tid| self.known.insert(*tid)).collect();
        self.last = found;
        new
    }

    /// Whether the last listing, if it had none that is new, had all.
    fn all(&self) -> bool {
        self.equal
    }
}

/// Seizes a thread: `Some(true)` if it was ours already, `None` if it is ending.
fn seize(pid: i32, tid: i32, ours: bool, which: Which) -> Result<Option<bool>, AttachError> {
    if ours && Status::read(tid).is_ok_and(|s| s.tracer == own_thread()) {
        return Ok(Some(true));
    }
    // A thread that is born of a single held one is no matter of ours.
    let options = if which == Which::All { ptrace::SEIZED } else { ptrace::TRACE_SYSTEM_CALLS_MARKED };
    let mut tries = SEIZURES;
    loop {
        return match ptrace::seize(tid, options).map_err(|e| e.raw_os_error()) {
            Ok(()) => Ok(Some(false)),
            Err(Some(libc::ESRCH)) => Ok(None),
            Err(_) => match Status::read(tid) {
                Err(error) if is_gone(&error) => Ok(None),
                Err(error) => Err(AttachError::system(pid, "read the status")(error)),
                Ok(status) if matches!(status.state, 'Z' | 'X') => Ok(None),
                // Left over from an attempt that could not wait for it, or born of a thread that we have seized.
                Ok(status) if status.tracer == own_thread() => Ok(Some(ours)),
                Ok(status) if status.tracer != 0 => Err(traced(pid, status.tracer)),
                // Whoever had it when we asked may have let go of it since.
                Ok(_) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                Ok(_) => Err(explain_permission(pid, "PTRACE_SEIZE")),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_could_not_be_seized_may_have_made_another_one() {
        let mut seen = Seen::default();
        assert_eq!(seen.new_in(vec![1, 2]), [1, 2]);
        assert_eq!(seen.new_in(vec![1, 3]), [3], "2 has ended and made 3");
        assert!(seen.new_in(vec![1, 3]).is_empty() && seen.all());
    }

    /// 2 ends while it is being listed: the kernel goes on with the third of those that are left.
    #[test]
    fn a_listing_leaves_threads_out_while_others_end() {
        let mut seen = Seen::default();
        assert_eq!(seen.new_in(vec![1, 2, 4]), [1, 2, 4]);
        assert_eq!(seen.new_in(vec![1, 3, 4]), [3]);
        assert!(seen.new_in(vec![1, 4]).is_empty() && !seen.all());
        assert!(seen.new_in(vec![1, 4]).is_empty() && seen.all());
    }
}
