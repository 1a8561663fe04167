//! The kernel's tracing calls, typed.
//!
//! Every function takes the thread it is about; `ESRCH` means that it is gone or, for all but [`seize`], not stopped.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use libc::{c_int, c_long, c_uint, c_void, pid_t};

/// Registers of a stopped thread.
pub type Registers = libc::user_regs_struct;

/// `PTRACE_O_TRACESYSGOOD`: system-call stops are told from SIGTRAP.
pub const TRACE_SYSTEM_CALLS_MARKED: c_int = libc::PTRACE_O_TRACESYSGOOD;
/// Options of threads that are traced for the time of a stop.
pub const SEIZED: c_int = TRACE_SYSTEM_CALLS_MARKED | libc::PTRACE_O_TRACECLONE;
/// Options of threads that are followed from a launch on.
pub const FOLLOWED: c_int = TRACE_SYSTEM_CALLS_MARKED
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXIT;
/// `PTRACE_O_SUSPEND_SECCOMP`: the thread's system-call filters rest while it is traced.
pub const SUSPEND_SECCOMP: c_int = 1 << 21;

fn checked(result: c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn request(request: c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: callers of this private function pass integers, or pointers to live objects of the size that the request
    // reads or writes; what happens to the other process is no matter of our memory.
    checked(unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) })
}

/// Becomes the thread's tracer without stopping it.
pub fn seize(tid: pid_t, options: c_int) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Changes the options.
pub fn set_options(tid: pid_t, options: c_int) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize)
}

/// Asks a seized thread to stop.
pub fn interrupt(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets it go on with `signal` (0: none).
pub fn go_on(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Lets it go on with `signal` (0: none) after a stop that is not the one that it was asked for, and asks again: whatever a
/// thread stops for, the kernel forgets that it was to stop (`ptrace_stop` of kernel/signal.c), unless it is asked while it
/// stands (`PTRACE_INTERRUPT` of kernel/ptrace.c).
pub fn go_on_to_stop(tid: pid_t, signal: c_int) -> io::Result<()> {
    interrupt(tid)?;
    go_on(tid, signal)
}

/// Lets it go on with `signal` (0: none) to the next entry or exit of a system call.
pub fn go_to_system_call(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize)
}

/// Leaves a thread in its group stop (Ctrl-Z), but hears of its end.
pub fn listen(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Lets go of it for good, with `signal` (0: none).
pub fn detach(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// Lets go for good of a thread that stands, whatever for; gives a thread that it has just made and that is ours, too: it
/// stands as well, or will in a moment.
pub fn detach_at(tid: pid_t, stop: Waited) -> Option<pid_t> {
    let born = match stop {
        Waited::Event(libc::PTRACE_EVENT_CLONE) => event_message(tid).ok().map(|born| born as pid_t),
        _ => None,
    };
    let _ = detach(tid, if let Waited::Signal(signal) = stop { signal } else { 0 });
    born
}

/// Registers, all zero.
pub fn no_registers() -> Registers {
    // SAFETY: plain integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Reads the registers.
pub fn registers(tid: pid_t) -> io::Result<Registers> {
    let mut registers = no_registers();
    request(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

/// Writes the registers.
pub fn set_registers(tid: pid_t, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// Reads eight bytes of the memory that the thread has now: an exec may have given it another one.
pub fn peek_word(tid: pid_t, address: u64) -> io::Result<u64> {
    let mut word = 0u64;
    // SAFETY: the system call itself, unlike libc's function, stores the word at the fourth argument, which is ours.
    checked(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKTEXT, tid, address, &raw mut word) })?;
    Ok(word)
}

/// Whether the thread has its own system calls dispatched to itself (`PR_SET_SYSCALL_USER_DISPATCH`). Kernels before 6.4
/// don't say.
pub fn dispatches_system_calls(tid: pid_t) -> bool {
    const GET_SYSCALL_USER_DISPATCH_CONFIG: c_uint = 0x4211;
    // Mode, selector, offset, length.
    let mut config = [0u64; 4];
    let size = size_of_val(&config);
    request(GET_SYSCALL_USER_DISPATCH_CONFIG, tid, size, (&raw mut config) as usize).is_ok() && config[0] != 0
}

/// Address of the thread's `struct rseq`; 0 if it has none, or the kernel (before 5.13) doesn't say.
pub fn restartable_sequences(tid: pid_t) -> u64 {
    const GET_RSEQ_CONFIGURATION: c_uint = 0x420f;
    // Address; size and signature; flags and padding.
    let mut config = [0u64; 3];
    match request(GET_RSEQ_CONFIGURATION, tid, size_of_val(&config), (&raw mut config) as usize) {
        Ok(()) => config[0],
        Err(_) => 0,
    }
}

/// Reads the mask of blocked signals.
pub fn signal_mask(tid: pid_t) -> io::Result<u64> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK, tid, size_of::<u64>(), (&raw mut mask) as usize)?;
    Ok(mask)
}

/// Writes the mask of blocked signals.
pub fn set_signal_mask(tid: pid_t, mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, size_of::<u64>(), (&raw const mask) as usize)
}

/// The number that goes with a fork, clone, exec or exit event.
pub fn event_message(tid: pid_t) -> io::Result<u64> {
    let mut message = 0u64;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message)
}

/// What waiting for a thread found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Nothing yet.
    Nothing,
    /// It is to receive a signal.
    Signal(c_int),
    /// At the entry or exit of a system call.
    SystemCall,
    /// Interrupted by us, or newly born.
    Interrupted,
    /// Stopped along with its whole process by this signal.
    GroupStop(c_int),
    /// A `PTRACE_EVENT_`.
    Event(c_int),
    /// Ended, with a raw status of wait(2).
    Ended(c_int),
}

