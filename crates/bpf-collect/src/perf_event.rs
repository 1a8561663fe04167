//! Timers of the kernel's performance events.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE, perf_event_attr};

const CLOSE_ON_EXEC: std::ffi::c_ulong = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC as std::ffi::c_ulong;

/// A timer that fires `hertz` times a second while `processor` is busy, whatever runs there.
///
/// # Errors
/// If the system refuses: no permission, or no such processor.
pub(crate) fn cpu_clock(processor: u32, hertz: u32) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = u64::from(hertz);
    // SAFETY: `attributes` is initialised, says its own size and lives through the call, which only reads it.
    let descriptor =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attributes, -1, processor as i32, -1, CLOSE_ON_EXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
