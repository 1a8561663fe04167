//! Who has written a jump: a command takes out its own, and so does its guard after it.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// The number of this command in [`transect_event_abi::probe_arena::SiteRecord::writer`]; never 0. Processes forked off after
/// the first call share it. Pids would not do: each container has its own.
pub fn writer() -> u32 {
    static WRITER: OnceLock<u32> = OnceLock::new();
    *WRITER.get_or_init(|| (RandomState::new().hash_one(()) as u32).max(1))
}
