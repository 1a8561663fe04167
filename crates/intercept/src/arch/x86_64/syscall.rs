//! The handful of system calls the agent makes, without libc (whose wrappers may be interposed or absent).

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::published::OWN_CALL_MARK;

#[inline]
unsafe fn call(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; callers answer for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, in("r15") OWN_CALL_MARK, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Pages may be read.
pub const PROT_READ: u64 = 1;
/// Pages may be written.
pub const PROT_WRITE: u64 = 2;
/// Pages may be executed.
pub const PROT_EXEC: u64 = 4;
/// Map shared.
pub const MAP_SHARED: u64 = 1;
/// Map private.
pub const MAP_PRIVATE: u64 = 2;
/// No file.
pub const MAP_ANONYMOUS: u64 = 0x20;
/// No swap reservation.
pub const MAP_NORESERVE: u64 = 0x4000;
/// At this address or not at all.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
/// Opens a zero-terminated path, for reading without waiting for whoever might write; negative errno on failure.
pub fn open(path: *const u8, write: bool) -> i64 {
    const O_CLOEXEC: u64 = 0o2_000_000;
    const O_RDWR: u64 = 2;
    const O_NONBLOCK: u64 = 0o4_000;
    // SAFETY: the kernel checks the pointer.
    unsafe { call(2, path as u64, O_CLOEXEC | if write { O_RDWR } else { O_NONBLOCK }, 0, 0, 0, 0) }
}

/// Closes a descriptor.
pub fn close(fd: i64) {
    // SAFETY: only descriptors we opened are passed.
    unsafe { call(3, fd as u64, 0, 0, 0, 0, 0) };
}

/// Reads into `buffer` at the file's position.
pub fn read(fd: i64, buffer: &mut [u8]) -> i64 {
    // SAFETY: the buffer is ours for its length.
    unsafe { call(0, fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0) }
}

/// Reads at an offset.
pub fn pread(fd: i64, buffer: &mut [u8], offset: u64) -> i64 {
    // SAFETY: the buffer is ours for its length.
    unsafe { call(17, fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, offset, 0, 0) }
}

/// Reads the target of a symbolic link.
pub fn readlink(path: *const u8, buffer: &mut [u8]) -> i64 {
    // SAFETY: the kernel checks `path`; the buffer is ours.
    unsafe { call(89, path as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0) }
}

/// True if the path may be read.
pub fn readable_path(path: *const u8) -> bool {
    // SAFETY: the kernel checks the pointer.
    unsafe { call(21, path as u64, 4, 0, 0, 0, 0) == 0 }
}

/// `struct stat` of the file at a zero-terminated path; `None` if it can't be examined.
fn stat(path: *const u8) -> Option<[u64; 18]> {
    let mut found = [0u64; 18];
    // SAFETY: the kernel checks the path; `struct stat` has 144 bytes.
    let done = unsafe { call(4, path as u64, found.as_mut_ptr() as u64, 0, 0, 0, 0) };
    (done == 0).then_some(found)
}

/// True if there is a file at the path.
pub fn exists(path: *const u8) -> bool {
    stat(path).is_some()
}

/// True if the kernel gives the rights of another user or group to whoever runs the file, so that the loader ignores
/// `LD_PRELOAD`: its set-id bits count only where its owner or group is not the real one of this process (execve(2), `AT_SECURE`
/// in getauxval(3)). `None` if the file can't be examined.
pub fn changes_identity(path: *const u8) -> Option<bool> {
    const S_ISUID: u32 = 0o4000;
    // Without group execution the bit means locking.
    const S_ISGID_EXECUTABLE: u32 = 0o2010;
    // st_mode, st_uid; st_gid
    let [.., mode_and_owner, group] = *stat(path)?.first_chunk::<5>()?;
    let (mode, owner, group) = (mode_and_owner as u32, mode_and_owner >> 32, group & u64::from(u32::MAX));
    // SAFETY: getuid and getgid take nothing and always succeed.
    let [user, own_group] = [102, 104].map(|number| unsafe { call(number, 0, 0, 0, 0, 0, 0) } as u64);
    Some(mode & S_ISUID != 0 && owner != user || mode & S_ISGID_EXECUTABLE == S_ISGID_EXECUTABLE && group != own_group)
}

/// What tells this version of a file from others of its build-id: see [`transect_event_abi::plan::file_stamp`].
pub fn file_stamp(path: *const u8) -> Option<u64> {
    // st_ino, st_size, st_ctime, st_ctime_nsec
    stat(path).map(|found| transect_event_abi::plan::file_stamp([found[1], found[6], found[13], found[14]]))
}

/// Inode number of a file; `None` if it can't be examined.
pub fn file_number(path: *const u8) -> Option<u64> {
    stat(path).map(|found| found[1])
}

/// Connects to a Unix socket at a zero-terminated path of less than 108 bytes, and receives the one descriptor that is
/// sent there. After each `millis` without an answer (less than 1000) `go_on` says whether to wait on.
pub fn receive_descriptor(path: &[u8], millis: u64, mut go_on: impl FnMut() -> bool) -> Option<i64> {
    const AF_UNIX: u16 = 1;
    const SOCK_STREAM_CLOEXEC: u64 = 1 | 0o2_000_000;
    const SOL_SOCKET: u64 = 1;
    const SO_RCVTIMEO: u64 = 20;
    const SO_SNDTIMEO: u64 = 21;
    const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
    const SCM_RIGHTS: u64 = 1;
    const EAGAIN: i64 = -11;
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
    address.get_mut(2..2 + path.len())?.copy_from_slice(path);
    let timeout = [0, millis * 1000];
    let mut byte = 0u8;
    let part = [&raw mut byte as u64, 1];
    // struct cmsghdr with one descriptor
    let mut control = [0u64; 3];
    // struct msghdr: name, its length, parts, their number, control, its length, flags
    let mut message = [0, 0, part.as_ptr() as u64, 1, control.as_mut_ptr() as u64, 24, 0];
    // SAFETY: the buffers live until the calls return and are as long as is said.
    unsafe {
        let socket = call(41, AF_UNIX as u64, SOCK_STREAM_CLOEXEC, 0, 0, 0, 0);
        if socket < 0 {
            return None;
        }
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            call(54, socket as u64, SOL_SOCKET, option, timeout.as_ptr() as u64, 16, 0);
        }
        let mut patiently = |call: &mut dyn FnMut() -> i64| loop {
            match call() {
                EAGAIN if go_on() => {}
                result => break result,
            }
        };
        let connected =
            patiently(&mut || call(42, socket as u64, address.as_ptr() as u64, 2 + path.len() as u64, 0, 0, 0));
        let received = match connected {
            0 => patiently(&mut || call(47, socket as u64, message.as_mut_ptr() as u64, MSG_CMSG_CLOEXEC, 0, 0, 0)),
            failed => failed,
        };
        close(socket);
        let [length, kind, descriptor] = core::array::from_fn(|i| (&raw const control[i]).read_volatile());
        let got = received == 1 && length == 20 && kind == SOL_SOCKET | SCM_RIGHTS << 32;
        got.then_some(i64::from(descriptor as u32 as i32))
    }
}

