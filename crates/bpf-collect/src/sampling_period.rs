//! Times between samples that change at random, so that samples don't keep step with what a program does at even times.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::clock::monotonic_ns;

/// A period that is a quarter shorter or longer, at random.
#[derive(Debug)]
pub(crate) struct SamplingPeriod {
    /// Mean, ns.
    mean: u64,
    random: u64,
}

impl SamplingPeriod {
    /// So many samples a second, in the mean.
    pub fn of(hertz: u32) -> SamplingPeriod {
        let mean = 1_000_000_000 / u64::from(hertz.max(1));
        // Not the same in every run: neither would the error be that chance leaves.
        SamplingPeriod { mean, random: monotonic_ns() << 20 | u64::from(std::process::id()) << 1 | 1 }
    }

    /// Another one, ns.
    pub fn draw(&mut self) -> u64 {
        // xorshift: nobody needs to be kept from guessing it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.mean * 3 / 4 + self.random % (self.mean / 2).max(1)
    }
}

/// Sets the time between samples of an event of CPU time, ns. What has passed since its last sample is left out.
pub(crate) fn set(event: BorrowedFd<'_>, period: u64) {
    // SAFETY: an ioctl on a descriptor that is open; the kernel reads eight bytes, which live through the call.
    unsafe {
        perf_event_open_sys::ioctls::PERIOD(event.as_raw_fd(), std::ptr::from_ref(&period).expose_provenance() as u64)
    };
}

/// The CPUs' timers of samples, whose periods change at random, one CPU's after the other's.
#[derive(Debug)]
pub(crate) struct CpuTimers {
    events: Vec<OwnedFd>,
    period: SamplingPeriod,
    changed: Instant,
    next: usize,
}

impl CpuTimers {
    /// Each timer's period changes after so long. A sample in the making is left out each time, half a period in the mean.
    const EACH: Duration = Duration::from_millis(100);
    /// But not before so many samples.
    const LEAST_SAMPLES: u32 = 50;

    /// None yet; all are for so many samples a second.
    pub fn of(hertz: u32) -> CpuTimers {
        CpuTimers { events: Vec::new(), period: SamplingPeriod::of(hertz), changed: Instant::now(), next: 0 }
    }

    /// One more. It is kept open until [`CpuTimers::clear`]; without descriptors left, its period does not change.
    pub fn add(&mut self, timer: &OwnedFd) {
        set(timer.as_fd(), self.period.draw());
        self.events.extend(timer.try_clone());
    }

    /// From now on samples come less often, by the factor `times`.
    pub fn slow_down(&mut self, times: u32) {
        self.period.mean *= u64::from(times.max(1));
        for event in &self.events {
            set(event.as_fd(), self.period.draw());
        }
    }

    /// Lets go of all.
    pub fn clear(&mut self) {
        self.events.clear();
    }

    /// Changes a period if one is due.
    pub fn jitter(&mut self) {
        let count = self.events.len();
        let each = Self::EACH.max(Duration::from_nanos(self.period.mean) * Self::LEAST_SAMPLES);
        if count > 0 && self.changed.elapsed() * count as u32 >= each {
            self.changed = Instant::now();
            set(self.events[self.next % count].as_fd(), self.period.draw());
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SamplingPeriod;

    #[test]
    fn periods_differ_and_have_their_mean() {
        let mut period = SamplingPeriod::of(997);
        let drawn: Vec<u64> = (0..10_000).map(|_| period.draw()).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean / period.mean as f64 - 1.0).abs() < 0.01, "{mean}");
        assert!(drawn.iter().all(|&p| p >= period.mean * 3 / 4 && p < period.mean * 5 / 4 + 1));
        let different: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert!(different.len() > 9_000, "{}", different.len());
    }
}
