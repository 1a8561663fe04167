//! Names of the kernel's functions.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// The kernel's own table of symbols. Whether it shows addresses is decided when it is opened, so that is done before
/// privileges are dropped; what it shows is read at the end, when it names the collector's programs, too.
#[derive(Debug, Default)]
pub struct SymbolSource {
    table: Option<File>,
    /// What takes its place: names of all that will be asked for.
    known: Option<KernelSymbols>,
}

impl SymbolSource {
    /// Opens it.
    pub fn open() -> Self {
        Self { table: File::open("/proc/kallsyms").ok(), known: None }
    }

    /// Whether it shows addresses.
    pub fn shows_addresses(&self) -> bool {
        // The first ones may be zero: offsets in CPUs' own data.
        let mut begin = [0; 4096];
        let read = self.table.as_ref().and_then(|file| file.read_at(&mut begin, 0).ok()).unwrap_or(0);
        let addresses = begin[..read].split(|&byte| byte == b'\n').filter_map(|line| line.first_chunk::<16>());
        addresses.into_iter().any(|address| address.iter().any(|digit| *digit != b'0'))
    }

    /// Only names at these addresses will be asked for, and these are they.
    pub fn know(&mut self, symbols: KernelSymbols) {
        self.known = Some(symbols);
    }

    /// What another kernel's table would say.
    #[cfg(test)]
    pub fn of(file: File) -> Self {
        Self { table: Some(file), known: None }
    }
}

/// Functions of the kernel, its modules and its BPF programs, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    starts: Vec<(u64, u32)>,
    names: String,
}

/// What a stack shows of a kernel whose names may not be read.
pub const UNNAMED: &str = "[kernel]";

impl KernelSymbols {
    /// Reads them; empty if the system does not show addresses to this process.
    pub fn read(source: &mut SymbolSource) -> Self {
        if let Some(known) = source.known.take() {
            return known;
        }
        let mut text = String::new();
        let read = source.table.as_mut().map(|file| file.read_to_string(&mut text));
        if matches!(read, Some(Ok(_))) { Self::parse(&text) } else { Self::default() }
    }

    fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        for line in text.lines() {
            // address, type, name, [module]
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            symbols.starts.push((address, symbols.names.len() as u32));
            symbols.names.push_str(name);
            symbols.names.push('\n');
        }
        symbols.sort();
        symbols
    }

    /// The functions at `addresses`, as the kernel prints each on a line: `name+0xoffset/0xsize [module]`.
    pub fn of_printed(addresses: &[u64], lines: &str) -> Self {
        let mut symbols = Self::default();
        for (address, line) in addresses.iter().zip(lines.lines()) {
            let function = line.split_ascii_whitespace().next().and_then(|place| place.rsplit_once("+0x"));
            let Some((name, offset)) = function else { continue };
            let offset = offset.split('/').next().and_then(|offset| u64::from_str_radix(offset, 16).ok());
            symbols.starts.push((address.saturating_sub(offset.unwrap_or(0)), symbols.names.len() as u32));
            symbols.names.push_str(name);
            symbols.names.push('\n');
        }
        symbols.sort();
        symbols
    }

    /// By address. Where several names are of one, the first is the kernel's own choice.
    fn sort(&mut self) {
        self.starts.sort_by_key(|(address, _)| *address);
        self.starts.dedup_by_key(|(address, _)| *address);
    }

    /// True if no name may be read.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.entry(address).map(|(_, name)| name)
    }

    /// The function at an address, and where it begins.
    pub fn entry(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.starts[..after].last()?;
        Some((*start, self.names.get(*name as usize..)?.lines().next()?))
    }
}

/// Frames between the leaf and what the thread did: the collector's own, and those of the scheduler itself.
pub fn is_below_the_wait(function: &str) -> bool {
    is_switching(function)
        || function.starts_with("schedule_timeout")
        || function.starts_with("schedule_hrtimeout_range")
}

/// Frames below the function that called the scheduler: the collector's own, and those of the switch itself.
pub fn is_switching(function: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "bpf_prog_",
        "bpf_trampoline_",
        "bpf_get_stack",
        "__bpf_get_stack",
        "bpf_trace_run",
        "__bpf_trace_",
        "__traceiter_",
        "bpf_loop",
        "bpf_probe_read",
        "bpf_task_storage_",
        "bpf_local_storage_",
        "trace_event_raw_event_",
        "perf_trace_",
        "get_perf_callchain",
        "perf_callchain",
        "bpf_overflow_handler",
        "__perf_event_overflow",
    ];
    is_scheduler(function) || BEGINNINGS.iter().any(|beginning| function.starts_with(beginning))
}

/// The scheduler's own part of that: a thread leaves its CPU there.
pub fn is_scheduler(function: &str) -> bool {
    const NAMES: &[&str] = &["schedule", "__schedule", "schedule_preempt_disabled", "__schedule_loop"];
    NAMES.contains(&function) || function.starts_with("preempt_schedule")
}

