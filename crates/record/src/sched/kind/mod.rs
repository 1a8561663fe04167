//! What a thread waits for, told from how it entered the kernel, the descriptor or lock that it named, and the
//! functions on its stack. Pure: everything that is known comes as arguments.

mod kernel_function;
mod system_call;
mod user_function;

use rustix::fs::OFlags;
use transect_bpf_collect::record::object_type;
use transect_profile_model::WaitKind;

pub use kernel_function::KernelWait;
pub use system_call::Call;
pub use user_function::{UserWait, ends_scope, is_unlocking};

/// What is known of a blocked thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blocked<'a> {
    /// Number of the system call; -1: none, -2: unknown.
    pub system_call: i64,
    /// Its arguments.
    pub arguments: [u64; 4],
    /// [`object_type`] of the descriptor in the first argument.
    pub object: u32,
    /// The object's name as the kernel keeps it: `[timerfd]`.
    pub object_name: &'a str,
    /// Thread id of a live thread that the lock's memory names as its owner; 0 if it names none.
    pub owner: i32,
    /// It was stopped by a signal or a debugger, wherever it was then.
    pub held: bool,
    /// What the user half of its stack tells.
    pub user: Option<UserWait>,
    /// What the kernel half of its stack tells.
    pub kernel: Option<KernelWait>,
}

/// Flags of open with which the file is made or emptied.
pub const MAKES_FILE: u32 = OFlags::CREATE.union(OFlags::TRUNC).bits();

/// Which argument of a call that opens has its flags: open's second, openat's third; openat2's are in memory.
pub fn open_flags(system_call: i64) -> Option<usize> {
    match system_call {
        2 => Some(1),
        257 => Some(2),
        _ => None,
    }
}

/// The kind of the wait.
pub fn kind(blocked: &Blocked<'_>) -> WaitKind {
    let call = Call::of(blocked.system_call);
    // Restarted calls are numbered as such: the kernel's functions tell what goes on.
    let call = if call == Call::Restarted { Call::Unknown } else { call };
    if blocked.held {
        return WaitKind::Signal;
    }
    if blocked.system_call == NUMBER_OWN {
        return WaitKind::Other;
    }
    match (call, blocked.kernel) {
        (_, Some(KernelWait::Stopped)) => WaitKind::Signal,
        // A futex with priority inheritance waits for a lock of the kernel's that stands for it.
        (Call::Futex, _) => futex(blocked),
        (_, Some(KernelWait::Lock)) => WaitKind::KernelLock,
        (Call::None, Some(KernelWait::Fault) | None) => WaitKind::PageFault,
        (Call::None | Call::Unknown, Some(found)) => kind_of_kernel_wait(found, blocked),
        (Call::Unknown, None) => blocked.user.map_or(WaitKind::Other, UserWait::kind),
        // Memory of a call's arguments may have to be read in; a pipe may be waited for in open.
        (Call::Memory | Call::Other, Some(KernelWait::Fault)) => WaitKind::PageFault,
        (Call::Open, Some(KernelWait::Pipe)) => WaitKind::Pipe,
        (Call::Other | Call::Memory, Some(found)) => kind_of_kernel_wait(found, blocked),
        (call, _) => told_by_call(call, blocked),
    }
}

fn told_by_call(call: Call, blocked: &Blocked<'_>) -> WaitKind {
    match call {
        Call::Read => of_object(blocked, WaitKind::FileRead),
        Call::Write | Call::Close => of_object(blocked, WaitKind::FileWrite),
        // It is made or emptied: what the disk does then is no reading.
        Call::Open
            if open_flags(blocked.system_call).is_some_and(|at| blocked.arguments[at] as u32 & MAKES_FILE != 0) =>
        {
            WaitKind::FileWrite
        }
        Call::Open | Call::ReadName => WaitKind::FileRead,
        Call::WriteName => WaitKind::FileWrite,
        Call::Sync => WaitKind::FileSync,
        Call::Socket => WaitKind::Socket,
        // Without descriptors only the timeout is left.
        Call::Poll if blocked.arguments[1] == 0 => WaitKind::Sleep,
        Call::Select if blocked.arguments[0] == 0 => WaitKind::Sleep,
        Call::Poll | Call::Select | Call::Events => WaitKind::Poll,
        Call::Child => WaitKind::Child,
        Call::Sleep => WaitKind::Sleep,
        Call::Signal => WaitKind::Signal,
        Call::FileLock => WaitKind::Mutex,
        Call::Semaphore => WaitKind::Semaphore,
        Call::Futex => futex(blocked),
        Call::Memory | Call::Other | Call::None | Call::Restarted | Call::Unknown => WaitKind::Other,
    }
}

