//! Patching of code that threads execute, each case in a process of its own.
#![allow(unsafe_code)]

mod code;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use code::{Page, SHAPES, bytes_at, call, function, window};
use transect_text_patch::batch::{BatchPolicy, BatchReport, Method, apply, examine};
use transect_text_patch::form::{CALL, JUMP, NOP5, off_form, transfer};
use transect_text_patch::word::{Pacing, WordPatch, finish_patch, finish_patches, patch, start_patch};
use transect_text_patch::writable::{Access, open_for_toggling};
use transect_text_patch::{CallSite, Refusal, SiteState, Window, fork, trap};

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("batches_under_fire_by_traps", || batches_under_fire(Method::Trap)),
    ("batches_under_fire_by_stopping", || batches_under_fire(Method::Stop)),
    ("signals_at_1_khz_during_batches", signals_during_batches),
    ("a_thread_parked_inside_of_a_window_is_moved", parked_inside),
    ("a_thread_in_a_handler_over_a_window_is_moved", parked_in_handler),
    ("threads_come_and_go_during_batches", threads_come_and_go),
    ("every_back_end_writes_and_restores_sealed_memory", back_ends),
    ("text_of_the_executable_is_patched_and_restored", text_of_the_executable),
    ("w_xor_x_policy", w_xor_x),
    ("refusals_leave_the_text_alone", refusals),
    ("a_thread_that_blocks_sigtrap", blocked_sigtrap),
    ("a_thread_that_blocks_all_signals", blocked_signals),
    ("the_applications_trap_handler_is_served", applications_handler),
    ("an_applications_handler_set_later_is_served", applications_later_handler),
    ("the_default_action_of_an_int3_is_kept", default_action),
    ("a_traced_process_stops_its_threads", traced),
    ("under_gdb_nothing_stops", under_gdb),
    ("a_system_call_filter_without_membarrier", without_membarrier),
    ("the_first_thread_has_ended", first_thread_ended),
    ("a_single_thread_needs_no_int3", single_thread),
    ("fork_with_private_text", fork_private),
    ("fork_with_an_alias", fork_alias),
    ("fork_in_the_middle_of_batches", fork_during_batches),
    ("words_at_every_place_under_fire", words_under_fire),
    ("word_patches_contend_and_overlap", words_contend),
    ("pending_patches_emulate", pending_patches),
    ("toggles_in_a_shared_word", shared_word),
    ("toggles_refuse_foreign_bytes", foreign_toggle),
    ("toggle_in_text_through_an_alias_under_fire", alias_under_fire),
];

fn main() {
    if std::env::var_os("TRANSECT_UNDER_GDB").is_some() {
        return debugged();
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        // SAFETY: this process has one thread, so the child may do anything.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain calls.
            unsafe { libc::alarm(120) };
            case();
            std::process::exit(0);
        }
        let begun = Instant::now();
        let status = wait_for(child);
        let ok = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        println!("test {name} ... {} ({:.2} s)", if ok { "ok" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        if !ok {
            println!("  status {status:#x}");
            failed.push(*name);
        }
    }
    println!("{} failed {failed:?}", failed.len());
    std::process::exit(i32::from(!failed.is_empty()));
}

fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

fn policy(method: Method) -> BatchPolicy {
    BatchPolicy { method, patience: 20_000_000_000, ..BatchPolicy::default() }
}

fn applied(windows: &mut [Window], policy: &BatchPolicy) -> BatchReport {
    // SAFETY: windows over functions made for it.
    unsafe { apply(windows, policy) }.unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refused(windows: &mut [Window], policy: &BatchPolicy) -> Refusal {
    // SAFETY: as above.
    unsafe { apply(windows, policy) }.expect_err("should be refused")
}

/// Functions of all shapes at all places in a line, the last bytes of pages among them.
fn functions(page: &Page, count: u64) -> Vec<Window> {
    (0..count)
        .map(|i| {
            let address = page.base + i * 128 + 64 - i * 5 % 16;
            function(page, i as usize % SHAPES.len(), address, page.base + page.length as u64 / 2 + i * 64)
        })
        .collect()
}

/// Lets threads end, should the test fail as well.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `patching` while threads call all functions; returns how many calls they made.
fn under_fire(windows: &[Window], threads: usize, patching: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    let addresses: Vec<u64> = windows.iter().map(|window| window.address).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut argument = 1u32;
                while !stop.load(Ordering::Relaxed) {
                    for &address in &addresses {
                        assert_eq!(call(address, argument), argument + 1);
                        argument = argument.wrapping_mul(3) & 0xFFFF;
                    }
                    calls.fetch_add(addresses.len() as u64, Ordering::Relaxed);
                }
            });
        }
        let _raise = Raise(&stop);
        patching();
    });
    calls.into_inner()
}

