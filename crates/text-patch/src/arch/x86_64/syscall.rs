//! System calls, without libc, whose wrappers may be interposed or absent. Arrays are written out in full: a repeat
//! expression compiles to a call of memset where nothing is optimised, and memset may be what is being patched.

use core::arch::asm;

/// A failed call's error number, positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub u16);

/// No such process or thread.
pub const ESRCH: Errno = Errno(3);
/// Try again.
pub const EAGAIN: Errno = Errno(11);
/// Operation not permitted.
pub const EPERM: Errno = Errno(1);

#[inline]
unsafe fn call(number: u64, a: [u64; 6]) -> Result<u64, Errno> {
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; callers answer for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as u16)) } else { Ok(result as u64) }
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
/// In place of what is mapped there.
pub const MAP_FIXED: u64 = 0x10;
/// No file.
pub const MAP_ANONYMOUS: u64 = 0x20;
/// No swap reservation.
pub const MAP_NORESERVE: u64 = 0x4000;
/// All pages at once.
pub const MAP_POPULATE: u64 = 0x8000;
/// At this address or not at all.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// Opens a zero-terminated path.
pub fn open(path: &core::ffi::CStr, write: bool, directory: bool) -> Result<i32, Errno> {
    const O_CLOEXEC: u64 = 0o2_000_000;
    const O_DIRECTORY: u64 = 0o200_000;
    let flags = O_CLOEXEC | if write { 2 } else { 0 } | if directory { O_DIRECTORY } else { 0 };
    // SAFETY: the path is terminated.
    unsafe { call(2, [path.as_ptr() as u64, flags, 0, 0, 0, 0]) }.map(|fd| fd as i32)
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    // SAFETY: only descriptors we opened are passed.
    let _ = unsafe { call(3, [fd as u64, 0, 0, 0, 0, 0]) };
}

/// Reads into `buffer` at the file's position.
pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is ours for its length.
    unsafe { call(0, [fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0]) }.map(|n| n as usize)
}

/// Reads at an offset.
pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the buffer is ours for its length.
    unsafe { call(17, [fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, offset, 0, 0]) }.map(|n| n as usize)
}

/// Writes at an offset.
///
/// # Safety
/// Where the file is this process' memory, the caller may change those bytes.
pub unsafe fn pwrite(fd: i32, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the buffer is ours for its length; the effect is the caller's.
    unsafe { call(18, [fd as u64, bytes.as_ptr() as u64, bytes.len() as u64, offset, 0, 0]) }.map(|n| n as usize)
}

/// Reads entries of a directory (`getdents64`).
pub fn directory_entries(fd: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is ours for its length.
    unsafe { call(217, [fd as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0]) }.map(|n| n as usize)
}

/// mmap.
///
/// # Safety
/// With [`MAP_FIXED`], the caller may replace that range.
pub unsafe fn mmap(address: u64, length: u64, protection: u64, flags: u64, fd: i32, offset: u64) -> Result<u64, Errno> {
    // SAFETY: see above.
    unsafe { call(9, [address, length, protection, flags, fd as i64 as u64, offset]) }
}

/// munmap.
///
/// # Safety
/// Nothing refers to the range any more.
pub unsafe fn munmap(address: u64, length: u64) {
    // SAFETY: see above.
    let _ = unsafe { call(11, [address, length, 0, 0, 0, 0]) };
}

/// mprotect.
///
/// # Safety
/// The new protection suits every user of the range.
pub unsafe fn mprotect(address: u64, length: u64, protection: u64) -> Result<(), Errno> {
    // SAFETY: see above.
    unsafe { call(10, [address, length, protection, 0, 0, 0]) }.map(|_| ())
}

/// Has the kernel hand a child made by fork zeros in place of a private anonymous range (MADV_WIPEONFORK).
pub fn wipe_on_fork(address: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: changes nothing in this process.
    unsafe { call(28, [address, length, 18, 0, 0, 0]) }.map(|_| ())
}

/// A sealed-off file in memory, to be mapped twice.
pub fn memory_file(name: &core::ffi::CStr) -> Result<i32, Errno> {
    const MFD_CLOEXEC: u64 = 1;
    const MFD_EXEC: u64 = 0x10;
    // SAFETY: the name is terminated. Kernels before 6.3 don't know MFD_EXEC.
    unsafe {
        call(319, [name.as_ptr() as u64, MFD_CLOEXEC | MFD_EXEC, 0, 0, 0, 0])
            .or_else(|_| call(319, [name.as_ptr() as u64, MFD_CLOEXEC, 0, 0, 0, 0]))
    }
    .map(|fd| fd as i32)
}

