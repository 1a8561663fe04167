//! Ways in for the fuzzer (`fuzz/`): what a program or another user can hand to the recorder.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use transect_binary_info::Object;
use transect_event_abi::arena::{EXTENT_PROCESS, EXTENT_SIZE, EXTENT_THREAD};

use crate::api_data::ApiData;
use crate::arena::Arena;
use crate::assemble::Scale;
use crate::clock::Clock;
use crate::harvest::Harvest;
use crate::static_components::StaticComponents;
use crate::{sched, static_components};

pub use crate::feature::fuzz_rings as rings;
pub use crate::probe_session::fuzz_adopt as probes;

/// A map of functions that a just-in-time compiler wrote.
pub fn perf_map(bytes: &[u8]) {
    sched::fuzz_perf_map(bytes);
}

/// A linker's map file.
pub fn link_map(text: &str) {
    static_components::fuzz_link_map(text);
}

/// A file of `--wait-apis`.
pub fn wait_apis(path: &Path) {
    if let Ok(apis) = ApiData::load(&[path.to_owned()]) {
        apis.table();
    }
}

/// A file of `--static-components`, used with an object: the plan that is made, as the agent gets it.
pub fn static_components(path: &Path, object: &Object) -> Option<Vec<u8>> {
    let components = StaticComponents::load(path).ok()?;
    components.ensure(object);
    components.refused(object.path());
    components.unseen();
    let file = std::fs::read_dir(components.folder()).ok()?.flatten().next()?;
    std::fs::read(file.path()).ok()
}

/// Calls `put` for each piece of the bytes: where it goes (of `areas`), how far behind its begin, and what.
pub(crate) fn pieces(mut bytes: &[u8], areas: &[(u64, u64)], mut put: impl FnMut(u64, &[u8])) {
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let (begin, size) = areas[usize::from(head[0]) % areas.len()];
        let place = u64::from(u16::from_le_bytes([head[2], head[3]])) % size;
        let length = usize::from(head[1]).min(rest.len()).min((size - place) as usize);
        let (piece, next) = rest.split_at(length);
        put(begin + place, piece);
        bytes = next;
    }
}

/// What a program wrote into the recording's memory: pieces of a length, an extent, a place in it and bytes.
pub fn arena(mut bytes: &[u8]) {
    let arena = Arena::unused();
    let path = format!("/proc/self/fd/{}", arena.descriptor());
    let Ok(memory) = File::options().write(true).open(path) else { return };
    for (extent, kind) in [(1, EXTENT_PROCESS), (2, EXTENT_THREAD), (3, EXTENT_THREAD), (4, 4)] {
        arena.header().kind[extent].store(kind, std::sync::atomic::Ordering::Relaxed);
    }
    arena.header().next_extent.store(5, std::sync::atomic::Ordering::Relaxed);
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let length = usize::from(u16::from_le_bytes([head[0], head[1]])).min(rest.len()).min(4096);
        let extent = u64::from(head[2] % 5);
        let place = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]])) % EXTENT_SIZE as u64;
        let (piece, next) = rest.split_at(length);
        let length = piece.len().min((EXTENT_SIZE as u64 - place) as usize);
        let _ = memory.write_all_at(&piece[..length], extent * EXTENT_SIZE as u64 + place);
        bytes = next;
    }
    let Ok(apis) = ApiData::load(&[]) else { return };
    let mut harvest = Harvest::new(None);
    harvest.collect(&arena, None);
    let start = sched::empty_profile(&Clock::start(), Vec::new(), 0, None);
    let _ = harvest.profile(&arena, &start, Scale { epoch: 0, rate: 2.1 }, &apis, None);
}
