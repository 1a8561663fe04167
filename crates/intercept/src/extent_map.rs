//! Where this process has mapped the extents that it uses. Each is mapped when it is taken, for addresses that are merely reserved
//! count against a limit of the address space (`RLIMIT_AS`), which a program or somebody else may set at any time.
//!
//! No descriptor is needed after the start (a program may close all of them, change its root or its user): the mapping of one
//! part of the file is duplicated and then moved to the part that is wanted. Extents lie at multiples of their size, so a pointer
//! tells where its extent begins.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::arena::{ARENA_SIZE, EXTENT_COUNT, EXTENT_SIZE};

use crate::arch::syscall as sys;

const SIZE: u64 = EXTENT_SIZE as u64;
const PAGE: u64 = 4096;
/// Places in [`NUMBERS`].
const CELLS: usize = 2 * EXTENT_COUNT;

/// Address of each extent in units of an extent; 0: not mapped on its own.
static PLACES: [AtomicU32; EXTENT_COUNT] = [const { AtomicU32::new(0) }; EXTENT_COUNT];
/// The other way round: a hash table by address, of numbers plus one.
static NUMBERS: [AtomicU32; CELLS] = [const { AtomicU32::new(0) }; CELLS];
/// Where all of the arena is mapped at once; 0: nowhere.
static WHOLE: AtomicU64 = AtomicU64::new(0);

/// First byte of a mapped extent.
pub fn address(index: u32) -> *mut u8 {
    match PLACES[index as usize].load(Ordering::Acquire) {
        0 => (WHOLE.load(Ordering::Acquire) + u64::from(index) * SIZE) as *mut u8,
        place => (u64::from(place) * SIZE) as *mut u8,
    }
}

/// First byte of the extent in which a pointer lies.
pub fn start_of(pointer: *const u8) -> *mut u8 {
    (pointer as u64 & !(SIZE - 1)) as *mut u8
}

/// Number of the extent that holds an address; `None` if it is in none.
pub fn number_at(address: *const u8) -> Option<u32> {
    let whole = WHOLE.load(Ordering::Acquire);
    let offset = (address as u64).wrapping_sub(whole);
    if whole != 0 && offset < ARENA_SIZE as u64 {
        return Some((offset / SIZE) as u32);
    }
    let place = address as u64 / SIZE;
    for cell in cells(place) {
        match NUMBERS[cell].load(Ordering::Acquire) {
            0 => return None,
            number if u64::from(PLACES[number as usize - 1].load(Ordering::Relaxed)) == place => {
                return Some(number - 1);
            }
            _ => {}
        }
    }
    None
}

