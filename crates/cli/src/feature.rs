//! `--collect feature`.

use std::path::Path;

use transect_record::Recorded;
use transect_record::feature::{DEFAULT_SAMPLE_HZ, FeatureSettings, FeatureTarget, record};

use crate::arguments::{Collector, Recording};
use crate::collection::Collection;
use crate::config::Config;
use crate::failure::Failure;
use crate::record::{budget, follows};

/// Records the features of a command or a running process.
pub fn recorded(recording: &Recording, config: &Config) -> Result<Recorded, Failure> {
    let outcome = record(&settings(recording, config)?)?;
    Ok(Recorded { profile: outcome.profile, exit_status: outcome.status.unwrap_or(0), timeline: None })
}

/// Settings for features beside other collectors, if they are wanted.
pub fn settings_beside(
    recording: &Recording,
    collection: &Collection,
    config: &Config,
) -> Result<Option<FeatureSettings>, Failure> {
    collection.wants(Collector::Feature).then(|| settings(recording, config)).transpose()
}

fn settings(recording: &Recording, config: &Config) -> Result<FeatureSettings, Failure> {
    let arguments = &recording.feature;
    let target = match recording.running.pid.first() {
        Some(&pid) => FeatureTarget::Attach { pid, duration: recording.running.duration },
        None => FeatureTarget::Launch { command: recording.command.clone(), follow: follows(recording, config) },
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
        model: arguments.model.as_deref().map(model).transpose()?,
    })
}

/// Hash of a model, and its file.
fn model(path: &Path) -> Result<(u64, String), Failure> {
    let hash = transect_feature_model::read(path)?.hash();
    // Sixteen hexadecimal digits.
    Ok((u64::from_str_radix(&hash, 16).unwrap_or_default(), path.display().to_string()))
}
