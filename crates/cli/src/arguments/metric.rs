//! What is measured: the word that `walk` and `latency` share.

use clap::ValueEnum;
use transect_profile_model::Metric;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricWord {
    /// Wall time of the threads, waiting included.
    Wall,
    /// Time on a CPU.
    Cpu,
    /// Page faults.
    PageFaults,
    /// CPU cycles, counted by hardware.
    Cycles,
    /// Cache misses, counted by hardware.
    CacheMisses,
}

impl From<MetricWord> for Metric {
    fn from(metric: MetricWord) -> Self {
        match metric {
            MetricWord::Wall => Self::Wall,
            MetricWord::Cpu => Self::Cpu,
            MetricWord::PageFaults => Self::PageFaults,
            MetricWord::Cycles => Self::Cycles,
            MetricWord::CacheMisses => Self::CacheMisses,
        }
    }
}
