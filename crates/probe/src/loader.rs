//! Objects that come and go: a probe on the loader's event function (`_dl_debug_state`, the `r_brk` of `r_debug`)
//! tells the controller, and waits a moment so that probes stand before the new object's code runs. The loader calls it
//! twice each time, before and after; only what changes its list is told.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::probe_arena::{ProbeHeader, object_hash};

use crate::arch::x86_64::syscall;
use crate::descriptor::Registers;
use crate::frame::transect_probe_globals;

/// Longest wait for the controller, ns: it is alive and polls, or it is gone.
const PATIENCE: u64 = 50_000_000;

/// [`sum_of`] the list at the last event of this process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The loader's `struct r_debug`; `next` is there from version 2 on.
#[repr(C)]
struct Rendezvous {
    version: i32,
    objects: *const LinkMap,
    event_function: u64,
    state: u64,
    loader_base: u64,
    next: *const Rendezvous,
}

/// The public part of the loader's `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: u64,
    name: *const u8,
    dynamic: u64,
    next: *const LinkMap,
}

/// A sum over the objects of all name spaces that the controller wants to know of: another one if any came or went.
///
/// # Safety
/// `list` is null or the loader's, and the loader's lock is held.
unsafe fn sum_of(list: *const Rendezvous, header: &ProbeHeader) -> u64 {
    let (mut sum, mut space) = (0u64, list);
    // SAFETY: lists and names are the loader's, which waits for us.
    unsafe {
        while !space.is_null() {
            let mut object = (*space).objects;
            while !object.is_null() {
                let mut length = 0;
                while !(*object).name.is_null() && *(*object).name.add(length) != 0 {
                    length += 1;
                }
                let name = if length == 0 { &[] } else { core::slice::from_raw_parts((*object).name, length) };
                let hash = object_hash(name);
                if !header.left_alone.iter().any(|left| left.load(Ordering::Relaxed) == hash) {
                    let place = (*object).bias ^ (*object).dynamic.rotate_left(32);
                    sum = sum.wrapping_add((hash ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                }
                object = (*object).next;
            }
            space = if (*space).version >= 2 { (*space).next } else { core::ptr::null() };
        }
    }
    sum
}

/// The handler (vector tier, entry).
pub extern "C" fn loader_event(_id: u32, _registers: &Registers, _vectors: u64, _cookie: u64) -> u64 {
    let address = transect_probe_globals.header.load(Ordering::Relaxed);
    if address == 0 {
        return 0;
    }
    // SAFETY: `Globals::set` was given the arena's header, which is never unmapped.
    let header = unsafe { &*(address as *const ProbeHeader) };
    let list = header.loader_list.load(Ordering::Relaxed) as *const Rendezvous;
    if !list.is_null() {
        // SAFETY: the controller found the list in the loader, which calls us with its lock held.
        let sum = unsafe { sum_of(list, header) };
        if LAST.swap(sum, Ordering::Relaxed) == sum {
            return 0;
        }
    }
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
