//! Functions got by dlsym: one canonical stub per target, charged to the requester.

use core::sync::atomic::{AtomicU32, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::process::{OBJECT_APART, SLOT_DLSYM, SLOT_SHARED};

use crate::arch::{self, syscall as sys};
use crate::elf::{FUNC, IFUNC, bytes_until_zero};
use crate::enter::Registers;
use crate::{arena, object, slot, static_component, taken};

/// Guards the making of stubs. Not waited for long: who can't have it passes the plain address on.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Slot whose target returns its first argument.
static ANSWER: AtomicU32 = AtomicU32::new(0);

extern "C" fn answer(value: u64) -> u64 {
    value
}

/// Reserves the slot through which an answer of ours is returned.
pub fn prepare() {
    if let Some(s) = slot::reserve(1) {
        slot::set_target(s, answer as *const () as u64);
        ANSWER.store(s, Ordering::Release);
    }
}

/// Whether [`answer_with`] works.
pub fn can_answer() -> bool {
    ANSWER.load(Ordering::Acquire) != 0
}

/// The call returns `value` and is not made.
pub fn answer_with(r: &mut Registers, value: u64) {
    r.rdi = value;
    r.slot = ANSWER.load(Ordering::Acquire).into();
}

/// `dlsym(handle, name)` in progress: with an explicit handle the result may become a stub. Pseudo-handles depend on
/// the caller's address and pass through untouched.
///
/// # Safety
/// `r` holds the arguments of the call through `slot`.
pub unsafe fn redirect(slot: u32, r: &mut Registers) {
    let (handle, name) = (r.rdi, r.rsi);
    if handle == 0 || handle == u64::MAX || !can_answer() || name == 0 || slot::target(slot) == 0 {
        return;
    }
    // SAFETY: the target is dlsym or dlvsym (or the PLT entry that will bind it), called with the program's arguments.
    unsafe {
        let real: extern "C" fn(u64, u64, u64) -> u64 = core::mem::transmute(slot::target(slot));
        let result = real(handle, name, r.rdx);
        let caller = slot::edge(slot).0;
        let found = if result == 0 { 0 } else { stub_for(result, bytes_until_zero(name as *const u8), caller) };
        answer_with(r, found);
    }
}

/// The address to hand out for a dlsym result.
unsafe fn stub_for(address: u64, name: &[u8], requester: u16) -> u64 {
    if arch::slot_of_stub(address).is_some() {
        return address;
    }
    let Some(callee) = object::find(address) else { return address };
    let apart = object::record(callee).flags.load(Ordering::Relaxed) & OBJECT_APART != 0;
    if apart || callee == static_component::object_of(requester) || keeps_own_convention(name) {
        return address;
    }
    let api = arena::api(name);
    if api.is_some_and(|a| a.handler == handler::REFUSE || a.handler == handler::DLSYM) {
        return address;
    }
    // SAFETY: the object is loaded: the program has just got an address in it.
    let function = unsafe {
        object::image(callee).is_some_and(|image| {
            image.executable(address) && image.lookup(name).is_some_and(|s| matches!(s.kind(), FUNC | IFUNC))
        })
    };
    if !function || taken::is_taken(address) {
        return address;
    }
    for _ in 0..1000 {
        if LOCK.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let stub = make(address, name, requester, callee, api);
            LOCK.store(0, Ordering::Release);
            return stub;
        }
        sys::sched_yield();
    }
    address
}

/// Names that no C compiler makes, such as `plugin.Work` of Go: such code keeps no register for its caller, and looks for return
/// addresses on stacks that it moves.
fn keeps_own_convention(name: &[u8]) -> bool {
    !name.starts_with(b"_") && name.contains(&b'.')
}

fn make(
    address: u64,
    name: &[u8],
    requester: u16,
    callee: u16,
    api: Option<&transect_event_abi::api_table::ApiEntry>,
) -> u64 {
    // One stub per target: the program may compare what it got twice.
    let used = crate::process::header().slot_count.load(Ordering::Relaxed);
    for s in 1..used {
        let kind = slot::record(s).kind.load(Ordering::Relaxed);
        if (kind >> 16) as u8 & SLOT_DLSYM != 0 && slot::record(s).target.load(Ordering::Relaxed) == address {
            if slot::edge(s).0 != requester {
                slot::record(s).kind.fetch_or((SLOT_SHARED as u32) << 16, Ordering::Relaxed);
            }
            return arch::stub(s);
        }
    }
    let Some(symbol) = slot::keep_name(name) else { return address };
    let Some(s) = slot::reserve(1) else { return address };
    slot::describe(s, requester, symbol, 0, api, name, SLOT_DLSYM);
    slot::set_target(s, address);
    slot::set_callee(s, callee, address);
    arch::stub(s)
}

/// In the child of a fork nobody holds the lock.
pub fn forked() {
    LOCK.store(0, Ordering::Relaxed);
}
