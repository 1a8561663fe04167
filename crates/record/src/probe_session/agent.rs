//! The probe agent in a process: loaded, or found from an earlier controller.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transect_attach::{Arena, AttachError, Image, LoadedImage, Target};
use transect_probe::frame::{Globals, PAGES, Places, SHADOW_PAGE};
use transect_probe::scope::SCOPES_SIZE;

use super::ProbeSession;
use super::leaving::FLOW_ARENA;

/// The agent that an earlier controller has loaded, if it came as far.
fn take_over(target: &Target, arena: Arena, image: &Image, table: u64) -> Result<(Arena, u64), AttachError> {
    let address = arena.header().agent.load(Ordering::Acquire);
    let size = arena.header().agent_size.load(Ordering::Relaxed);
    if address == 0 {
        return load_agent(target, arena, image, table);
    }
    if !image.is_loaded_at(target.memory(), LoadedImage { address, size }) {
        return Err(AttachError::AgentVersion { pid: target.pid() });
    }
    Ok((arena, address))
}

/// Takes over what an earlier controller left in the process, or makes an arena and loads the agent. Gives the arena and
/// the agent's address.
pub(super) fn have_agent(target: &Target, image: &Image, table: u64) -> Result<(Arena, u64), AttachError> {
    let mut tries = BEGINNINGS;
    loop {
        if let Some(arena) = Arena::find(target)? {
            return take_over(target, arena, image, table);
        }
        match Arena::create(target) {
            Ok(arena) => return load_agent(target, arena, image, table),
            // Of several that begin at a time: whoever is quickest next time.
            Err(AttachError::Controlled { .. }) if tries > 0 => tries -= 1,
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_micros(200 + u64::from(std::process::id() % 16) * 300));
    }
}

/// Maps and fills the agent's image and the frames' memory, in several stops: they are the shorter.
fn load_agent(target: &Target, arena: Arena, image: &Image, table: u64) -> Result<(Arena, u64), AttachError> {
    let mappings = target.mappings()?;
    let stack_end = mappings.iter().find(|m| m.path.as_os_str() == "[stack]").map_or(0, |m| m.end);
    let loaded = image.map(target)?;
    target.pause();
    let (scopes, pages) = room_for_frames(target).inspect_err(|_| loaded.unmap(target))?;
    let keys = scopes + SCOPES_SIZE;
    let pool = keys + pages * 8;
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
        scopes,
        layered: mappings.iter().any(|m| m.path.as_os_str() == FLOW_ARENA),
    });
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    target.memory().write(globals, &bytes)?;
    header.agent_size.store(loaded.size, Ordering::Relaxed);
    // Last: it says that the agent is complete.
    header.agent.store(loaded.address, Ordering::Release);
    Ok((arena, loaded.address))
}

/// Memory of the handlers: its address, and for how many stack pages it is.
fn room_for_frames(target: &Target) -> Result<(u64, u64), AttachError> {
    let mut stop = target.stop_one()?;
    let mut pages = PAGES as u64;
    loop {
        match stop.map_private(handler_memory(pages)) {
            Ok(address) => return Ok((address, pages)),
            // Too much for a limit on address space: fewer do for most programs.
            Err(_) if pages > 256 => pages /= 4,
            Err(error) => return Err(error),
        }
    }
}

/// How often an arena is made again when another controller makes one at the same time.
const BEGINNINGS: u32 = 8;
/// Bytes of a page of memory.
const PAGE: u64 = 4096;

/// Bytes of the memory at [`HandlerPlaces::scopes`]: threads' entries, `pages` keys, as many shadow pages, and a page whose
/// first word says that this is no forked child.
pub(super) fn handler_memory(pages: u64) -> u64 {
    (SCOPES_SIZE + pages * (8 + SHADOW_PAGE as u64)).next_multiple_of(PAGE) + PAGE
}

/// Where the handlers of a process keep what they know of its threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandlerPlaces {
    /// Address of the stack pages' numbers.
    pub keys: u64,
    /// Address of the shadow pages.
    pub pool: u64,
    /// Number of stack pages less one.
    pub mask: u64,
    /// Address of the threads' entries.
    pub scopes: u64,
    /// Address of the memory file of region events, 0 if there is none.
    pub regions: u64,
}

impl HandlerPlaces {
    pub(crate) fn read(target: &Target, globals: u64) -> Result<Self, AttachError> {
        let words = read_words(target, globals, size_of::<Globals>() / 8)?;
        let at = |offset: usize| words[offset / 8];
        Ok(Self {
            keys: at(offset_of!(Globals, keys)),
            pool: at(offset_of!(Globals, pool)),
            // A damaged one must not become a wrong length.
            mask: at(offset_of!(Globals, mask)).min(PAGES as u64 - 1),
            scopes: at(offset_of!(Globals, scopes)),
            regions: at(offset_of!(Globals, regions)),
        })
    }

    /// Bytes at `scopes`.
    pub(crate) fn size(&self) -> u64 {
        handler_memory(self.mask + 1)
    }
}

impl ProbeSession {
    /// No longer records children that the process forks from now on.
    ///
    /// # Errors
    /// If the process can't be stopped, or its kernel can't wipe memory at a fork (before Linux 4.14).
    pub fn leave_children_alone(&self) -> Result<(), AttachError> {
        let word = self.places.scopes + self.places.size() - PAGE;
        self.target().stop_one()?.wipe_in_children(word, PAGE)?;
        let memory = self.target().memory();
        memory.write(word, &1u64.to_le_bytes())?;
        memory.write(self.globals + offset_of!(Globals, not_a_child) as u64, &word.to_le_bytes())
    }
}

pub(super) fn read_words(target: &Target, address: u64, count: usize) -> Result<Vec<u64>, AttachError> {
    let mut bytes = vec![0; count * 8];
    target.memory().read(address, &mut bytes)?;
    Ok(bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default())).collect())
}
