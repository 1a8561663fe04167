//! Debuggers, system-call filters, processes whose first thread has ended.

use super::*;

/// Under a debugger, which sees every signal first and passes on all but SIGTRAP.
pub fn traced() {
    // SAFETY: one thread as yet.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain calls.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
        }
        let page = Page::new(1 << 16);
        let mut windows = functions(&page, 20);
        let fired = windows.clone();
        under_fire(&fired, 2, || {
            assert!(matches!(refused(&mut windows, &policy(Method::Trap)), Refusal::Traced { .. }));
            let sum = install_and_restore(&mut windows, &policy(Method::Auto), 5);
            assert_eq!(sum.method, Method::Stop);
        });
        std::process::exit(0);
    }
    let mut status = wait_for(child);
    // SAFETY: our child; its threads are traced, too.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, libc::PTRACE_O_TRACECLONE) };
    let mut traps = 0;
    let mut stopped = child;
    loop {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16 != 0;
        traps += usize::from(signal == libc::SIGTRAP && !event);
        let pass = if event || matches!(signal, libc::SIGSTOP | libc::SIGTRAP) { 0 } else { signal };
        // SAFETY: our child.
        unsafe {
            libc::ptrace(libc::PTRACE_CONT, stopped, 0, pass);
            stopped = libc::waitpid(-1, &raw mut status, libc::__WALL);
        }
        if stopped == child && !libc::WIFSTOPPED(status) {
            break;
        }
        while !libc::WIFSTOPPED(status) {
            // SAFETY: a thread has ended; the next one.
            stopped = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
            if stopped == child && !libc::WIFSTOPPED(status) {
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
                return assert_eq!(traps, 0);
            }
        }
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    assert_eq!(traps, 0, "INT3 reached the debugger");
}

/// What runs under gdb: threads, batches, and a breakpoint of gdb's own.
pub fn debugged() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 20);
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        let sum = install_and_restore(&mut windows, &policy(Method::Auto), 20);
        assert_eq!(sum.method, Method::Stop);
        assert_eq!(call(transect_test_function as *const () as u64, 1), 2);
        // The breakpoint is a foreign byte and is left in place.
        let refusal = refused(&mut text_windows(&near_text()), &policy(Method::Auto));
        assert!(matches!(refusal, Refusal::ForeignBytes { found: 0xCC, .. }), "{refusal}");
        assert_eq!(call(transect_test_function as *const () as u64, 1), 2);
    });
    println!("all done");
}

pub fn under_gdb() {
    let gdb = std::process::Command::new("gdb")
        .args([
            "-batch",
            "-nx",
            "-ex",
            "set debuginfod enabled off",
            "-ex",
            "set language c",
            "-ex",
            "break *transect_test_function",
        ])
        .args(["-ex", "run", "-ex", "continue", "-ex", "continue"])
        .arg(std::env::current_exe().unwrap())
        .env("TRANSECT_UNDER_GDB", "1")
        .output();
    let Ok(output) = gdb else {
        println!("  NOT RUN: gdb is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let hits = text.matches("hit Breakpoint 1").count();
    assert!(text.contains("all done") && text.contains("exited normally"), "{text}");
    assert_eq!(hits, 2, "{text}");
    assert!(!text.contains("SIGTRAP") && !text.contains("SIGURG"), "{text}");
}

/// A filter as containers have it: membarrier fails with EPERM.
pub fn without_membarrier() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 20);
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_membarrier as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a filter for this process.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0 {
            println!("  NOT RUN: no system-call filters here");
            return;
        }
    }
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        let refusal = refused(&mut windows, &policy(Method::Trap));
        assert!(matches!(refusal, Refusal::NoSerialization { errno: 1 }), "{refusal}");
        let sum = install_and_restore(&mut windows, &policy(Method::Auto), 10);
        assert_eq!(sum.method, Method::Stop);
    });
}

/// The process' first thread is a zombie, and `/proc/self` knows little of the others.
pub fn first_thread_ended() {
    std::thread::spawn(|| {
        while !std::fs::read_to_string("/proc/self/status").unwrap().contains("State:\tZ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let page = Page::new(1 << 16);
        let mut windows = functions(&page, 20);
        page.seal();
        let fired = windows.clone();
        under_fire(&fired, 2, || {
            for access in [Access::Auto, Access::ProcMem] {
                for method in [Method::Trap, Method::Stop] {
                    install_and_restore(&mut windows, &BatchPolicy { access, ..policy(method) }, 5);
                }
            }
        });
        std::process::exit(0);
    });
    // SAFETY: ends this thread alone.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
