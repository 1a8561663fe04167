//! The process' objects: records in the process extent, address ranges for lookups.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::process::{
    OBJECT_APART, OBJECT_CAPACITY, OBJECT_GONE, OBJECT_STATIC, OBJECTS_OFFSET, ObjectRecord,
};

use crate::elf::{Image, LinkMap};
use crate::process;

/// The loader's entry of each object, so that nobody needs to walk the loader's list outside of its lock.
static MAPS: [AtomicU64; OBJECT_CAPACITY] = [const { AtomicU64::new(0) }; OBJECT_CAPACITY];

/// Record of an object.
pub fn record(index: u16) -> &'static ObjectRecord {
    // SAFETY: the table lies within the process extent.
    unsafe { &*(process::base().add(OBJECTS_OFFSET) as *const ObjectRecord).add(index as usize) }
}

fn count() -> u16 {
    process::header().object_count.load(Ordering::Acquire) as u16
}

/// Index of the loaded object that holds an address.
pub fn find(address: u64) -> Option<u16> {
    (0..count()).find(|&i| {
        let o = record(i);
        o.flags.load(Ordering::Acquire) & OBJECT_GONE == 0
            && address >= o.start.load(Ordering::Relaxed)
            && address < o.end.load(Ordering::Relaxed)
    })
}

/// All loaded objects.
pub fn loaded() -> impl Iterator<Item = u16> {
    (0..count()).filter(|&i| record(i).flags.load(Ordering::Acquire) & OBJECT_GONE == 0)
}

/// The loaded object of an entry of the loader's list. Both have much the same order: the search begins at `next`, behind
/// what the last one found.
///
/// # Safety
/// `map` is an entry of the loader's list.
pub unsafe fn of_map(map: *const LinkMap, next: &mut u16) -> Option<u16> {
    // SAFETY: see above.
    let (base, dynamic) = unsafe { ((*map).base, (*map).dynamic as u64) };
    let is_it = |&i: &u16| {
        let o = record(i);
        MAPS[i as usize].load(Ordering::Acquire) == map as u64
            && o.flags.load(Ordering::Acquire) & (OBJECT_GONE | OBJECT_STATIC) == 0
            && o.base.load(Ordering::Relaxed) == base
            && (o.start.load(Ordering::Relaxed)..o.end.load(Ordering::Relaxed)).contains(&dynamic)
    };
    let begin = (*next).min(count());
    let found = (begin..count()).find(is_it).or_else(|| (0..begin).find(is_it))?;
    *next = found + 1;
    Some(found)
}

/// The loader's entry of a registered object.
pub fn map_of(index: u16) -> *const LinkMap {
    MAPS[index as usize].load(Ordering::Acquire) as *const LinkMap
}

/// Registers an object, or revives the record of the same file loaded before. `None` when the table is full.
pub fn add(image: &Image, map: *const LinkMap, path: &[u8], flags: u32) -> Option<u16> {
    let path = &path[..path.len().min(919)];
    let revived = (0..count()).find(|&i| {
        let o = record(i);
        o.flags.load(Ordering::Acquire) & (OBJECT_GONE | OBJECT_STATIC | OBJECT_APART)
            == OBJECT_GONE | flags & OBJECT_APART
            && o.path[..path.len()] == *path
            && o.path[path.len()] == 0
            && o.build_id_len as usize == image.build_id.len()
            && o.build_id[..image.build_id.len()] == *image.build_id
            && !image.build_id.is_empty()
    });
    let index = match revived {
        Some(i) => i,
        None => {
            let i = count();
            if i as usize >= OBJECT_CAPACITY {
                return None;
            }
            i
        }
    };
    let o = (record(index) as *const ObjectRecord).cast_mut();
    MAPS[index as usize].store(map as u64, Ordering::Release);
    // SAFETY: records are written under the loader's lock, before the count or the flag publishes them.
    unsafe {
        (*o).base.store(image.base, Ordering::Relaxed);
        (*o).start.store(image.start, Ordering::Relaxed);
        (*o).end.store(image.end, Ordering::Relaxed);
        if revived.is_none() {
            core::ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut (*o).path).cast(), path.len());
            core::ptr::copy_nonoverlapping(
                image.build_id.as_ptr(),
                (&raw mut (*o).build_id).cast(),
                image.build_id.len(),
            );
            (*o).build_id_len = image.build_id.len() as u32;
            (*o).flags.store(flags, Ordering::Release);
            process::header().object_count.store(index as u32 + 1, Ordering::Release);
        } else {
            (*o).flags.store(flags, Ordering::Release);
        }
    }
    Some(index)
}

