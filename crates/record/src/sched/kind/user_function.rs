//! What functions of programs and libraries tell about a futex: one table.

use std::borrow::Cow;

use transect_profile_model::WaitKind;

/// What the user half of a stack waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserWait {
    kind: WaitKind,
    names_owner: bool,
}

/// Frames from the leaf on that can name the wait: a library's internals are seldom deeper.
const FRAMES: usize = 14;

/// How a name is compared: as it is but for leading underscores and glibc's `__GI_`.
enum Name {
    /// The whole name.
    Is(&'static str),
    /// Its beginning.
    Begins(&'static str),
    /// A part of it.
    Has(&'static str),
}
use Name::{Begins, Has, Is};

impl Name {
    fn matches(&self, function: &str) -> bool {
        match self {
            Is(name) => function == *name,
            Begins(name) => function.starts_with(name),
            Has(name) => function.contains(name),
        }
    }
}

/// What is built of simpler means: these win over the frames between them and the leaf.
#[rustfmt::skip]
const BUILT: &[(Name, WaitKind)] = &[
    // CPython: the interpreter lock is made of a condition variable.
    (Is("take_gil"), WaitKind::Mutex),
    (Is("PyMutex_LockTimed"), WaitKind::Mutex),
    (Is("PyRWMutex_RLock"), WaitKind::Rwlock), (Is("PyRWMutex_Lock"), WaitKind::Rwlock),
    // Barriers made of condition variables.
    (Begins("boost::barrier::"), WaitKind::Barrier),
    (Begins("std::barrier<"), WaitKind::Barrier), (Has("__tree_barrier"), WaitKind::Barrier),
    (Begins("std::latch::"), WaitKind::Barrier),
    (Begins("std::sync::barrier::Barrier::wait"), WaitKind::Barrier),
    (Has("::Barrier::Block("), WaitKind::Barrier), (Has("BlockingCounter::Wait("), WaitKind::Barrier),
    (Begins("SafepointSynchronize::block"), WaitKind::Barrier),
    // Locks made of condition variables and events.
    (Has("ObjectMonitor::enter"), WaitKind::Mutex), (Has("ObjectMonitor::EnterI"), WaitKind::Mutex),
    (Has("ObjectMonitor::wait"), WaitKind::Condition),
    (Begins("boost::shared_mutex::"), WaitKind::Rwlock), (Begins("boost::upgrade_mutex::"), WaitKind::Rwlock),
    (Begins("std::shared_timed_mutex::"), WaitKind::Rwlock), (Begins("std::__shared_mutex_cv::"), WaitKind::Rwlock),
    (Has("rw_lock_s_lock_spin"), WaitKind::Rwlock), (Has("rw_lock_x_lock"), WaitKind::Rwlock),
    (Has("rw_lock_sx_lock"), WaitKind::Rwlock),
    (Has("TTASEventMutex"), WaitKind::Mutex),
    (Begins("QReadWriteLock"), WaitKind::Rwlock), (Begins("QSemaphore::"), WaitKind::Semaphore),
    (Begins("std::sys::sync::rwlock::"), WaitKind::Rwlock), (Begins("parking_lot::raw_rwlock::"), WaitKind::Rwlock),
    (Begins("parking_lot::raw_mutex::"), WaitKind::Mutex), (Begins("parking_lot::condvar::"), WaitKind::Condition),
    (Has("counting_semaphore<"), WaitKind::Semaphore), (Has("__semaphore_base::"), WaitKind::Semaphore),
    (Has("__platform_semaphore::"), WaitKind::Semaphore), (Has("__semaphore_impl"), WaitKind::Semaphore),
    (Begins("std::thread::JoinHandle"), WaitKind::Join), (Begins("std::thread::join_handle"), WaitKind::Join),
];

/// The means of libraries; the match nearest to the leaf counts.
#[rustfmt::skip]
const MEANS: &[(Name, WaitKind)] = &[
    // glibc, musl
    (Is("lll_lock_wait"), WaitKind::Mutex), (Is("lll_lock_wait_private"), WaitKind::Mutex),
    (Begins("pthread_mutex_lock"), WaitKind::Mutex), (Begins("pthread_mutex_timedlock"), WaitKind::Mutex),
    (Begins("pthread_mutex_clocklock"), WaitKind::Mutex), (Begins("pthread_mutex_cond_lock"), WaitKind::Mutex),
    (Is("pthread_once"), WaitKind::Mutex), (Is("pthread_once_slow"), WaitKind::Mutex),
    (Is("cxa_guard_acquire"), WaitKind::Mutex), (Is("mtx_lock"), WaitKind::Mutex), (Is("mtx_timedlock"), WaitKind::Mutex),
    (Is("call_once"), WaitKind::Mutex), (Begins("pthread_mutex_trylock"), WaitKind::Mutex),
    (Begins("pthread_rwlock_"), WaitKind::Rwlock),
    (Begins("pthread_cond_wait"), WaitKind::Condition), (Begins("pthread_cond_timedwait"), WaitKind::Condition),
    (Begins("pthread_cond_clockwait"), WaitKind::Condition), (Begins("pthread_cond_destroy"), WaitKind::Condition),
    (Is("cnd_wait"), WaitKind::Condition), (Is("cnd_timedwait"), WaitKind::Condition),
    (Begins("private_cond_"), WaitKind::Condition),
    (Begins("pthread_barrier_wait"), WaitKind::Barrier), (Begins("pthread_barrier_destroy"), WaitKind::Barrier),
    (Begins("pthread_join"), WaitKind::Join), (Begins("pthread_clockjoin"), WaitKind::Join),
    (Begins("pthread_timedjoin"), WaitKind::Join), (Begins("pthread_timedjoin_np"), WaitKind::Join),
    (Is("thrd_join"), WaitKind::Join),
    (Begins("sem_wait"), WaitKind::Semaphore), (Begins("sem_timedwait"), WaitKind::Semaphore),
    (Begins("sem_clockwait"), WaitKind::Semaphore), (Begins("new_sem_wait"), WaitKind::Semaphore),
    (Begins("new_sem_timedwait"), WaitKind::Semaphore),
    // C++
    (Begins("std::condition_variable"), WaitKind::Condition), (Begins("std::_V2::condition_variable_any"), WaitKind::Condition),
    (Begins("std::__condvar::"), WaitKind::Condition), (Has("::condition_variable::wait"), WaitKind::Condition),
    (Begins("std::mutex::lock"), WaitKind::Mutex), (Begins("std::recursive_mutex::lock"), WaitKind::Mutex),
    (Begins("std::__1::mutex::lock"), WaitKind::Mutex),
    (Begins("std::shared_mutex::"), WaitKind::Rwlock), (Begins("std::__shared_mutex_pthread::"), WaitKind::Rwlock),
    (Begins("std::thread::join"), WaitKind::Join), (Begins("std::__1::thread::join"), WaitKind::Join),
    (Has("_M_futex_wait_until"), WaitKind::Condition), (Begins("std::__future_base::"), WaitKind::Condition),
    (Begins("std::__1::__assoc_sub_state"), WaitKind::Condition),
    (Has("::__atomic_wait"), WaitKind::Futex), (Has("__platform_wait"), WaitKind::Futex),
    (Has("__libcpp_atomic_wait"), WaitKind::Futex),
    // libgomp
    (Begins("gomp_barrier_wait"), WaitKind::Barrier), (Begins("gomp_team_barrier_"), WaitKind::Barrier),
    (Begins("gomp_team_end"), WaitKind::Barrier), (Begins("gomp_simple_barrier"), WaitKind::Barrier),
    (Is("gomp_mutex_lock_slow"), WaitKind::Mutex), (Is("gomp_ptrlock_get_slow"), WaitKind::Mutex),
    (Is("gomp_sem_wait_slow"), WaitKind::Semaphore),
    (Is("GOMP_barrier"), WaitKind::Barrier), (Is("GOMP_barrier_cancel"), WaitKind::Barrier),
    (Begins("GOMP_critical"), WaitKind::Mutex), (Begins("GOMP_atomic"), WaitKind::Mutex),
    (Begins("GOMP_ordered"), WaitKind::Condition), (Begins("GOMP_doacross"), WaitKind::Condition),
    (Begins("omp_set_lock"), WaitKind::Mutex), (Begins("omp_set_nest_lock"), WaitKind::Mutex),
    // LLVM's and Intel's OpenMP
    (Begins("kmp_acquire_"), WaitKind::Mutex), (Begins("kmpc_critical"), WaitKind::Mutex), (Begins("kmpc_set_lock"), WaitKind::Mutex),
    (Has("kmp_hyper_barrier"), WaitKind::Barrier), (Has("kmp_fork_barrier"), WaitKind::Barrier),
    (Has("kmp_join_barrier"), WaitKind::Barrier), (Has("kmp_barrier"), WaitKind::Barrier), (Is("kmpc_barrier"), WaitKind::Barrier),
    // TBB
    (Has("tbb::detail::d1::mutex"), WaitKind::Mutex), (Has("tbb::detail::d1::rw_mutex"), WaitKind::Rwlock),
    (Has("private_worker::run"), WaitKind::Condition), (Has("rml::internal::thread_monitor"), WaitKind::Condition),
    (Has("concurrent_monitor_base"), WaitKind::Condition), (Has("tbb::detail::r1::semaphore"), WaitKind::Semaphore),
    // Rust's standard library, parking_lot, crossbeam
    (Has("::futex::Mutex::lock_contended"), WaitKind::Mutex), (Has("std::sync::mutex::Mutex<"), WaitKind::Mutex),
    (Has("::futex::RwLock::"), WaitKind::Rwlock), (Has("::futex::Condvar::"), WaitKind::Condition),
    (Has("std::sync::once"), WaitKind::Mutex), (Has("::once::futex::Once::"), WaitKind::Mutex),
    (Has("std::sync::mpmc::"), WaitKind::Condition), (Has("std::sync::mpsc::"), WaitKind::Condition),
    (Has("crossbeam_channel::"), WaitKind::Condition), (Has("std::thread::Thread::join"), WaitKind::Join),
    // A scope parks until its threads have ended.
    (Has("std::thread::scoped::scope"), WaitKind::Join),
    // Go's runtime
    (Is("runtime.lock2"), WaitKind::Mutex), (Is("runtime.lock"), WaitKind::Mutex), (Is("runtime.lockWithRank"), WaitKind::Mutex),
    (Is("runtime.stopm"), WaitKind::Condition), (Is("runtime.mPark"), WaitKind::Condition),
    (Is("runtime.notesleep"), WaitKind::Condition), (Is("runtime.notetsleep"), WaitKind::Condition),
    (Is("runtime.notetsleepg"), WaitKind::Condition), (Is("runtime.usleep"), WaitKind::Sleep),
    // JVM
    (Begins("PlatformMonitor::wait"), WaitKind::Condition), (Begins("Monitor::wait"), WaitKind::Condition),
    (Begins("Monitor::lock"), WaitKind::Mutex), (Begins("Mutex::lock"), WaitKind::Mutex), (Begins("PlatformMutex::lock"), WaitKind::Mutex),
    // Abseil
    (Has("::Mutex::LockSlow"), WaitKind::Mutex), (Has("::Mutex::Await"), WaitKind::Condition), (Has("::CondVar::Wait"), WaitKind::Condition),
    (Has("::Notification::WaitFor"), WaitKind::Condition),
    // folly
    (Has("folly::SharedMutex"), WaitKind::Rwlock), (Has("folly::Baton<"), WaitKind::Semaphore),
    (Has("folly::LifoSem"), WaitKind::Semaphore), (Has("folly::MicroLock"), WaitKind::Mutex),
    // Boost
    (Begins("boost::condition_variable"), WaitKind::Condition), (Begins("boost::mutex::lock"), WaitKind::Mutex),
    (Begins("boost::thread::join"), WaitKind::Join),
    // InnoDB
    (Has("srw_mutex_impl<"), WaitKind::Mutex), (Has("ssux_lock_impl<"), WaitKind::Rwlock), (Has("srw_lock_impl<"), WaitKind::Rwlock),
    (Begins("os_event"), WaitKind::Condition),
    // GLib, Qt
    (Begins("g_mutex_lock"), WaitKind::Mutex), (Begins("g_cond_wait"), WaitKind::Condition), (Begins("g_rw_lock_"), WaitKind::Rwlock),
    (Begins("QBasicMutex::"), WaitKind::Mutex), (Begins("QMutex::"), WaitKind::Mutex), (Begins("QWaitCondition::"), WaitKind::Condition),
    (Begins("QThread::wait"), WaitKind::Join), (Has("futexSemaphoreTryAcquire"), WaitKind::Semaphore),
    // jemalloc, tcmalloc
    (Has("malloc_mutex_lock_slow"), WaitKind::Mutex), (Begins("SpinLock::SlowLock"), WaitKind::Mutex), (Begins("tcmalloc::"), WaitKind::Mutex),
];

/// What remains if nothing above is there: idle threads of pools, and locks inside of functions that show their own
/// names only.
#[rustfmt::skip]
const REMAINS: &[(Name, WaitKind)] = &[
    (Is("malloc"), WaitKind::Mutex), (Is("free"), WaitKind::Mutex), (Is("calloc"), WaitKind::Mutex), (Is("realloc"), WaitKind::Mutex),
    (Is("cfree"), WaitKind::Mutex), (Is("memalign"), WaitKind::Mutex), (Is("posix_memalign"), WaitKind::Mutex),
    (Is("aligned_alloc"), WaitKind::Mutex), (Is("malloc_trim"), WaitKind::Mutex), (Begins("int_malloc"), WaitKind::Mutex),
    (Begins("int_free"), WaitKind::Mutex), (Begins("arena_get"), WaitKind::Mutex),
    (Has("parking_lot_core::parking_lot::"), WaitKind::Condition), (Begins("std::thread::park"), WaitKind::Condition),
    (Has("thread_parking::"), WaitKind::Condition), (Has("Parker::park"), WaitKind::Condition), (Has("PlatformEvent::park"), WaitKind::Condition),
    (Is("Unsafe_Park"), WaitKind::Condition), (Begins("kmp_suspend"), WaitKind::Barrier),
    (Begins("GOMP_parallel"), WaitKind::Barrier), (Begins("GOMP_loop"), WaitKind::Barrier), (Begins("GOMP_sections"), WaitKind::Barrier),
    (Begins("GOMP_single"), WaitKind::Barrier), (Begins("GOMP_task"), WaitKind::Barrier), (Begins("GOMP_workshare"), WaitKind::Barrier),
    (Is("runtime.futexsleep"), WaitKind::Futex), (Is("runtime.semasleep"), WaitKind::Futex),
    (Is("fclose"), WaitKind::Mutex), (Is("fputs"), WaitKind::Mutex), (Is("puts"), WaitKind::Mutex), (Is("fwrite"), WaitKind::Mutex),
    (Is("flockfile"), WaitKind::Mutex), (Is("printf"), WaitKind::Mutex), (Is("fprintf"), WaitKind::Mutex), (Is("vfprintf"), WaitKind::Mutex),
    (Is("getc"), WaitKind::Mutex), (Is("putc"), WaitKind::Mutex), (Is("fflush"), WaitKind::Mutex), (Is("fgets"), WaitKind::Mutex),
    (Is("dlopen"), WaitKind::Mutex), (Is("dlsym"), WaitKind::Mutex), (Is("dlclose"), WaitKind::Mutex), (Is("dl_iterate_phdr"), WaitKind::Mutex),
    (Is("tls_get_addr"), WaitKind::Mutex), (Is("fork"), WaitKind::Mutex), (Is("exit"), WaitKind::Mutex),
    (Is("localtime_r"), WaitKind::Mutex), (Is("localtime"), WaitKind::Mutex), (Is("mktime"), WaitKind::Mutex),
    (Is("random"), WaitKind::Mutex), (Is("rand"), WaitKind::Mutex), (Is("setenv"), WaitKind::Mutex), (Is("syslog"), WaitKind::Mutex),
    // Waits that are no futex, for calls whose number is not known.
    (Is("poll"), WaitKind::Poll), (Is("ppoll"), WaitKind::Poll), (Is("select"), WaitKind::Poll), (Is("epoll_wait"), WaitKind::Poll),
    (Is("epoll_pwait"), WaitKind::Poll), (Is("nanosleep"), WaitKind::Sleep), (Is("clock_nanosleep"), WaitKind::Sleep),
    (Is("usleep"), WaitKind::Sleep), (Is("sleep"), WaitKind::Sleep), (Is("wait4"), WaitKind::Child), (Is("waitpid"), WaitKind::Child),
    (Is("recv"), WaitKind::Socket), (Is("recvfrom"), WaitKind::Socket), (Is("recvmsg"), WaitKind::Socket), (Is("accept"), WaitKind::Socket),
    (Is("connect"), WaitKind::Socket), (Is("sigwait"), WaitKind::Signal), (Is("sigtimedwait"), WaitKind::Signal), (Is("pause"), WaitKind::Signal),
    (Is("fsync"), WaitKind::FileSync), (Is("fdatasync"), WaitKind::FileSync),
];

/// Libraries whose threads wait in functions without names, by how their file names begin.
const LIBRARIES: &[(&str, WaitKind)] = &[
    ("libgomp.", WaitKind::Barrier),
    ("libomp.", WaitKind::Barrier),
    ("libiomp5.", WaitKind::Barrier),
    ("libtbb.", WaitKind::Condition),
];

/// Functions of the C library that wait for a lock, or a thread, whose memory names who holds it.
#[rustfmt::skip]
const NAMES_OWNER: &[Name] = &[
    Begins("pthread_mutex_lock"), Begins("pthread_mutex_timedlock"), Begins("pthread_mutex_clocklock"),
    Begins("pthread_mutex_cond_lock"), Begins("pthread_mutex_trylock"), Begins("pthread_rwlock_"),
    Is("mtx_lock"), Is("mtx_timedlock"), Begins("pthread_join"), Begins("pthread_clockjoin"), Begins("pthread_timedjoin"),
    Is("thrd_join"),
];

impl UserWait {
    /// What the user half of a stack waits in, from functions and file names of their components, leaf first; `None`
    /// if no name tells.
    pub fn of<'a>(frames: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<Self> {
        let near = frames.take(FRAMES);
        let plain = near.clone().map(|(function, _)| plain(function));
        let names_owner = plain.clone().any(|function| NAMES_OWNER.iter().any(|name| name.matches(&function)));
        let found = |table: &[(Name, WaitKind)]| {
            let kind = |function: &str| table.iter().find(|(name, _)| name.matches(function)).map(|(_, kind)| *kind);
            plain.clone().find_map(|function| kind(&function))
        };
        found(BUILT)
            .or_else(|| found(MEANS))
            .or_else(|| found(REMAINS))
            .or_else(|| {
                near.filter(|(function, _)| function.starts_with("sub_")).find_map(|(_, component)| {
                    LIBRARIES.iter().find(|(begin, _)| component.starts_with(begin)).map(|(_, kind)| *kind)
                })
            })
            .map(|kind| Self { kind, names_owner })
    }

    /// The kind.
    pub fn kind(self) -> WaitKind {
        self.kind
    }

    /// Whether the memory waited for holds its owner's number, as glibc's locks and thread ends do: other locks have anything
    /// there, which in a pid namespace of small numbers may look like one.
    pub fn names_owner(self) -> bool {
        self.names_owner
    }
}

/// Functions that give a lock free.
#[rustfmt::skip]
const UNLOCKS: &[Name] = &[
    Is("lll_lock_wake"), Is("lll_lock_wake_private"), Begins("pthread_mutex_unlock"), Begins("std::mutex::unlock"),
    Begins("gomp_mutex_unlock"), Begins("GOMP_critical_end"), Begins("GOMP_critical_name_end"), Begins("omp_unset_lock"),
    Begins("kmpc_end_critical"), Has("::futex::Mutex::wake"), Has("::futex::Mutex::unlock"), Has("RawMutex::unlock_slow"),
    Has("::Mutex::UnlockSlow"), Has("srw_mutex_impl<"), Is("drop_gil"), Is("mtx_unlock"), Begins("QMutex::unlock"),
    Begins("QBasicMutex::unlock"), Begins("g_mutex_unlock"), Is("runtime.unlock2"), Has("ObjectMonitor::exit"),
    Has("MutexGuard<"),
];
/// Frames from the leaf on among which they are looked for.
const UNLOCK_FRAMES: usize = 6;

/// True if the functions on a stack, leaf first, tell that the thread gives a lock free.
pub fn is_unlocking<'a>(functions: impl Iterator<Item = &'a str>) -> bool {
    functions.take(UNLOCK_FRAMES).map(plain).any(|function| UNLOCKS.iter().any(|name| name.matches(&function)))
}

/// True if the functions on a stack, leaf first, tell that the thread is the last of a scope of Rust's, whose maker is woken.
/// What that waits in has no name of its own.
pub fn ends_scope<'a>(functions: impl Iterator<Item = &'a str>) -> bool {
    functions.take(UNLOCK_FRAMES).any(|function| function.contains("::decrement_num_running_threads"))
}

/// Without leading underscores, glibc's mark of internal names, a symbol version, and the brackets that newer compilers put
/// around a Rust method's type.
fn plain(function: &str) -> Cow<'_, str> {
    let name = function.trim_start_matches('_');
    let name = name.strip_prefix("GI_").map_or(name, |rest| rest.trim_start_matches('_'));
    let name = name.split('@').next().unwrap_or(name);
    match of_type(name) {
        Some((own, rest)) => Cow::Owned(format!("{own}{rest}")),
        None => Cow::Borrowed(name),
    }
}

/// Type and rest of `<path::Type>::method`; `None` for methods of traits (`<Type as Trait>::method`) and all others.
fn of_type(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 0_u32;
    let mut before = ' ';
    for (at, letter) in inner.char_indices() {
        match letter {
            '<' => depth += 1,
            // An arrow of a function's type is none.
            '>' if before == '-' => {}
            '>' if depth == 0 => {
                return Some((&inner[..at], &inner[at + 1..])).filter(|(_, rest)| rest.starts_with("::"));
            }
            '>' => depth -= 1,
            ' ' if depth == 0 && inner[at..].starts_with(" as ") => return None,
            _ => {}
        }
        before = letter;
    }
    None
}
