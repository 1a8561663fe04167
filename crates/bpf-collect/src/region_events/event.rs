//! What the programs tell.

const KIND_SHIFT: u32 = 62;
pub(super) const TASK: u64 = 3;
const SIZE: usize = 32;

/// An event of a followed process; numbers are those of the recorder's pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelEvent {
    /// A site was met.
    Site {
        /// ns of `CLOCK_MONOTONIC`.
        time: u64,
        /// Kind in the two highest bits, as it was watched with, below it the site's address.
        what: u64,
        /// Stack pointer.
        stack: u64,
        /// Process.
        tgid: i32,
        /// Thread.
        tid: i32,
    },
    /// A thread or process began, changed or ended.
    Task {
        /// ns of `CLOCK_MONOTONIC`.
        time: u64,
        /// What happened.
        change: TaskChange,
        /// Process.
        tgid: i32,
        /// Thread; of a new process, that of its parent.
        tid: i32,
    },
}

/// What happened to a thread or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskChange {
    /// It is a new process; the thread is the one that made it.
    Forked {
        /// Who made it.
        parent: i32,
    },
    /// It is a new thread.
    Began,
    /// The process runs another program.
    Replaced,
    /// The thread has ended.
    Ended,
    /// The process has ended, with its last thread.
    ProcessEnded,
    /// The loader changes what is mapped.
    Loaded,
}

impl KernelEvent {
    /// Reads `struct region_event`.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.first_chunk()?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        let (time, what, stack, tgid, tid) = (word(0), word(8), word(16), number(24), number(28));
        if what >> KIND_SHIFT != TASK {
            return Some(Self::Site { time, what, stack, tgid, tid });
        }
        let change = match what & !(TASK << KIND_SHIFT) {
            1 => TaskChange::Forked { parent: stack as i32 },
            2 => TaskChange::Began,
            3 => TaskChange::Replaced,
            4 => TaskChange::Ended,
            5 => TaskChange::ProcessEnded,
            6 => TaskChange::Loaded,
            _ => return None,
        };
        Some(Self::Task { time, change, tgid, tid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(what: u64) -> Vec<u8> {
        let words = [7, what, 0x55_u64].into_iter().flat_map(u64::to_ne_bytes);
        words.chain([10_i32, 11].into_iter().flat_map(i32::to_ne_bytes)).collect()
    }

    #[test]
    fn events_are_read() {
        let site = KernelEvent::Site { time: 7, what: 1 << 62 | 0x1234, stack: 0x55, tgid: 10, tid: 11 };
        assert_eq!(KernelEvent::decode(&bytes(1 << 62 | 0x1234)), Some(site));
        let forked = TaskChange::Forked { parent: 0x55 };
        let task = KernelEvent::Task { time: 7, change: forked, tgid: 10, tid: 11 };
        assert_eq!(KernelEvent::decode(&bytes(3 << 62 | 1)), Some(task));
        assert_eq!(KernelEvent::decode(&bytes(3 << 62 | 99)), None);
        assert_eq!(KernelEvent::decode(&bytes(0)[..31]), None);
    }
}
