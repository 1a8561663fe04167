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

/// Processes go by the numbers that they know themselves by (`owns`, by those that we know them by), as with the other collectors.
/// Threads are grouped by their names: start routines are not known.
pub fn name(profile: &mut Profile, owns: &HashMap<i32, i32>) {
    for process in &mut profile.processes {
        process.pid = owns.get(&process.pid).copied().unwrap_or(process.pid);
    }
    for thread in &mut profile.threads {
        let process = profile.processes.get(thread.process as usize);
        thread.group = match thread.name.as_str() {
            _ if process.is_some_and(|process| process.pid == thread.tid) => "main".to_owned(),
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

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process, Thread};

    use super::*;

    /// 700 knows itself by 1, in a namespace of its own.
    #[test]
    fn processes_and_groups_go_by_own_numbers_and_names() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        for pid in [700, 800] {
            profile.processes.push(Process { pid, parent_pid: 0, executable: "app2".into(), start_ns: 0, wall_ns: 9 });
        }
        let thread = |process, tid, name: &str| Thread {
            process,
            tid,
            name: name.into(),
            group: "main".into(),
            start_routine: String::new(),
            start_ns: 0,
            wall_ns: 9,
            busy_ns: 9,
            wait_ns: 0,
            calls: 0,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        };
        profile.threads = vec![
            thread(0, 1, "app2"),
            thread(0, 5, "app2"),
            thread(0, 6, ""),
            thread(1, 800, ""),
            thread(1, 1, "io-3"),
        ];
        name(&mut profile, &HashMap::from([(700, 1), (800, 800)]));
        assert_eq!(profile.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 800]);
        let groups: Vec<&str> = profile.threads.iter().map(|thread| thread.group.as_str()).collect();
        assert_eq!(groups, ["main", "app", UNNAMED, "main", "io"]);
    }
}
