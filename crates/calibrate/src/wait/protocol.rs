//! The published protocol for a site that straddles a cache line, with its waits as a parameter.
//!
//! The site's bytes lie in two words, the *front* at the end of one line and the *tail* at the begin of the next.
//! ("Living on the Edge", PLDI '16, section 3: T_max is the time after which no CPU is believed to hold stale
//! bytes.)
//!
//! ```text
//! 1  store byte   [site]  = CC             who comes here now traps, and goes on
//! 2  wait T
//! 3  store 8      [tail]  = tail of new    aligned
//! 4  wait T
//! 5  store 8      [front] = front of new   aligned
//! ```
//!
//! What can go wrong: a CPU has fetched the old front before 1, and gets the tail after 3. Nothing bounds the
//! time in between; a miss in all caches makes it long. With a serialization of all threads in place of each wait there
//! is no such CPU.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use transect_text_patch::{Refusal, form, serialize};

use crate::clock;

/// What happens between the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// A wait of so many ticks.
    Ticks(u64),
    /// `membarrier(SYNC_CORE)`.
    Serialize,
}

impl Pause {
    fn take(self) -> Result<(), Refusal> {
        match self {
            Pause::Ticks(ticks) => {
                let start = clock::ticks();
                while clock::ticks().wrapping_sub(start) < ticks {}
                Ok(())
            }
            Pause::Serialize => serialize::serialize_all(),
        }
    }
}

/// A form of a site: the two words that hold it, the rest of them included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The word at the end of the first line.
    pub front: u64,
    /// The word at the begin of the second.
    pub tail: u64,
}

/// A site under test, as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// First byte.
    pub first: &'a AtomicU8,
    /// The word with the front.
    pub front: &'a AtomicU64,
    /// The word with the tail.
    pub tail: &'a AtomicU64,
    /// Whether the site straddles. If not, one store of the front changes it.
    pub straddles: bool,
}

impl Place<'_> {
    /// Changes the site.
    ///
    /// # Errors
    /// If the kernel refuses to serialize.
    pub fn change(&self, new: Words, pause: Pause) -> Result<(), Refusal> {
        if self.straddles {
            self.first.store(form::INT3, Ordering::Release);
            pause.take()?;
            self.tail.store(new.tail, Ordering::Release);
            pause.take()?;
        }
        self.front.store(new.front, Ordering::Release);
        Ok(())
    }
}
