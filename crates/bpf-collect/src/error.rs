use std::io;
use std::path::PathBuf;

/// Why a collector can't be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The programs are not to the kernel's liking; its reason is in the text.
    #[error("the kernel refused the programs that record scheduler events: {0:#}")]
    Load(libbpf_rs::Error),
    /// A tracepoint is missing.
    #[error("this kernel has no tracepoint {name} that can be used (kernel type information too old?): {source:#}")]
    Attach {
        /// The tracepoint.
        name: &'static str,
        /// The reason.
        source: libbpf_rs::Error,
    },
    /// No timer for samples.
    #[error(
        "cannot sample processor {processor}: {source}; sampling needs cap_perfmon, and where kernel.perf_event_paranoid is \
         3 or more (Debian's and Ubuntu's kernels) root: `sudo sysctl kernel.perf_event_paranoid=2` allows it, \
         `--sample-hz 0` records without samples"
    )]
    Samples {
        /// Processor number.
        processor: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// A process or cgroup that is to be followed isn't there.
    #[error("nothing to follow: {0}")]
    Nothing(String),
    /// The cgroup can't be read.
    #[error("cannot read the cgroup {path}: {source}; give its folder under /sys/fs/cgroup")]
    Cgroup {
        /// Its folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Tables of unwind rules can't be kept.
    #[error(transparent)]
    Unwind(#[from] crate::unwind_table::UnwindTableError),
    /// Reading records or maps failed.
    #[error("cannot read what the kernel recorded: {0:#}")]
    Read(libbpf_rs::Error),
}
