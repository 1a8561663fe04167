//! The process' objects: records in the process extent, address ranges for lookups.

use core::sync::atomic::Ordering;

use transect_event_abi::process::{OBJECT_CAPACITY, OBJECT_GONE, OBJECTS_OFFSET, ObjectRecord};

use crate::elf::Image;
use crate::process;

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

/// Registers an object, or revives the record of the same file loaded before. `None` when the table is full.
pub fn add(image: &Image, path: &[u8], flags: u32) -> Option<u16> {
    let path = &path[..path.len().min(919)];
    let revived = (0..count()).find(|&i| {
        let o = record(i);
        o.flags.load(Ordering::Acquire) & OBJECT_GONE != 0
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
}

/// True if the address lies in an executable segment of a loaded object.
pub fn is_code(address: u64) -> bool {
    find(address).is_some_and(|i| {
        let base = record(i).base.load(Ordering::Relaxed);
        crate::loader::maps()
            // SAFETY: the loader's list, at start or in its event.
            .find(|&m| unsafe { (*m).base } == base)
            // SAFETY: an entry of that list.
            .and_then(|m| unsafe { Image::read(m, crate::loader::headers_of(base)) })
            .is_some_and(|image| image.executable(address))
    })
}