fn install_and_restore(windows: &mut [Window], policy: &BatchPolicy, rounds: usize) -> BatchReport {
    let before: Vec<Vec<u8>> = windows.iter().map(|window| bytes_at(window.address, 19)).collect();
    let mut sum = BatchReport::default();
    windows.sort_by_key(|window| window.address);
    let mut back: Vec<Window> = windows.iter().map(Window::reversed).collect();
    for _ in 0..rounds {
        for report in [applied(windows, policy), applied(&mut back, policy)] {
            assert_eq!((report.written, report.already), (windows.len(), 0));
            sum.moved += report.moved;
            sum.signalled += report.signalled;
            sum.trapped += report.trapped;
            sum.method = report.method;
        }
    }
    let after: Vec<Vec<u8>> = windows.iter().map(|window| bytes_at(window.address, 19)).collect();
    assert!(before.iter().all(|bytes| after.contains(bytes)), "restored bytes differ");
    sum
}

fn batches_under_fire(method: Method) {
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 200);
    let fired = windows.clone();
    let calls = under_fire(&fired, 3, || {
        let rounds = if method == Method::Trap { 150 } else { 40 };
        let sum = install_and_restore(&mut windows, &policy(method), rounds);
        assert_eq!(sum.method, method);
        println!("  moved {}, signalled {}, trapped {}", sum.moved, sum.signalled, sum.trapped);
    });
    assert!(calls > 10_000, "{calls}");
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn busy_handler(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(150) {}
}

fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: a handler of one or three arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

fn signals_during_batches() {
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
fn parked_inside() {
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
            let reader = scope.spawn(|| call(entry, pipe[0] as u32));
            std::thread::sleep(Duration::from_millis(50));
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

static INSIDE: AtomicBool = AtomicBool::new(false);
static LEAVE: AtomicBool = AtomicBool::new(false);

extern "C" fn parking_handler(_: i32) {
    INSIDE.store(true, Ordering::SeqCst);
    while !LEAVE.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// A signal handler of the application has interrupted a window between two of its instructions, and returns there
/// after the batch. On the same stack, on an alternate one, and while it waits in the kernel.
fn parked_in_handler() {
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
            let handler = if waiting { waiting_handler as *const () } else { parking_handler as *const () };
            let flags = libc::SA_RESTART | if alternate { libc::SA_ONSTACK } else { 0 };
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
                std::thread::sleep(Duration::from_millis(20));
                // SAFETY: a live thread.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                while !INSIDE.load(Ordering::SeqCst) {}
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

extern "C" fn waiting_handler(_: i32) {
    INSIDE.store(true, Ordering::SeqCst);
    while !LEAVE.load(Ordering::SeqCst) {
        // SAFETY: plain call.
        unsafe { libc::usleep(100_000) };
    }
}

fn threads_come_and_go() {
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 60);
    let addresses: Vec<u64> = windows.iter().map(|window| window.address).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::scope(|inner| {
                        inner.spawn(|| addresses.iter().for_each(|&address| assert_eq!(call(address, 7), 8)));
                    });
                }
            });
        }
        // libc blocks all signals while it makes a thread: these are the batches that must stop the threads.
        install_and_restore(&mut windows, &policy(Method::Stop), 60);
        stop.store(true, Ordering::Relaxed);
    });
}

