//! What a blocked thread waits for, and where: what the kernel tells of its system call. Nothing is stopped for that.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use transect_bpf_collect::record::{object_type, sched_object, sched_wait};

use super::call_walk::Values;

/// A thread that is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// System call; -1: none, as in a page fault.
    call: i64,
    arguments: [u64; 4],
    sp: u64,
    ip: u64,
}

impl Look {
    /// At a thread; `None` if it runs, or may not be looked at.
    pub fn at(tgid: i32, tid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{tgid}/task/{tid}/syscall")).ok()?)
    }

    /// `NUMBER ARGUMENT×6 SP IP`, `-1 SP IP`, `running`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let call = words.next()?.parse().ok()?;
        let numbers: Vec<u64> =
            words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect::<Option<_>>()?;
        match *numbers.as_slice() {
            [sp, ip] => Some(Self { call, arguments: [0; 4], sp, ip }),
            [first, second, third, fourth, _, _, sp, ip] => {
                Some(Self { call, arguments: [first, second, third, fourth], sp, ip })
            }
            _ => None,
        }
    }

    /// Its registers, as far as they are told.
    pub fn values(&self) -> Values {
        Values::of_blocked(self.ip, self.sp)
    }

    /// Whether another wait is at the same place, be it of a call that goes on after a stop.
    pub fn is_there(&self, other: &Self) -> bool {
        (self.sp, self.ip) == (other.sp, other.ip)
    }

    /// Its system call; of one that goes on after an interruption that is not told.
    pub fn call(&self) -> Option<i64> {
        Some(self.call).filter(|call| *call >= 0 && *call != RESTART)
    }

    /// Its stack pointer.
    pub fn sp(&self) -> u64 {
        self.sp
    }

    /// What it waits for, as the kernel's own record says it; `task` is the thread's number.
    pub fn record(&self, tgid: i32, task: u32) -> sched_wait {
        let object = if takes_descriptor(self.call) { object(tgid, self.arguments[0]) } else { None };
        sched_wait {
            task,
            system_call: self.call,
            arguments: self.arguments,
            user_ip: self.ip,
            object: object.unwrap_or_default(),
            ..sched_wait::default()
        }
    }
}

/// `restart_syscall`.
const RESTART: i64 = 219;

/// Whether the first argument is a descriptor, of the calls that wait: read write close fstat, pread64 pwrite64 readv
/// writev, sendfile, connect to shutdown, fcntl to ftruncate, getdents, epoll_wait, …
fn takes_descriptor(call: i64) -> bool {
    const CALLS: &[i64] = &[
        0, 1, 3, 5, 17, 18, 19, 20, 42, 43, 44, 45, 46, 47, 48, 72, 73, 74, 75, 77, 78, 187, 217, 232, 277, 281, 285,
        288, 295, 296, 299, 306, 307, 326, 327, 328, 426, 441,
    ];
    CALLS.contains(&call)
}

fn object(tgid: i32, descriptor: u64) -> Option<sched_object> {
    let fd = i32::try_from(descriptor).ok()?;
    let place = format!("/proc/{tgid}/fd/{fd}");
    let link = fs::read_link(&place).ok()?.to_string_lossy().into_owned();
    let found = fs::metadata(&place).ok();
    let mut object = sched_object {
        fd,
        inode: found.as_ref().map_or(0, MetadataExt::ino),
        device: found.as_ref().map_or(0, MetadataExt::dev),
        r#type: object_type::FILE,
        ..sched_object::default()
    };
    let mut name = "";
    if let Some(anonymous) = link.strip_prefix("anon_inode:") {
        (object.r#type, name) = (object_type::ANONYMOUS, anonymous);
    } else if link.starts_with("socket:") {
        object.r#type = object_type::SOCKET_OTHER;
    } else if link.starts_with("pipe:") || found.as_ref().is_some_and(|found| found.file_type().is_fifo()) {
        object.r#type = object_type::PIPE;
    } else if found.is_some_and(|found| found.file_type().is_char_device()) {
        object.r#type = object_type::DEVICE;
    }
    for (at, byte) in object.name.iter_mut().zip(name.bytes().take(27)) {
        *at = byte as _;
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let line = "202 0x7f01 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f02\n";
        let look = Look { call: 202, arguments: [0x7f01, 0x80, 2, 0], sp: 0x7ffd10, ip: 0x7f02 };
        assert_eq!(Look::parse(line), Some(look));
        assert_eq!(Look::parse("-1 0x10 0x20\n"), Some(Look { call: -1, arguments: [0; 4], sp: 0x10, ip: 0x20 }));
        assert_eq!(Look::parse("running\n"), None);
        assert_eq!(Look::parse(""), None);
    }

    #[test]
    fn a_pipe_that_is_read_is_known() {
        let (reader, writer) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || {
            let mut reader = reader;
            std::io::Read::read(&mut reader, &mut [0]).unwrap()
        });
        let own = std::process::id().cast_signed();
        let find = || {
            let tids = super::super::source::threads_of(own).unwrap();
            let looks = tids.into_iter().filter_map(|tid| Look::at(own, tid));
            looks
                .map(|look| look.record(own, 1))
                .find(|record| record.system_call == 0 && record.object.r#type == object_type::PIPE)
        };
        let found = (0..2000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            find()
        });
        drop(writer);
        assert_eq!(thread.join().unwrap(), 0);
        assert!(found.is_some() || Look::at(own, own).is_none());
    }
}
