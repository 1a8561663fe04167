//! Counting system calls delays each of them a little: where calls come fast that is too much, and the counting ends.

use transect_bpf_collect::{SampledEvent, SchedCollector, SystemCallTotals};

use crate::error::RecordError;

/// Cost of a counted call, ns: two programs, and the kernel's longer way in and out, which all processes of the machine pay.
/// Measured: 125 in a loop of nothing but calls, 200 to 240 with 1 to 3 µs of work between two, and 150 for each call of a client
/// that is not followed.
const CALL_NS: u64 = 250;
/// The threads' CPU time that counting may cost: one part of so many, and where other collectors cost time, too.
const ALONE: u64 = 33;
const BESIDE: u64 = 100;
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
    ended: Option<CountedCalls>,
}

impl SystemCallBudget {
    /// Nothing is counted yet. `event` is what samples are taken by; `beside`: other collectors are at work.
    pub fn new(event: SampledEvent, beside: bool) -> Self {
        let parts = if beside { BESIDE } else { ALONE };
        Self { unlimited: event == SampledEvent::PageFaults, parts, ended: None }
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
        let until = (!self.unlimited && is_too_dear(&totals, self.parts)).then_some(now);
        let counted = CountedCalls { totals, until };
        if until.is_some() {
            collector.count_system_calls(false)?;
            self.ended = Some(counted.clone());
        }
        Ok(counted)
    }
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
    fn a_burst_at_the_beginning_decides_nothing() {
        assert!(!is_too_dear(&totals(50_000, 50_000_000), BESIDE));
    }
}
