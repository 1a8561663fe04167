use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use transect_feature_model::FeatureModel;

use crate::{Configuration, InfluenceError, Space, sampling};

/// How configurations are chosen when there are too many to run all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// So that every combination of choices of as many features as interact occurs, then by distance.
    #[default]
    Covering,
    /// The number of selected features spread evenly.
    Distance,
    /// Each feature by the toss of a coin.
    Random,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSettings {
    /// See [`Sampling`].
    pub sampling: Sampling,
    /// Features whose interactions are looked for, at most this many at once (1 to 3).
    pub order: usize,
    /// Configurations to run, held-out ones included; all are run if there are not more.
    pub configurations: usize,
    /// Configurations that are only predicted, to tell the error; `None`: a fifth, none if all are run.
    pub held_out: Option<usize>,
    /// Values of each numeric feature.
    pub levels: usize,
    /// Of the random numbers.
    pub seed: u64,
    /// Features that vary, with those below them, while the others keep their defaults; empty: all.
    pub vary: Vec<String>,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            sampling: Sampling::Covering,
            order: 2,
            configurations: 32,
            held_out: None,
            levels: 4,
            seed: 1,
            vary: Vec::new(),
        }
    }
}

/// The configurations to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All of them; those that are only predicted last.
    pub configurations: Vec<Configuration>,
    /// How many of them the terms come from.
    pub training: usize,
    /// They are all that the model allows (with the levels of numeric features).
    pub complete: bool,
    /// Combinations of choices that should be in them and are not, because there are too many.
    pub uncovered: usize,
    /// Features with places in the source that no option text reaches.
    pub undriven: Vec<String>,
}

/// Chooses configurations.
pub fn plan(model: &FeatureModel, settings: &PlanSettings) -> Result<Plan, InfluenceError> {
    let mut space = Space::new(model, settings.levels)?;
    if !settings.vary.is_empty() {
        space.vary(&settings.vary)?;
    }
    let mut random = StdRng::seed_from_u64(settings.seed);
    let limit = settings.configurations.max(2);
    let undriven = space.undriven().into_iter().map(|at| model.features[at].name.clone()).collect();
    if let Some(mut all) = space.all(limit)? {
        if all.len() < 2 {
            return Err(InfluenceError::OneConfiguration);
        }
        let held_out = settings.held_out.unwrap_or(0).min(all.len().saturating_sub(2));
        if held_out > 0 {
            all.shuffle(&mut random);
        }
        let training = all.len() - held_out;
        return Ok(Plan { configurations: all, training, complete: true, uncovered: 0, undriven });
    }
    let held_out = settings.held_out.unwrap_or((limit / 5).max(1)).min(limit - 2);
    let wanted = limit - held_out;
    let mut training = match settings.sampling {
        Sampling::Covering => {
            let mut covering = vec![space.default_configuration()?];
            for own in sampling::covering(&space, settings.order.clamp(1, 3), &mut random)? {
                if own.arguments(model) != covering[0].arguments(model) {
                    covering.push(own);
                }
            }
            covering.truncate(wanted);
            let more = wanted - covering.len();
            covering.extend(sampling::by_distance(&space, more, &covering, &mut random)?);
            covering
        }
        Sampling::Distance => sampling::by_distance(&space, wanted, &[], &mut random)?,
        Sampling::Random => sampling::at_random(&space, wanted, &[], &mut random)?,
    };
    let combinations = sampling::possible_combinations(&space, settings.order.clamp(1, 3), &mut random)?;
    let occurs = |combination: &Vec<(usize, usize)>| {
        let has = |own: &Configuration| {
            combination.iter().all(|(feature, bit)| own.values[*feature] == space.candidates[*feature][*bit])
        };
        training.iter().any(has)
    };
    let uncovered = combinations.iter().filter(|combination| !occurs(combination)).count();
    let test = sampling::at_random(&space, held_out, &training, &mut random)?;
    let count = training.len();
    if count < 2 {
        return Err(InfluenceError::OneConfiguration);
    }
    training.extend(test);
    Ok(Plan { configurations: training, training: count, complete: false, uncovered, undriven })
}
