//! Attributed times that agree with the times they are parts of. They are counted by another clock than calls' times, from the
//! agent's begin to its end, and estimates change the one and not the other.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{Profile, Thread};

/// Of a thread beside which no other one lived all time is its own. Otherwise no attributed time is more than the time itself.
pub(crate) fn fit(profile: &mut Profile) {
    if profile.threads.is_empty() {
        return;
    }
    let alone = alone(profile);
    for (thread, &alone) in profile.threads.iter_mut().zip(&alone) {
        if alone {
            thread.attributed_ns = thread.wall_ns;
        }
        thread.attributed_ns = thread.attributed_ns.clamp(0, thread.wall_ns.max(0));
        // What is outside of all calls is attributed no more than it lasts, either.
        let outside_ns = thread.wall_ns - thread.outermost_ns;
        let most = thread.outermost_ns.min(thread.attributed_ns).max(0);
        let least = (thread.attributed_ns - outside_ns).clamp(0, most);
        thread.outermost_attributed_ns = thread.outermost_attributed_ns.clamp(least, most);
    }
    for flow in &mut profile.flows {
        let Some(total) = flow.total_ns else { continue };
        let alone = alone.get(flow.thread as usize).copied().unwrap_or(false);
        // Calls of a flow on one thread are apart: of its time they have no more than all.
        let most = profile.threads.get(flow.thread as usize).map_or(total, |thread| thread.attributed_ns.min(total));
        flow.attributed_ns = flow.attributed_ns.map(|ns| if alone { total } else { ns.clamp(0, most.max(0)) });
        flow.criticality_ns = flow.criticality_ns.map(|ns| ns.min(flow.attributed_ns.unwrap_or(total)));
    }
}

