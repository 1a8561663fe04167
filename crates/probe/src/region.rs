//! Events of feature regions at sites that are switched on: what the handler does not do itself.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use transect_event_abi::probe_arena::SiteRecord;
use transect_region_ring::{Arena, Owner, Room, syscall};

use crate::descriptor::Descriptor;
use crate::frame::{NO_THREAD_POINTER, transect_probe_globals};

/// Called before the event of a thread that has no ring yet, or whose ring is to be looked at. Gives the ring's address,
/// or 0 if the event is not to be written.
pub extern "C" fn look(descriptor: &Descriptor) -> u64 {
    let base = transect_probe_globals.regions.load(Relaxed);
    if base == 0 {
        return 0;
    }
    // SAFETY: the controller has mapped the file there before it switched the first site on; it is never unmapped.
    let Some(arena) = (unsafe { Arena::at(base) }) else { return 0 };
    if arena.header().recording.load(Relaxed) == 0 {
        switch_off(descriptor);
        return 0;
    }
    let owner = Owner { tid: syscall::thread_id(), pid: syscall::process_id(), image: 0 };
    note_thread_pointer(owner.tid);
    let Some(ring) = arena.ring_of(owner) else { return 0 };
    match arena.look(ring) {
        Room::Some => core::ptr::from_ref(ring) as u64,
        Room::None => 0,
        Room::Over => {
            switch_off(descriptor);
            0
        }
    }
}

/// Lets the handler read threads' numbers itself once this thread, whose number is `tid`, can be seen to have it in its
/// control block.
fn note_thread_pointer(tid: i32) {
    let offset = transect_probe_globals.tid_offset.load(Relaxed);
    if offset & NO_THREAD_POINTER == 0 {
        return;
    }
    let (pointer, place) = (syscall::thread_pointer(), offset & !NO_THREAD_POINTER);
    // SAFETY: what a thread pointer leads to is mapped; where its first word points to itself (x86-64 psABI) there is a
    // libc's control block, in which the controller has said that the number is.
    let known = pointer != 0
        && unsafe {
            (pointer as *const u64).read_unaligned() == pointer
                && (pointer.wrapping_add(place) as *const i32).read_unaligned() == tid
        };
    if known {
        transect_probe_globals.tid_offset.store(place, Relaxed);
    }
}

/// Nobody reads any more, or ever will: the site switches itself off.
fn switch_off(descriptor: &Descriptor) {
    // SAFETY: a descriptor names its site's record, in the mapped arena; atomics only.
    let record = unsafe { &*(descriptor.record.load(Relaxed) as *const SiteRecord) };
    // SAFETY: the record names the trampoline's word, which is 8-aligned and mapped for writing; it is of this site alone.
    let word = unsafe { &*(record.word.load(Relaxed) as *const AtomicU64) };
    word.store(record.off.load(Relaxed), Relaxed);
}
