//! Features that take much of the time, alone and together, and what of them was not measured.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use transect_profile_model::{LossKind, Profile, Verdict};

use super::words::{bare, count, percent, time};
use super::{FindingKind, FindingRow};
use crate::feature::set_in_words;
use crate::{FeatureRow, FeaturesView, RegionRow};

/// A feature with less of the time is not worth a configuration of its own.
const HEAVY_PERCENT: f64 = 10.0;
/// Time of an interaction is what nobody expects who measured each feature alone.
const TOGETHER_PERCENT: f64 = 5.0;
/// A feature that decides less is on around the others, but has no part in what they do.
const PART_PERCENT: f64 = 1.0;
/// Features of an interaction whose own times are told.
const MOST_ALONE: usize = 4;
/// Further features repeat what the table shows.
const MOST: usize = 3;

pub(super) fn find(profile: &Profile, view: &FeaturesView, findings: &mut Vec<FindingRow>) {
    if view.session.is_none() {
        return;
    }
    let share = |ns: i64| if view.whole_ns > 0 { ns as f64 * 100.0 / view.whole_ns as f64 } else { 0.0 };
    let single = |row: &&FeatureRow| row.features.len() == 1;
    let heavy = view.features.iter().filter(single).filter(|row| share(row.decided_ns) >= HEAVY_PERCENT);
    findings.extend(heavy.take(MOST).map(|row| feature(view, row, share(row.decided_ns))));
    let together = interactions(view, |row| share(row.decided_ns) >= PART_PERCENT);
    let together = together.into_iter().filter(|(_, ns)| share(*ns) >= TOGETHER_PERCENT);
    findings.extend(together.take(MOST).map(|(features, ns)| interaction(view, features, ns, share(ns))));
    findings.extend(irregular(view));
    findings.extend(lost(view));
    findings.extend(unmeasured(profile, view));
}

/// Sets of features that take part, and the time in which exactly these of those did, longest first.
fn interactions(view: &FeaturesView, takes_part: impl Fn(&FeatureRow) -> bool) -> Vec<(Vec<&str>, i64)> {
    let single = view.features.iter().filter(|row| row.features.len() == 1 && takes_part(row));
    let part: FxHashSet<&str> = single.map(|row| row.features[0].as_str()).collect();
    let mut times: BTreeMap<Vec<&str>, i64> = BTreeMap::new();
    for row in &view.features {
        let features = row.features.iter().map(String::as_str).filter(|name| part.contains(name)).collect();
        *times.entry(features).or_default() += row.exclusive_ns;
    }
    let mut sets: Vec<_> = times.into_iter().filter(|(features, _)| features.len() > 1).collect();
    sets.sort_by_key(|(_, ns)| Reverse(*ns));
    sets
}

fn feature(view: &FeaturesView, row: &FeatureRow, share: f64) -> FindingRow {
    let name = set_in_words(&row.features);
    let mut evidence = format!(
        "{} of {} in code that it decides; active {}, alone {}",
        time(row.decided_ns),
        time(view.whole_ns),
        time(row.inclusive_ns),
        time(row.exclusive_ns)
    );
    // Outer regions hold the inner ones' time: what has most of its own is where to look.
    let of_feature = |region: &&RegionRow| region.features.iter().any(|feature| row.features.contains(feature));
    // A region that runs have shown to depend on it says more than one that only the analysis knows.
    let of_runs = |region: &RegionRow| {
        let pairs = region.features.iter().zip(&region.verdicts).filter(|(feature, _)| row.features.contains(feature));
        pairs.filter_map(|(_, verdict)| *verdict).max()
    };
    let ran = view.regions.iter().filter(of_feature).filter(|region| region.exclusive_ns > 0);
    let rank =
        |region: &&RegionRow| (of_runs(region) != Some(Verdict::Unconfirmed), region.exclusive_ns, Reverse(region.id));
    let largest = ran.max_by_key(rank);
    if let Some(region) = largest {
        evidence += &format!("; most in {}: {}", place(region), time(region.exclusive_ns));
        if let Some(verdict) = of_runs(region) {
            evidence += &format!(", {} by runs", verdict.as_str());
        }
        if let Some(entries) = region.entries {
            evidence += &format!(", entered {}", times(entries));
        }
    }
    FindingRow {
        finding: format!("Feature {name} decides {} of the threads' time", percent(share)),
        evidence,
        view: "features".to_owned(),
        next: "See its regions, and what it takes together with others: --view features".to_owned(),
        kind: FindingKind::HeavyFeature,
        percent: share.clamp(0.0, 100.0),
        ..FindingRow::default()
    }
}

