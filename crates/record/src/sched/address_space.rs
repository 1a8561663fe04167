//! What the addresses of each process mean: its mappings, read while it lives.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use transect_bpf_collect::{CodeMapping, MappingChange, living_task};

use super::mapped_file::MappedFiles;
use super::mapping_log::MappingLog;
use super::perf_map::owner_of;
use super::place::{FileId, Place};

/// Mappings are read again when an address is in none of them, but not more often than this.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Ended processes whose mappings are kept, for records that come late.
const MAX_ENDED: usize = 64;

/// Part of a process' memory.
#[derive(Debug, Clone)]
struct Mapping {
    start: u64,
    end: u64,
    /// Where it begins in the file.
    offset: u64,
    file: Option<FileId>,
    executable: bool,
}

/// A process' memory.
#[derive(Debug, Clone)]
struct Space {
    mappings: Rc<[Mapping]>,
    read_at: Option<Instant>,
    /// Its program, empty if unknown.
    executable: Rc<str>,
}

/// All processes' memory, by process id as the initial pid namespace numbers them.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    spaces: HashMap<i32, Space>,
    log: MappingLog,
    ended: Vec<i32>,
    /// Programs of processes that are forgotten otherwise.
    programs: HashMap<i32, Rc<str>>,
    /// Users of processes with code without a file: only their own maps name it.
    pub owners: HashMap<i32, u32>,
    /// Addresses of processes that could not be looked at.
    pub unseen: u64,
}

impl AddressSpaces {
    /// The kernel tells of mappings there.
    pub fn follow(&mut self, log: MappingLog) {
        self.log = log;
    }

    /// A process was made by another, whose memory it shares at first.
    pub fn born(&mut self, tgid: i32, parent: i32, files: &mut MappedFiles) {
        self.log.collect();
        self.apply(parent, files);
        if let Some(space) = self.spaces.get(&parent) {
            let space = Space { read_at: None, ..space.clone() };
            self.spaces.insert(tgid, space);
        }
    }

    /// A process runs another program since `time`, ns of the monotonic clock.
    pub fn replaced(&mut self, tgid: i32, time: u64, files: &mut MappedFiles) {
        self.spaces.remove(&tgid);
        if !self.log.begin(tgid, time) || !self.apply(tgid, files) {
            self.read(tgid, files);
        }
    }

    /// A process was met that was there before, or has just been made the program to record.
    pub fn met(&mut self, tgid: i32, time: u64, files: &mut MappedFiles) {
        if self.log.begin(tgid, time) {
            self.spaces.remove(&tgid);
            self.apply(tgid, files);
        }
    }

    /// A process ended.
    pub fn ended(&mut self, tgid: i32) {
        self.ended.push(tgid);
    }

    /// The program that a process runs now, by who saw it begin.
    pub fn runs(&mut self, tgid: i32, program: &str) {
        self.programs.insert(tgid, Rc::from(program));
    }

    /// Path of a process' program, empty if it was never seen.
    pub fn executable(&mut self, tgid: i32, files: &mut MappedFiles) -> Rc<str> {
        if let Some(program) = self.programs.get(&tgid) {
            return Rc::clone(program);
        }
        if !self.spaces.contains_key(&tgid) {
            self.read(tgid, files);
        }
        self.spaces.get(&tgid).map_or_else(|| Rc::from(""), |space| Rc::clone(&space.executable))
    }

    /// Unwinding met an address: its mappings may be new.
    pub fn meet(&mut self, tgid: i32, address: u64, files: &mut MappedFiles) {
        self.mapping(tgid, address, files);
    }

    /// Forgets processes that ended a while ago.
    pub fn forget_ended(&mut self) {
        while self.ended.len() > MAX_ENDED {
            let oldest = self.ended.remove(0);
            // The number may be another process' by now.
            if !std::path::Path::new(&format!("/proc/{oldest}")).exists() {
                let space = self.spaces.remove(&oldest);
                self.programs.extend(space.map(|space| (oldest, space.executable)));
            }
        }
        self.log.collect();
        let spaces = &self.spaces;
        self.log.forget(|tgid| spaces.contains_key(&tgid));
    }

