//! Shadow frames: the return addresses that paired calls have taken, kept beside the stack.
//!
//! A frame belongs to a *slot*, the eight bytes of stack that held the return address, and is found by the slot's
//! address alone: a hash table leads from the stack page to a shadow page of 512 frames. So there is no per-thread
//! state and no free list: what longjmp or an exception leaves behind is overwritten when the slot is used again,
//! a signal handler works on slots of its own, a coroutine may return on another thread, and after fork the child
//! has a copy (the memory is private).
//!
//! What this does not survive: a program that copies stacks away and back to use one address for several stacks at
//! once (greenlet, Go). Sites in such programs are planned without exit.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::x86_64::syscall;

/// Stack pages that can have frames at once (256 MiB of touched stack).
pub const PAGES: usize = 65_536;
/// Bytes of frames for one stack page.
pub const SHADOW_PAGE: usize = 4096 / 8 * size_of::<Frame>();

/// One open call.
#[repr(C)]
pub struct Frame {
    /// Where the function returns to.
    pub return_address: AtomicU64,
    /// Time stamp counter at the entry (timing handlers).
    pub start: AtomicU64,
    /// The site's descriptor.
    pub descriptor: AtomicU64,
    /// What the user's entry handler returned.
    pub cookie: AtomicU64,
}

/// In [`Globals::tid_offset`]: threads ask the kernel for their numbers, until one of them has a control block. The sign.
pub const NO_THREAD_POINTER: u64 = 1 << 63;

/// What the handlers need, one per image; all zero until [`Globals::set`].
#[repr(C, align(64))]
pub struct Globals {
    /// Address of the arena's `ProbeHeader`.
    pub header: AtomicU64,
    /// Address of [`PAGES`] stack page numbers, 8 bytes each.
    pub keys: AtomicU64,
    /// Address of as many shadow pages.
    pub pool: AtomicU64,
    /// Entries of `keys` less one; a power of two less one.
    pub mask: AtomicU64,
    /// End of the main thread's stack.
    pub stack_end: AtomicU64,
    /// Bytes for XSAVE with `xsave_mask`.
    pub xsave_size: AtomicU64,
    /// State components to save.
    pub xsave_mask: AtomicU64,
    /// All ones if another tool takes return addresses in this process, else 0.
    pub layered: AtomicU64,
    /// Address of the threads' [`crate::scope::ThreadScope`]s, 0 if there are none.
    pub scopes: AtomicU64,
    /// Address of the memory file of region events, 0 until [`crate::region`] is to be used. Set by itself, later.
    pub regions: AtomicU64,
    /// Offset of a thread's number behind the thread pointer (`fs:[0]`); with [`NO_THREAD_POINTER`] while there may be none.
    pub tid_offset: AtomicU64,
    /// Code of another agent that is called at region sites by [`crate::Handler::RegionAndFlows`]; set by itself, before sites
    /// with that handler are installed.
    pub flow_region: AtomicU64,
    /// Not 0 once a thread may not read the time stamp counter (`PR_SET_TSC`, strict seccomp; threads that it makes may not,
    /// either): handlers read it no more. The process' own: a forked child that asks for it does not blind its parent.
    pub no_clock: AtomicU64,
    /// Address of a word that the kernel makes 0 in forked children (`MADV_WIPEONFORK`): what they do is not recorded then.
    /// 0: it counts as the parent's. Set by itself.
    pub not_a_child: AtomicU64,
}

/// See [`Globals`]. The loader of an image sets them from outside.
#[allow(non_upper_case_globals)]
pub static transect_probe_globals: Globals = Globals {
    header: AtomicU64::new(0),
    keys: AtomicU64::new(0),
    pool: AtomicU64::new(0),
    mask: AtomicU64::new(0),
    stack_end: AtomicU64::new(0),
    xsave_size: AtomicU64::new(0),
    xsave_mask: AtomicU64::new(0),
    layered: AtomicU64::new(0),
    scopes: AtomicU64::new(0),
    regions: AtomicU64::new(0),
    tid_offset: AtomicU64::new(0),
    flow_region: AtomicU64::new(0),
    no_clock: AtomicU64::new(0),
    not_a_child: AtomicU64::new(0),
};

/// Values for [`Globals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Address of the arena's header.
    pub header: u64,
    /// Address of the keys: `pages` × 8 bytes of zero, private to the process.
    pub keys: u64,
    /// Address of the shadow pages: `pages` × [`SHADOW_PAGE`] bytes of zero, private to the process.
    pub pool: u64,
    /// A power of two, at most [`PAGES`].
    pub pages: u64,
    /// End of the main thread's stack, 0 if unknown.
    pub stack_end: u64,
    /// Another tool takes return addresses in the process, too (an agent that times calls between components). Its tail
    /// calls hide our open frames, so a slot whose frame was left by longjmp is not timed again.
    pub layered: bool,
    /// Address of [`crate::scope::SCOPES_SIZE`] bytes of zero, private to the process; 0 if no function is ever timed by
    /// its callers.
    pub scopes: u64,
}

