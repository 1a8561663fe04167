//! Objects that come and go: a probe on the loader's event function (`_dl_debug_state`, the `r_brk` of `r_debug`)
//! tells the controller, and waits a moment so that probes stand before the new object's code runs.

use core::sync::atomic::Ordering;

use transect_event_abi::probe_arena::ProbeHeader;

use crate::arch::x86_64::syscall;
use crate::descriptor::Registers;
use crate::frame::transect_probe_globals;

/// Longest wait for the controller, ns: it is alive and polls, or it is gone.
const PATIENCE: u64 = 50_000_000;

/// The handler (vector tier, entry).
pub extern "C" fn loader_event(_id: u32, _registers: &Registers, _vectors: u64, _cookie: u64) -> u64 {
    let address = transect_probe_globals.header.load(Ordering::Relaxed);
    if address == 0 {
        return 0;
    }
    // SAFETY: `Globals::set` was given the arena's header, which stays mapped.
    let header = unsafe { &*(address as *const ProbeHeader) };
    let event = header.loader_events.fetch_add(1, Ordering::Release) + 1;
    if header.confined.load(Ordering::Relaxed) != 0 {
        // The program's filter may end it for a call that it does not know. The controller looks now and then, too.
        return 0;
    }
    syscall::futex_wake(&header.loader_events);
    if header.controller.load(Ordering::Acquire) != 0 {
        let done = header.loader_done.load(Ordering::Acquire);
        if (done.wrapping_sub(event) as i32) < 0 {
            syscall::futex_wait(&header.loader_done, done, PATIENCE);
        }
    }
    0
}
