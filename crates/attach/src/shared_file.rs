//! Memory shared with a process: a file without a name, made by the process itself, so that no right to reach ours is
//! needed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};

use crate::error::AttachError;
use crate::target::Target;

/// A memory file that a process has mapped for reading and writing.
#[derive(Debug)]
pub struct SharedFile {
    /// The file, open here.
    pub file: File,
    /// Where the process has mapped it.
    pub address: u64,
}

/// Fixes the size of a memory file that is shared with a program: one that shortens it would end us with SIGBUS.
///
/// # Errors
/// What the system says, above all if the file was made without `MFD_ALLOW_SEALING`.
pub fn seal_size(file: &File) -> io::Result<()> {
    let wanted = SealFlags::SHRINK | SealFlags::GROW;
    if fcntl_get_seals(file)?.contains(wanted) {
        return Ok(());
    }
    Ok(fcntl_add_seals(file, wanted)?)
}

impl Target {
    /// Makes and maps a memory file of `size` bytes, all zero, in short stops of one thread. The process keeps its
    /// descriptor, so that [`Target::shared_memory`] finds it again.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`] with the call that failed; what was made before is taken back.
    pub fn share_memory(&self, name: &'static str, size: u64) -> Result<SharedFile, AttachError> {
        let descriptor = self.make_file(name)?;
        let shared = self.map_shared(descriptor, size);
        if shared.is_err() {
            self.close_in_it(descriptor);
        }
        shared
    }

    fn map_shared(&self, descriptor: u64, size: u64) -> Result<SharedFile, AttachError> {
        let pid = self.pid();
        let file = self.open_descriptor(descriptor, "open the shared memory")?;
        file.set_len(size).map_err(AttachError::system(pid, "size the shared memory"))?;
        seal_size(&file).map_err(AttachError::system(pid, "seal the shared memory"))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let address = self.in_short_stop(|stop| stop.map_file(0, descriptor, 0, size, access))?;
        Ok(SharedFile { file, address })
    }

    /// The memory file of this name and size that an earlier controller has left in the process, if it can be opened.
    pub fn shared_memory(&self, name: &str, size: u64) -> Option<SharedFile> {
        let path = format!("/memfd:{name}");
        let mappings = self.mappings().ok()?;
        let mapping = mappings.iter().find(|m| m.path.as_os_str() == &*path && m.writable && m.offset == 0)?;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.task())).ok()?;
        let same = |entry: &fs::DirEntry| fs::metadata(entry.path()).is_ok_and(|file| file.ino() == mapping.inode);
        let found = descriptors.flatten().find(same)?;
        let file = File::options().read(true).write(true).open(found.path()).ok()?;
        let fits = file.metadata().is_ok_and(|file| file.len() == size && file.ino() == mapping.inode);
        let fits = fits && seal_size(&file).is_ok();
        fits.then_some(SharedFile { file, address: mapping.start })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn a_sealed_file_keeps_its_size() {
        let file = File::from(memfd_create("sealed", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(8192).unwrap();
        seal_size(&file).unwrap();
        seal_size(&file).unwrap();
        for size in [0, 4096, 16384] {
            assert!(file.set_len(size).is_err(), "{size}");
        }
        assert_eq!(file.metadata().unwrap().len(), 8192);
        let other = File::from(memfd_create("other", MemfdFlags::empty()).unwrap());
        assert!(seal_size(&other).is_err(), "a program's own, which it could shorten");
    }
}