/// Notes that an object has been unloaded.
pub fn gone(index: u16) {
    record(index).flags.fetch_or(OBJECT_GONE, Ordering::Release);
    crate::static_component::gone(index);
    crate::taken::forget(index);
}

/// Any record in use, gone ones and static components included.
pub fn known(index: u16) -> Option<&'static ObjectRecord> {
    (index < count()).then(|| record(index))
}

/// Registers a static component of an object, or revives its record: the one at `wanted`, if given, else the first of
/// that name. It has no address range: [`find`] gives the object itself. `None` when the table is full.
pub fn add_static(parent: u16, name: &[u8], wanted: Option<u16>) -> Option<u16> {
    let of = record(parent);
    let path = &of.path[..of.path.iter().position(|&b| b == 0).unwrap_or(0)];
    let is_same = |i: u16| {
        let o = record(i);
        o.flags.load(Ordering::Acquire) & OBJECT_STATIC != 0
            && o.parent_plus_one.load(Ordering::Relaxed) == parent as u32 + 1
            && o.path.get(path.len() + 1..path.len() + 1 + name.len()) == Some(name)
            && o.path.get(path.len() + 1 + name.len()) == Some(&0)
    };
    let revived = match wanted {
        Some(i) => (i < count()).then_some(i).filter(|&i| is_same(i)),
        None => (0..count()).find(|&i| is_same(i)),
    };
    let index = revived.unwrap_or(count());
    if index as usize >= OBJECT_CAPACITY || path.len() + 1 + name.len() >= of.path.len() {
        return None;
    }
    let o = (record(index) as *const ObjectRecord).cast_mut();
    // SAFETY: as in `add`.
    unsafe {
        (*o).base.store(of.base.load(Ordering::Relaxed), Ordering::Relaxed);
        (*o).parent_plus_one.store(parent as u32 + 1, Ordering::Relaxed);
        if revived.is_none() {
            let to = (&raw mut (*o).path).cast::<u8>();
            core::ptr::copy_nonoverlapping(path.as_ptr(), to, path.len());
            to.add(path.len()).write(b'/');
            core::ptr::copy_nonoverlapping(name.as_ptr(), to.add(path.len() + 1), name.len());
            (*o).build_id = of.build_id;
            (*o).build_id_len = of.build_id_len;
        }
        for count in [&(*o).hooked, &(*o).refused] {
            count.store(0, Ordering::Relaxed);
        }
        (*o).flags.store(OBJECT_STATIC, Ordering::Release);
        if revived.is_none() {
            process::header().object_count.store(index as u32 + 1, Ordering::Release);
        }
    }
    Some(index)
}

/// True if the address lies in an executable segment of a loaded object.
pub fn is_code(address: u64) -> bool {
    // SAFETY: called at start or in the loader's event: no object goes away meanwhile.
    find(address).and_then(|i| unsafe { image(i) }).is_some_and(|image| image.executable(address))
}

/// A loaded object as the loader has mapped it.
///
/// # Safety
/// The object is not unloaded meanwhile: its caller is the loader's event, or holds a handle to it.
pub unsafe fn image(index: u16) -> Option<Image> {
    let map = map_of(index);
    if map.is_null() {
        return None;
    }
    // SAFETY: the loader's entry lives as long as its object.
    unsafe { Image::read(map, crate::loader::headers_of((*map).base)) }
}
