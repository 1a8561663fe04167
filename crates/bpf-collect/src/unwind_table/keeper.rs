//! The thread that reads processes' mappings and objects and writes the tables.
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::address_space::AddressSpaces;
use super::layout::Mapping;
use super::needed_objects;
use super::object_image::{ImageError, ObjectImage};
use super::object_table::{ObjectNumber, ObjectState, ObjectTables, ReadObject};
use super::process_code::{self, CodeMapping, FileKey, Mapped};
use super::process_slots::ProcessSlots;
use super::row_cache::RowCache;
use super::statistics::{Refused, UnwindStatistics};

/// What the thread is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// The program will be started.
    Prepare(PathBuf),
    /// Some process has mapped the code of this file.
    Mapped(PathBuf),
    /// The process is new, or runs another program.
    Add(i32),
    /// `child` came from `parent` by fork.
    Forked { parent: i32, child: i32 },
    /// The process has code that no mapping covers.
    Changed(i32),
    /// The process is gone.
    Remove(i32),
    /// Answer when all that was asked before is done.
    Answer(Sender<()>),
}

/// A process that has a list, or will.
#[derive(Debug)]
struct Process {
    list: Option<u32>,
    scanned: Instant,
    /// Unknown code is looked for again no sooner than this after the last time.
    pause: Duration,
    /// A look that had to wait.
    due: bool,
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Before a new object of this many bytes is read, the process is given what is known already.
const LARGE: u64 = 2 << 20;
/// Threads that read what a program will map, before it starts.
const MOST_READERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Keeper {
    tables: ObjectTables,
    cache: Arc<RowCache>,
    spaces: AddressSpaces,
    published: ProcessSlots,
    processes: HashMap<i32, Process>,
    files: HashMap<FileKey, ObjectNumber>,
    vdso: Option<ObjectNumber>,
    /// Objects that were read from memory, by device, inode and path as `maps` tells them.
    unreachable: HashMap<Mapped, ObjectNumber>,
    scans: u64,
    refused: Refused,
    statistics: Arc<Mutex<UnwindStatistics>>,
}

/// An executable mapping and the object that it shows.
struct Resolved<'m> {
    mapping: &'m CodeMapping,
    object: Option<ObjectNumber>,
    /// Not read yet: its file.
    file: Option<(FileKey, String)>,
}

impl Keeper {
    pub fn new(
        tables: ObjectTables,
        spaces: AddressSpaces,
        published: ProcessSlots,
        statistics: Arc<Mutex<UnwindStatistics>>,
    ) -> Self {
        Self {
            tables,
            cache: Arc::new(RowCache::of_user()),
            spaces,
            published,
            processes: HashMap::new(),
            files: HashMap::new(),
            vdso: None,
            unreachable: HashMap::new(),
            scans: 0,
            refused: Refused::default(),
            statistics,
        }
    }