fn layered(places: &Places) -> u64 {
    if places.layered { u64::MAX } else { 0 }
}

impl Globals {
    /// Sets this image's globals, before the first site is installed.
    ///
    /// The memory named must be what [`Places`] says and must stay mapped for ever.
    pub fn set(&self, places: &Places) {
        let (size, mask) = xsave_area();
        self.header.store(places.header, Ordering::Relaxed);
        self.keys.store(places.keys, Ordering::Relaxed);
        self.pool.store(places.pool, Ordering::Relaxed);
        self.mask.store(places.pages - 1, Ordering::Relaxed);
        self.stack_end.store(places.stack_end, Ordering::Relaxed);
        self.xsave_size.store(size, Ordering::Relaxed);
        self.xsave_mask.store(mask, Ordering::Relaxed);
        self.layered.store(layered(places), Ordering::Relaxed);
        self.scopes.store(places.scopes, Ordering::Relaxed);
    }

    /// The same as an image of bytes, for the globals of another process that runs on this machine.
    pub fn image(places: &Places) -> [u64; 9] {
        let (size, mask) = xsave_area();
        let Places { header, keys, pool, pages, stack_end, scopes, .. } = *places;
        [header, keys, pool, pages - 1, stack_end, size, mask, layered(places), scopes]
    }
}

/// Maps keys and shadow pages in this process: fewer where address space is short. None if not even those fit.
pub fn map() -> Option<(u64, u64, u64)> {
    let mut pages = PAGES as u64;
    while pages >= 256 {
        let keys = pages * 8;
        let memory = syscall::map_private(keys + pages * SHADOW_PAGE as u64);
        if memory > 0 {
            return Some((memory as u64, memory as u64 + keys, pages));
        }
        pages /= 4;
    }
    None
}

/// Size and mask for XSAVE on this CPU: all that the kernel has enabled, but the tile data of AMX (8 KiB that no
/// handler wants).
fn xsave_area() -> (u64, u64) {
    const TILES: u64 = 3 << 17;
    // SAFETY: CPUID has no requirement on x86-64; XGETBV is executed only where OSXSAVE says that it exists.
    unsafe {
        if core::arch::x86_64::__cpuid(1).ecx & (1 << 27) == 0 {
            return (0, 0);
        }
        let (low, high): (u32, u32);
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
        let mask = (u64::from(high) << 32 | u64::from(low)) & !TILES;
        let mut size = 576;
        for component in 2..63 {
            if mask >> component & 1 == 1 {
                let leaf = core::arch::x86_64::__cpuid_count(0xd, component);
                size = size.max(leaf.ebx + leaf.eax);
            }
        }
        (u64::from(size).next_multiple_of(64), mask)
    }
}

/// Where the search for a stack page begins, before it is masked.
pub fn page_hash(page: u64) -> u64 {
    u64::from((page as u32).wrapping_mul(0x9E37_79B1) >> 8)
}

/// Calls `look` with the address of each stack page that has had a frame.
pub fn each_stack_page(mut look: impl FnMut(u64)) {
    let globals = &transect_probe_globals;
    let (keys, mask) = (globals.keys.load(Ordering::Relaxed), globals.mask.load(Ordering::Relaxed));
    if keys == 0 {
        return;
    }
    for index in 0..=mask {
        // SAFETY: `index` is within the keys, which stay mapped (`Globals::set`).
        let key = unsafe { &*((keys + index * 8) as *const AtomicU64) }.load(Ordering::Relaxed);
        if key != 0 {
            look(key << 12);
        }
    }
}

/// The frame of a slot, if its stack page is known.
pub fn find(slot: u64) -> Option<&'static Frame> {
    let globals = &transect_probe_globals;
    let (keys, mask) = (globals.keys.load(Ordering::Relaxed), globals.mask.load(Ordering::Relaxed));
    if keys == 0 {
        return None;
    }
    let page = slot >> 12;
    let mut index = page_hash(page);
    for _ in 0..64 {
        index &= mask;
        // SAFETY: `index` is within the keys, which stay mapped (`Globals::set`).
        let key = unsafe { &*((keys + index * 8) as *const AtomicU64) }.load(Ordering::Relaxed);
        if key == page {
            let frame = globals.pool.load(Ordering::Relaxed) + index * SHADOW_PAGE as u64 + (slot & 0xff8) * 4;
            // SAFETY: the frame lies within the shadow page of `index`; all its fields are atomic.
            return Some(unsafe { &*(frame as *const Frame) });
        }
        if key == 0 {
            return None;
        }
        index += 1;
    }
    None
}

const _: () = assert!(size_of::<Globals>() == 128);
