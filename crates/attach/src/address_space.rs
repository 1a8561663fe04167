//! What is mapped in a process, and where there is room near its code.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::error::AttachError;

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Stores are seen by others that map the file.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file: major, minor; (0, 0) for memory without file.
    pub device: (u32, u32),
    /// Inode of the file, 0 for memory without file.
    pub inode: u64,
    /// Path in the process' own mount namespace, `[stack]` and the like, or empty. Without the ` (deleted)` mark.
    pub path: PathBuf,
    /// The file has no name any more.
    pub deleted: bool,
}

/// What tells one file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// Of an open file.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn of(file: &std::fs::File) -> std::io::Result<Self> {
        file.metadata().map(|found| Self::from(&found))
    }
}

impl From<&std::fs::Metadata> for FileIdentity {
    fn from(found: &std::fs::Metadata) -> Self {
        let device = found.dev();
        Self { device: (rustix::fs::major(device), rustix::fs::minor(device)), inode: found.ino() }
    }
}

impl Mapping {
    /// The file.
    pub fn file(&self) -> FileIdentity {
        FileIdentity { device: self.device, inode: self.inode }
    }

    /// The mappings of a process, by address, read as they are asked for: what was mapped last is among the first, as a rule.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn each(pid: i32) -> Result<impl Iterator<Item = Mapping>, AttachError> {
        let file =
            fs::File::open(format!("/proc/{pid}/maps")).map_err(AttachError::system(pid, "read the mappings"))?;
        Ok(BufReader::new(file).split(b'\n').map_while(Result::ok).filter_map(|line| Mapping::parse(&line)))
    }

    /// All mappings of a process, by address.
    ///
    /// # Errors
    /// If they can't be read; [`AttachError::Exited`] if there are none.
    pub fn all(pid: i32) -> Result<Vec<Mapping>, AttachError> {
        // Whole or not at all: of a task that ends meanwhile only a part can be read.
        let text = fs::read(format!("/proc/{pid}/maps")).map_err(AttachError::system(pid, "read the mappings"))?;
        let mappings: Vec<Mapping> = text.split(|&byte| byte == b'\n').filter_map(Mapping::parse).collect();
        if mappings.is_empty() { Err(AttachError::Exited { pid }) } else { Ok(mappings) }
    }

    fn parse(line: &[u8]) -> Option<Mapping> {
        let mut fields = line.splitn(6, |b| *b == b' ');
        let mut field = || fields.next().and_then(|f| std::str::from_utf8(f).ok());
        let (start, end) = field()?.split_once('-')?;
        let flags = field()?.as_bytes();
        let offset = u64::from_str_radix(field()?, 16).ok()?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?.parse().ok()?;
        let path = fields.next().unwrap_or_default();
        let path = &path[path.iter().position(|b| *b != b' ').unwrap_or(path.len())..];
        let (path, deleted) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            readable: flags.first() == Some(&b'r'),
            writable: flags.get(1) == Some(&b'w'),
            executable: flags.get(2) == Some(&b'x'),
            shared: flags.get(3) == Some(&b's'),
            offset,
            device: (number(major)? as u32, number(minor)? as u32),
            inode,
            path: unescape(path),
            deleted,
        })
    }
}

