//! Word patches.

use super::*;

pub fn word_patch(address: u64, old: [u8; 5], new: [u8; 5]) -> WordPatch {
    let widen = |bytes: [u8; 5]| [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], 0, 0, 0];
    WordPatch { address, alias: address, length: 5, old: widen(old), new: widen(new), moved: 0 }
}

/// A call at every place of a line, switched between two targets that add 1.
pub fn words_under_fire() {
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

pub fn words_contend() {
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
        // One step a call: the tail, then the first byte.
        assert!(!finish_patch(&mut pending).unwrap());
        assert_eq!((bytes_at(address, 1), bytes_at(address + 1, 4)), (vec![0xCC], forms[1][1..].to_vec()));
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
                while own < 60 {
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
    assert_eq!(changes, 240);
    assert_eq!(bytes_at(address, 5), forms[0]);
}

/// While INT3 stands, threads that come by are led on.
pub fn pending_patches() {
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
            // Anybody may finish it.
            assert!(!finish_patch_at(entry).unwrap());
            let result = call(entry, 7);
            assert!(expected.is_none_or(|expected| result == expected), "{old:02x?}");
            assert!(finish_patch(&mut pending).unwrap());
            assert!(finish_patch_at(entry).unwrap());
            assert_eq!(bytes_at(entry, 5), new);
        }
    }
}
