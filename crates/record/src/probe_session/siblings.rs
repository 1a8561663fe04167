//! Processes that share a process' arena: children that it forked, their children, and so on. Their texts hold the
//! same jumps.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use transect_attach::Mapping;
use transect_event_abi::probe_arena::PROBE_FILE_NAME;

/// Pids of the processes that share the arena `file` with the process `of`.
pub fn sharing(file: &File, of: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    among(pids.filter(|&pid| pid != of), file, of)
}

/// Those of `pids` that have the arena `file` where the process `of` has it. A recorder has it elsewhere.
pub fn among(pids: impl Iterator<Item = i32>, file: &File, of: i32) -> Vec<i32> {
    let Ok(inode) = file.metadata().map(|metadata| metadata.ino()) else { return Vec::new() };
    let name = format!("/memfd:{PROBE_FILE_NAME}");
    let places = |pid: i32| {
        let all = Mapping::all(pid).unwrap_or_default().into_iter();
        all.filter(|m| m.inode == inode && m.path.as_os_str() == &*name).map(|m| m.start).collect::<HashSet<_>>()
    };
    let (own, theirs) = (std::process::id() as i32, places(of));
    // Its children may outlive it.
    let shares = |found: HashSet<u64>| !found.is_empty() && (theirs.is_empty() || !theirs.is_disjoint(&found));
    pids.filter(|&pid| pid != own && shares(places(pid))).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::AsRawFd;
    use std::process::{Child, Command, Stdio};

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// A program that has the file mapped, behind so many bytes of its own; `None` without Python.
    fn mapped_by_another(file: &File, behind: usize) -> Option<Child> {
        let map = format!("import mmap; a = mmap.mmap(-1, {behind}); m = mmap.mmap({}, 4096)", file.as_raw_fd());
        let code = format!("{map}; print(1, flush=True); input()");
        let mut program =
            Command::new("python3").args(["-c", &code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        BufReader::new(program.stdout.take()?).read_line(&mut String::new()).ok()?;
        Some(program)
    }

    /// The guard of a recorder that still runs would take the arena's memory from it.
    #[test]
    fn who_has_the_arena_elsewhere_is_no_child() {
        // Without CLOEXEC, so that another program can map it.
        let file = File::from(memfd_create(PROBE_FILE_NAME, MemfdFlags::empty()).unwrap());
        file.set_len(4096).unwrap();
        let others = (mapped_by_another(&file, 4096), mapped_by_another(&file, 64 << 20));
        let (Some(mut one), Some(mut other)) = others else { return println!("skipped: no python3") };
        let (pid, elsewhere) = (one.id() as i32, other.id() as i32);
        let found = [pid, elsewhere].map(|of| among([pid].into_iter(), &file, of));
        for program in [&mut one, &mut other] {
            program.kill().unwrap();
            program.wait().unwrap();
        }
        assert_eq!(found, [vec![pid], Vec::new()]);
    }
}
