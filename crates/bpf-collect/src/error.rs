use std::io;
use std::path::PathBuf;

/// Open files that a recording of the scheduler's events takes, nearly; more on machines of many CPUs.
pub const DESCRIPTORS: u64 = 130;

/// Why a collector can't be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The programs are not to the kernel's liking; its reason is in the text.
    #[error("{}", refusal(.0))]
    Load(libbpf_rs::Error),
    /// The kernel's types can't be read.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux: {0}); it must be built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(io::Error),
    /// A tracepoint is missing.
    #[error("this kernel has no tracepoint {name} that can be used (kernel type information too old?): {source:#}")]
    Attach {
        /// The tracepoint.
        name: String,
        /// The reason.
        source: libbpf_rs::Error,
    },
    /// No timer for samples.
    #[error(
        "cannot sample CPU {cpu}: {source}; sampling needs cap_perfmon, and where kernel.perf_event_paranoid is \
         3 or more (Debian's and Ubuntu's kernels) root: `sudo sysctl kernel.perf_event_paranoid=2` allows it, \
         `--sample-hz 0` records without samples"
    )]
    Samples {
        /// CPU number.
        cpu: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// This machine does not count what samples were to be taken by.
    #[error(
        "cannot sample by {event}: {source}; this machine (a virtual one?) has no such counter, or may not use it: choose \
         another --metric; `transect doctor` says which there are"
    )]
    Event {
        /// What was to be counted.
        event: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A process or cgroup that is to be followed isn't there.
    #[error("nothing to follow: {0}")]
    Nothing(String),
    /// The cgroup can't be read.
    #[error("cannot follow the cgroup {path}: {source}; give its folder under /sys/fs/cgroup")]
    Cgroup {
        /// Its folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Sites of regions can't be watched.
    #[error("cannot watch the region sites of {path}: {source:#}; --feature-method probe needs no help of the kernel")]
    Sites {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: libbpf_rs::Error,
    },
    /// Tables of unwind rules can't be kept.
    #[error(transparent)]
    Unwind(#[from] crate::unwind_table::UnwindTableError),
    /// Reading records or maps failed.
    #[error("cannot read what the kernel recorded: {0:#}")]
    Read(libbpf_rs::Error),
}

impl CollectError {
    /// Whether the limit of open files is too low for it.
    pub fn lacks_descriptors(&self) -> bool {
        let number = match self {
            Self::Load(why) | Self::Attach { source: why, .. } | Self::Read(why) | Self::Sites { source: why, .. } => {
                system_number(why)
            }
            Self::NoTypes(source)
            | Self::Samples { source, .. }
            | Self::Event { source, .. }
            | Self::Cgroup { source, .. } => source.raw_os_error(),
            Self::Nothing(_) | Self::Unwind(_) => None,
        };
        number == Some(rustix::io::Errno::MFILE.raw_os_error())
    }

    /// The system's reason, as far as there is one.
    pub(crate) fn into_io(self) -> io::Error {
        let text = self.to_string();
        match self {
            Self::Load(why) | Self::Attach { source: why, .. } | Self::Read(why) => {
                system_number(&why).map_or_else(|| io::Error::other(format!("{why:#}")), io::Error::from_raw_os_error)
            }
            _ => io::Error::other(text),
        }
    }
}

/// The number of the system's error below one of the library.
fn system_number(why: &libbpf_rs::Error) -> Option<i32> {
    // The library keeps it in its chain.
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(why);
    while let Some(one) = source {
        if let Some(number) = one.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        source = one.source();
    }
    // It doesn't always: "… (os error 3)".
    format!("{why:#}").rsplit_once("(os error ").and_then(|(_, rest)| rest.trim_end_matches(')').parse().ok())
}

/// What is said of programs and maps that the kernel did not take.
fn refusal(why: &libbpf_rs::Error) -> String {
    if system_number(why) == Some(rustix::io::Errno::MFILE.raw_os_error()) {
        return format!(
            "too few open files for the programs that record: some {DESCRIPTORS} are needed (ulimit -n 256)"
        );
    }
    format!("the kernel refused the programs that record: {why:#}")
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ErrorExt;

    use super::*;

    #[test]
    fn a_limit_of_descriptors_is_told_with_its_cure() {
        let refused = |number| {
            let reason = libbpf_rs::Error::from(io::Error::from_raw_os_error(number)).context("failed to load object");
            let error = CollectError::Load(reason);
            assert_eq!(error.lacks_descriptors(), number == 24);
            error.to_string()
        };
        assert!(refused(24).contains("ulimit -n"));
        assert!(refused(1).starts_with("the kernel refused the programs that record: failed to load object"));
    }
}
