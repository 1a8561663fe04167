//! The kernel's clock of active threads, where the scheduler collector runs beside the agent: exact, and with it the
//! criticality of each thread.
//!
//! The pages are mapped at start, through a descriptor that the recorder hands out: inheriting one would show in the
//! program, and many programs close what they inherit. Readers take no lock; a record that changes meanwhile is read
//! again. What a timed call gained is a share of its duration, so clocks and units drop out.

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::arena::OPTION_PUBLISHED;
use transect_event_abi::process::{CLOCK_KERNEL, CLOCK_LOST, CLOCK_OWN};
use transect_event_abi::published::{
    ACTIVE, APPLICATION_CAPACITY, Application, FRACTION_BITS, PROBES, Published, SOCKET_FILE, Thread, WINDOW, WINDOWS,
    key, place,
};
use transect_event_abi::thread::ThreadHeader;

use crate::arch::{self, syscall as sys};
use crate::frame::Frame;
use crate::recorder::{self, STOPPED_AFTER_MS};
use crate::thread::ThreadState;
use crate::{arena, confinement, process};

/// How long the recorder may take to answer, milliseconds, unless it is stopped.
const PATIENCE_MS: u64 = 3000;
/// How long a record that is being changed is waited for, before it is taken as it is: beyond what the CPU of a
/// virtual machine may be away for, ns.
const CHANGING: u64 = 100_000_000;
const APPLICATIONS_SIZE: u64 = size_of::<[Application; APPLICATION_CAPACITY]>() as u64;
const WINDOW_SIZE: u64 = size_of::<[Thread; WINDOW]>() as u64;

/// The agent's folder, with the slash: bytes of the loader's, which live as long as the agent.
static FOLDER: AtomicU64 = AtomicU64::new(0);
static FOLDER_LENGTH: AtomicU64 = AtomicU64::new(0);
/// The applications' records, mapped; 0: the kernel's clock is not used.
static APPLICATIONS: AtomicU64 = AtomicU64::new(0);
/// Windows of the threads' records, mapped where a thread needs them.
static MAPPED: [AtomicU64; WINDOWS] = [const { AtomicU64::new(0) }; WINDOWS];
static NAMESPACE: AtomicU32 = AtomicU32::new(0);
static APPLICATION: AtomicU32 = AtomicU32::new(0);

/// True if the kernel's clock is used.
#[inline]
pub fn on() -> bool {
    APPLICATIONS.load(Ordering::Relaxed) != 0
}

fn application(number: u32) -> &'static Application {
    // SAFETY: asked for only while `on`; unmapped only in a child of fork, whose one thread does it.
    let all = unsafe { &*(APPLICATIONS.load(Ordering::Relaxed) as *const [Application; APPLICATION_CAPACITY]) };
    &all[number as usize % APPLICATION_CAPACITY]
}

/// Asks the recorder for the pages.
fn descriptor() -> Option<i64> {
    let (at, length) = (FOLDER.load(Ordering::Relaxed), FOLDER_LENGTH.load(Ordering::Relaxed) as usize);
    // SAFETY: what `start` was given.
    let folder = unsafe { core::slice::from_raw_parts(at as *const u8, length) };
    let mut path = [0u8; 108];
    let end = length + SOCKET_FILE.len();
    if end >= path.len() {
        return None;
    }
    path[..length].copy_from_slice(folder);
    path[length..end].copy_from_slice(SOCKET_FILE.as_bytes());
    if recorder::is_stopped_after(0) {
        return None;
    }
    let mut waited = 0;
    sys::receive_descriptor(&path[..=end], STOPPED_AFTER_MS, || {
        waited += STOPPED_AFTER_MS;
        waited < PATIENCE_MS && !recorder::is_stopped_after(waited)
    })
}

fn map(descriptor: i64, offset: u64, size: u64) -> Option<u64> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe { sys::mmap(0, size, sys::PROT_READ, sys::MAP_SHARED, descriptor, offset) };
    if at <= 0 {
        return None;
    }
    sys::dont_dump(at as u64, size);
    Some(at as u64)
}

fn map_window(descriptor: i64, window: usize) -> Option<u64> {
    let offset = core::mem::offset_of!(Published, threads) as u64 + window as u64 * WINDOW_SIZE;
    let at = map(descriptor, offset, WINDOW_SIZE)?;
    match MAPPED[window].compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(at),
        Err(first) => {
            // SAFETY: nobody else knows this mapping.
            unsafe { sys::munmap(at, WINDOW_SIZE) };
            Some(first)
        }
    }
}