fn back_ends() {
    for access in [Access::Auto, Access::PageProtection, Access::ProcMem] {
        let page = Page::new(1 << 20);
        let mut windows = functions(&page, 100);
        page.seal();
        let fired = windows.clone();
        under_fire(&fired, 2, || {
            install_and_restore(&mut windows, &BatchPolicy { access, ..policy(Method::Trap) }, 5);
        });
        // Protections are as they were.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.lines().any(|line| line.contains("rwxp")), "{access:?}: {maps}");
    }
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 100);
    page.seal();
    let refusal = refused(&mut windows, &BatchPolicy { access: Access::Alias, ..policy(Method::Trap) });
    assert!(matches!(refusal, Refusal::NotWritable { .. }), "{refusal}");
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        let alias = open_for_toggling(page.base, page.base + page.length as u64, Access::Alias).unwrap();
        assert_ne!(alias.offset, 0);
        for access in [Access::Alias, Access::Auto] {
            install_and_restore(&mut windows, &BatchPolicy { access, ..policy(Method::Trap) }, 5);
        }
    });
}

std::arch::global_asm!(
    ".pushsection .text.transect_test,\"ax\",@progbits",
    ".balign 64",
    ".skip 61, 0xcc",
    ".type transect_test_sled,@function",
    ".type transect_test_function,@function",
    ".globl transect_test_sled",
    "transect_test_sled:",
    ".byte 0x0f, 0x1f, 0x44, 0, 0",
    "lea eax, [rdi + 1]",
    "ret",
    ".globl transect_test_function",
    "transect_test_function:",
    "mov eax, edi",
    "add eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn transect_test_sled();
    fn transect_test_function();
}

/// Bytes of the executable's file behind an address of its text.
fn file_bytes(address: u64, length: usize) -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let executable = std::fs::read_link("/proc/self/exe").unwrap();
    for line in maps.lines().filter(|line| line.ends_with(executable.to_str().unwrap())) {
        let mut fields = line.split_whitespace();
        let range = fields.next().unwrap();
        let offset = u64::from_str_radix(fields.nth(1).unwrap(), 16).unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        if (start..end).contains(&address) {
            let file = std::fs::read(&executable).unwrap();
            let at = (offset + address - start) as usize;
            return file[at..at + length].to_vec();
        }
    }
    panic!("{address:#x} is not text of the file");
}

fn text_windows(copies: &Page) -> Vec<Window> {
    let function = transect_test_function as *const () as u64;
    let sled = transect_test_sled as *const () as u64;
    let shapes: [(u64, &[&[u8]], u64); 2] =
        [(function, &[&[0x89, 0xF8], &[0x83, 0xC0, 1]], copies.base), (sled, &[&NOP5], copies.base + 64)];
    shapes
        .iter()
        .map(|&(address, instructions, copy)| {
            copies.put(copy, &instructions.concat());
            let back = copy + 5;
            copies.put(back, &transfer(JUMP, back, address + 5).unwrap());
            window(address, instructions, copy)
        })
        .collect()
}

