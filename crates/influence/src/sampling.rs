//! Which configurations to run.

use std::collections::HashSet;

use rand::seq::SliceRandom;
use rand::{RngExt, rngs::StdRng};
use transect_feature_model::FeatureIndex;

use crate::propagation::{ABSENT, Choices};
use crate::space::Choice;
use crate::{Configuration, InfluenceError, Space};

/// Combinations of choices that are looked at, at most; more are drawn at random.
const COMBINATION_LIMIT: usize = 60_000;

/// Configurations in which every possible combination of choices of any `strength` features occurs: each feature on and
/// off, and each value, for 1; each pair of them for 2.
pub fn covering(space: &Space<'_>, strength: usize, random: &mut StdRng) -> Result<Vec<Configuration>, InfluenceError> {
    let mut open = possible_combinations(space, strength, random)?;
    let mut found: Vec<Configuration> = Vec::new();
    while let Some(first) = open.pop() {
        // Take as many open combinations as fit with the first.
        let mut choices = space.start().to_vec();
        for choice in &first {
            space.decide(&mut choices, *choice);
        }
        let mut order = open.clone();
        order.shuffle(random);
        for combination in &order {
            if combination.iter().all(|(feature, bit)| choices[*feature] == 1 << bit) {
                continue;
            }
            let mut next = choices.clone();
            if combination.iter().all(|choice| space.decide(&mut next, *choice)) {
                choices = next;
            }
        }
        let completed = match space.search(choices, &[], &|_| ABSENT)? {
            Some(choices) => choices,
            // The combinations fit one by one but not together: the first alone is known to be possible.
            None => match space.complete(&first, &[], |_| ABSENT)? {
                Some(choices) => choices,
                None => continue,
            },
        };
        open.retain(|combination| !combination.iter().all(|(feature, bit)| completed[*feature] == 1 << bit));
        found.push(space.configuration(&completed));
    }
    Ok(distinct(space, found))
}

/// All combinations of choices of `strength` features that some configuration has.
pub(crate) fn possible_combinations(
    space: &Space<'_>,
    strength: usize,
    random: &mut StdRng,
) -> Result<Vec<Vec<Choice>>, InfluenceError> {
    let features = space.choosable();
    let mut all: Vec<Vec<Choice>> = vec![Vec::new()];
    for _ in 0..strength.min(features.len()) {
        let mut longer = Vec::new();
        for combination in &all {
            let after = combination.last().map(|(feature, _)| *feature);
            for feature in features.iter().filter(|feature| after.is_none_or(|after| **feature > after)) {
                for bit in space.choices(*feature) {
                    longer.push(combination.iter().copied().chain([(*feature, bit)]).collect());
                }
            }
        }
        if longer.len() > COMBINATION_LIMIT {
            longer.shuffle(random);
            longer.truncate(COMBINATION_LIMIT);
        }
        all = longer;
    }
    let mut possible = Vec::with_capacity(all.len());
    for combination in all {
        if space.complete(&combination, &[], |_| ABSENT)?.is_some() {
            possible.push(combination);
        }
    }
    possible.shuffle(random);
    Ok(possible)
}

/// `count` distinct configurations, or as many as turn up, with the number of selected features spread evenly
/// (distance-based sampling: each distance from the empty configuration is as likely as any other).
pub fn by_distance(
    space: &Space<'_>,
    count: usize,
    not: &[Configuration],
    random: &mut StdRng,
) -> Result<Vec<Configuration>, InfluenceError> {
    draw(space, count, not, random, |space, random| {
        let features = space.choosable();
        let share = random.random_range(0..=features.len()) as f64 / features.len().max(1) as f64;
        features.iter().map(|_| random.random_bool(share)).collect()
    })
}

/// `count` distinct configurations, or as many as turn up, each feature on or off by the toss of a coin.
pub fn at_random(
    space: &Space<'_>,
    count: usize,
    not: &[Configuration],
    random: &mut StdRng,
) -> Result<Vec<Configuration>, InfluenceError> {
    draw(space, count, not, random, |space, random| space.choosable().iter().map(|_| random.random_bool(0.5)).collect())
}

fn draw(
    space: &Space<'_>,
    count: usize,
    not: &[Configuration],
    random: &mut StdRng,
    wish: impl Fn(&Space<'_>, &mut StdRng) -> Vec<bool>,
) -> Result<Vec<Configuration>, InfluenceError> {
    let mut seen: HashSet<Vec<String>> = not.iter().map(|own| own.arguments(space.model)).collect();
    let mut found = Vec::new();
    // Small or narrow spaces give the same ones again and again.
    for _ in 0..count.saturating_mul(20) {
        if found.len() == count {
            break;
        }
        let mut order = space.choosable();
        let wishes = wish(space, random);
        let mut preferred: Vec<Choices> = vec![ABSENT; space.candidates.len()];
        for (feature, wished) in order.iter().zip(wishes) {
            if wished {
                let values: Vec<usize> = space.choices(*feature).into_iter().filter(|bit| *bit != 0).collect();
                preferred[*feature] = pick(&values, random).map_or(ABSENT, |bit| 1 << bit);
            } else if let (false, Some(bit)) =
                (space.choices(*feature).contains(&0), pick_choice(space, *feature, random))
            {
                preferred[*feature] = 1 << bit;
            }
        }
        order.shuffle(random);
        let Some(choices) = space.complete(&[], &order, |feature: FeatureIndex| preferred[feature])? else { break };
        let configuration = space.configuration(&choices);
        if seen.insert(configuration.arguments(space.model)) {
            found.push(configuration);
        }
    }
    Ok(found)
}

fn pick_choice(space: &Space<'_>, feature: FeatureIndex, random: &mut StdRng) -> Option<usize> {
    pick(&space.choices(feature), random)
}

fn pick(values: &[usize], random: &mut StdRng) -> Option<usize> {
    (!values.is_empty()).then(|| values[random.random_range(0..values.len())])
}

/// Those that differ in their arguments.
fn distinct(space: &Space<'_>, configurations: Vec<Configuration>) -> Vec<Configuration> {
    let mut seen = HashSet::new();
    configurations.into_iter().filter(|own| seen.insert(own.arguments(space.model))).collect()
}