/// The records around a place.
fn window(number: usize) -> Option<&'static [Thread; WINDOW]> {
    let at = match MAPPED[number].load(Ordering::Acquire) {
        // Asking takes system calls.
        0 if confinement::confined() => return None,
        0 => {
            let descriptor = descriptor()?;
            let at = map_window(descriptor, number);
            sys::close(descriptor);
            at?
        }
        at => at,
    };
    // SAFETY: as large as the mapping, which is given up as that of the applications is.
    Some(unsafe { &*(at as *const [Thread; WINDOW]) })
}

/// Index and record of a key.
fn record(key: u64) -> Option<(usize, &'static Thread)> {
    let at = |probe| {
        let index = place(key, probe);
        Some((index, &window(index / WINDOW)?[index % WINDOW]))
    };
    (0..PROBES).map_while(at).find(|(_, thread)| thread.key.load(Ordering::Acquire) == key)
}

/// Maps what is needed of the pages if the recording has them. `folder` is the agent's, with the slash.
pub fn start(folder: &'static [u8]) {
    if arena::header().options & OPTION_PUBLISHED == 0 {
        return;
    }
    process::header().clock.store(CLOCK_LOST, Ordering::Relaxed);
    FOLDER.store(folder.as_ptr() as u64, Ordering::Relaxed);
    FOLDER_LENGTH.store(folder.len() as u64, Ordering::Relaxed);
    let Some(descriptor) = descriptor() else { return };
    if let Some(at) = map(descriptor, 0, APPLICATIONS_SIZE) {
        APPLICATIONS.store(at, Ordering::Relaxed);
        let own = place(key(know_namespace(), sys::gettid()), 0);
        let _ = map_window(descriptor, own / WINDOW);
    }
    sys::close(descriptor);
    if on() {
        know_process();
    }
}

/// In the child of a fork, whose thread has another number.
pub fn forked() {
    if on() {
        know_namespace();
        know_process();
    } else {
        let lost = arena::header().options & OPTION_PUBLISHED != 0;
        process::header().clock.store(if lost { CLOCK_LOST } else { CLOCK_OWN }, Ordering::Relaxed);
    }
}

fn know_namespace() -> u32 {
    let namespace = sys::file_number(c"/proc/self/ns/pid".as_ptr().cast()).unwrap_or(0) as u32;
    NAMESPACE.store(namespace, Ordering::Relaxed);
    namespace
}

/// Notes the process' application from the calling thread's record; without one the agent's own clock is used.
fn know_process() {
    let h = process::header();
    if let Some((_, own)) = record(key(NAMESPACE.load(Ordering::Relaxed), sys::gettid())) {
        let application = own.application.load(Ordering::Relaxed);
        APPLICATION.store(application, Ordering::Relaxed);
        h.application.store(application, Ordering::Relaxed);
        h.clock.store(CLOCK_KERNEL, Ordering::Relaxed);
        return;
    }
    h.clock.store(CLOCK_LOST, Ordering::Relaxed);
    // SAFETY: at start and in the child of a fork there is one thread, which holds no reference now.
    unsafe {
        sys::munmap(APPLICATIONS.swap(0, Ordering::Relaxed), APPLICATIONS_SIZE);
        for window in &MAPPED {
            let at = window.swap(0, Ordering::Relaxed);
            if at != 0 {
                sys::munmap(at, WINDOW_SIZE);
            }
        }
    }
}

/// The calling thread's record, noted in its header; null if it has none.
///
/// # Safety
/// `header` is the calling thread's, and its `tid` is set.
pub unsafe fn find(header: *mut ThreadHeader) -> *const Thread {
    if !on() {
        return ptr::null();
    }
    // SAFETY: see above.
    let h = unsafe { &*header };
    let tid = h.tid.load(Ordering::Relaxed);
    match record(key(NAMESPACE.load(Ordering::Relaxed), tid)) {
        Some((index, own)) => {
            h.published_plus_one.store(index as u32 + 1, Ordering::Relaxed);
            h.published_task.store(own.task.load(Ordering::Relaxed), Ordering::Relaxed);
            own
        }
        None => ptr::null(),
    }
}

/// The kernel's clock at one instant.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The instant, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// ∫ dt / max(1, active), ns in fixed point.
    pub attribution: u64,
    /// What the thread has gained, ns in fixed point; 0 without a thread.
    pub criticality: u64,
}

