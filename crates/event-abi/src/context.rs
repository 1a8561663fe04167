//! The extent of one context of one thread: counters of the flows that were called while the thread was in a stack of
//! feature regions. Laid out like a thread's ([`crate::thread`]) from its counters on; the thread's stubs count here while
//! the context lasts, so that a context costs nothing per call.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Regions in the longest stack that is told apart; deeper ones belong to it.
pub const CONTEXT_DEPTH: usize = 64;
/// Contexts of one thread, recursion included; calls in further ones are counted in the context around them.
pub const CONTEXT_CAPACITY: usize = 1024;
/// Symbol of the agent: a word that holds the address of the code to which sites of regions report. The runtime of
/// compiled-in events refers to it weakly, so that the loader puts the two together before any code runs.
///
/// That code is called with rdi = what happens ([`crate::region_arena::RegionEvent::what`]), rsi = the stack pointer at the
/// site, edx = for a begin or an end the number of its region plus one, or 0 where that is not known, for a restore how many
/// regions of the frame stay open, or [`UNKNOWN`]. It keeps every register, the vector registers and the flags, and uses the
/// stack below the caller's.
pub const HOOK_SYMBOL: &str = "transect_flow_region_hook";
/// It is not known how many regions of the frame stay open: those of frames that are gone are closed.
pub const UNKNOWN: u32 = u32::MAX;

/// Head of a context's extent.
#[repr(C)]
pub struct ContextHeader {
    /// Extent of its process.
    pub process: AtomicU32,
    /// Extent of its thread.
    pub thread: AtomicU32,
    /// Regions in [`ContextHeader::sites`]; 0 while it is set up.
    pub depth: AtomicU32,
    /// Zero.
    pub reserved: u32,
    /// Where the regions began, outermost first: addresses of the sites in the process.
    pub sites: [AtomicU64; CONTEXT_DEPTH],
}

const _: () = assert!(size_of::<ContextHeader>() <= 4096);
const _: () = assert!(core::mem::offset_of!(ContextHeader, sites) == 16);
