//! Toggles.

use super::*;

/// Two sites with bytes in one word, switched by two threads: no change is lost.
pub fn shared_word() {
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

pub fn foreign_toggle() {
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
pub fn alias_under_fire() {
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
