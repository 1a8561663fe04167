//! Batches: first installation, replacement and restoring of many windows while other threads run.
//!
//! ```text
//! Method::Trap                                             a thread that comes to a window meanwhile
//!   publish the table of windows
//!   CC at every old instruction start of each window       meets INT3, is led on by the handler of SIGTRAP
//!   serialize                                              can't have fetched older bytes from here on
//!   visit threads, if a window held several instructions   is moved if its program counter is inside of a window
//!   bytes 1.. of each window := new                        meets INT3
//!   serialize
//!   byte 0 of each window := new                           meets INT3, or executes the new instruction
//!   serialize
//!   take the table back
//!
//! Method::Stop
//!   publish, visit: every other thread waits in a signal handler, moved out of windows
//!   write all windows; release the threads, which serialize before they return
//! ```
//!
//! A window's interior INT3s and the visit are why no thread can be *inside* of a window when its tail is written: who
//! was there before has been moved, or has met an INT3 there; who comes later meets the first one. A signal handler of
//! the application that has interrupted a window's code will return into it: its frame is found on the stack, and moved
//! as well. A thread that waits in the kernel with its program counter elsewhere is not disturbed.
//!
//! INT3 kills a thread that blocks SIGTRAP (libc blocks all signals for a moment when it creates a thread). Threads
//! that do so are looked for before, and make the batch stop the threads instead, or refuse; one that begins to block
//! it *during* a batch is not seen. For code that threads may run with all signals blocked (libc's own), ask for
//! [`Method::Stop`].
//!
//! Between the first and the last store nothing outside of this crate is called: it may be what is being patched.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::arch::signal::{SIGTRAP, SIGURG};
use crate::arch::{syscall, ticks};
use crate::serialize::serialize_all;
use crate::writable::{Access, Writer};
use crate::{Refusal, Window, tasks, trap, word};

mod check;
mod protocol;
pub(crate) mod table;
mod visit;

pub use check::examine;
use check::{end_of, mapped, sort};
use protocol::{write_stopped, write_with_traps};
use table::Table;
pub(crate) use table::complete_after_fork as complete_table;

/// How threads are kept from executing windows that are half written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// [`Method::Trap`], unless this is the only thread, a debugger is attached (it would take every INT3 for its own),
    /// a thread blocks SIGTRAP, or membarrier is missing: then [`Method::Stop`].
    #[default]
    Auto,
    /// INT3 and serialization: no thread stops.
    Trap,
    /// All other threads wait in a signal handler meanwhile.
    Stop,
}

/// What a batch may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolicy {
    /// How code is written.
    pub access: Access,
    /// How threads are kept out.
    pub method: Method,
    /// Go on although threads block SIGTRAP or `signal`: the caller knows that they don't run this code.
    pub allow_blocked: bool,
    /// Signal that moves or stops threads. Its disposition is put back afterwards. The default, SIGURG, is ignored
    /// where nobody handles it, and debuggers pass it on in silence.
    pub signal: u8,
    /// How long to wait for a thread's answer, nanoseconds.
    pub patience: u64,
}

impl Default for BatchPolicy {
    fn default() -> Self {
        Self {
            access: Access::Auto,
            method: Method::Auto,
            allow_blocked: false,
            signal: SIGURG,
            patience: 1_000_000_000,
        }
    }
}

/// What a batch has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchReport {
    /// Windows written.
    pub written: usize,
    /// Windows that had their new bytes already.
    pub already: usize,
    /// Program counters that were moved out of a window.
    pub moved: usize,
    /// Threads that were sent a signal.
    pub signalled: usize,
    /// Times that a thread met INT3 and was led around it.
    pub trapped: usize,
    /// The method used: never [`Method::Auto`].
    pub method: Method,
    /// Ticks from the first store to the last serialization: the protocol.
    pub ticks: u64,
    /// Ticks of the whole call.
    pub whole_ticks: u64,
}

/// How long a thread may block signals before it is taken to do so for good, nanoseconds.
const MOMENT: u64 = 20_000_000;

/// Thread that runs a batch; 0 for none.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// True while a batch is at work in this process. For those who interpose `sigaction` or fork.
pub fn at_work() -> bool {
    BUSY.load(Ordering::Acquire) != 0
}

