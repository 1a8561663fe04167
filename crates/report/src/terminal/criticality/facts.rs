//! Facts of the recording, for the header.

use transect_analyze::CriticalityView;
use transect_profile_model::SchedSession;

use crate::terminal::units::{count, counted, duration, percent, share};

/// Facts, and doubts: what makes the numbers less than whole. `idle_ns`: idle time that waits without a stack ended.
pub(crate) fn facts(
    session: &SchedSession,
    view: Option<&CriticalityView>,
    idle_ns: i64,
) -> (Vec<String>, Vec<String>) {
    let elapsed = session.busy_ns.saturating_add(session.idle_ns);
    let part = |ns: i64| share(ns, elapsed).map_or(String::new(), |share| format!(" ({})", percent(share)));
    let mut facts = vec![
        format!("busy {}{}", duration(session.busy_ns), part(session.busy_ns)),
        format!("all threads waiting {}{}", duration(session.idle_ns), part(session.idle_ns)),
    ];
    if let Some(ns) = view.map(|view| view.requests_ns).filter(|ns| *ns > 0) {
        facts.push(format!("{} of it for requests", duration(ns)));
    }
    if let Some(mean) = view.and_then(|view| view.parallelism_mean) {
        facts.push(format!("{mean:.2} of P = {} threads active while busy", count(session.cpus)));
    }
    if session.per_process {
        facts.push("each process by itself".to_owned());
    }
    let mut doubts = Vec::new();
    if session.estimate {
        let by = match session.sample_hz {
            0 => "from known blocking calls: the scheduler was not seen".to_owned(),
            hertz => format!(
                "by {} samples a second, without the scheduler's events: who wakes whom was not seen",
                count(hertz)
            ),
        };
        doubts.push(format!("ESTIMATE {by}"));
        return (facts, doubts);
    }
    facts.push(format!(
        "{}, {} of them below {} active",
        counted(session.slices, "slice", "slices"),
        count(session.critical_slices),
        counted(session.min_parallelism, "thread", "threads"),
    ));
    facts.push(format!("sampled at {} Hz", count(session.sample_hz)));
    if session.drift == 0 {
        facts.push("drift 0".to_owned());
    } else {
        doubts.push(format!("drift: active threads were off by {}", count(session.drift)));
    }
    let unattributed_ns = session.unattributed_ns.saturating_add(idle_ns);
    if unattributed_ns > 0 {
        let unattributed = format!("{}{} without a stack", duration(unattributed_ns), part(unattributed_ns));
        // A sample's worth at each thread's end is usual; more is a loss.
        let much = session.unattributed_ns > session.busy_ns / 50 || idle_ns > elapsed / 50;
        if much { doubts.push(unattributed) } else { facts.push(unattributed) }
    }
    (facts, doubts)
}
