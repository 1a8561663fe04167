//! The section `transect_decisions` of an object that confirms its regions by running.

use transect_binary_info::Object;

use crate::RegionError;
use crate::record_line::RecordLine;

const SECTION: &str = "transect_decisions";
const VERSION: u32 = 1;

/// A decision that the program counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedDecision {
    /// Number of its region in the unit ([`crate::Region::number`]).
    pub region: u32,
    /// Features that the analysis has for it: places in the unit's features.
    pub features: Vec<u32>,
    /// Those of them that data flow alone leads to it; to the others only constants that a branch has chosen do.
    pub data_features: Vec<u32>,
}

/// The decisions of one object, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionTable {
    /// Tells builds apart: what a program has counted belongs to the build of the same identity.
    pub identity: u64,
    /// The feature of each label.
    pub labels: Vec<u32>,
    /// What the program calls that hands values on without their labels.
    pub library: Option<String>,
    /// Decisions.
    pub decisions: Vec<CountedDecision>,
}

impl DecisionTable {
    /// Reads the table of `object`.
    ///
    /// # Errors
    /// [`RegionError::NotConfirming`], [`RegionError::Version`] or [`RegionError::Malformed`].
    pub fn of(object: &Object) -> Result<Self, RegionError> {
        let sections = object.section_list();
        let section = sections.iter().find(|section| section.name == SECTION && !section.data.is_empty());
        let section = section.ok_or_else(|| RegionError::NotConfirming { path: object.path().to_owned() })?;
        let malformed =
            |what: String| RegionError::Malformed { path: object.path().to_owned(), section: SECTION, offset: 0, what };
        let text = std::str::from_utf8(section.data).map_err(|error| malformed(error.to_string()))?;
        let version = RecordLine::parse(text.lines().next().unwrap_or("")).text("version").map_err(malformed)?;
        if version != VERSION.to_string() {
            return Err(RegionError::Version { path: object.path().to_owned(), found: version, known: VERSION });
        }
        Self::parse(text).map_err(malformed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(RecordLine::parse);
        let head = lines.next().filter(|line| line.letter == "C").ok_or("no record C")?;
        let decisions = lines
            .map(|line| {
                Ok(CountedDecision {
                    region: line.number("region")?,
                    features: line.numbers("features")?,
                    data_features: line.numbers("data")?,
                })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let told = head.number("decisions")? as usize;
        if told != decisions.len() {
            return Err(format!("{} decisions of {told}", decisions.len()));
        }
        Ok(Self {
            identity: head.hash("identity")?,
            labels: head.numbers("labels")?,
            library: head.optional_text("library"),
            decisions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = "C\tversion=1\tidentity=00000000000000ff\tdecisions=2\tlabels=0,3\tlibrary=\n\
                    D\tregion=0\tfeatures=0,3\tdata=3\nD\tregion=2\tfeatures=0\tdata=\n";
        let table = DecisionTable::parse(text).unwrap();
        assert_eq!((table.identity, &table.labels[..], &table.library), (255, &[0, 3][..], &None));
        assert_eq!(table.decisions[0].data_features, [3]);
        assert_eq!((table.decisions[1].region, table.decisions[1].data_features.len()), (2, 0));
        assert!(DecisionTable::parse(&text.replace("decisions=2", "decisions=3")).is_err());
    }
}