/// mmap; negative errno on failure.
///
/// # Safety
/// With an address given, the caller owns that range or passes [`MAP_FIXED_NOREPLACE`].
pub unsafe fn mmap(address: u64, length: u64, protection: u64, flags: u64, fd: i64, offset: u64) -> i64 {
    // SAFETY: see above.
    let at = unsafe { call(9, address, length, protection, flags, fd as u64, offset) };
    if at > 0 {
        MAPPED.fetch_add(whole_pages(length), Ordering::Relaxed);
    }
    at
}

/// Bytes that the agent has mapped itself.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Bytes that the agent has mapped itself and not unmapped again.
pub fn mapped() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

fn whole_pages(length: u64) -> u64 {
    (length + 4095) & !4095
}

/// munmap.
///
/// # Safety
/// Nothing refers to the range any more.
pub unsafe fn munmap(address: u64, length: u64) {
    // SAFETY: see above.
    if unsafe { call(11, address, length, 0, 0, 0, 0) } == 0 {
        MAPPED.fetch_sub(whole_pages(length), Ordering::Relaxed);
    }
}

/// Maps a file from its beginning, shared, in place of a mapping of ours.
///
/// # Safety
/// Nothing refers to the range.
pub unsafe fn map_over(address: u64, length: u64, fd: i64) -> bool {
    const MAP_FIXED: u64 = 0x10;
    let flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: see above.
    unsafe { call(9, address, length, PROT_READ | PROT_WRITE, flags, fd as u64, 0) == address as i64 }
}

