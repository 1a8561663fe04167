//! The process in which trials run. A mixed instruction that leads anywhere ends this process, nothing else.
//!
//! It prints a line for each trial, `done INDEX TOGGLES FAILURES EXECUTED`, and before it dies of a signal `died INDEX
//! TOGGLES FAILURES 0`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::curve::Trial;
use super::executor::{self, Code, Outcomes};
use crate::{CalibrateError, clock};

/// Ticks to wait for the executing thread.
const PATIENCE: u64 = 200_000;

static SITE: AtomicU64 = AtomicU64::new(0);
static PAD: AtomicU64 = AtomicU64::new(0);
static INDEX: AtomicU64 = AtomicU64::new(0);
static TOGGLES: AtomicU64 = AtomicU64::new(0);
static OUTCOMES: Outcomes = [const { AtomicU64::new(0) }; 10];

/// Runs the trials from `first` on, each for `time`, and writes their lines to standard output.
///
/// It takes over SIGTRAP, SIGSEGV, SIGILL and SIGBUS of the process: call it in a process that does nothing else.
///
/// # Errors
/// [`CalibrateError`] if there is no executable memory, or standard output is closed.
pub fn run_child(trials: &[Trial], first: usize, time: Duration) -> Result<(), CalibrateError> {
    for signal in [libc::SIGTRAP, libc::SIGSEGV, libc::SIGILL, libc::SIGBUS] {
        handle(signal);
    }
    let cpus = cpus();
    for (index, trial) in trials.iter().enumerate().skip(first) {
        let code = Code::new(trial.split)?;
        INDEX.store(index as u64, Ordering::Relaxed);
        TOGGLES.store(0, Ordering::Relaxed);
        OUTCOMES.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        SITE.store(code.site_address(), Ordering::Relaxed);
        PAD.store(code.trap_pad(), Ordering::Relaxed);
        let stop = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(cpus.1);
                while !stop.load(Ordering::Relaxed) {
                    code.execute(64, trial.cold, &OUTCOMES);
                }
            });
            pin(cpus.0);
            let done = toggle(&code, trial, time);
            stop.store(true, Ordering::Relaxed);
            done
        });
        done?;
        let (toggles, failures) = (TOGGLES.load(Ordering::Relaxed), executor::mixed(&OUTCOMES));
        let executed = executor::executed(&OUTCOMES);
        writeln!(std::io::stdout(), "done {index} {toggles} {failures} {executed}").map_err(CalibrateError::Pipe)?;
    }
    Ok(())
}

fn toggle(code: &Code, trial: &Trial, time: Duration) -> Result<(), CalibrateError> {
    let (place, forms) = (code.place(), [code.jump_y(), code.call_x()]);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let start = Instant::now();
    while start.elapsed() < time {
        for form in forms {
            // A thread that is dealing with a trap is not at risk: let it come back, then strike at a random moment of
            // its round. A thread that has no CPU at the time is not waited for.
            let (begin, before) = (clock::ticks(), executor::whole(&OUTCOMES));
            while executor::whole(&OUTCOMES) == before && clock::ticks() - begin < PATIENCE {
                std::hint::spin_loop();
            }
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let (begin, delay) = (clock::ticks(), random >> 54);
            while clock::ticks() - begin < delay {}
            place.change(form, trial.pause)?;
        }
        TOGGLES.fetch_add(2, Ordering::Relaxed);
    }
    Ok(())
}

/// Two CPUs that this process may use, the same twice if there is but one.
fn cpus() -> (usize, usize) {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let mut numbers = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let first = numbers.next().unwrap_or(0);
    (first, numbers.next().unwrap_or(first))
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // A thread that can't be pinned is left to the scheduler.
    let _ = sched_setaffinity(None, &set);
}

fn handle(signal: i32) {
    // SAFETY: zero is a valid sigaction; the handler below has the signature that SA_SIGINFO promises.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted thread's context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    if signal == libc::SIGTRAP && *rip as u64 == SITE.load(Ordering::Relaxed) + 1 {
        *rip = PAD.load(Ordering::Relaxed) as i64;
        return;
    }
    let mut text = [0u8; 96];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        text[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(b"died");
    let failures = executor::mixed(&OUTCOMES) + 1;
    for number in [INDEX.load(Ordering::Relaxed), TOGGLES.load(Ordering::Relaxed), failures, 0] {
        let mut digits = [0u8; 20];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        put(b" ");
        put(&digits[first..]);
    }
    put(b"\n");
    // SAFETY: write and _exit are async-signal-safe; nothing of the process is needed any more.
    unsafe {
        libc::write(1, text.as_ptr().cast(), at);
        libc::_exit(3);
    }
}
