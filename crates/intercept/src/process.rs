//! This process' extent: registration at start and after fork.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::arena::EXTENT_PROCESS;
use transect_event_abi::process::{
    BYTES_OFFSET, NAMES_OFFSET, OBJECTS_OFFSET, ObjectRecord, PROCESS_LIVE, ProcessHeader, SLOTS_OFFSET, SlotRecord,
    unprofiled,
};

use crate::arch::syscall as sys;
use crate::{
    active, arch, arena, confinement, dlsym, environment, extent_map, hook, loader, published, spawn, taken, thread,
};

static BASE: AtomicU64 = AtomicU64::new(0);

/// First byte of the process extent.
pub fn base() -> *mut u8 {
    BASE.load(Ordering::Relaxed) as *mut u8
}

/// The process extent's head.
pub fn header() -> &'static ProcessHeader {
    // SAFETY: set at start, never unmapped.
    unsafe { &*(base() as *const ProcessHeader) }
}

/// Index of the process extent.
pub fn extent() -> u32 {
    extent_map::number_at(base()).unwrap_or(0)
}

/// Bytes summed for a slot.
pub fn bytes(slot: u32) -> &'static AtomicU64 {
    // SAFETY: the array lies within the process extent.
    unsafe { &*(base().add(BYTES_OFFSET) as *const AtomicU64).add(slot as usize) }
}

/// Takes an extent for this process; false if the arena is used up.
pub fn register() -> bool {
    let Some(index) = arena::allocate(EXTENT_PROCESS) else { return false };
    BASE.store(extent_map::address(index) as u64, Ordering::Release);
    let h = header();
    h.slot_count.store(1, Ordering::Relaxed);
    // SAFETY: statics of the agent.
    unsafe {
        arch::transect_epoch.store(arena::header().epoch_ticks, Ordering::Relaxed);
        arch::transect_active.store(&raw const h.active_packed as u64, Ordering::Relaxed);
    }
    let mut path = [0u8; 1023];
    let n = sys::readlink(c"/proc/self/exe".as_ptr().cast(), &mut path);
    if n > 0 {
        // SAFETY: the path field is 1024 bytes; this is the only writer before `pid` is published.
        unsafe {
            core::ptr::copy_nonoverlapping(path.as_ptr(), (&raw const h.executable).cast_mut().cast(), n as usize);
        }
    }
    publish(h);
    true
}

/// Starting, a record after a fork, or hooking what was loaded, took the time since `begin`.
pub fn note_setup(begin: u64) {
    header().setup_ticks.fetch_add(arch::ticks().saturating_sub(begin), Ordering::Relaxed);
}

/// Whether this process has the record before it: a child of vfork has not.
pub fn is_own() -> bool {
    BASE.load(Ordering::Acquire) != 0 && header().pid.load(Ordering::Relaxed) == sys::getpid()
}

/// The process runs its destructors, or does without: it ends. Makes no system call, which a filter may not allow.
pub fn note_end() {
    // A child without a record has its parent's before it.
    if BASE.load(Ordering::Acquire) != 0 && !thread::refuses_all() {
        header().end_ticks.store(arch::ticks(), Ordering::Relaxed);
    }
}

fn publish(h: &ProcessHeader) {
    h.parent_pid.store(sys::getppid(), Ordering::Relaxed);
    h.start_ticks.store(arch::ticks(), Ordering::Relaxed);
    h.state.store(PROCESS_LIVE, Ordering::Relaxed);
    h.pid.store(sys::getpid(), Ordering::Release);
}

/// In the child of a fork: a record of its own, with the parent's tables of objects and slots.
pub extern "C" fn forked() {
    let begin = arch::ticks();
    let state = thread::detach();
    active::stop_parallel();
    // What other threads of the parent were in the middle of is left undone here.
    dlsym::forked();
    loader::forked();
    hook::forked();
    taken::forked();
    environment::forked();
    let old = base();
    let parent = header();
    let refusal = match spawn::follows() {
        // A record takes system calls.
        true => confinement::confined().then_some(unprofiled::CONFINED),
        false => Some(unprofiled::NOT_FOLLOWED),
    };
    if let Some(reason) = refusal {
        parent.unprofiled[reason].fetch_add(1, Ordering::Relaxed);
        thread::refuse_all();
        return;
    }
    let Some(index) = arena::allocate(EXTENT_PROCESS) else {
        // Without a record the child counts into the void: its own boot counters.
        parent.unprofiled[unprofiled::NO_EXTENT].fetch_add(1, Ordering::Relaxed);
        thread::refuse_all();
        return;
    };
    let new = extent_map::address(index);
    let objects = parent.object_count.load(Ordering::Relaxed) as usize;
    let slots = parent.slot_count.load(Ordering::Relaxed) as usize;
    let names = parent.names_used.load(Ordering::Relaxed) as usize;
    // SAFETY: both extents are ours; the lengths are within the tables they were counted in.
    unsafe {
        core::ptr::copy_nonoverlapping(
            old.add(OBJECTS_OFFSET),
            new.add(OBJECTS_OFFSET),
            objects * size_of::<ObjectRecord>(),
        );
        core::ptr::copy_nonoverlapping(old.add(SLOTS_OFFSET), new.add(SLOTS_OFFSET), slots * size_of::<SlotRecord>());
        core::ptr::copy_nonoverlapping(old.add(NAMES_OFFSET), new.add(NAMES_OFFSET), names);
        core::ptr::copy_nonoverlapping(
            (&raw const parent.executable).cast::<u8>(),
            (&raw mut (*(new as *mut ProcessHeader)).executable).cast::<u8>(),
            1024,
        );
    }
    BASE.store(new as u64, Ordering::Release);
    let h = header();
    h.object_count.store(objects as u32, Ordering::Relaxed);
    h.slot_count.store(slots as u32, Ordering::Relaxed);
    h.names_used.store(names as u32, Ordering::Relaxed);
    h.histogram_count.store(parent.histogram_count.load(Ordering::Relaxed), Ordering::Relaxed);
    h.timed_call_ticks.store(parent.timed_call_ticks.load(Ordering::Relaxed), Ordering::Relaxed);
    h.sampled_call_ticks.store(parent.sampled_call_ticks.load(Ordering::Relaxed), Ordering::Relaxed);
    h.empty_call_ticks.store(parent.empty_call_ticks.load(Ordering::Relaxed), Ordering::Relaxed);
    h.empty_hold.store(parent.empty_hold.load(Ordering::Relaxed), Ordering::Relaxed);
    h.hidden_hold.store(parent.hidden_hold.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: a static of the agent.
    unsafe { arch::transect_active.store(&raw const h.active_packed as u64, Ordering::Relaxed) };
    publish(h);
    published::forked();
    // SAFETY: from `detach` above.
    unsafe { thread::attach(state) };
    note_setup(begin);
}
