//! Stacks from the scheduler's collector: CPU samples, and waits with their exact times.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use transect_bpf_collect::record::text;
use transect_profile_model::Loss;

use super::estimate::{Seen, Weights};
use super::tables;
use super::translation::{MarkedObjects, Translation};
use crate::RecordError;
use crate::clock::Clock;
use crate::feature::choice::Choice;
use crate::feature::settings::{FeatureSettings, FeatureTarget};
use crate::lead::Lead;
use crate::sched::call_stack::{NO_STACK, StackNumber};
use crate::sched::{Followed, Keep, SchedOptions, SchedRecording, Watched};
use crate::user_samples::thread_times::Exact;
use crate::walk::{Sum, Threads, Times};

/// How often what came is translated: stacks are few, so this is seldom enough not to be felt.
const STEP: Duration = Duration::from_millis(250);

/// A thread as it was seen.
#[derive(Debug)]
pub(in crate::feature) struct SampledThread {
    pub tid: i32,
    pub tgid: i32,
    pub name: String,
    /// ns since the recording's start.
    pub start_ns: i64,
    pub exact: Exact,
    pub seen: Vec<Seen>,
}

/// What was recorded.
pub(in crate::feature) struct Sampled {
    pub objects: MarkedObjects,
    pub threads: Vec<SampledThread>,
    /// Programs of processes.
    pub executables: HashMap<i32, String>,
    pub parents: HashMap<i32, i32>,
    pub command: Vec<String>,
    pub wall_ns: i64,
    pub status: Option<i32>,
    /// Records that the kernel's part could not keep, and threads and stacks for which there was no room.
    pub lost: u64,
    /// Samples a second and thread.
    pub sample_hz: u32,
    /// What this way of sampling can't see.
    pub unseen: Vec<Loss>,
}

/// Records until the program has ended, the time is over, or a signal says so.
///
/// # Errors
/// If privileges or the kernel's help are missing.
pub(super) fn record(settings: &FeatureSettings, pids: &[i32], lead: &Lead<'_>) -> Result<Sampled, RecordError> {
    let (clock, signals) = (&lead.clock, lead.signals());
    let options = SchedOptions {
        sample_hz: settings.sample_hz,
        min_parallelism: Some(0),
        tables: false,
        evidence: true,
        ..SchedOptions::default()
    };
    let recording = SchedRecording::start(&options)?;
    recording.begin(clock.started_monotonic_ns())?;
    let keep = Keep { writes: &[], probes: false };
    let (mut watched, limit) = match &settings.target {
        FeatureTarget::Launch { command, .. } => {
            let program = command.first().ok_or(RecordError::NoCommand)?;
            recording.prepare(program)?;
            (Watched::launch(command, &recording, keep)?, None)
        }
        FeatureTarget::Attach { .. } => {
            let followed: Vec<_> = pids.iter().map(|&pid| Followed::Process(pid)).collect();
            let watched = match lead.is_beside() {
                true => Watched::follow(&followed, &recording)?,
                false => Watched::attach(&followed, &recording, keep)?,
            };
            (watched, lead.begin())
        }
    };
    let mut gathered = Gathered { translation: Translation::choosing(Choice::of(settings)), ..Gathered::default() };
    loop {
        let until = Instant::now() + STEP;
        let goes_on = watched.wait_until(Some(limit.map_or(until, |limit| limit.min(until))), signals);
        let over = !goes_on || limit.is_some_and(|limit| Instant::now() >= limit);
        gathered.learn(&recording, over)?;
        if over {
            break;
        }
        lead.so_far(|| {
            let command = watched.command().to_vec();
            let sampled = gathered.sampled(clock, settings.sample_hz, command, clock.elapsed_ns(), None);
            Ok(tables::profile(clock, sampled))
        })?;
    }
    let wall_ns = clock.elapsed_ns();
    let command = watched.command().to_vec();
    let status = watched.status(&HashMap::default())?;
    let _ = recording.finish()?;
    Ok(gathered.sampled(clock, settings.sample_hz, command, wall_ns, status))
}

/// What one stack of one thread was seen with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    task: u32,
    stack: StackNumber,
}

#[derive(Default)]
struct Gathered {
    translation: Translation,
    threads: Threads,
    sums: HashMap<Key, Sum>,
    executables: HashMap<i32, String>,
    lost: u64,
}

impl Gathered {
    fn learn(&mut self, recording: &SchedRecording, last: bool) -> Result<(), RecordError> {
        let evidence = recording.evidence(last)?;
        self.translation.add_files(&evidence.files);
        self.translation.add_stacks(&evidence.stacks);
        self.threads.update(&evidence);
        for (key, sum) in &evidence.sums {
            self.sums.entry(Key { task: key.task, stack: key.stack }).or_default().add(sum);
        }
        self.executables.extend(evidence.executables);
        let kept = &evidence.not_kept;
        let lost = &kept.kernel;
        let refused = kept.stacks + kept.threads;
        self.lost = lost.threads + lost.waits + lost.samples + lost.stacks + lost.tasks + refused;
        Ok(())
    }

    fn sampled(
        &self,
        clock: &Clock,
        sample_hz: u32,
        command: Vec<String>,
        wall_ns: i64,
        status: Option<i32>,
    ) -> Sampled {
        let mut seen: HashMap<u32, Vec<Seen>> = HashMap::default();
        for (key, sum) in &self.sums {
            let no_stack = key.stack == NO_STACK;
            let regions = self.translation.regions(key.stack).cloned();
            // Waits without stack are shared out with the exact time that no stack stands for.
            let waits = if no_stack { Weights::default() } else { weights(&sum.waits) };
            let runnable = if no_stack { 0.0 } else { sum.runnable.ns };
            seen.entry(key.task).or_default().push(Seen { regions, samples: weights(&sum.samples), waits, runnable });
        }
        let mut parents = HashMap::default();
        let mut threads = Vec::new();
        for (&number, task) in self.threads.all() {
            let record = &task.record;
            let Some(time) = self.threads.time(number) else { continue };
            parents.entry(record.tgid).or_insert(record.parent_tgid);
            let exact = Exact {
                wall: time.on_ns + time.runnable_ns + time.blocked_ns,
                running: time.on_ns,
                runnable: time.runnable_ns,
                blocked: time.blocked_ns,
            };
            let mut seen = seen.remove(&number).unwrap_or_default();
            seen.sort_by(|a, b| a.regions.cmp(&b.regions));
            threads.push(SampledThread {
                tid: record.tid,
                tgid: record.tgid,
                name: text(&record.comm),
                start_ns: task.begin.saturating_sub(clock.started_monotonic_ns()) as i64,
                exact,
                seen,
            });
        }
        Sampled {
            objects: self.translation.objects(),
            threads,
            executables: self.executables.clone(),
            parents,
            command,
            wall_ns,
            status,
            lost: self.lost,
            sample_hz,
            unseen: Vec::new(),
        }
    }
}

fn weights(times: &Times) -> Weights {
    Weights { count: times.count, sum: times.ns, squares: times.squares }
}
