//! Batches: under fire, by every back end, over the executable's own text, and what they refuse.

use super::*;

pub fn batches_under_fire(method: Method) {
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

pub fn threads_come_and_go() {
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

pub fn back_ends() {
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

/// Bytes of the executable's file behind an address of its text.
pub fn file_bytes(address: u64, length: usize) -> Vec<u8> {
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

pub fn text_of_the_executable() {
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

pub fn w_xor_x() {
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

pub fn refusals() {
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

pub fn single_thread() {
    let page = Page::new(1 << 16);
    let mut windows = functions(&page, 10);
    let sum = install_and_restore(&mut windows, &policy(Method::Auto), 3);
    assert_eq!((sum.method, sum.signalled, sum.trapped), (Method::Stop, 0, 0));
    // libc's own memcpy is what the patcher must not call now; and what is patched works.
    let sum = install_and_restore(&mut windows, &policy(Method::Trap), 3);
    assert_eq!((sum.method, sum.signalled), (Method::Trap, 0));
}
