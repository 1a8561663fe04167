//! How much of a thread's attributed time lies in blocking calls.

use std::collections::HashMap;

use transect_profile_model::{ApiClass, Flow, Profile, Wait};

use super::blocks;

/// What is known of one thread's blocking calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Thread {
    /// Attributed time in them, ns.
    pub attributed_ns: i64,
    /// Time waited that has a row of its own, ns.
    pub known_ns: i64,
}

/// By thread.
pub struct Blocked;

impl Blocked {
    /// Sums up each thread's.
    pub fn of(profile: &Profile) -> Vec<Thread> {
        // Calls of a lock count as waiting only where they met somebody; those have rows of their own.
        let mut waited: HashMap<(u32, &str, u32), i64> = HashMap::new();
        for wait in &profile.waits {
            *waited.entry((wait.thread, &wait.api, wait.caller)).or_default() += wait.ns;
        }
        let mut threads = vec![Thread::default(); profile.threads.len()];
        for flow in profile.flows.iter().filter(|flow| blocks(flow)) {
            let Some(total) = flow.total_ns else { continue };
            let ns = match flow.class {
                ApiClass::Io => total,
                _ => waited.get(&(flow.thread, flow.api.as_str(), flow.caller)).copied().unwrap_or(0).min(total),
            };
            let thread = &mut threads[flow.thread as usize];
            thread.attributed_ns += (ns as f64 * share(flow)) as i64;
            thread.known_ns += ns;
        }
        threads
    }
}

/// Attributed time as a share of a flow's time.
pub fn share(flow: &Flow) -> f64 {
    match (flow.attributed_ns, flow.total_ns) {
        (Some(attributed), Some(total)) if total > 0 => (attributed as f64 / total as f64).clamp(0.0, 1.0),
        _ => 1.0,
    }
}

/// The flow that a wait was in.
pub fn flow_of<'a>(profile: &'a Profile, wait: &Wait) -> Option<&'a Flow> {
    profile.flows.iter().find(|f| f.thread == wait.thread && f.caller == wait.caller && f.api == wait.api)
}
