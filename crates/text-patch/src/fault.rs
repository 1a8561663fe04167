//! The handler of SIGSEGV and SIGBUS: ends an access of ours to memory that the program has unmapped or protected, and
//! passes every other fault on.
//!
//! A patch asks the kernel nothing, so it can't know that its page is still there. Its loads and stores are made by
//! [`crate::arch::guarded`]; a fault at one of those instructions goes on behind them, and the patch is refused
//! ([`crate::Refusal::Unmapped`]). Any other fault, and signals that were sent, go to the action that the application
//! had: its handler with its mask and flags, or the default action at the faulting instruction.
//!
//! It holds while our handler is the first: an application that sets SIGSEGV's action later gets our faults as well,
//! until the next page is prepared, which looks at the action anew. A thread that blocks SIGSEGV is ended by the kernel
//! at any fault.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::guarded;
use crate::arch::signal::{
    self, Action, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTORER, SA_SIGINFO, SIG_DFL, SIG_IGN, SignalInfo,
    UserContext,
};
use crate::arch::syscall::{self, SignalMask};
use crate::{Refusal, tasks};

const SIGBUS: u8 = 7;
const SIGSEGV: u8 = 11;
const SIGNALS: [u8; 2] = [SIGBUS, SIGSEGV];

/// The application's actions: handler, flags, restorer, mask.
static APPLICATION: [[AtomicU64; 4]; 2] = [const { [const { AtomicU64::new(0) }; 4] }; 2];

fn application_action(signal: u8) -> Action {
    let [handler, flags, restorer, mask] = &APPLICATION[usize::from(signal == SIGSEGV)];
    Action {
        handler: handler.load(Ordering::Acquire) as usize,
        flags: flags.load(Ordering::Relaxed),
        restorer: restorer.load(Ordering::Relaxed) as usize,
        mask: mask.load(Ordering::Relaxed),
    }
}

fn set_application_action(signal: u8, action: &Action) {
    let [handler, flags, restorer, mask] = &APPLICATION[usize::from(signal == SIGSEGV)];
    flags.store(action.flags, Ordering::Relaxed);
    restorer.store(action.restorer as u64, Ordering::Relaxed);
    mask.store(action.mask, Ordering::Relaxed);
    handler.store(action.handler as u64, Ordering::Release);
}

/// Puts our handler before the application's, if it isn't there.
///
/// # Errors
/// [`Refusal::System`].
pub fn take_over() -> Result<(), Refusal> {
    let system = |errno: syscall::Errno| Refusal::System { call: "sigaction(SIGSEGV)", errno: errno.0 };
    let handler: signal::Handler = on_fault;
    let ours = Action {
        handler: handler as *const () as usize,
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_NODEFER,
        restorer: signal::restorer(),
        mask: 0,
    };
    for signal in SIGNALS {
        let mut now = Action::default();
        // SAFETY: only asks.
        unsafe { syscall::signal_action(signal, None, Some(&mut now)) }.map_err(system)?;
        if now.handler != ours.handler {
            set_application_action(signal, &now);
            // SAFETY: our handler may run at any instruction of any thread.
            unsafe { syscall::signal_action(signal, Some(&ours), None) }.map_err(system)?;
        }
    }
    Ok(())
}

extern "C" fn on_fault(number: i32, info: *mut SignalInfo, context: *mut UserContext) {
    // SAFETY: the kernel passes both, and nobody else refers to this frame.
    let (code, registers) = unsafe { ((*info).code, &mut (*context).registers) };
    if code > 0
        && let Some(landing) = guarded::landing(registers.rip)
    {
        registers.rip = landing;
        return;
    }
    // SAFETY: what the kernel has passed.
    unsafe { pass_on(number, info, context) };
}

/// Does what the application's action says.
unsafe fn pass_on(number: i32, info: *mut SignalInfo, context: *mut UserContext) {
    let signal = number as u8;
    let action = application_action(signal);
    // SAFETY: the kernel has passed both.
    let (by_exception, interrupted) = unsafe { ((*info).code > 0, &mut *context) };
    match action.handler {
        SIG_IGN if !by_exception => {}
        SIG_DFL | SIG_IGN => {
            let default = Action { flags: SA_RESTORER, restorer: signal::restorer(), ..Action::default() };
            // SAFETY: the default action. The faulting instruction is executed again, to the end.
            let _ = unsafe { syscall::signal_action(signal, Some(&default), None) };
            if !by_exception {
                interrupted.mask &= !tasks::signal_bit(signal);
                let _ = syscall::signal_thread(syscall::gettid(), signal);
            }
        }
        _ => {
            if action.flags & SA_RESETHAND != 0 {
                set_application_action(signal, &Action { handler: SIG_DFL, ..action });
            }
            let own = if action.flags & SA_NODEFER != 0 { 0 } else { tasks::signal_bit(signal) };
            syscall::signal_mask(SignalMask::Set, interrupted.mask | action.mask | own);
            // SAFETY: the application's handler, called as the kernel would; the mask is put back by the return.
            unsafe { signal::call_handler(&action, number, info, context) };
        }
    }
}