/// Reads it for a thread (null: none) at a time stamp, or now. If the kernel's clock went on beyond the time stamp
/// meanwhile (the thread was off its CPU between the two), the reading is of now. Now is read while the records
/// hold: a thread that lost its CPU between them and the time would take the one's state for the other's.
///
/// # Safety
/// `thread` is null or in the pages, which are mapped.
pub unsafe fn read(thread: *const Thread, ticks: Option<u64>) -> Reading {
    // SAFETY: see above.
    let thread = unsafe { thread.as_ref() };
    let number = thread.map_or_else(|| APPLICATION.load(Ordering::Relaxed), |t| t.application.load(Ordering::Relaxed));
    let application = application(number);
    let mut given = ticks;
    let mut changing_since = None;
    loop {
        let own = thread.map_or(0, |t| t.sequence.load(Ordering::Acquire));
        let sequence = application.sequence.load(Ordering::Acquire);
        let open = thread.is_some_and(|t| t.flags.load(Ordering::Acquire) & ACTIVE != 0);
        let (gained, since) =
            thread.map_or((0, 0), |t| (t.gained.load(Ordering::Acquire), t.since.load(Ordering::Acquire)));
        let active = application.active.load(Ordering::Acquire) as u64;
        let time = application.time.load(Ordering::Acquire);
        let criticality = application.criticality.load(Ordering::Acquire);
        let idle = application.idle.load(Ordering::Acquire);
        let now = arena::header().clock.nanoseconds(given.unwrap_or_else(arch::ticks));
        let again = application.sequence.load(Ordering::Acquire);
        let own_again = thread.map_or(0, |t| t.sequence.load(Ordering::Relaxed));
        let whole = (own | sequence) & 1 == 0 && again == sequence && own_again == own;
        if !whole {
            let time = arena::header().clock.nanoseconds(arch::ticks());
            if time.saturating_sub(*changing_since.get_or_insert(time)) < CHANGING {
                core::hint::spin_loop();
                continue;
            }
        }
        if now < time && given.take().is_some() {
            continue;
        }
        let passed = now.saturating_sub(time) << FRACTION_BITS;
        let step = if active > 1 { passed / active } else { passed };
        let clock = if active > 0 { criticality.wrapping_add(step) } else { criticality };
        return Reading {
            time: now.max(time),
            attribution: criticality.wrapping_add(idle << FRACTION_BITS).wrapping_add(step),
            criticality: if open { gained.wrapping_add(clock.wrapping_sub(since)) } else { gained },
        };
    }
}

/// The attribution clock at a time stamp, for the calling thread.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn attribution(state: *const ThreadState, ticks: u64) -> u64 {
    // SAFETY: see above.
    unsafe { read((*state).published, Some(ticks)).attribution }
}

/// Notes in a frame where the clocks stand, as the last thing before the call.
///
/// # Safety
/// `state` is the calling thread's, `frame` of its call.
pub unsafe fn note(state: *const ThreadState, frame: &mut Frame) {
    // SAFETY: see above.
    unsafe {
        let reading = read((*state).published, None);
        frame.published = (*state).published;
        frame.entered = reading.time;
        frame.attribution = reading.attribution;
        frame.criticality = reading.criticality;
    }
}

/// What a stretch of a thread's time counts for, as shares of its length.
#[derive(Clone, Copy)]
pub struct Share {
    /// ∫ dt / max(1, active).
    pub attributed: f64,
    /// Criticality gained; `None` if it is not known.
    pub criticality: Option<f64>,
}

/// Whether what a thread's call gains is known from its beginning on. A coroutine may return on another thread.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn knows(state: *const ThreadState, frame: &Frame) -> bool {
    // SAFETY: see above.
    unsafe { !frame.published.is_null() && frame.published == (*state).published }
}

/// The shares of a call that returns at time stamp `now`.
///
/// # Safety
/// `state` is the calling thread's, `frame` was [`note`]d.
pub unsafe fn share(state: *const ThreadState, frame: &Frame, now: u64) -> Share {
    // SAFETY: see above.
    unsafe {
        let reading = read((*state).published, Some(now));
        let span = (reading.time.wrapping_sub(frame.entered) << FRACTION_BITS) as i64 as f64;
        let part = |gained: u64| if span > 0.0 { (gained as i64 as f64 / span).clamp(0.0, 1.0) } else { 1.0 };
        let known = knows(state, frame);
        // `fork` returns in the child, too, where it is no call of the child's.
        if !known && crate::thread::owns(state, frame.record) {
            (*(*state).header).unmeasured.fetch_add(1, Ordering::Relaxed);
        }
        Share {
            attributed: part(reading.attribution.wrapping_sub(frame.attribution)),
            criticality: known.then(|| part(reading.criticality.wrapping_sub(frame.criticality))),
        }
    }
}