fn interaction(view: &FeaturesView, features: Vec<&str>, ns: i64, share: f64) -> FindingRow {
    let alone = features.iter().take(MOST_ALONE).filter_map(|&name| {
        let single = view.features.iter().find(|other| other.features.len() == 1 && other.features[0] == name)?;
        Some(format!("{name} {}", time(single.exclusive_ns)))
    });
    let alone = alone.collect::<Vec<_>>().join(", ");
    let features: Vec<String> = features.iter().map(|&name| name.to_owned()).collect();
    FindingRow {
        finding: format!("{} together take {} of the threads' time", set_in_words(&features), percent(share)),
        evidence: format!("{} only while all of them are on; each alone: {alone}", time(ns)),
        view: "features".to_owned(),
        next: "Measure configurations with and without them: transect influence --model MODEL -- COMMAND {options}"
            .to_owned(),
        kind: FindingKind::FeatureInteraction,
        percent: share.clamp(0.0, 100.0),
        ..FindingRow::default()
    }
}

fn irregular(view: &FeaturesView) -> Option<FindingRow> {
    // Hot loops have no sites by choice, and samples see them.
    let unmarked = |why: &str| !why.starts_with("hot loop");
    let irregular: Vec<&RegionRow> =
        view.regions.iter().filter(|region| region.irregular.as_deref().is_some_and(unmarked)).collect();
    let first = irregular.first()?;
    Some(FindingRow {
        finding: format!(
            "{} of {} regions could not be marked: their time counts for what is around them",
            count(irregular.len() as i64),
            count(view.regions.len() as i64)
        ),
        evidence: format!("{}: {}", place(first), first.irregular.as_deref().unwrap_or_default()),
        view: "features".to_owned(),
        next: "See all of them: --view features --format json".to_owned(),
        kind: FindingKind::FeatureGap,
        percent: 0.0,
        ..FindingRow::default()
    })
}

fn lost(view: &FeaturesView) -> Option<FindingRow> {
    let first = view.lost.first()?;
    Some(FindingRow {
        finding: format!(
            "{} of {} variables of the model were not found: times of {} are too small",
            count(view.lost.len() as i64),
            count(view.variables as i64),
            match view.lost.iter().all(|lost| lost.feature == first.feature) {
                true => first.feature.clone(),
                false => "their features".to_owned(),
            }
        ),
        evidence: format!("{}: {}", first.variable, first.reason),
        view: "features".to_owned(),
        next: "Correct the model and build again; TRANSECT_FEATURE_REPORT=1 lists every variable".to_owned(),
        kind: FindingKind::FeatureGap,
        percent: 0.0,
        ..FindingRow::default()
    })
}

/// Events that were dropped, samples that could not be told.
fn unmeasured(profile: &Profile, view: &FeaturesView) -> Option<FindingRow> {
    let session = view.session.as_ref()?;
    if session.dropped > 0 {
        return Some(FindingRow {
            finding: format!(
                "{} events of regions were dropped: entries and times are too small",
                count(session.dropped)
            ),
            evidence: format!(
                "{} were recorded; rings were full, and --region-overflow count lets the program go on",
                count(session.events)
            ),
            view: "loss".to_owned(),
            next: "Record with --region-overflow block, or fewer features: --feature NAME".to_owned(),
            kind: FindingKind::FeatureGap,
            percent: 0.0,
            ..FindingRow::default()
        });
    }
    let share = session.untranslated as f64 * 100.0 / session.samples.max(1) as f64;
    (session.untranslated > 0 && share >= 1.0).then(|| FindingRow {
        finding: format!("{} of the samples could not be told to regions: they count for no feature", percent(share)),
        evidence: format!(
            "{} of {} samples; {}",
            count(session.untranslated),
            count(session.samples),
            match profile.loss.iter().find(|loss| loss.what == LossKind::TruncatedStacks) {
                Some(loss) => format!("{} stacks were cut short", count(loss.count)),
                None => "their code was built without marks, or paths that meet there disagree".to_owned(),
            }
        ),
        view: "loss".to_owned(),
        next: "Record with events instead: --feature-method trace".to_owned(),
        kind: FindingKind::FeatureGap,
        percent: 0.0,
        ..FindingRow::default()
    })
}

fn place(region: &RegionRow) -> String {
    let file = region.file.rsplit('/').next().unwrap_or(&region.file);
    match region.line {
        line if line > 0 && !file.is_empty() => format!("{} ({file}:{line})", bare(&region.function)),
        _ => bare(&region.function).to_owned(),
    }
}

fn times(entries: i64) -> String {
    if entries == 1 { "once".to_owned() } else { format!("{} times", count(entries)) }
}

pub(super) fn nothing(view: &FeaturesView) -> FindingRow {
    FindingRow {
        finding: "No finding".to_owned(),
        evidence: format!(
            "no feature takes a tenth of {}; {} regions examined",
            time(view.whole_ns),
            count(view.regions.len() as i64)
        ),
        view: "features".to_owned(),
        next: "Compare the features: --view features".to_owned(),
        kind: FindingKind::Nothing,
        percent: 0.0,
        ..FindingRow::default()
    }
}
