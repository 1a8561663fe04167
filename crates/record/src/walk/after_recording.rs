//! The walk of a recording that others lead: from what was seen, at its end, without timing functions.

use std::collections::BTreeSet;
use std::time::Duration;

use transect_call_walk::{Search, Settings, Unit};
use transect_profile_model::{Metric, Process, Profile};

use super::loss;
use super::outcome::{self, Searched};
use super::sample_rate::SampleRate;
use super::settings::{WalkSettings, WalkSpace, WalkTarget};
use super::state::WalkState;
use crate::clock::Clock;
use crate::component_rows::place;
use crate::error::RecordError;
use crate::sched::kernel_symbols::{KernelSymbols, SymbolSource};
use crate::sched::place::Place;
use crate::sched::{SchedOptions, SchedRecording, process_row};

/// Share of its threads' time from which a function is followed.
pub const DEFAULT_THRESHOLD: f64 = 0.25;

/// What shares are shares of.
const METRIC: Metric = Metric::Wall;

/// Decisions at the end: each goes further down by what the one before found.
const MOST_DECISIONS: usize = 64;

/// A walk beside other collectors.
pub struct WalkAfterRecording {
    kernel_is_shown: bool,
    state: WalkState,
}

impl WalkAfterRecording {
    /// What a recording of scheduler events must gather for it.
    pub fn options(options: SchedOptions) -> SchedOptions {
        SchedOptions { evidence: true, system_calls: true, ..options }
    }

    /// To be called before privileges are dropped: the kernel's names are read later.
    pub fn prepare() -> Self {
        let kernel = SymbolSource::open();
        let kernel_is_shown = kernel.shows_addresses();
        Self { kernel_is_shown, state: WalkState::new(kernel, true, Unit::from(METRIC), None) }
    }

    /// Searches what `recording` saw, which records no more from now on, and puts the walk's tables into `profile`.
    ///
    /// # Errors
    /// If the collector has ended.
    pub fn finish(
        mut self,
        recording: &SchedRecording,
        options: &SchedOptions,
        clock: &Clock,
        profile: &mut Profile,
    ) -> Result<(), RecordError> {
        self.search(recording, options, clock, profile, true)?;
        recording.know_files(self.state.frames.into_files());
        Ok(())
    }

    /// Searches what `recording` saw up to now: all of it, if it was the `last` time, and records no more then.
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn search(
        &mut self,
        recording: &SchedRecording,
        options: &SchedOptions,
        clock: &Clock,
        profile: &mut Profile,
        last: bool,
    ) -> Result<(), RecordError> {
        let Self { kernel_is_shown, state } = self;
        let settings = settings(options);
        let evidence = recording.evidence(last)?;
        if *kernel_is_shown {
            let kernel = evidence.stacks.iter().flat_map(|stack| &stack.kernel);
            let addresses: Vec<u64> =
                kernel.filter_map(Place::kernel_address).collect::<BTreeSet<_>>().into_iter().collect();
            let lines = recording.kernel_functions(addresses.clone())?;
            state.frames.know_kernel(KernelSymbols::of_printed(&addresses, &lines));
        }
        state.learn(evidence, last);
        let mut searched = Searched::new(Search::new(Settings {
            threshold: settings.threshold,
            window: settings.window,
            max_probes: 0,
            time_user: false,
            time_kernel: false,
        }));
        for _ in 0..MOST_DECISIONS {
            if searched.search.evaluate(&state.call_trees()).is_empty() {
                break;
            }
        }
        let command = profile.meta.command.clone();
        let found = outcome::profile(
            &settings,
            clock,
            profile.meta.wall_ns,
            profile.meta.exit_status,
            command,
            state,
            &searched,
        );
        merge(found, profile);
        Ok(())
    }
}

fn settings(options: &SchedOptions) -> WalkSettings {
    WalkSettings {
        target: WalkTarget::Launch(Vec::new()),
        duration: None,
        metric: METRIC,
        threshold: DEFAULT_THRESHOLD,
        window: Duration::ZERO,
        thread_group: None,
        max_probes: 0,
        space: WalkSpace::Both,
        probes: false,
        critical: false,
        beside: Some(options.clone()),
        sample_rate: SampleRate::Fixed(options.sample_hz),
        kernel_timing: None,
        interval: None,
        writes: Vec::new(),
    }
}

/// Rows of the walk, by the components and processes of the profile.
fn merge(mut found: Profile, profile: &mut Profile) {
    let components: Vec<_> =
        found.components.iter().map(|component| place(&mut profile.components, component)).collect();
    let before = profile.processes.len();
    let row = |process: Process| process_row(&mut profile.processes, before, process);
    let processes: Vec<_> = found.processes.into_iter().map(row).collect();
    for component in found.walk.nodes.iter_mut().filter_map(|node| node.component.as_mut()) {
        *component = components[*component as usize];
    }
    for group in &mut found.walk.groups {
        group.process = processes[group.process as usize];
    }
    // What the scheduler's collector loses is told with its own tables.
    loss::leave_scheduler_out(&mut found.loss);
    profile.walk = found.walk;
    profile.meta.walk = found.meta.walk;
    profile.meta.collectors.push("walk".to_owned());
    profile.loss.append(&mut found.loss);
}