/// Maps what is mapped, shared, at `from` a second time in place of a mapping of ours; `length` may go beyond the first one's.
///
/// # Safety
/// Nothing refers to the range at `to`.
pub unsafe fn map_same(from: u64, to: u64, length: u64) -> bool {
    const MREMAP_MAYMOVE: u64 = 1;
    const MREMAP_FIXED: u64 = 2;
    // SAFETY: see above; an old length of 0 leaves the first mapping (mremap(2)).
    unsafe { call(25, from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0) == to as i64 }
}

/// Lets a shared mapping of ours show the part of its file that begins at `offset`.
///
/// # Safety
/// Nothing refers to the range.
pub unsafe fn move_part(address: u64, length: u64, offset: u64) -> bool {
    /// Without it the pages would be read at once.
    const MAP_NONBLOCK: u64 = 0x1_0000;
    // SAFETY: see above; remap_file_pages(2).
    unsafe { call(216, address, length, 0, offset >> 12, MAP_NONBLOCK, 0) == 0 }
}

/// Whether the thread's system calls are filtered.
pub fn is_filtered() -> bool {
    const PR_GET_SECCOMP: u64 = 21;
    // SAFETY: no pointers.
    unsafe { call(157, PR_GET_SECCOMP, 0, 0, 0, 0, 0) > 0 }
}

/// mprotect; true on success.
///
/// # Safety
/// The new protection suits every user of the range.
pub unsafe fn mprotect(address: u64, length: u64, protection: u64) -> bool {
    // SAFETY: see above.
    unsafe { call(10, address, length, protection, 0, 0, 0) == 0 }
}

/// Keeps a range out of core dumps.
pub fn dont_dump(address: u64, length: u64) {
    // SAFETY: MADV_DONTDUMP changes no content.
    unsafe { call(28, address, length, 16, 0, 0, 0) };
}

/// Whether a program that is executed now has a descriptor left to open its libraries by: one that is free, or that is closed
/// at exec.
pub fn has_descriptor_after_exec() -> bool {
    const RLIMIT_NOFILE: u64 = 7;
    const EMFILE: i64 = -24;
    const FD_CLOEXEC: i64 = 1;
    /// Descriptors that are looked at: a program that has used up more is taken for one with some to close.
    const MOST: u64 = 65_536;
    // SAFETY: duplicates standard input, which changes nothing that the program sees.
    let fd = unsafe { call(32, 0, 0, 0, 0, 0, 0) };
    if fd >= 0 {
        close(fd);
    }
    if fd != EMFILE {
        return true;
    }
    let open = limit(RLIMIT_NOFILE).map_or(MOST, |limit| limit[0]);
    // SAFETY: fcntl(F_GETFD) changes nothing; errors are below 0.
    let flags = |fd| unsafe { call(72, fd, 1, 0, 0, 0, 0) };
    open > MOST || (0..open).any(|fd| flags(fd) == FD_CLOEXEC)
}

/// Kernel thread id.
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(186, 0, 0, 0, 0, 0, 0) as u32 }
}

/// CPU time of the calling thread, ns, as of the last tick of the timer, or switch. `clock_gettime` would bring it up to date, and by
/// that have the thread lose its CPU here if its slice is over (`update_curr` of kernel/sched/fair.c): outside of the call that
/// ran it down.
pub fn thread_cpu_ns() -> u64 {
    let [user_s, user_us, system_s, system_us, ..] = thread_usage();
    (user_s + system_s) * 1_000_000_000 + (user_us + system_us) * 1000
}

