//! Calls by which locks are taken and given back, of the C library and of runtimes.

use super::runtime_library::public_name;

/// Calls that do nothing but let a lock go.
const UNLOCKS: [&str; 2] = ["pthread_mutex_unlock", "pthread_rwlock_unlock"];
/// Others by which a lock is let go.
const LETS_GO: [&str; 6] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "lll_lock_wake",
];
/// Calls by which it is taken.
const TAKES: [&str; 12] = [
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_clockwrlock",
    "pthread_rwlock_clockrdlock",
    "lll_lock_wait",
    "flock",
    "fcntl",
];
/// Parts of the names by which locks of runtimes are taken slowly: Rust's, parking_lot's, Abseil's, Go's.
const TAKES_SLOWLY: [&str; 4] = ["::lock_contended", "::lock_slow", "Mutex::LockSlow", "Mutex).lockSlow"];

/// Whether a call lets a lock go, among other things.
pub(crate) fn lets_go(function: &str) -> bool {
    let name = public_name(function);
    UNLOCKS.contains(&name) || LETS_GO.contains(&name)
}

/// Whether a function takes a lock of a runtime that somebody else has.
pub(crate) fn takes_slowly(function: &str) -> bool {
    TAKES_SLOWLY.iter().any(|part| function.contains(part))
}

/// Whether a call does nothing but take a lock or give it back.
pub(crate) fn is_lock_call(function: &str) -> bool {
    let name = public_name(function);
    TAKES.contains(&name) || UNLOCKS.contains(&name) || takes_slowly(function)
}
