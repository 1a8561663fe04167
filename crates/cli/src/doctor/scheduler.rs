//! What recording scheduler events takes (`transect criticality`).

use std::fs;

use transect_bpf_collect::{privilege, requirement};

use super::{Check, Status};

pub fn checks() -> Vec<Check> {
    vec![events(), tracepoints(), timer(), kernel_names()]
}

fn events() -> Check {
    let meaning = "Not needed for flows. `transect criticality` records them; without, it offers an estimate from what \
                   the agent knows of waiting.";
    let check = Check::ok("scheduler events", String::new(), meaning);
    let unprivileged = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled")
        .map(|text| format!(" (kernel.unprivileged_bpf_disabled is {}, which has no say in this)", text.trim()))
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
        Ok(missing) if missing.is_empty() => Check::ok("sched tracepoints", "all there", meaning),
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
        Ok(()) => Check::ok("sampling timer", "cpu-clock, on every processor", meaning),
        Err(error) => Check::ok("sampling timer", format!("cpu-clock: {error}"), meaning)
            .with(Status::Missing, Some(&privilege::grant_command(&privilege::executable()))),
    }
}

fn kernel_names() -> Check {
    let meaning = "Not needed for flows. Without them the kernel's half of call paths shows addresses.";
    if requirement::kernel_names() {
        Check::ok("kernel names", "/proc/kallsyms tells addresses", meaning)
    } else {
        Check::ok("kernel names", "/proc/kallsyms hides addresses", meaning)
            .with(Status::Limited, Some("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"))
    }
}
