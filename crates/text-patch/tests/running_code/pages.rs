//! Prepared pages: patches that ask the kernel nothing, of pages that come and go.

use super::*;
use transect_text_patch::page;

const A: u32 = 0x1111_1111;
const B: u32 = 0x2222_2222;

/// `mov eax, value`.
fn load(value: u32) -> [u8; 8] {
    let v = value.to_le_bytes();
    [0xB8, v[0], v[1], v[2], v[3], 0, 0, 0]
}

/// Puts a function that returns `value` at `address`.
fn put_function(page: &Page, address: u64, value: u32) {
    page.put(address, &load(value)[..5]);
    page.put(address + 5, &[0xC3]);
}

/// Patches the value that such a function returns. Threads that meet it meanwhile go to `copy`.
fn change(address: u64, old: u32, new: u32, copy: u64, access: Access) -> Result<bool, Refusal> {
    page::on_prepared(address, 5, access, |alias| {
        let one = WordPatch { address, alias, length: 5, old: load(old), new: load(new), moved: copy };
        // SAFETY: one instruction of our own functions; the copy does what one of its forms does.
        unsafe { patch(&one) }
    })
}

/// All bytes of the operand change, at every place of a line, while threads check what they get.
pub fn words_at_every_place() {
    let page = Page::new(1 << 16);
    let sites: Vec<u64> = (0..64).map(|i| page.base + 1024 + i * 256 + i).collect();
    sites.iter().for_each(|&site| put_function(&page, site, A));
    let copy = page.base;
    put_function(&page, copy, A);
    let stop = AtomicBool::new(false);
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for &site in &sites {
                        let got = call(site, 0);
                        assert!(got == A || got == B, "{got:#x} at {}", site % 64);
                        seen[usize::from(got == B)].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let _raise = Raise(&stop);
        let both = || seen.iter().all(|count| count.load(Ordering::Relaxed) > 1000);
        let mut round = 0;
        while round < 400 || !both() {
            round += 1;
            for &site in &sites {
                let (old, new) = if round % 2 == 1 { (A, B) } else { (B, A) };
                assert!(change(site, old, new, copy, Access::Auto).unwrap());
                assert_eq!(call(site, 0), new, "{}", site % 64);
            }
        }
    });
}

/// Patches of one instruction that change different halves of it, across a line: never both at once.
pub fn halves_of_a_word() {
    const BASE: u32 = 0x4433_2211;
    let halves = [0x4433_AAAA, 0xBBBB_2211];
    let page = Page::new(1 << 16);
    for offset in [61, 62] {
        let site = page.base + 4096 + offset;
        put_function(&page, site, BASE);
        put_function(&page, page.base, BASE);
        // Half 0 is in the bytes 1 and 2, half 1 in 3 and 4; only at 61 does the line end between them.
        let stop = AtomicBool::new(false);
        let made = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for (i, &half) in halves.iter().enumerate() {
                let (stop, made, copy) = (&stop, &made[i], page.base);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        match change(site, BASE, half, copy, Access::Auto) {
                            Ok(true) => {
                                made.fetch_add(1, Ordering::Relaxed);
                                while !change(site, half, BASE, copy, Access::Auto).unwrap() {}
                            }
                            Ok(false) | Err(Refusal::ForeignBytes { .. } | Refusal::Contended { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
            let _raise = Raise(&stop);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(2)
                || made.iter().any(|count| count.load(Ordering::Relaxed) < 100)
            {
                let got = call(site, 0);
                assert!(got == BASE || halves.contains(&got), "{got:#x}");
            }
        });
    }
}

/// In a process that may make no system call but `exit`; what it ended with.
fn confined(work: impl FnOnce()) -> i32 {
    // SAFETY: this process has one thread; strict seccomp kills at any other call.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            fork::after_fork().unwrap();
            libc::prctl(libc::PR_SET_SECCOMP, 1, 0, 0, 0);
            work();
            libc::syscall(libc::SYS_exit, 0);
        }
        wait_for(child)
    }
}

pub fn no_system_call() {
    let change_often = |site: u64, access| {
        for round in 0..1000 {
            let (old, new) = if round % 2 == 0 { (A, B) } else { (B, A) };
            if change(site, old, new, 0, access) != Ok(true) || call(site, 0) != new {
                std::process::abort();
            }
        }
    };
    for access in [Access::Auto, Access::Alias] {
        let page = Page::new(1 << 14);
        let offsets: &[u64] = if fetches_lines_whole() { &[0, 3, 5, 13, 29, 53, 59] } else { &[0, 3] };
        let sites: Vec<u64> = (1..).zip(offsets).map(|(i, offset)| page.base + i * 256 + offset).collect();
        let across = page.base + 62;
        sites.iter().chain([&across]).for_each(|&site| put_function(&page, site, A));
        page.seal();
        page::prepare(page.base, 5, access).unwrap();
        for &site in &sites {
            let status = confined(|| change_often(site, access));
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{access:?} {site:#x}: {status:#x}");
        }
        // The trial can fail: across lines, the kernel is asked to serialize.
        let status = confined(|| assert_eq!(change(across, A, B, sites[0], access), Ok(true)));
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "{status:#x}");
        // Another place in the same process, from the page that was prepared, is as it was.
        assert_eq!(call(across, 0), A);
    }
}

