//! Executable mappings of a process, from `/proc/PID/maps`.
use std::cell::LazyCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::living_task::living_task;

/// What is mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Mapped {
    /// A file, by its number as the kernel prints it and its path; ` (deleted)` may be part of that.
    File { device: (u32, u32), inode: u64, path: String },
    /// Code of the kernel's own.
    Vdso,
    /// Code made at run time.
    Anonymous,
}

/// An executable mapping.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CodeMapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    /// Where the same file's beginning is mapped: the object's headers.
    pub head: Option<u64>,
    pub mapped: Mapped,
}

/// What a file is known by without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    pub size: u64,
    modified: (i64, i64),
}

/// Executable mappings of `tgid` in order of address.
pub(crate) fn read(tgid: i32) -> io::Result<Vec<CodeMapping>> {
    Ok(parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{}/maps", living_task(tgid)))?)))
}

fn parse(text: &str) -> Vec<CodeMapping> {
    let mut head = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((executable, mut mapping)) = parse_line(line) else { continue };
        if mapping.file_offset == 0 {
            head = Some((mapping.mapped.clone(), mapping.start));
        }
        if executable {
            mapping.head = head.as_ref().filter(|(mapped, _)| *mapped == mapping.mapped).map(|&(_, start)| start);
            found.push(mapping);
        }
    }
    found
}

fn parse_line(line: &str) -> Option<(bool, CodeMapping)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let file_offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or("").trim_start();
    let executable = permissions.as_bytes().get(2) == Some(&b'x');
    let number = |text| u32::from_str_radix(text, 16).ok();
    let mapped = match path {
        "[vdso]" => Mapped::Vdso,
        "[vsyscall]" => return None,
        _ if inode != 0 => Mapped::File { device: (number(major)?, number(minor)?), inode, path: path.to_owned() },
        _ => Mapped::Anonymous,
    };
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((executable, CodeMapping { start: address(start)?, end: address(end)?, file_offset, head: None, mapped }))
}

impl FileKey {
    /// What the file at `path` is known by.
    pub fn of_file(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| Self::of(&metadata))
    }

    /// `struct unwind_file_key`.
    pub fn packed(&self) -> Vec<u8> {
        let device = rustix::fs::major(self.device) << 20 | rustix::fs::minor(self.device);
        let (seconds, parts) = (self.modified.0, self.modified.1 as u32);
        let words = [self.inode, self.size, seconds.cast_unsigned(), u64::from(parts) | u64::from(device) << 32];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl CodeMapping {
    /// Where the mapped file can be opened: at its path, seen from here or from the process, if that is still the same
    /// file; else through the mapping itself, which takes privilege.
    pub fn file(&self, tgid: i32) -> Option<(FileKey, String)> {
        let Mapped::File { device, inode, path } = &self.mapped else { return None };
        let task = LazyCell::new(|| living_task(tgid));
        let at = |place: String| Some((fs::metadata(&place).ok().filter(fs::Metadata::is_file)?, place));
        let here = || {
            at(path.clone()).filter(|(found, _)| {
                let number = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
                found.ino() == *inode && number == *device
            })
        };
        // Some file systems number their devices otherwise in `maps`.
        let there = || at(format!("/proc/{}/root{path}", *task)).filter(|(found, _)| found.ino() == *inode);
        let mapping = || at(format!("/proc/{}/map_files/{:x}-{:x}", *task, self.start, self.end));
        let (metadata, place) = here().or_else(there).or_else(mapping)?;
        Some((FileKey::of(&metadata), place))
    }
}

/// The memory of a process, to read an object from that it has mapped.
pub(crate) fn memory(tgid: i32) -> io::Result<File> {
    File::open(format!("/proc/{}/mem", living_task(tgid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_sorts() {
        let text = "\
55d0c0a00000-55d0c0b00000 r--p 00000000 fe:00 1234                       /usr/bin/a program
55d0c0b00000-55d0c0c00000 r-xp 00100000 fe:00 1234                       /usr/bin/a program
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 r-xs 00000000 00:01 99                         /memfd:jit (deleted)
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let found = parse(text);
        let kinds: Vec<_> = found.iter().map(|mapping| (mapping.start, &mapping.mapped)).collect();
        let file = |device, inode, path: &str| Mapped::File { device, inode, path: path.to_owned() };
        assert_eq!(
            kinds,
            [
                (0x55d0_c0b0_0000, &file((0xfe, 0), 1234, "/usr/bin/a program")),
                (0x7f00_0000_0000, &Mapped::Anonymous),
                (0x7f00_0000_2000, &file((0, 1), 99, "/memfd:jit (deleted)")),
                (0x7ffc_0000_0000, &Mapped::Vdso),
            ]
        );
        assert_eq!(found[0].file_offset, 0x10_0000);
        assert_eq!(found[0].head, Some(0x55d0_c0a0_0000));
    }
}
