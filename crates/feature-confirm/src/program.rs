//! The verdicts on the regions of one program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use transect_binary_info::Object;
use transect_feature_region::{DecisionTable, RegionIndex, RegionTable};
use transect_profile_model::{Dependence, Verdict};

use crate::{ConfirmError, Counts, LABELS};

/// A region of a program that ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConfirmedRegion {
    /// Linkage name of its function.
    pub function: String,
    /// Source file as the compiler was told.
    pub file: String,
    /// Line of the decision, 0 if unknown.
    pub line: u32,
    /// Column of the decision, 0 if unknown.
    pub column: u32,
    /// What decides: branch, switch, loop or call.
    pub kind: String,
    /// How often the decision ran.
    pub executions: u64,
    /// Features whose label its condition has carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<String>,
    /// Features whose label it never carried, though it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
    /// Features of which nothing can be said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

impl ConfirmedRegion {
    /// Its features with the verdicts on them.
    pub fn verdicts(&self) -> impl Iterator<Item = (&str, Verdict)> {
        let lists = [
            (&self.confirmed, Verdict::Confirmed),
            (&self.unconfirmed, Verdict::Unconfirmed),
            (&self.unseen, Verdict::Unseen),
        ];
        lists.into_iter().flat_map(|(list, verdict)| list.iter().map(move |feature| (feature.as_str(), verdict)))
    }

    fn set(&mut self, verdicts: BTreeMap<String, Verdict>) {
        for list in [&mut self.confirmed, &mut self.unconfirmed, &mut self.unseen] {
            list.clear();
        }
        for (feature, verdict) in verdicts {
            match verdict {
                Verdict::Confirmed => self.confirmed.push(feature),
                Verdict::Unconfirmed => self.unconfirmed.push(feature),
                Verdict::Unseen => self.unseen.push(feature),
            }
        }
    }

    /// Adds another run's verdicts: of each feature the one that knows most.
    pub(crate) fn add(&mut self, other: &Self) {
        self.executions = self.executions.saturating_add(other.executions);
        let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
        for (feature, verdict) in self.verdicts().chain(other.verdicts()) {
            let known = verdicts.entry(feature.to_owned()).or_insert(verdict);
            *known = verdict.max(*known);
        }
        self.set(verdicts);
    }
}

/// A program that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmedProgram {
    /// Its path.
    pub program: String,
    /// Of its build, 16 hexadecimal digits.
    pub identity: String,
    /// Hash of the feature model, 16 hexadecimal digits.
    pub model: String,
    /// What it calls that hands values on without their labels: no pair is then unconfirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Its regions, in the order of the binary.
    #[serde(default, rename = "region")]
    pub regions: Vec<ConfirmedRegion>,
}

impl ConfirmedProgram {
    /// Joins what processes of one program have noted with the tables in its file.
    ///
    /// # Errors
    /// The program is not there, is another one by now, or its tables are damaged.
    pub fn of(counts: &[Counts]) -> Result<Self, ConfirmError> {
        let path = counts.first().map(|counts| counts.program.clone()).unwrap_or_default();
        let object = Object::open(&path).map_err(|error| ConfirmError::Regions(error.into()))?;
        let (regions, decisions) = (RegionTable::of(&object)?, DecisionTable::of(&object)?);
        let fits = |counts: &Counts| {
            counts.identity == decisions.identity && counts.decisions.len() == decisions.decisions.len()
        };
        if !counts.iter().all(fits) {
            return Err(ConfirmError::Replaced { path });
        }
        Ok(Self::joined(path.display().to_string(), &regions, &decisions, counts))
    }

    /// Groups of labels that runs must follow to see all features of a program.
    ///
    /// # Errors
    /// The program's tables can't be read.
    pub fn groups(counts: &Counts) -> Result<usize, ConfirmError> {
        let object = Object::open(&counts.program).map_err(|error| ConfirmError::Regions(error.into()))?;
        Ok(DecisionTable::of(&object)?.labels.len().div_ceil(LABELS))
    }

    fn joined(program: String, table: &RegionTable, decisions: &DecisionTable, counts: &[Counts]) -> Self {
        let regions = (0..).zip(&table.regions).map(|(index, region): (RegionIndex, _)| {
            let own: Vec<usize> = (0..decisions.decisions.len())
                .filter(|&number| decisions.decisions[number].region == region.number)
                .collect();
            let executions =
                counts.iter().flat_map(|counts| own.iter().map(|&number| counts.decisions[number].0)).max();
            let mut confirmed = ConfirmedRegion {
                function: region.function.clone(),
                file: region.file.clone(),
                line: region.line,
                column: region.column,
                kind: region.kind.as_str().to_owned(),
                executions: executions.unwrap_or(0),
                ..ConfirmedRegion::default()
            };
            let names = table.features_at(index, Dependence::Content);
            let verdicts = region
                .features
                .iter()
                .zip(names)
                .map(|(&feature, name)| (name.to_owned(), verdict(decisions, counts, &own, feature)));
            confirmed.set(verdicts.collect());
            confirmed
        });
        let regions = regions.collect();
        let model = table.units.first().map_or(0, |unit| unit.model);
        Self {
            program,
            identity: format!("{:016x}", decisions.identity),
            model: format!("{model:016x}"),
            library: decisions.library.clone(),
            regions,
        }
    }