/// Reading and writing differ by what is read: `file` if that is a file.
fn of_object(blocked: &Blocked<'_>, file: WaitKind) -> WaitKind {
    match blocked.object {
        object_type::FILE => file,
        object_type::PIPE => WaitKind::Pipe,
        object_type::SOCKET_INET | object_type::SOCKET_INET6 | object_type::SOCKET_UNIX | object_type::SOCKET_OTHER => {
            WaitKind::Socket
        }
        object_type::ANONYMOUS if blocked.object_name.contains("timerfd") => WaitKind::Sleep,
        object_type::ANONYMOUS if blocked.object_name.contains("signalfd") => WaitKind::Signal,
        object_type::ANONYMOUS if blocked.object_name.contains("eventpoll") => WaitKind::Poll,
        object_type::ANONYMOUS | object_type::DEVICE => WaitKind::Other,
        // The descriptor is not known: what the kernel does, else the usual.
        _ => match blocked.kernel {
            Some(found @ (KernelWait::Pipe | KernelWait::Socket)) => kind_of_kernel_wait(found, blocked),
            _ => file,
        },
    }
}

fn kind_of_kernel_wait(found: KernelWait, blocked: &Blocked<'_>) -> WaitKind {
    match found {
        KernelWait::Lock => WaitKind::KernelLock,
        KernelWait::Stopped | KernelWait::Signal => WaitKind::Signal,
        KernelWait::Fault => WaitKind::PageFault,
        KernelWait::Futex => futex(blocked),
        KernelWait::Sleep => WaitKind::Sleep,
        KernelWait::Poll => WaitKind::Poll,
        KernelWait::Pipe => WaitKind::Pipe,
        KernelWait::Socket => WaitKind::Socket,
        KernelWait::Child => WaitKind::Child,
        KernelWait::Sync => WaitKind::FileSync,
        KernelWait::Read => WaitKind::FileRead,
        KernelWait::Write => WaitKind::FileWrite,
    }
}

/// `futex` operations (linux/futex.h).
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_COMMAND: u64 = 127;
const FUTEX_PRIVATE: u64 = 128;
/// A lock that is held and waited for: glibc's low-level lock, Rust's mutex.
const CONTENDED: u64 = 2;
/// Stands for any call that the flow agent makes for itself: not what the program waits for.
const NUMBER_OWN: i64 = -3;
/// The call whose second argument is an operation.
pub const NUMBER_FUTEX: i64 = 202;

/// Whether an operation of `futex` waits for a word whose owner the kernel knows.
pub fn locks_with_inheritance(operation: u64) -> bool {
    matches!(operation & FUTEX_COMMAND, FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_WAIT_REQUEUE_PI)
}

/// A futex is what the functions say that wait on it; without names, what its arguments say.
fn futex(blocked: &Blocked<'_>) -> WaitKind {
    if let Some(user) = blocked.user {
        return user.kind();
    }
    if blocked.system_call != NUMBER_FUTEX {
        return WaitKind::Futex;
    }
    let [_, operation, value, timeout] = blocked.arguments;
    let private = operation & FUTEX_PRIVATE != 0;
    let owner = u64::from(blocked.owner.unsigned_abs());
    match operation & FUTEX_COMMAND {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => WaitKind::Mutex,
        FUTEX_WAIT_REQUEUE_PI => WaitKind::Condition,
        // The kernel clears the word and wakes when the thread whose id it holds ends; that wake is never private.
        FUTEX_WAIT | FUTEX_WAIT_BITSET if owner != 0 && !private && value & 0xffff_ffff == owner => WaitKind::Join,
        FUTEX_WAIT | FUTEX_WAIT_BITSET if owner != 0 => WaitKind::Mutex,
        FUTEX_WAIT | FUTEX_WAIT_BITSET if value == CONTENDED && timeout == 0 => WaitKind::Mutex,
        _ => WaitKind::Futex,
    }
}

#[cfg(test)]
mod tests;
