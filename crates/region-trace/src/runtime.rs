//! Start, and everything that is not the event itself.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use transect_event_abi::context::UNKNOWN;
use transect_region_ring::{Arena, Owner, Room, syscall};

use crate::arch;
use crate::environment::{auxiliary, region_file};

/// 1 while events are to be written.
pub static ACTIVE: AtomicU8 = AtomicU8::new(0);
/// Address of three words. The second is 0 only in a child of fork whose first thread has not had an event yet; the first is
/// then, too, and always where [`HOOK`] is to be called. The third is the process, once it was asked for.
pub static LIVING: AtomicU64 = AtomicU64::new(0);
/// Code of the agent that counts calls between components by region, or 0.
pub static HOOK: AtomicU64 = AtomicU64::new(0);
static BASE: AtomicU64 = AtomicU64::new(0);
static IMAGE: AtomicU64 = AtomicU64::new(0);

/// The constructor.
pub extern "C" fn start() {
    let Some(path) = region_file() else { return };
    let Some(auxiliary) = auxiliary() else { return };
    if auxiliary.secure || auxiliary.random == 0 {
        return;
    }
    let Some(arena) = Arena::open(&path) else { return };
    if arena.header().recording.load(Acquire) == 0 {
        return;
    }
    let page = syscall::map_wiped_on_fork();
    if page <= 0 {
        return;
    }
    let hook = arch::agent();
    // SAFETY: a page of its own, aligned, never unmapped.
    set_living(unsafe { &*(page as *const Living) }, hook);
    // SAFETY: the kernel has put sixteen bytes there, which stay as long as the program.
    let image = unsafe { (auxiliary.random as *const u64).read_unaligned() };
    HOOK.store(hook, Relaxed);
    LIVING.store(page as u64, Relaxed);
    BASE.store(arena.base(), Relaxed);
    IMAGE.store(image, Relaxed);
    arena.announce(syscall::process_id(), image);
    ACTIVE.store(1, Release);
}

/// How many regions of the frame stay open at a restoring site, or [`UNKNOWN`].
pub extern "C" fn restored(site: u64) -> u32 {
    // SAFETY: `start` has mapped it before it set ACTIVE.
    let arena = unsafe { Arena::at(BASE.load(Relaxed)) };
    arena.and_then(|arena| arena.restored(site, IMAGE.load(Relaxed))).unwrap_or(UNKNOWN)
}

type Living = [AtomicU32; 3];

/// What a thread knows: its ring, or 0, and the process in which it got it.
pub type Slot = [AtomicU64; 2];

fn set_living(words: &Living, hook: u64) {
    words[0].store(u32::from(hook == 0), Relaxed);
    words[1].store(1, Relaxed);
}

/// In a child of fork its first thread, which forked, still has its parent's ring. Threads that it has made meanwhile have
/// none, or their own, and come here until then.
fn after_fork([slot, got_in]: &Slot, living: &Living) {
    if living[2].load(Relaxed) == 0 {
        living[2].store(syscall::process_id().cast_unsigned(), Relaxed);
    }
    let process = living[2].load(Relaxed);
    let is_first = match slot.load(Relaxed) {
        0 => syscall::thread_id().cast_unsigned() == process,
        _ => got_in.load(Relaxed) != u64::from(process),
    };
    if is_first {
        slot.store(0, Relaxed);
        set_living(living, HOOK.load(Relaxed));
    }
}

/// Called before the event when the thread has no ring, when the process is a child of fork, or when it is time to look
/// how far the recorder is. Gives the ring's address, or 0 if the event is not to be
/// written.
pub extern "C" fn look(slot: &Slot) -> u64 {
    // SAFETY: `start` has mapped it before it set ACTIVE.
    let Some(arena) = (unsafe { Arena::at(BASE.load(Relaxed)) }) else { return 0 };
    // SAFETY: the page that `start` has made.
    let living = unsafe { &*(LIVING.load(Relaxed) as *const Living) };
    if living[1].load(Relaxed) == 0 {
        after_fork(slot, living);
    }
    let [slot, got_in] = slot;
    if arena.header().recording.load(Acquire) == 0 {
        ACTIVE.store(0, Relaxed);
        return 0;
    }
    if slot.load(Relaxed) == 0 {
        let owner = Owner { tid: syscall::thread_id(), pid: syscall::process_id(), image: IMAGE.load(Relaxed) };
        match arena.ring_of(owner) {
            Some(ring) => {
                slot.store(core::ptr::from_ref(ring) as u64, Relaxed);
                got_in.store(u64::from(owner.pid.cast_unsigned()), Relaxed);
            }
            None => return 0,
        }
    }
    let address = slot.load(Relaxed);
    // SAFETY: a ring of the mapped file: nothing else is ever stored there.
    let ring = unsafe { &*(address as *const transect_event_abi::region_arena::RingRecord) };
    match arena.look(ring) {
        Room::Some => address,
        Room::None => 0,
        Room::Over => {
            ACTIVE.store(0, Relaxed);
            0
        }
    }
}
