//! Contexts: while a thread is in regions of features, its calls count in an array of their own.
//!
//! Sites of regions report here ([`enter_region`], through `transect_flow_region`); the thread's stubs are pointed at the
//! counters of the context, so that a call costs what it costs without. A thread's table is a private mapping, made at its
//! first region. What can't be told apart (no extent left, too many contexts, regions too deep) counts in the context
//! around it, and that is counted.
//!
//! A signal handler may pass sites at any instruction of this. The regions that are open change by one compare-and-swap of
//! a word that counts the changes, so the change that was interrupted begins anew; a context is in the tree once it is
//! whole.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use transect_event_abi::arena::{EXTENT_CONTEXT, EXTENT_COUNT};
use transect_event_abi::context::{CONTEXT_CAPACITY, CONTEXT_DEPTH, ContextHeader, UNKNOWN};
use transect_event_abi::region_arena::{EVENT_BEGIN, EVENT_END, EVENT_KIND_SHIFT};
use transect_event_abi::thread::COUNTERS_OFFSET;

use crate::arch::{self, syscall as sys};
use crate::thread::ThreadState;
use crate::{arena, extent_map, process, thread};

/// Open regions that are remembered; deeper ones change nothing.
const OPEN_CAPACITY: usize = 1 << 14;
/// The thread as a whole: number of its context.
const WHOLE: u16 = 0;
/// Extents that contexts leave to threads and processes.
const RESERVED_EXTENTS: u32 = EXTENT_COUNT as u32 / 4;
/// In place of an extent: there was none to be had.
const REFUSED: u32 = u32::MAX;

/// One context of the thread, by the site where its last region began. All-zero is valid.
#[repr(C)]
struct Context {
    site: AtomicU64,
    /// Its extent; 0: none yet in this process.
    extent: AtomicU32,
    /// The context around it.
    parent: AtomicU16,
    /// The first context inside of it, 0 if there is none.
    child: AtomicU16,
    /// The next one inside of its parent.
    sibling: AtomicU16,
    /// Where calls count: itself, or the context around it where its region is open already, as in recursion.
    same_as: AtomicU16,
    /// Regions in it.
    depth: AtomicU16,
}

/// A region that has begun. All-zero is valid.
#[repr(C)]
struct Open {
    /// Stack pointer at its site.
    sp: AtomicU64,
    /// Its number plus one, where whoever reports knows it; else 0.
    region: AtomicU32,
    /// The context in it.
    inside: AtomicU16,
}

/// Contexts and open regions of a thread, in pages of their own that begin as zeros.
#[repr(C)]
pub struct Contexts {
    /// Low half: regions open (those beyond the capacity are only counted); high half: changes.
    state: AtomicU64,
    /// Contexts made, the whole thread aside.
    made: AtomicU16,
    known: [Context; CONTEXT_CAPACITY + 1],
    /// Bits: extents of contexts.
    extents: [AtomicU64; EXTENT_COUNT / 64],
    open: [Open; OPEN_CAPACITY],
}

/// Maps a table; `None` if there is no memory.
fn map() -> Option<&'static Contexts> {
    let (rights, flags) =
        (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE);
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    let at = unsafe { sys::mmap(0, size_of::<Contexts>() as u64, rights, flags, -1, 0) };
    // SAFETY: zeroed pages are a valid table; they stay mapped.
    (at > 0).then(|| unsafe { &*(at as *const Contexts) })
}

