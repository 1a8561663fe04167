//! What is mapped into the process: the arena, the table of threads, the image of the stubs.

use std::collections::HashMap;
use std::mem::offset_of;
use std::path::Path;

use transect_attach::{AttachError, FileIdentity, Image, LoadedImage, Mapping, Stop, Target, read_text};
use transect_event_abi::arena::{EXTENT_COUNT, EXTENT_SIZE};
use transect_event_abi::flow_image::{self, STUB_SIZE, Settings as StubSettings, TABLE_SIZE, THREADS};
use transect_event_abi::process::SLOT_CAPACITY;

use crate::arena::{Arena, Settings};
use crate::error::RecordError;

/// File name of the image.
pub const IMAGE_FILE: &str = "libtransect_flow_agent.so";
/// The memory file's name, which the agent of launched programs has, too.
const ARENA_NAME: &str = "transect-arena";
/// The same in mappings.
pub const ARENA_PATH: &str = "/memfd:transect-arena";
/// Where threads' numbers stand in the control blocks of glibc and musl.
const NUMBER_PLACES: [u64; 3] = [0x2d0, 0x30, 0x38];
/// Extents for as many threads, if there are few: all of them count against a limit of the address space, and a program that locks
/// its memory meanwhile has them filled.
const LEAST_EXTENTS: usize = 256;
/// Extents for each thread that there is.
const EXTENTS_PER_THREAD: usize = 4;
/// The extent of the process.
pub const PROCESS: u32 = 1;

/// Addresses in the process; 0 for what is not there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places {
    arena: u64,
    arena_size: u64,
    table: u64,
    image: Option<LoadedImage>,
    stubs: u64,
    targets: u64,
}

impl Places {
    /// Maps everything. Nothing leads there yet. `tell` hears of each mapping: whoever cleans up after us must know it.
    ///
    /// # Errors
    /// If it can't be mapped; what was mapped is taken out again.
    pub fn make(
        target: &Target,
        file: &Path,
        settings: &Settings<'_>,
        tell: &mut dyn FnMut(&Places),
    ) -> Result<(Places, Arena), RecordError> {
        let image = Image::read(file)?;
        let number = number_place(target)?;
        let threads = std::fs::read_dir(format!("/proc/{}/task", target.pid())).map_or(0, Iterator::count);
        let extents = (threads * EXTENTS_PER_THREAD).clamp(LEAST_EXTENTS, EXTENT_COUNT);
        let arena_size = (extents * EXTENT_SIZE) as u64;
        let shared = target.share_memory(ARENA_NAME, arena_size)?;
        let mut places = Places { arena: shared.address, arena_size, ..Places::default() };
        let identity = FileIdentity::of(&shared.file).map_err(RecordError::system("look at the recording's memory"))?;
        let made = Arena::over(shared.file, settings).and_then(|arena| {
            places.map(target, &image, number, tell)?;
            Ok(arena)
        });
        target.pause();
        if let Ok(mut stop) = target.stop_one() {
            // The mapping is enough for the process, and programs count their descriptors.
            stop.close_files(&[identity]);
            if made.is_err() {
                let _ = places.unmap(&mut stop);
            }
        }
        made.map(|arena| (places, arena))
    }