/// A page within reach of the executable.
fn near_text() -> Page {
    let text = transect_test_sled as *const () as u64;
    for i in 1..1000u64 {
        let hint = (text & !0xFFF) - i * (1 << 20);
        // SAFETY: a new mapping, where nothing is.
        let base = unsafe {
            libc::mmap(
                hint as *mut _,
                4096,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if base != libc::MAP_FAILED {
            return Page { base: base as u64, length: 4096 };
        }
    }
    panic!("no memory near the text");
}

fn text_of_the_executable() {
    let copies = near_text();
    let mut windows = text_windows(&copies);
    for access in [Access::Auto, Access::PageProtection, Access::ProcMem] {
        let fired = windows.clone();
        under_fire(&fired, 2, || {
            install_and_restore(&mut windows, &BatchPolicy { access, ..policy(Method::Trap) }, 20);
        });
    }
    for window in &windows {
        assert_eq!(bytes_at(window.address, 8), file_bytes(window.address, 8));
    }
}

fn w_xor_x() {
    let copies = near_text();
    let mut windows = text_windows(&copies);
    copies.seal();
    // PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    // SAFETY: plain call.
    if unsafe { libc::prctl(65, 1, 0, 0, 0) } != 0 {
        println!("  NOT RUN: the kernel has no PR_SET_MDWE");
        return;
    }
    let refusal = refused(&mut windows, &BatchPolicy { access: Access::PageProtection, ..policy(Method::Trap) });
    assert!(matches!(refusal, Refusal::NotWritable { errno: 13, .. }), "{refusal:?}");
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        install_and_restore(&mut windows, &policy(Method::Trap), 20);
    });
    let address = transect_test_sled as *const () as u64;
    let original = file_bytes(address, 8);
    let alias = open_for_toggling(address, address + 5, Access::Auto).unwrap();
    assert_ne!(alias.offset, 0);
    install_and_restore(&mut windows, &policy(Method::Trap), 3);
    assert_eq!(bytes_at(address, 8), original);
}

fn refusals() {
    let page = Page::new(1 << 16);
    let windows = functions(&page, 4);
    let text = bytes_at(page.base, 4096);
    let policy = policy(Method::Trap);
    let with = |change: &dyn Fn(&mut Vec<Window>)| {
        let mut changed = windows.clone();
        change(&mut changed);
        let mut found = Vec::new();
        examine(&mut changed.clone(), &mut |i, refusal| found.push((i, refusal)));
        let refusal = refused(&mut changed, &policy);
        assert_eq!(found.first().map(|(_, refusal)| *refusal), Some(refusal));
        assert_eq!(bytes_at(page.base, 4096), text, "{refusal}");
        assert!(refusal.to_string().contains(':'), "{refusal} should say what to do");
        refusal
    };
    let address = windows[1].address;
    assert!(matches!(with(&|w| w[1].old[1] ^= 1), Refusal::ForeignBytes { address: a, .. } if a == address + 1));
    assert!(matches!(
        with(&|w| {
            let clone = w[1].clone();
            w.push(clone);
        }),
        Refusal::Overlap { .. }
    ));
    assert!(matches!(with(&|w| w[1].length = 4), Refusal::Malformed { .. } | Refusal::TooShort { .. }));
    assert!(matches!(
        with(&|w| {
            w[1].length = 4;
            w[1].starts = 1;
        }),
        Refusal::TooShort { length: 4, .. }
    ));
    assert!(matches!(with(&|w| w[1].starts = 0), Refusal::Malformed { .. }));
    assert!(matches!(with(&|w| w[1].moves[1] = 0), Refusal::Malformed { .. }));
    assert!(matches!(with(&|w| w[1].moves[1] = w[1].address + 2), Refusal::JumpTargetInside { .. }));
    let inside = transfer(JUMP, address, address + 3).unwrap();
    assert!(matches!(with(&|w| w[1].new[..5].copy_from_slice(&inside)), Refusal::JumpTargetInside { .. }));
    assert!(matches!(
        with(&|w| {
            w[1].moves[0] = 0;
            w[1].new[0] = 0x40;
        }),
        Refusal::NotEmulatable { .. }
    ));
    // A debugger's breakpoint.
    page.put(address, &[0xCC]);
    let refusal = refused(&mut windows.clone(), &policy);
    assert!(matches!(refusal, Refusal::ForeignBytes { found: 0xCC, .. }), "{refusal}");
    assert!(refusal.to_string().contains("breakpoint"));
    page.put(address, &[windows[1].old[0]]);
    // Data.
    let data = Box::new([0x0F, 0x1F, 0x44, 0, 0]);
    let mut window = windows[0].clone();
    window.address = data.as_ptr() as u64;
    window.new = windows[0].new;
    assert!(matches!(refused(&mut [window], &policy), Refusal::NotExecutable { .. }));
    let mut window = windows[0].clone();
    window.address = 0x1000;
    assert!(matches!(refused(&mut [window], &policy), Refusal::NotExecutable { .. }));
    // A batch finds its work done already.
    let mut all = windows.clone();
    applied(&mut all[1..2], &policy);
    let report = applied(&mut windows.clone(), &policy);
    assert_eq!((report.written, report.already), (3, 1));
    assert_eq!(call(address, 1), 2);
    assert!(matches!(transfer(CALL, 0x1000, 0x1_0000_0000_0000), Err(Refusal::OutOfReach { .. })));
}

