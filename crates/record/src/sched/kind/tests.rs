use transect_bpf_collect::record::object_type;
use transect_profile_model::WaitKind;

use super::*;

fn user(functions: &[&str]) -> Option<UserWait> {
    UserWait::of(functions.iter().map(|function| (*function, "libc.so.6")))
}

fn kernel(functions: &[&str]) -> Option<KernelWait> {
    KernelWait::of(functions.iter().copied())
}

fn futex_in(functions: &[&str]) -> WaitKind {
    let arguments = [0x1000, 137, 0, 0];
    kind(&Blocked { system_call: 202, arguments, user: user(functions), ..Default::default() })
}

/// Stacks as seen in gdb and perf, leaf first.
#[test]
fn futexes_are_named_by_the_functions_around_them() {
    use WaitKind::*;
    for (functions, expected) in [
        (&["__lll_lock_wait", "___pthread_mutex_lock", "worker", "start_thread"][..], Mutex),
        // Debian's libc without debug symbols.
        (&["sub_8a3b0", "pthread_mutex_lock", "worker", "start_thread"], Mutex),
        (&["__GI___lll_lock_wait", "__GI___pthread_mutex_lock", "f"], Mutex),
        (&["__futex_abstimed_wait_common64", "__pthread_cond_wait_common", "___pthread_cond_wait", "take"], Condition),
        (&["sub_8a001", "pthread_cond_timedwait", "take"], Condition),
        (&["__lll_lock_wait", "__pthread_mutex_cond_lock", "__pthread_cond_wait", "take"], Mutex),
        (
            &["sub_1", "pthread_cond_wait", "std::condition_variable::wait(std::unique_lock<std::mutex>&)", "g"],
            Condition,
        ),
        (&["sub_1", "pthread_barrier_wait", "main"], Barrier),
        (&["__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "pthread_join", "main"], Join),
        (&["sub_1", "pthread_join", "std::thread::join()", "main"], Join),
        (&["sub_1", "__new_sem_wait_slow64", "sem_wait", "main"], Semaphore),
        (&["sub_1", "sub_2", "pthread_rwlock_wrlock", "main"], Rwlock),
        (&["__lll_lock_wait_private", "_int_free", "free", "drop"], Mutex),
        (&["sub_8a3b0", "sub_99f00", "malloc", "operator new(unsigned long)", "main"], Mutex),
        (&["futex_wait", "do_wait", "gomp_team_barrier_wait_end", "gomp_team_end", "GOMP_parallel", "main"], Barrier),
        (&["sub_1d0b0", "GOMP_parallel", "main"], Barrier),
        (&["sub_1", "gomp_mutex_lock_slow", "GOMP_critical_start", "main._omp_fn.0"], Mutex),
        (&["sub_1", "omp_set_lock", "main._omp_fn.0"], Mutex),
        (&["__kmp_suspend_64<false, true>", "__kmp_hyper_barrier_release(barrier_type, kmp_info*)"], Barrier),
        (&["sub_1", "__kmpc_critical_with_hint", ".omp_outlined."], Mutex),
        (
            &[
                "std::sys::pal::unix::futex::futex_wait",
                "std::sys::sync::mutex::futex::Mutex::lock_contended",
                "app::work",
            ],
            Mutex,
        ),
        // As compilers since 1.95 name methods.
        (&["syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", "app::work"], Mutex),
        (&["syscall", "<std::sys::sync::rwlock::futex::RwLock>::read_contended", "app::work"], Rwlock),
        (&["syscall", "<std::sys::sync::condvar::futex::Condvar>::wait", "app::work"], Condition),
        (
            &[
                "syscall",
                "<std::sys::sync::condvar::futex::Condvar>::wait",
                "<std::sync::barrier::Barrier>::wait",
                "app::phase",
            ],
            Barrier,
        ),
        (&["syscall", "<std::sync::barrier::Barrier>::wait", "app::phase"], Barrier),
        (&["syscall", "<std::sync::mutex::Mutex<fn(i32) -> i32>>::lock", "app::work"], Mutex),
        (&["syscall", "<std::thread::thread::Thread>::park", "std::thread::scoped::scope::<app::f, ()>", "app"], Join),
        (
            &["syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", "std::thread::scoped::scope", "app"],
            Mutex,
        ),
        (&["syscall", "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", "app::pop"], Condition),
        (
            &[
                "syscall",
                "<parking_lot_core::thread_parker::imp::ThreadParker as parking_lot_core::thread_parker::ThreadParkerT>::park",
                "parking_lot_core::parking_lot::park::{{closure}}",
                "parking_lot::raw_mutex::RawMutex::lock_slow",
                "app::work",
            ],
            Mutex,
        ),
        (
            &["syscall", "std::sys::sync::thread_parking::futex::Parker::park", "std::thread::park", "app::idle"],
            Condition,
        ),
        (&["syscall", "std::sys::sync::rwlock::futex::RwLock::write_contended", "app::set"], Rwlock),
        (
            &[
                "syscall",
                "std::sys::sync::condvar::futex::Condvar::wait",
                "std::sync::barrier::Barrier::wait",
                "app::phase",
            ],
            Barrier,
        ),
        (
            &["runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.stopm", "runtime.findRunnable"],
            Condition,
        ),
        (&["runtime.futex", "runtime.futexsleep", "runtime.lock2", "runtime.(*mheap).alloc"], Mutex),
        (&["sub_1", "pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread"], Mutex),
        (
            &["sub_1", "pthread_cond_wait", "ObjectMonitor::EnterI(JavaThread*)", "ObjectMonitor::enter(JavaThread*)"],
            Mutex,
        ),
        (&["syscall", "std::__detail::__platform_wait<int>", "std::latch::wait() const", "main"], Barrier),
        (&["syscall", "std::__atomic_futex_unsigned_base::_M_futex_wait_until(unsigned int*)", "main"], Condition),
        (&["syscall", "absl::lts_20230802::Mutex::LockSlow(absl::MuHow)", "Server::Handle()"], Mutex),
        (&["syscall", "srw_mutex_impl<true>::wait_and_lock()", "trx_commit"], Mutex),
        (&["syscall", "ssux_lock_impl<true>::rd_wait()", "buf_page_get_gen"], Rwlock),
        (&["syscall", "my_own_lock", "main"], Futex),
    ] {
        assert_eq!(futex_in(functions), expected, "{functions:?}");
    }
}

#[test]
fn who_gives_a_lock_free_is_known_by_name() {
    let unlocking = |functions: &[&str]| is_unlocking(functions.iter().copied());
    assert!(unlocking(&["__lll_lock_wake", "lll_mutex_unlock_optimized", "__pthread_mutex_unlock_usercnt", "worker"]));
    assert!(unlocking(&["sub_9030", "pthread_mutex_unlock", "worker"]));
    assert!(unlocking(&["syscall", "std::sys::sync::mutex::futex::Mutex::wake", "app::work"]));
    assert!(unlocking(&["syscall", "<std::sys::sync::mutex::futex::Mutex>::wake", "app::work"]));
    assert!(!unlocking(&["pthread_cond_signal", "put"]));
    assert!(!unlocking(&[]));
}

#[test]
fn the_last_thread_of_a_scope_is_known_by_name() {
    let ends = |functions: &[&str]| ends_scope(functions.iter().copied());
    assert!(ends(&["syscall", "<std::thread::scoped::ScopeData>::decrement_num_running_threads", "drop"]));
    assert!(ends(&["syscall", "std::thread::scoped::ScopeData::decrement_num_running_threads", "drop"]));
    assert!(!ends(&["syscall", "<std::thread::thread::Thread>::unpark", "app::work"]));
}

#[test]
fn workers_of_libraries_without_names_are_known_by_the_library() {
    let frames = [("sub_1d0b0", "libgomp.so.1.0.0"), ("sub_1a000", "libgomp.so.1.0.0"), ("start_thread", "libc.so.6")];
    let user = UserWait::of(frames.iter().copied());
    assert_eq!(user.map(UserWait::kind), Some(WaitKind::Barrier));
}

#[test]
fn without_names_a_futex_is_what_its_arguments_say() {
    let of = |operation, value, owner| {
        kind(&Blocked { system_call: 202, arguments: [0x1000, operation, value, 0], owner, ..Default::default() })
    };
    assert_eq!(of(6 | 128, 0, 0), WaitKind::Mutex, "priority inheritance");
    assert_eq!(of(11 | 128, 0, 0), WaitKind::Condition);
    assert_eq!(of(128, 2, 0), WaitKind::Mutex, "glibc's lock");
    assert_eq!(of(128, 2, 77), WaitKind::Mutex, "with its owner");
    assert_eq!(of(9 | 256, 77, 77), WaitKind::Join, "the thread's own id, shared");
    assert_eq!(of(9 | 128, 77, 77), WaitKind::Mutex, "the owner's id alone, private");
    assert_eq!(of(9 | 128, 0x8000_004d, 77), WaitKind::Mutex, "musl");
    assert_eq!(of(9 | 128, 0, 0), WaitKind::Futex);
    assert_eq!(of(9 | 128, 2, 0), WaitKind::Mutex, "Rust");
}

#[test]
fn reading_and_writing_depend_on_what_is_read() {
    let of =
        |system_call, object, object_name| kind(&Blocked { system_call, object, object_name, ..Default::default() });
    assert_eq!(of(0, object_type::FILE, "data"), WaitKind::FileRead);
    assert_eq!(of(17, object_type::FILE, "data"), WaitKind::FileRead);
    let open = |system_call, arguments| kind(&Blocked { system_call, arguments, ..Default::default() });
    for (call, flags) in [(2, [1, 0o1101, 0o644, 0]), (257, [0, 1, 0o100, 0o644])] {
        assert_eq!(open(call, flags), WaitKind::FileWrite);
    }
    assert_eq!((open(2, [1, 0, 0o777, 0]), open(257, [0, 0o777, 0, 0])), (WaitKind::FileRead, WaitKind::FileRead));
    assert_eq!(of(1, object_type::FILE, "data"), WaitKind::FileWrite);
    assert_eq!(of(74, object_type::FILE, "wal"), WaitKind::FileSync);
    assert_eq!(of(0, object_type::PIPE, ""), WaitKind::Pipe);
    assert_eq!(of(1, object_type::SOCKET_UNIX, ""), WaitKind::Socket);
    assert_eq!(of(45, object_type::SOCKET_INET, ""), WaitKind::Socket);
    assert_eq!(of(0, object_type::ANONYMOUS, "[timerfd]"), WaitKind::Sleep);
    assert_eq!(of(0, object_type::ANONYMOUS, "[signalfd]"), WaitKind::Signal);
    assert_eq!(of(0, object_type::ANONYMOUS, "[eventfd]"), WaitKind::Other);
    assert_eq!(of(0, object_type::DEVICE, "0"), WaitKind::Other);
}

#[test]
fn a_poll_of_nothing_is_a_sleep() {
    let of = |system_call, arguments| kind(&Blocked { system_call, arguments, ..Default::default() });
    assert_eq!(of(7, [0, 0, 100, 0]), WaitKind::Sleep);
    assert_eq!(of(7, [0x1000, 3, 100, 0]), WaitKind::Poll);
    assert_eq!(of(23, [0, 0, 0, 0]), WaitKind::Sleep);
    assert_eq!(of(270, [5, 0x1000, 0, 0]), WaitKind::Poll);
    assert_eq!(of(232, [3, 0, 0, 0]), WaitKind::Poll);
    assert_eq!(of(426, [3, 0, 1, 0]), WaitKind::Poll);
    assert_eq!(of(35, [0; 4]), WaitKind::Sleep);
    assert_eq!(of(230, [0; 4]), WaitKind::Sleep);
    assert_eq!(of(61, [0; 4]), WaitKind::Child);
    assert_eq!(of(34, [0; 4]), WaitKind::Signal);
    assert_eq!(of(73, [3, 2, 0, 0]), WaitKind::Mutex, "flock");
    assert_eq!(of(65, [0; 4]), WaitKind::Semaphore);
    assert_eq!(of(39, [0; 4]), WaitKind::Other);
}

#[test]
fn a_stop_is_no_wait_for_what_the_thread_was_doing() {
    let own = Blocked { system_call: -3, kernel: kernel(&["unix_stream_read_generic"]), ..Default::default() };
    assert_eq!(kind(&own), WaitKind::Other, "the recording's own");
    let held = |system_call, kernel| kind(&Blocked { system_call, kernel, held: true, ..Default::default() });
    assert_eq!(held(-1, None), WaitKind::Signal, "it computed");
    assert_eq!(held(202, None), WaitKind::Signal);
    assert_eq!(held(202, kernel(&["do_signal_stop", "get_signal"])), WaitKind::Signal);
    let stopped = kernel(&["do_signal_stop", "get_signal"]);
    assert_eq!(kind(&Blocked { system_call: 202, kernel: stopped, ..Default::default() }), WaitKind::Signal);
}

/// Kernel stacks as `cat /proc/PID/stack` shows them, leaf first.
#[test]
fn the_kernels_functions_tell_where_the_call_does_not() {
    let of = |system_call, functions: &[&str]| {
        let object = object_type::FILE;
        kind(&Blocked { system_call, object, kernel: kernel(functions), ..Default::default() })
    };
    let lock =
        ["schedule_preempt_disabled", "__mutex_lock.constprop.0", "ext4_sync_file", "do_fsync", "__x64_sys_fsync"];
    assert_eq!(of(74, &lock), WaitKind::KernelLock, "wins over the file");
    assert_eq!(of(-1, &["rwsem_down_read_slowpath", "do_user_addr_fault", "exc_page_fault"]), WaitKind::KernelLock);
    assert_eq!(of(11, &["rwsem_down_write_slowpath", "down_write_killable", "__vm_munmap"]), WaitKind::KernelLock);
    let fault = ["folio_wait_bit_common", "filemap_fault", "__do_fault", "handle_mm_fault", "exc_page_fault"];
    assert_eq!(of(-1, &fault), WaitKind::PageFault);
    assert_eq!(of(-1, &[]), WaitKind::PageFault, "nothing else blocks outside of calls");
    assert_eq!(of(-1, &["do_signal_stop", "get_signal", "arch_do_signal_or_restart"]), WaitKind::Signal);
    assert_eq!(
        of(9, &["folio_wait_bit_common", "handle_mm_fault", "faultin_page", "populate_vma_page_range"]),
        WaitKind::PageFault
    );
    assert_eq!(of(219, &["do_nanosleep", "hrtimer_nanosleep"]), WaitKind::Sleep);
    assert_eq!(of(-2, &["do_poll.constprop.0", "do_sys_poll", "__x64_sys_poll"]), WaitKind::Poll);
    assert_eq!(of(-2, &["anon_pipe_read", "vfs_read", "ksys_read"]), WaitKind::Pipe);
    assert_eq!(of(-2, &["futex_wait_queue", "__futex_wait", "futex_wait", "do_futex"]), WaitKind::Futex);
    assert_eq!(of(-2, &["do_wait", "kernel_wait4"]), WaitKind::Child);
    assert_eq!(of(-2, &[]), WaitKind::Other);
    assert_eq!(of(257, &["wait_for_partner", "fifo_open", "do_dentry_open", "do_sys_openat2"]), WaitKind::Pipe);
    assert_eq!(of(257, &["io_schedule", "bit_wait_io", "ext4_bread", "do_sys_openat2"]), WaitKind::FileRead);
    assert_eq!(of(202, &["rt_mutex_slowlock", "futex_lock_pi"]), WaitKind::Futex, "the lock is the program's");
    let read = ["folio_wait_bit_common", "filemap_read", "vfs_read"];
    assert_eq!(of(0, &read), WaitKind::FileRead);
}

/// The descriptor is free for others by then: it names nothing.
#[test]
fn closing_a_socket_waits_for_the_socket() {
    let of = |functions: &[&str]| kind(&Blocked { system_call: 3, kernel: kernel(functions), ..Default::default() });
    let lingers = ["sk_stream_wait_close", "tcp_close", "inet_release", "__sock_release", "sock_close", "__fput"];
    assert_eq!(of(&lingers), WaitKind::Socket);
    assert_eq!(of(&["unix_release", "__sock_release", "sock_close", "__fput"]), WaitKind::Socket);
    assert_eq!(of(&["nfs_file_flush", "filp_flush", "__x64_sys_close"]), WaitKind::FileWrite);
}

#[test]
fn only_the_c_librarys_locks_name_their_owner() {
    let names_owner = |functions: &[&str]| user(functions).is_some_and(UserWait::names_owner);
    for functions in [
        &["__lll_lock_wait", "___pthread_mutex_lock", "worker"][..],
        &["sub_8a3b0", "pthread_mutex_lock", "std::mutex::lock()", "worker"],
        &["__futex_lock_pi64", "__pthread_mutex_lock_full", "pthread_mutex_lock", "worker"],
        &["sub_1", "sub_2", "pthread_rwlock_wrlock", "main"],
        &["__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "std::thread::join()", "main"],
    ] {
        assert!(names_owner(functions), "{functions:?}");
    }
    for functions in [
        &["syscall", "std::sys::sync::mutex::futex::Mutex::lock_contended", "app::work"][..],
        &["__lll_lock_wait_private", "_int_free", "free", "drop"],
        &["sub_1", "pthread_cond_timedwait", "take_gil", "main"],
        &["sub_1", "gomp_mutex_lock_slow", "GOMP_critical_start"],
        &["sub_1", "__new_sem_wait_slow64", "sem_wait", "main"],
    ] {
        assert!(!names_owner(functions), "{functions:?}");
    }
}
