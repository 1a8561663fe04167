//! What a thread waits for, in plain words.

use transect_profile_model::WaitKind;

/// Kind and object of `file-sync: access.log`; no kind where the first word names none.
pub(crate) fn kind_and_object(waiting_for: &str) -> (Option<WaitKind>, &str) {
    let (word, object) = waiting_for.split_once(':').unwrap_or((waiting_for, ""));
    match WaitKind::ALL.into_iter().find(|kind| kind.as_str() == word.trim()) {
        Some(kind) => (Some(kind), object.trim()),
        None => (None, waiting_for),
    }
}

/// `the disk (file-sync of access.log)`: what the kind means, and the object.
pub(crate) fn waiting_in_words(waiting_for: &str) -> String {
    let (kind, object) = kind_and_object(waiting_for);
    match (kind.map(meaning), object) {
        (Some(meaning), "") => meaning.to_owned(),
        (Some(meaning), object) => format!("{meaning}: {object}"),
        (None, "") => "something that was not seen".to_owned(),
        (None, object) => object.to_owned(),
    }
}

/// What a wait of this kind is for.
fn meaning(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Mutex => "a mutex that another thread holds",
        WaitKind::Rwlock => "a reader-writer lock",
        WaitKind::Condition => "a condition that another thread signals",
        WaitKind::Barrier => "the other threads at a barrier",
        WaitKind::Semaphore => "a semaphore",
        WaitKind::Join => "another thread to end",
        WaitKind::Futex => "another thread (futex)",
        WaitKind::Spin => "another thread, in a loop",
        WaitKind::Sleep => "a time that it set itself (sleep)",
        WaitKind::FileRead => "the disk (reading a file)",
        WaitKind::FileWrite => "the disk (writing a file)",
        WaitKind::FileSync => "the disk (file sync)",
        WaitKind::Socket => "a socket",
        WaitKind::Pipe => "the other end of a pipe",
        WaitKind::Poll => "one of its files to become ready (poll)",
        WaitKind::Child => "a child process",
        WaitKind::PageFault => "a page of memory to be read in (page fault)",
        WaitKind::RunQueue => "a CPU (runnable, others had it)",
        WaitKind::KernelLock => "a lock in the kernel",
        WaitKind::Signal => "a signal",
        WaitKind::Other => "something in the kernel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_words_and_the_rest_stays() {
        assert_eq!(waiting_in_words("file-sync: access.log"), "the disk (file sync): access.log");
        assert_eq!(waiting_in_words("sleep"), "a time that it set itself (sleep)");
        assert_eq!(waiting_in_words("pipe: pipe:[1234]"), "the other end of a pipe: pipe:[1234]");
        assert_eq!(waiting_in_words("the moon: full"), "the moon: full");
        assert_eq!(waiting_in_words(""), "something that was not seen");
    }
}
