//! Running the configurations of a plan.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use transect_feature_model::FeatureModel;

use crate::{CommandTemplate, InfluenceError, Measure, Observations, Plan};

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignSettings {
    /// Runs of each configuration.
    pub repetitions: usize,
    /// Of the order.
    pub seed: u64,
    /// A run that fails ends everything; otherwise its configuration is left out, and counted.
    pub stop_at_failure: bool,
}

/// Where the campaign is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// Runs done.
    pub done: usize,
    /// Runs in all.
    pub all: usize,
    /// Options of the next run.
    pub options: &'a str,
}

/// Runs each configuration, `repetitions` times in rounds, each round in an order of its own, so that no configuration
/// profits from a warm or suffers from a busy machine more than others. One more run at the start is not counted.
pub fn run(
    plan: &Plan,
    model: &FeatureModel,
    command: &CommandTemplate,
    settings: &CampaignSettings,
    measure: &mut dyn Measure,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Observations, InfluenceError> {
    let arguments: Vec<_> = plan.configurations.iter().map(|own| own.arguments(model)).collect();
    let texts: Vec<_> = plan.configurations.iter().map(|own| own.text(model)).collect();
    let mut observations = Observations {
        configurations: plan.configurations.clone(),
        training: plan.training,
        runs: Vec::new(),
        failed: Vec::new(),
    };
    let mut random = StdRng::seed_from_u64(settings.seed);
    let mut order: Vec<usize> = (0..plan.configurations.len()).collect();
    let all = settings.repetitions * order.len();
    if let Some(first) = arguments.first() {
        progress(&Progress { done: 0, all, options: "warming up" });
        // Its outcome is seen again, and judged, in the first round.
        let _ = measure.measure(&command.with(first));
    }
    let mut done = 0;
    for _ in 0..settings.repetitions {
        order.shuffle(&mut random);
        for place in &order {
            progress(&Progress { done, all, options: &texts[*place] });
            done += 1;
            if observations.failed.iter().any(|(failed, _)| failed == place) {
                continue;
            }
            match measure.measure(&command.with(&arguments[*place])) {
                Ok(measurement) => observations.runs.push((*place, measurement)),
                Err(reason) if settings.stop_at_failure => {
                    return Err(InfluenceError::Run { options: texts[*place].clone(), reason: reason.to_string() });
                }
                Err(reason) => observations.failed.push((*place, reason.to_string())),
            }
        }
    }
    let Observations { runs, failed, .. } = &mut observations;
    runs.retain(|(place, _)| !failed.iter().any(|(failed, _)| failed == place));
    Ok(observations)
}