/// Maps other memory at `base`: `value`'s functions at `sites`, or nothing.
fn replace(base: u64, length: usize, protection: i32, sites: &[u64], value: Option<u32>) {
    // SAFETY: memory of the test's own.
    unsafe {
        assert_eq!(libc::munmap(base as *mut _, length), 0);
        let Some(value) = value else { return };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let mapped = libc::mmap(base as *mut _, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_eq!(mapped as u64, base);
        let page = std::mem::ManuallyDrop::new(Page { base, length });
        sites.iter().for_each(|&site| put_function(&page, site, value));
        assert_eq!(libc::mprotect(base as *mut _, length, protection), 0);
    }
}

/// A prepared page is unmapped, protected, replaced by another, with the bytes that are expected or with others: each
/// patch changes what threads execute, or is refused.
pub fn pages_come_and_go() {
    const RX: i32 = libc::PROT_READ | libc::PROT_EXEC;
    const RWX: i32 = RX | libc::PROT_WRITE;
    let length = 1 << 13;
    let copies = Page::new(4096);
    put_function(&copies, copies.base, A);
    for access in [Access::Auto, Access::Alias] {
        let page = std::mem::ManuallyDrop::new(Page::new(length));
        // In a word, in a line, across lines, across pages.
        let sites: Vec<u64> = [256, 512 + 13, 768 + 61, 4096 - 2].iter().map(|offset| page.base + offset).collect();
        sites.iter().for_each(|&site| put_function(&page, site, A));
        let to = |site, old, new| change(site, old, new, copies.base, access);
        for &site in &sites {
            assert_eq!(to(site, A, B), Ok(true));
            assert_eq!(call(site, 0), B);
            assert_eq!(to(site, B, A), Ok(true));
        }
        for &site in &sites {
            let fresh = |protection, value| replace(page.base, length, protection, &sites, value);
            fresh(RX, None);
            assert_eq!(to(site, A, B), Err(Refusal::NotExecutable { address: site & !4095 }), "{access:?}");
            fresh_after_gap(page.base, length, RX, &sites, A);
            assert_eq!(to(site, A, B), Ok(true), "{access:?} {}", site % 4096);
            assert_eq!(call(site, 0), B, "the text itself has changed");
            // The same library again, at the same place, as the file has it.
            fresh(RX, Some(A));
            assert_eq!(to(site, A, B), Ok(true), "{access:?} {}", site % 4096);
            assert_eq!(call(site, 0), B);
            // Another one.
            fresh(RX, Some(0x0101_0101));
            assert!(matches!(to(site, A, B), Err(Refusal::ForeignBytes { .. })), "{access:?}");
            assert_eq!(call(site, 0), 0x0101_0101);
            fresh(RWX, Some(A));
            assert_eq!(to(site, A, B), Ok(true));
            assert_eq!(call(site, 0), B);
            // SAFETY: the pages of the test.
            assert_eq!(unsafe { libc::mprotect(page.base as *mut _, length, RX) }, 0);
            assert_eq!(to(site, B, A), Ok(true));
            assert_eq!(call(site, 0), A);
        }
    }
}

fn fresh_after_gap(base: u64, length: usize, protection: i32, sites: &[u64], value: u32) {
    // Nothing is mapped there: `replace` unmaps nothing.
    replace(base, length, protection, sites, Some(value));
}

static FAULTS: AtomicU64 = AtomicU64::new(0);

extern "C" fn own_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    FAULTS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel's; the page is the test's, and gets what the access wants.
    unsafe {
        let page = (*info).si_addr() as usize & !4095;
        libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// Faults of the program's own go to its handler, or end it as they would have.
pub fn faults_of_the_program() {
    let page = Page::new(4096);
    put_function(&page, page.base, A);
    // SAFETY: memory of the test's own; a child that dies.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            page::prepare(page.base, 5, Access::Auto).unwrap();
            std::ptr::read_volatile(16 as *const u8);
        }
        let status = wait_for(child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
        let child = libc::fork();
        if child == 0 {
            handle(libc::SIGSEGV, libc::SIG_DFL, 0);
            page::prepare(page.base, 5, Access::Auto).unwrap();
            libc::raise(libc::SIGSEGV);
        }
        let status = wait_for(child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
        handle(libc::SIGSEGV, own_fault as *const () as usize, libc::SA_SIGINFO);
        page::prepare(page.base, 5, Access::Auto).unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let data = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0).cast::<u64>();
        data.write_volatile(7);
        assert_eq!((FAULTS.load(Ordering::SeqCst), data.read_volatile()), (1, 7));
        // Ours are still ours.
        libc::munmap(page.base as *mut _, 4096);
        assert_eq!(change(page.base, A, B, 0, Access::Auto), Err(Refusal::NotExecutable { address: page.base }));
        assert_eq!(FAULTS.load(Ordering::SeqCst), 1);
    }
}

/// An alias is shared with children: they are refused until they have their own, and then leave the parent's code alone.
pub fn words_of_forked_children() {
    let page = Page::new(1 << 13);
    let sites = [page.base + 256, page.base + 512 + 13, page.base + 768 + 61];
    sites.iter().for_each(|&site| put_function(&page, site, A));
    page.seal();
    let copies = Page::new(4096);
    put_function(&copies, copies.base, A);
    page::prepare(sites[0], 5, Access::Alias).unwrap();
    let to = |site, old, new| change(site, old, new, copies.base, Access::Alias);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for site in sites {
            assert_eq!(to(site, A, B), Err(Refusal::Forked { address: site }));
            assert_eq!(call(site, 0), A);
        }
        fork::after_fork().unwrap();
        for site in sites {
            assert_eq!(to(site, A, B), Ok(true));
            assert_eq!(call(site, 0), B);
        }
        std::process::exit(0);
    }
    assert_eq!(wait_for(child), 0);
    for site in sites {
        assert_eq!(call(site, 0), A, "the parent's code");
        assert_eq!(to(site, A, B), Ok(true));
        assert_eq!(call(site, 0), B);
    }
}
