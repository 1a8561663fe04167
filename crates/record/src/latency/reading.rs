//! What is read at the entry and the return of a measured call.

use transect_calibrate::TimedCall;
use transect_probe::Handler;
use transect_profile_model::Metric;

use super::BucketScale;
use crate::RecordError;

/// How calls are measured in one metric.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What is measured.
    pub metric: Metric,
    /// At the entry.
    pub enter: Handler,
    /// At the return.
    pub exit: Handler,
    /// Costs on this machine.
    pub call: TimedCall,
}

impl Reading {
    /// Measures what it costs here.
    ///
    /// # Errors
    /// [`RecordError::LatencyMetric`] for what only hardware counts.
    pub fn calibrate(metric: Metric) -> Result<Reading, RecordError> {
        let (enter, exit, call) = match metric {
            Metric::Wall => (Handler::LatencyEnter, Handler::TimeExit, transect_calibrate::timed_call()),
            Metric::Cpu => (Handler::CpuEnter, Handler::CpuExit, transect_calibrate::cpu_timed_call()),
            Metric::PageFaults => (Handler::FaultsEnter, Handler::FaultsExit, transect_calibrate::fault_counted_call()),
            Metric::Cycles | Metric::CacheMisses => return Err(RecordError::LatencyMetric { metric: metric.as_str() }),
        };
        Ok(Reading { metric, enter, exit, call })
    }

    /// Whether handlers make system calls, in the name of the program's threads.
    pub fn asks_kernel(&self) -> bool {
        self.metric != Metric::Wall
    }

    /// The scale of what is read, given the clock's ticks per nanosecond.
    pub fn scale(&self, ticks_per_ns: f64) -> BucketScale {
        BucketScale::new(if self.asks_kernel() { 1.0 } else { ticks_per_ns }, self.call)
    }
}
