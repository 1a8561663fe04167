//! `--collect feature`.

use std::path::Path;
use std::time::Duration;

use transect_record::feature::{DEFAULT_SAMPLE_HZ, FeatureSettings, FeatureTarget, record};
use transect_record::{Recorded, Snapshot};

use crate::arguments::{Collector, Recording};
use crate::collection::Collection;
use crate::config::Config;
use crate::failure::Failure;
use crate::record::{budget, follows};

/// Records the features of a command or of running processes.
pub fn recorded(
    recording: &Recording,
    config: &Config,
    interval: Option<Duration>,
    snapshot: Snapshot<'_>,
) -> Result<Recorded, Failure> {
    let settings = settings_of(recording, config, interval)?;
    let outcome = record(&settings, &mut |profile| snapshot(profile, None))?;
    Ok(Recorded { profile: outcome.profile, exit_status: outcome.status.unwrap_or(0), timeline: None })
}

/// Settings for features, if they are wanted.
pub fn settings(
    recording: &Recording,
    collection: &Collection,
    config: &Config,
    interval: Option<Duration>,
) -> Result<Option<FeatureSettings>, Failure> {
    collection.wants(Collector::Feature).then(|| settings_of(recording, config, interval)).transpose()
}

fn settings_of(recording: &Recording, config: &Config, interval: Option<Duration>) -> Result<FeatureSettings, Failure> {
    let (arguments, running) = (&recording.feature, &recording.running);
    let target = if running.is_given() {
        FeatureTarget::Attach { pids: running.processes(), duration: running.duration }
    } else {
        FeatureTarget::Launch { command: recording.command.clone(), follow: follows(recording, config) }
    };
    Ok(FeatureSettings {
        target,
        program: arguments.feature_program.clone(),
        method: arguments.feature_method.wanted(),
        features: arguments.feature.clone(),
        regions: arguments.region.clone(),
        dependence: arguments.dependence.unwrap_or_default(),
        selection: arguments.selection.clone(),
        overflow: arguments.region_overflow.into(),
        sample_hz: recording.sched.sample_hz.unwrap_or(DEFAULT_SAMPLE_HZ),
        budget: budget(recording, config)?,
        interval,
        model: arguments.model.as_deref().map(model).transpose()?,
    })
}

/// Hash of a model, and its file.
fn model(path: &Path) -> Result<(u64, String), Failure> {
    let hash = transect_feature_model::read(path)?.hash();
    // Sixteen hexadecimal digits.
    Ok((u64::from_str_radix(&hash, 16).unwrap_or_default(), path.display().to_string()))
}
