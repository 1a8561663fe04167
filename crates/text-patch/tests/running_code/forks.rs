//! Children made by fork.

use super::*;

pub fn in_child(case: impl FnOnce()) {
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

pub fn toggling_site(page: &Page, alias_offset: u64, guarded: bool) -> CallSite {
    let address = page.base + 61;
    let target = page.base + 1024;
    let on = transfer(CALL, address, target).unwrap();
    let off = off_form(address, on, page.base + 2048).unwrap();
    CallSite::new(address, address.wrapping_add(alias_offset), on, off).unwrap().guarded_against_fork(guarded)
}

pub fn put_site(page: &Page) {
    let site = toggling_site(page, 0, false);
    page.put(site.address(), &site.off_bytes());
    page.put(site.address() + 5, &[0xC3]);
    page.put(page.base + 1024, &[0x8D, 0x47, 1, 0xC3]);
    page.put(page.base + 2048, &[0xC3]);
    page.put(page.base + 56, &[0x31, 0xC0, 0x90, 0x90, 0x90]); // xor eax, eax; f starts here
}

pub fn fork_private() {
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

pub fn fork_alias() {
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

pub fn fork_during_batches() {
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
