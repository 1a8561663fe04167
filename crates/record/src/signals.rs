//! Signals to the recorder: passed on to the program, or a wish for a snapshot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::Signal;

use crate::error::RecordError;

/// Signals that are passed on to the program, or end a recording of what runs anyway. An alarm may have been set by who became
/// this command, and was meant for the program.
const FORWARDED: [(i32, Signal); 6] = [
    (1, Signal::HUP),
    (2, Signal::INT),
    (3, Signal::QUIT),
    (10, Signal::USR1),
    (14, Signal::ALARM),
    (15, Signal::TERM),
];
/// Signals of limits (XCPU, XFSZ) and timers (VTALRM, PROF) that are the program's affair: a profile that could not be written
/// says so.
const NOT_OURS: [i32; 4] = [24, 25, 26, 27];

/// What must not be left half done by a signal that ends this process, or leave something behind: the signal comes after it.
pub fn hold_back<T>(run: impl FnOnce() -> T) -> T {
    let all = FORWARDED.iter().filter_map(|(number, _)| nix::sys::signal::Signal::try_from(*number).ok());
    let before = SigSet::from_iter(all).thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = run();
    let _ = before.map(|mask| mask.thread_set_mask());
    done
}

/// Whether the recording is kept, so that a signal may end this process.
static MAY_END: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on signals end this process: its profile is kept, and what is left to do may wait for others.
pub fn let_signals_end() {
    MAY_END.store(true, Ordering::Release);
}

/// Whether a snapshot was asked for that has not been written.
static SNAPSHOT: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on a request for a snapshot does not end this process; one that comes before there is anything to write is answered
/// when there is.
pub fn take_snapshot_requests() {
    // Without it the signal does what it does to all programs.
    let _ = signal_hook::flag::register(12, SNAPSHOT.clone());
}

/// Signals that came and have not been dealt with.
pub struct Signals {
    forward: Vec<(Arc<AtomicBool>, Signal)>,
    /// Who leads the recording says that it is enough.
    enough: Arc<AtomicBool>,
}

impl Signals {
    /// Takes them from now on; those that the recorder was started to ignore stay ignored, as by the program that it launches.
    pub fn watch() -> Result<Signals, RecordError> {
        Self::watch_but(ignored_signals())
    }

    /// The same for who launches nothing: an interrupt that shells let jobs in the background ignore ends them if it is sent.
    pub fn watch_running() -> Result<Signals, RecordError> {
        const INTERRUPT: u64 = 1 << 1;
        Self::watch_but(ignored_signals() & !INTERRUPT)
    }

    /// None: a recording beside another one ends when that says so.
    pub fn led(enough: Arc<AtomicBool>) -> Signals {
        Signals { forward: Vec::new(), enough }
    }

    /// `ignored`: signal *n* by bit *n* − 1.
    fn watch_but(ignored: u64) -> Result<Signals, RecordError> {
        let register = |number: i32, flag: Arc<AtomicBool>| {
            signal_hook::flag::register_conditional_default(number, MAY_END.clone())
                .map_err(RecordError::system("watch signals"))?;
            signal_hook::flag::register(number, flag).map_err(RecordError::system("watch signals"))
        };
        survive_limits();
        let mut forward = Vec::new();
        for (number, signal) in FORWARDED {
            if ignored & 1 << (number - 1) == 0 {
                let flag = Arc::<AtomicBool>::default();
                register(number, flag.clone())?;
                forward.push((flag, signal));
            }
        }
        register(12, SNAPSHOT.clone())?;
        Ok(Signals { forward, enough: Arc::default() })
    }

    /// What the program is to get, since the last call. From a terminal it has had an interrupt already; sending it twice
    /// would hurt shells, so only those sent to us alone are in it.
    pub fn to_forward(&self) -> Vec<Signal> {
        self.taken()
            .filter(|&signal| {
                !matches!(signal, Signal::INT | Signal::QUIT) || !std::io::IsTerminal::is_terminal(&std::io::stdin())
            })
            .collect()
    }

    /// Passes on to a launched program what came since the last call.
    pub fn forward(&self, pid: i32) {
        let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
        for signal in self.to_forward() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Whether any came that ends a recording of what runs anyway, since the last call, or it was enough otherwise.
    pub fn ends(&self) -> bool {
        self.enough.load(Ordering::Acquire) || self.taken().count() > 0
    }

    fn taken(&self) -> impl Iterator<Item = Signal> {
        self.forward.iter().filter(|(flag, _)| flag.swap(false, Ordering::AcqRel)).map(|&(_, signal)| signal)
    }

    /// Whether a snapshot was asked for since the last call.
    pub fn wants_snapshot(&self) -> bool {
        SNAPSHOT.swap(false, Ordering::AcqRel)
    }
}

/// Limits of the user end calls, not the recorder, which then can say what is too low. Those that it was started to ignore
/// stay ignored; a program that is launched finds them as they were.
pub fn survive_limits() {
    let ignored = ignored_signals();
    for number in NOT_OURS.into_iter().filter(|number| ignored & 1 << (number - 1) == 0) {
        let _ = signal_hook::flag::register(number, Arc::default());
    }
}

/// Signals this process was started with as ignored (nohup): they stay so for the program.
fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| s.lines().find_map(|l| l.strip_prefix("SigIgn:").map(|v| v.trim().to_owned())))
        .and_then(|v| u64::from_str_radix(&v, 16).ok())
        .unwrap_or(0)
}