    fn map(
        &mut self,
        target: &Target,
        image: &Image,
        number: u64,
        tell: &mut dyn FnMut(&Places),
    ) -> Result<(), AttachError> {
        let table = image.symbol(flow_image::SYMBOL)?;
        target.pause();
        let mut stop = target.stop_one()?;
        self.table = stop.map_private(TABLE_SIZE)?;
        tell(self);
        stop.wipe_in_children(self.table, TABLE_SIZE)?;
        drop(stop);
        let memory = target.memory();
        memory.write(self.table + THREADS as u64 * 8, &1u64.to_le_bytes())?;
        let loaded = image.map_telling(target, &mut |loaded| tell(&Places { image: Some(loaded), ..*self }))?;
        self.image = Some(loaded);
        image.fill(memory, loaded)?;
        let word = |index: u64| memory.read_u64(loaded.address + table + index * 8);
        (self.stubs, self.targets) = (word(flow_image::STUBS)?, word(flow_image::TARGETS)?);
        let settings = word(flow_image::SETTINGS)?;
        for (offset, value) in [
            (offset_of!(StubSettings, number), number),
            (offset_of!(StubSettings, table), self.table),
            (offset_of!(StubSettings, arena), self.arena),
            (offset_of!(StubSettings, process), PROCESS.into()),
        ] {
            memory.write(settings + offset as u64, &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// Takes everything out, by the first thread of a stop. Nothing may lead there.
    ///
    /// The arena goes first: as long as it is there, so is the rest, and whoever goes on after us unmaps nothing of the program's.
    ///
    /// # Errors
    /// If a call fails; the rest remains.
    pub fn unmap(&self, stop: &mut Stop<'_>) -> Result<(), AttachError> {
        let image = self.image.map_or((0, 0), |image| (image.address, image.size));
        for (address, size) in [(self.arena, self.arena_size), (self.table, TABLE_SIZE), image] {
            if address != 0 {
                stop.unmap(address, size)?;
            }
        }
        Ok(())
    }

    /// Whether a process has these mappings: it is the one, or was forked from it.
    pub fn are_in(&self, mappings: impl Iterator<Item = Mapping>, arena: FileIdentity) -> bool {
        let mut mappings = mappings;
        mappings.any(|mapping| mapping.start == self.arena && mapping.file() == arena)
    }

    /// The mappings, to be told.
    pub fn to_bytes(self) -> Vec<u8> {
        let image = self.image.map_or((0, 0), |image| (image.address, image.size));
        [self.table, image.0, image.1].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// What the last of `told` says; `arena` is the mapping of the arena.
    pub fn last_told(told: &[u8], arena: &Mapping) -> Places {
        let words: Vec<u64> =
            told.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        let (arena, arena_size) = (arena.start, arena.end - arena.start);
        let Some(&[table, address, size]) = words.chunks_exact(3).last() else {
            return Places { arena, arena_size, ..Places::default() };
        };
        let image = (address != 0).then_some(LoadedImage { address, size });
        Places { arena, arena_size, table, image, ..Places::default() }
    }

    /// Extents that there are.
    pub fn extents(&self) -> u32 {
        (self.arena_size / EXTENT_SIZE as u64) as u32
    }

    /// Whether an address is in the image.
    pub fn has(&self, address: u64) -> bool {
        self.image.is_some_and(|image| address.wrapping_sub(image.address) < image.size)
    }

    /// Whether an address is in a stub.
    pub fn is_stub(&self, address: u64) -> bool {
        self.stubs != 0 && address.wrapping_sub(self.stubs) < SLOT_CAPACITY as u64 * STUB_SIZE
    }

    /// Address of a slot's stub.
    pub fn stub(&self, slot: u32) -> u64 {
        self.stubs + u64::from(slot) * STUB_SIZE
    }

    /// Address of the word that holds a slot's target.
    pub fn target(&self, slot: u32) -> u64 {
        self.targets + u64::from(slot.min(SLOT_CAPACITY as u32 - 1)) * 8
    }

    /// Address of the table's word of a thread.
    pub fn thread(&self, number: u32) -> u64 {
        self.table + u64::from(number) % THREADS as u64 * 8
    }
}

/// Where all threads of the process have their own number in their control blocks.
fn number_place(target: &Target) -> Result<u64, RecordError> {
    let mut found: Option<u64> = None;
    // Of most threads it is known before they stand.
    let known: HashMap<i32, u32> = numbers(target.pid()).into_iter().map(|(number, tid)| (tid, number)).collect();
    let stop = target.stop_all()?;
    for thread in stop.registers() {
        let number = known.get(&thread.tid).copied().or_else(|| own_number(target.pid(), thread.tid));
        let Some(number) = number else { continue };
        let has_it = |place: &&u64| {
            let mut word = [0; 4];
            let read = target.memory().read(thread.fs_base.wrapping_add(**place), &mut word);
            thread.fs_base != 0 && read.is_ok() && u32::from_le_bytes(word) == number
        };
        let place = NUMBER_PLACES.iter().find(has_it).copied();
        match (place, found) {
            (Some(place), None) => found = Some(place),
            (Some(place), Some(known)) if place == known => {}
            _ => {
                let why = format!(
                    "its thread {} has no control block of glibc or musl, by which the threads' counters are found; \
                     a program that was just executed has none yet: try again",
                    thread.tid
                );
                return Err(RecordError::Uncountable { pid: target.pid(), why });
            }
        }
    }
    found.ok_or_else(|| AttachError::Exited { pid: target.pid() }.into())
}

/// The threads of a process, by the number that they know themselves by.
pub fn numbers(pid: i32) -> HashMap<u32, i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let tids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    if own_number(pid, pid) == Some(pid.cast_unsigned()) {
        return tids.map(|tid| (tid.cast_unsigned(), tid)).collect();
    }
    tids.filter_map(|tid| Some((own_number(pid, tid)?, tid))).collect()
}

/// The number by which a thread knows itself.
pub fn own_number(pid: i32, tid: i32) -> Option<u32> {
    let status = read_text(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()).or(Some(tid.cast_unsigned()))
}
