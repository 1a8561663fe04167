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
use crate::arch::{serialize_here, shadow_stack_active, syscall, ticks};
use crate::form::{CALL, INT3, JUMP};
use crate::serialize::serialize_all;
use crate::writable::{Access, Writer};
use crate::{Refusal, WINDOW_CAPACITY, Window, emulate, tasks, trap, word};

pub(crate) mod table;
mod visit;

use table::Table;
pub(crate) use table::complete_after_fork as complete_table;
use visit::Visit;

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

impl Window {
    /// The window that undoes this one, to be applied while its new instruction is one jump or call.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut moves = [0; WINDOW_CAPACITY];
        moves[0] = self.address;
        Self { address: self.address, length: self.length, old: self.new, new: self.old, starts: 1, moves }
    }

    /// Checks the description, and that a thread that meets INT3 at its beginning can be led on.
    ///
    /// # Errors
    /// [`Refusal::Malformed`], [`Refusal::TooShort`], [`Refusal::JumpTargetInside`], [`Refusal::NotEmulatable`],
    /// [`Refusal::ShadowStack`].
    pub fn check(&self) -> Result<(), Refusal> {
        let address = self.address;
        let length = usize::from(self.length);
        if length == 0 || length > WINDOW_CAPACITY || self.starts & 1 == 0 || self.starts >> length != 0 {
            return Err(Refusal::Malformed { address });
        }
        if matches!(self.new[0], CALL | JUMP) && length < 5 {
            return Err(Refusal::TooShort { address, length: self.length });
        }
        if (1..length).any(|i| self.starts >> i & 1 != 0 && self.moves[i] == 0) {
            return Err(Refusal::Malformed { address });
        }
        let inside = |target: u64| target > address && target - address < length as u64;
        if self.new[0] == JUMP
            && let Some(emulate::Effect::Go(target)) = emulate::effect(&self.new[..length], address)
            && inside(target)
        {
            return Err(Refusal::JumpTargetInside { address });
        }
        if self.moves.iter().take(length).any(|&target| inside(target)) {
            return Err(Refusal::JumpTargetInside { address });
        }
        match table::first_effect(self) {
            None => Err(Refusal::NotEmulatable { address }),
            Some(effect) if effect.uses_return_address() && shadow_stack_active() => {
                Err(Refusal::ShadowStack { address })
            }
            Some(_) => Ok(()),
        }
    }

    /// Compares what stands in memory: true for the old bytes, false for the new ones.
    fn is_old(&self) -> Result<bool, Refusal> {
        let length = usize::from(self.length);
        // SAFETY: callers of `examine` and `apply` vouch that windows are mapped.
        let found = unsafe { core::slice::from_raw_parts(self.address as *const u8, length) };
        if *found == self.old[..length] {
            return Ok(true);
        }
        if *found == self.new[..length] {
            return Ok(false);
        }
        let i = (0..length).find(|&i| found[i] != self.old[i]).unwrap_or(0);
        Err(Refusal::ForeignBytes { address: self.address + i as u64, expected: self.old[i], found: found[i] })
    }
}

fn sort(windows: &mut [Window]) {
    if !windows.is_sorted_by_key(|window| window.address) {
        windows.sort_unstable_by_key(|window| window.address);
    }
}

fn end_of(window: &Window) -> u64 {
    window.address + u64::from(window.length)
}

fn mapped(windows: &[Window]) -> Result<(), Refusal> {
    // Opens nothing: only asks the kernel what is mapped executable.
    let mut next = 0;
    let mut reached = 0;
    let mut refused = Ok(());
    crate::maps::each_mapping(&mut |mapping| {
        while next < windows.len() && windows[next].address < mapping.end {
            let window = &windows[next];
            if (window.address < mapping.start && reached != mapping.start) || !mapping.executable() {
                refused = Err(Refusal::NotExecutable { address: window.address });
                return false;
            }
            if end_of(window) > mapping.end {
                reached = mapping.end;
                break;
            }
            next += 1;
        }
        next < windows.len()
    })?;
    refused?;
    windows.get(next).map_or(Ok(()), |window| Err(Refusal::NotExecutable { address: window.address }))
}

