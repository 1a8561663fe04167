//! The handler of SIGTRAP: leads threads that meet our INT3 around it, and passes all else on to the application.
//!
//! - Our INT3: its address is in the table of the batch or word patch at work, published before the first INT3 is
//!   stored. The thread goes on at the moved address, or the replaced instruction is emulated. The handler takes no
//!   lock, waits for nothing, allocates nothing and calls nothing outside of this crate (what it might call may be what
//!   is being patched). It runs with SIGTRAP unblocked, on the alternate stack if there is one.
//! - An INT3 that was ours and has gone while the signal was on its way: the byte is no breakpoint any more, and the
//!   thread executes what stands there now.
//! - Anything else (the application's own `int3`, `raise(SIGTRAP)`, single steps) goes to the disposition that the
//!   application had: its handler with its mask and flags, or the default action at the right address.
//!
//! An application that sets SIGTRAP's action after us replaces our handler; every batch and word patch looks at the
//! action anew before its first INT3, and puts our handler before the application's. One that does so *during* a batch,
//! or before a thread that met an INT3 and was then descheduled has its signal, gets our INT3s: an interposer of
//! `sigaction` should hold it up meanwhile ([`crate::batch::at_work`]), and answer from [`application_action`]. A
//! debugger sees INT3 before any handler does: [`crate::batch::Method`] says what then.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::signal::{
    self, Action, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_RESTORER, SA_SIGINFO, SI_KERNEL, SIG_DFL,
    SIG_IGN, SIGTRAP, SignalInfo, UserContext,
};
use crate::arch::{store, syscall};
use crate::batch::table;
use crate::form::INT3;
use crate::{Refusal, tasks, word};

/// The application's action: handler, flags, restorer, mask.
static APPLICATION: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// The action that SIGTRAP has for the application, [`take_over`] regarded.
pub fn application_action() -> Action {
    let [handler, flags, restorer, mask] = &APPLICATION;
    Action {
        handler: handler.load(Ordering::Acquire) as usize,
        flags: flags.load(Ordering::Relaxed),
        restorer: restorer.load(Ordering::Relaxed) as usize,
        mask: mask.load(Ordering::Relaxed),
    }
}

/// Sets the action that SIGTRAP has for the application, for interposers of `sigaction`.
pub fn set_application_action(action: &Action) {
    let [handler, flags, restorer, mask] = &APPLICATION;
    flags.store(action.flags, Ordering::Relaxed);
    restorer.store(action.restorer as u64, Ordering::Relaxed);
    mask.store(action.mask, Ordering::Relaxed);
    handler.store(action.handler as u64, Ordering::Release);
}

fn our_action(visit_signal: u8) -> Action {
    let handler: signal::Handler = on_trap;
    Action {
        handler: handler as *const () as usize,
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART | SA_NODEFER,
        restorer: signal::restorer(),
        // A visit must see a program counter that this handler has dealt with.
        mask: tasks::signal_bit(visit_signal),
    }
}

/// Puts our handler before the application's, if it isn't there. `visit_signal` is the one that visits threads.
///
/// # Errors
/// [`Refusal::System`].
pub fn take_over(visit_signal: u8) -> Result<(), Refusal> {
    let system = |errno: syscall::Errno| Refusal::System { call: "sigaction(SIGTRAP)", errno: errno.0 };
    let ours = our_action(visit_signal);
    let mut now = Action::default();
    // SAFETY: only asks.
    unsafe { syscall::signal_action(SIGTRAP, None, Some(&mut now)) }.map_err(system)?;
    if now.handler == ours.handler {
        if now.mask & ours.mask == 0 {
            // SAFETY: our handler.
            unsafe { syscall::signal_action(SIGTRAP, Some(&ours), None) }.map_err(system)?;
        }
        return Ok(());
    }
    set_application_action(&now);
    // SAFETY: our handler may run at any instruction of any thread.
    unsafe { syscall::signal_action(SIGTRAP, Some(&ours), None) }.map_err(system)
}

/// Gives SIGTRAP back to the application, when no window is being patched and the last one was some time ago (a trap
/// may still be on its way).
///
/// # Errors
/// [`Refusal::System`].
pub fn give_back() -> Result<(), Refusal> {
    let system = |errno: syscall::Errno| Refusal::System { call: "sigaction(SIGTRAP)", errno: errno.0 };
    let mut now = Action::default();
    // SAFETY: the application's own action is put back.
    unsafe {
        syscall::signal_action(SIGTRAP, None, Some(&mut now)).map_err(system)?;
        if now.handler == our_action(signal::SIGURG).handler {
            syscall::signal_action(SIGTRAP, Some(&application_action()), None).map_err(system)?;
        }
    }
    Ok(())
}

extern "C" fn on_trap(number: i32, info: *mut SignalInfo, context: *mut UserContext) {
    // SAFETY: the kernel passes both, and nobody else refers to this frame.
    let (code, registers) = unsafe { ((*info).code, &mut (*context).registers) };
    if code == SI_KERNEL {
        let at = registers.rip.wrapping_sub(1);
        // Tables are published before INT3 is stored, so one that stands there and was in no table a moment ago may be
        // in one now: look again some times before it is taken for somebody else's.
        for _ in 0..64 {
            if let Some(effect) = table::lead(at).or_else(|| word::lead(at)) {
                // SAFETY: the registers of the thread that met the INT3 at `at`.
                unsafe { effect.act(registers) };
                return;
            }
            // SAFETY: the byte that was just executed; the one before only if it isn't another page.
            let (before, byte) = unsafe { (if at % 4096 == 0 { 0 } else { store::load_1(at - 1) }, store::load_1(at)) };
            if byte != INT3 && !(before == 0xCD && byte == 3) {
                // It was ours, and has gone.
                registers.rip = at;
                return;
            }
        }
    }
    // SAFETY: what the kernel has passed.
    unsafe { pass_on(number, info, context) };
}

/// Does what the application's action says.
unsafe fn pass_on(number: i32, info: *mut SignalInfo, context: *mut UserContext) {
    let action = application_action();
    // SAFETY: the kernel has passed both.
    let (code, context_now) = unsafe { ((*info).code, &mut *context) };
    let by_exception = code > 0;
    match action.handler {
        SIG_IGN if !by_exception => {}
        SIG_DFL | SIG_IGN => {
            let default = Action { flags: SA_RESTORER, restorer: signal::restorer(), ..Action::default() };
            // SAFETY: the default action.
            let _ = unsafe { syscall::signal_action(SIGTRAP, Some(&default), None) };
            if code == SI_KERNEL {
                // SAFETY: the byte that was just executed.
                let long_form = unsafe { store::load_1(context_now.registers.rip - 1) } != INT3;
                context_now.registers.rip -= if long_form { 2 } else { 1 }; // again, and to the end
            } else {
                context_now.mask &= !tasks::signal_bit(SIGTRAP);
                let _ = syscall::signal_thread(syscall::gettid(), SIGTRAP);
            }
        }
        _ => {
            if action.flags & SA_RESETHAND != 0 {
                set_application_action(&Action { handler: SIG_DFL, ..action });
            }
            let own = if action.flags & SA_NODEFER != 0 { 0 } else { tasks::signal_bit(SIGTRAP) };
            syscall::signal_mask(syscall::SignalMask::Set, context_now.mask | action.mask | own);
            // SAFETY: the application's handler, called as the kernel would; the mask is put back by the return.
            unsafe { signal::call_handler(&action, number, info, context) };
        }
    }
}
