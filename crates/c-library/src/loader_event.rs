//! The loader's events. It calls an empty function (`_dl_debug_state`, for debuggers) before and after it changes the
//! list of objects; a probe there tells us, in the loading thread, before new objects' constructors run, and before
//! objects that are being closed lose their memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use transect_probe::descriptor::Registers;

use crate::arena;
use crate::discovery;
use crate::loaded_object::{self, LoadedObject};
use crate::own_probes;
use crate::registry::{self, Library};
use crate::slot::state;
use crate::toggle::{self, gate};

/// The loader's `struct r_debug`.
#[repr(C)]
struct Rendezvous {
    version: i32,
    map: u64,
    event: u64,
    state: i32,
    base: u64,
}

/// The list is being cut.
const DELETE: i32 = 2;
/// The list is complete.
const CONSISTENT: i32 = 0;

static RENDEZVOUS: AtomicU64 = AtomicU64::new(0);
/// Objects known at the last event: (program headers, bias).
static KNOWN: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Address of the loader's event function, 0 in a static program.
pub fn event_function() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader's structure and its array; the first entry is the program.
        unsafe {
            let info = &*info;
            for header in std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) {
                if header.p_type == libc::PT_DYNAMIC {
                    let mut entry = info.dlpi_addr.wrapping_add(header.p_vaddr) as *const [u64; 2];
                    while (*entry)[0] != 0 {
                        // DT_DEBUG
                        if (*entry)[0] == 21 {
                            data.cast::<u64>().write((*entry)[1]);
                        }
                        entry = entry.add(1);
                    }
                }
            }
        }
        1
    }
    let mut rendezvous = 0_u64;
    // SAFETY: the callback matches and stops at the first entry.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut rendezvous).cast()) };
    if rendezvous == 0 {
        return 0;
    }
    RENDEZVOUS.store(rendezvous, Ordering::Release);
    // SAFETY: the loader has stored the address of its structure, which lives as long as the process.
    unsafe { (*(rendezvous as *const Rendezvous)).event }
}

fn keys(objects: &[LoadedObject]) -> Vec<(u64, u64)> {
    objects.iter().map(|object| (object.headers, object.bias)).collect()
}

/// Notes what is loaded when the probe is put in place.
pub fn remember(objects: &[LoadedObject]) {
    if let Ok(mut known) = KNOWN.lock() {
        *known = keys(objects);
    }
}

/// The handler. It runs under the loader's lock; the library's lock may be held by a thread that waits for the loader,
/// so it is never waited for without end.
pub extern "C" fn handle(_id: u32, _registers: &Registers, _vectors: u64, _cookie: u64) -> u64 {
    let rendezvous = RENDEZVOUS.load(Ordering::Acquire) as *const Rendezvous;
    if rendezvous.is_null() {
        return 0;
    }
    // SAFETY: the loader's structure; its thread is ours.
    match unsafe { std::ptr::read_volatile(&raw const (*rendezvous).state) } {
        // Toggles in text keep out from here on, and batches as soon as they are through.
        DELETE => {
            gate::close();
            drop(patient_lock());
        }
        CONSISTENT => {
            if let Some(mut library) = patient_lock() {
                let objects = loaded_object::all();
                objects_changed(&mut library, &objects);
                gate::open();
                toggle::fulfil(0..registry::site_count());
            } else {
                gate::open();
            }
        }
        _ => {}
    }
    0
}

fn patient_lock() -> Option<registry::Locked> {
    for round in 0..2000 {
        if let Some(library) = registry::try_lock() {
            return Some(library);
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: if round < 20 { 1_000 } else { 500_000 } };
        // SAFETY: a valid structure; no remainder is asked for.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    None
}

/// Forgets what was unloaded, and looks for wanted sites in what is new.
pub fn objects_changed(library: &mut Library, objects: &[LoadedObject]) {
    let Ok(mut known) = KNOWN.lock() else { return };
    let now = keys(objects);
    if *known == now {
        return;
    }
    let before = std::mem::replace(&mut *known, now.clone());
    drop(known);
    let gone: Vec<_> = before.iter().filter(|key| !now.contains(key)).copied().collect();
    if !gone.is_empty() {
        forget(library, &gone);
    }
    let new: Vec<LoadedObject> =
        objects.iter().filter(|object| !before.contains(&(object.headers, object.bias))).cloned().collect();
    if !new.is_empty() {
        if library.by_address.is_empty() && library.watches.is_empty() {
            return;
        }
        own_probes::stand_by(library, &new);
        discovery::discover_new(library, objects, &new);
    }
}

fn forget(library: &mut Library, gone: &[(u64, u64)]) {
    let is_gone = |id: &u32| {
        arena::slot(*id)
            .and_then(|slot| slot.info())
            .is_some_and(|info| gone.contains(&(info.object.loaded.headers, info.object.loaded.bias)))
    };
    let sites: Vec<(u64, u32)> =
        library.by_address.iter().filter(|(_, id)| is_gone(id)).map(|(&address, &id)| (address, id)).collect();
    for (address, id) in sites {
        if let Some(slot) = arena::slot(id) {
            slot.state.store(state::GONE, Ordering::Release);
            // What still goes through the trampoline finds the probe off.
            toggle::quiet(slot);
        }
        library.by_address.remove(&address);
        library.gone.entry(address).or_default().push(id);
    }
    library.reserved.retain(|(_, id)| !is_gone(id));
    library.hooks.forget(gone);
    library.guarded.retain(|key| !gone.contains(key));
    let ranges: Vec<(u64, u64)> = library
        .objects
        .iter()
        .filter(|object| gone.contains(&(object.loaded.headers, object.loaded.bias)))
        .map(|object| (object.loaded.start, object.loaded.end))
        .collect();
    library.opened.retain(|(start, _, _)| !ranges.iter().any(|(from, to)| from <= start && start < to));
    library.objects.retain(|object| !gone.contains(&(object.loaded.headers, object.loaded.bias)));
}
