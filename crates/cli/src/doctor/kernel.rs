//! What the kernel and the CPU offer.

use std::{env, fs};

use super::{Check, Status};

pub fn checks() -> Vec<Check> {
    let mut checks = vec![
        architecture(),
        clock(),
        seccomp(),
        ptrace(),
        executable_memory(),
        perf_events(),
        uprobes(),
        type_information(),
        lockdown(),
        debug_symbols(),
    ];
    checks.extend(processes());
    checks
}

/// Said where it is not as everywhere.
fn processes() -> Option<Check> {
    let wrong = crate::limits::check_proc().err()?.to_string();
    let finding = wrong.split("; ").next().unwrap_or_default();
    let check = Check::ok("processes", finding, "Recordings look processes up in /proc.").required();
    Some(check.with(Status::Missing, Some("mount -t proc proc /proc")))
}

fn word(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn architecture() -> Check {
    let system = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let (release, machine) = (text(system.release()), text(system.machine()));
    let check = Check::ok(
        "kernel",
        format!("{} {release} on {machine}", text(system.sysname())),
        "Transect profiles x86-64 programs on Linux 5.4 and newer.",
    )
    .required();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if machine != "x86_64" {
        check.with(Status::Missing, None)
    } else if version < (5, 4) {
        check.with(Status::Limited, None)
    } else {
        check
    }
}

fn clock() -> Check {
    let flags = word("/proc/cpuinfo")
        .and_then(|text| text.lines().find(|line| line.starts_with("flags")).map(str::to_owned))
        .unwrap_or_default();
    let has = |flag: &str| flags.split_ascii_whitespace().any(|f| f == flag);
    let source = word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".to_owned());
    let meaning = "Times are taken with the CPU's time stamp counter. If it changes speed or differs from core \
                   to core, times are less precise; counts stay exact.";
    match (has("constant_tsc"), has("nonstop_tsc")) {
        (true, true) => Check::ok("clock", format!("invariant TSC; the kernel's clock source is {source}"), meaning),
        (true, false) => Check::ok("clock", "the TSC has a constant rate and may stop in deep sleep", meaning)
            .with(Status::Limited, None),
        _ => Check::ok("clock", format!("no invariant TSC; the kernel's clock source is {source}"), meaning)
            .with(Status::Limited, None),
    }
}

fn seccomp() -> Check {
    let mode = word("/proc/self/status")
        .and_then(|text| text.lines().find_map(|l| l.strip_prefix("Seccomp:").map(|v| v.trim().to_owned())));
    let meaning = "A container's filter may refuse memfd_create, which recording needs; the line \"recording\" tells.";
    match mode.as_deref() {
        Some("0") => Check::ok("seccomp", "no filter", meaning),
        Some(mode) => Check::ok("seccomp", format!("this shell runs under a filter (mode {mode})"), meaning),
        None => Check::ok("seccomp", "/proc/self/status does not say", meaning),
    }
}

fn ptrace() -> Check {
    let meaning = "Not needed for flows. `transect probe` and `transect latency` put probes into a process by ptrace; a \
                   command that they launch is a child of their own, which values up to 1 allow.";
    let root = rustix::process::geteuid().is_root();
    match word("/proc/sys/kernel/yama/ptrace_scope").as_deref() {
        None => Check::ok("ptrace", "Yama is off: any process of the same user", meaning),
        Some("0") => Check::ok("ptrace", "any process of the same user", meaning),
        Some(scope @ ("1" | "2")) if root => {
            Check::ok("ptrace", format!("any process, for root (kernel.yama.ptrace_scope is {scope})"), meaning)
        }
        Some("1") => {
            Check::ok("ptrace", "own children only (kernel.yama.ptrace_scope is 1): -p needs root or 0", meaning)
                .with(Status::Limited, Some("sudo sysctl kernel.yama.ptrace_scope=0"))
        }
        Some("2") => Check::ok("ptrace", "administrators only (kernel.yama.ptrace_scope is 2)", meaning)
            .with(Status::Missing, Some("sudo sysctl kernel.yama.ptrace_scope=0")),
        // 3 can't be lowered until the next boot.
        Some(_) => Check::ok("ptrace", "forbidden until the next boot", meaning).with(
            Status::Missing,
            Some("echo kernel.yama.ptrace_scope=0 | sudo tee /etc/sysctl.d/10-ptrace.conf && sudo reboot"),
        ),
    }
}

/// Memory that probes need: files without a name, mapped executable.
fn executable_memory() -> Check {
    let meaning = "Probes run from a file in memory that is mapped executable. vm.memfd_noexec forbids to start such \
                   files as programs, which Transect does not do; SELinux may forbid to map them.";
    let policy = word("/proc/sys/vm/memfd_noexec");
    let sealed = match policy.as_deref() {
        None => "the kernel knows no vm.memfd_noexec".to_owned(),
        Some(value) => format!("vm.memfd_noexec is {value}"),
    };
    if let Err(error) = rustix::fs::memfd_create("transect-doctor", rustix::fs::MemfdFlags::CLOEXEC)
        && policy.as_deref() != Some("2")
    {
        return Check::ok("executable memory", format!("memfd_create: {error}"), meaning).with(Status::Missing, None);
    }
    let enforcing = word("/sys/fs/selinux/enforce").as_deref() == Some("1");
    let denied = enforcing && word("/sys/fs/selinux/booleans/deny_execmem").is_some_and(|v| v.starts_with('1'));
    match denied {
        true => Check::ok("executable memory", format!("{sealed}; SELinux denies execmem"), meaning)
            .with(Status::Missing, Some("sudo setsebool deny_execmem off")),
        false => Check::ok("executable memory", sealed, meaning),
    }
}

fn perf_events() -> Check {
    let meaning = "Not needed for flows. `perf record`, for what lies inside one component, needs 1 or less.";
    let fix = Some("sudo sysctl kernel.perf_event_paranoid=1");
    let root = rustix::process::geteuid().is_root();
    match word("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse::<i32>().ok()) {
        None => Check::ok("perf events", "the kernel has none", meaning).with(Status::Missing, None),
        Some(level) if level <= 1 || root => {
            Check::ok("perf events", format!("kernel.perf_event_paranoid is {level}"), meaning)
        }
        Some(2) => Check::ok("perf events", "kernel.perf_event_paranoid is 2: user space only", meaning)
            .with(Status::Limited, fix),
        Some(level) => Check::ok("perf events", format!("kernel.perf_event_paranoid is {level}"), meaning)
            .with(Status::Missing, fix),
    }
}

fn uprobes() -> Check {
    let meaning = "Not needed for flows. bpftrace and perf probe use them.";
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find(|folder| fs::metadata(format!("{folder}/uprobe_events")).is_ok());
    let device = fs::metadata("/sys/bus/event_source/devices/uprobe").is_ok();
    match (mounted, device) {
        (Some(folder), _) => Check::ok("uprobes", format!("{folder}/uprobe_events"), meaning),
        (None, true) => Check::ok("uprobes", "through perf events; tracefs is not mounted or not readable", meaning)
            .with(Status::Limited, Some("sudo mount -t tracefs tracefs /sys/kernel/tracing")),
        (None, false) => Check::ok("uprobes", "the kernel offers none", meaning).with(Status::Missing, None),
    }
}

fn type_information() -> Check {
    let meaning = "Not needed for flows. `transect criticality` needs it: BPF programs find the kernel's types by it.";
    if fs::metadata("/sys/kernel/btf/vmlinux").is_ok() {
        Check::ok("kernel BTF", "/sys/kernel/btf/vmlinux", meaning)
    } else {
        Check::ok("kernel BTF", "the kernel was built without CONFIG_DEBUG_INFO_BTF", meaning)
            .with(Status::Missing, None)
    }
}

fn lockdown() -> Check {
    let meaning = "Not needed for flows. In integrity mode and above, kernel probes may be refused even to root; in \
                   confidentiality mode scheduler events as well.";
    let state = word("/sys/kernel/security/lockdown").unwrap_or_else(|| "[none]".to_owned());
    let current = state.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
    let check = Check::ok("lockdown", current.clone(), meaning);
    if current == "none" { check } else { check.with(Status::Limited, None) }
}

fn debug_symbols() -> Check {
    let meaning = "Without them, call paths of locks and thread start routines inside stripped libraries show exported \
                   functions only.";
    let debian = fs::metadata("/etc/debian_version").is_ok();
    let servers = env::var("DEBUGINFOD_URLS").unwrap_or_default();
    if !servers.trim().is_empty() {
        let client = env::var_os("PATH").is_some_and(|path| {
            env::split_paths(&path).any(|folder| fs::metadata(folder.join("debuginfod-find")).is_ok())
        });
        if client {
            return Check::ok("debug symbols", format!("from {}", servers.trim()), meaning);
        }
        let fix = debian.then_some("sudo apt install debuginfod");
        let state = "DEBUGINFOD_URLS is set, but debuginfod-find is not installed";
        return Check::ok("debug symbols", state, meaning).with(Status::Limited, fix);
    }
    if fs::metadata("/usr/lib/debug/.build-id").is_ok() {
        return Check::ok("debug symbols", "/usr/lib/debug/.build-id", meaning);
    }
    let fix = debian.then_some("sudo apt install libc6-dbg");
    Check::ok("debug symbols", "none installed for the system's libraries", meaning).with(Status::Limited, fix)
}
