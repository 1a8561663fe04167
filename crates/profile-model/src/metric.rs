use serde::{Deserialize, Serialize};

/// What a walk takes shares of, or what a call's latency is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Wall time of the threads, waiting included; ns.
    #[default]
    Wall,
    /// Time on a CPU; ns.
    Cpu,
    /// Page faults.
    PageFaults,
    /// CPU cycles, counted by hardware.
    Cycles,
    /// Cache misses, counted by hardware.
    CacheMisses,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 5] = [Self::Wall, Self::Cpu, Self::PageFaults, Self::Cycles, Self::CacheMisses];

    /// The word for it in options and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::PageFaults => "page-faults",
            Self::Cycles => "cycles",
            Self::CacheMisses => "cache-misses",
        }
    }

    /// Inverse of [`Metric::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == word)
    }

    /// Whether amounts of it are nanoseconds; the others are counts.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Wall | Self::Cpu)
    }
}
