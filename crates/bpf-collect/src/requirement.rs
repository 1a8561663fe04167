//! What recording scheduler events takes of the kernel, piece by piece: for telling what is missing on a machine.

use std::fs;
use std::io;

use transect_profile_model::KernelTiming;

use crate::function_time::{KernelFunctionTimer, RefusedTiming};
use crate::perf_event;
use crate::{CollectError, SchedCollector, SchedSettings, Storage};

/// Tracepoints that the programs are attached to, and the iterator, by their names in the kernel's type information.
const ATTACHED_TO: [(&str, &str); 8] = [
    ("sched_switch", "btf_trace_sched_switch"),
    ("sched_waking", "btf_trace_sched_waking"),
    ("sched_wakeup", "btf_trace_sched_wakeup"),
    ("sched_wakeup_new", "btf_trace_sched_wakeup_new"),
    ("task_newtask", "btf_trace_task_newtask"),
    ("sched_process_exec", "btf_trace_sched_process_exec"),
    ("cgroup_attach_task", "btf_trace_cgroup_attach_task"),
    ("the iterator over tasks", "bpf_iter__task"),
];

/// Tracepoints that the kernel does not have, by name.
///
/// # Errors
/// If its type information can't be read.
pub fn missing_tracepoints() -> io::Result<Vec<&'static str>> {
    let types = fs::read("/sys/kernel/btf/vmlinux")?;
    // Names stand one after the other, each ended by a zero.
    let names: std::collections::HashSet<&[u8]> = types.split(|&b| b == 0).collect();
    Ok(ATTACHED_TO.iter().filter(|(_, name)| !names.contains(name.as_bytes())).map(|(shown, _)| *shown).collect())
}

/// Whether a timer can be had that samples what runs on a CPU.
///
/// # Errors
/// The kernel's reason if not.
pub fn try_timer() -> io::Result<()> {
    perf_event::open(perf_event::SampledEvent::CpuClock, 0, 1).map(drop)
}

/// Whether samples can be taken by an event.
///
/// # Errors
/// The kernel's reason if not.
pub fn try_event(event: perf_event::SampledEvent) -> io::Result<()> {
    perf_event::open(event, 0, 1).map(drop)
}

/// Whether the kernel tells the addresses of its functions, by which its frames are named.
pub fn kernel_names() -> bool {
    let first = fs::File::open("/proc/kallsyms").and_then(|mut file| {
        let mut line = [0; 16];
        io::Read::read_exact(&mut file, &mut line)?;
        Ok(line)
    });
    first.is_ok_and(|line| line.iter().any(|&b| b != b'0'))
}

/// Loads the programs and lets them go again.
///
/// # Errors
/// What stands in the way.
pub fn try_load() -> Result<(), CollectError> {
    SchedCollector::load(&mut Storage::default(), &trial(), &[], |_| {}).map(drop)
}

fn trial() -> SchedSettings {
    SchedSettings {
        cpus: 1,
        min_parallelism: 1,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        kernel_halves: false,
        preemptions: false,
        event: Default::default(),
        wait_budget: 0,
        stack_depth: 16,
        sample_hz: 1,
        per_process: false,
        waits: true,
        stacks: true,
        publish_threads: true,
        launched_only: false,
        system_calls: false,
    }
}

/// The best way to time functions of the kernel here, [`KernelTiming::Sampling`] if there is none, and why better ones
/// can't be used.
///
/// # Errors
/// If the programs can't be loaded at all.
pub fn kernel_timing() -> Result<(KernelTiming, Vec<RefusedTiming>), CollectError> {
    let mut storage = Storage::default();
    let collector = SchedCollector::load(&mut storage, &trial(), &[], |_| {})?;
    let (timer, refused) = KernelFunctionTimer::load(&collector, None, |_| None);
    Ok((timer.map_or(KernelTiming::Sampling, |timer| timer.timing()), refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs' sections are the truth about what they are attached to.
    #[test]
    fn every_section_is_listed() {
        let source = [include_str!("../bpf/sched_criticality.bpf.c"), include_str!("../bpf/sched_audit.h")].concat();
        let mut wanted = Vec::new();
        for section in source.split("SEC(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            match section.split_once('/') {
                Some(("tp_btf", name)) => wanted.push(format!("btf_trace_{name}")),
                Some(("iter", name)) => wanted.push(format!("bpf_iter__{name}")),
                _ => {}
            }
        }
        wanted.sort();
        // Two programs run over all tasks.
        wanted.dedup();
        let mut listed: Vec<&str> = ATTACHED_TO.iter().map(|one| one.1).collect();
        listed.sort_unstable();
        assert_eq!(listed, wanted);
    }
}
