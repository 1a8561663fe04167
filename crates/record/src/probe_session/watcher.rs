//! Wakes the controller when the loader of a process reports new objects, for its thread waits until we have looked.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use transect_attach::Arena;
use transect_event_abi::probe_arena::ProbeHeader;

const PAGE: usize = 4096;
/// How often the thread looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(200);

/// Until a thread that was about to sleep has come to that.
const BETWEEN_WAKES: Duration = Duration::from_micros(50);

/// A thread that waits for loader events; ends when dropped.
#[derive(Debug)]
pub struct LoaderWatcher {
    over: Arc<AtomicBool>,
    page: Arc<Page>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Page(*mut u8);
// SAFETY: the mapping lives as long as the value, and of it only an atomic is used.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(file: &File) -> io::Result<Page> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping of a file that nobody shortens.
        let page = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE, protection, flags, file, 0) }?;
        Ok(Page(page.cast()))
    }

    fn events(&self) -> &AtomicU32 {
        // SAFETY: the header's field, aligned, inside of the mapping, which lives as long as self.
        unsafe { &*self.0.add(offset_of!(ProbeHeader, loader_events)).cast::<AtomicU32>() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: made by `map`, and no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.0.cast(), PAGE) };
    }
}

impl LoaderWatcher {
    /// Calls `wake` from a thread of its own whenever the loader has raised its count.
    ///
    /// # Errors
    /// If memory or a thread can't be had.
    pub fn start(arena: &Arena, wake: impl Fn() + Send + 'static) -> io::Result<LoaderWatcher> {
        let page = Arc::new(Page::map(arena.file())?);
        let watched = page.clone();
        let over = Arc::new(AtomicBool::new(false));
        let flag = over.clone();
        let thread = std::thread::Builder::new().name("loader-watcher".to_owned()).spawn(move || {
            let page = watched;
            let mut seen = page.events().load(Ordering::Acquire);
            while !flag.load(Ordering::Relaxed) {
                let timeout = rustix::fs::Timespec { tv_sec: 0, tv_nsec: PATIENCE.as_nanos() as i64 };
                let _ = futex::wait(page.events(), futex::Flags::empty(), seen, Some(&timeout));
                let now = page.events().load(Ordering::Acquire);
                if now != seen {
                    seen = now;
                    wake();
                }
            }
        })?;
        Ok(LoaderWatcher { over, page, thread: Some(thread) })
    }
}

impl Drop for LoaderWatcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Its mapping keeps the arena's lock: the next controller would find the probes in use.
        while let Some(thread) = self.thread.take_if(|thread| !thread.is_finished()) {
            let _ = futex::wake(self.page.events(), futex::Flags::empty(), u32::MAX);
            std::thread::sleep(BETWEEN_WAKES);
            self.thread = Some(thread);
        }
    }
}

const _: () = assert!(offset_of!(ProbeHeader, loader_events) < PAGE);