/// Replaces `old` by `new` in all windows, or in none if one is refused; windows that have their new bytes already are
/// left alone. The windows are reordered: those written come first, by address.
///
/// Costs three serializations and some stores a window. Not for signal handlers.
///
/// # Errors
/// The first refusal; nothing is changed then.
///
/// # Safety
/// For each window: it lies in memory that is mapped and not unmapped meanwhile; one instruction begins at `address` in both forms (old:
/// exactly those that `starts` says), no jump leads into it, and each of `moves` does what the instructions from that
/// start on do.
pub unsafe fn apply(windows: &mut [Window], policy: &BatchPolicy) -> Result<BatchReport, Refusal> {
    let Some(first) = windows.first() else { return Ok(BatchReport { method: Method::Trap, ..Default::default() }) };
    let address = first.address;
    let begun = ticks();
    if BUSY.compare_exchange(0, syscall::gettid(), Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(Refusal::Contended { address });
    }
    let result = exclusively(windows, policy);
    BUSY.store(0, Ordering::Release);
    result.map(|report| BatchReport { whole_ticks: ticks() - begun, ..report })
}

fn exclusively(windows: &mut [Window], policy: &BatchPolicy) -> Result<BatchReport, Refusal> {
    sort(windows);
    for window in windows.iter() {
        window.check()?;
    }
    for pair in windows.windows(2) {
        if pair[1].address < end_of(&pair[0]) {
            return Err(Refusal::Overlap { address: pair[0].address, other: pair[1].address });
        }
    }
    mapped(windows)?;
    let mut written = 0;
    for i in 0..windows.len() {
        if windows[i].is_old()? {
            windows.swap(written, i);
            written += 1;
        }
    }
    let already = windows.len() - written;
    let windows = &windows[..written];
    if windows.is_empty() {
        return Ok(BatchReport { already, method: Method::Trap, ..Default::default() });
    }
    let method = choose(policy)?;
    let mut writer = Writer::open(written, &|i| (windows[i].address, end_of(&windows[i])), policy.access)?;
    let report = publish_and_write(windows, method, policy, &writer);
    writer.close();
    report.map(|report| BatchReport { written, already, ..report })
}

/// A thread that blocks `signal`, if there is one for longer than a moment.
fn blocking_thread(signal: u8, patience: u64) -> Result<Option<u32>, Refusal> {
    let me = syscall::gettid();
    let deadline = syscall::monotonic_nanos() + patience;
    loop {
        let mut found = None;
        tasks::each_thread(&mut |tid| {
            let blocks = |mask: u64| mask & tasks::signal_bit(signal) != 0;
            if tid != me && tasks::blocked_signals(tid).is_some_and(blocks) {
                found = Some(tid);
            }
        })?;
        if found.is_none() || syscall::monotonic_nanos() > deadline {
            return Ok(found);
        }
        syscall::sched_yield();
    }
}

fn choose(policy: &BatchPolicy) -> Result<Method, Refusal> {
    let auto = policy.method == Method::Auto;
    if policy.method == Method::Stop || (auto && tasks::count() == 1) {
        return Ok(Method::Stop);
    }
    let unfit = match (tasks::tracer(), serialize_all()) {
        (Some(pid), _) => Some(Refusal::Traced { pid }),
        (None, Err(refusal)) => Some(refusal),
        (None, Ok(())) if policy.allow_blocked => None,
        (None, Ok(())) => blocking_thread(SIGTRAP, if auto { policy.patience.min(MOMENT) } else { policy.patience })?
            .map(|tid| Refusal::SignalBlocked { tid, signal: SIGTRAP }),
    };
    match unfit {
        None => Ok(Method::Trap),
        Some(_) if auto => Ok(Method::Stop),
        Some(refusal) => Err(refusal),
    }
}

fn publish_and_write(
    windows: &[Window],
    method: Method,
    policy: &BatchPolicy,
    writer: &Writer,
) -> Result<BatchReport, Refusal> {
    if method == Method::Trap {
        trap::take_over(policy.signal)?;
    }
    let table = Table::new(windows);
    // The application's handlers must not run between our stores in this thread; SIGTRAP must.
    let all = !tasks::signal_bit(SIGTRAP);
    let mask = syscall::signal_mask(syscall::SignalMask::Set, all);
    // SAFETY: the table lives until it is taken back, and the windows are borrowed.
    unsafe { table::publish(&table) };
    fence(Ordering::SeqCst);
    let collision = windows.iter().find(|window| word::overlaps(window.address, end_of(window)));
    let result = match collision {
        Some(window) => Err(Refusal::Contended { address: window.address }),
        None if method == Method::Trap => write_with_traps(windows, policy, writer, &table),
        None => write_stopped(windows, policy, writer),
    };
    table::take_back();
    syscall::signal_mask(syscall::SignalMask::Set, mask);
    result.map(|report| BatchReport { trapped: table.trapped(), method, ..report })
}

/// In a fork's child: completes what the parent had begun.
pub(crate) fn complete_after_fork() {
    complete_table();
    BUSY.store(0, Ordering::Release);
}
