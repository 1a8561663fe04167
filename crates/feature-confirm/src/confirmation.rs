//! The file in which runs add up.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use transect_feature_region::RegionTable;

use crate::region_key::Keys;
use crate::{ConfirmError, ConfirmedProgram, ConfirmedRegion};

/// Version of the file.
pub const VERSION: u32 = 1;

/// Verdicts on the regions of programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// [`VERSION`].
    pub version: u32,
    /// Programs, each once.
    #[serde(default, rename = "program")]
    pub programs: Vec<ConfirmedProgram>,
}

impl Default for Confirmation {
    fn default() -> Self {
        Self { version: VERSION, programs: Vec::new() }
    }
}

impl Confirmation {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfirmError::Read`], [`ConfirmError::Malformed`] or [`ConfirmError::Version`].
    pub fn read(path: &Path) -> Result<Self, ConfirmError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfirmError::Read { path: path.to_owned(), source })?;
        let malformed = |what: String| ConfirmError::Malformed { path: path.to_owned(), what };
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = toml::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if head.version != VERSION {
            return Err(ConfirmError::Version { path: path.to_owned(), found: head.version, known: VERSION });
        }
        toml::from_str(&text).map_err(|error| malformed(error.to_string()))
    }

    /// The file's text.
    ///
    /// # Errors
    /// [`ConfirmError::Malformed`] if it can't be written as TOML.
    pub fn text(&self) -> Result<String, ConfirmError> {
        toml::to_string(self).map_err(|error| ConfirmError::Malformed { path: "TOML".into(), what: error.to_string() })
    }

    /// Adds a program's runs. Those of another build of it count no more: returns true if there were any.
    pub fn add(&mut self, program: ConfirmedProgram) -> bool {
        let Some(known) = self.programs.iter_mut().find(|known| known.program == program.program) else {
            self.programs.push(program);
            return false;
        };
        if known.identity == program.identity && known.regions.len() == program.regions.len() {
            known.add(&program);
            return false;
        }
        *known = program;
        true
    }

    /// What is known of each region of `table`, of whatever build of the same sources and model; `None` if the file has no
    /// program of that model.
    pub fn of_binary(&self, table: &RegionTable) -> Option<Vec<Option<ConfirmedRegion>>> {
        let models: Vec<String> = table.units.iter().map(|unit| format!("{:016x}", unit.model)).collect();
        let mut known = HashMap::new();
        let mut any = false;
        for program in self.programs.iter().filter(|program| models.contains(&program.model)) {
            any = true;
            let mut keys = Keys::default();
            for region in &program.regions {
                let entry = known.entry(keys.of_confirmed(region));
                entry.and_modify(|known: &mut ConfirmedRegion| known.add(region)).or_insert_with(|| region.clone());
            }
        }
        let mut keys = Keys::default();
        let regions = table.regions.iter().map(|region| known.get(&keys.of_region(region)).cloned()).collect();
        any.then_some(regions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(line: u32, confirmed: &[&str], unseen: &[&str]) -> ConfirmedRegion {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ConfirmedRegion {
            function: "main".to_owned(),
            file: "../src/main.c".to_owned(),
            line,
            column: 7,
            kind: "branch".to_owned(),
            executions: 1,
            confirmed: texts(confirmed),
            unconfirmed: Vec::new(),
            unseen: texts(unseen),
        }
    }

    fn program(identity: &str, regions: Vec<ConfirmedRegion>) -> ConfirmedProgram {
        ConfirmedProgram {
            program: "/x".to_owned(),
            identity: identity.to_owned(),
            model: "00000000000000ab".to_owned(),
            library: None,
            regions,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        let mut confirmation = Confirmation::default();
        confirmation.add(program("1", vec![region(3, &["A"], &["B"])]));
        std::fs::write(&path, confirmation.text().unwrap()).unwrap();
        assert_eq!(Confirmation::read(&path).unwrap(), confirmation);
        std::fs::write(&path, "version = 9\nprogram = 3\n").unwrap();
        assert!(matches!(Confirmation::read(&path), Err(ConfirmError::Version { found: 9, .. })));
        std::fs::write(&path, "version = 1\nprogram = 3\n").unwrap();
        assert!(matches!(Confirmation::read(&path), Err(ConfirmError::Malformed { .. })));
    }

    #[test]
    fn runs_of_one_build_add_up_and_those_of_another_go() {
        let mut confirmation = Confirmation::default();
        assert!(!confirmation.add(program("1", vec![region(3, &[], &["A"])])));
        assert!(!confirmation.add(program("1", vec![region(3, &["A"], &[])])));
        assert_eq!(confirmation.programs[0].sums(), [0, 0, 1]);
        assert!(confirmation.add(program("2", vec![region(3, &[], &["A"])])));
        assert_eq!((confirmation.programs.len(), confirmation.programs[0].sums()), (1, [1, 0, 0]));
    }

    #[test]
    fn regions_of_another_build_are_found_by_place() {
        use transect_feature_region::{Region, SiteMode, Unit};
        use transect_profile_model::{ImplicitFlow, RegionKind};
        let unit = |model| Unit {
            build: 9,
            source: String::new(),
            model,
            implicit: ImplicitFlow::Constant,
            sites: SiteMode::Probe,
            compiler: String::new(),
            features: vec!["A".to_owned()],
            variables: Vec::new(),
            ignored: Vec::new(),
        };
        let at = |line| Region {
            unit: 0,
            number: 0,
            features: vec![0],
            dependences: vec![transect_profile_model::Dependence::Direct],
            kind: RegionKind::Branch,
            function: "main".to_owned(),
            file: "/elsewhere/main.c".to_owned(),
            directory: None,
            line,
            column: 7,
            end_line: 0,
            parent: None,
            depth: 0,
            irregular: None,
        };
        let mut table = RegionTable { units: vec![unit(0xab)], regions: vec![at(4), at(3), at(3)], sites: Vec::new() };
        let mut confirmation = Confirmation::default();
        confirmation.add(program("1", vec![region(3, &["A"], &[]), region(3, &[], &["A"])]));
        let known = confirmation.of_binary(&table).unwrap();
        assert_eq!(known[0], None);
        assert_eq!(known[1].as_ref().unwrap().confirmed, ["A"]);
        assert_eq!(known[2].as_ref().unwrap().unseen, ["A"]);
        table.units = vec![unit(0xcd)];
        assert_eq!(confirmation.of_binary(&table), None);
    }
}
