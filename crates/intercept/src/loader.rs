//! The loader's events: new objects are hooked before their constructors run, unloaded ones forgotten.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::process::{OBJECT_APART, OBJECT_EXECUTABLE, OBJECT_HOOKED, OBJECT_NO_PLAN, OBJECT_SYNTHETIC};

use crate::arch::{self, syscall as sys};
use crate::elf::{Image, LinkMap, Rendezvous, Segment, bytes_until_zero};
use crate::{hook, object, plan, static_component, taken};

static RENDEZVOUS: AtomicU64 = AtomicU64::new(0);
/// Set while an event is handled, so that our own doings don't recurse.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// States of the loader's list (link.h): whole, and with objects about to be unmapped.
const CONSISTENT: i32 = 0;
const DELETING: i32 = 2;

/// Notes where the loader keeps its list.
pub fn know(rendezvous: *const Rendezvous) {
    RENDEZVOUS.store(rendezvous as u64, Ordering::Release);
}

/// The loader's list.
pub fn maps() -> impl Iterator<Item = *const LinkMap> {
    let r = RENDEZVOUS.load(Ordering::Acquire) as *const Rendezvous;
    // SAFETY: the list is stable under the loader's lock, which its events hold; at start there is one thread.
    maps_from(if r.is_null() { core::ptr::null() } else { unsafe { (*r).map } })
}

/// The lists of other namespaces (`dlmopen`), as far as the loader tells of them.
fn maps_apart() -> impl Iterator<Item = *const LinkMap> {
    let mut r = RENDEZVOUS.load(Ordering::Acquire) as *const Rendezvous;
    // SAFETY: as in `maps`; an older structure ends before `next`, which is read from version 2 on only.
    let namespaces = core::iter::from_fn(move || unsafe {
        if r.is_null() || (*r).version < 2 {
            return None;
        }
        r = (*r).next;
        (!r.is_null()).then(|| (*r).map)
    });
    namespaces.flat_map(maps_from)
}

/// The loader's list from an entry on.
fn maps_from(mut at: *const LinkMap) -> impl Iterator<Item = *const LinkMap> {
    core::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        let this = at;
        // SAFETY: as above.
        at = unsafe { (*this).next };
        Some(this)
    })
}

static EXECUTABLE_HEADERS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The executable's program headers, which for a fixed-position one can't be found from its load bias.
fn executable_headers() -> Option<&'static [Segment]> {
    let (at, n) = (EXECUTABLE_HEADERS[0].load(Ordering::Relaxed), EXECUTABLE_HEADERS[1].load(Ordering::Relaxed));
    // SAFETY: noted at start from the kernel's auxiliary vector.
    (at != 0).then(|| unsafe { core::slice::from_raw_parts(at as *const Segment, n as usize) })
}

/// Headers for an object that has none at its load bias: a fixed-position executable.
pub fn headers_of(base: u64) -> Option<&'static [Segment]> {
    if base == 0 { executable_headers() } else { None }
}

/// The executable.
pub fn executable() -> Option<Image> {
    // SAFETY: the first entry of the loader's list.
    maps().next().and_then(|m| unsafe { Image::read(m, executable_headers()) })
}

/// First definition of a function in the loader's list, the executable included: its address, if the symbol is plain
/// (an IFUNC's address is its resolver's business).
pub fn definition(name: &[u8]) -> Option<u64> {
    maps().enumerate().find_map(|(i, m)| {
        // SAFETY: entries of the loader's list, under its lock or at start.
        let image = unsafe { Image::read(m, if i == 0 { executable_headers() } else { None }) }?;
        let s = image.lookup(name)?;
        (s.kind() == crate::elf::FUNC).then(|| image.base + s.value())
    })
}

/// Objects that need no more work. Those of other namespaces have a libc of their own, whose forks and threads the agent would not
/// know of.
const DONE: u32 = OBJECT_HOOKED | OBJECT_SYNTHETIC | OBJECT_APART;

