//! What functions of the kernel on a stack tell about a wait.

/// What the kernel half of a stack waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelWait {
    /// A lock of the kernel's own.
    Lock,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// A page.
    Fault,
    /// A futex.
    Futex,
    /// A timer.
    Sleep,
    /// One of several descriptors.
    Poll,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A child process.
    Child,
    /// A signal.
    Signal,
    /// Data getting to the disk.
    Sync,
    /// Data of a file.
    Read,
    /// Room for data of a file.
    Write,
}

/// Functions that a thread is in only while it waits for a lock of the kernel's.
const LOCKS: &[&str] = &[
    "mutex_lock",
    "__mutex_lock",
    "__mutex_lock_slowpath",
    "__mutex_lock_killable_slowpath",
    "__mutex_lock_interruptible_slowpath",
    "mutex_lock_interruptible",
    "mutex_lock_killable",
    "mutex_lock_io",
    "__ww_mutex_lock",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "down_read",
    "down_write",
    "down_read_killable",
    "down_write_killable",
    "down_read_interruptible",
    "percpu_rwsem_wait",
    "percpu_down_write",
    "__percpu_down_read",
    "__down",
    "__down_common",
    "__down_interruptible",
    "__down_killable",
    "__down_timeout",
    "down",
    "rt_mutex_slowlock",
    "__rt_mutex_slowlock",
    "rt_mutex_lock",
    "rt_spin_lock",
    "rtlock_slowlock",
    "rwbase_read_lock",
    "rwbase_write_lock",
    "__lock_sock",
    "vma_start_read",
    "__vma_start_write",
];

/// Other functions by what they wait for; the first that stands nearest to the leaf counts.
const WAITS: &[(KernelWait, &[&str])] = &[
    (KernelWait::Stopped, &["do_signal_stop", "ptrace_stop", "do_jobctl_trap", "get_signal"]),
    (KernelWait::Futex, &["futex_wait", "__futex_wait", "do_futex", "futex_wait_queue", "futex_wait_queue_me"]),
    (KernelWait::Sleep, &["do_nanosleep", "hrtimer_nanosleep"]),
    (KernelWait::Poll, &["do_sys_poll", "do_poll", "do_select", "core_sys_select", "ep_poll", "do_epoll_wait"]),
    (KernelWait::Poll, &["io_cqring_wait", "read_events", "do_restart_poll", "io_wq_worker"]),
    (
        KernelWait::Pipe,
        &["pipe_read", "pipe_write", "anon_pipe_read", "anon_pipe_write", "fifo_open", "wait_for_partner"],
    ),
    (KernelWait::Pipe, &["pipe_wait_readable", "pipe_wait_writable", "wait_for_space", "opipe_prep", "ipipe_prep"]),
    (
        KernelWait::Socket,
        &["sock_recvmsg", "sock_sendmsg", "__sys_connect", "__sys_accept4", "do_accept", "sock_read_iter"],
    ),
    (
        KernelWait::Socket,
        &["sock_write_iter", "tcp_recvmsg", "tcp_sendmsg", "unix_stream_read_generic", "sk_wait_data"],
    ),
    (KernelWait::Socket, &["inet_csk_accept", "unix_accept", "__skb_wait_for_more_packets", "sk_stream_wait_memory"]),
    // What is still to be sent when a socket is closed (SO_LINGER).
    (KernelWait::Socket, &["sk_stream_wait_close", "__sock_release", "sock_close"]),
    (KernelWait::Child, &["do_wait", "kernel_wait4", "__do_wait", "wait_for_vfork_done"]),
    (KernelWait::Signal, &["do_sigtimedwait", "sigsuspend", "pause", "ksys_pause"]),
    (KernelWait::Sync, &["vfs_fsync_range", "do_fsync", "ksys_sync", "sync_filesystem", "msync"]),
    (KernelWait::Sync, &["file_write_and_wait_range", "jbd2_log_wait_commit", "jbd2_complete_transaction"]),
    (
        KernelWait::Fault,
        &["handle_mm_fault", "do_user_addr_fault", "exc_page_fault", "asm_exc_page_fault", "faultin_page"],
    ),
    (KernelWait::Fault, &["lock_mm_and_find_vma"]),
    (
        KernelWait::Read,
        &["vfs_read", "vfs_readv", "iterate_dir", "do_sys_openat2", "do_filp_open", "vfs_statx", "bprm_execve"],
    ),
    (
        KernelWait::Write,
        &["vfs_write", "vfs_writev", "do_unlinkat", "do_renameat2", "do_mkdirat", "vfs_fallocate", "do_truncate"],
    ),
];

impl KernelWait {
    /// What functions of the kernel, leaf first, wait for; `None` if they tell nothing. A lock wins: what is done
    /// with a file under it is not what is waited for.
    pub fn of<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        if functions.clone().any(|function| LOCKS.contains(&plain(function))) {
            return Some(Self::Lock);
        }
        functions
            .map(plain)
            .find_map(|function| WAITS.iter().find(|(_, names)| names.contains(&function)).map(|(found, _)| *found))
    }
}

/// Without what the compiler appends to copies of a function (`__mutex_lock.constprop.0`).
fn plain(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}