fn classify(status: c_int) -> Waited {
    if !libc::WIFSTOPPED(status) {
        return Waited::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Waited::SystemCall,
        0 => Waited::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Waited::Interrupted,
        libc::PTRACE_EVENT_STOP => Waited::GroupStop(signal),
        event => Waited::Event(event),
    }
}

/// Looks, or waits, for news of one thread (or of any, `tid` = -1); gives the thread too.
///
/// # Errors
/// `ECHILD` if it is not ours (any more).
pub fn wait(tid: pid_t, block: bool) -> io::Result<(pid_t, Waited)> {
    let mut status: c_int = 0;
    // Tracees belong to a thread: what others have started or traced is not touched.
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is ours to be written.
        match unsafe { libc::waitpid(tid, &raw mut status, flags) } {
            0 => return Ok((0, Waited::Nothing)),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            found => {
                remember_end(found, status);
                return Ok((found, classify(status)));
            }
        }
    }
}

/// What [`wait`] would give for a thread of ours, without taking it: the next wait gives the same.
pub fn peek(tid: pid_t) -> Waited {
    // SAFETY: plain integers, for which zero is a value.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `found` is ours to be written; the fields that are read are those of a child's news.
    unsafe {
        match libc::waitid(libc::P_PID, tid.cast_unsigned(), &raw mut found, flags) {
            0 if found.si_pid() == 0 => Waited::Nothing,
            0 if matches!(found.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED) => {
                classify(found.si_status() << 8 | 0x7f)
            }
            _ => Waited::Ended(0),
        }
    }
}

/// How tracees ended, as wait(2) tells it. The end of a child of ours that one of our threads traces is told once: to
/// whoever waits first, which may be the tracer.
static ENDED: Mutex<BTreeMap<pid_t, c_int>> = Mutex::new(BTreeMap::new());
/// Ends that nobody asks for are forgotten from so many on.
const MOST_ENDED: usize = 4096;

fn remember_end(tid: pid_t, status: c_int) {
    if !(libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
        return;
    }
    if let Ok(mut ended) = ENDED.lock() {
        if ended.len() >= MOST_ENDED {
            ended.clear();
        }
        ended.insert(tid, status);
    }
}

/// How a process ended whose end was told to its tracer in this process; once.
pub fn take_end(pid: pid_t) -> Option<c_int> {
    ENDED.lock().ok()?.remove(&pid)
}
