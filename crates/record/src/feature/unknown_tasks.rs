//! Switches of threads of processes that are not known yet: a child tells its first region some time after it was forked.

use std::collections::HashMap;

use super::on_cpu_state::OnCpuState;

/// Process and thread.
type Own = (i32, i32);

/// Beyond so many, those that have ended are forgotten: a shell's children have no regions.
const MANY: usize = 4096;
/// Switches that are kept one by one.
const KEPT: usize = 64;

#[derive(Debug)]
struct UnknownTask {
    on_cpu: OnCpuState,
    /// Ticks off the CPU, beside what `on_cpu` still has.
    off: u64,
    ended: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub struct UnknownTasks {
    threads: HashMap<Own, UnknownTask>,
}

impl UnknownTasks {
    /// It came to a CPU (`on`), or left it.
    pub fn switched(&mut self, thread: Own, ticks: u64, on: bool) {
        if self.threads.len() >= MANY && !self.threads.contains_key(&thread) {
            self.threads.retain(|_, stranger| !stranger.ended);
        }
        let new = || UnknownTask { on_cpu: OnCpuState::heard_from(ticks), off: 0, ended: false };
        self.threads.entry(thread).or_insert_with(new).on_cpu.switched(ticks, on);
    }

    /// It has ended; what it did may still be met.
    pub fn ended(&mut self, thread: Own) {
        if let Some(stranger) = self.threads.get_mut(&thread) {
            stranger.ended = true;
        }
    }

    /// All that was done up to `ticks` is known.
    pub fn settle(&mut self, ticks: u64) {
        for stranger in self.threads.values_mut().filter(|stranger| stranger.on_cpu.ahead() > KEPT) {
            stranger.off += stranger.on_cpu.pass(ticks, false);
        }
    }

    /// It is known now: where it was, and how long it was off the CPU before what that still tells. Nothing is known of
    /// others before `start`.
    pub fn take(&mut self, thread: Own, start: u64) -> (OnCpuState, u64) {
        let stranger = self.threads.remove(&thread);
        stranger.map_or_else(|| (OnCpuState::heard_from(start), 0), |stranger| (stranger.on_cpu, stranger.off))
    }
}
