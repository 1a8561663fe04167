//! Who has the other end of a pipe or of a pair of sockets: from the descriptors of all processes that may be looked at.

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

/// What is known of the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// In words.
    Is(String),
    /// No other process has it.
    None,
    /// Nobody has looked since it may be there: another time.
    NotLooked,
}

/// Descriptors of pipes and sockets by what their links say, `pipe:[42]`, as they were when an unknown one was met last.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    ends: HashMap<String, Vec<End>>,
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
    /// that is written to.
    pub fn of_pipe(&mut self, tgid: i32, fd: i32, inode: u64) -> Peer {
        let Ok(access) = fs::symlink_metadata(format!("/proc/{tgid}/fd/{fd}")).map(|link| link.mode()) else {
            return Peer::None;
        };
        let reads = access & READABLE != 0;
        let opposite = |end: &End| if reads { end.writes } else { end.reads };
        self.other(tgid, &format!("pipe:[{inode}]"), opposite, if reads { "from" } else { "to" })
    }

    /// The process that has the Unix socket of that inode, `unix NAME (PID)`, whose peer `tgid` has.
    pub fn of_socket(&mut self, tgid: i32, inode: u64) -> Peer {
        if inode == 0 { Peer::None } else { self.other(tgid, &format!("socket:[{inode}]"), |_| true, "unix") }
    }

    fn other(&mut self, tgid: i32, link: &str, fits: impl Fn(&End) -> bool, how: &str) -> Peer {
        let others = |ends: &[End]| {
            let others = ends.iter().filter(|end| end.tgid != tgid && fits(end));
            // Who has both ends has mostly inherited one that it does not use.
            others.min_by_key(|end| (end.reads && end.writes, end.tgid)).and_then(|end| named(end.tgid))
        };
        let known = |ends: &HashMap<String, Vec<End>>| ends.get(link).and_then(|ends| others(ends));
        if let Some(peer) = known(&self.ends) {
            return Peer::Is(format!("{how} {peer}"));
        }
        if !self.look() {
            return Peer::NotLooked;
        }
        known(&self.ends).map_or(Peer::None, |peer| Peer::Is(format!("{how} {peer}")))
    }

    /// Looks at all processes if they were not looked at just now.
    fn look(&mut self) -> bool {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return false;
        }
        self.looked = Some(Instant::now());
        self.ends.clear();
        let Ok(processes) = fs::read_dir("/proc") else { return true };
        for tgid in processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            self.add(tgid);
        }
        true
    }

    fn add(&mut self, tgid: i32) {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{tgid}/fd")) else { return };
        for entry in descriptors.flatten().take(MAX_DESCRIPTORS) {
            let Some(link) = fs::read_link(entry.path()).ok().and_then(|link| Some(link.to_str()?.to_owned())) else {
                continue;
            };
            if !link.starts_with("pipe:[") && !link.starts_with("socket:[") {
                continue;
            }
            let Ok(access) = fs::symlink_metadata(entry.path()).map(|link| link.mode()) else { continue };
            let ends = self.ends.entry(link).or_default();
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

fn named(tgid: i32) -> Option<String> {
    let name = transect_attach::read_text(format!("/proc/{tgid}/comm")).ok()?;
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
        assert_eq!(peers.of_pipe(own, from.as_raw_fd(), inode(&from)), Peer::Is(format!("from cat ({there})")));
        assert_eq!(peers.of_pipe(own, to.as_raw_fd(), inode(&to)), Peer::Is(format!("to cat ({there})")));
        assert_eq!(peers.of_pipe(there, 0, inode(&to)), Peer::Is(format!("from {}", named(own).unwrap())));
        drop(to);
        child.wait().unwrap();
        // Whoever is not there at a look is looked for again, but not at once.
        assert_eq!(peers.of_socket(own, 1), Peer::NotLooked);
        std::thread::sleep(LOOK_EVERY);
        assert_eq!(peers.of_socket(own, 1), Peer::None);
    }

    #[test]
    fn paired_sockets_have_a_process_at_the_other_end() {
        let own = std::process::id() as i32;
        let (mut here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let link = inode(&there);
        let input = std::os::fd::OwnedFd::from(there);
        let output = input.try_clone().unwrap();
        let mut child = Command::new("cat").stdin(input).stdout(output).spawn().unwrap();
        std::io::Write::write_all(&mut here, b"x").unwrap();
        here.read_exact(&mut [0]).unwrap();
        assert_eq!(Peers::default().of_socket(own, link), Peer::Is(format!("unix cat ({})", child.id())));
        drop(here);
        child.wait().unwrap();
    }
}