    /// What is at an address.
    pub fn place(&mut self, tgid: i32, address: u64, returns: bool, files: &mut MappedFiles) -> Place {
        match self.mapping(tgid, address, files) {
            Some(Mapping { start, offset, file: Some(file), .. }) => {
                Place::File { file, offset: address - start + offset, returns }
            }
            Some(_) => {
                self.note_owner(tgid);
                Place::Memory { tgid, address, returns }
            }
            None => {
                self.note_owner(tgid);
                self.unseen += 1;
                Place::Memory { tgid, address, returns }
            }
        }
    }

    fn note_owner(&mut self, tgid: i32) {
        if !self.owners.contains_key(&tgid)
            && let Some(owner) = owner_of(tgid)
        {
            self.owners.insert(tgid, owner);
        }
    }

    /// The file that is mapped at an address and the offset there. Most addresses of data lie in no file, so that
    /// nothing is read again for one that is not known.
    pub fn known_file(&mut self, tgid: i32, address: u64, files: &mut MappedFiles) -> Option<(FileId, u64)> {
        let mut found = self.spaces.get(&tgid).and_then(|space| space.find(address));
        // Of data the kernel does not tell.
        if found.is_none() && self.spaces.get(&tgid).is_none_or(|space| space.read_at.is_none()) {
            self.log.collect();
            self.apply(tgid, files);
            if !self.read(tgid, files) {
                self.add_data(tgid, files);
            }
            found = self.spaces.get(&tgid)?.find(address);
        }
        let mapping = found?;
        Some((mapping.file?, address - mapping.start + mapping.offset))
    }

    fn mapping(&mut self, tgid: i32, address: u64, files: &mut MappedFiles) -> Option<Mapping> {
        if let Some(found) = self.spaces.get(&tgid).and_then(|space| space.find(address)) {
            return Some(found);
        }
        self.log.collect();
        if self.apply(tgid, files)
            && let Some(found) = self.spaces.get(&tgid).and_then(|space| space.find(address))
        {
            return Some(found);
        }
        let due = self.spaces.get(&tgid).and_then(|space| space.read_at).is_none_or(|at| at.elapsed() >= READ_EVERY);
        if due {
            self.read(tgid, files);
        }
        self.spaces.get(&tgid)?.find(address)
    }

    /// Where data of a process lies that is gone, by where its code was.
    fn add_data(&mut self, tgid: i32, files: &mut MappedFiles) {
        let Some(space) = self.spaces.get_mut(&tgid) else { return };
        let mut mappings = space.mappings.to_vec();
        for code in space.mappings.iter().filter(|mapping| mapping.executable) {
            let Some(file) = code.file else { continue };
            for data in &*files.data_beside(file, code.offset) {
                let start = code.start.wrapping_add(data.distance);
                let Some(end) = start.checked_add(data.size) else { continue };
                if mappings.iter().all(|known| known.end <= start || end <= known.start) {
                    mappings.push(Mapping { start, end, offset: data.offset, file: Some(file), executable: false });
                }
            }
        }
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        space.mappings = mappings.into();
    }

    /// Reads the mappings of a process; if it is gone, what was known is kept. Returns whether it is there.
    pub fn read(&mut self, tgid: i32, files: &mut MappedFiles) -> bool {
        // What is there now is not what is asked for if the process runs yet another program.
        let there = !self.log.moved_on(tgid);
        let task = living_task(tgid);
        let text = there.then(|| transect_attach::read_text(format!("/proc/{task}/maps")).unwrap_or_default());
        let text = text.unwrap_or_default();
        if text.is_empty() {
            // Gone: it is not asked for again with every record.
            let unseen = || Space { mappings: Rc::from([]), read_at: None, executable: Rc::from("") };
            self.spaces.entry(tgid).or_insert_with(unseen).read_at = Some(Instant::now());
            return false;
        }
        let executable = std::fs::read_link(format!("/proc/{task}/exe"));
        let executable = executable.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let mappings = mappings(&text, tgid, files);
        let executable = Rc::from(executable.trim_end_matches(" (deleted)"));
        self.spaces.insert(tgid, Space { mappings, read_at: Some(Instant::now()), executable });
        true
    }
}

