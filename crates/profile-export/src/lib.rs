//! Writes a recorded profile in the formats of other tools.
//!
//! [`export`] turns one [`Profile`] into one stream. The stack formats (pprof, collapsed, Firefox Profiler,
//! speedscope) show every flow as a stack of four frames, root first: program, thread group, calling component,
//! called API as `component!name`. The weight of a stack is the flow's *self* time, so that weights add up to the
//! threads' lifetimes and no instant is in two of them; the time that a program spends in its own code stands under
//! the executable's name with no API below it.
//!
//! Sampled latencies of functions are no stacks: CSV has them as rows (of a profile that holds nothing else), Chrome
//! traces as counters over time.
//!
//! Of a recording of scheduler events, the stack formats show its critical paths ([`Subject::Criticality`]): program,
//! thread group, then the functions of the call stack; weights are criticality and add up to the elapsed time. Chrome
//! traces have every slice and every wait, and the number of active threads as a counter.
//!
//! Of a walk, they show the joined call tree of program and kernel ([`Subject::Walk`]): time on CPUs and off
//! them are sample types of their own in pprof, profiles of their own in speedscope, categories in Firefox, and told
//! apart by a last frame `[off-CPU]` in folded stacks. CSV has the frames of its chains.
//!
//! Of features, they show stacks of nested regions ([`Subject::Features`]): program, thread group, then
//! `{features} function (file:line)` for each open region; weights are wall time. Chrome and Perfetto traces, and markers
//! in Firefox, show when they ran.
//!
//! Not for reading profiles back: the folder written by `transect-profile-store` is the only lossless form.
#![forbid(unsafe_code)]

mod chrome;
mod collapsed;
mod critical_path;
pub mod csv;
mod error;
mod firefox;
mod format;
mod latency_counters;
mod perfetto;
mod pprof;
mod region_slices;
mod region_stacks;
mod schedule_events;
mod speedscope;
mod stack;
mod walk_stacks;

use std::io::Write;

use transect_profile_model::Profile;

pub use error::ExportError;
pub use format::{Format, UnknownFormat};
pub use transect_analyze::{escape, is_hazard};

/// What the stack formats show of a profile that holds both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Calls between components, weighted by self time.
    Flows,
    /// Call paths, weighted by criticality.
    Criticality,
    /// The joined call tree of a walk, on and off CPUs apart.
    Walk,
    /// Nested regions of features, by time.
    Features,
}

impl Subject {
    /// What `profile` holds; flows if it holds them, else a walk if it holds one.
    pub fn of(profile: &Profile) -> Self {
        if profile.flows.is_empty() && !profile.walk.nodes.is_empty() {
            return Self::Walk;
        }
        if profile.flows.is_empty() && !profile.feature.nodes.is_empty() {
            return Self::Features;
        }
        let schedule = profile.meta.criticality.is_some() || !profile.sched.tasks.is_empty();
        if schedule && profile.flows.is_empty() { Self::Criticality } else { Self::Flows }
    }
}

/// Writes `profile` to `out` as `format`, of what it holds.
///
/// # Errors
/// [`ExportError::Write`] if `out` fails, [`ExportError::NoTimes`] if the format shows times and the profile was
/// recorded without any, [`ExportError::NoFlows`] if the format shows stacks and the profile holds latencies alone,
/// [`ExportError::Encode`] if an encoder refuses the data.
pub fn export(profile: &Profile, format: Format, out: &mut dyn Write) -> Result<(), ExportError> {
    export_subject(profile, format, Subject::of(profile), out)
}

/// The same, of `subject`.
///
/// # Errors
/// As [`export`], [`ExportError::NoSchedule`] if the profile holds nothing of the scheduler, and
/// [`ExportError::NoWalk`] if it holds no walk, [`ExportError::NoFeatures`] if it holds no time of features.
pub fn export_subject(
    profile: &Profile,
    format: Format,
    subject: Subject,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    if subject == Subject::Criticality && profile.sched.tasks.is_empty() {
        return Err(ExportError::NoSchedule);
    }
    if subject == Subject::Walk && profile.walk.groups.is_empty() {
        return Err(ExportError::NoWalk);
    }
    if subject == Subject::Features && profile.feature.nodes.is_empty() {
        return Err(ExportError::NoFeatures);
    }
    let stacks = matches!(format, Format::Pprof | Format::Collapsed | Format::Firefox | Format::Speedscope);
    let latencies_alone = profile.flows.is_empty() && profile.threads.is_empty() && !profile.latency.is_empty();
    if stacks && subject == Subject::Flows && latencies_alone {
        return Err(ExportError::NoFlows { format });
    }
    refuse_empty(profile, format, subject)?;
    match format {
        Format::Pprof => pprof::write(profile, subject, out),
        Format::Collapsed => collapsed::write(profile, subject, out),
        Format::Firefox => firefox::write(profile, subject, out),
        Format::Speedscope => speedscope::write(profile, subject, out),
        Format::Chrome => chrome::write(profile, out),
        Format::Perfetto => perfetto::write(profile, out),
        Format::Csv if subject == Subject::Features => csv::write_features(profile, out),
        Format::Csv if subject == Subject::Walk => csv::write_walk(profile, out),
        Format::Csv if subject == Subject::Criticality => csv::write_critical_paths(profile, out),
        Format::Csv if profile.flows.is_empty() && !profile.latency.is_empty() => csv::write_latency(profile, out),
        Format::Csv => csv::write_flows(profile, out),
    }?;
    out.flush()?;
    Ok(())
}

/// Refuses what would be a file without a row, which readers take for a broken one.
fn refuse_empty(profile: &Profile, format: Format, subject: Subject) -> Result<(), ExportError> {
    let sched = &profile.sched;
    let (shows, instead) = match format {
        Format::Perfetto if profile.threads.is_empty() => (
            "it shows lives of threads and regions of features, of which the profile has none",
            "export chrome, which has the scheduler's events and latencies, or pprof, collapsed, firefox or speedscope",
        ),
        Format::Chrome
            if profile.threads.is_empty()
                && profile.latency.is_empty()
                && profile.trace.is_empty()
                && sched.tasks.is_empty()
                && sched.slices.is_empty()
                && sched.waits.is_empty() =>
        {
            (
                "it shows what has a time: threads, traced calls, latencies and the scheduler's events, of which the \
                 profile has none",
                "export pprof, collapsed, firefox or speedscope",
            )
        }
        // Stacks also have the threads' own code.
        Format::Csv | Format::Pprof | Format::Collapsed | Format::Firefox | Format::Speedscope
            if subject == Subject::Flows
                && profile.flows.is_empty()
                && profile.latency.is_empty()
                && (format == Format::Csv || profile.threads.is_empty()) =>
        {
            (
                "it shows calls between components, of which the profile has none",
                "choose --view criticality, walk or features",
            )
        }
        _ => return Ok(()),
    };
    Err(ExportError::NoRows { format, shows, instead })
}
