//! Rings that a program may have filled with anything, read as those of an object with regions.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use transect_attach::Reach;
use transect_binary_info::Object;
use transect_event_abi::region_arena::{EVENTS_OFFSET, RING_SIZE, RINGS_OFFSET, THREADS_OFFSET};
use transect_profile_model::RegionMethod;

use super::{Image, ImageKey, Reading};
use crate::clock::Clock;
use crate::feature::assemble::{Facts, assemble};
use crate::feature::choice::Choice;
use crate::feature::reader::Update;
use crate::feature::region_file::RegionFile;
use crate::feature::settings::Overflow;
use crate::fuzzing::pieces;
use crate::probe_session::LoadedObject;

/// Rings that are filled.
const RINGS: usize = 4;
/// No process has a higher number.
const NO_PROCESS: i32 = 1 << 22;
/// The random bytes of the program that the object belongs to; its sites are at 1, 2 and so on.
const PROGRAM: u64 = 1;

/// Reads what the pieces make of the file, to the tables of the profile.
pub fn fuzz(bytes: &[u8], object: Object) {
    let Ok(shared) = RegionFile::create(Overflow::Block) else { return };
    let events = (0..RINGS as u64).map(|ring| (EVENTS_OFFSET + ring * RING_SIZE, 1 << 12));
    let areas: Vec<(u64, u64)> = [(0, 1 << 10), (RINGS_OFFSET, 128 * RINGS as u64), (THREADS_OFFSET, 1 << 12)]
        .into_iter()
        .chain(events)
        .collect();
    let Ok(memory) = std::fs::File::options().write(true).open(shared.path()) else { return };
    pieces(bytes, &areas, |at, piece| _ = memory.write_all_at(piece, at));
    for pid in (0..RINGS).map(|ring| &shared.ring(ring).pid).chain(shared.header().loads.iter().map(|load| &load.pid)) {
        // Not somebody else's, whose objects would be read.
        pid.store(pid.load(Relaxed) | NO_PROCESS, Relaxed);
    }
    let shared = Arc::new(shared);
    let (updates, heard) = channel();
    let mut reading = Reading::new(heard, None, Choice::default(), channel().0, channel().0);
    let (reach, path) = (Reach { low: 0, high: 1 << 20 }, PathBuf::from("/nowhere/fuzz"));
    let loaded = LoadedObject { path, object, bias: 0, code: vec![reach], reach, identity: ((0, 0), 1) };
    let mut image = Image::default();
    if reading.catalog.object(&loaded).is_some() {
        image.sites.extend((0..reading.catalog.sites.len() as u32).map(|number| (u64::from(number) + 1, number)));
        reading.rate_limiter.grow(reading.catalog.parents.len());
        reading.keys.insert(ImageKey::Random(PROGRAM), 0);
        reading.images.push((NO_PROCESS, image, Instant::now()));
    }
    let _ = updates.send(Update::File(shared));
    let collected = reading.run(&AtomicBool::new(true));
    assemble(Facts {
        command: Vec::new(),
        clock: &Clock::start(),
        collected,
        method: RegionMethod::Trace,
        choices: Vec::new(),
        event_ticks: 50.0,
        sites: None,
        stopped: Duration::ZERO,
        beside: None,
        status: None,
        loss: Vec::new(),
    });
}