    /// Does what is asked until nobody can ask any more.
    pub fn run(mut self, requests: &Receiver<Request>) {
        loop {
            let request = match self.next_due() {
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => requests.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match request {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => self.look_again(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tell();
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Prepare(program) => self.prepare(&program),
            Request::Mapped(path) => {
                if let Some(key) = FileKey::of_file(&path).filter(|key| !self.files.contains_key(key)) {
                    let path = path.to_string_lossy();
                    self.read_file(key, &path, &path);
                }
            }
            Request::Add(tgid) => self.scan(tgid, Duration::ZERO),
            Request::Forked { parent, child } => {
                let list = self.processes.get(&parent).and_then(|process| process.list);
                match list {
                    Some(list) if !self.processes.contains_key(&child) => {
                        self.spaces.share(list);
                        let (scanned, pause) = (Instant::now(), Duration::ZERO);
                        let process = Process { list: Some(list), scanned, pause, due: false };
                        self.processes.insert(child, process);
                    }
                    Some(_) => {}
                    None => self.scan(child, Duration::ZERO),
                }
            }
            Request::Changed(tgid) => match self.processes.get_mut(&tgid) {
                Some(process) => {
                    process.due = true;
                    self.look_again();
                }
                None => self.scan(tgid, Duration::ZERO),
            },
            Request::Remove(tgid) => {
                let list = self.processes.remove(&tgid).and_then(|process| process.list);
                self.published.clear(tgid);
                if let Some(list) = list {
                    self.spaces.release(list, &mut self.tables);
                }
            }
            Request::Answer(sender) => {
                self.tell();
                let _ = sender.send(());
            }
        }
    }

    /// Reads what `program` needs and is not known, in several threads, small objects first: the C library is one of them.
    fn prepare(&mut self, program: &Path) {
        let objects = needed_objects::of_program(program).into_iter();
        let mut unread: Vec<_> = objects.filter_map(|path| Some((FileKey::of_file(&path)?, path))).collect();
        unread.retain(|(key, _)| !self.files.contains_key(key));
        unread.sort_by_key(|(key, _)| key.size);
        let (next, cache) = (AtomicUsize::new(0), Arc::clone(&self.cache));
        let (sender, read) = channel();
        let work = |sender: Sender<_>| {
            while let Some((key, path)) = unread.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (began, path) = (Instant::now(), path.to_string_lossy());
                let object = ReadObject::of_file(&path, &cache);
                let _ = sender.send((*key, path, object, began.elapsed()));
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS) {
                let sender = sender.clone();
                // Without another thread this one finds the objects as the program maps them.
                let _ = thread::Builder::new().name("unwind-tables".to_owned()).spawn_scoped(scope, || work(sender));
            }
            drop(sender);
            for (key, path, object, took) in read {
                self.put_file(key, &path, object, took);
            }
        });
    }

    fn next_due(&self) -> Option<Instant> {
        self.processes.values().filter(|process| process.due).map(|process| process.scanned + process.pause).min()
    }

    /// Scans the processes whose pause is over.
    fn look_again(&mut self) {
        let now = Instant::now();
        let due = self.processes.iter().filter(|(_, p)| p.due && p.scanned + p.pause <= now);
        let due: Vec<_> = due.map(|(&tgid, process)| (tgid, process.list, process.pause)).collect();
        for (tgid, before, pause) in due {
            self.scan(tgid, SHORTEST_PAUSE);
            if let Some(process) = self.processes.get_mut(&tgid)
                && process.list == before
            {
                // Nothing new: code outside of all mappings, or a wrong guess of the walk.
                process.pause = (pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            }
        }
    }

    /// Reads the mappings of `tgid` and publishes them.
    fn scan(&mut self, tgid: i32, pause: Duration) {
        self.scans += 1;
        let mut mappings = process_code::read(tgid).unwrap_or_default();
        // While objects are read the process may run another program.
        for _ in 0..3 {
            if mappings.is_empty() {
                // Gone, or not ours to look at.
                self.refused.count("mappings cannot be read", &tgid.to_string());
                return;
            }
            let read_some = self.publish(tgid, &mappings, pause);
            if !read_some {
                return;
            }
            let now = process_code::read(tgid).unwrap_or_default();
            if now == mappings {
                return;
            }
            mappings = now;
        }
    }

    /// Reads the objects of `mappings` that are not known and publishes the list. Returns whether that took long.
    fn publish(&mut self, tgid: i32, mappings: &[CodeMapping], pause: Duration) -> bool {
        let mut resolved: Vec<Resolved<'_>> = mappings.iter().map(|mapping| self.find(tgid, mapping)).collect();
        let size = |resolved: &Resolved<'_>| resolved.file.as_ref().map_or(0, |(key, _)| key.size);
        let unread: u64 = resolved.iter().map(size).sum();
        let mut order: Vec<usize> = (0..resolved.len()).collect();
        order.sort_by_key(|&i| size(&resolved[i]));
        for i in order {
            if size(&resolved[i]) >= LARGE {
                // This one takes a while: until then the process has what is known.
                self.put(tgid, &resolved, pause);
            }
            if let Some((key, path)) = resolved[i].file.take() {
                let name = match &resolved[i].mapping.mapped {
                    Mapped::File { path, .. } => path,
                    _ => &path,
                };
                resolved[i].object = Some(self.read_file(key, &path, name));
            }
        }
        self.put(tgid, &resolved, pause);
        unread > 0
    }

    /// The object of a mapping if it is known, or the file to read it from.
    fn find<'m>(&mut self, tgid: i32, mapping: &'m CodeMapping) -> Resolved<'m> {
        let none = Resolved { mapping, object: None, file: None };
        match &mapping.mapped {
            Mapped::Anonymous => none,
            Mapped::Vdso => {
                // The same code in all processes.
                let object = self.vdso.unwrap_or_else(|| self.read_memory(tgid, mapping.start, "[vdso]"));
                self.vdso = Some(object);
                Resolved { object: Some(object), ..none }
            }
            Mapped::File { path, .. } => {
                let Some((key, place)) = mapping.file(tgid) else {
                    let known = self.unreachable.get(&mapping.mapped).copied();
                    let object =
                        known.unwrap_or_else(|| self.read_memory(tgid, mapping.head.unwrap_or(mapping.start), path));
                    self.unreachable.insert(mapping.mapped.clone(), object);
                    return Resolved { object: Some(object), ..none };
                };
                match self.files.get(&key) {
                    Some(&object) if !self.tables.may_fit_now(object) => Resolved { object: Some(object), ..none },
                    _ => Resolved { file: Some((key, place)), ..none },
                }
            }
        }
    }

