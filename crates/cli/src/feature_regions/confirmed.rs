//! What runs have said of the regions.

use std::path::{Path, PathBuf};

use transect_feature_confirm::{Confirmation, ConfirmedRegion};
use transect_feature_region::{RegionIndex, RegionTable};
use transect_profile_model::Verdict;

use crate::failure::Failure;
use crate::feature_confirm::beside;

/// Verdicts on the regions of a binary.
pub(super) struct Confirmed {
    path: PathBuf,
    regions: Vec<Option<ConfirmedRegion>>,
}

impl Confirmed {
    /// Reads the file that is named, or that lies beside the binary.
    pub(super) fn find(named: Option<&Path>, binary: &Path, table: &RegionTable) -> Result<Option<Self>, Failure> {
        let path = match named {
            Some(path) => path.to_owned(),
            None if beside(binary).is_file() => beside(binary),
            None => return Ok(None),
        };
        let confirmation = Confirmation::read(&path)?;
        match confirmation.of_binary(table) {
            Some(regions) => Ok(Some(Self { path, regions })),
            // A file beside the binary may be of an earlier model.
            None if named.is_none() => Ok(None),
            None => Err(Failure::Usage(format!(
                "{} has no program that was built with the model of {}; confirm one that was",
                path.display(),
                binary.display()
            ))),
        }
    }

    /// A region's features of one verdict: `A, B`.
    pub(super) fn features(&self, region: RegionIndex, wanted: Verdict) -> String {
        let verdicts = self.regions[region as usize].iter().flat_map(ConfirmedRegion::verdicts);
        verdicts.filter(|(_, verdict)| *verdict == wanted).map(|(feature, _)| feature).collect::<Vec<_>>().join(", ")
    }

    /// How often a region's decision ran; empty if the file doesn't have it.
    pub(super) fn executions(&self, region: RegionIndex) -> String {
        self.regions[region as usize].as_ref().map_or(String::new(), |region| region.executions.to_string())
    }

    /// One line on those of the regions that are shown.
    pub(super) fn summary(&self, shown: &[RegionIndex]) -> String {
        let known = || shown.iter().filter_map(|&region| self.regions[region as usize].as_ref());
        let sum =
            |wanted| known().flat_map(ConfirmedRegion::verdicts).filter(|(_, verdict)| *verdict == wanted).count();
        let [confirmed, unconfirmed, unseen] = [Verdict::Confirmed, Verdict::Unconfirmed, Verdict::Unseen].map(sum);
        let absent = shown.len() - known().count();
        let absent = if absent > 0 { format!(" · {absent} regions are not in the file") } else { String::new() };
        format!(
            "by {}: {confirmed} pairs of region and feature confirmed, {unconfirmed} unconfirmed, {unseen} unseen{absent}",
            self.path.display()
        )
    }
}
