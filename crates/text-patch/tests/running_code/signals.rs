//! Signals: handlers over windows, threads that block them, applications with trap handlers of their own.

use super::*;

pub static HANDLED: AtomicUsize = AtomicUsize::new(0);

pub extern "C" fn busy_handler(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(150) {}
}

pub fn signals_during_batches() {
    handle(libc::SIGPROF, busy_handler as *const () as usize, libc::SA_RESTART);
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 100);
    let fired = windows.clone();
    under_fire(&fired, 3, || {
        let every = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        // SAFETY: plain call.
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
        for method in [Method::Trap, Method::Stop] {
            let sum = install_and_restore(&mut windows, &policy(method), 40);
            println!("  {method:?}: moved {}, signalled {}, trapped {}", sum.moved, sum.signalled, sum.trapped);
        }
    });
    assert!(HANDLED.load(Ordering::Relaxed) > 20, "{HANDLED:?}");
}

/// A thread waits in a system call whose instruction ends inside of a window.
pub fn parked_inside() {
    let page = Page::new(1 << 16);
    // f(fd): sub rsp, 24; mov rsi, rsp; mov edx, 1; xor eax, eax | syscall; nop; nop; nop | add rsp, 24; ret
    let head = [0x48, 0x83, 0xEC, 24, 0x48, 0x89, 0xE6, 0xBA, 1, 0, 0, 0, 0x31, 0xC0];
    let entry = page.base + 100;
    page.put(entry, &head);
    let at = entry + head.len() as u64;
    let instructions: &[&[u8]] = &[&[0x0F, 0x05], &[0x90], &[0x90], &[0x90]];
    page.put(at, &instructions.concat());
    page.put(at + 5, &[0x48, 0x83, 0xC4, 24, 0xC3]);
    let copy = page.base + 4096;
    page.put(copy, &instructions.concat());
    page.put(copy + 5, &transfer(JUMP, copy + 5, at + 5).unwrap());
    for method in [Method::Trap, Method::Stop] {
        let mut pipe = [0; 2];
        // SAFETY: two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let reader = scope.spawn(move || {
                // SAFETY: plain call.
                send.send(unsafe { libc::gettid() }).unwrap();
                call(entry, pipe[0] as u32)
            });
            let file = format!("/proc/self/task/{}/syscall", receive.recv().unwrap());
            let reads = format!("0 {:#x} ", pipe[0]);
            while !std::fs::read_to_string(&file).unwrap().starts_with(&reads) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut windows = [window(at, instructions, copy)];
            let report = applied(&mut windows, &policy(method));
            assert!(report.signalled == 1, "{report:?}");
            // SAFETY: our pipe.
            unsafe { libc::write(pipe[1], b"x".as_ptr().cast(), 1) };
            assert_eq!(reader.join().unwrap(), 1);
            applied(&mut [windows[0].reversed()], &policy(method));
        });
    }
}

pub static INSIDE: AtomicBool = AtomicBool::new(false);
pub static LEAVE: AtomicBool = AtomicBool::new(false);
/// The instruction that holds the thread, and whether a signal came before the thread was there.
pub static HELD: AtomicU64 = AtomicU64::new(0);
pub static EARLY: AtomicBool = AtomicBool::new(false);

/// Whether the handler has interrupted the thread where it is held.
fn is_inside(context: *mut libc::c_void) -> bool {
    // SAFETY: the kernel's, for the time of the handler.
    let at = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    let inside = at as u64 == HELD.load(Ordering::SeqCst);
    if inside { &INSIDE } else { &EARLY }.store(true, Ordering::SeqCst);
    inside
}

pub extern "C" fn parking_handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !is_inside(context) {
        return;
    }
    while !LEAVE.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// A signal handler of the application has interrupted a window between two of its instructions, and returns there
/// after the batch. On the same stack, on an alternate one, and while it waits in the kernel.
pub fn parked_in_handler() {
    let page = Page::new(1 << 16);
    let entry = page.base + 100;
    // f(x): lea eax, [rdi + 1]; nop | ud2 at first: jmp $ (EB FE) inside of the window holds the thread there
    let instructions: &[&[u8]] = &[&[0x90], &[0xEB, 0xFE], &[0x90], &[0x90]];
    let copy = page.base + 4096;
    for (alternate, waiting) in [(false, false), (true, false), (false, true)] {
        for method in [Method::Trap, Method::Stop] {
            page.put(entry, &instructions.concat());
            page.put(entry + 5, &[0x8D, 0x47, 1, 0xC3]);
            page.put(copy, &[0x90, 0x90, 0x90, 0x90, 0x90]);
            page.put(copy + 5, &transfer(JUMP, copy + 5, entry + 5).unwrap());
            INSIDE.store(false, Ordering::SeqCst);
            LEAVE.store(false, Ordering::SeqCst);
            HELD.store(entry + 1, Ordering::SeqCst);
            let handler = if waiting { waiting_handler as *const () } else { parking_handler as *const () };
            let flags = libc::SA_RESTART | libc::SA_SIGINFO | if alternate { libc::SA_ONSTACK } else { 0 };
            handle(libc::SIGUSR1, handler as usize, flags);
            std::thread::scope(|scope| {
                let (send, receive) = std::sync::mpsc::channel();
                let runner = scope.spawn(move || {
                    let mut stack = vec![0u8; 1 << 16];
                    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
                    // SAFETY: our stack and thread.
                    unsafe {
                        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
                        send.send(libc::pthread_self()).unwrap();
                    }
                    let result = call(entry, 41);
                    let off = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
                    // SAFETY: not in use.
                    unsafe { libc::sigaltstack(&raw const off, std::ptr::null_mut()) };
                    result
                });
                let thread = receive.recv().unwrap();
                while !INSIDE.load(Ordering::SeqCst) {
                    EARLY.store(false, Ordering::SeqCst);
                    // SAFETY: a live thread.
                    unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                    while !INSIDE.load(Ordering::SeqCst) && !EARLY.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
                let mut windows = [window(entry, instructions, copy)];
                let report = applied(&mut windows, &policy(method));
                assert!(report.moved >= 1, "{report:?}, alternate {alternate}, waiting {waiting}");
                LEAVE.store(true, Ordering::SeqCst);
                assert_eq!(runner.join().unwrap(), 42);
            });
        }
    }
}

pub extern "C" fn waiting_handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !is_inside(context) {
        return;
    }
    while !LEAVE.load(Ordering::SeqCst) {
        // SAFETY: plain call.
        unsafe { libc::usleep(100_000) };
    }
}

