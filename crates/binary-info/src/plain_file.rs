//! Opening files that other users may have put in place, or replace at any time.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The most that is read into memory of a file that another user may cut short while it is mapped.
pub(crate) const MOST_COPIED: u64 = 1 << 30;

/// What to do where the last part of a path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Go where it leads.
    Follow,
    /// Refuse it: who may write in the folder chose where it leads.
    Refuse,
}

/// Opens a plain file for reading. Nothing else is opened: a pipe would make us wait, a device may do something.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] if there is something else than a plain file.
pub fn open_plain(path: impl AsRef<Path>, last: LastLink) -> io::Result<File> {
    let path = path.as_ref();
    let found = match last {
        LastLink::Follow => std::fs::metadata(path)?,
        LastLink::Refuse => std::fs::symlink_metadata(path)?,
    };
    refuse_others(&found)?;
    // Something else may be there by now: neither wait for it, nor let it become our terminal.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if last == LastLink::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

/// Reads a text that a user wrote by hand: links are followed, all but plain files of at most 64 MiB are refused.
///
/// # Errors
/// As [`open_plain`]; [`io::ErrorKind::FileTooLarge`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_plain(path: impl AsRef<Path>) -> io::Result<String> {
    const LIMIT: u64 = 64 << 20;
    let mut text = String::new();
    open_plain(path, LastLink::Follow)?.take(LIMIT + 1).read_to_string(&mut text).map_err(|error| {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::InvalidInput, "a file of the kernel that makes its readers wait")
            }
            _ => error,
        }
    })?;
    if text.len() as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 64 MiB"));
    }
    Ok(text)
}

fn refuse_others(found: &std::fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_fifo() => "a pipe",
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a plain file")))
}

/// Whether nobody but root and the user of this process can cut a file short: reading what was mapped of it would end in
/// SIGBUS.
pub(crate) fn is_ours(file: &std::fs::Metadata) -> bool {
    file.uid() == 0 || file.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_plain_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("file"), "text").unwrap();
        symlink(place("file"), place("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, place("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(place("pipe"), place("link-to-pipe")).unwrap();
        assert!(open_plain(place("file"), LastLink::Refuse).is_ok());
        assert!(open_plain(place("link"), LastLink::Follow).is_ok());
        for (name, last) in [
            ("link", LastLink::Refuse),
            // Nobody writes to it: opening it without O_NONBLOCK would never return.
            ("pipe", LastLink::Follow),
            ("pipe", LastLink::Refuse),
            ("link-to-pipe", LastLink::Follow),
            ("", LastLink::Follow),
        ] {
            let error = open_plain(place(name), last).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
        }
        assert!(open_plain("/dev/null", LastLink::Follow).is_err());
        assert_eq!(open_plain(place("none"), LastLink::Follow).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
