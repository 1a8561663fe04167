//! What the recorder tells the agent about APIs by name: class, special handling, where sizes and objects stand.
//!
//! An open-addressed hash table (FNV-1a, linear probing) in extent 0 of the arena, filled from the wait-API data file.

/// Longest API name in the table, in bytes.
pub const API_NAME_CAPACITY: usize = 56;

/// API classes, the numbers of `profile-model`'s `ApiClass`.
pub mod class {
    /// Ordinary code.
    pub const COMPUTE: u8 = 0;
    /// Input and output that may block.
    pub const IO: u8 = 1;
    /// Lock acquisition; blocks unless it spins.
    pub const LOCK: u8 = 2;
    /// Waiting for somebody.
    pub const WAIT: u8 = 3;
    /// Counted, never timed.
    pub const COUNT_ONLY: u8 = 4;
}

/// Special handling in the agent.
pub mod handler {
    /// Nothing special.
    pub const NONE: u8 = 0;
    /// Never hook (foreign calling convention).
    pub const REFUSE: u8 = 1;
    /// `pthread_create`.
    pub const THREAD_CREATE: u8 = 2;
    /// `dlsym`, `dlvsym`.
    pub const DLSYM: u8 = 3;
    /// exec with an explicit environment in argument `size_arg`.
    pub const EXEC_ENV: u8 = 4;
    /// `execv`: the process' own environment is used.
    pub const EXEC_OWN: u8 = 5;
    /// Mutex acquisition (`pthread_mutex_lock`; also try and timed).
    pub const LOCK_ACQUIRE: u8 = 6;
    /// Mutex release.
    pub const LOCK_RELEASE: u8 = 7;
    /// Spin-lock acquisition: the waiter is still active.
    pub const SPIN_ACQUIRE: u8 = 8;
    /// `pthread_setname_np`, `prctl`: names change.
    pub const THREAD_NAME: u8 = 9;
    /// `system`, `popen`: environment is lent for the duration of the call.
    pub const EXEC_LEND: u8 = 10;
    /// Shared acquisition of a reader-writer lock.
    pub const READ_ACQUIRE: u8 = 11;
    /// Exclusive acquisition of a reader-writer lock.
    pub const WRITE_ACQUIRE: u8 = 12;
    /// Wait on a condition variable: the mutex in the second argument is released meanwhile.
    pub const CONDITION: u8 = 13;
    /// `prctl`: names, and calls that switch the time stamp counter off.
    pub const PRCTL: u8 = 15;
    /// `mlockall`: the sparse arena must not be populated.
    pub const LOCK_MEMORY: u8 = 16;
    /// `setrlimit`: the agent's own mappings come on top of a limit of the address space.
    pub const SET_LIMIT: u8 = 17;
    /// `execvp`.
    pub const EXEC_OWN_PATH: u8 = 18;
    /// `execl`: as `execv`, arguments in a list.
    pub const EXEC_LIST: u8 = 19;
    /// `execlp`.
    pub const EXEC_LIST_PATH: u8 = 20;
    /// `execle`: a list of arguments, then the environment.
    pub const EXEC_LIST_ENV: u8 = 21;
    /// `dladdr`: stubs are translated to their targets.
    pub const DLADDR: u8 = 14;
    /// `syscall`: what it calls may be `prctl` or `seccomp`.
    pub const SYSCALL: u8 = 22;
    /// `_exit`: the process ends without its destructors.
    pub const EXIT: u8 = 23;
    /// `getrlimit`: the program sees the limit that it set.
    pub const GET_LIMIT: u8 = 24;
    /// `prlimit`: both.
    pub const PROCESS_LIMIT: u8 = 25;
    /// `exit`: destructors run, and then the process ends.
    pub const END: u8 = 26;
}

/// `size_arg` value: what is returned is a byte count, if it is more than 0.
pub const RETURNED_SIZE: u8 = 6;
/// `size_arg` value, with the index of an integer argument added: what is returned, times that argument.
pub const RETURNED_TIMES: u8 = 8;
/// `size_arg` value: no argument holds a size.
pub const NO_SIZE: u8 = 0xff;

/// One API.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ApiEntry {
    /// FNV-1a of the name; 0 = empty entry.
    pub hash: u32,
    /// A [`class`] value.
    pub class: u8,
    /// A [`handler`] value.
    pub handler: u8,
    /// Index of the integer argument that holds a byte count (or the environment, for exec), [`RETURNED_SIZE`],
    /// [`RETURNED_TIMES`] and more, or [`NO_SIZE`].
    pub size_arg: u8,
    /// Zero.
    pub reserved: u8,
    /// Name, zero-padded.
    pub name: [u8; API_NAME_CAPACITY],
}

const _: () = assert!(size_of::<ApiEntry>() == 64);

/// FNV-1a over the name's bytes, never 0.
pub fn hash(name: &[u8]) -> u32 {
    let mut h: u32 = 0x811c_9dc5;
    for &b in name {
        h = (h ^ b as u32).wrapping_mul(0x0100_0193);
    }
    if h == 0 { 1 } else { h }
}
