//! Patching of words, calls and windows of the program's own.

use std::sync::atomic::{AtomicU64, Ordering};

use transect_text_patch::batch::{self, BatchReport};
use transect_text_patch::form;
use transect_text_patch::page;
use transect_text_patch::word::{self, Pacing, WordPatch};
use transect_text_patch::writable;
use transect_text_patch::{CallSite, Refusal, WINDOW_CAPACITY, Window};

use super::last_error::{code, keep};
use super::layout::*;
use super::sites::null;
use crate::error::{Error, patch_status};
use crate::registry;
use crate::status::Status;

const _: () = assert!(WINDOW_CAPACITY == 19, "transect.h says 19");

/// Ticks to wait for instead of serializing; `u64::MAX`: serialize.
static WAIT: AtomicU64 = AtomicU64::new(u64::MAX);

fn pacing() -> Pacing {
    match WAIT.load(Ordering::Relaxed) {
        u64::MAX => Pacing::Serialize,
        ticks => Pacing::Wait(ticks),
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::Patch { function: "patch".into(), refusal }
}

/// Runs `attempt` with a patch whose pages are prepared: no lock and no system call, once they are.
#[inline]
unsafe fn on_word<T>(
    patch: *const TransectWordPatch,
    attempt: impl Fn(&WordPatch) -> Result<T, Refusal>,
) -> Result<T, Error> {
    // SAFETY: the caller's: null or readable.
    let patch = unsafe { patch.as_ref() }.ok_or_else(|| null("patch"))?;
    if !(1..=8).contains(&patch.length) {
        return Err(Error::Argument(format!("transect_word_patch.length is {}", patch.length)));
    }
    let (address, length) = (patch.address, u64::from(patch.length));
    let (old, new, moved) = (patch.old_bytes, patch.new_bytes, patch.moved);
    let at = |alias| WordPatch { address, alias, length: length as u8, old, new, moved };
    // Pages are prepared by an initialized library only.
    if let Some(alias) = page::place(address, length) {
        match attempt(&at(alias)) {
            Err(Refusal::Unmapped { .. }) => {}
            other => return other.map_err(refused),
        }
    }
    page::forget(address, length);
    let alias = prepare_word(address, length)?;
    attempt(&at(alias)).map_err(refused)
}

#[cold]
fn prepare_word(address: u64, length: u64) -> Result<u64, Error> {
    let access = registry::lock_initialized()?.policy.access;
    page::prepare(address, length, access).map_err(refused)
}

/// `transect_prepare_word`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_prepare_word(address: u64, length: u32) -> i32 {
    if !(1..=8).contains(&length) {
        return keep(&Error::Argument(format!("a word of {length} bytes")));
    }
    code(prepare_word(address, length.into()).map(|_| ()))
}

/// `transect_set_serialization`.
#[unsafe(no_mangle)]
pub extern "C" fn transect_set_serialization(serialization: u32, ticks: u64) -> i32 {
    match serialization {
        0 => WAIT.store(u64::MAX, Ordering::Relaxed),
        1 if ticks != u64::MAX => WAIT.store(ticks, Ordering::Relaxed),
        _ => return keep(&Error::Argument(format!("no serialization {serialization} with {ticks} ticks"))),
    }
    Status::Ok.code()
}

/// `transect_patch`.
///
/// # Safety
/// As transect.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_patch(patch: *const TransectWordPatch) -> i32 {
    // SAFETY: the caller's: null or readable.
    if let Some(given) = unsafe { patch.as_ref() }
        && let Some(alias) = page::place_in_page(given.address, given.length.into())
    {
        let length = u8::try_from(given.length).unwrap_or(0);
        let (address, old, new, moved) = (given.address, given.old_bytes, given.new_bytes, given.moved);
        // SAFETY: the caller's.
        if unsafe { word::patch_at_once(&WordPatch { address, alias, length, old, new, moved }) } {
            return 1;
        }
    }
    // SAFETY: the caller's.
    unsafe { patch_slowly(patch) }
}

#[cold]
#[inline(never)]
unsafe fn patch_slowly(patch: *const TransectWordPatch) -> i32 {
    let pacing = pacing();
    // SAFETY: the caller's.
    let done = unsafe { on_word(patch, |patch| word::patch_paced(patch, pacing)) };
    done.map_or_else(|error| keep(&error), i32::from)
}

/// `transect_start_patch`.
///
/// # Safety
/// As transect.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_start_patch(patch: *const TransectWordPatch) -> i32 {
    let pacing = pacing();
    // SAFETY: the caller's. What is pending is found by its address.
    let started = unsafe { on_word(patch, |patch| word::start_patch(patch, pacing).map(|pending| pending.is_some())) };
    started.map_or_else(|error| keep(&error), i32::from)
}

