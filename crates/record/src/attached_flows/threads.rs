//! Threads of the process that count: their begin, names and ends are seen from outside.

use std::collections::HashMap;
use std::mem::offset_of;

use transect_attach::{Target, read_text};
use transect_event_abi::arena::EXTENT_THREAD;
use transect_event_abi::thread::{THREAD_ENDED, THREAD_LIVE, ThreadHeader};
use transect_profile_model::Profile;

use super::places::{Places, numbers};
use crate::arena::Arena;
use crate::assemble;
use crate::clock;
use crate::error::RecordError;

/// Group of threads that had ended before a look found them.
const UNNAMED: &str = "[unnamed]";

/// Groups threads by their names: start routines are not known. `firsts`: by process, the number of its first thread.
pub fn group(profile: &mut Profile, firsts: &HashMap<i32, i32>) {
    for thread in &mut profile.threads {
        let process = profile.processes.get(thread.process as usize);
        let is_first = process.and_then(|process| firsts.get(&process.pid)) == Some(&thread.tid);
        thread.group = match thread.name.as_str() {
            _ if is_first => "main".to_owned(),
            "" => UNNAMED.to_owned(),
            name => assemble::group(name, "", ""),
        };
    }
}

/// Notes begins and names of threads that are new, and ends of those that have gone. `first`: threads that were there at the
/// recording's begin, which was at `begin`.
///
/// # Errors
/// If the memory file can't be written.
pub fn look(
    target: &Target,
    places: &Places,
    arena: &Arena,
    first: &HashMap<u32, i32>,
    begin: u64,
) -> Result<(), RecordError> {
    let extents = arena.extents().into_iter().filter(|extent| extent.1 == EXTENT_THREAD);
    let heads: Vec<(u32, Vec<u8>)> =
        extents.map(|(extent, _)| (extent, arena.read(extent, 0, size_of::<ThreadHeader>()))).collect();
    if heads.is_empty() {
        return Ok(());
    }
    // Afterwards: whoever had counters by then is among them, or has ended.
    let threads = numbers(target.pid());
    let now = clock::ticks();
    for (extent, head) in heads {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        if word(offset_of!(ThreadHeader, state)) != THREAD_LIVE {
            continue;
        }
        let number = word(offset_of!(ThreadHeader, tid));
        let tid = threads.get(&number);
        if word(offset_of!(ThreadHeader, start_ticks)) == 0 {
            let start = if first.contains_key(&number) { begin } else { now };
            arena.write(extent, offset_of!(ThreadHeader, start_ticks), &start.to_le_bytes())?;
            let name = tid.and_then(|tid| read_text(format!("/proc/{}/task/{tid}/comm", target.pid())).ok());
            let name = name.unwrap_or_default();
            let name = name.trim_end_matches('\n').as_bytes();
            arena.write(extent, offset_of!(ThreadHeader, name), &name[..name.len().min(15)])?;
        }
        if tid.is_none() {
            // Its number may be another's one day, which must not go on where it stopped.
            let _ = target.memory().write(places.thread(number), &[0; 8]);
            arena.write(extent, offset_of!(ThreadHeader, end_ticks), &now.to_le_bytes())?;
            arena.write(extent, offset_of!(ThreadHeader, state), &THREAD_ENDED.to_le_bytes())?;
        }
    }
    Ok(())
}
