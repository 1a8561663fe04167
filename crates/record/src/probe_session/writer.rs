//! Who has written a jump: a command takes out its own, and so does its guard after it.

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

/// The number of this command in [`transect_event_abi::probe_arena::SiteRecord::writer`]; never 0. Processes forked off after
/// the first call share it. Pids would not do: each container has its own.
pub fn writer() -> u32 {
    static WRITER: OnceLock<u32> = OnceLock::new();
    *WRITER.get_or_init(|| {
        let now = clock_gettime(ClockId::Monotonic);
        let ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        // The golden ratio's bits: nearby times and pids differ in the upper half (Knuth's multiplicative hash).
        let mixed = (ns ^ u64::from(std::process::id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32).max(1)
    })
}