/// `transect_finish_patch`.
///
/// # Safety
/// As transect.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_finish_patch(patch: *const TransectWordPatch) -> i32 {
    // SAFETY: the caller's.
    let Some(patch) = (unsafe { patch.as_ref() }) else { return keep(&null("patch")) };
    // SAFETY: the patch was started by the caller, who has vouched for its words.
    let finished = unsafe { word::finish_patch_at(patch.address) };
    finished.map_or_else(|refusal| keep(&refused(refusal)), i32::from)
}

fn prepare(address: u64, opcode: u8, target: u64, idle: u64, original: [u8; 5]) -> Result<CallSite, Error> {
    if !matches!(opcode, form::CALL | form::JUMP) {
        return Err(Error::Argument(format!("opcode {opcode:#04x} is neither a call (0xe8) nor a jump (0xe9)")));
    }
    let policy = registry::lock_initialized()?.policy;
    let on = form::transfer(opcode, address, target).map_err(refused)?;
    let off = form::off_form(address, on, idle).map_err(refused)?;
    let alias = writable::open_for_toggling(address, address + 5, policy.access).map_err(refused)?.of(address);
    let site = CallSite::new(address, alias, on, off).map_err(refused)?;
    let mut window = Window {
        address,
        length: 5,
        old: [0; WINDOW_CAPACITY],
        new: [0; WINDOW_CAPACITY],
        starts: 1,
        moves: [0; WINDOW_CAPACITY],
    };
    window.old[..5].copy_from_slice(&original);
    window.new[..5].copy_from_slice(&off);
    window.moves[0] = address;
    // SAFETY: the caller of the C function says what stands there; it is compared before anything is written.
    unsafe { batch::apply(&mut [window], &policy) }.map_err(refused)?;
    Ok(site)
}

/// `transect_prepare_call`.
///
/// # Safety
/// As transect.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_prepare_call(
    site: *mut TransectCallSite,
    address: u64,
    opcode: u8,
    target: u64,
    idle: u64,
    original: *const [u8; 5],
) -> i32 {
    if site.is_null() || original.is_null() {
        return keep(&null(if site.is_null() { "site" } else { "original" }));
    }
    // SAFETY: the caller's: five bytes; and room for a call site, whose size was compared with the header's.
    unsafe {
        code(prepare(address, opcode, target, idle, *original).map(|prepared| site.cast::<CallSite>().write(prepared)))
    }
}

unsafe fn switch(site: *const TransectCallSite, on: bool) -> i32 {
    // SAFETY: the caller's: null, or prepared by `transect_prepare_call`, after which the code is writable for good.
    unsafe {
        let Some(site) = site.cast::<CallSite>().as_ref() else { return Status::Argument.code() };
        let done = if on { site.activate_call() } else { site.deactivate_call() };
        done.map_or_else(|refusal| patch_status(&refusal).code(), |()| Status::Ok.code())
    }
}

/// `transect_activate_call`.
///
/// # Safety
/// `site` was prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_activate_call(site: *const TransectCallSite) -> i32 {
    // SAFETY: the caller's.
    unsafe { switch(site, true) }
}

/// `transect_deactivate_call`.
///
/// # Safety
/// `site` was prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_deactivate_call(site: *const TransectCallSite) -> i32 {
    // SAFETY: the caller's.
    unsafe { switch(site, false) }
}

/// `transect_patch_windows`.
///
/// # Safety
/// As transect.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transect_patch_windows(
    windows: *const TransectWindow,
    count: usize,
    report: *mut TransectBatchReport,
) -> i32 {
    if count != 0 && windows.is_null() {
        return keep(&null("windows"));
    }
    let mut list = Vec::with_capacity(count);
    for i in 0..count {
        // SAFETY: the caller's: `count` windows.
        let given = unsafe { &*windows.add(i) };
        if given.length == 0 || given.length as usize > WINDOW_CAPACITY {
            return keep(&Error::Argument(format!("transect_window.length is {}", given.length)));
        }
        list.push(Window {
            address: given.address,
            length: given.length as u8,
            old: given.old_bytes,
            new: given.new_bytes,
            starts: given.starts,
            moves: given.moves,
        });
    }
    let applied = registry::lock_initialized().and_then(|library| {
        // SAFETY: the caller's: the windows describe code of this process.
        unsafe { batch::apply(&mut list, &library.policy) }.map_err(refused)
    });
    code(applied.map(|done: BatchReport| {
        if !report.is_null() {
            let view = TransectBatchReport {
                written: done.written as u64,
                already: done.already as u64,
                moved: done.moved as u64,
                trapped: done.trapped as u64,
                ticks: done.ticks,
            };
            // SAFETY: the caller's.
            unsafe { report.write(view) };
        }
    }))
}
