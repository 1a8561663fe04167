//! Who has the other end of a pipe: from the descriptors of all processes that may be looked at.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;

/// A descriptor of a process.
#[derive(Debug, Clone, Copy)]
struct End {
    tgid: i32,
    reads: bool,
    writes: bool,
}

/// Descriptors of pipes by inode, as they were when an unknown one was met last.
#[derive(Debug, Default)]
pub struct Peers {
    ends: HashMap<u64, Vec<End>>,
    looked: Option<Instant>,
}

/// All processes are looked at again after this time at the earliest: it takes milliseconds where there are many.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Descriptors of a process that are looked at.
const MAX_DESCRIPTORS: usize = 4096;

const READABLE: u32 = 0o400;
const WRITABLE: u32 = 0o200;

impl Peers {
    /// The process that has the other end of the pipe which `tgid` has open as `fd`: `from NAME (PID)`, or `to` for an end
    /// that is written to. `None` if there is no other process.
    pub fn of_pipe(&mut self, tgid: i32, fd: i32, inode: u64) -> Option<String> {
        let access = fs::symlink_metadata(format!("/proc/{tgid}/fd/{fd}")).ok()?.mode();
        let reads = access & READABLE != 0;
        self.look(inode);
        let others = self.ends.get(&inode)?.iter().filter(|end| end.tgid != tgid);
        let opposite = |end: &&End| if reads { end.writes } else { end.reads };
        // Who has both ends has mostly inherited one that it does not use.
        let found = others.filter(opposite).min_by_key(|end| (end.reads && end.writes, end.tgid))?;
        Some(format!("{} {}", if reads { "from" } else { "to" }, named(found.tgid)?))
    }

    /// Looks at all processes if nothing is known of the inode, and they were not looked at just now.
    fn look(&mut self, inode: u64) {
        let lately = self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY);
        if lately || self.ends.contains_key(&inode) {
            return;
        }
        self.looked = Some(Instant::now());
        self.ends.clear();
        let Ok(processes) = fs::read_dir("/proc") else { return };
        for tgid in processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            self.add(tgid);
        }
    }

    fn add(&mut self, tgid: i32) {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{tgid}/fd")) else { return };
        for entry in descriptors.flatten().take(MAX_DESCRIPTORS) {
            let Some(inode) = fs::read_link(entry.path()).ok().and_then(|link| inode_of(link.to_str()?)) else {
                continue;
            };
            let Ok(access) = fs::symlink_metadata(entry.path()).map(|link| link.mode()) else { continue };
            let ends = self.ends.entry(inode).or_default();
            match ends.iter_mut().find(|end| end.tgid == tgid) {
                Some(end) => {
                    end.reads |= access & READABLE != 0;
                    end.writes |= access & WRITABLE != 0;
                }
                None => ends.push(End { tgid, reads: access & READABLE != 0, writes: access & WRITABLE != 0 }),
            }
        }
    }
}

/// The inode in `pipe:[42]`.
fn inode_of(link: &str) -> Option<u64> {
    link.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

fn named(tgid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{tgid}/comm")).ok()?;
    Some(format!("{} ({tgid})", name.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    fn inode(descriptor: &impl AsRawFd) -> u64 {
        fs::metadata(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap().ino()
    }

    #[test]
    fn pipes_have_a_process_at_the_other_end() {
        let own = std::process::id() as i32;
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let there = child.id() as i32;
        // It is cat from its first answer on.
        std::io::Write::write_all(&mut &to, b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
        let mut peers = Peers::default();
        assert_eq!(peers.of_pipe(own, from.as_raw_fd(), inode(&from)), Some(format!("from cat ({there})")));
        assert_eq!(peers.of_pipe(own, to.as_raw_fd(), inode(&to)), Some(format!("to cat ({there})")));
        assert_eq!(peers.of_pipe(there, 0, inode(&to)), Some(format!("from {}", named(own).unwrap())));
        drop(to);
        child.wait().unwrap();
    }
}
