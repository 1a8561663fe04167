//! Threads that are made for one request, of which nobody knows who made them.

use rustc_hash::FxHashMap;

use super::super::Source;
use super::trace::{Ending, Point, Points, Trace};

/// Has them begin with the request: one that was started after another thread had begun to wait, and ended that wait, was made for it.
/// At their own times they would keep the rest of a replay to the pace of the recording.
pub(super) fn add_requests(trace: &mut Trace, points: &mut Points, source: &Source<'_>) {
    let tables = source.tables;
    // By thread the begin of the wait that it ended, who waited, and the end.
    let mut served: FxHashMap<u32, (i64, u32, i64)> = FxHashMap::default();
    for wait in trace.waits.iter().filter(|wait| wait.ending == Ending::Token) {
        let row = &tables.waits[wait.row as usize];
        let Some(server) = row.waker.map(|waker| waker.task) else { continue };
        let is_late = trace.late.get(server as usize).is_some_and(|&late| late > 0.0);
        if is_late && row.begin_ns >= trace.start_ns && tables.tasks[server as usize].start_ns > row.begin_ns {
            let first = served.entry(server).or_insert((row.begin_ns, row.task, row.end_ns));
            if row.end_ns < first.2 {
                *first = (row.begin_ns, row.task, row.end_ns);
            }
        }
    }
    for (server, (begin_ns, waiter, _)) in served {
        (trace.spawned[server as usize], trace.late[server as usize]) = (true, 0.0);
        points.push((waiter, begin_ns, Point::Spawn(server)));
    }
}
