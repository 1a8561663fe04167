//! Tables by which the kernel's programs unwind user stacks: `.eh_frame` of all objects that the processes map, in maps
//! that `bpf/unwind.bpf.h` reads. A thread of its own keeps them up to date, by stores into the maps' memory.

mod address_space;
mod extents;
mod file_tables;
mod keeper;
mod layout;
mod needed_objects;
mod object_image;
mod object_rows;
mod object_table;
mod process_code;
mod process_slots;
#[cfg(test)]
mod readelf_tests;
mod row_cache;
mod rule;
mod shared_memory;
mod statistics;

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::MapHandle;

pub use statistics::{UnwindRefusal, UnwindStatistics};

use address_space::AddressSpaces;
use file_tables::FileTables;
use keeper::{Keeper, Request};
use object_table::ObjectTables;
use process_slots::ProcessSlots;
use shared_memory::SharedMemory;

/// Reads the rows of any file.
#[cfg(feature = "fuzzing")]
pub fn fuzz(file: &std::fs::File) {
    if let Ok(image) = object_image::ObjectImage::of_file(file) {
        object_rows::read_rows(&image.sections);
    }
}

#[cfg(feature = "fuzzing")]
pub use row_cache::fuzz as fuzz_row_cache;

/// The maps of `bpf/unwind.bpf.h`, by their names there without `unwind_`.
#[derive(Debug)]
pub struct UnwindMaps {
    /// Index and rows of all objects.
    pub words: MapHandle,
    /// Lists of mappings.
    pub mappings: MapHandle,
    /// Distinct rules.
    pub rules: MapHandle,
    /// Rules found lately.
    pub cache: MapHandle,
    /// Processes.
    pub spaces: MapHandle,
    /// Files that have a table.
    pub files: MapHandle,
}

/// Why there can be no tables.
#[derive(Debug, thiserror::Error)]
pub enum UnwindTableError {
    /// A map's size is not what this library was built for.
    #[error("map {map} of the unwind tables has another layout than expected")]
    Layout {
        /// The map.
        map: String,
    },
    /// A map's memory cannot be mapped.
    #[error("cannot map the memory of {map}")]
    Map {
        /// The map.
        map: String,
        /// What the kernel says.
        source: rustix::io::Errno,
    },
    /// The thread that keeps the tables cannot be started.
    #[error("cannot start the thread that keeps unwind tables")]
    Thread(#[source] std::io::Error),
}

/// Keeps the tables of the processes that are registered with it. Nothing here blocks but [`UnwindTables::wait_idle`].
///
/// It needs no privilege but to read the processes' `/proc` files (the same user's, or `CAP_SYS_PTRACE`). Its thread has
/// the capabilities of the one that makes it: make it after dropping them.
#[derive(Debug)]
pub struct UnwindTables {
    requests: Option<Sender<Request>>,
    keeper: Option<JoinHandle<()>>,
    statistics: Arc<Mutex<UnwindStatistics>>,
}

impl UnwindTables {
    /// Maps the maps' memory and starts the thread.
    ///
    /// # Errors
    /// [`UnwindTableError`]: the maps are not those of `unwind.bpf.h`, or memory or threads are short.
    pub fn new(maps: UnwindMaps) -> Result<Self, UnwindTableError> {
        let words = SharedMemory::map(&maps.words, layout::WORDS / 2, 8)?;
        let mappings = SharedMemory::map(&maps.mappings, layout::MAPPINGS, size_of::<layout::Mapping>() as u32)?;
        let rules = SharedMemory::map(&maps.rules, layout::RULES, 8)?;
        let cache = SharedMemory::map(&maps.cache, layout::CACHE_SLOTS, 8)?;
        let spaces = SharedMemory::map(&maps.spaces, layout::BUCKETS, layout::BUCKET_SLOTS * 8)?;
        let published = ProcessSlots::new(spaces);
        let (tables, spaces) =
            (ObjectTables::new(words, rules, FileTables::new(maps.files)), AddressSpaces::new(mappings, cache));
        let statistics = Arc::new(Mutex::new(UnwindStatistics::default()));
        let keeper = Keeper::new(tables, spaces, published, Arc::clone(&statistics));
        let (requests, receiver) = channel();
        let thread = thread::Builder::new().name("unwind-tables".to_owned());
        let keeper = thread.spawn(move || keeper.run(&receiver)).map_err(UnwindTableError::Thread)?;
        Ok(Self { requests: Some(requests), keeper: Some(keeper), statistics })
    }

    /// The program is about to be started: reads what it will map, so that it can be unwound from its first millisecond.
    pub fn prepare_program(&self, program: &Path) {
        self.request(Request::Prepare(program.to_owned()));
    }

    /// The process is to be unwound: it was there before, or runs another program now.
    pub fn add_process(&self, tgid: i32) {
        self.request(Request::Add(tgid));
    }

    /// `child` came from `parent` by fork: it has the same mappings, as `unwind_fork` told the kernel's programs.
    pub fn process_forked(&self, parent: i32, child: i32) {
        self.request(Request::Forked { parent, child });
    }

    /// The process runs code that no known mapping covers. Repeated calls are held back.
    pub fn process_changed(&self, tgid: i32) {
        self.request(Request::Changed(tgid));
    }

    /// Some process has mapped the code of the file at `path`: its table is made, so that the walk finds it even in
    /// processes that end before they are looked at.
    pub fn file_mapped(&self, path: &Path) {
        self.request(Request::Mapped(path.to_owned()));
    }

    /// The process is gone.
    pub fn remove_process(&self, tgid: i32) {
        self.request(Request::Remove(tgid));
    }

    /// Waits until all that was asked is done, or `timeout` is over. Returns whether it is done.
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        let (sender, done) = channel();
        self.request(Request::Answer(sender));
        done.recv_timeout(timeout).is_ok()
    }

    /// What the tables hold now.
    pub fn statistics(&self) -> UnwindStatistics {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn request(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The thread ends only when this is dropped.
            let _ = requests.send(request);
        }
    }
}

impl Drop for UnwindTables {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}