/// Threads during whose lives no other thread of the same application lived: in which all threads count, or those of a process.
fn alone(profile: &Profile) -> Vec<bool> {
    let exact = profile.meta.criticality.as_ref().filter(|session| !session.estimate);
    let together = exact.is_some_and(|session| !session.per_process);
    let pid = |process: u32| profile.processes.get(process as usize).map_or(0, |process| process.pid);
    let of_thread = |thread: &Thread| (pid(thread.process), thread.tid);
    let threads = profile.threads.iter().map(|t| (of_thread(t), t.start_ns, t.start_ns + t.wall_ns));
    let tasks = profile.sched.tasks.iter().map(|t| ((pid(t.process), t.tid), t.start_ns, t.end_ns));
    // One that both saw, or that became another program, is one.
    let mut lives: HashMap<(i32, i32), (i64, i64)> = HashMap::default();
    for (number, start, end) in threads.chain(tasks) {
        let life = lives.entry(number).or_insert((start, end));
        *life = (life.0.min(start), life.1.max(end));
    }
    let mut in_order: Vec<((i32, i32), i64, i64)> =
        lives.into_iter().map(|(number, (start, end))| (number, start, end)).collect();
    let application = |number: (i32, i32)| if together { 0 } else { number.0 };
    in_order.sort_unstable_by_key(|&(number, start, end)| (application(number), start, end));
    let mut found: HashMap<(i32, i32), bool> = HashMap::default();
    let mut before: Option<(i32, i64)> = None;
    for (at, &(number, start, end)) in in_order.iter().enumerate() {
        let of = application(number);
        let until = before.filter(|&(application, _)| application == of).map_or(i64::MIN, |(_, until)| until);
        let next = in_order.get(at + 1).filter(|next| application(next.0) == of);
        found.insert(number, until <= start && next.is_none_or(|next| next.1 >= end));
        before = Some((of, until.max(end)));
    }
    profile.threads.iter().map(|thread| found.get(&of_thread(thread)).copied().unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{ApiClass, Clock, Flow, Machine, Meta, Process, Task};

    use super::*;

    fn thread(tid: i32, start_ns: i64, wall_ns: i64) -> Thread {
        Thread {
            process: 0,
            tid,
            name: "app".into(),
            group: "main".into(),
            start_routine: String::new(),
            start_ns,
            wall_ns,
            busy_ns: wall_ns,
            wait_ns: 0,
            calls: 1,
            outermost_ns: 700,
            outermost_attributed_ns: 650,
            attributed_ns: 800,
        }
    }

    fn flow(thread: u32, total: i64, attributed: i64) -> Flow {
        Flow {
            thread,
            context: 0,
            caller: 0,
            callee: 1,
            api: "f".into(),
            symbol: "f".into(),
            version: String::new(),
            class: ApiClass::Compute,
            calls: 10,
            timed_calls: 5,
            abandoned_calls: 0,
            total_ns: Some(total),
            total_ns_low: None,
            total_ns_high: None,
            self_ns: Some(total),
            self_ns_low: None,
            self_ns_high: None,
            called_back_ns: 0,
            called_back_same_edge_ns: 0,
            attributed_ns: Some(attributed),
            criticality_ns: Some(attributed),
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            bytes: None,
            dlsym: false,
        }
    }

    fn fitted(threads: Vec<Thread>, flows: Vec<Flow>, tasks: Vec<Task>) -> Profile {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.processes.push(Process { pid: 1, parent_pid: 0, executable: "app".into(), start_ns: 0, wall_ns: 1000 });
        (profile.threads, profile.flows, profile.sched.tasks) = (threads, flows, tasks);
        fit(&mut profile);
        profile
    }

    fn times(profile: &Profile, thread: usize) -> (i64, i64) {
        (profile.threads[thread].attributed_ns, profile.threads[thread].outermost_attributed_ns)
    }

    #[test]
    fn all_time_of_a_thread_that_was_alone_is_its_own() {
        let task = |tid, start_ns, end_ns| Task { tid, start_ns, end_ns, ..Task::default() };
        // One flow's estimate has fallen to nothing, another's has grown, and the first one's task began before it.
        let flows = vec![flow(0, 0, 90), flow(0, 500, 300)];
        let profile = fitted(vec![thread(1, 5, 995)], flows, vec![task(1, 0, 1000)]);
        assert_eq!(times(&profile, 0), (995, 700));
        let parts = |flow: &Flow| (flow.attributed_ns.unwrap(), flow.criticality_ns.unwrap());
        assert_eq!(profile.flows.iter().map(parts).collect::<Vec<_>>(), [(0, 0), (500, 300)]);
        // Another one, which made no calls, comes after it; a third lives beside it.
        let profile = fitted(vec![thread(1, 0, 1000)], Vec::new(), vec![task(1, 0, 1000), task(2, 1000, 1500)]);
        assert_eq!(times(&profile, 0), (1000, 700));
        let profile = fitted(vec![thread(1, 0, 1000)], Vec::new(), vec![task(1, 0, 1000), task(2, 400, 500)]);
        assert_eq!(times(&profile, 0), (800, 650));
    }

    #[test]
    fn no_attributed_time_is_more_than_the_time() {
        let mut second = thread(2, 100, 750);
        (second.outermost_ns, second.outermost_attributed_ns) = (600, 790);
        let profile = fitted(vec![thread(1, 0, 1000), second], vec![flow(0, 50, 80), flow(1, 90, 30)], Vec::new());
        assert_eq!((times(&profile, 0), times(&profile, 1)), ((800, 650), (750, 600)));
        let parts = |flow: &Flow| (flow.attributed_ns.unwrap(), flow.criticality_ns.unwrap());
        assert_eq!(profile.flows.iter().map(parts).collect::<Vec<_>>(), [(50, 50), (30, 30)]);
    }

    #[test]
    fn calls_have_no_more_of_the_time_than_their_thread() {
        let other = Thread { tid: 2, ..thread(2, 0, 1000) };
        let profile = fitted(vec![thread(1, 0, 1000), other], vec![flow(0, 1000, 1000), flow(1, 500, 500)], Vec::new());
        assert_eq!([0, 1].map(|row| profile.flows[row].attributed_ns), [Some(800), Some(500)]);
    }
}
