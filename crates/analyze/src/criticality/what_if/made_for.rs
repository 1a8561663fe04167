//! Threads that are made for one request. Whoever accepts a request that was there already did not wait for it, so no wait says that
//! the request came first. It did where a thread was started after another had begun to wait, and ended that wait.

use rustc_hash::FxHashMap;

use super::super::Source;
use super::trace::{Ending, Point, Points, Trace, Wait};

/// Who starts the threads has most of its time left for it, so that nobody has to come in the order of the recording.
const MOSTLY_FREE: f64 = 0.5;

/// Has such threads begin with the request: when its thread waits, and so much later as they did. Whose maker is busy wait for their
/// turn, too.
pub(super) fn add_requests(trace: &mut Trace, points: &mut Points, source: &Source<'_>) {
    let tables = source.tables;
    // By thread the first wait that it ended.
    let mut served: FxHashMap<u32, u32> = FxHashMap::default();
    for wait in trace.waits.iter().filter(|wait| wait.ending == Ending::Token) {
        let row = &tables.waits[wait.row as usize];
        let Some(server) = row.waker.map(|waker| waker.task) else { continue };
        let Some(made) = tables.tasks.get(server as usize) else { continue };
        if row.begin_ns >= trace.start_ns && made.start_ns > row.begin_ns && made.parent != Some(row.task) {
            let first = served.entry(server).or_insert(wait.row);
            if row.end_ns < tables.waits[*first as usize].end_ns {
                *first = wait.row;
            }
        }
    }
    let is_free = |task: u32| {
        let Some(task) = tables.tasks.get(task as usize) else { return true };
        let active = task.running_ns.saturating_add(task.runnable_ns) as f64;
        active < MOSTLY_FREE * task.end_ns.saturating_sub(task.start_ns) as f64
    };
    points.retain(|&(maker, _, point)| match point {
        Point::Spawn(server) => !(served.contains_key(&server) && is_free(maker)),
        _ => true,
    });
    let mut served: Vec<(u32, u32)> = served.into_iter().collect();
    served.sort_unstable();
    for (server, row) in served {
        let (wait, made) = (&tables.waits[row as usize], &tables.tasks[server as usize]);
        if !trace.spawned[server as usize] || made.parent.is_none_or(is_free) {
            points.push((wait.task, wait.begin_ns, Point::Spawn(server)));
            trace.spawned[server as usize] = true;
            trace.late[server as usize] = (made.start_ns - wait.begin_ns) as f64;
            continue;
        }
        let id = trace.waits.len() as u32;
        trace.waits.push(Wait { row, ending: Ending::Token, ns: 0.0, period: 0.0, elastic: false, held: None });
        points.push((wait.task, wait.begin_ns, Point::Fire(id)));
        points.push((server, made.start_ns, Point::Gate(id)));
    }
}