fn with_blocked(signals: &[i32], patching: impl FnOnce()) {
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
        while !ready.load(Ordering::SeqCst) {}
        patching();
        stop.store(true, Ordering::SeqCst);
    });
}

fn blocked_sigtrap() {
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

fn blocked_signals() {
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

static TRAPS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counting_handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
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

fn own_traps(expected: usize) {
    let before = TRAPS.load(Ordering::SeqCst);
    // SAFETY: the handler continues.
    unsafe {
        std::arch::asm!("int3");
        std::arch::asm!(".byte 0xcd, 3");
        libc::raise(libc::SIGTRAP);
    }
    assert_eq!(TRAPS.load(Ordering::SeqCst) - before, expected);
}

fn applications_handler() {
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

fn applications_later_handler() {
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 50);
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        install_and_restore(&mut windows, &policy(Method::Trap), 2);
        handle(libc::SIGTRAP, counting_handler as *const () as usize, libc::SA_SIGINFO);
        own_traps(3);
        install_and_restore(&mut windows, &policy(Method::Trap), 20);
        own_traps(3);
        // And again, by what sigaction returned: ours is then the "old" action that the application may put back.
        handle(libc::SIGTRAP, counting_handler as *const () as usize, libc::SA_SIGINFO);
        install_and_restore(&mut windows, &policy(Method::Trap), 20);
        own_traps(3);
    });
}

fn default_action() {
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

/// Under a debugger, which sees every signal first and passes on all but SIGTRAP.
fn traced() {
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
fn debugged() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 20);
    let fired = windows.clone();
    under_fire(&fired, 2, || {
        let sum = install_and_restore(&mut windows, &policy(Method::Auto), 20);
        assert_eq!(sum.method, Method::Stop);
        assert_eq!(call(transect_test_function as *const () as u64, 1), 2);
        // The breakpoint is a foreign byte, and stays.
        let refusal = refused(&mut text_windows(&near_text()), &policy(Method::Auto));
        assert!(matches!(refusal, Refusal::ForeignBytes { found: 0xCC, .. }), "{refusal}");
        assert_eq!(call(transect_test_function as *const () as u64, 1), 2);
    });
    println!("all done");
}

fn under_gdb() {
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
fn without_membarrier() {
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
fn first_thread_ended() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
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

fn single_thread() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 10);
    let sum = install_and_restore(&mut windows, &policy(Method::Auto), 3);
    assert_eq!((sum.method, sum.signalled, sum.trapped), (Method::Stop, 0, 0));
    // libc's own memcpy is what the patcher must not call now; and what is patched works.
    let sum = install_and_restore(&mut windows, &policy(Method::Trap), 3);
    assert_eq!((sum.method, sum.signalled), (Method::Trap, 0));
}

fn in_child(case: impl FnOnce()) {
    // SAFETY: the child uses what a fork's child may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        case();
        // SAFETY: ends here.
        unsafe { libc::_exit(0) };
    }
    let status = wait_for(child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}

fn toggling_site(page: &Page, alias_offset: u64, guarded: bool) -> CallSite {
    let address = page.base + 61;
    let target = page.base + 1024;
    let on = transfer(CALL, address, target).unwrap();
    let off = off_form(address, on, page.base + 2048).unwrap();
    CallSite::new(address, address.wrapping_add(alias_offset), on, off).unwrap().guarded_against_fork(guarded)
}