/// How often the calling thread has lost its CPU (`ru_nivcsw`).
pub fn thread_preempted() -> u64 {
    thread_usage()[17]
}

/// A `struct rusage` of the calling thread: two `timeval`s, then fourteen words.
fn thread_usage() -> [u64; 18] {
    const RUSAGE_THREAD: u64 = 1;
    let mut usage = [0; 18];
    // SAFETY: getrusage writes a struct rusage of that size.
    unsafe { call(98, RUSAGE_THREAD, usage.as_mut_ptr() as u64, 0, 0, 0, 0) };
    usage
}

/// Process id.
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(39, 0, 0, 0, 0, 0, 0) as u32 }
}

/// Parent's process id.
pub fn getppid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(110, 0, 0, 0, 0, 0, 0) as u32 }
}

/// This thread's name, 16 bytes.
pub fn thread_name(buffer: &mut [u8; 16]) {
    // SAFETY: PR_GET_NAME writes 16 bytes.
    unsafe { call(157, 16, buffer.as_mut_ptr() as u64, 0, 0, 0, 0) };
}

/// The auxiliary vector; returns its length, or a negative error on kernels before 6.4.
pub fn auxiliary_vector(buffer: &mut [u8]) -> i64 {
    const PR_GET_AUXV: u64 = 0x4155_5856;
    // SAFETY: the buffer is ours for its length.
    unsafe { call(157, PR_GET_AUXV, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0) }
}

/// Soft and hard limit of a resource.
pub fn limit(resource: u64) -> Option<[u64; 2]> {
    let mut limit = [0u64; 2];
    // SAFETY: struct rlimit is two words.
    let done = unsafe { call(97, resource, limit.as_mut_ptr() as u64, 0, 0, 0, 0) };
    (done == 0).then_some(limit)
}

/// Sets soft and hard limit of a resource; true on success.
pub fn set_limit(resource: u64, limit: [u64; 2]) -> bool {
    // SAFETY: struct rlimit is two words.
    unsafe { call(160, resource, limit.as_ptr() as u64, 0, 0, 0, 0) == 0 }
}

/// Soft limit of the stack in bytes.
pub fn stack_limit() -> u64 {
    const RLIMIT_STACK: u64 = 3;
    limit(RLIMIT_STACK).map_or(0, |limit| limit[0])
}

/// Soft limit of the address space in bytes.
pub fn address_space_limit() -> u64 {
    const RLIMIT_AS: u64 = 9;
    limit(RLIMIT_AS).map_or(0, |limit| limit[0])
}

/// True if eight bytes at `address` can be read: the kernel is asked to read them as a signal mask under an invalid
/// operation, which it refuses without effect after the copy.
pub fn readable(address: u64) -> bool {
    const EFAULT: i64 = -14;
    // SAFETY: an invalid `how` changes no mask.
    address != 0 && unsafe { call(14, !0, address, 0, 8, 0, 0) != EFAULT }
}

/// Waits on a futex word while it holds `value`, at most `millis`.
pub fn futex_wait(word: *const u32, value: u32, millis: u64) {
    let timeout = [millis / 1000, millis % 1000 * 1_000_000];
    // SAFETY: the word lives in shared memory that is never unmapped.
    unsafe { call(202, word as u64, 0, value as u64, timeout.as_ptr() as u64, 0, 0) };
}

/// Wakes all waiters of a futex word.
pub fn futex_wake(word: *const u32) {
    // SAFETY: as in `futex_wait`.
    unsafe { call(202, word as u64, 1, i32::MAX as u64, 0, 0, 0) };
}

/// Gives up the CPU once.
pub fn sched_yield() {
    // SAFETY: no arguments.
    unsafe { call(24, 0, 0, 0, 0, 0, 0) };
}

/// Ends the process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(231, status as u64, 0, 0, 0, 0, 0) };
    }
}

/// Writes to standard error; for fatal internal errors only.
pub fn write_stderr(text: &[u8]) {
    // SAFETY: the buffer is readable for its length.
    unsafe { call(1, 2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0) };
}