/// Examines windows as a batch would, without changing anything: `refused` is called with the index (after sorting by
/// address) of each one that a batch would refuse.
pub fn examine(windows: &mut [Window], refused: &mut dyn FnMut(usize, Refusal)) {
    sort(windows);
    // One look at the mappings for all: they are many lines of text in a large program.
    let all_mapped = mapped(windows).is_ok();
    for i in 0..windows.len() {
        let window = &windows[i];
        let overlap = || match windows.get(i + 1) {
            Some(next) if next.address < end_of(window) => {
                Err(Refusal::Overlap { address: window.address, other: next.address })
            }
            _ => Ok(()),
        };
        let checked = window
            .check()
            .and_then(|()| overlap())
            .and_then(|()| if all_mapped { Ok(()) } else { mapped(core::slice::from_ref(window)) })
            .and_then(|()| window.is_old().map(|_| ()));
        if let Err(refusal) = checked {
            refused(i, refusal);
        }
    }
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
/// For each window: it lies in mapped memory that stays so; one instruction begins at `address` in both forms (old:
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

fn write_with_traps(
    windows: &[Window],
    policy: &BatchPolicy,
    writer: &Writer,
    table: &Table,
) -> Result<BatchReport, Refusal> {
    let several = windows.iter().any(|window| window.starts != 1);
    let mut visit = if several { Some(Visit::new(false, policy)?) } else { None };
    let mut report = BatchReport::default();
    let begun = ticks();
    for window in windows {
        let mut starts = window.starts;
        while starts != 0 {
            // SAFETY: a start of an old instruction; the handler of SIGTRAP knows it.
            unsafe { writer.byte(window.address + u64::from(starts.trailing_zeros()), INT3) };
            starts &= starts - 1;
        }
    }
    if let Err(refusal) = serialize_all() {
        withdraw(windows, writer);
        return Err(refusal);
    }
    if let Some(visit) = &mut visit {
        table.move_saved(stack_pointer());
        // SAFETY: it stays here until `end`.
        let visited = unsafe { visit.begin() }.and_then(|()| visit.all(policy.patience));
        visit.end();
        (report.moved, report.signalled) = visit.figures();
        if let Err(refusal) = visited {
            withdraw(windows, writer);
            return Err(refusal);
        }
    }
    for window in windows {
        // SAFETY: no thread is inside, none gets past the INT3 at the beginning.
        unsafe { writer.bytes(window.address + 1, tail(&window.new, window.length)) };
    }
    serialize_surely();
    for window in windows {
        // SAFETY: all threads see the tail.
        unsafe { writer.byte(window.address, window.new[0]) };
    }
    serialize_surely();
    report.ticks = ticks() - begun;
    Ok(report)
}

/// Puts old bytes back in place of INT3. All other bytes are the old ones, so a thread sees at every start INT3 or the
/// old instruction.
fn withdraw(windows: &[Window], writer: &Writer) {
    for window in windows {
        // SAFETY: single bytes change, from INT3 to what the threads may execute.
        unsafe {
            writer.bytes(window.address + 1, tail(&window.old, window.length));
            writer.byte(window.address, window.old[0]);
        }
    }
    serialize_surely();
}

/// Serialization half-way through, which has worked a moment ago. Should a system-call filter have forbidden it since,
/// threads meet INT3 until it works, rather than a mixed instruction; a filter that goes on forbidding it leaves time
/// to do the work.
fn serialize_surely() {
    for _ in 0..1_000 {
        if serialize_all().is_ok() {
            return;
        }
        syscall::futex_wait(&AtomicU32::new(0), 0, 1_000_000);
    }
}

fn write_stopped(windows: &[Window], policy: &BatchPolicy, writer: &Writer) -> Result<BatchReport, Refusal> {
    let alone = tasks::count() == 1;
    let deadline = syscall::monotonic_nanos() + policy.patience;
    loop {
        let mut visit = Visit::new(true, policy)?;
        let mut report = BatchReport::default();
        let mut stopped = Ok(());
        let mut begun = ticks();
        if !alone {
            if !policy.allow_blocked {
                // Better to wait for a thread that blocks the signal before the others are stopped than after.
                let _ = blocking_thread(policy.signal, policy.patience.min(MOMENT))?;
            }
            // SAFETY: it stays here until `end`.
            stopped = unsafe { visit.begin() }.and_then(|()| visit.all(policy.patience.min(100_000_000)));
        }
        if stopped.is_ok() {
            if alone {
                begun = ticks();
            }
            for window in windows {
                // SAFETY: no other thread runs, or the caller knows that it doesn't run here.
                unsafe {
                    writer.bytes(window.address + 1, tail(&window.new, window.length));
                    writer.byte(window.address, window.new[0]);
                }
            }
            serialize_here();
            if policy.allow_blocked {
                let _ = serialize_all();
            }
        }
        if !alone {
            visit.release();
            visit.end();
            (report.moved, report.signalled) = visit.figures();
        }
        report.ticks = ticks() - begun;
        match stopped {
            Ok(()) => return Ok(report),
            Err(refusal) if syscall::monotonic_nanos() > deadline => return Err(refusal),
            // Threads that block the signal may do so for a moment: let the others run on before the next try.
            Err(_) => syscall::futex_wait(&AtomicU32::new(0), 0, 1_000_000),
        }
    }
}

#[inline(always)]
fn tail(bytes: &[u8; WINDOW_CAPACITY], length: u8) -> &[u8] {
    &bytes[1..usize::from(length)]
}

fn stack_pointer() -> u64 {
    let here = 0u8;
    &raw const here as u64
}

/// In a fork's child: completes what the parent had begun.
pub(crate) fn complete_after_fork() {
    complete_table();
    BUSY.store(0, Ordering::Release);
}