    /// Adds another run of the same build.
    pub(crate) fn add(&mut self, other: &Self) {
        for (region, more) in self.regions.iter_mut().zip(&other.regions) {
            region.add(more);
        }
    }

    /// Pairs of region and feature by verdict: unseen, unconfirmed, confirmed.
    pub fn sums(&self) -> [usize; 3] {
        let mut sums = [0; 3];
        for (_, verdict) in self.regions.iter().flat_map(ConfirmedRegion::verdicts) {
            sums[verdict as usize] += 1;
        }
        sums
    }
}

fn verdict(decisions: &DecisionTable, counts: &[Counts], own: &[usize], feature: u32) -> Verdict {
    let Some(label) = decisions.labels.iter().position(|&labelled| labelled == feature) else { return Verdict::Unseen };
    let mut verdict = Verdict::Unseen;
    for counts in counts.iter().filter(|counts| counts.group == label / LABELS) {
        for &number in own {
            let (executions, labels) = counts.decisions[number];
            if labels & 1 << (label % LABELS) != 0 {
                return Verdict::Confirmed;
            }
            let by_data = decisions.decisions[number].data_features.contains(&feature);
            if executions > 0 && by_data && decisions.library.is_none() {
                verdict = Verdict::Unconfirmed;
            }
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use transect_feature_region::{CountedDecision, Region, SiteMode, Unit};
    use transect_profile_model::{ImplicitFlow, RegionKind};

    use super::*;

    fn table() -> RegionTable {
        let names = (0..10).map(|number| format!("F{number}")).collect();
        let unit = Unit {
            build: 1,
            source: "whole program".to_owned(),
            model: 0xab,
            implicit: ImplicitFlow::Constant,
            sites: SiteMode::Confirm,
            compiler: String::new(),
            features: names,
            variables: Vec::new(),
            ignored: Vec::new(),
        };
        let region = |number: u32, features: &[u32]| Region {
            unit: 0,
            number,
            features: features.to_vec(),
            dependences: vec![Dependence::Direct; features.len()],
            kind: RegionKind::Branch,
            function: "f".to_owned(),
            file: "a.c".to_owned(),
            directory: None,
            line: 10 + number,
            column: 1,
            end_line: 20,
            parent: None,
            depth: 0,
            irregular: None,
        };
        RegionTable { units: vec![unit], regions: vec![region(0, &[0, 1, 9]), region(1, &[1])], sites: Vec::new() }
    }

    fn decisions() -> DecisionTable {
        let decision = |region, features: &[u32], data: &[u32]| CountedDecision {
            region,
            features: features.to_vec(),
            data_features: data.to_vec(),
        };
        DecisionTable {
            identity: 7,
            labels: (0..10).collect(),
            library: None,
            decisions: vec![decision(0, &[0, 9], &[0, 9]), decision(0, &[1], &[]), decision(1, &[1], &[1])],
        }
    }

    fn counts(group: usize, decisions: [(u64, u8); 3]) -> Counts {
        Counts { identity: 7, group, program: "/x".into(), decisions: decisions.to_vec() }
    }

    fn joined(counts: &[Counts]) -> ConfirmedProgram {
        ConfirmedProgram::joined("/x".to_owned(), &table(), &decisions(), counts)
    }

    #[test]
    fn a_label_confirms_in_the_run_that_follows_it() {
        // The bit of F1 in the first eight is that of F9 in the second.
        let program = joined(&[counts(0, [(5, 0), (4, 0), (0, 0)]), counts(1, [(6, 2), (4, 0), (0, 0)])]);
        let region = &program.regions[0];
        assert_eq!(region.confirmed, ["F9"]);
        assert_eq!(region.unconfirmed, ["F0"], "it ran, and data flow leads there");
        assert_eq!(region.unseen, ["F1"], "only a constant leads there");
        assert_eq!(region.executions, 6);
        assert_eq!(program.regions[1].unseen, ["F1"], "it did not run");
        assert_eq!(program.sums(), [2, 1, 1]);
    }

    #[test]
    fn runs_add_up() {
        let mut first = joined(&[counts(0, [(5, 0), (4, 0), (0, 0)])]);
        first.add(&joined(&[counts(0, [(1, 1), (1, 2), (3, 0)])]));
        assert_eq!(first.regions[0].confirmed, ["F0", "F1"]);
        assert_eq!((first.regions[0].executions, first.regions[1].executions), (6, 3));
        assert_eq!(first.regions[1].unconfirmed, ["F1"]);
        first.add(&joined(&[counts(0, [(0, 0); 3])]));
        assert_eq!(first.regions[0].confirmed, ["F0", "F1"]);
    }

    #[test]
    fn a_library_without_labels_leaves_pairs_unseen() {
        let mut decisions = decisions();
        decisions.library = Some("c++".to_owned());
        let program =
            ConfirmedProgram::joined("/x".into(), &table(), &decisions, &[counts(0, [(5, 1), (4, 0), (1, 0)])]);
        assert_eq!(program.regions[0].confirmed, ["F0"]);
        assert_eq!(program.sums(), [3, 0, 1]);
    }
}
