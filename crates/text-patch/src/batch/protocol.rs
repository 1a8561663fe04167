//! The two ways of writing a batch, once it is checked and published.

use core::sync::atomic::AtomicU32;

use super::table::Table;
use super::visit::Visit;
use super::{BatchPolicy, BatchReport, MOMENT, blocking_thread};
use crate::arch::{serialize_here, syscall, ticks};
use crate::form::INT3;
use crate::serialize::serialize_all;
use crate::writable::Writer;
use crate::{Refusal, WINDOW_CAPACITY, Window, tasks};

pub(super) fn write_with_traps(
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
        // SAFETY: it does not move until `end`.
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

pub(super) fn write_stopped(windows: &[Window], policy: &BatchPolicy, writer: &Writer) -> Result<BatchReport, Refusal> {
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
            // SAFETY: it does not move until `end`.
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
