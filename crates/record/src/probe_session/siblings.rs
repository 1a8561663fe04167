//! Processes that share a process' arena: children that it forked, their children, and so on. Their texts hold the
//! same jumps.

use std::fs;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use transect_attach::Mapping;
use transect_event_abi::probe_arena::PROBE_FILE_NAME;

/// Pids of the processes that map the arena `file`, but for `but`.
pub fn sharing(file: &File, but: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    among(pids.filter(|&pid| pid != but), file)
}

/// Those of `pids` that map the arena `file`.
pub fn among(pids: impl Iterator<Item = i32>, file: &File) -> Vec<i32> {
    let Ok(inode) = file.metadata().map(|metadata| metadata.ino()) else { return Vec::new() };
    let name = format!("/memfd:{PROBE_FILE_NAME}");
    let own = std::process::id() as i32;
    pids.filter(|&pid| pid != own)
        .filter(|&pid| {
            Mapping::all(pid).is_ok_and(|all| all.iter().any(|m| m.inode == inode && m.path.as_os_str() == &*name))
        })
        .collect()
}
