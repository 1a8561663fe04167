//! Names of code that a just-in-time compiler made, from the map that it writes for profilers.
//!
//! The map lies in a folder in which everybody may write, under a name that everybody can foretell. It counts if it is a
//! plain file of the process's user or of root.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;

use transect_binary_info::{LastLink, open_plain};
use transect_bpf_collect::living_task;

/// What is read of a map, bytes: a compiler that writes more has thrown most of it away again.
const MOST_READ: u64 = 256 << 20;
/// The longest line with a name: those of V8 have a few hundred bytes.
const LONGEST_LINE: usize = 4096;

/// `/tmp/perf-PID.map`: a line for each function, with its address and size.
#[derive(Debug, Default)]
pub struct PerfMap {
    functions: BTreeMap<u64, (u64, Box<str>)>,
}

impl PerfMap {
    /// The map of a process of the user `owner`, wherever it can still be found. If the owner is not known and the process
    /// gone, it is taken for our own.
    pub fn of(tgid: i32, ns_tgid: i32, owner: Option<u32>) -> Self {
        let owner = owner.or_else(|| owner_of(tgid)).unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let root = format!("/proc/{tgid}/root");
        let places = [
            format!("{root}/tmp/perf-{ns_tgid}.map"),
            format!("/tmp/perf-{tgid}.map"),
            format!("/tmp/perf-{ns_tgid}.map"),
        ];
        let file = places.iter().find_map(|place| open(place, owner));
        file.map_or_else(Self::default, |file| Self::read(BufReader::new(file.take(MOST_READ))))
    }

    fn read(mut lines: impl BufRead) -> Self {
        let mut map = Self::default();
        let mut line = Vec::new();
        let mut cut = false;
        loop {
            line.clear();
            let read = lines.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line);
            if !read.is_ok_and(|read| read > 0) {
                return map;
            }
            let rest_of_long = cut;
            cut = line.last() != Some(&b'\n');
            if !rest_of_long && let Some((address, size, name)) = parse(&String::from_utf8_lossy(&line)) {
                map.insert(address, size, name);
            }
        }
    }

    /// Reads any bytes.
    #[cfg(feature = "fuzzing")]
    pub fn fuzz(bytes: &[u8]) {
        Self::read(bytes).at(0x1000);
    }

    /// Later lines are newer: what they overlap has been thrown away by the compiler.
    pub(super) fn insert(&mut self, address: u64, size: u64, name: &str) {
        let end = address.saturating_add(size);
        while let Some((&start, &(length, _))) = self.functions.range(..end).next_back() {
            if start.saturating_add(length) <= address {
                break;
            }
            self.functions.remove(&start);
        }
        self.functions.insert(address, (size, name.into()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let (start, (size, name)) = self.functions.range(..=address).next_back()?;
        (address - start < *size).then_some(name)
    }
}

/// The user that a process runs as, if it is there.
pub fn owner_of(tgid: i32) -> Option<u32> {
    let status = transect_attach::read_text(format!("/proc/{}/status", living_task(tgid))).ok()?;
    // Real, effective, saved, of the file system.
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn open(place: &str, owner: u32) -> Option<File> {
    let file = open_plain(place, LastLink::Refuse).ok()?;
    let found = file.metadata().ok()?;
    // A second name may have been given to a file that root wrote for another purpose.
    (found.nlink() == 1 && (found.uid() == owner || found.uid() == 0)).then_some(file)
}

fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (address, size) = (number()?, number()?);
    Some((address, size, words.next().filter(|name| !name.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_functions_replace_older_ones() {
        let map = PerfMap::read(
            &b"1000 100 LazyCompile:~f a.js:1\n0x1100 0x40 g\n10c0 80 LazyCompile:*h a.js:9\nbad\n2000 0 nothing\n\xff\n3000 10\n"[..],
        );
        assert_eq!(map.at(0x1000), None, "thrown away");
        assert_eq!(map.at(0x10c0), Some("LazyCompile:*h a.js:9"));
        assert_eq!(map.at(0x113f), Some("LazyCompile:*h a.js:9"));
        assert_eq!(map.at(0x1140), None);
        assert_eq!(map.at(0x2000), None);
        assert_eq!(map.functions.len(), 2);
    }

    #[test]
    fn long_lines_are_cut_and_do_not_go_on_as_others() {
        let mut text = format!("1000 10 {}", "x".repeat(LONGEST_LINE - 10)).into_bytes();
        text.extend_from_slice(b"7777 10 planted\n2000 10 g\n");
        let map = PerfMap::read(&text[..]);
        assert_eq!(map.at(0x1000).map(str::len), Some(LONGEST_LINE - 8));
        assert_eq!((map.at(0x7777), map.at(0x2000)), (None, Some("g")));
    }

    /// Each process number is one that no process has: above the kernel's limit.
    #[test]
    fn only_the_users_own_plain_file_counts() {
        let own = rustix::process::geteuid().as_raw();
        let place = |pid: i32| format!("/tmp/perf-{pid}.map");
        let name = |pid: i32, owner| PerfMap::of(pid, pid, owner).at(0x1000).map(str::to_owned);
        let first = 0x4000_0000 + (std::process::id().cast_signed() << 3);
        let [file, pipe, link, second] = [0, 1, 2, 3].map(|n| first + n);
        std::fs::write(place(file), "1000 10 f\n").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, place(pipe), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        std::os::unix::fs::symlink(place(file), place(link)).unwrap();
        assert_eq!(name(file, Some(own)).as_deref(), Some("f"));
        assert_eq!(name(file, None).as_deref(), Some("f"));
        // Root's files count for everybody.
        assert_eq!(name(file, Some(own + 1)).is_some(), own == 0);
        assert_eq!(name(pipe, Some(own)), None, "and nobody waits for a writer");
        assert_eq!(name(link, Some(own)), None);
        std::fs::hard_link(place(file), place(second)).unwrap();
        assert_eq!(name(second, Some(own)), None);
        std::fs::remove_file(place(second)).unwrap();
        if own == 0 {
            std::os::unix::fs::chown(place(file), Some(65534), None).unwrap();
            assert_eq!(name(file, Some(0)), None, "another user's names");
            assert_eq!(name(file, Some(65534)).as_deref(), Some("f"));
        }
        for pid in [file, pipe, link] {
            std::fs::remove_file(place(pid)).unwrap();
        }
    }
}