/// Sets a file's size.
pub fn truncate(fd: i32, size: u64) -> Result<(), Errno> {
    // SAFETY: only descriptors we opened are passed.
    unsafe { call(77, [fd as u64, size, 0, 0, 0, 0]) }.map(|_| ())
}

/// A file's inode number.
pub fn inode(fd: i32) -> Result<u64, Errno> {
    let mut stat = core::mem::MaybeUninit::<[u64; 18]>::uninit();
    // SAFETY: struct stat has 144 bytes, and the kernel writes all of them; the second word is the number.
    unsafe {
        call(5, [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0])?;
        Ok(stat.as_ptr().cast::<u64>().add(1).read())
    }
}

/// Kernel thread id.
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(186, [0, 0, 0, 0, 0, 0]) }.unwrap_or(0) as u32
}

/// Process id.
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(39, [0, 0, 0, 0, 0, 0]) }.unwrap_or(0) as u32
}

/// membarrier.
pub fn membarrier(command: u32) -> Result<u64, Errno> {
    // SAFETY: changes no memory.
    unsafe { call(324, [command.into(), 0, 0, 0, 0, 0]) }
}

/// Sends a signal to one thread of this process.
pub fn signal_thread(tid: u32, signal: u8) -> Result<(), Errno> {
    // SAFETY: changes no memory.
    unsafe { call(234, [getpid().into(), tid.into(), signal.into(), 0, 0, 0]) }.map(|_| ())
}

/// rt_sigaction.
///
/// # Safety
/// A new action's handler is fit for any thread at any instruction.
pub unsafe fn signal_action(
    signal: u8,
    new: Option<&super::signal::Action>,
    old: Option<&mut super::signal::Action>,
) -> Result<(), Errno> {
    let new = new.map_or(0, |new| new as *const _ as u64);
    let old = old.map_or(0, |old| old as *mut _ as u64);
    // SAFETY: both are null or point to kernel_sigaction; a mask has eight bytes.
    unsafe { call(13, [signal.into(), new, old, 8, 0, 0]) }.map(|_| ())
}

/// Blocks or unblocks signals of this thread; returns the mask before.
pub fn signal_mask(how: SignalMask, mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both point to eight bytes.
    let _ = unsafe { call(14, [how as u64, &raw const mask as u64, &raw mut old as u64, 8, 0, 0]) };
    old
}

/// What [`signal_mask`] does.
#[derive(Debug, Clone, Copy)]
pub enum SignalMask {
    /// Adds to the mask.
    Block = 0,
    /// Takes from it.
    Unblock = 1,
    /// Replaces it.
    Set = 2,
}

/// Gives up the CPU once.
pub fn sched_yield() {
    // SAFETY: no arguments.
    let _ = unsafe { call(24, [0, 0, 0, 0, 0, 0]) };
}

/// Waits on a private futex word while it holds `value`, at most `nanos`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, nanos: u64) {
    let timeout = [nanos / 1_000_000_000, nanos % 1_000_000_000];
    // SAFETY: the word outlives the call.
    let _ = unsafe { call(202, [word as *const _ as u64, 128, value.into(), timeout.as_ptr() as u64, 0, 0]) };
}

/// Wakes all waiters of a private futex word.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the word outlives the call.
    let _ = unsafe { call(202, [word as *const _ as u64, 129, i32::MAX as u64, 0, 0, 0]) };
}

/// Monotonic time, nanoseconds.
pub fn monotonic_nanos() -> u64 {
    let mut time = [0u64, 0];
    // SAFETY: struct timespec is two words.
    let _ = unsafe { call(228, [1, time.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// Copies from this process' memory without faulting; bytes copied.
pub fn read_own_memory(address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let local = [buffer.as_mut_ptr() as u64, buffer.len() as u64];
    let remote = [address, buffer.len() as u64];
    // SAFETY: the buffer is ours; unreadable remote memory is an error, not a fault.
    unsafe { call(310, [getpid().into(), local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0]) }.map(|n| n as usize)
}

/// Features of the shadow stack that are on for this thread (ARCH_SHSTK_STATUS).
pub fn shadow_stack_status() -> u64 {
    let mut features = 0u64;
    // SAFETY: writes eight bytes.
    let _ = unsafe { call(158, [0x5005, &raw mut features as u64, 0, 0, 0, 0]) };
    features
}
