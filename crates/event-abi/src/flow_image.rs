//! The image that counts calls between components in a process that runs already: what whoever maps it fills in.

use core::sync::atomic::AtomicU64;

use crate::thread::FlowCounters;

/// Name of the image's table of addresses, one word each, in the order of the constants below.
pub const SYMBOL: &str = "transect_flow_image";
/// Word of the stubs: stub `i` counts a call through slot `i` and goes on to target `i`.
pub const STUBS: u64 = 0;
/// Word of the targets, an address per slot.
pub const TARGETS: u64 = 1;
/// Word of the [`Settings`].
pub const SETTINGS: u64 = 2;
/// Bytes from one stub to the next.
pub const STUB_SIZE: u64 = 64;
/// Threads' numbers are below this on every machine (the kernel's `PID_MAX_LIMIT`), so a table by number needs no search.
pub const THREADS: usize = 1 << 22;
/// Bytes of the table: the address of a thread's first [`FlowCounters`] by its number, 0 if it has none yet; then a word that
/// is not 0. Children of the process find all of it empty (`MADV_WIPEONFORK`), whatever made them.
pub const TABLE_SIZE: u64 = (THREADS * 8 + 4096) as u64;

/// What the stubs are told.
#[repr(C)]
#[derive(Default)]
pub struct Settings {
    /// Where a thread's number stands, from its thread pointer on: its C library writes it there before the thread runs.
    pub number: AtomicU64,
    /// Address of the table.
    pub table: AtomicU64,
    /// Address of the arena, all of which is mapped.
    pub arena: AtomicU64,
    /// The extent of the process.
    pub process: AtomicU64,
}

/// Bytes of [`Settings`].
pub const SETTINGS_SIZE: usize = size_of::<Settings>();

const _: () = assert!(size_of::<FlowCounters>() == 64);
