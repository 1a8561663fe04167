//! The library's memory: counters and histograms in the layout of a controller's arena, and the slots of the sites.
//!
//! All of it is one private anonymous mapping that is never moved or unmapped: signal handlers and probes may look
//! at it at any time, pages cost memory only once written, and a child made by fork has a copy.

use std::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::probe_arena::{
    CODE_OFFSET, HISTOGRAM_SIZE, HISTOGRAMS_OFFSET, SHARDS, SHARDS_OFFSET, SITE_CAPACITY, SITES_OFFSET, SiteCounters,
    SiteRecord,
};
use transect_event_abi::thread::HISTOGRAM_BUCKETS;
use transect_probe::frame::{self, Places, transect_probe_globals};

use crate::error::Error;
use crate::slot::Slot;

/// Offset of the slots.
const SLOTS_OFFSET: u64 = CODE_OFFSET;
/// Offset of the addresses of the handlers' bindings, one for each id.
const BINDINGS_OFFSET: u64 = SLOTS_OFFSET + (SITE_CAPACITY * size_of::<Slot>()) as u64;
/// Bytes of the mapping.
const SIZE: u64 = BINDINGS_OFFSET + (SITE_CAPACITY * 8) as u64;

static BASE: AtomicU64 = AtomicU64::new(0);

/// Maps the memory and tells the handlers of it, once; the caller holds the library's lock.
///
/// # Errors
/// [`Error::Memory`].
pub fn map() -> Result<(), Error> {
    if BASE.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    // SAFETY: a new mapping touches nothing that exists.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            SIZE as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        let source = std::io::Error::last_os_error();
        return Err(Error::Memory { what: "counters", detail: format!("{SIZE} bytes of address space: {source}") });
    }
    let base = memory as u64;
    let Some((keys, pool, pages)) = frame::map() else {
        // SAFETY: mapped above, known to nobody.
        unsafe { libc::munmap(memory, SIZE as usize) };
        return Err(Error::Memory { what: "shadow frames", detail: "address space is limited (ulimit -v)".into() });
    };
    transect_probe_globals.set(&Places {
        header: base,
        keys,
        pool,
        pages,
        stack_end: main_stack_end(),
        layered: false,
        scopes: 0,
    });
    crate::arch::set_bindings(base + BINDINGS_OFFSET);
    BASE.store(base, Ordering::Release);
    Ok(())
}

/// End of the main thread's stack, 0 if unknown.
fn main_stack_end() -> u64 {
    let Ok(text) = std::fs::read("/proc/self/maps") else { return 0 };
    // Paths may hold any bytes.
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .find(|line| line.ends_with("[stack]"))
        .and_then(|line| line.split_once(' ')?.0.split_once('-'))
        .and_then(|(_, end)| u64::from_str_radix(end, 16).ok())
        .unwrap_or(0)
}

#[inline]
fn at<T>(offset: u64) -> Option<&'static T> {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: offsets below SIZE lie in the mapping, which is never unmapped; its types consist of atomics, for which
    // zero is valid.
    (base != 0).then(|| unsafe { &*((base + offset) as *const T) })
}

/// Slot of an id that is below the capacity.
#[inline]
pub fn slot(id: u32) -> Option<&'static Slot> {
    if id as usize >= SITE_CAPACITY {
        return None;
    }
    at(SLOTS_OFFSET + u64::from(id) * size_of::<Slot>() as u64)
}

/// The word that leads from an id to its handler's binding.
#[inline]
pub fn binding(id: u32) -> Option<&'static AtomicU64> {
    if id as usize >= SITE_CAPACITY {
        return None;
    }
    at(BINDINGS_OFFSET + u64::from(id) * 8)
}

/// Record of an id below the capacity.
pub fn record(id: u32) -> Option<&'static SiteRecord> {
    at(SITES_OFFSET + u64::from(id) * size_of::<SiteRecord>() as u64)
}

/// Address of its counters in the first shard.
pub fn counters_address(id: u32) -> u64 {
    BASE.load(Ordering::Acquire) + SHARDS_OFFSET + u64::from(id) * size_of::<SiteCounters>() as u64
}

/// Address of its histogram.
pub fn histogram_address(id: u32) -> u64 {
    BASE.load(Ordering::Acquire) + HISTOGRAMS_OFFSET + u64::from(id) * HISTOGRAM_SIZE
}

/// Its counters in all shards.
pub fn counters(id: u32) -> impl Iterator<Item = &'static SiteCounters> {
    (0..SHARDS as u64).filter_map(move |shard| {
        at(SHARDS_OFFSET + (shard * SITE_CAPACITY as u64 + u64::from(id)) * size_of::<SiteCounters>() as u64)
    })
}

/// Its histogram's buckets.
pub fn histogram(id: u32) -> Option<&'static [std::sync::atomic::AtomicU32; HISTOGRAM_BUCKETS]> {
    at(HISTOGRAMS_OFFSET + u64::from(id) * HISTOGRAM_SIZE)
}
