//! The probe agent in a process: loaded, or found from an earlier controller.

use std::sync::atomic::Ordering;

use transect_attach::{Arena, AttachError, Image, LoadedImage, Stop, Target};
use transect_probe::frame::{Globals, PAGES, Places, SHADOW_PAGE};

/// The agent that an earlier controller has loaded, if it came as far.
pub(super) fn take_over(target: &Target, arena: Arena, image: &Image, table: u64) -> Result<(Arena, u64), AttachError> {
    let address = arena.header().agent.load(Ordering::Acquire);
    let size = arena.header().agent_size.load(Ordering::Relaxed);
    if address == 0 {
        let stop = target.stop_one()?;
        return load_agent(target, stop, arena, image, table);
    }
    if !image.is_loaded_at(target.memory(), LoadedImage { address, size }) {
        return Err(AttachError::AgentVersion { pid: target.pid() });
    }
    Ok((arena, address))
}

/// Maps and fills the agent's image and the frames' memory.
pub(super) fn load_agent(
    target: &Target,
    mut stop: Stop<'_>,
    arena: Arena,
    image: &Image,
    table: u64,
) -> Result<(Arena, u64), AttachError> {
    let mappings = target.mappings()?;
    let stack_end = mappings.iter().find(|m| m.path.as_os_str() == "[stack]").map_or(0, |m| m.end);
    let loaded = image.map(&mut stop)?;
    let mut pages = PAGES as u64;
    let (keys, pool) = loop {
        let keys = pages * 8;
        match stop.map_private(keys + pages * SHADOW_PAGE as u64) {
            Ok(address) => break (address, address + keys),
            // Too much for a limit on address space: fewer do for most programs.
            Err(_) if pages > 256 => pages /= 4,
            Err(error) => return Err(error),
        }
    };
    drop(stop);
    image.fill(target.memory(), loaded)?;
    let header = arena.header();
    let globals = target.memory().read_u64(loaded.address + table)?;
    let writable = header.writable.load(Ordering::Relaxed);
    let words = Globals::image(&Places {
        header: writable,
        keys,
        pool,
        pages,
        stack_end,
        layered: mappings.iter().any(|m| m.path.as_os_str() == "/memfd:transect-arena"),
    });
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    target.memory().write(globals, &bytes)?;
    header.agent_size.store(loaded.size, Ordering::Relaxed);
    // Last: it says that the agent is complete.
    header.agent.store(loaded.address, Ordering::Release);
    Ok((arena, loaded.address))
}

pub(super) fn read_words(target: &Target, address: u64, count: usize) -> Result<Vec<u64>, AttachError> {
    let mut bytes = vec![0; count * 8];
    target.memory().read(address, &mut bytes)?;
    Ok(bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default())).collect())
}
