//! What knows the CPU: the stubs, the thread's number, a counter's step.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::flow_image::{SETTINGS_SIZE, Settings, THREADS};
use transect_event_abi::process::SLOT_CAPACITY;
use transect_event_abi::thread::FlowCounters;

global_asm!(
    include_str!("x86_64.s"),
    SLOTS = const SLOT_CAPACITY,
    SETTINGS_SIZE = const SETTINGS_SIZE,
    NUMBER = const offset_of!(Settings, number),
    TABLE = const offset_of!(Settings, table),
    LAST_THREAD = const THREADS - 1,
    ISSUED = const offset_of!(FlowCounters, issued),
    enter = sym crate::enter::enter,
);

// The compiler may call memory functions; here they have nowhere else to come from.
global_asm!(include_str!("../../../agent/src/arch/x86_64.s"));

/// What a loader of the image needs: addresses, once relocated.
#[repr(transparent)]
pub struct ImageTable(#[allow(dead_code)] [*const (); 3]);
// SAFETY: addresses, which nobody follows here.
unsafe impl Sync for ImageTable {}

/// See [`transect_event_abi::flow_image::SYMBOL`].
// SAFETY: a name that no program uses.
#[unsafe(no_mangle)]
pub static transect_flow_image: ImageTable = ImageTable([
    (&raw const transect_flow_stubs).cast(),
    (&raw const transect_flow_targets).cast(),
    (&raw const transect_flow_settings).cast(),
]);

unsafe extern "C" {
    static transect_flow_stubs: u8;
    static transect_flow_targets: [AtomicU64; SLOT_CAPACITY];
    static transect_flow_settings: Settings;
    static transect_flow_lost: [FlowCounters; SLOT_CAPACITY];
}

/// What the recorder has told us.
pub fn settings() -> &'static Settings {
    // SAFETY: memory of the image, made of atomics.
    unsafe { &transect_flow_settings }
}

/// Counters that nobody reads.
pub fn lost() -> *mut FlowCounters {
    (&raw const transect_flow_lost).cast_mut().cast()
}

/// The calling thread's number, as the stubs read it.
pub fn number() -> u32 {
    let number: u32;
    // SAFETY: the word of the thread's control block that holds it.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) number, in(reg) settings().number.load(Ordering::Relaxed),
            options(nostack, readonly, preserves_flags))
    };
    number & (THREADS as u32 - 1)
}

/// Adds one to a counter that the calling thread (and its signal handlers) alone writes: one instruction.
pub fn add_one(to: &AtomicU64) {
    // SAFETY: the word is there; what others read meanwhile is the old value or the new one.
    unsafe { asm!("inc qword ptr [{}]", in(reg) to.as_ptr(), options(nostack)) };
}
