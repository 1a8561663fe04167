//! Calls of `syscall`: what one does depends on its first argument. Most are as cheap as any function, and timed as often; each is
//! looked at, in assembly, for those that change what the agent may do, and for those that wait.
//!
//! A flow's countdown is 0 after a timed call and goes below that, so that its stub leads to the trampoline each time. There it is
//! held against the flow's period.

use core::sync::atomic::Ordering;

use transect_event_abi::thread::FlowCounters;

use crate::arch;
use crate::enter::Registers;
use crate::slot::{self, Kind};

/// Numbers that are looked at; higher ones enter.
pub const NUMBERS: usize = 512;

/// `prctl`.
pub const PRCTL: u64 = 157;
/// `seccomp`.
pub const SECCOMP: u64 = 317;
const FUTEX: u64 = 202;

/// Those that wait by their nature: poll, select, pause, nanosleep, wait4, semop, rt_sigtimedwait, rt_sigsuspend, io_getevents,
/// semtimedop, clock_nanosleep, epoll_wait, mq_timedreceive, waitid, pselect6, ppoll, epoll_pwait, io_pgetevents, epoll_pwait2,
/// futex_waitv, futex_wait.
const WAITING: [u64; 21] =
    [7, 23, 34, 35, 61, 65, 128, 130, 208, 220, 230, 232, 243, 247, 270, 271, 281, 333, 441, 449, 455];

/// Non-zero: the call enters through Rust.
pub static ENTERS: [u8; NUMBERS] = {
    let mut enters = [0; NUMBERS];
    let (mut i, others) = (0, [PRCTL, SECCOMP, FUTEX]);
    while i < WAITING.len() {
        enters[WAITING[i] as usize] = 1;
        i += 1;
    }
    i = 0;
    while i < others.len() {
        enters[others[i] as usize] = 1;
        i += 1;
    }
    enters
};

/// Whether a call may wait for long, so that no other call tells of it: each is timed.
fn waits(number: u64, operation: u64) -> bool {
    // FUTEX_WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2; the higher bits are flags.
    const FUTEX_WAITING: [u64; 5] = [0, 6, 9, 11, 13];
    match number {
        FUTEX => FUTEX_WAITING.contains(&(operation & 0x7f)),
        _ => WAITING.contains(&number),
    }
}

/// As `enter::lease`: the calls that this one stands for, and whether it is timed.
///
/// # Safety
/// `c` holds the calling thread's counters of the flow; the stub has counted the call.
pub unsafe fn lease(c: *mut FlowCounters, kind: Kind, r: &Registers, stopped: bool) -> (u32, bool) {
    // SAFETY: only this thread writes its counters; a signal handler's nested change is complete before ours goes on.
    unsafe {
        let counts_only = stopped || !kind.is_timed();
        let period = match (*c).period.load(Ordering::Relaxed) {
            // A lazy slot's target is known at the next entry.
            0 if counts_only => 1,
            0 => slot::first_period(kind),
            _ if counts_only => u32::MAX,
            period => period,
        };
        (*c).period.store(period, Ordering::Relaxed);
        let gap = (*c).countdown.load(Ordering::Relaxed).wrapping_neg();
        let single = !counts_only && waits(r.rdi, r.rdx);
        // The countdown must not come round.
        if !single && gap < period.min(1 << 30) {
            return (0, false);
        }
        let ended = if single { 1 } else { gap };
        arch::add_own_u64(&(*c).issued, ended.into());
        arch::add_own_u32(&(*c).countdown, ended);
        (ended, !counts_only)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTERS, FUTEX, PRCTL, SECCOMP, WAITING, waits};

    #[test]
    fn what_waits_or_confines_enters_and_the_rest_is_counted() {
        const GETPPID: usize = 110;
        let enters = |number: u64| ENTERS[number as usize] != 0;
        assert!([PRCTL, SECCOMP, FUTEX].into_iter().chain(WAITING).all(enters));
        assert_eq!(ENTERS.iter().filter(|&&enters| enters != 0).count(), WAITING.len() + 3);
        assert!(ENTERS[GETPPID] == 0 && !waits(GETPPID as u64, 0));
        // FUTEX_WAIT_PRIVATE, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, FUTEX_WAKE_PRIVATE.
        assert_eq!([0x80, 0x189, 0x81].map(|operation| waits(FUTEX, operation)), [true, true, false]);
        assert!(waits(35, 0) && !waits(PRCTL, 0));
    }
}