/// The cells of [`NUMBERS`] in which a place may stand, in the order of the search.
fn cells(place: u64) -> impl Iterator<Item = usize> {
    let first = (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (0..CELLS).map(move |i| (first + i) % CELLS)
}

fn note(index: u32, address: u64) {
    let place = address / SIZE;
    PLACES[index as usize].store(place as u32, Ordering::Release);
    let free =
        |&cell: &usize| NUMBERS[cell].compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // Twice as many cells as extents, of which each is noted once.
    let _ = cells(place).find(free);
}

/// Addresses for `size` bytes, at a multiple of an extent's size.
fn reserve(size: u64) -> Option<u64> {
    /// What was given last: what lies below is often free.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    let below = LAST.load(Ordering::Relaxed).saturating_sub(size);
    if below > 0 {
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { sys::mmap(below, size, 0, flags | sys::MAP_FIXED_NOREPLACE, -1, 0) };
        if at == below as i64 {
            LAST.store(below, Ordering::Relaxed);
            return Some(below);
        }
        if at > 0 {
            // A kernel without MAP_FIXED_NOREPLACE took it as a hint.
            // SAFETY: just mapped.
            unsafe { sys::munmap(at as u64, size) };
        }
    }
    let given = size + SIZE - PAGE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { sys::mmap(0, given, 0, flags, -1, 0) };
    if at <= 0 {
        return None;
    }
    let (at, start) = (at as u64, (at as u64).next_multiple_of(SIZE));
    // SAFETY: parts of the new mapping.
    unsafe {
        if start > at {
            sys::munmap(at, start - at);
        }
        if at + given > start + size {
            sys::munmap(start + size, at + given - start - size);
        }
    }
    LAST.store(start, Ordering::Relaxed);
    Some(start)
}

/// Maps the first extent from the arena's descriptor; false if there is no room for it, or for the others to come.
pub fn start(fd: i64) -> bool {
    let Some(place) = reserve(SIZE) else { return false };
    // SAFETY: in place of what was just reserved.
    if !unsafe { sys::map_over(place, SIZE, fd) } {
        // SAFETY: as above.
        unsafe { sys::munmap(place, SIZE) };
        return false;
    }
    note(0, place);
    // Whether parts can be moved: this one to where it is. A filter of system calls may end the program for the question.
    // SAFETY: the mapping made above, which nobody uses yet.
    let done = !sys::is_filtered() && unsafe { sys::move_part(place, SIZE, 0) } || map_all();
    sys::dont_dump(place, SIZE);
    done
}

/// Undoes [`start`].
///
/// # Safety
/// Nothing refers to the arena.
pub unsafe fn end() {
    // SAFETY: see above.
    unsafe { sys::munmap(address(0) as u64, SIZE) };
    let whole = WHOLE.swap(0, Ordering::AcqRel);
    if whole != 0 {
        // SAFETY: see above.
        unsafe { sys::munmap(whole, ARENA_SIZE as u64) };
    }
}

/// Maps an extent unless it is; false if that is not possible. Makes no system call where it is mapped.
pub fn map(index: u32) -> bool {
    if is_mapped(index) {
        return true;
    }
    // A program that has put itself under a filter that we did not see may be ended for what follows.
    if sys::is_filtered() {
        return false;
    }
    let Some(place) = reserve(SIZE) else { return false };
    let head = address(0) as u64;
    // SAFETY: in place of what was just reserved; the head is a shared mapping of the file.
    if !unsafe { sys::map_same(head, place, SIZE) && sys::move_part(place, SIZE, u64::from(index) * SIZE) } {
        // SAFETY: as above.
        unsafe { sys::munmap(place, SIZE) };
        return false;
    }
    sys::dont_dump(place, SIZE);
    note(index, place);
    true
}

/// Whether an extent is mapped.
pub fn is_mapped(index: u32) -> bool {
    WHOLE.load(Ordering::Acquire) != 0 || PLACES[index as usize].load(Ordering::Acquire) != 0
}

/// Maps all of the arena, so that no extent needs a system call any more; false if there is no room.
pub fn map_all() -> bool {
    if WHOLE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let size = ARENA_SIZE as u64;
    let Some(place) = reserve(size) else { return false };
    // SAFETY: in place of what was just reserved; the head is a shared mapping of the file from its beginning.
    if !unsafe { sys::map_same(address(0) as u64, place, size) } {
        // SAFETY: as above.
        unsafe { sys::munmap(place, size) };
        return false;
    }
    sys::dont_dump(place, size);
    WHOLE.store(place, Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::{fs, process};

    use super::*;

    /// The file says which part of it was written through which mapping.
    #[test]
    fn extents_show_their_part_of_the_file_without_a_descriptor() {
        let path = std::env::temp_dir().join(std::format!("transect-extents-{}", process::id()));
        let file = fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.set_len(ARENA_SIZE as u64).unwrap();
        let before = sys::mapped();
        assert!(start(file.as_raw_fd().into()));
        let written = |index: u32, value: u8| {
            // SAFETY: within a mapped extent, which this test alone uses.
            unsafe { address(index).add(77).write_volatile(value) };
            let mut found = [0];
            file.read_exact_at(&mut found, u64::from(index) * SIZE + 77).unwrap();
            found[0] == value
        };
        assert!(map(5) && map(8191) && !is_mapped(6));
        assert!(written(0, 1) && written(5, 2) && written(8191, 3));
        assert_eq!(sys::mapped() - before, 3 * SIZE, "and no more is taken of the address space");
        // SAFETY: the address alone is computed.
        let inside = unsafe { address(5).add(EXTENT_SIZE - 1) };
        assert_eq!((number_at(inside), start_of(inside)), (Some(5), address(5)));
        assert_eq!(number_at((&raw const file).cast()), None);
        let own = address(5);
        assert!(map_all() && is_mapped(6) && written(6, 4));
        assert_eq!((number_at(address(6)), number_at(own), address(5)), (Some(6), Some(5), own));
    }
}