impl Contexts {
    /// Forgets everything: the table passes to another thread.
    pub fn clear(&self) {
        self.made.store(0, Relaxed);
        self.known[WHOLE as usize].child.store(0, Relaxed);
        self.state.store(0, Relaxed);
        self.extents.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Extents of the contexts.
    pub fn extents(&self) -> impl Iterator<Item = u32> {
        let words = (0..).zip(&self.extents).map(|(at, word)| (at, word.load(Relaxed)));
        words
            .filter(|word| word.1 != 0)
            .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }

    /// True if one of the contexts has this extent.
    pub fn has(&self, extent: u32) -> bool {
        self.extents.get(extent as usize / 64).is_some_and(|word| word.load(Relaxed) >> (extent % 64) & 1 == 1)
    }

    fn context(&self, number: u16) -> &Context {
        &self.known[number as usize]
    }

    /// The context while this many regions are open.
    fn at(&self, opened: u32) -> u16 {
        let last = (opened as usize).min(OPEN_CAPACITY);
        if last == 0 { WHOLE } else { self.open[last - 1].inside.load(Relaxed) }
    }

    fn sp(&self, opened: u32) -> u64 {
        self.open[opened as usize - 1].sp.load(Relaxed)
    }

    /// How many stay open of those whose frames are not gone, where the stack pointer is `sp`.
    fn without_left(&self, opened: u32, sp: u64) -> u32 {
        let mut rest = opened.min(OPEN_CAPACITY as u32);
        // What lies deeper than is remembered goes with the last that is.
        if rest < opened && self.sp(rest) >= sp {
            return opened;
        }
        while rest > 0 && self.sp(rest) < sp {
            rest -= 1;
        }
        rest
    }

    /// How many stay open after the end of a region.
    fn without(&self, opened: u32, sp: u64, region: u32) -> u32 {
        if opened as usize > OPEN_CAPACITY || region == 0 {
            return opened.saturating_sub(1);
        }
        // Sites may have been switched off in between: the one that it belongs to is looked for.
        let is = |place: &u32| self.open[*place as usize].region.load(Relaxed) == region;
        let here = (0..opened).rev().take_while(|&place| self.sp(place + 1) <= sp).find(is);
        here.or_else(|| (0..opened).rev().find(is)).unwrap_or(opened)
    }

    /// How many stay open when control has come back into a frame, of which `rest` regions are open.
    fn restored(&self, opened: u32, sp: u64, rest: u32) -> u32 {
        if rest == UNKNOWN || opened as usize > OPEN_CAPACITY {
            return opened;
        }
        let frame = (0..opened).rev().take_while(|&place| self.sp(place + 1) == sp).count() as u32;
        opened - frame + frame.min(rest)
    }

    /// The context of a region that begins in another one; `None` if it can't be told apart.
    fn inside(&self, around: u16, site: u64) -> Option<u16> {
        let mut child = self.context(around).child.load(Relaxed);
        while child != 0 {
            let known = self.context(child);
            if known.site.load(Relaxed) == site {
                return Some(known.same_as.load(Relaxed));
            }
            child = known.sibling.load(Relaxed);
        }
        self.make(around, site)
    }

    fn make(&self, around: u16, site: u64) -> Option<u16> {
        let depth = self.context(around).depth.load(Relaxed) * u16::from(around != WHOLE) + 1;
        if self.made.load(Relaxed) as usize >= CONTEXT_CAPACITY || depth as usize > CONTEXT_DEPTH {
            return None;
        }
        // A handler that comes now takes the next one.
        let number = self.made.fetch_add(1, Relaxed) + 1;
        if number as usize > CONTEXT_CAPACITY {
            self.made.fetch_sub(1, Relaxed);
            return None;
        }
        let mut same_as = number;
        // A region that is open already changes no set: recursion makes no contexts.
        let mut outer = around;
        while outer != WHOLE {
            if self.context(outer).site.load(Relaxed) == site {
                same_as = around;
            }
            outer = self.context(outer).parent.load(Relaxed);
        }
        let new = self.context(number);
        new.site.store(site, Relaxed);
        new.extent.store(0, Relaxed);
        new.parent.store(around, Relaxed);
        new.child.store(0, Relaxed);
        new.same_as.store(same_as, Relaxed);
        new.depth.store(depth, Relaxed);
        let first = &self.context(around).child;
        let mut next = first.load(Relaxed);
        loop {
            new.sibling.store(next, Relaxed);
            match first.compare_exchange(next, number, Release, Relaxed) {
                Ok(_) => return Some(same_as),
                Err(other) => next = other,
            }
        }
    }

    /// The extent of a context, or of the one around it that has one; 0 for the thread's own.
    ///
    /// # Safety
    /// `state` is the calling thread's.
    unsafe fn extent_of(&self, state: *mut ThreadState, mut number: u16) -> u32 {
        while number != WHOLE {
            let context = self.context(number);
            let mut extent = context.extent.load(Relaxed);
            if extent == 0 {
                // SAFETY: see above.
                extent = unsafe { self.allocate(state, number) }.unwrap_or(REFUSED);
                // A handler that came in between has made another one, which is kept in the list: both are read.
                context.extent.store(extent, Relaxed);
            }
            if extent != REFUSED {
                return extent;
            }
            number = context.parent.load(Relaxed);
        }
        0
    }

    unsafe fn allocate(&self, state: *mut ThreadState, number: u16) -> Option<u32> {
        if arena::header().next_extent.load(Relaxed) > EXTENT_COUNT as u32 - RESERVED_EXTENTS {
            return None;
        }
        let extent = arena::allocate(EXTENT_CONTEXT)?;
        // SAFETY: a fresh extent of this process, begun by its header; the thread's header is its own.
        unsafe {
            let h = &*(extent_map::address(extent) as *const ContextHeader);
            h.process.store(process::extent(), Relaxed);
            h.thread.store(extent_map::number_at((*state).header.cast()).unwrap_or(0), Relaxed);
            let depth = self.context(number).depth.load(Relaxed);
            let mut at = number;
            for cell in h.sites[..depth as usize].iter().rev() {
                cell.store(self.context(at).site.load(Relaxed), Relaxed);
                at = self.context(at).parent.load(Relaxed);
            }
            h.depth.store(depth.into(), Release);
        }
        self.extents[extent as usize / 64].fetch_or(1 << (extent % 64), Relaxed);
        Some(extent)
    }

    /// One site is passed.
    ///
    /// # Safety
    /// `state` is the calling thread's.
    unsafe fn pass(&self, state: *mut ThreadState, what: u64, sp: u64, more: u32) {
        loop {
            let before = self.state.load(Relaxed);
            let opened = self.without_left(before as u32, sp);
            let mut lost = false;
            let rest = match what >> EVENT_KIND_SHIFT {
                EVENT_BEGIN => {
                    let around = self.at(opened);
                    let inside = self.inside(around, what & ((1 << EVENT_KIND_SHIFT) - 1));
                    lost = inside.is_none() || opened as usize >= OPEN_CAPACITY;
                    if let Some(open) = self.open.get(opened as usize) {
                        open.sp.store(sp, Relaxed);
                        open.region.store(more, Relaxed);
                        open.inside.store(inside.unwrap_or(around), Relaxed);
                    }
                    opened + 1
                }
                EVENT_END => self.without(opened, sp, more),
                _ => self.restored(opened, sp, more),
            };
            let after = (before >> 32).wrapping_add(1) << 32 | u64::from(rest);
            // SAFETY: this thread's word; a handler that came in between has counted on.
            if unsafe { arch::compare_exchange_own(self.state.as_ptr().cast::<*mut u8>(), before as _, after as _) } {
                if lost {
                    // SAFETY: the calling thread's header.
                    unsafe { (*(*state).header).merged_regions.fetch_add(1, Relaxed) };
                }
                return;
            }
        }
    }

    /// Points the thread's stubs at the counters of its context.
    ///
    /// # Safety
    /// `state` is the calling thread's.
    unsafe fn switch(&self, state: *mut ThreadState) {
        loop {
            let before = self.state.load(Relaxed);
            // SAFETY: `state` is the calling thread's; its extents stay mapped.
            unsafe {
                let base = match self.extent_of(state, self.at(before as u32)) {
                    0 => (*state).header.cast::<u8>(),
                    extent => extent_map::address(extent),
                };
                arch::set_counters(base.add(COUNTERS_OFFSET).cast());
            }
            // A handler that was left by a jump may have come in between.
            if self.state.load(Relaxed) == before {
                return;
            }
        }
    }
}

/// A thread passes a site: `what` as in a region event, `sp` its stack pointer there; `more`: for a begin or an end the
/// number of its region plus one, or 0; for a restore how many regions of the frame stay open, or [`UNKNOWN`].
///
/// # Safety
/// Called by `transect_flow_region` only, on the thread that passes the site.
pub unsafe extern "C" fn enter_region(what: u64, sp: u64, more: u32) {
    let mut state = arch::thread();
    if state.is_null() {
        if thread::has_ended() || process::base().is_null() {
            return;
        }
        state = thread::register_unseen();
    }
    // SAFETY: the calling thread's own state. A coroutine's or a signal's stack says nothing about frames of ours.
    unsafe {
        if state.is_null() || (*state).stopped != 0 || (*state).stack_low != 0 && !thread::on_own_stack(state, sp) {
            return;
        }
        if (*state).contexts.is_none() {
            // A handler that comes in between maps one that is lost.
            (*state).contexts = map();
            crate::lock::end_leases();
        }
        match (*state).contexts {
            Some(contexts) => {
                contexts.pass(state, what, sp, more);
                contexts.switch(state);
            }
            None => _ = (*(*state).header).merged_regions.fetch_add(1, Relaxed),
        }
    }
}

/// In the child of a fork: the thread is in the same regions, with counters of its own.
///
/// # Safety
/// `state` is the calling thread's, and has a new record.
pub unsafe fn reopen(state: *mut ThreadState) {
    // SAFETY: see above.
    unsafe {
        let Some(contexts) = (*state).contexts else { return };
        contexts.known.iter().for_each(|known| known.extent.store(0, Relaxed));
        contexts.extents.iter().for_each(|word| word.store(0, Relaxed));
        contexts.switch(state);
    }
}

const _: () = assert!(CONTEXT_CAPACITY < u16::MAX as usize && size_of::<ContextHeader>() <= COUNTERS_OFFSET);
const _: () = assert!(EXTENT_COUNT.is_multiple_of(64));