/// Registers and hooks every object that is new in the loader's list. `executable` is the path and headers of the
/// executable at the first call.
///
/// # Safety
/// At start before other threads, or in the loader's event.
pub unsafe fn scan(executable: Option<(&[u8], &'static [Segment])>) {
    if let Some((_, headers)) = executable {
        EXECUTABLE_HEADERS[1].store(headers.len() as u64, Ordering::Relaxed);
        EXECUTABLE_HEADERS[0].store(headers.as_ptr() as u64, Ordering::Relaxed);
    }
    // SAFETY: see above.
    unsafe {
        // Three passes: first all objects become known, and their static components, so that targets are found whatever
        // the order.
        for pass in 0..3 {
            let (mut position, mut next) = (0, 0);
            let listed = maps().map(|map| (map, false)).chain(maps_apart().map(|map| (map, true)));
            for (map, apart) in listed {
                position += 1;
                let known = object::of_map(map, &mut next);
                // Programs load thousands of objects one by one: those that are done cost next to nothing.
                let done = |i| object::record(i).flags.load(Ordering::Relaxed) & DONE != 0;
                if known.is_some_and(|i| pass == 0 || done(i)) {
                    continue;
                }
                let name = bytes_until_zero((*map).name);
                let is_executable = position == 1;
                let Some(image) = Image::read(map, executable.filter(|_| is_executable).map(|(_, segments)| segments))
                else {
                    continue;
                };
                if pass == 0 {
                    let mut flags = 0;
                    let mut path = name;
                    if let Some((p, _)) = executable.filter(|_| is_executable) {
                        flags |= OBJECT_EXECUTABLE;
                        path = p;
                    }
                    let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
                    let own = (*map).dynamic as u64 == arch::own_dynamic();
                    if own || file.starts_with(b"ld-") || file.starts_with(b"linux-vdso") || path.is_empty() {
                        flags |= OBJECT_SYNTHETIC;
                    }
                    if apart {
                        flags |= OBJECT_APART;
                    }
                    let added = object::add(&image, map, path, flags);
                    if let Some(i) = added.filter(|_| flags & (OBJECT_APART | OBJECT_SYNTHETIC) == OBJECT_APART) {
                        object::record(i).refused.store(hook::slots(&image), Ordering::Relaxed);
                    }
                } else if let Some(i) = known {
                    let o = object::record(i);
                    let path = &o.path[..o.path.iter().position(|&b| b == 0).unwrap_or(0)];
                    if pass == 1 {
                        static_component::install(&image, i, path);
                        continue;
                    }
                    let plan = plan::get(path, image.build_id);
                    let mut flags = OBJECT_HOOKED;
                    if plan.is_none() {
                        flags |= OBJECT_NO_PLAN;
                    }
                    let revived = o.slot_count.load(Ordering::Relaxed) != 0;
                    let relocated = hook::hook(&image, i, executable.is_some(), revived, plan.as_ref());
                    static_component::hook_twins(&image, i, path, relocated);
                    o.flags.fetch_or(flags, Ordering::Release);
                }
            }
        }
    }
}

/// Called by the loader in place of its empty event function.
pub extern "C" fn loader_event() {
    let r = RENDEZVOUS.load(Ordering::Acquire) as *const Rendezvous;
    // SAFETY: the loader calls this under its lock; `state` is its own.
    unsafe {
        if r.is_null() || crate::process::base().is_null() {
            return;
        }
        if (*r).state == DELETING {
            taken::unloading();
        }
        if (*r).state != CONSISTENT {
            return;
        }
        if BUSY.swap(1, Ordering::Acquire) != 0 {
            return;
        }
        let begin = arch::ticks();
        // Both lists have much the same order.
        let mut next = core::ptr::null();
        for i in object::loaded().filter(|&i| !object::map_of(i).is_null()) {
            let start = object::record(i).start.load(Ordering::Relaxed);
            let base = object::record(i).base.load(Ordering::Relaxed);
            let is_it =
                |m: &*const LinkMap| *m == object::map_of(i) && (**m).base == base && (**m).dynamic as u64 >= start;
            match maps_from(next).find(is_it).or_else(|| maps().chain(maps_apart()).find(is_it)) {
                Some(map) => next = (*map).next,
                None => object::gone(i),
            }
        }
        taken::unloaded();
        if crate::confinement::confined() {
            // Hooking needs system calls that may not be allowed.
            let known = |map: &*const LinkMap| {
                let base = (**map).base;
                object::loaded().any(|i| object::record(i).base.load(Ordering::Relaxed) == base)
            };
            let count = maps().filter(|map| !known(map)).count() as u32;
            crate::process::header().confined_objects.fetch_max(count, Ordering::Relaxed);
        } else {
            scan(None);
        }
        crate::process::note_setup(begin);
        BUSY.store(0, Ordering::Release);
    }
}

/// In the child of a fork nobody handles an event.
pub fn forked() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Puts a jump to our handler over the loader's event function. False if its shape is unknown: then objects loaded
/// later are not hooked.
///
/// # Safety
/// One thread; nobody is inside the function.
pub unsafe fn take_event(at: u64) -> bool {
    // SAFETY: the address comes from the loader's rendezvous structure; the function is empty (`ret`, after an
    // `endbr64` perhaps) and aligned to 16, so that five bytes are its own.
    unsafe {
        if at == 0 || !at.is_multiple_of(16) {
            return false;
        }
        let bytes = &*(at as *const [u8; 5]);
        let empty = bytes[0] == 0xc3 || *bytes == [0xf3, 0x0f, 0x1e, 0xfa, 0xc3] || bytes[..2] == [0xf3, 0xc3];
        let to = arch::transect_loader_event as *const () as u64;
        let Ok(distance) = i32::try_from(to.wrapping_sub(at + 5) as i64) else { return false };
        let page = at & !4095;
        if !empty || !sys::mprotect(page, 4096, sys::PROT_READ | sys::PROT_WRITE) {
            return false;
        }
        let d = distance.to_le_bytes();
        (at as *mut [u8; 5]).write([0xe9, d[0], d[1], d[2], d[3]]);
        sys::mprotect(page, 4096, sys::PROT_READ | sys::PROT_EXEC);
        true
    }
}