fn put_site(page: &Page) {
    let site = toggling_site(page, 0, false);
    page.put(site.address(), &site.off_bytes());
    page.put(site.address() + 5, &[0xC3]);
    page.put(page.base + 1024, &[0x8D, 0x47, 1, 0xC3]);
    page.put(page.base + 2048, &[0xC3]);
    page.put(page.base + 56, &[0x31, 0xC0, 0x90, 0x90, 0x90]); // xor eax, eax; f starts here
}

fn fork_private() {
    let page = Page::new(1 << 16);
    put_site(&page);
    let site = toggling_site(&page, 0, true);
    let entry = page.base + 56;
    in_child(|| {
        // SAFETY: our site.
        unsafe { site.activate_call() }.unwrap();
        assert_eq!(call(entry, 1), 2);
    });
    assert_eq!(call(entry, 1), 0, "the child's toggle reached its parent");
}

fn fork_alias() {
    let page = Page::new(1 << 16);
    put_site(&page);
    page.seal();
    let alias = open_for_toggling(page.base, page.base + 4096, Access::Alias).unwrap();
    let site = toggling_site(&page, alias.offset, true);
    let entry = page.base + 56;
    // SAFETY: our site.
    unsafe {
        site.activate_call().unwrap();
        assert_eq!(call(entry, 1), 2);
        site.deactivate_call().unwrap();
        assert_eq!(call(entry, 1), 0);
        in_child(|| {
            assert!(matches!(site.activate_call(), Err(Refusal::Forked { .. })));
            assert_eq!(site.state(), SiteState::Off);
            fork::after_fork().unwrap();
            site.activate_call().unwrap();
            assert_eq!(call(entry, 1), 2);
            in_child(|| {
                // Grandchildren as well.
                assert!(matches!(site.deactivate_call(), Err(Refusal::Forked { .. })));
                fork::after_fork().unwrap();
                site.deactivate_call().unwrap();
                assert_eq!(call(entry, 1), 0);
            });
            assert_eq!(call(entry, 1), 2);
        });
        assert_eq!(call(entry, 1), 0, "the child's toggle reached its parent");
        site.activate_call().unwrap();
        assert_eq!(call(entry, 1), 2);
    }
}

fn fork_during_batches() {
    let page = Page::new(1 << 20);
    let mut windows = functions(&page, 400);
    let addresses: Vec<u64> = windows.iter().map(|window| window.address).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..300 {
                in_child(|| {
                    fork::after_fork().unwrap();
                    assert!(addresses.iter().all(|&address| call(address, 1) == 2));
                    assert!(addresses.iter().all(|&address| bytes_at(address, 1) != [0xCC]), "INT3 is left");
                });
            }
            stop.store(true, Ordering::SeqCst);
        });
        while !stop.load(Ordering::SeqCst) {
            // fork blocks all signals for a moment, and must not be refused for it.
            install_and_restore(&mut windows, &BatchPolicy { allow_blocked: true, ..policy(Method::Trap) }, 1);
        }
    });
}

fn word_patch(address: u64, old: [u8; 5], new: [u8; 5]) -> WordPatch {
    let widen = |bytes: [u8; 5]| [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], 0, 0, 0];
    WordPatch { address, alias: address, length: 5, old: widen(old), new: widen(new), moved: 0 }
}

