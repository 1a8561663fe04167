//! Handlers: the built-in ones, and functions of the user's.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use transect_probe::descriptor::WANTS_EXIT;
use transect_probe::{Descriptor, Handler};
use transect_probe_plan::{Event, ExitSupport};

use crate::error::Error;
use crate::slot::{Slot, kind, state};
use crate::status::Status;
use crate::{arch, arena};

/// What a user's handler saves, and may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Tier {
    /// Integer registers only.
    Integer = 1,
    /// Vector registers too.
    Vector = 2,
    /// Everything.
    Full = 3,
}

/// A function at an entry, exit site or point: (id, registers, vectors or full context, data) → cookie.
pub type Enter =
    unsafe extern "C" fn(u32, *mut transect_probe::descriptor::Registers, *mut libc::c_void, *mut libc::c_void) -> u64;
/// A function at an observed exit: (id, registers, vectors or full context, cookie, data).
pub type Exit =
    unsafe extern "C" fn(u32, *mut transect_probe::descriptor::Registers, *mut libc::c_void, u64, *mut libc::c_void);

/// A user's handler as the assembly reads it. Never freed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// See [`Enter`].
    pub enter: Option<Enter>,
    /// See [`Exit`].
    pub exit: Option<Exit>,
    /// Passed on.
    pub data: *mut libc::c_void,
    /// Its tier.
    pub tier: Tier,
    /// 1: upper halves of vector registers are kept for it, since it may call anything; for [`Tier::Vector`] alone.
    pub keeps_uppers: u32,
}

/// Counts calls.
pub const COUNT: u32 = 0;
/// Does nothing.
pub const NOTHING: u32 = 1;
/// Counts and times calls.
pub const TIME: u32 = 2;
/// Number of the first user's handler.
const FIRST: u32 = 16;
/// Users' handlers.
const CAPACITY: usize = 4096;

static BINDINGS: [AtomicPtr<Binding>; CAPACITY] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CAPACITY];
static NEXT: AtomicU32 = AtomicU32::new(0);
static REGISTERING: Mutex<()> = Mutex::new(());

/// Makes a handler known; equal ones get the same number.
///
/// # Errors
/// [`Error::Argument`] without functions, [`Error::Memory`] beyond the capacity.
pub fn register(binding: Binding) -> Result<u32, Error> {
    if binding.enter.is_none() && binding.exit.is_none() {
        return Err(Error::Argument("a handler needs a function for the entry or the exit".into()));
    }
    let _one = REGISTERING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let next = NEXT.load(Ordering::Relaxed);
    let address = |f: Option<Enter>| f.map_or(0, |f| f as usize);
    let exit_address = |f: Option<Exit>| f.map_or(0, |f| f as usize);
    for i in 0..next {
        if let Some(known) = user_binding(FIRST + i)
            && address(known.enter) == address(binding.enter)
            && exit_address(known.exit) == exit_address(binding.exit)
            && known.data == binding.data
            && known.tier == binding.tier
            && known.keeps_uppers == binding.keeps_uppers
        {
            return Ok(FIRST + i);
        }
    }
    let Some(place) = BINDINGS.get(next as usize) else {
        return Err(Error::Memory { what: "handlers", detail: format!("{CAPACITY} are registered") });
    };
    place.store(Box::leak(Box::new(binding)), Ordering::Release);
    NEXT.store(next + 1, Ordering::Release);
    Ok(FIRST + next)
}

#[inline]
fn user_binding(handler: u32) -> Option<&'static Binding> {
    let place = BINDINGS.get(handler.checked_sub(FIRST)? as usize)?;
    // SAFETY: set once, from a leaked box.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// True if calls are timed or their exit is handled: the unwinders' probes must stand.
pub fn wants_exit(handler: u32) -> bool {
    handler == TIME || user_binding(handler).is_some_and(|binding| binding.exit.is_some())
}

