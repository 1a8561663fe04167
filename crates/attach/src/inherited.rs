//! What this process was started with and has changed since, before `main`: a program that is launched is to find it as it was.
//!
//! - Standard streams that were closed: the standard library opens them on `/dev/null`, so that no file of ours gets their
//!   numbers.
//! - Ignored signals: the standard library ignores SIGPIPE, handlers of ours take the place of others, and where SIGCHLD is
//!   ignored the kernel tells nobody how a child ended, so it is not, here.
//! - Blocked signals: those by which our own threads are told something are not, here.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const STREAMS: i32 = 3;

static CLOSED: [AtomicBool; STREAMS as usize] = [const { AtomicBool::new(false) }; STREAMS as usize];
/// Signals that were ignored, and those that were blocked: signal *n* by bit *n* − 1.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Ignored here whether they were or not, and so by programs that are started. The others are ignored by who ignores them.
const IGNORED_HERE: u64 = bit(libc::SIGPIPE);
/// Never blocked here: ends of children, and what changes all threads at once.
const NOT_BLOCKED: u64 = bit(libc::SIGCHLD) | bit(libc::SIGURG);
const SIGNALS: i32 = 64;

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Bytes of a set of signals, as the kernel has it.
const SET: usize = size_of::<u64>();

/// `struct sigaction` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Disposition {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl Disposition {
    fn of(signal: i32) -> Self {
        let mut found = Self::default();
        // SAFETY: the kernel writes a disposition into `found`, which is of its layout.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, null::<Self>(), &raw mut found, SET) };
        found
    }

    fn set(&self, signal: i32) {
        // SAFETY: the kernel reads a disposition of its layout; those that are set here name no function.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const *self, null_mut::<Self>(), SET) };
    }
}

extern "C" fn note() {
    for stream in 0..STREAMS {
        // SAFETY: a system call that looks at a descriptor.
        let closed = unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1;
        CLOSED[stream as usize].store(closed, Ordering::Relaxed);
    }
    let mut ignored = 0;
    for signal in 1..=SIGNALS {
        if Disposition::of(signal).handler == libc::SIG_IGN {
            ignored |= bit(signal);
        }
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    Disposition::default().set(libc::SIGCHLD);
    let mut blocked = 0_u64;
    // SAFETY: reads the thread's mask into a word that is as long as the call says.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, null::<u64>(), &raw mut blocked, SET) };
    BLOCKED.store(blocked, Ordering::Relaxed);
    let unblocked = NOT_BLOCKED;
    // SAFETY: changes the thread's mask by a word that is as long as the call says.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const unblocked, null_mut::<u64>(), SET) };
}

/// Runs before the standard library's own beginning.
#[used]
// SAFETY: the section holds functions that the loader calls once, without arguments that `note` looks at; it allocates
// nothing and needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note;

/// Whether a standard stream was closed: what is written there goes nowhere.
pub fn was_closed(stream: i32) -> bool {
    usize::try_from(stream)
        .ok()
        .and_then(|stream| CLOSED.get(stream))
        .is_some_and(|closed| closed.load(Ordering::Relaxed))
}

/// Makes everything as it was, in a child between fork and exec.
pub fn restore() {
    for stream in (0..STREAMS).filter(|&stream| CLOSED[stream as usize].load(Ordering::Relaxed)) {
        // SAFETY: nothing of this process is at that number but the standard library's stand-in; the child becomes another
        // program, which is told nothing of it.
        unsafe { libc::close(stream) };
    }
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in (1..=SIGNALS).filter(|&signal| (ignored | IGNORED_HERE) & bit(signal) != 0) {
        let handler = if ignored & bit(signal) == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
        Disposition { handler, ..Disposition::default() }.set(signal);
    }
    let blocked = BLOCKED.load(Ordering::Relaxed);
    // SAFETY: sets the thread's mask from a word that is as long as the call says.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, null_mut::<u64>(), SET) };
}