/// The first function of an interrupt, not of a fault.
pub fn is_interrupt(function: &str) -> bool {
    function.starts_with("asm_") && !function.starts_with("asm_exc_")
}

/// Where a thread stands that a signal or a tracer has stopped.
pub fn is_stop(function: &str) -> bool {
    matches!(function, "do_signal_stop" | "ptrace_stop" | "do_jobctl_trap")
}

/// Frames of a system call that goes on after an interruption, in place of those by which it began.
pub fn is_restart(function: &str) -> bool {
    const NAMES: &[&str] = &[
        "do_restart_poll",
        "futex_wait_restart",
        "hrtimer_nanosleep_restart",
        "alarm_timer_nsleep_restart",
        "posix_cpu_nsleep_restart",
    ];
    NAMES.contains(&function)
}

/// Frames between the program and the system call: the same for every call, or there because calls are being counted; and the
/// jumps that take the place of indirect ones.
pub fn is_entry_code(function: &str) -> bool {
    const NAMES: &[&str] = &[
        "entry_SYSCALL_64_after_hwframe",
        "entry_SYSCALL_64",
        "entry_SYSCALL_64_safe_stack",
        "do_syscall_64",
        "x64_sys_call",
        "do_syscall_x64",
        "ret_from_fork",
        "ret_from_fork_asm",
        "syscall_trace_enter",
        "syscall_exit_work",
        "syscall_exit_to_user_mode",
        "__syscall_exit_to_user_mode_work",
        "exit_to_user_mode_prepare",
        "exit_to_user_mode_loop",
        "irqentry_exit_to_user_mode",
        "irqentry_exit",
        "entry_SYSCALL_compat_after_hwframe",
    ];
    NAMES.contains(&function) || function.starts_with("__x86_indirect_thunk_")
}

/// A function's name as reports show it: a system call under its own name, copies under that of the original.
pub fn shown(function: &str) -> &str {
    let name = function.split('.').next().filter(|name| !name.is_empty()).unwrap_or(function);
    ["__x64_sys_", "__do_sys_", "__se_sys_"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T _text\nffffffff81000100 t do_it.isra.0\nffffffff81000080 D data\n\
             ffffffffc0000000 t bpf_prog_1 [bpf]\nnonsense\n",
        );
        assert_eq!(symbols.at(0xffff_ffff_8100_0000), Some("_text"));
        assert_eq!(symbols.at(0xffff_ffff_8100_00ff), Some("_text"));
        assert_eq!(symbols.at(0xffff_ffff_8100_0101), Some("do_it.isra.0"));
        assert_eq!(symbols.at(0xffff_ffff_d000_0000), Some("bpf_prog_1"));
        assert_eq!(symbols.at(0x1000), None);
        assert!(KernelSymbols::parse("0000000000000000 T _text\n").is_empty(), "hidden");
    }

    #[test]
    fn functions_are_those_that_the_kernel_prints() {
        let addresses = [0xffff_ffff_8100_0150, 0xffff_ffff_8100_0102, 0xffff_ffff_c000_0010, 0x1000];
        let symbols = KernelSymbols::of_printed(
            &addresses,
            "do_it.isra.0+0x50/0x60\ndo_it.isra.0+0x2/0x60\nread_it+0x10/0x20 [ext4]\n0x1000\n",
        );
        assert_eq!(symbols.entry(addresses[0]), Some((0xffff_ffff_8100_0100, "do_it.isra.0")));
        assert_eq!(symbols.entry(addresses[1]), Some((0xffff_ffff_8100_0100, "do_it.isra.0")));
        assert_eq!(symbols.at(addresses[2]), Some("read_it"));
        assert_eq!(symbols.at(0x1000), None);
    }

    #[test]
    fn of_two_names_the_kernel_takes_the_first() {
        let symbols = KernelSymbols::parse("ffffffff81000000 T memcpy\nffffffff81000000 T __memcpy\n");
        assert_eq!(symbols.at(0xffff_ffff_8100_0001), Some("memcpy"));
    }

    #[test]
    fn names_are_shown_plainly() {
        assert_eq!(shown("__x64_sys_openat"), "openat");
        assert_eq!(shown("__mutex_lock.constprop.0"), "__mutex_lock");
        assert_eq!(shown("vfs_read"), "vfs_read");
        assert!(is_below_the_wait("bpf_trampoline_6442538117"));
        assert!(is_below_the_wait("__schedule"));
        assert!(!is_below_the_wait("io_schedule"));
        assert!(is_scheduler("preempt_schedule_irq") && !is_scheduler("schedule_timeout"));
        assert!(is_interrupt("asm_sysvec_apic_timer_interrupt") && !is_interrupt("asm_exc_page_fault"));
        assert!(is_stop("do_signal_stop") && !is_stop("do_nanosleep"));
        assert!(is_restart("do_restart_poll") && !is_restart("do_sys_poll"));
        assert!(is_entry_code("do_syscall_64"));
        assert!(is_entry_code("__x86_indirect_thunk_rax"));
    }
}
