//! System calls of x86-64 that can block, by what they do.

/// What a system call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Not in a system call: a fault.
    None,
    /// Blocked before the recording, or not a call of x86-64.
    Unknown,
    /// A call that a signal interrupted and that goes on.
    Restarted,
    /// Reads from a descriptor.
    Read,
    /// Writes to a descriptor.
    Write,
    /// Closes a descriptor, which may write what is left.
    Close,
    /// Opens by name.
    Open,
    /// Looks a name up.
    ReadName,
    /// Changes names.
    WriteName,
    /// Waits until data is on the disk.
    Sync,
    /// For sockets only.
    Socket,
    /// poll, ppoll: the second argument counts descriptors.
    Poll,
    /// select, pselect6: the first argument counts descriptors.
    Select,
    /// Waits for any of many events: epoll, io_uring, aio.
    Events,
    /// Waits for a child process.
    Child,
    /// Sleeps.
    Sleep,
    /// Waits for a signal.
    Signal,
    /// Locks a file.
    FileLock,
    /// System V semaphores.
    Semaphore,
    /// A word in memory.
    Futex,
    /// Changes mappings.
    Memory,
    /// Anything else.
    Other,
}

/// Numbers by what the calls do (arch/x86/entry/syscalls/syscall_64.tbl).
#[rustfmt::skip]
const CALLS: &[(Call, &[i64])] = &[
    // read pread64 readv getdents readahead getdents64 preadv preadv2 execve execveat sendfile
    (Call::Read, &[0, 17, 19, 78, 187, 217, 295, 327, 59, 322, 40]),
    // write pwrite64 writev ftruncate fallocate pwritev copy_file_range pwritev2
    (Call::Write, &[1, 18, 20, 77, 285, 296, 326, 328]),
    (Call::Close, &[3]),
    // open openat openat2
    (Call::Open, &[2, 257, 437]),
    // stat lstat access readlink newfstatat readlinkat faccessat statx faccessat2; fstat
    (Call::ReadName, &[4, 6, 21, 89, 262, 267, 269, 332, 439, 5]),
    // truncate rename mkdir rmdir creat link unlink symlink chmod chown mkdirat unlinkat renameat linkat symlinkat
    // renameat2; fchmod fchown utimensat
    (Call::WriteName, &[76, 82, 83, 84, 85, 86, 87, 88, 90, 92, 258, 263, 264, 265, 266, 316, 91, 93, 280]),
    // msync fsync fdatasync sync sync_file_range syncfs
    (Call::Sync, &[26, 74, 75, 162, 277, 306]),
    // connect accept sendto recvfrom sendmsg recvmsg shutdown accept4 recvmmsg sendmmsg
    (Call::Socket, &[42, 43, 44, 45, 46, 47, 48, 288, 299, 307]),
    // poll ppoll
    (Call::Poll, &[7, 271]),
    // select pselect6
    (Call::Select, &[23, 270]),
    // io_getevents epoll_wait_old epoll_wait epoll_pwait io_pgetevents io_uring_enter epoll_pwait2
    (Call::Events, &[208, 215, 232, 281, 333, 426, 441]),
    // wait4 waitid vfork; clone and clone3 wait for the child where they are asked to (CLONE_VFORK)
    (Call::Child, &[61, 247, 58, 56, 435]),
    // nanosleep clock_nanosleep
    (Call::Sleep, &[35, 230]),
    // pause rt_sigtimedwait rt_sigsuspend
    (Call::Signal, &[34, 128, 130]),
    // fcntl flock
    (Call::FileLock, &[72, 73]),
    // semop semtimedop
    (Call::Semaphore, &[65, 220]),
    // futex futex_waitv futex_wait
    (Call::Futex, &[202, 449, 455]),
    // mmap mprotect munmap brk mremap madvise mlock mlockall process_madvise
    (Call::Memory, &[9, 10, 11, 12, 25, 28, 149, 151, 440]),
    (Call::Restarted, &[219]),
];

impl Call {
    /// By the number in the registers; -1: none, -2: unknown.
    pub fn of(number: i64) -> Self {
        match number {
            -1 => Self::None,
            ..-1 => Self::Unknown,
            _ => CALLS.iter().find(|(_, numbers)| numbers.contains(&number)).map_or(Self::Other, |(call, _)| *call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_stands_once() {
        let mut numbers: Vec<i64> = CALLS.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
    }

    #[test]
    fn numbers_are_those_of_the_system_library() {
        for (number, call) in [
            (libc::SYS_read, Call::Read),
            (libc::SYS_pwritev2, Call::Write),
            (libc::SYS_openat, Call::Open),
            (libc::SYS_renameat2, Call::WriteName),
            (libc::SYS_statx, Call::ReadName),
            (libc::SYS_fdatasync, Call::Sync),
            (libc::SYS_msync, Call::Sync),
            (libc::SYS_accept4, Call::Socket),
            (libc::SYS_ppoll, Call::Poll),
            (libc::SYS_pselect6, Call::Select),
            (libc::SYS_epoll_pwait2, Call::Events),
            (libc::SYS_io_uring_enter, Call::Events),
            (libc::SYS_waitid, Call::Child),
            (libc::SYS_vfork, Call::Child),
            (libc::SYS_clock_nanosleep, Call::Sleep),
            (libc::SYS_rt_sigsuspend, Call::Signal),
            (libc::SYS_flock, Call::FileLock),
            (libc::SYS_semtimedop, Call::Semaphore),
            (libc::SYS_futex, Call::Futex),
            (libc::SYS_madvise, Call::Memory),
            (libc::SYS_restart_syscall, Call::Restarted),
            (libc::SYS_getpid, Call::Other),
            (-1, Call::None),
            (-2, Call::Unknown),
        ] {
            assert_eq!(Call::of(number), call, "{number}");
        }
    }
}
