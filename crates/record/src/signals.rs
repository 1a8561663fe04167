//! Signals to the recorder: passed on to the program, or a wish for a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::error::RecordError;

/// Signals that are passed on to the program.
const FORWARDED: [(i32, Signal); 3] = [(1, Signal::HUP), (2, Signal::INT), (15, Signal::TERM)];

/// Signals that came and have not been dealt with.
pub struct Signals {
    snapshot: Arc<AtomicBool>,
    forward: Vec<(Arc<AtomicBool>, Signal)>,
}

impl Signals {
    /// Takes them from now on; those that the recorder was started to ignore stay ignored.
    pub fn watch() -> Result<Signals, RecordError> {
        let register = |number: i32| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, flag.clone()).map_err(RecordError::system("watch signals"))?;
            Ok::<_, RecordError>(flag)
        };
        let ignored = ignored_signals();
        let mut forward = Vec::new();
        for (number, signal) in FORWARDED {
            if ignored & 1 << (number - 1) == 0 {
                forward.push((register(number)?, signal));
            }
        }
        Ok(Signals { snapshot: register(12)?, forward })
    }

    /// What the program is to get, since the last call. From a terminal it has had an interrupt already; sending it twice
    /// would hurt shells, so only those sent to us alone are in it.
    pub fn to_forward(&self) -> Vec<Signal> {
        self.taken()
            .filter(|&signal| signal != Signal::INT || !std::io::IsTerminal::is_terminal(&std::io::stdin()))
            .collect()
    }

    /// Whether any came that ends a recording of what runs anyway, since the last call.
    pub fn ends(&self) -> bool {
        self.taken().count() > 0
    }

    fn taken(&self) -> impl Iterator<Item = Signal> {
        self.forward.iter().filter(|(flag, _)| flag.swap(false, Ordering::AcqRel)).map(|&(_, signal)| signal)
    }

    /// Whether a snapshot was asked for since the last call.
    pub fn wants_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::AcqRel)
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
