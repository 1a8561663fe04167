//! Capabilities of all threads of the process: the kernel changes those of the calling thread only, so the others are
//! asked to by a signal, as libc does for user ids (and libpsx for capabilities).

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::process::{Pid, getpid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, gettid, set_capabilities};

use super::{PrivilegeError, system};

const SIGNAL: Signal = Signal::SIGURG;
/// How long a thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to keep, for the handler.
static KEPT: AtomicU64 = AtomicU64::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Makes `kept` the effective and permitted set of every thread. The ambient set shrinks with the permitted one; the
/// inheritable one may stay, for it grants nothing by itself.
pub fn keep_only(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    reduce(kept).map_err(system("drop capabilities"))?;
    KEPT.store(kept.bits(), Ordering::SeqCst);
    if others_with_more(kept).is_empty() {
        return Ok(());
    }
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    let failed = |source: nix::errno::Errno| PrivilegeError::System { what: "tell threads", source: source.into() };
    // SAFETY: the handler makes two system calls and touches an atomic.
    let before = unsafe { sigaction(SIGNAL, &action) }.map_err(failed)?;
    let outcome = ask_others(kept);
    // SAFETY: what was there before.
    unsafe { sigaction(SIGNAL, &before) }.map_err(failed)?;
    outcome
}

/// New threads inherit from the one that makes them: it is over when nobody is left.
fn ask_others(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    let start = Instant::now();
    loop {
        let others = others_with_more(kept);
        if others.is_empty() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(PrivilegeError::Threads(others.len()));
        }
        for thread in others {
            // SAFETY: a system call with three numbers. A thread that has just ended is no longer asked next time.
            unsafe {
                nix::libc::syscall(
                    nix::libc::SYS_tgkill,
                    getpid().as_raw_nonzero().get(),
                    thread.as_raw_nonzero().get(),
                    SIGNAL as i32,
                );
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn others_with_more(kept: CapabilitySet) -> Vec<Pid> {
    let own = gettid();
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter(|&thread| thread != own)
        .filter(|&thread| capabilities(Some(thread)).is_ok_and(|sets| !kept.contains(sets.permitted)))
        .collect()
}

fn reduce(kept: CapabilitySet) -> rustix::io::Result<()> {
    let sets = capabilities(None)?;
    let permitted = sets.permitted & kept;
    set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable: sets.inheritable })
}

extern "C" fn on_signal(_: i32) {
    let errno = nix::errno::Errno::last_raw();
    let _ = reduce(CapabilitySet::from_bits_retain(KEPT.load(Ordering::SeqCst)));
    nix::errno::Errno::set_raw(errno);
}
