//! Why a kind of probes, or a probe, can't be had, in words that say what it takes.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use transect_profile_model::KernelTiming;

use super::timer::KernelFunctionTimer;
use crate::{SchedCollector, SchedSettings, Storage};

/// What the kernel means by refusing to load the programs of a kind, or to attach the first of them.
pub(crate) fn of_kind(timing: KernelTiming, why: &io::Error) -> String {
    let errno = why.raw_os_error().map(Errno::from_raw_os_error);
    let text = match (timing, errno) {
        (KernelTiming::KprobeSession, Some(Errno::INVAL)) => "needs Linux 6.10 or newer".to_owned(),
        (KernelTiming::KprobeSession | KernelTiming::KprobeMulti, Some(Errno::OPNOTSUPP)) => {
            "the kernel was built without CONFIG_FPROBE".to_owned()
        }
        (KernelTiming::KprobeMulti, Some(Errno::INVAL)) => {
            "needs Linux 5.18 or newer, built with CONFIG_FPROBE".to_owned()
        }
        (KernelTiming::Kprobe, _) if !Path::new("/sys/bus/event_source/devices/kprobe").exists() => {
            "the kernel was built without CONFIG_KPROBE_EVENTS".to_owned()
        }
        (KernelTiming::Fentry, Some(Errno::SRCH | Errno::NOENT)) => {
            "the functions are not in the kernel's type information".to_owned()
        }
        (KernelTiming::Fentry, Some(Errno::OPNOTSUPP | Errno::PERM | Errno::BUSY)) if !traced("vfs_read") => {
            "the kernel was built without CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, or its text can't be changed"
                .to_owned()
        }
        (_, Some(Errno::PERM | Errno::ACCESS)) => {
            "not permitted: it takes cap_bpf and cap_perfmon, and a kernel that does not forbid it to all".to_owned()
        }
        _ => String::new(),
    };
    let lockdown = match lockdown() {
        Some(level) if matches!(errno, Some(Errno::PERM | Errno::ACCESS)) => format!("; kernel lockdown: {level}"),
        _ => String::new(),
    };
    if text.is_empty() { format!("{why}{lockdown}") } else { format!("{text} ({why}){lockdown}") }
}

/// What the kernel means by refusing a probe at one function.
pub(crate) fn of_function(why: &io::Error) -> String {
    match why.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL | Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL | Errno::OPNOTSUPP) => {
            format!("the kernel does not allow it to be traced ({why})")
        }
        _ => why.to_string(),
    }
}

/// Whether ftrace lists a function; true where there is no list to be read.
fn traced(name: &str) -> bool {
    let list = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|folder| fs::read_to_string(format!("{folder}/available_filter_functions")).ok());
    list.is_none_or(|list| list.lines().any(|line| line.split_whitespace().next() == Some(name)))
}

/// The level of the kernel's lockdown, if there is one: `integrity` or `confidentiality`.
pub fn lockdown() -> Option<String> {
    let levels = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let level = levels.split_once('[')?.1.split_once(']')?.0;
    (level != "none").then(|| level.to_owned())
}

/// Tries every kind of probes: what a call costs, ns, or why there are none. Takes some seconds at most, and the privileges
/// that recording takes.
pub fn try_kinds() -> Vec<(KernelTiming, Result<f64, String>)> {
    let settings = SchedSettings {
        cpus: 1,
        min_parallelism: 1,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        wait_budget: 0,
        kernel_halves: false,
        preemptions: false,
        event: crate::SampledEvent::CpuClock,
        stack_depth: 1,
        sample_hz: 0,
        per_process: false,
        waits: false,
        stacks: false,
        publish_threads: false,
        launched_only: false,
        system_calls: false,
    };
    let mut storage = Storage::default();
    let collector = SchedCollector::load(&mut storage, &settings, &[], |_| {});
    let kinds = KernelTiming::ALL.into_iter().filter(|timing| *timing != KernelTiming::Sampling);
    kinds
        .map(|timing| {
            let outcome = match &collector {
                Err(why) => Err(why.to_string()),
                Ok(collector) => match KernelFunctionTimer::load(collector, Some(timing), |_| None) {
                    (Some(timer), _) => Ok(timer.cost_ns()),
                    (None, refused) => Err(refused.into_iter().map(|one| one.why).next().unwrap_or_default()),
                },
            };
            (timing, outcome)
        })
        .collect()
}
