//! How the walk was done, in the words of a header.

use transect_profile_model::{KernelTiming, Metric, UserTiming, WalkSession};

use super::super::units::{count, duration, percent};

/// What shares are shares of.
pub(super) fn whole(session: &WalkSession) -> &'static str {
    match session.metric {
        _ if session.critical => "critical time",
        Metric::Wall => "wall time, waiting included",
        Metric::Cpu => "CPU time",
        Metric::PageFaults => "page faults",
        Metric::Cycles => "CPU cycles",
        Metric::CacheMisses => "cache misses",
    }
}

/// Facts of the header.
pub(crate) fn facts(session: &WalkSession) -> Vec<String> {
    let mut facts = vec![
        format!("walk by {}", whole(session)),
        format!("follows {} and more", percent(session.threshold * 100.0)),
        match session.user_timing {
            Some(UserTiming::Probes) => "program timed by probes".to_owned(),
            Some(UserTiming::Uprobes) => "program timed by uprobes".to_owned(),
            None => "program sampled".to_owned(),
        },
        kernel_timing(session),
    ];
    facts.extend(session.found_after_ns.map(|ns| format!("found after {}", duration(ns))));
    if session.critical {
        facts.insert(1, "threads counted by criticality".to_owned());
    }
    if session.probes_inserted > 0 {
        facts.push(format!(
            "{} probes, at most {} at once",
            count(session.probes_inserted),
            count(session.probes_live)
        ));
    }
    if session.longest_stop_ns > 0 {
        facts.push(format!("longest stop {}", duration(session.longest_stop_ns)));
    }
    facts
}

fn kernel_timing(session: &WalkSession) -> String {
    match session.kernel_timing {
        KernelTiming::KprobeSession => "kernel timed by kprobe sessions",
        KernelTiming::Fentry => "kernel timed by fentry",
        KernelTiming::KprobeMulti => "kernel timed by kprobe.multi",
        KernelTiming::Kprobe => "kernel timed by kprobes",
        KernelTiming::Sampling if session.system_calls_until_ns.is_some() => "kernel sampled",
        KernelTiming::Sampling => "kernel sampled, system calls exact",
    }
    .to_owned()
}
