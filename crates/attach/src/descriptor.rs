//! Descriptors of ours in a process, which its program may see, count on or run out of: there for as short as possible, and out
//! of the range that programs use.

use std::fs::File;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::address_space::FileIdentity;
use crate::error::AttachError;
use crate::process::{Status, limit_of, threads};
use crate::stop::Stop;
use crate::target::Target;

const MFD_NOEXEC_SEAL: u64 = 8;
/// Descriptors from here on are seldom counted on.
const HIGH_DESCRIPTOR: u64 = 512;

impl Target {
    /// Makes the memory file and gives its descriptor.
    pub(crate) fn make_file(&self, name: &str) -> Result<u64, AttachError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let scratch = self.in_short_stop(|stop| stop.map_anonymous(0, 4096, access))?;
        let mut name = name.as_bytes().to_vec();
        name.push(0);
        self.memory().write(scratch, &name)?;
        let high = self.high_descriptor();
        let _room = RoomForOne::make(self.pid());
        // One after the other by the same thread: descriptors may be its own.
        self.in_short_stop(|stop| {
            let made = stop.make_named_file(scratch);
            let _ = stop.unmap(scratch, 4096);
            let low = made?;
            let to_high = [low, libc::F_DUPFD_CLOEXEC as u64, high, 0, 0, 0];
            match stop.call("fcntl", libc::SYS_fcntl, to_high) {
                Ok(high) => {
                    let _ = stop.call("close", libc::SYS_close, [low, 0, 0, 0, 0, 0]);
                    Ok(high)
                }
                // The limit on descriptors is lower than that, and we may not raise it.
                Err(_) => Ok(low),
            }
        })
    }

    /// From which number on a descriptor of ours is to be. Where threads share the table of descriptors, it is one that the
    /// table has room for: to make a larger one the kernel waits, with the thread that we hold, for a grace period of RCU,
    /// which takes tens of milliseconds, on a crowded machine seconds.
    fn high_descriptor(&self) -> u64 {
        let room = Status::read(self.task()).map_or(0, |status| status.descriptor_slots);
        if threads(self.pid()).len() < 2 || room > HIGH_DESCRIPTOR {
            return HIGH_DESCRIPTOR;
        }
        let taken = |number: &u64| Path::new(&format!("/proc/{}/fd/{number}", self.task())).exists();
        (room / 2..room).rev().find(|number| !taken(number)).unwrap_or(HIGH_DESCRIPTOR)
    }

    /// Opens the file that the process has at a descriptor, for reading and writing.
    pub(crate) fn open_descriptor(&self, descriptor: u64, what: &'static str) -> Result<File, AttachError> {
        self.by_task(|task| {
            let file = File::options().read(true).write(true).open(format!("/proc/{task}/fd/{descriptor}"));
            file.map_err(AttachError::system(self.pid(), what))
        })
    }

    /// Closes a descriptor of the process, if that can be done.
    pub(crate) fn close_in_it(&self, descriptor: u64) {
        let _ = self.in_short_stop(|stop| stop.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]));
    }
}

impl Stop<'_> {
    /// Closes the process' descriptors of these files: nobody finds them any more.
    pub fn close_files(&mut self, files: &[FileIdentity]) {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", self.target.task())) else { return };
        for entry in entries.flatten() {
            let is_one = std::fs::metadata(entry.path()).is_ok_and(|found| files.contains(&FileIdentity::from(&found)));
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()).filter(|_| is_one);
            if let Some(number) = number {
                let _ = self.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0]);
            }
        }
    }

    /// Makes a memory file of the name that stands at `name` in the process.
    fn make_named_file(&mut self, name: u64) -> Result<u64, AttachError> {
        let close_on_exec = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        let mut make = |flags| self.call("memfd_create", libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]);
        // With the seal it is allowed under every value of vm.memfd_noexec; kernels before 6.3 don't know it.
        make(close_on_exec | MFD_NOEXEC_SEAL).or_else(|_| make(close_on_exec))
    }
}

/// A process's limit on descriptors, raised until this is dropped: one with a low limit may have none left for us.
struct RoomForOne {
    raised: Option<(Pid, Rlimit)>,
}

impl RoomForOne {
    fn make(pid: i32) -> Self {
        let raise = || {
            let usual = limit_of(pid, "Max open files")?;
            let pid = Pid::from_raw(pid)?;
            let current = usual.current.filter(|&current| current <= HIGH_DESCRIPTOR)?;
            let wanted = HIGH_DESCRIPTOR + 1;
            let all = Rlimit { current: Some(wanted), maximum: usual.maximum.map(|maximum| maximum.max(wanted)) };
            // The upper limit is for privileged users to raise.
            let allowed = usual.maximum.unwrap_or(wanted).min(wanted);
            let some = Rlimit { current: Some(allowed.max(current)), maximum: usual.maximum };
            [all, some]
                .into_iter()
                .find_map(|limit| prlimit(Some(pid), Resource::Nofile, limit).ok())
                .map(|_| (pid, usual))
        };
        Self { raised: raise() }
    }
}

impl Drop for RoomForOne {
    fn drop(&mut self) {
        if let Some((pid, usual)) = self.raised.take() {
            let _ = prlimit(Some(pid), Resource::Nofile, usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getrlimit;

    use super::*;

    #[test]
    fn a_low_limit_is_raised_for_a_moment() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let task = Pid::from_raw(pid).unwrap();
        assert_eq!(limit_of(std::process::id() as i32, "Max open files"), Some(getrlimit(Resource::Nofile)));
        let low = Rlimit { current: Some(4), maximum: Some(4096) };
        prlimit(Some(task), Resource::Nofile, low).unwrap();
        let room = RoomForOne::make(pid);
        let raised = limit_of(pid, "Max open files");
        drop(room);
        let after = limit_of(pid, "Max open files");
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(raised, Some(Rlimit { current: Some(HIGH_DESCRIPTOR + 1), maximum: Some(4096) }));
        assert_eq!(after, Some(low));
    }
}
