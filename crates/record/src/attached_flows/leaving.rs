//! Leaving a process: no slot leads to a stub, no thread stands in one, nothing of ours is mapped. The same in children that it
//! forked meanwhile, which have copies of it all.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use transect_attach::{AttachError, FileIdentity, Mapping, Target};

use super::places::{ARENA_PATH, Places};
use super::slots::{Changed, put_back};
use crate::arena::Arena;

/// How often it is looked whether threads have left the stubs, which takes them nanoseconds on a CPU.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(2);

/// What is left of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Slots that held their stubs no longer.
    pub changed: Changed,
    /// Why the memory is still mapped.
    pub kept: Option<Kept>,
}

/// Why stubs must remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// A thread stands in one.
    Inside,
    /// The program has changed slots that held one, and may call it through what it has kept.
    Changed,
}

/// Leaves a process.
///
/// # Errors
/// If threads can't be stopped or make no calls, or the process has ended.
pub fn leave(target: &Target, places: &Places, arena: &Arena) -> Result<Left, AttachError> {
    let mut changed = None;
    let identity = FileIdentity::of(arena.file());
    for _ in 0..TRIES {
        let mut stop = target.stop_all_with_handlers()?;
        // Another program may run in the process by now, in which the addresses are its own.
        let mappings = target.mappings()?;
        if !identity.as_ref().is_ok_and(|&identity| places.are_in(mappings.into_iter(), identity)) {
            return Err(AttachError::Replaced { pid: target.pid() });
        }
        let changed = match changed {
            Some(changed) => changed,
            None => *changed.insert(put_back(target.memory(), places, arena)?),
        };
        // No code that we know keeps a slot's word; that a thread holds one now would be seen.
        let holds = stop.registers().any(|thread| thread.general.iter().any(|&word| places.is_stub(word)));
        let inside = holds || stop.positions().map(|(_, at, _)| at).chain(stop.interrupted()).any(|at| places.has(at));
        if changed.others > 0 {
            return Ok(Left { changed, kept: Some(Kept::Changed) });
        }
        if !inside {
            stop.choose_caller()?;
            places.unmap(&mut stop)?;
            return Ok(Left { changed, kept: None });
        }
        drop(stop);
        std::thread::sleep(PAUSE);
    }
    Ok(Left { changed: changed.unwrap_or_default(), kept: Some(Kept::Inside) })
}

/// Leaves the children that were forked since the process was attached to, and theirs: they have copies of it all. Those that end
/// meanwhile, or can't be entered, are left out.
pub fn leave_children(of: i32, places: &Places, arena: &Arena) {
    let mut known = HashSet::from([of, std::process::id().cast_signed()]);
    // One that is being left may have forked.
    for _ in 0..TRIES {
        let found = children(places, arena, &known);
        if found.is_empty() {
            return;
        }
        for child in found {
            known.insert(child);
            if let Ok(target) = Target::open(child) {
                let _ = leave(&target, places, arena);
            }
        }
    }
}

/// Processes that have the arena where the process has, or had it, but those that are known.
fn children(places: &Places, arena: &Arena, known: &HashSet<i32>) -> Vec<i32> {
    let (Ok(arena), Ok(entries)) = (FileIdentity::of(arena.file()), std::fs::read_dir("/proc")) else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_them = |&pid: &i32| Mapping::each(pid).is_ok_and(|mappings| places.are_in(mappings, arena));
    pids.filter(|pid| !known.contains(pid)).filter(has_them).collect()
}

/// Takes out what was mapped before the guard knew of it all: no slot leads there yet.
///
/// # Errors
/// If the process can't be stopped.
pub fn unmap_told(pid: i32, told: &[u8]) -> Result<(), AttachError> {
    let target = Target::open(pid)?;
    let is_arena = |mapping: &Mapping| mapping.path.as_os_str() == ARENA_PATH && mapping.offset == 0;
    let mut stop = target.stop_one()?;
    let mapping = target.mappings()?.into_iter().find(is_arena);
    let open = std::fs::read_dir(format!("/proc/{}/fd", target.task())).into_iter().flatten().flatten();
    let is_its = |path: &PathBuf| {
        let link = std::fs::read_link(path).unwrap_or_default();
        link.to_string_lossy().starts_with(ARENA_PATH)
    };
    let files = open.map(|entry| entry.path()).filter(is_its).filter_map(|path| std::fs::metadata(path).ok());
    let files: Vec<FileIdentity> = files.map(|found| FileIdentity::from(&found)).collect();
    stop.close_files(&files);
    match mapping {
        Some(arena) => Places::last_told(told, &arena).unmap(&mut stop),
        None => Ok(()),
    }
}