pub fn with_blocked(signals: &[i32], patching: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: our thread's mask.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                for &signal in signals {
                    libc::sigaddset(&raw mut set, signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
            ready.store(true, Ordering::SeqCst);
            while !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        while !ready.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        patching();
        stop.store(true, Ordering::SeqCst);
    });
}

pub fn blocked_sigtrap() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 10);
    with_blocked(&[libc::SIGTRAP], || {
        let quick = BatchPolicy { patience: 50_000_000, ..policy(Method::Trap) };
        let refusal = refused(&mut windows, &quick);
        assert!(matches!(refusal, Refusal::SignalBlocked { signal: 5, .. }), "{refusal}");
        let report = applied(&mut windows, &policy(Method::Auto));
        assert_eq!(report.method, Method::Stop);
        let allowing = BatchPolicy { allow_blocked: true, ..policy(Method::Trap) };
        let mut back: Vec<Window> = windows.iter().map(Window::reversed).collect();
        assert_eq!(applied(&mut back, &allowing).method, Method::Trap);
    });
}

pub fn blocked_signals() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 10);
    let text = bytes_at(page.base, 4096);
    with_blocked(&[libc::SIGTRAP, libc::SIGURG], || {
        let quick = BatchPolicy { patience: 50_000_000, ..policy(Method::Auto) };
        let refusal = refused(&mut windows, &quick);
        assert!(matches!(refusal, Refusal::SignalBlocked { signal: 23, .. }), "{refusal}");
        assert_eq!(bytes_at(page.base, 4096), text);
        install_and_restore(&mut windows, &BatchPolicy { allow_blocked: true, ..quick }, 3);
    });
}

pub static TRAPS: AtomicUsize = AtomicUsize::new(0);

pub extern "C" fn counting_handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    assert_eq!(signal, libc::SIGTRAP);
    assert!(!info.is_null() && !context.is_null());
    TRAPS.fetch_add(1, Ordering::SeqCst);
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: asks for this thread's mask.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
        assert_eq!(libc::sigismember(blocked.as_ptr(), libc::SIGTRAP), 1);
        assert_eq!(libc::sigismember(blocked.as_ptr(), libc::SIGUSR2), 0);
    }
}

pub fn own_traps(expected: usize) {
    let before = TRAPS.load(Ordering::SeqCst);
    // SAFETY: the handler continues.
    unsafe {
        std::arch::asm!("int3");
        std::arch::asm!(".byte 0xcd, 3");
        libc::raise(libc::SIGTRAP);
    }
    assert_eq!(TRAPS.load(Ordering::SeqCst) - before, expected);
}

pub fn applications_handler() {
    handle(libc::SIGTRAP, counting_handler as *const () as usize, libc::SA_SIGINFO);
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 50);
    let fired = windows.clone();
    own_traps(3);
    let before = TRAPS.load(Ordering::SeqCst);
    under_fire(&fired, 2, || {
        for _ in 0..50 {
            install_and_restore(&mut windows, &policy(Method::Trap), 2);
            own_traps(3);
        }
    });
    assert_eq!(TRAPS.load(Ordering::SeqCst) - before, 150, "traps of ours reached the application");
    trap::give_back().unwrap();
    own_traps(3);
}

/// Between two batches all firing threads end: one that met an INT3 and was then descheduled has its signal still to come,
/// and would take it to the handler that the application has just set.
pub fn applications_later_handler() {
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 50);
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        install_and_restore(&mut windows, &policy(Method::Trap), 2);
    });
    // The second time, `sigaction` returns our action as the "old" one, which the application may put back.
    for _ in 0..2 {
        handle(libc::SIGTRAP, counting_handler as *const () as usize, libc::SA_SIGINFO);
        own_traps(3);
        under_fire(&fired, 2, || {
            install_and_restore(&mut windows, &policy(Method::Trap), 20);
            own_traps(3);
        });
    }
}

pub fn default_action() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 10);
    let fired = windows.clone();
    under_fire(&fired, 1, || {
        install_and_restore(&mut windows, &policy(Method::Trap), 1);
    });
    for own in [0, 1] {
        // SAFETY: one thread is left.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: meant to die.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                if own == 0 {
                    std::arch::asm!("int3")
                } else {
                    assert_eq!(libc::raise(libc::SIGTRAP), 0)
                }
                libc::_exit(1);
            }
        }
        let status = wait_for(child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTRAP, "{status:#x}");
    }
}
