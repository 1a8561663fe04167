//! What recording scheduler events takes (`transect criticality`).

use std::fs;

use transect_bpf_collect::{SampledEvent, privilege, requirement};
use transect_profile_model::KernelTiming;

use super::{Check, Status};

pub fn checks() -> Vec<Check> {
    vec![events(), tracepoints(), timer(), kernel_names(), kernel_timing(), metrics()]
}

fn events() -> Check {
    let meaning = "Not needed for flows. `transect criticality` records them; without, it offers an estimate from what \
                   the agent knows of waiting. The command below gives cap_bpf and cap_perfmon to everybody who may run \
                   the file: they can watch every program of this machine, with its stacks, arguments of system calls \
                   and the kernel's addresses. For the members of one group alone run before it: \
                   sudo chgrp GROUP FILE && sudo chmod 0750 FILE (a later chgrp would take the capabilities away).";
    let check = Check::ok("scheduler events", String::new(), meaning);
    let unprivileged = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled")
        .map(|text| format!(" (kernel.unprivileged_bpf_disabled is {}, which does not matter here)", text.trim()))
        .unwrap_or_default();
    if let Err(error) = privilege::prepare_to_load() {
        let fix = matches!(error, privilege::PrivilegeError::Capabilities { .. })
            .then(|| privilege::grant_command(&privilege::executable()));
        let finding = match &error {
            privilege::PrivilegeError::Capabilities { missing, .. } => format!("{missing} missing{unprivileged}"),
            other => other.to_string(),
        };
        return Check { finding, ..check }.with(Status::Missing, fix.as_deref());
    }
    match requirement::try_load() {
        Ok(()) => Check { finding: "BPF programs load".to_owned(), ..check },
        Err(error) => Check { finding: error.to_string(), ..check }.with(Status::Missing, None),
    }
}

fn tracepoints() -> Check {
    let meaning = "Not needed for flows. Scheduler events come from them, by the kernel's type information (BTF).";
    match requirement::missing_tracepoints() {
        Ok(missing) if missing.is_empty() => Check::ok("sched tracepoints", "all found", meaning),
        Ok(missing) => Check::ok("sched tracepoints", format!("the kernel lacks {}", missing.join(", ")), meaning)
            .with(Status::Missing, None),
        Err(error) => Check::ok("sched tracepoints", format!("/sys/kernel/btf/vmlinux: {error}"), meaning)
            .with(Status::Missing, None),
    }
}

fn timer() -> Check {
    let meaning =
        "Not needed for flows. Without it critical code is known only where it ends in a wait, not by samples.";
    match requirement::try_timer() {
        Ok(()) => Check::ok("sampling timer", "cpu-clock, on every CPU", meaning),
        Err(error) => Check::ok("sampling timer", format!("cpu-clock: {error}"), meaning)
            .with(Status::Missing, Some(&privilege::grant_command(&privilege::executable()))),
    }
}

fn kernel_names() -> Check {
    let meaning = "Not needed for flows. Without them the kernel's half of call paths shows addresses.";
    if requirement::kernel_names() {
        Check::ok("kernel names", "/proc/kallsyms shows addresses", meaning)
    } else {
        Check::ok("kernel names", "/proc/kallsyms hides addresses", meaning)
            .with(Status::Limited, Some("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"))
    }
}

/// What `transect walk --metric` can count here.
fn metrics() -> Check {
    let meaning = "Not needed but for `transect walk --metric`: wall and cpu need no counter.";
    let events = [SampledEvent::PageFaults, SampledEvent::Cycles, SampledEvent::CacheMisses];
    let (there, missing): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| requirement::try_event(*event).is_ok());
    let words = |events: &[SampledEvent]| events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(", ");
    let has = words(&there);
    let finding = format!("time{}{has}", if has.is_empty() { "" } else { ", " });
    if missing.is_empty() {
        return Check::ok("walk metrics", finding, meaning);
    }
    let finding = format!("{finding}; no counter of {}", words(&missing));
    Check::ok("walk metrics", finding, meaning).with(Status::Limited, None)
}

/// How `transect walk` times functions of the kernel here.
fn kernel_timing() -> Check {
    let meaning =
        "Not needed. Without probes in the kernel, `transect walk` divides exact times of system calls by samples.";
    if privilege::prepare_to_load().is_err() {
        let finding = "not without the right to record scheduler events (above)";
        return Check::ok("kernel function timing", finding, meaning).with(Status::Missing, None);
    }
    match requirement::kernel_timing() {
        Ok((timing, refused)) => {
            let why: Vec<String> =
                refused.iter().map(|refused| format!("{}: {}", refused.timing.as_str(), refused.why)).collect();
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
            let check = Check::ok("kernel function timing", format!("{}{why}", timing.as_str()), meaning);
            if timing == KernelTiming::Sampling { check.with(Status::Limited, None) } else { check }
        }
        Err(error) => Check::ok("kernel function timing", error.to_string(), meaning).with(Status::Missing, None),
    }
}
