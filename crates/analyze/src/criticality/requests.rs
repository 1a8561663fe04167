//! Waiting for requests: a server that nobody asks for anything waits in its event loop or for a connection, and no repair of it
//! saves that time.

use rustc_hash::FxHashSet;
use transect_profile_model::{Process, ProcessId, Profile, SchedTables, SchedWait, WaitKind};

/// APIs and kernel functions by which a process is known to serve others.
const SERVES: [&str; 8] =
    ["listen", "accept", "accept4", "__sys_accept4", "inet_csk_accept", "inet_accept", "unix_accept", "do_accept"];

/// Which processes take connections.
#[derive(Debug, Default)]
pub(super) struct Servers(FxHashSet<ProcessId>);

impl Servers {
    /// By the sockets of processes that ran already, by calls between components, and by stacks.
    pub fn of(profile: &Profile) -> Self {
        let tables = &profile.sched;
        let mut serving: FxHashSet<ProcessId> = FxHashSet::default();
        let calls = profile.flows.iter().filter(|flow| flow.calls > 0 && is_serving(&flow.api));
        serving.extend(calls.filter_map(|flow| Some(profile.threads.get(flow.thread as usize)?.process)));
        let frames: FxHashSet<u32> =
            (0..).zip(&tables.frames).filter(|(_, frame)| is_serving(&frame.function)).map(|(id, _)| id).collect();
        if !frames.is_empty() {
            let serves = |stack: &transect_profile_model::CallStack| stack.frames.iter().any(|id| frames.contains(id));
            let stacks: Vec<bool> = tables.stacks.iter().map(serves).collect();
            let seen = tables.samples.iter().map(|sample| (sample.task, sample.stack));
            let seen = seen.chain(tables.waits.iter().filter_map(|wait| Some((wait.task, wait.stack?))));
            let seen = seen.filter(|&(_, stack)| stacks.get(stack as usize) == Some(&true));
            serving.extend(seen.filter_map(|(task, _)| Some(tables.tasks.get(task as usize)?.process)));
        }
        let known = |process: &Process| profile.meta.listening.contains(&process.pid);
        serving.extend((0..).zip(&profile.processes).filter(|(_, process)| known(process)).map(|(id, _)| id));
        // Workers have the sockets of the process that forked them.
        let number = |pid: i32| profile.processes.iter().position(|process| process.pid == pid);
        let inherits = |process: &Process| {
            let parent = number(process.parent_pid).filter(|parent| serving.contains(&(*parent as ProcessId)));
            parent.is_some_and(|parent| profile.processes[parent].executable == process.executable)
        };
        let workers: Vec<ProcessId> =
            (0..).zip(&profile.processes).filter(|(_, process)| inherits(process)).map(|(id, _)| id).collect();
        serving.extend(workers);
        Self(serving)
    }

    /// Whether a wait of a process, which nobody who was recorded ended, is for the next request. `accepts`: it is in a call that
    /// takes a connection.
    pub fn is_idle(&self, process: ProcessId, wait: &SchedWait, accepts: bool) -> bool {
        let outside = wait.waker.is_none() && wait.holder.is_none();
        // A socket that is known by its own port alone has no peer: a connection is waited for.
        let accepts = accepts || wait.stack.is_none() && wait.object.starts_with("tcp *:");
        let is_loop = wait.kind == WaitKind::Poll || accepts && wait.kind == WaitKind::Socket;
        outside && is_loop && self.0.contains(&process)
    }
}

/// Which threads answer requests, as far as is seen: they wait for them, take them from others, or live for one. A helper that sleeps
/// beside does not.
pub(super) fn answering(tables: &SchedTables, end_ns: i64) -> Vec<bool> {
    use WaitKind as K;
    let mut answering: Vec<bool> =
        tables.tasks.iter().map(|task| task.parent.is_some() && task.end_ns < end_ns).collect();
    for wait in &tables.waits {
        let handed = matches!(wait.kind, K::Condition | K::Futex | K::Semaphore | K::Pipe) && wait.waker.is_some();
        if let Some(answers) = answering.get_mut(wait.task as usize) {
            *answers |= handed || matches!(wait.kind, K::Poll | K::Socket);
        }
    }
    answering
}

/// Whether a function of that name takes connections.
pub(super) fn is_serving(function: &str) -> bool {
    SERVES.contains(&function)
}
