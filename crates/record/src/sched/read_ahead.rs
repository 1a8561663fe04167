//! Files that stacks lie in are read while the program runs: inflating debug information takes longer than all the rest that
//! naming needs, and so is over when the program ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::process::setpriority_process;
use rustix::thread::gettid;

use super::mapped_file::{MappedFile, MappedFiles};
use super::module::{ReadFile, ReadFiles};
use super::place::{FileId, Place};

/// The program's threads come first where CPUs are short.
const NICENESS: i32 = 10;

/// Reads files in a thread of its own.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Places that were looked at.
    seen: usize,
    wanted: HashSet<FileId>,
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    files: Sender<MappedFile>,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<ReadFiles>,
}

impl Reader {
    /// None where there may be no more threads.
    fn start() -> Option<Self> {
        let (files, wanted) = channel::<MappedFile>();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let thread = thread::Builder::new().spawn(move || {
            // Without it everything works as well.
            let _ = setpriority_process(Some(gettid()), NICENESS);
            let unread = wanted.into_iter().take_while(|_| !over.load(Ordering::Relaxed));
            unread.map(|file| (file.key(), ReadFile::with_lines(&file))).collect()
        });
        Some(Self { files, ended, thread: thread.ok()? })
    }
}

impl ReadAhead {
    /// All files that these places lie in will be named.
    pub fn look(&mut self, places: &[Place], files: &MappedFiles) {
        for place in places.get(self.seen..).unwrap_or_default() {
            if let Place::File { file, .. } = *place
                && self.wanted.insert(file)
            {
                if self.reader.is_none() {
                    self.reader = Reader::start();
                }
                // One that has died reads no more: naming does it.
                let _ = self.reader.as_ref().map(|reader| reader.files.send(files.get(file).clone()));
            }
        }
        self.seen = places.len();
    }

    /// The files that were read. One that is being read is waited for, the others are left.
    pub fn finish(&mut self) -> ReadFiles {
        let Some(Reader { files, ended, thread }) = self.reader.take() else { return ReadFiles::default() };
        ended.store(true, Ordering::Relaxed);
        drop(files);
        thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The program itself, which has lines.
    #[test]
    fn what_was_read_needs_no_second_look() {
        let own = std::process::id().cast_signed();
        let path = std::env::current_exe().unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        let mut files = MappedFiles::default();
        let file = files.number(own, path.to_str().unwrap(), 0, inode);
        let read = |patience: u64| {
            let mut ahead = ReadAhead::default();
            assert!(ahead.finish().is_empty(), "nothing was wanted");
            ahead.look(&[Place::File { file, offset: 0, returns: false }], &files);
            thread::sleep(Duration::from_millis(patience));
            ahead.finish()
        };
        // What was not begun is left.
        let found = (0..1000).map(read).find(|read| !read.is_empty()).expect("it is read");
        let read = &found[&files.get(file).key()];
        assert!(read.object.is_some() && read.lines.is_some());
    }
}