/// Gives a site a handler. Wait-free, async-signal-safe.
#[inline]
pub fn set(id: u32, handler: u32) -> Status {
    let Some(slot) = crate::registry::slot(id) else { return Status::NoSite };
    if slot.state.load(Ordering::Acquire) == state::GONE {
        return Status::Gone;
    }
    let binding = user_binding(handler);
    if binding.is_none() && handler > TIME {
        return Status::Argument;
    }
    let Some(info) = slot.info() else { return Status::NoSite };
    if wants_exit(handler) && (info.site.event != Event::Entry || info.site.exit != ExitSupport::PairedCall) {
        return Status::Unsupported;
    }
    slot.handler.store(handler, Ordering::Relaxed);
    if slot.kind.load(Ordering::Relaxed) == kind::FLAG {
        set_binding(id, binding);
        return Status::Ok;
    }
    let descriptor = slot.descriptor.load(Ordering::Acquire);
    if descriptor != 0 {
        // SAFETY: the descriptor's block is never unmapped.
        apply(id, unsafe { &*(descriptor as *const Descriptor) }, handler);
    }
    Status::Ok
}

fn set_binding(id: u32, binding: Option<&'static Binding>) {
    if let Some(place) = arena::binding(id) {
        place.store(binding.map_or(0, |binding| binding as *const Binding as u64), Ordering::Release);
    }
}

/// Writes a descriptor's words. Between two of these stores a call may see the new handler's assembly with the old
/// handler's binding, or the other way round; the stub then finds tiers that differ, and calls nothing.
fn apply(id: u32, descriptor: &Descriptor, handler: u32) {
    let store = |word: &AtomicU64, value: u64| {
        // The same value isn't stored again: handlers of one tier are swapped without touching the line of the code.
        if word.load(Ordering::Relaxed) != value {
            word.store(value, Ordering::Release);
        }
    };
    let binding = user_binding(handler);
    let exit = binding.is_some_and(|binding| binding.exit.is_some());
    let flags = if exit { WANTS_EXIT } else { 0 };
    let (enter, leave) = match (handler, binding) {
        (COUNT, _) => (Handler::Count, None),
        (TIME, _) => (Handler::TimeEnter, Some(Handler::TimeExit)),
        (_, Some(binding)) => match binding.tier {
            Tier::Integer => (Handler::IntegerEnter, Some(Handler::IntegerExit)),
            Tier::Vector => (Handler::VectorEnter, Some(Handler::VectorExit)),
            Tier::Full => (Handler::FullEnter, Some(Handler::FullExit)),
        },
        _ => (Handler::Nothing, None),
    };
    set_binding(id, binding);
    if let Some(leave) = leave {
        store(&descriptor.exit, leave.address());
    }
    if descriptor.flags.load(Ordering::Relaxed) != flags {
        descriptor.flags.store(flags, Ordering::Release);
    }
    store(&descriptor.enter, enter.address());
}

/// Fills a new block's descriptor.
pub fn fill(id: u32, slot: &Slot, descriptor: &Descriptor) {
    descriptor.id.store(id, Ordering::Relaxed);
    descriptor.record.store(arena::record(id).map_or(0, |record| std::ptr::from_ref(record) as u64), Ordering::Relaxed);
    descriptor.counters.store(arena::counters_address(id), Ordering::Relaxed);
    descriptor.histogram.store(arena::histogram_address(id), Ordering::Relaxed);
    descriptor.user_enter.store(arch::stub_enter(), Ordering::Relaxed);
    descriptor.user_exit.store(arch::stub_exit(), Ordering::Relaxed);
    // Any exit handler finds its way back; a call begun with one handler may end with another.
    descriptor.exit.store(Handler::TimeExit.address(), Ordering::Relaxed);
    apply(id, descriptor, slot.handler.load(Ordering::Relaxed));
}

/// Calls a user's entry handler from the library's own code. Vector registers are dead there: `vectors` has room for
/// them, or for the full context, but not their values.
pub fn call_enter(handler: u32, id: u32, registers: &mut transect_probe::descriptor::Registers) {
    let Some(Binding { enter: Some(enter), data, .. }) = user_binding(handler) else { return };
    #[repr(align(64))]
    struct Room([u64; 512]);
    let mut room = Room([0; 512]);
    // SAFETY: the user's function, with what it was registered for.
    unsafe { enter(id, registers, room.0.as_mut_ptr().cast(), *data) };
}
