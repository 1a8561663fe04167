//! What the recorder needs of the limits that its user has set, looked at before a program is started.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::failure::Failure;

/// Address space in which a recording fits, bytes: its maps, tables and profile, and its threads' stacks and heaps.
const ADDRESS_SPACE: u64 = 512 << 20;
/// The same of memory that only this process can write, bytes.
const DATA: u64 = 96 << 20;
/// Open files and threads of a recording of flows alone; what the others lack shows when they are loaded.
const DESCRIPTORS: u64 = 16;
const THREADS: usize = 8;
/// With less the main thread's stack may overflow, bytes.
const STACK: u64 = 1 << 20;
/// What threads have as a rule, and can start with, bytes.
const THREAD_STACK: usize = 2 << 20;
const LEAST_STACK: usize = 64 << 10;
/// What another thread gets instead.
const OWN_STACK: usize = 8 << 20;

/// Whether a recording fits into the limits of memory.
///
/// # Errors
/// [`Failure::Limit`], before anything was started.
pub fn check_memory() -> Result<(), Failure> {
    let limits = [(Resource::As, "address space", "-v", ADDRESS_SPACE), (Resource::Data, "data", "-d", DATA)];
    for (resource, what, flag, least) in limits {
        if let Some(limit) = getrlimit(resource).current.filter(|&limit| limit < least) {
            return Err(Failure::Limit { what, flag, limit, least });
        }
    }
    Ok(())
}

/// Whether `/proc` shows the processes of this PID namespace: what a number means there is asked of it throughout.
///
/// # Errors
/// [`Failure::OtherProc`], and [`Failure::NoProc`] where there is none.
pub fn check_proc() -> Result<(), Failure> {
    let own = std::fs::read_link("/proc/self").ok().and_then(|own| own.to_str()?.parse::<u32>().ok());
    match own {
        Some(number) if number != std::process::id() => Err(Failure::OtherProc),
        Some(_) => Ok(()),
        None => Err(Failure::NoProc),
    }
}

/// Whether a recording gets the open files and threads that it takes at least. `scheduler`: it can't do without the scheduler's
/// events.
///
/// # Errors
/// [`Failure::FewDescriptors`] and [`Failure::FewThreads`], before anything was started.
pub fn check_numbers(scheduler: bool) -> Result<(), Failure> {
    if let Some(limit) = getrlimit(Resource::Nofile).current.filter(|&limit| limit < DESCRIPTORS) {
        let least = if scheduler { transect_bpf_collect::DESCRIPTORS } else { DESCRIPTORS };
        return Err(Failure::FewDescriptors { limit, least });
    }
    // How many there may be more nobody tells: limits are the user's, each cgroup's, and the machine's.
    if has_threads(THREADS, THREAD_STACK) {
        return Ok(());
    }
    match getrlimit(Resource::As).current {
        // The system has one error for both: it is not their number if they can be had with less memory.
        Some(limit) if has_threads(THREADS, LEAST_STACK) => {
            let least = limit.max(ADDRESS_SPACE) + (THREADS * THREAD_STACK) as u64;
            Err(Failure::Limit { what: "address space", flag: "-v", limit, least })
        }
        _ => Err(Failure::FewThreads { least: THREADS }),
    }
}

/// Why the scheduler's events would fail for want of open files at some step, in words, if they would.
pub fn few_for_scheduler() -> Option<String> {
    let least = transect_bpf_collect::DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile).current.filter(|&limit| limit < least)?;
    Some(format!("at most {limit} open files (ulimit -n) are too few: some {least} are needed"))
}

/// The one error for all that fails because of the limit of open files.
pub fn named(failure: Failure) -> Failure {
    match (&failure, getrlimit(Resource::Nofile).current) {
        (Failure::Record(error), Some(limit)) if error.lacks_descriptors() => {
            Failure::FewDescriptors { limit, least: transect_bpf_collect::DESCRIPTORS.max(limit + 1) }
        }
        _ => failure,
    }
}

/// What to do about an error of the system (`… (os error 12)`) that a limit of this user may have led to; empty if none is
/// set, or the message says so itself.
pub fn advice(message: &str) -> String {
    let limits = [
        (Errno::NOMEM, Resource::As, "-v", "the address space"),
        (Errno::FBIG, Resource::Fsize, "-f", "the size of files"),
        (Errno::MFILE, Resource::Nofile, "-n", "the number of open files"),
        (Errno::AGAIN, Resource::Nproc, "-u", "the number of processes and threads"),
    ];
    let met = limits.iter().find(|(error, ..)| message.contains(&format!("(os error {})", error.raw_os_error())));
    match met {
        Some((_, resource, flag, what)) if getrlimit(*resource).current.is_some() && !message.contains("ulimit") => {
            format!("; {what} is limited here (ulimit {flag}): raise that, and limit the program alone by sh -c")
        }
        _ => String::new(),
    }
}

/// Whether there may be so many threads more at once, with a stack of so many bytes each. They may still be about to end when it
/// is known, and take no signals: what is held back in the thread that goes on must not come there.
fn has_threads(count: usize, stack: usize) -> bool {
    let all_started = Mutex::new(());
    let count_started = || {
        thread::scope(|scope| {
            let held = all_started.lock();
            let wait = || drop(all_started.lock());
            let start = || thread::Builder::new().stack_size(stack).spawn_scoped(scope, wait);
            let started = (0..count).filter(|_| start().is_ok()).count();
            drop(held);
            started
        })
    };
    transect_record::hold_back(count_started) == count
}

/// Why nothing may be loaded into a program that is started with this user's limit of the stack; `None` if it may.
pub fn small_stack() -> Option<String> {
    let limit = getrlimit(Resource::Stack).current.filter(|&limit| limit < transect_record::LEAST_STACK)?;
    Some(format!("a stack of {} KiB (ulimit -s) has no room for the loader to load the agent", limit >> 10))
}

/// Runs `run` where there is stack enough for it. The limit is left as it is: the program inherits it.
pub fn with_stack(run: fn() -> ExitCode) -> ExitCode {
    if getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= STACK) {
        return run();
    }
    let own = thread::Builder::new().stack_size(OWN_STACK).spawn(run);
    // Signals are for the thread that runs, which may hold them back.
    let ended = own.ok().and_then(|own| transect_record::hold_back(|| own.join()).ok());
    ended.unwrap_or(ExitCode::from(crate::failure::RECORDING_FAILED))
}
