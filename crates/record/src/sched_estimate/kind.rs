//! What a blocking API waits for, by its name.

use transect_profile_model::{ApiClass, WaitKind};

const KINDS: [(WaitKind, &[&str]); 14] = [
    (WaitKind::Mutex, &["pthread_mutex_", "mtx_", "flockfile"]),
    (WaitKind::Rwlock, &["pthread_rwlock_"]),
    (WaitKind::Spin, &["pthread_spin_"]),
    (WaitKind::Condition, &["pthread_cond_", "cnd_", "g_cond_"]),
    (WaitKind::Barrier, &["pthread_barrier_"]),
    (WaitKind::Semaphore, &["sem_", "semop", "semtimedop"]),
    (WaitKind::Join, &["pthread_join", "pthread_timedjoin", "pthread_clockjoin", "thrd_join"]),
    (WaitKind::Sleep, &["sleep", "usleep", "nanosleep", "clock_nanosleep", "thrd_sleep"]),
    (WaitKind::Child, &["wait", "system", "pclose"]),
    (WaitKind::Signal, &["pause", "sigsuspend", "sigwait", "sigtimedwait"]),
    (WaitKind::Poll, &["poll", "ppoll", "__poll_chk", "select", "pselect", "epoll_"]),
    (WaitKind::Socket, &["recv", "__recv", "send", "accept", "connect", "getaddrinfo"]),
    (WaitKind::FileSync, &["fsync", "fdatasync", "sync", "msync", "fflush"]),
    (WaitKind::FileWrite, &["write", "pwrite", "fwrite", "fallocate", "posix_fallocate", "ftruncate"]),
];
/// Names that begin like another kind's.
const EXACT: [(&str, WaitKind); 2] = [("sendfile", WaitKind::FileWrite), ("sendfile64", WaitKind::FileWrite)];
const READS: [&str; 8] = ["read", "pread", "__read", "__pread", "fread", "fgets", "getline", "copy_file_range"];

/// The kind of an API's waits. `read` and `write` may mean pipes and sockets, too: the agent does not look at what a
/// descriptor refers to.
pub fn of_api(symbol: &str, class: Option<ApiClass>) -> WaitKind {
    if let Some((_, kind)) = EXACT.iter().find(|(name, _)| *name == symbol) {
        return *kind;
    }
    if READS.iter().any(|prefix| symbol.starts_with(prefix)) {
        return WaitKind::FileRead;
    }
    let known = KINDS.iter().find(|(_, prefixes)| prefixes.iter().any(|prefix| symbol.starts_with(prefix)));
    match (known, class) {
        (Some((kind, _)), _) => *kind,
        (None, Some(ApiClass::Lock)) => WaitKind::Mutex,
        (None, _) => WaitKind::Other,
    }
}

/// Locks whose waiters remain active.
pub fn spins(symbol: &str) -> bool {
    of_api(symbol, None) == WaitKind::Spin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind() {
        for (symbol, kind) in [
            ("pthread_mutex_lock", WaitKind::Mutex),
            ("pthread_rwlock_timedwrlock", WaitKind::Rwlock),
            ("pthread_spin_lock", WaitKind::Spin),
            ("pthread_cond_timedwait", WaitKind::Condition),
            ("pthread_barrier_wait", WaitKind::Barrier),
            ("sem_wait", WaitKind::Semaphore),
            ("semtimedop", WaitKind::Semaphore),
            ("pthread_join", WaitKind::Join),
            ("clock_nanosleep", WaitKind::Sleep),
            ("waitpid", WaitKind::Child),
            ("sigwaitinfo", WaitKind::Signal),
            ("epoll_pwait2", WaitKind::Poll),
            ("select", WaitKind::Poll),
            ("sendmsg", WaitKind::Socket),
            ("sendfile", WaitKind::FileWrite),
            ("preadv2", WaitKind::FileRead),
            ("__read_chk", WaitKind::FileRead),
            ("readv", WaitKind::FileRead),
            ("fdatasync", WaitKind::FileSync),
            ("syncfs", WaitKind::FileSync),
            ("pwritev", WaitKind::FileWrite),
            ("io_getevents", WaitKind::Other),
            ("open", WaitKind::Other),
            ("my_own_wait", WaitKind::Other),
        ] {
            assert_eq!(of_api(symbol, Some(ApiClass::Wait)), kind, "{symbol}");
        }
        assert_eq!(of_api("my_lock", Some(ApiClass::Lock)), WaitKind::Mutex);
        assert!(spins("pthread_spin_lock") && !spins("pthread_mutex_lock"));
    }
}
