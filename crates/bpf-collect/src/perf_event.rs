//! Timers of the kernel's performance events.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
    PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, perf_event_attr,
};

const CLOSE_ON_EXEC: std::ffi::c_ulong = perf_event_open_sys::bindings::PERF_FLAG_FD_CLOEXEC as std::ffi::c_ulong;

/// What samples are taken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SampledEvent {
    /// Time on a CPU.
    #[default]
    CpuClock,
    /// Page faults.
    PageFaults,
    /// CPU cycles, counted by hardware.
    Cycles,
    /// Cache misses, counted by hardware.
    CacheMisses,
}

impl SampledEvent {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuClock => "CPU time",
            Self::PageFaults => "page faults",
            Self::Cycles => "CPU cycles",
            Self::CacheMisses => "cache misses",
        }
    }
}

/// An event that fires `hertz` times a second, as nearly as the kernel can tell, for whatever runs on `cpu`.
///
/// # Errors
/// If the system refuses: no permission, no such CPU, no such counter.
pub(crate) fn open(event: SampledEvent, cpu: u32, hertz: u32) -> io::Result<OwnedFd> {
    let (type_, config) = match event {
        SampledEvent::CpuClock => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK),
        SampledEvent::PageFaults => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS),
        SampledEvent::Cycles => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        SampledEvent::CacheMisses => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES),
    };
    let mut attributes = perf_event_attr { type_, config: u64::from(config), ..Default::default() };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = u64::from(hertz);
    open_with(attributes, -1, cpu)
}

/// An event of a thread (-1: of whatever runs) on a CPU; closed on exec.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open_with(attributes: perf_event_attr, tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    open_on(attributes, tid, cpu as i32)
}

/// An event of a thread on whatever CPU; closed on exec.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open_of_thread(attributes: perf_event_attr, tid: i32) -> io::Result<OwnedFd> {
    open_on(attributes, tid, -1)
}

fn open_on(mut attributes: perf_event_attr, tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    attributes.size = size_of::<perf_event_attr>() as u32;
    // SAFETY: `attributes` is initialised, says its own size and lives through the call, which only reads it.
    let descriptor = unsafe { perf_event_open_sys::perf_event_open(&raw mut attributes, tid, cpu, -1, CLOSE_ON_EXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// What a timer's interrupt costs the thread that it meets, ns; most of it, in a virtual machine, is the machine's. `None` if
/// this user may have no timer. Takes some milliseconds.
pub fn interrupt_ns() -> Option<f64> {
    const PERIOD: u64 = 250_000;
    const ROUNDS: u32 = 5;
    // About a millisecond's.
    const STEPS: u64 = 500_000;
    const LOST: Duration = Duration::from_micros(200);
    let thread_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    };
    let mut attributes =
        perf_event_attr { type_: PERF_TYPE_SOFTWARE, config: u64::from(PERF_COUNT_SW_CPU_CLOCK), ..Default::default() };
    attributes.__bindgen_anon_1.sample_period = PERIOD;
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    let timer = open_of_thread(attributes, 0).ok()?;
    let work = || {
        let (start, began) = (Instant::now(), thread_time());
        black_box((0..STEPS).fold(1_u64, |sum, step| black_box(sum.wrapping_mul(step | 1))));
        let (elapsed, ran) = (start.elapsed(), thread_time().saturating_sub(began));
        // Others had the CPU meanwhile: what the machine took is not to be told from that.
        if elapsed.saturating_sub(ran) > LOST { ran } else { elapsed }
    };
    let (mut alone, mut interrupted) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        alone = alone.min(work());
        // SAFETY: ioctls without argument on a descriptor that is open.
        unsafe { perf_event_open_sys::ioctls::ENABLE(timer.as_raw_fd(), 0) };
        interrupted = interrupted.min(work());
        // SAFETY: as above.
        unsafe { perf_event_open_sys::ioctls::DISABLE(timer.as_raw_fd(), 0) };
    }
    let interrupts = interrupted.as_nanos() as f64 / PERIOD as f64;
    (interrupts > 1.0).then(|| interrupted.saturating_sub(alone).as_nanos() as f64 / interrupts)
}