impl AddressSpaces {
    /// Applies the kernel's records of a process's mappings. Returns whether there was any.
    fn apply(&mut self, tgid: i32, files: &mut MappedFiles) -> bool {
        let changes = self.log.take(tgid);
        if changes.is_empty() {
            return false;
        }
        let unknown = || Space { mappings: Rc::from([]), read_at: None, executable: Rc::from("") };
        let space = self.spaces.entry(tgid).or_insert_with(unknown);
        let mut mappings = space.mappings.to_vec();
        for change in changes {
            let MappingChange::Mapped(CodeMapping { start, end, offset, device, inode, path }) = change else {
                continue;
            };
            let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
            // The program itself is mapped first.
            if space.executable.is_empty() && inode != 0 && space.read_at.is_none() {
                space.executable = Rc::from(path);
            }
            let device = rustix::fs::makedev(device.0, device.1);
            let file = named_file(tgid, path, device, inode, (start, end), files);
            overlay(&mut mappings, Mapping { start, end, offset, file, executable: true });
        }
        space.mappings = mappings.into();
        true
    }
}

/// Puts a mapping in the place of what was there before.
fn overlay(mappings: &mut Vec<Mapping>, new: Mapping) {
    let old: Vec<Mapping> = mappings.extract_if(.., |old| old.start < new.end && new.start < old.end).collect();
    for old in old {
        if old.start < new.start {
            mappings.push(Mapping { end: new.start, ..old.clone() });
        }
        if old.end > new.end {
            mappings.push(Mapping { start: new.end, offset: old.offset + (new.end - old.start), ..old });
        }
    }
    mappings.push(new);
    mappings.sort_unstable_by_key(|mapping| mapping.start);
}

impl Space {
    fn find(&self, address: u64) -> Option<Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|mapping| address < mapping.end).cloned()
    }
}

fn mappings(text: &str, tgid: i32, files: &mut MappedFiles) -> Rc<[Mapping]> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        // Variables that begin as zero lie behind those that the file holds, in memory without a file.
        let before = found.last().filter(|before| before.file.is_some() && !before.executable);
        match mapping(line, tgid, files) {
            Some(mapping) => found.push(mapping),
            None => found.extend(before.and_then(|before| zeroed(line, before))),
        }
    }
    found.into()
}

/// Memory without a name, if it follows the data of a file.
fn zeroed(line: &str, before: &Mapping) -> Option<Mapping> {
    let (start, rest) = line.split_once('-')?;
    let (end, rest) = rest.split_once(' ')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let follows = start == before.end && rest.starts_with("rw") && rest.split_whitespace().count() == 4;
    let offset = before.offset + (start - before.start);
    follows.then_some(Mapping { start, end, offset, file: before.file, executable: false })
}

/// A line of `/proc/PID/maps`; memory that holds neither code nor a file's data is left out.
fn mapping(line: &str, tgid: i32, files: &mut MappedFiles) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let flags = words.next()?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let offset = number(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = rustix::fs::makedev(number(major)? as u32, number(minor)? as u32);
    let inode: u64 = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or("").trim_start();
    let executable = flags.as_bytes().get(2) == Some(&b'x');
    let of_file = inode != 0 && path.starts_with('/');
    if !executable && !of_file {
        return None;
    }
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let (start, end) = (number(start)?, number(end)?);
    let file = named_file(tgid, path, device, inode, (start, end), files);
    Some(Mapping { start, end, offset, file, executable })
}

/// Number of the file that names what is mapped from it. A just-in-time compiler may share its code by a file in memory: such
/// files count only if they are programs or libraries.
fn named_file(
    tgid: i32,
    path: &str,
    device: u64,
    inode: u64,
    range: (u64, u64),
    files: &mut MappedFiles,
) -> Option<FileId> {
    let in_memory = path.starts_with("/memfd:") || path.starts_with("/dev/shm/");
    let of_file = inode != 0 && path.starts_with('/') && (in_memory || !path.starts_with("/dev/"));
    if !of_file && path != "[vdso]" {
        return None;
    }
    let number = files.number_mapped(tgid, path, device, inode, Some(range));
    (!in_memory || files.get(number).is_elf()).then_some(number)
}

