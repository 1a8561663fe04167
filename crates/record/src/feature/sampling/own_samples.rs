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
use super::tables;
use crate::RecordError;
use crate::clock::{Clock, monotonic_ns};
use crate::feature::choice::Choice;
use crate::feature::running::commands;
use crate::feature::settings::{FeatureSettings, FeatureTarget};
use crate::launch::{shell_status, spawn_plain};
use crate::lead::Lead;
use crate::process_start::Launched;
use crate::user_samples::source::{SETTLED, Samples, threads_of};
use crate::user_samples::stopped_samples::{self, MOST_HZ, time_of_children};

/// Records until the program has ended, the time is over, or a signal says so. `why`: better samples can't be had.
///
/// # Errors
/// If the kernel does not let this user sample, or the program can't be started.
pub(super) fn record(
    settings: &FeatureSettings,
    pids: &[i32],
    lead: &Lead<'_>,
    why: &str,
) -> Result<Sampled, RecordError> {
    let (clock, signals) = (&lead.clock, lead.signals());
    let refused = |source| RecordError::NoSamples { why: why.to_owned(), paranoid: thread_samples::paranoid(), source };
    let by_events = thread_samples::is_permitted().is_ok();
    let sample_hz = if by_events { settings.sample_hz } else { settings.sample_hz.min(MOST_HZ) };
    let before = time_of_children();
    let mut gathered = Gathered::choosing(Choice::of(settings));
    let mut samples = Vec::new();
    let (child, pids, command, limit) = match &settings.target {
        FeatureTarget::Launch { command, .. } => {
            let mut error = None;
            let child = spawn_plain(command, &mut |pid| {
                match Samples::start(by_events, pid, &[pid], sample_hz, true) {
                    Ok(started) => samples.push(started),
                    Err(source) => error = Some(source),
                }
                Ok(())
            })?;
            if let Some(source) = error {
                kill(child);
                return Err(refused(source));
            }
            let pid = child.id().cast_signed();
            (Some(child), vec![pid], crate::feature::session::words(command), None)
        }
        FeatureTarget::Attach { .. } => {
            for &pid in pids {
                let tids = threads_of(pid).map_err(RecordError::system("look at the process' threads"))?;
                samples.push(Samples::start(by_events, pid, &tids, sample_hz, false).map_err(refused)?);
                gathered.meet(pid, &tids);
            }
            (None, pids.to_vec(), commands(pids), lead.begin())
        }
    };
    if samples.is_empty() {
        return Err(RecordError::Ended);
    }
    loop {
        let ended = pids.iter().all(|pid| crate::feature::task_list::is_over(*pid));
        if child.is_some() {
            pids.iter().for_each(|pid| signals.forward(*pid));
        }
        let over = ended || child.is_none() && signals.ends() || limit.is_some_and(|limit| Instant::now() >= limit);
        let horizon = monotonic_ns().saturating_sub(SETTLED);
        let pauses = samples.iter_mut().map(|samples| samples.read(|record| gathered.waiting.push(record)));
        let pause = pauses.min().unwrap_or_default();
        gathered.take(if over { u64::MAX } else { horizon });
        if over {
            break;
        }
        lead.so_far(|| {
            let sampled = gathered.sampled(clock, sample_hz, by_events, command.clone(), clock.elapsed_ns(), None);
            Ok(tables::profile(clock, sampled))
        })?;
        std::thread::sleep(pause);
    }
    let wall_ns = clock.elapsed_ns();
    let status = match child {
        Some(child) => Some(shell_status(child.wait().map_err(RecordError::system("wait for the program"))?)),
        None => None,
    };
    let mut sampled = gathered.sampled(clock, sample_hz, by_events, command, wall_ns, status);
    let stops: Vec<_> = samples
        .into_iter()
        .filter_map(|samples| match samples {
            Samples::Stops(stops) => Some(stops),
            Samples::Events { .. } => None,
        })
        .collect();
    if !stops.is_empty() {
        if let Some(error) = stops.into_iter().find_map(|stops| stops.refused)
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

impl Gathered {
    fn sampled(
        &mut self,
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
        self.told += files.len();
        self.translation.add_files(&files);
        let period = 1e9 / f64::from(sample_hz.max(1));
        let (mut waits, mut unseen_ns, mut running_ns) = (0, 0.0, 0.0);
        let mut threads = Vec::new();
        for thread in &self.threads {
            let mut times = thread.times;
            times.ends(now);
            let exact = times.exact();
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
            waits += times.waits;
            unseen_ns += unseen;
            running_ns += exact.running;
            threads.push(SampledThread {
                tid: thread.tid,
                tgid: thread.tgid,
                name: thread.name.clone(),
                start_ns: times.begin.saturating_sub(clock.started_monotonic_ns()) as i64,
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
            objects: self.translation.objects(),
            threads,
            executables: self.executables.clone(),
            parents: self.parents.clone(),
            command,
            wall_ns,
            status,
            lost: self.lost,
            sample_hz,
            unseen,
        }
    }
}
