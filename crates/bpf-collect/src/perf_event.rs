//! Timers of the kernel's performance events.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
    PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, perf_event_attr,
};

const CLOSE_ON_EXEC: std::ffi::c_ulong = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC as std::ffi::c_ulong;

/// What samples are taken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SampledEvent {
    /// Time on a processor.
    #[default]
    CpuClock,
    /// Page faults.
    PageFaults,
    /// Processor cycles, counted by hardware.
    Cycles,
    /// Cache misses, counted by hardware.
    CacheMisses,
}

impl SampledEvent {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuClock => "processor time",
            Self::PageFaults => "page faults",
            Self::Cycles => "processor cycles",
            Self::CacheMisses => "cache misses",
        }
    }
}

/// An event that fires `hertz` times a second, as nearly as the kernel can tell, for whatever runs on `processor`.
///
/// # Errors
/// If the system refuses: no permission, no such processor, no such counter.
pub(crate) fn open(event: SampledEvent, processor: u32, hertz: u32) -> io::Result<OwnedFd> {
    let (type_, config) = match event {
        SampledEvent::CpuClock => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK),
        SampledEvent::PageFaults => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS),
        SampledEvent::Cycles => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        SampledEvent::CacheMisses => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES),
    };
    let mut attributes = perf_event_attr { type_, config: u64::from(config), ..Default::default() };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = u64::from(hertz);
    open_with(attributes, -1, processor)
}

/// An event of a thread (-1: of whatever runs) on a processor; closed on exec.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open_with(mut attributes: perf_event_attr, tid: i32, processor: u32) -> io::Result<OwnedFd> {
    attributes.size = size_of::<perf_event_attr>() as u32;
    // SAFETY: `attributes` is initialised, says its own size and lives through the call, which only reads it.
    let descriptor =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attributes, tid, processor as i32, -1, CLOSE_ON_EXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
