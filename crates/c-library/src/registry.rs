//! The sites of this process by dense id, and the library's state behind one lock.
//!
//! What signal handlers and probes need is in the slots ([`crate::Slot`]), which are atomic. Everything else is in
//! [`Library`]. A thread that holds its lock calls no handler of the user's: probes in libc that the library itself
//! runs into must not lead to code that waits for this very lock.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use transect_event_abi::probe_arena::SITE_CAPACITY;
use transect_text_patch::batch::{BatchPolicy, Method};

use crate::arch::HandlersOff;
use crate::arena;
use crate::code_region::Regions;
use crate::discovery::Watch;
use crate::error::Error;
use crate::instrument_functions::Hooks;
use crate::site_info::{ObjectInfo, SiteInfo};
use crate::slot::{Slot, state};

/// Sites given out.
static SITE_COUNT: AtomicU32 = AtomicU32::new(0);

/// State behind the lock.
pub struct Library {
    /// Set by `init`.
    pub initialized: bool,
    /// How batches are applied.
    pub policy: BatchPolicy,
    /// Trampolines.
    pub regions: Regions,
    /// Ids by address; sites of unloaded objects are taken out.
    pub by_address: BTreeMap<u64, u32>,
    /// Ids of sites whose object was unloaded, by address: an object that returns to its place gets them back.
    pub gone: BTreeMap<u64, Vec<u32>>,
    /// Objects with sites.
    pub objects: Vec<&'static ObjectInfo>,
    /// Who wants sites of objects loaded later.
    pub watches: Vec<Watch>,
    /// Probes of the library's own: (address, id).
    pub reserved: Vec<(u64, u32)>,
    /// Objects whose unwinders were looked at: (program headers, bias).
    pub guarded: Vec<(u64, u64)>,
    /// Code opened for toggling in place: its range, and where it is written, if it can be.
    pub opened: Vec<(u64, u64, Option<transect_text_patch::writable::Alias>)>,
    /// Calls of the compiler's hooks.
    pub hooks: Hooks,
    /// The loader's probe stands.
    pub loader_watched: bool,
    /// Reserved ids given out, from the end of the capacity.
    pub reserved_count: u32,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library {
    initialized: false,
    policy: BatchPolicy {
        access: transect_text_patch::writable::Access::Auto,
        method: Method::Auto,
        allow_blocked: false,
        signal: libc::SIGURG as u8,
        patience: 1_000_000_000,
    },
    regions: Regions::new(),
    by_address: BTreeMap::new(),
    gone: BTreeMap::new(),
    objects: Vec::new(),
    watches: Vec::new(),
    reserved: Vec::new(),
    guarded: Vec::new(),
    opened: Vec::new(),
    hooks: Hooks::new(),
    loader_watched: false,
    reserved_count: 0,
});

/// The lock, held.
pub struct Locked {
    library: MutexGuard<'static, Library>,
    _off: HandlersOff,
}

impl Deref for Locked {
    type Target = Library;
    fn deref(&self) -> &Library {
        &self.library
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Library {
        &mut self.library
    }
}

/// Takes the lock.
pub fn lock() -> Locked {
    let off = HandlersOff::new();
    Locked { library: LIBRARY.lock().unwrap_or_else(PoisonError::into_inner), _off: off }
}

/// Takes the lock if it is free.
pub fn try_lock() -> Option<Locked> {
    let off = HandlersOff::new();
    match LIBRARY.try_lock() {
        Ok(library) => Some(Locked { library, _off: off }),
        Err(TryLockError::Poisoned(poisoned)) => Some(Locked { library: poisoned.into_inner(), _off: off }),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes the lock of an initialized library.
///
/// # Errors
/// [`Error::NotInitialized`].
pub fn lock_initialized() -> Result<Locked, Error> {
    let library = lock();
    if library.initialized { Ok(library) } else { Err(Error::NotInitialized) }
}

/// Ids given out so far.
#[inline]
pub fn site_count() -> u32 {
    SITE_COUNT.load(Ordering::Acquire)
}

/// The slot of an id that was given out.
#[inline]
pub fn slot(id: u32) -> Option<&'static Slot> {
    if id < site_count() { arena::slot(id) } else { None }
}

/// Slot and metadata of an id.
///
/// # Errors
/// [`Error::NoSite`].
pub fn site(id: u32) -> Result<(&'static Slot, &'static SiteInfo), Error> {
    let slot = slot(id).ok_or(Error::NoSite(id))?;
    Ok((slot, slot.info().ok_or(Error::NoSite(id))?))
}

impl Library {
    /// Gives a site its id, or finds the one that it has.
    ///
    /// # Errors
    /// [`Error::Memory`] if all ids are given out.
    pub fn add(&mut self, address: u64, info: impl FnOnce() -> SiteInfo) -> Result<u32, Error> {
        if let Some(&id) = self.by_address.get(&address) {
            return Ok(id);
        }
        let info = info();
        if let Some(id) = self.revive(address, &info) {
            return Ok(id);
        }
        let id = site_count();
        let place = (id as usize + (self.reserved_count as usize) < SITE_CAPACITY).then(|| arena::slot(id)).flatten();
        let Some(slot) = place else {
            return Err(Error::Memory { what: "probe ids", detail: format!("{SITE_CAPACITY} are given out") });
        };
        slot.state.store(state::FOUND, Ordering::Relaxed);
        slot.info.store(Box::leak(Box::new(info)), Ordering::Release);
        self.by_address.insert(address, id);
        SITE_COUNT.store(id + 1, Ordering::Release);
        Ok(id)
    }

    fn revive(&mut self, address: u64, info: &SiteInfo) -> Option<u32> {
        let ids = self.gone.get_mut(&address)?;
        let same = |&id: &u32| {
            arena::slot(id)
                .and_then(Slot::info)
                .is_some_and(|old| old.object.path == info.object.path && old.site == info.site)
        };
        let id = ids.swap_remove(ids.iter().position(same)?);
        arena::slot(id)?.state.store(state::FOUND, Ordering::Release);
        self.by_address.insert(address, id);
        Some(id)
    }

    /// An id of the library's own that no site has.
    pub fn reserve_id(&mut self) -> Option<u32> {
        let id = (SITE_CAPACITY as u32) - 1 - self.reserved_count;
        (id > site_count()).then(|| {
            self.reserved_count += 1;
            id
        })
    }

    /// An id of the library's own, from the end of the capacity: users don't see it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn add_reserved(&mut self, info: SiteInfo) -> Result<u32, Error> {
        if let Some(&(_, id)) = self.reserved.iter().find(|&&(address, _)| address == info.address) {
            return Ok(id);
        }
        let Some((id, slot)) = self.reserve_id().and_then(|id| Some((id, arena::slot(id)?))) else {
            return Err(Error::Memory { what: "probe ids", detail: format!("{SITE_CAPACITY} are given out") });
        };
        self.reserved.push((info.address, id));
        slot.state.store(state::FOUND, Ordering::Relaxed);
        slot.info.store(Box::leak(Box::new(info)), Ordering::Release);
        Ok(id)
    }
}
