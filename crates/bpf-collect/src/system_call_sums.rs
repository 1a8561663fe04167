//! Sums of system calls by thread, put together from what the programs counted.

use std::collections::BTreeMap;

use crate::skeleton::types::{system_call_sum, thread_clocks};
use crate::system_call_time::{Clocks, SystemCall, SystemCallTotal, SystemCallTotals, ThreadSystemCalls};

/// Rows that are not of a system call (`SYSTEM_CALL_ROW_THREAD`): a thread's clocks while its calls were counted.
pub(crate) const ROW_THREAD: u32 = 0xffff_fffc;
/// See [`ROW_THREAD`].
pub(crate) const ROW_USER_FAULTS: u32 = 0xffff_fffb;
/// See [`ROW_THREAD`].
pub(crate) const ROW_KERNEL_FAULTS: u32 = 0xffff_fffa;
/// All calls that the flow agent makes (`SYSTEM_CALL_OWN`).
pub(crate) const OWN: u32 = 0xffff_fff9;

/// Sums of one thread as they are put together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub count: u64,
    running: u64,
    active: u64,
    blocked: u64,
    /// Some of the calls were counted only.
    estimated: bool,
}

impl Sum {
    pub(crate) fn of(row: &system_call_sum) -> Self {
        let mut sum = Self { estimated: row.estimated != 0, ..Self::default() };
        sum.add(row.count, &row.time);
        sum
    }

    pub(crate) fn add(&mut self, count: u64, clocks: &thread_clocks) {
        self.count += count;
        self.running += clocks.running;
        self.active += clocks.active;
        self.blocked += clocks.blocked;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.running += other.running;
        self.active += other.active;
        self.blocked += other.blocked;
        self.estimated |= other.estimated;
    }

    pub(crate) fn clocks(&self) -> Clocks {
        let runnable_ns = self.active.saturating_sub(self.running);
        Clocks { running_ns: self.running, runnable_ns, blocked_ns: self.blocked }
    }
}

/// Sums by (task, number or row).
pub(crate) type Rows = BTreeMap<(u32, u32), Sum>;

/// What one thread's estimated times must fit into. They are right on average: of few calls they can come to more than the
/// thread's time leaves beside the calls that were all timed. Then they are that, shared out in proportion.
#[derive(Default)]
struct Room {
    exact: Clocks,
    estimated: Clocks,
    whole: Clocks,
}

impl Room {
    fn add(&mut self, number: u32, sum: &Sum) {
        let into = match number {
            ROW_THREAD => &mut self.whole,
            ROW_KERNEL_FAULTS.. => return,
            _ if sum.estimated => &mut self.estimated,
            _ => &mut self.exact,
        };
        let clocks = sum.clocks();
        into.running_ns += clocks.running_ns;
        into.runnable_ns += clocks.runnable_ns;
    }

    fn fit(&self, sum: &Sum) -> Clocks {
        let clocks = sum.clocks();
        if !sum.estimated {
            return clocks;
        }
        let fitted = |of: fn(&Clocks) -> u64| {
            let (part, estimated) = (of(&clocks), of(&self.estimated));
            let room = of(&self.whole).saturating_sub(of(&self.exact));
            if estimated <= room { part } else { (u128::from(part) * u128::from(room) / u128::from(estimated)) as u64 }
        };
        Clocks { running_ns: fitted(|c| c.running_ns), runnable_ns: fitted(|c| c.runnable_ns), ..clocks }
    }
}

/// Totals, of which estimates fit into their thread's time.
pub(crate) fn gather(rows: &Rows, lost: u64) -> SystemCallTotals {
    let mut rooms: BTreeMap<u32, Room> = BTreeMap::new();
    for (&(task, number), sum) in rows {
        rooms.entry(task).or_default().add(number, sum);
    }
    let mut totals = SystemCallTotals { lost, ..SystemCallTotals::default() };
    for (&(task, number), sum) in rows {
        match number {
            ROW_THREAD => {
                let count = |row| rows.get(&(task, row)).map_or(0, |sum: &Sum| sum.count);
                totals.threads.push(ThreadSystemCalls {
                    task,
                    counted: sum.clocks(),
                    user_faults: count(ROW_USER_FAULTS),
                    kernel_faults: count(ROW_KERNEL_FAULTS),
                });
            }
            OWN.. => {}
            _ => totals.calls.push(SystemCallTotal {
                task,
                call: SystemCall::from_raw(number),
                count: sum.count,
                time: rooms.get(&task).map_or_else(Clocks::default, |room| room.fit(sum)),
            }),
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(running: u64, runnable: u64, blocked: u64, estimated: bool) -> Sum {
        Sum { count: 1, running, active: running + runnable, blocked, estimated }
    }

    #[test]
    fn estimates_take_no_more_than_what_exact_times_leave() {
        let rows = Rows::from([
            ((1, 0), sum(300, 0, 7, true)),
            ((1, 1), sum(100, 50, 0, true)),
            ((1, 2), sum(300, 10, 0, false)),
            ((1, OWN), sum(100, 0, 0, false)),
            ((1, ROW_THREAD), sum(500, 100, 7, false)),
            ((2, 0), sum(300, 0, 0, true)),
            ((2, ROW_THREAD), sum(301, 0, 0, false)),
        ]);
        let totals = gather(&rows, 0);
        let times: Vec<_> = totals.calls.iter().map(|total| (total.task, total.time)).collect();
        let clocks = |running_ns, runnable_ns, blocked_ns| Clocks { running_ns, runnable_ns, blocked_ns };
        assert_eq!(
            times,
            [(1, clocks(75, 0, 7)), (1, clocks(25, 50, 0)), (1, clocks(300, 10, 0)), (2, clocks(300, 0, 0))]
        );
        assert_eq!(totals.threads.len(), 2);
    }
}
