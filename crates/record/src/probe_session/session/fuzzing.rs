//! Probes that an earlier controller seems to have left in a process: an arena and a text that hold anything.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{MemfdFlags, memfd_create};
use transect_attach::{Arena, Image, Reach, Target};
use transect_binary_info::Object;
use transect_event_abi::probe_arena::{
    CODE_OFFSET, HISTOGRAM_SIZE, HISTOGRAMS_OFFSET, PROBE_FILE_SIZE, SHARDS_OFFSET, SITES_OFFSET,
};

use super::{KnownMappings, LoadedObject, Plans, ProbeSession};
use crate::fuzzing::pieces;
use crate::probe_session::HandlerPlaces;
use crate::probe_session::shadow_frames::put_all_back;

/// Bytes of text and of code regions.
const CODE: u64 = 1 << 12;
/// Addresses below are distances from the text.
const NEAR: u64 = 1 << 24;
/// Sites that are looked at.
const SITES: u32 = 8;

/// Takes over what the pieces make of the arena and of the text at `text` in process `pid`, whose object is `object`.
pub fn fuzz(bytes: &[u8], pid: i32, text: u64, object: Object) {
    let Ok(file) = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map(File::from) else {
        return;
    };
    let open = || File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (Ok(target), Ok(shared)) = (Target::open(pid), open()) else { return };
    if file.set_len(PROBE_FILE_SIZE).is_err() {
        return;
    }
    let sites = u64::from(SITES);
    let of_file = [
        (0, 1 << 11),
        (SITES_OFFSET, sites * 128),
        (SHARDS_OFFSET, sites * 32),
        (HISTOGRAMS_OFFSET, sites * HISTOGRAM_SIZE),
    ];
    // The text lies behind the file's end.
    let areas: Vec<_> = of_file.into_iter().chain([(CODE_OFFSET, CODE), (PROBE_FILE_SIZE, CODE)]).collect();
    pieces(bytes, &areas, |at, piece| match at.checked_sub(PROBE_FILE_SIZE) {
        Some(behind) => _ = target.memory().write(text + behind, piece),
        None => _ = file.write_all_at(piece, at),
    });
    let Ok(arena) = Arena::over(pid, shared) else { return };
    let count = &arena.header().site_count;
    count.store(count.load(Relaxed).min(SITES), Relaxed);
    let reach = Reach { low: text, high: text + CODE };
    let bias = object.code_ranges().first().map_or(text, |range| text.wrapping_sub(range.start & !0xfff));
    // Small numbers are meant from the text on, wherever that is by now.
    let from_text = |word: &AtomicU64| _ = word.fetch_add(if word.load(Relaxed) < NEAR { text } else { 0 }, Relaxed);
    let regions = arena.header().regions.iter();
    regions.for_each(|region| from_text(&region.address));
    for site in (0..SITES as usize).map(|id| arena.site(id)) {
        [&site.address, &site.trampoline].into_iter().for_each(from_text);
        let _ = site.bias.compare_exchange(0, bias, Relaxed, Relaxed);
    }
    let path = PathBuf::from("/nowhere/fuzz");
    let mut session = ProbeSession {
        target,
        arena,
        image: Image::empty(),
        writable: 0,
        restore_handler: 0,
        loader_handler: 0,
        left_alone: Default::default(),
        handlers: vec![0; 64],
        objects: vec![LoadedObject { path, object, bias, code: vec![reach], reach, identity: ((0, 0), 1) }],
        unreadable: Vec::new(),
        known: KnownMappings::new(),
        places: HandlerPlaces { keys: 0, pool: 0, mask: 0, scopes: 0, regions: 0 },
        globals: 0,
        no_clock: false,
        plans: Plans::default(),
        sites: Vec::new(),
        placed: HashMap::new(),
    };
    if session.adopt().is_ok() {
        for id in session.saved().into_keys() {
            session.keep(id);
            session.restoring(id);
        }
        for id in 0..session.sites.len() as u32 {
            session.is_service(id);
            session.counts(id);
            session.block_address(id);
        }
        session.take_disarmed(|_| {});
        // What handlers keep beside the arena stands behind the text's first half.
        if let Ok(places) = HandlerPlaces::read(&session.target, text + CODE / 2) {
            let code = text..text + CODE;
            put_all_back(session.target.memory(), &places, std::slice::from_ref(&code));
        }
        session.arena().regions();
        session.forget(0);
    }
}
