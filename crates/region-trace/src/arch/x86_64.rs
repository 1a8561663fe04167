//! The event, in assembly: [`x86_64.s`](../../../src/arch/x86_64.s) states its contract.

use core::arch::global_asm;
use core::mem::offset_of;

use transect_event_abi::region_arena::{
    EVENT_BEGIN, EVENT_END, EVENT_KIND_SHIFT, EVENT_RESTORE, RING_EVENTS, RegionEvent, RingRecord,
};

use crate::runtime::{ACTIVE, HOOK, LIVING, look, restored, start};

global_asm!(
    include_str!("x86_64.s"),
    active = sym ACTIVE,
    living = sym LIVING,
    hook = sym HOOK,
    look = sym look,
    restored = sym restored,
    start = sym start,
    WRITTEN = const offset_of!(RingRecord, written),
    LOOK_AT = const offset_of!(RingRecord, look_at),
    EVENTS = const offset_of!(RingRecord, events),
    TICKS = const offset_of!(RegionEvent, ticks),
    WHAT = const offset_of!(RegionEvent, what),
    STACK = const offset_of!(RegionEvent, stack),
    LAST = const RING_EVENTS - 1,
    KIND_SHIFT = const EVENT_KIND_SHIFT,
    BEGIN = const EVENT_BEGIN,
    END = const EVENT_END,
    RESTORE = const EVENT_RESTORE,
);

unsafe extern "C" {
    fn transect_region_agent() -> u64;
}

/// Address of the code of the agent that counts calls between components, to which sites report too; 0 without agent.
pub fn agent() -> u64 {
    // SAFETY: reads a word that the loader has filled in.
    unsafe { transect_region_agent() }
}

// `x86_64.s` multiplies by it.
const _: () = assert!(size_of::<RegionEvent>() == 24);