    /// Reads the file at `place`, which the process knows as `name`.
    fn read_file(&mut self, key: FileKey, place: &str, name: &str) -> ObjectNumber {
        let began = Instant::now();
        let object = ReadObject::of_file(place, &self.cache);
        self.put_file(key, name, object, began.elapsed())
    }

    fn put_file(
        &mut self,
        key: FileKey,
        name: &str,
        read: Result<ReadObject, ImageError>,
        took: Duration,
    ) -> ObjectNumber {
        let object = match (self.files.get(&key).copied(), read) {
            // Twice in one process, or again since there was no room.
            (Some(object), Ok(read)) => {
                self.tables.fill(object, read);
                object
            }
            (Some(object), Err(_)) => object,
            (None, read) => self.tables.add(name, read, took),
        };
        self.files.insert(key, object);
        self.tables.name_file(&key, object);
        object
    }

    fn read_memory(&mut self, tgid: i32, start: u64, name: &str) -> ObjectNumber {
        let began = Instant::now();
        let memory = process_code::memory(tgid).map_err(ImageError::from);
        let image = memory.and_then(|memory| ObjectImage::of_memory(&memory, start));
        self.tables.add(name, image.map(|image| ReadObject::of(image, &self.cache)), began.elapsed())
    }

    /// Gives the process its list.
    fn put(&mut self, tgid: i32, resolved: &[Resolved<'_>], pause: Duration) {
        let mut mappings = Vec::with_capacity(resolved.len());
        for Resolved { mapping, object, .. } in resolved {
            // Longer than 4 GiB: only reservations of run-time code are, in parts.
            let mut start = mapping.start;
            while start < mapping.end {
                let length = u32::try_from(mapping.end - start).unwrap_or(!0xfff);
                let none = Mapping { start, length, offset: 0, index: 0, groups: 0 };
                let file_offset = mapping.file_offset + (start - mapping.start);
                mappings.push(object.map_or(none, |object| self.tables.mapping(object, start, length, file_offset)));
                start += u64::from(length);
            }
        }
        let objects = resolved.iter().filter_map(|resolved| resolved.object).collect();
        let list = self.spaces.take(mappings, objects, &mut self.tables);
        let before = self.processes.get(&tgid).and_then(|process| process.list);
        match list.and_then(|list| self.spaces.packed(list, tgid)) {
            Some(packed) => {
                if !self.published.set(tgid, packed) {
                    self.refused.count("too many processes", &tgid.to_string());
                }
            }
            None => {
                self.refused.count("too many mappings", &tgid.to_string());
                self.published.clear(tgid);
            }
        }
        // After the new one is in force.
        if let Some(before) = before {
            self.spaces.release(before, &mut self.tables);
        }
        self.processes.insert(tgid, Process { list, scanned: Instant::now(), pause, due: false });
    }

    fn tell(&mut self) {
        let mut refused = self.refused.clone();
        let (mut objects, mut rows) = (0, 0);
        for object in self.tables.iter() {
            match &object.state {
                ObjectState::Table(place) => {
                    objects += 1;
                    rows += u64::from(place.rows);
                }
                ObjectState::NoRoom { .. } => refused.count("no room for the table", &object.name),
                ObjectState::Refused(reason) => refused.count(&reason.to_string(), &object.name),
            }
        }
        let told = UnwindStatistics {
            processes: self.processes.len() as u64,
            lists: self.spaces.lists() as u64,
            mappings: u64::from(self.spaces.mappings_used()),
            objects,
            rows,
            table_bytes: u64::from(self.tables.words_used()) * 4,
            rules: self.tables.rules() as u64,
            rules_refused: self.tables.rules_refused,
            scans: self.scans,
            slowest_object: self.tables.slowest.clone(),
            refused: refused.into_list(),
        };
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }
}