/// A call at every place of a line, switched between two targets that add 1.
fn words_under_fire() {
    let page = Page::new(1 << 16);
    let (a, b) = (page.base + 8192, page.base + 8192 + 0x1111);
    page.put(a, &[0x8D, 0x47, 1, 0xC3]);
    page.put(b, &[0x89, 0xF8, 0xFF, 0xC0, 0xC3]);
    let entries: Vec<u64> = (0..16).map(|i| page.base + i * 128 + 52 + i).collect();
    for &entry in &entries {
        page.put(entry, &transfer(CALL, entry, a).unwrap());
        page.put(entry + 5, &[0xC3]);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    entries.iter().for_each(|&entry| assert_eq!(call(entry, 5), 6));
                }
            });
        }
        for i in 0..2000 {
            for &entry in &entries {
                let (old, new) = if i % 2 == 0 { (a, b) } else { (b, a) };
                let one = word_patch(entry, transfer(CALL, entry, old).unwrap(), transfer(CALL, entry, new).unwrap());
                // SAFETY: calls of our own functions.
                assert!(unsafe { patch(&one) }.unwrap());
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn words_contend() {
    let page = Page::new(1 << 16);
    let address = page.base + 62;
    let forms = [1000u64, 2000].map(|at| transfer(JUMP, address, page.base + at).unwrap());
    page.put(address, &forms[0]);
    let one = word_patch(address, forms[0], forms[1]);
    let shifted = WordPatch { address: address + 2, alias: address + 2, ..one };
    // SAFETY: nobody executes these.
    unsafe {
        let mut pending = start_patch(&one, Pacing::Serialize).unwrap().unwrap();
        assert_eq!(bytes_at(address, 1), [0xCC]);
        assert!(!patch(&one).unwrap(), "contention");
        assert!(matches!(
            patch(&shifted),
            Err(Refusal::Overlap { .. } | Refusal::ForeignBytes { .. } | Refusal::NotEmulatable { .. })
        ));
        let inner = WordPatch { moved: address, ..shifted };
        assert!(matches!(patch(&inner), Err(Refusal::Overlap { .. })), "{:?}", patch(&inner));
        let mut windows = [window(address, &[&forms[0]], page.base + 3000)];
        let refusal = refused(&mut windows, &policy(Method::Trap));
        assert!(matches!(refusal, Refusal::ForeignBytes { .. } | Refusal::Contended { .. }), "{refusal}");
        assert!(finish_patch(&mut pending).unwrap());
        assert!(finish_patch(&mut pending).unwrap());
        assert_eq!(bytes_at(address, 5), forms[1]);
        assert!(matches!(patch(&one), Err(Refusal::ForeignBytes { .. })));
        // The waiting protocol comes back later.
        let back = word_patch(address, forms[1], forms[0]);
        let mut pending = start_patch(&back, Pacing::Wait(400_000_000)).unwrap().unwrap();
        assert!(!finish_patch(&mut pending).unwrap());
        while !finish_patch(&mut pending).unwrap() {}
        assert_eq!(bytes_at(address, 5), forms[0]);
        // Many at once.
        let sites: Vec<u64> = (1..20).map(|i| page.base + i * 64 + 62).collect();
        let mut pending: Vec<_> = sites
            .iter()
            .map(|&site| {
                let (old, new) =
                    (transfer(JUMP, site, page.base).unwrap(), transfer(JUMP, site, page.base + 0x909).unwrap());
                page.put(site, &old);
                start_patch(&word_patch(site, old, new), Pacing::Serialize).unwrap().unwrap()
            })
            .collect();
        finish_patches(&mut pending).unwrap();
        sites.iter().for_each(|&site| assert_eq!(bytes_at(site, 5), transfer(JUMP, site, page.base + 0x909).unwrap()));
    }
    // Threads that patch one word to and fro: each change is made by one of them.
    let changes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (changes, one) = (&changes, word_patch(address, forms[thread % 2], forms[1 - thread % 2]));
            scope.spawn(move || {
                let mut own = 0;
                while own < 200 {
                    // SAFETY: nobody executes it.
                    match unsafe { patch(&one) } {
                        Ok(true) => {
                            changes.fetch_add(1, Ordering::SeqCst);
                            own += 1;
                        }
                        Ok(false) | Err(Refusal::ForeignBytes { .. } | Refusal::Contended { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let changes = changes.into_inner();
    assert_eq!(changes, 800);
    assert_eq!(bytes_at(address, 5), forms[0]);
}

/// While INT3 stands, threads that come by are led on.
fn pending_patches() {
    let page = Page::new(1 << 16);
    let entry = page.base + 63;
    let target = page.base + 1000;
    page.put(target, &[0x8D, 0x47, 1, 0xC3]);
    let other = page.base + 0x2345;
    page.put(other, &[0x8D, 0x47, 1, 0xC3]);
    let jump = transfer(JUMP, entry, target).unwrap();
    let call_form = transfer(CALL, entry, other).unwrap();
    page.put(entry + 5, &[0xC3]);
    for (old, new, expected) in
        [(call_form, jump, Some(8)), (jump, call_form, Some(8)), (NOP5, call_form, None), (call_form, NOP5, Some(8))]
    {
        page.put(entry, &old);
        // SAFETY: ours.
        unsafe {
            let mut pending = start_patch(&word_patch(entry, old, new), Pacing::Serialize).unwrap().unwrap();
            assert_eq!(bytes_at(entry, 1), [0xCC]);
            let result = call(entry, 7);
            assert!(expected.is_none_or(|expected| result == expected), "{old:02x?}");
            assert!(finish_patch(&mut pending).unwrap());
            assert_eq!(bytes_at(entry, 5), new);
        }
    }
}

/// Two sites with bytes in one word, switched by two threads: no change is lost.
fn shared_word() {
    let page = Page::new(1 << 16);
    let first = page.base + 64;
    let second = first + 5;
    let make = |address: u64| {
        let on = transfer(CALL, address, page.base + 0x0101_0101 % 60_000).unwrap();
        let off = off_form(address, on, page.base + 2048).unwrap();
        page.put(address, &off);
        CallSite::new(address, address, on, off).unwrap()
    };
    let sites = [make(first), make(second)];
    std::thread::scope(|scope| {
        for site in sites {
            scope.spawn(move || {
                for _ in 0..500_000 {
                    // SAFETY: nobody executes them.
                    unsafe {
                        site.activate_call().unwrap();
                        assert_eq!(site.state(), SiteState::On);
                        site.deactivate_call().unwrap();
                        assert_eq!(site.state(), SiteState::Off);
                    }
                }
            });
        }
    });
}

fn foreign_toggle() {
    let page = Page::new(1 << 16);
    put_site(&page);
    for i in 0..8 {
        let address = page.base + 128 + i;
        let on = transfer(CALL, address, page.base + 0x1234).unwrap();
        let off = off_form(address, on, page.base + 2048).unwrap();
        page.put(address, &off);
        let site = CallSite::new(address, address, on, off).unwrap();
        // SAFETY: nobody executes it.
        unsafe {
            site.activate_call().unwrap();
            site.activate_call().unwrap();
            assert_eq!(bytes_at(address, 5), on);
            site.deactivate_call().unwrap();
            assert_eq!(bytes_at(address, 5), off);
            let at = site.stored().start.max(address);
            let own = bytes_at(at, 1);
            page.put(at, &[0xCC]);
            let refusal = site.activate_call().unwrap_err();
            assert!(matches!(refusal, Refusal::ForeignBytes { found: 0xCC, .. }), "{refusal}");
            assert_eq!(site.state(), SiteState::Foreign);
            assert_eq!(bytes_at(at, 1), [0xCC]);
            page.put(at, &own);
        }
    }
}

/// A compiler's sled in the executable's own text, opened by a copy in shared memory while threads run in it.
fn alias_under_fire() {
    let address = transect_test_sled as *const () as u64;
    let copies = near_text();
    copies.put(copies.base, &[0xC3]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(call(address, 3), 4);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        let alias = open_for_toggling(address, address + 5, Access::Alias).unwrap();
        let on = transfer(CALL, address, copies.base).unwrap();
        let off = off_form(address, on, copies.base).unwrap();
        let mut installing = [window(address, &[&NOP5], copies.base)];
        installing[0].new[..5].copy_from_slice(&off);
        installing[0].moves[0] = 0;
        applied(&mut installing, &policy(Method::Trap));
        let site = CallSite::new(address, alias.of(address), on, off).unwrap();
        for _ in 0..200_000 {
            // SAFETY: our sled.
            unsafe {
                site.activate_call().unwrap();
                site.deactivate_call().unwrap();
            }
        }
        applied(&mut [installing[0].reversed()], &policy(Method::Trap));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(bytes_at(address, 5), NOP5);
}