/// The kernel writes a newline in a path as `\012`.
fn unescape(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.first() {
        if rest.starts_with(b"\\012") {
            bytes.push(b'\n');
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = &rest[1..];
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// Addresses that code must reach with displacements of 32 bits, and be reached from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Lowest address.
    pub low: u64,
    /// Address after the highest.
    pub high: u64,
}

/// Kept clear of both ends of the ±2 GiB.
const MARGIN: u64 = 1 << 20;
/// Kept free above a heap, which grows upwards, and below a stack, which grows downwards.
const HEADROOM: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// Below it nothing is mapped for a user (`vm.mmap_min_addr` is lower, but programs like null pointers to be caught).
const LOWEST: u64 = 0x1_0000;
const HIGHEST: u64 = 0x7fff_ffff_f000;

impl Reach {
    /// Addresses at which `size` bytes are wholly in reach, start to last start; `None` if the range is too wide.
    fn window(self, size: u64) -> Option<(u64, u64)> {
        let limit = (1u64 << 31) - MARGIN;
        let first = self.high.saturating_sub(limit).max(LOWEST).next_multiple_of(PAGE);
        let last = (self.low.checked_add(limit)?.min(HIGHEST)).checked_sub(size)? & !(PAGE - 1);
        (first <= last).then_some((first, last))
    }

    /// Merges neighbours as far as `size` bytes can be placed in reach of all of them.
    pub fn groups(mut ranges: Vec<Reach>, size: u64) -> Vec<Reach> {
        ranges.sort_unstable_by_key(|r| r.low);
        let mut groups: Vec<Reach> = Vec::new();
        for range in ranges {
            match groups.last_mut() {
                Some(group) if range.high - group.low < (1 << 30) && group.or(range).window(size).is_some() => {
                    *group = group.or(range);
                }
                _ => groups.push(range),
            }
        }
        groups
    }

    fn or(self, other: Reach) -> Reach {
        Reach { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// Free places for `size` bytes in reach, best first: nearest below the code, where neither heap nor libraries grow
/// soon; then above it, past the headroom of a heap.
pub fn free_places(mappings: &[Mapping], reach: Reach, size: u64) -> Vec<u64> {
    let size = size.next_multiple_of(PAGE);
    let Some((first, last)) = reach.window(size) else { return Vec::new() };
    let mut places = Vec::new();
    let mut floor = LOWEST;
    let mut below: Option<&Mapping> = None;
    for next in mappings.iter().map(Some).chain([None]) {
        let ceiling = next.map_or(HIGHEST, |m| m.start);
        // What grows keeps its room; if that leaves nothing, a smaller room has to do.
        for headroom in [HEADROOM, HEADROOM / 16, 0] {
            let heap_below = below.is_some_and(|m| m.path.as_os_str() == "[heap]" || m.writable && m.inode != 0);
            let stack_above = next.is_some_and(|m| m.path.as_os_str() == "[stack]");
            let low = floor.saturating_add(if heap_below { headroom } else { 0 });
            let high = ceiling.saturating_sub(if stack_above { headroom } else { 0 });
            let start = low.max(first).next_multiple_of(PAGE);
            let end = high.min(last.saturating_add(size));
            if end >= start && end - start >= size {
                let place = (end - size) & !(PAGE - 1);
                // Mappings that change while they are read may come out of order.
                let above = || place.saturating_sub(reach.high).saturating_add(4 << 30);
                let distance = if place < reach.low { reach.low - place } else { above() };
                places.push((headroom != HEADROOM, distance, place));
                break;
            }
        }
        if let Some(mapping) = next {
            floor = floor.max(mapping.end);
            below = Some(mapping);
        }
    }
    places.sort_unstable();
    places.into_iter().map(|(_, _, place)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            readable: true,
            writable: path == "[heap]",
            executable: false,
            shared: false,
            offset: 0,
            device: (0, 0),
            inode: 0,
            path: path.into(),
            deleted: false,
        }
    }

    #[test]
    fn lines_of_maps() {
        let line = b"7f00-7f10 r-xs 00001000 fe:01 42                         /a b (deleted)";
        let m = Mapping::parse(line).unwrap();
        assert_eq!((m.start, m.end, m.offset, m.device, m.inode), (0x7f00, 0x7f10, 0x1000, (0xfe, 1), 42));
        assert!(m.readable && !m.writable && m.executable && m.shared && m.deleted);
        assert_eq!(m.path, PathBuf::from("/a b"));
        assert_eq!(Mapping::parse(b"10-20 rw-p 00000000 00:00 0 ").unwrap().path, PathBuf::new());
    }

    #[test]
    fn places_are_free_and_in_reach() {
        let size = 64 << 20;
        let maps = [
            mapping(0x40_0000, 0x50_0000, "/bin/x"),
            mapping(0x60_0000, 0x70_0000, "[heap]"),
            mapping(0x7fff_0000_0000, 0x7fff_0010_0000, "/lib/y"),
            mapping(0x7fff_f000_0000, 0x7fff_f010_0000, "[stack]"),
        ];
        for reach in
            [Reach { low: 0x40_0000, high: 0x50_0000 }, Reach { low: 0x7fff_0000_0000, high: 0x7fff_0010_0000 }]
        {
            let places = free_places(&maps, reach, size);
            assert!(!places.is_empty());
            for place in places {
                assert!(maps.iter().all(|m| place + size <= m.start || m.end <= place), "{place:x}");
                assert!(place.abs_diff(reach.low) < 1 << 31 && (place + size).abs_diff(reach.low) < 1 << 31);
                assert!(place.abs_diff(reach.high) < 1 << 31 && (place + size).abs_diff(reach.high) < 1 << 31);
            }
        }
        let low = free_places(&maps, Reach { low: 0x40_0000, high: 0x50_0000 }, size)[0];
        assert!(low >= 0x70_0000 + HEADROOM, "room for the heap: {low:x}");
    }

    #[test]
    fn groups_are_neighbourhoods() {
        let near = |low: u64| Reach { low, high: low + 0x1000 };
        let groups = Reach::groups(vec![near(0x7fff_0000_0000), near(0x40_0000), near(0x7fff_1000_0000)], 1 << 20);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[1], Reach { low: 0x7fff_0000_0000, high: 0x7fff_1000_1000 });
    }
}
