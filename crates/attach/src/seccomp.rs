//! System-call filters of the thread that is to make calls for us.
//!
//! With CAP_SYS_ADMIN the kernel lets the filters rest for the time of the stop (`PTRACE_O_SUSPEND_SECCOMP`). Without,
//! a filter can't even be read; but if the thread has as many filters as we have, both come from the same container,
//! and what we may call, it may call.

use rustix::fs::MemfdFlags;

use crate::error::AttachError;
use crate::process::Status;
use crate::ptrace;

/// Mode of threads that may only read, write and exit. They may not read the time stamp counter either.
pub const SECCOMP_STRICT: u32 = 1;
const SECCOMP_FILTER: u32 = 2;

/// The refusal of strict mode.
pub fn strict(pid: i32) -> AttachError {
    AttachError::Seccomp {
        pid,
        mode: "strict",
        call: "all calls but read and write, and reading the clock",
        advice: "such a thread can't hold probes",
    }
}

/// Makes sure that a standing thread, traced with `options`, may make our calls. The filters rest until it is let go,
/// or [`ptrace::set_options`] is called with those options.
pub fn allow(pid: i32, tid: i32, options: i32) -> Result<(), AttachError> {
    let status = Status::read(tid).map_err(AttachError::system(pid, "read the status"))?;
    match status.seccomp {
        0 => return Ok(()),
        SECCOMP_STRICT => return Err(strict(pid)),
        _ => {}
    }
    if ptrace::set_options(tid, options | ptrace::SUSPEND_SECCOMP).is_ok() {
        return Ok(());
    }
    let own = Status::read(std::process::id() as i32).unwrap_or_default();
    let same = own.seccomp == SECCOMP_FILTER && own.filters == status.filters && status.filters > 0;
    if same && rustix::fs::memfd_create("transect-trial", MemfdFlags::CLOEXEC).is_ok() {
        return Ok(());
    }
    Err(AttachError::Seccomp {
        pid,
        mode: "filter",
        call: "unknown calls, perhaps memfd_create and mmap",
        advice: "run this command as root, which lets the filter rest for a moment",
    })
}
