//! Counting system calls delays each of them a little: where calls come fast that is too much, and the counting ends.

use std::time::{Duration, Instant};

use transect_bpf_collect::{SampledEvent, SchedCollector, SystemCallEntries, SystemCallTotals};

use crate::error::RecordError;

/// Cost of a counted call, ns: two programs, and the kernel's longer way in and out. Measured: 125 in a loop of nothing but calls,
/// 200 to 240 with 1 to 3 µs of work between two.
const CALL_NS: u64 = 250;
/// And of one of a thread that is not followed: the kernel calls the programs for all processes of the machine.
const OTHERS_NS: u64 = 150;
/// What calls in a burst may cost together, ns, however short it is.
const BURST_NS: u64 = 10_000_000;
/// The threads' CPU time that counting may cost: one part of so many, and where other collectors cost time, too.
const ALONE: u64 = 33;
const BESIDE: u64 = 100;
/// What it may cost programs that are not recorded: of all CPUs' time one part of so many.
const OTHERS: u64 = 33;
/// With less CPU time than this counted, too little was seen, ns.
const ENOUGH_NS: u64 = 100_000_000;

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CountedCalls {
    /// By thread and call.
    pub totals: SystemCallTotals,
    /// If the counting has ended: when, ns of the monotonic clock. What threads did since is in no total.
    pub until: Option<u64>,
}

/// Counts system calls as long as that costs little.
#[derive(Debug)]
pub(super) struct SystemCallBudget {
    /// Faults are what is asked for, and counted with the calls.
    unlimited: bool,
    parts: u64,
    began: Instant,
    ended: Option<CountedCalls>,
}

impl SystemCallBudget {
    /// Nothing is counted yet. `event` is what samples are taken by; `beside`: other collectors are at work.
    pub fn new(event: SampledEvent, beside: bool) -> Self {
        let parts = if beside { BESIDE } else { ALONE };
        Self { unlimited: event == SampledEvent::PageFaults, parts, began: Instant::now(), ended: None }
    }

    /// Ends the counting where calls come faster than the machine may pay for. Cheap: to be asked often.
    ///
    /// # Errors
    /// As [`SystemCallBudget::counted`].
    pub fn look(&mut self, collector: &mut SchedCollector<'_>, now: u64) -> Result<(), RecordError> {
        if self.ended.is_none() && !self.unlimited {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let machine = self.began.elapsed().saturating_mul(cpus as u32);
            if is_too_many(collector.system_call_entries()?, machine, self.parts) {
                self.end(collector, now)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, collector: &mut SchedCollector<'_>, now: u64) -> Result<(), RecordError> {
        let totals = collector.system_call_totals(now)?;
        collector.count_system_calls(false)?;
        self.ended = Some(CountedCalls { totals, until: Some(now) });
        Ok(())
    }

    /// What was counted up to `now`.
    ///
    /// # Errors
    /// If the collector's state can't be read or changed.
    pub fn counted(&mut self, collector: &mut SchedCollector<'_>, now: u64) -> Result<CountedCalls, RecordError> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let totals = collector.system_call_totals(now)?;
        if self.unlimited || !is_too_dear(&totals, self.parts) {
            return Ok(CountedCalls { totals, until: None });
        }
        self.end(collector, now)?;
        Ok(self.ended.clone().unwrap_or_default())
    }
}

/// Whether the program's calls have cost more than one part of so many of all CPUs' time, or others' more than their part.
fn is_too_many(entries: SystemCallEntries, machine: Duration, parts: u64) -> bool {
    let limit = |parts| BURST_NS + machine.as_nanos() as u64 / parts;
    entries.followed * CALL_NS > limit(parts) || entries.others * OTHERS_NS > limit(OTHERS)
}

fn is_too_dear(totals: &SystemCallTotals, parts: u64) -> bool {
    let calls: u64 = totals.calls.iter().map(|total| total.count).sum();
    let running_ns: u64 = totals.threads.iter().map(|thread| thread.counted.running_ns).sum();
    running_ns >= ENOUGH_NS && calls.saturating_mul(CALL_NS) > running_ns / parts
}

#[cfg(test)]
mod tests {
    use transect_bpf_collect::{Clocks, SystemCall, SystemCallTotal, ThreadSystemCalls};

    use super::*;

    fn totals(calls: u64, running_ns: u64) -> SystemCallTotals {
        let call = SystemCall { number: 0, compat: false };
        let counted = Clocks { running_ns, ..Clocks::default() };
        SystemCallTotals {
            calls: vec![SystemCallTotal { task: 1, call, count: calls, time: Clocks::default() }],
            threads: vec![ThreadSystemCalls { task: 1, counted, user_faults: 0, kernel_faults: 0 }],
            lost: 0,
        }
    }

    #[test]
    fn a_million_calls_a_second_are_too_many_and_a_hundred_thousand_are_not() {
        assert!(is_too_dear(&totals(200_000, 200_000_000), ALONE));
        assert!(!is_too_dear(&totals(20_000, 200_000_000), ALONE));
        assert!(is_too_dear(&totals(10_000, 200_000_000), BESIDE));
        assert!(!is_too_dear(&totals(7_000, 200_000_000), BESIDE));
    }

    #[test]
    fn other_programs_calls_count() {
        let second = Duration::from_secs(2);
        let entries = |followed, others| SystemCallEntries { followed, others };
        assert!(!is_too_many(entries(1000, 400_000), second, BESIDE));
        assert!(is_too_many(entries(1000, 1_000_000), second, BESIDE));
        assert!(is_too_many(entries(200_000, 0), second, BESIDE));
        assert!(!is_too_many(entries(30_000, 0), Duration::from_millis(5), BESIDE), "a burst at the beginning");
    }

    #[test]
    fn a_burst_at_the_beginning_decides_nothing() {
        assert!(!is_too_dear(&totals(50_000, 50_000_000), BESIDE));
    }
}