#[cfg(test)]
mod tests {
    use transect_bpf_collect::MappingEvent;

    use super::*;

    #[test]
    fn own_addresses_are_found_in_files() {
        let (mut spaces, mut files) = (AddressSpaces::default(), MappedFiles::default());
        let own = std::process::id() as i32;
        let address = own_addresses_are_found_in_files as *const () as u64;
        let Place::File { file, offset, returns: true } = spaces.place(own, address, true, &mut files) else {
            panic!("not in a file")
        };
        let path = std::env::current_exe().unwrap();
        assert_eq!(files.get(file).path, path.to_str().unwrap());
        assert_eq!(&*spaces.executable(own, &mut files), path.to_str().unwrap());
        let object = files.get(file).object().unwrap();
        let name = object.symbol_at(object.vaddr(offset).unwrap()).unwrap().name.to_owned();
        assert!(name.contains("own_addresses_are_found_in_files"), "{name}");
        static DATA: [u8; 3] = [1, 2, 3];
        static ZERO: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let (at, variable) = spaces.known_file(own, ZERO.as_ptr() as u64, &mut files).unwrap();
        let vaddr = object.data_vaddr(variable).unwrap();
        let name = object.symbol_at(vaddr).map(|symbol| symbol.name.to_owned()).unwrap_or_default();
        assert!(at == file && name.contains("ZERO"), "{name}");
        assert_eq!(spaces.known_file(own, DATA.as_ptr() as u64, &mut files).map(|(at, _)| at), Some(file));
        assert_eq!(
            spaces.place(own, 0x10, false, &mut files),
            Place::Memory { tgid: own, address: 0x10, returns: false }
        );
        assert_eq!(spaces.unseen, 1);
        // A child that is gone before it is looked at has its parent's.
        spaces.born(-7, own, &mut files);
        assert_eq!(spaces.place(-7, address, true, &mut files), Place::File { file, offset, returns: true });
        spaces.replaced(-7, 0, &mut files);
        assert_eq!(spaces.place(-7, address, true, &mut files), Place::Memory { tgid: -7, address, returns: true });
    }

    #[test]
    fn what_the_kernel_told_of_a_process_that_ended_is_used() {
        let mapped = |start: u64, end: u64, path: &str| {
            MappingChange::Mapped(CodeMapping {
                start,
                end,
                offset: 0x1000,
                device: (0, 1),
                inode: 9,
                path: path.to_owned(),
            })
        };
        let told = |time, change| MappingEvent { tgid: -9, time, change };
        let log = MappingLog::with(vec![
            told(1, mapped(0x10000, 0x20000, "/before")),
            told(2, MappingChange::Replaced),
            told(3, mapped(0x10000, 0x20000, "/program")),
            told(4, mapped(0x30000, 0x40000, "/library")),
            told(5, mapped(0x34000, 0x38000, "/plugin")),
            told(8, MappingChange::Replaced),
            told(9, mapped(0x10000, 0x20000, "/next")),
        ]);
        let (mut spaces, mut files) = (AddressSpaces::default(), MappedFiles::default());
        spaces.follow(log);
        let path = |spaces: &mut AddressSpaces, files: &mut MappedFiles, address| match spaces
            .place(-9, address, false, files)
        {
            Place::File { file, offset, .. } => (files.get(file).path.clone(), offset),
            _ => (String::new(), 0),
        };
        spaces.replaced(-9, 6, &mut files);
        assert_eq!(&*spaces.executable(-9, &mut files), "/program");
        for (address, expected, offset) in [
            (0x10010, "/program", 0x1010),
            (0x30010, "/library", 0x1010),
            (0x34010, "/plugin", 0x1010),
            (0x38010, "/library", 0x9010),
            (0x50000, "", 0),
        ] {
            assert_eq!(path(&mut spaces, &mut files, address), (expected.to_owned(), offset), "{address:#x}");
        }
        spaces.replaced(-9, 8, &mut files);
        assert_eq!(path(&mut spaces, &mut files, 0x10010).0, "/next");
        assert_eq!(path(&mut spaces, &mut files, 0x30010).0, "");
    }
}
