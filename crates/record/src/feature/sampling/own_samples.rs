//! Samples without privileges, of processes that are the user's own: by the kernel's events where
//! `kernel.perf_event_paranoid` is 2 or less, else by short stops of threads that run.
//!
//! Stacks are unwound here. Times on CPUs are exact. Where a thread waits is not seen, nor what it does inside of the
//! kernel unless it was stopped: that is in the row of no feature, within its interval.

use std::time::Instant;

use transect_bpf_collect::thread_samples;
use transect_profile_model::{Loss, LossKind};

use super::estimate::{Seen, Weights};
use super::gathered::Gathered;
use super::kernel_stacks::{Sampled, SampledThread};
use crate::RecordError;
use crate::clock::{Clock, monotonic_ns};
use crate::feature::choice::Choice;
use crate::feature::session::Lead;
use crate::feature::settings::{FeatureSettings, FeatureTarget};
use crate::launch::{shell_status, spawn_plain};
use crate::process_start::Launched;
use crate::user_samples::source::{SETTLED, Samples, threads_of};
use crate::user_samples::stopped_samples::{self, MOST_HZ, time_of_children};

/// Records until the program has ended, the time is over, or a signal says so. `why`: better samples can't be had.
///
/// # Errors
/// If the kernel does not let this user sample, or the program can't be started.
pub(super) fn record(settings: &FeatureSettings, lead: &Lead<'_>, why: &str) -> Result<Sampled, RecordError> {
    let (clock, signals) = (&lead.clock, lead.signals);
    let refused = |source| RecordError::NoSamples { why: why.to_owned(), paranoid: thread_samples::paranoid(), source };
    let by_events = thread_samples::is_permitted().is_ok();
    let sample_hz = if by_events { settings.sample_hz } else { settings.sample_hz.min(MOST_HZ) };
    let before = time_of_children();
    let mut gathered = Gathered::choosing(Choice::of(settings));
    let mut samples = None;
    let (child, pid, command, limit) = match &settings.target {
        FeatureTarget::Launch { command, .. } => {
            let mut error = None;
            let child = spawn_plain(command, &mut |pid| {
                match Samples::start(by_events, pid, &[pid], sample_hz, true) {
                    Ok(started) => samples = Some(started),
                    Err(source) => error = Some(source),
                }
                Ok(())
            })?;
            if let Some(source) = error {
                kill(child);
                return Err(refused(source));
            }
            let pid = child.id().cast_signed();
            (Some(child), pid, crate::feature::session::words(command), None)
        }
        FeatureTarget::Attach { pid, duration } => {
            let tids = threads_of(*pid).map_err(RecordError::system("look at the process' threads"))?;
            samples = Some(Samples::start(by_events, *pid, &tids, sample_hz, false).map_err(refused)?);
            gathered.meet(*pid, &tids);
            (None, *pid, command_of(*pid), duration.map(|duration| Instant::now() + duration))
        }
    };
    let Some(mut samples) = samples else { return Err(RecordError::Ended) };
    lead.begin();
    let process = rustix::process::Pid::from_raw(pid).ok_or(RecordError::Ended)?;
    loop {
        let ended = crate::feature::task_list::is_over(pid);
        if child.is_some() {
            for signal in signals.to_forward() {
                let _ = rustix::process::kill_process(process, signal);
            }
        }
        let over = ended || child.is_none() && signals.ends() || limit.is_some_and(|limit| Instant::now() >= limit);
        let horizon = monotonic_ns().saturating_sub(SETTLED);
        let pause = samples.read(|record| gathered.waiting.push(record));
        gathered.take(if over { u64::MAX } else { horizon });
        if over {
            break;
        }
        std::thread::sleep(pause);
    }
    let wall_ns = clock.elapsed_ns();
    let status = match child {
        Some(child) => Some(shell_status(child.wait().map_err(RecordError::system("wait for the program"))?)),
        None => None,
    };
    let mut sampled = gathered.finish(clock, sample_hz, by_events, command, wall_ns, status);
    if let Samples::Stops(stops) = samples {
        if let Some(error) = stops.refused
            && sampled.threads.iter().all(|thread| thread.seen.is_empty())
        {
            return Err(refused(std::io::Error::other(error)));
        }
        let ran: f64 = sampled.threads.iter().map(|thread| thread.exact.running).sum();
        let spent = time_of_children().saturating_sub(before) as f64;
        sampled.unseen.push(stopped_samples::loss(spent, ran, sample_hz));
    }
    Ok(sampled)
}

fn kill(child: Launched) {
    let _ = rustix::process::Pid::from_raw(child.id().cast_signed())
        .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
    let _ = child.wait();
}

fn command_of(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.filter(|word| !word.is_empty()).collect()
}

impl Gathered {
    fn finish(
        mut self,
        clock: &Clock,
        sample_hz: u32,
        by_events: bool,
        command: Vec<String>,
        wall_ns: i64,
        status: Option<i32>,
    ) -> Sampled {
        let now = monotonic_ns();
        // Programs of which nothing was sampled have regions, too.
        let files = self.files.since(self.told);
        self.translation.add_files(&files);
        let period = 1e9 / f64::from(sample_hz.max(1));
        let (mut waits, mut unseen_ns, mut running_ns) = (0, 0.0, 0.0);
        let mut threads = Vec::new();
        for mut thread in self.threads {
            thread.times.ends(now);
            let exact = thread.times.exact();
            let mut seen: Vec<Seen> = thread
                .samples
                .iter()
                .map(|((number, _), weights)| Seen {
                    regions: self.translation.regions(*number).cloned(),
                    samples: weights.on,
                    ..Seen::default()
                })
                .collect();
            seen.sort_by(|a, b| a.regions.cmp(&b.regions));
            let sampled: f64 = seen.iter().map(|seen| seen.samples.sum).sum();
            // Running without samples: inside of the kernel, as far as it is more than the last sample's rest.
            let unseen = if by_events { (exact.running - sampled - period).max(0.0) } else { 0.0 };
            if unseen > 0.0 {
                let weights = Weights { count: 0, sum: unseen, squares: unseen * period };
                seen.push(Seen { regions: None, samples: weights, ..Seen::default() });
            }
            waits += thread.times.waits;
            unseen_ns += unseen;
            running_ns += exact.running;
            threads.push(SampledThread {
                tid: thread.tid,
                tgid: thread.tgid,
                name: thread.name,
                start_ns: thread.times.begin.saturating_sub(clock.started_monotonic_ns()) as i64,
                exact,
                seen,
            });
        }
        let mut unseen = Vec::new();
        let mut add = |place: &str, count: u64, reason: String| {
            if count > 0 {
                unseen.push(Loss {
                    what: LossKind::TruncatedStacks,
                    place: place.to_owned(),
                    count: count as i64,
                    reason,
                });
            }
        };
        add(
            "waits",
            waits,
            "their stacks can't be had without privileges: their time is in the row of no feature".to_owned(),
        );
        let share = 100.0 * unseen_ns / f64::max(running_ns, 1.0);
        let reason = format!(
            "{share:.1} % of the time on CPUs was in the kernel or not sampled; without privileges that is in the row \
             of no feature"
        );
        add("the kernel's code", (unseen_ns / period) as u64, reason);
        Sampled {
            translation: self.translation,
            threads,
            executables: self.executables,
            parents: self.parents,
            command,
            wall_ns,
            status,
            lost: self.lost,
            sample_hz,
            unseen,
        }
    }
}
