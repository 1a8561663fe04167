//! What confirming runs have said of a program's regions, kept in its recording.

use std::collections::BTreeSet;
use std::path::Path;

use transect_binary_info::Object;
use transect_feature_confirm::{Confirmation, ConfirmedRegion};
use transect_feature_region::RegionTable;
use transect_profile_model::{ComponentId, Profile};

use crate::feature_confirm::beside;
use crate::output;

/// Notes the verdicts of the files that lie beside the recorded programs and libraries.
pub fn note(profile: &mut Profile, quiet: bool) {
    let components: BTreeSet<ComponentId> = profile.feature.regions.iter().map(|region| region.component).collect();
    for component in components {
        let Some(path) = profile.components.get(component as usize).map(|known| Path::new(&known.path)) else {
            continue;
        };
        let file = beside(path);
        if !file.is_file() {
            continue;
        }
        let confirmation = match Confirmation::read(&file) {
            Ok(confirmation) => confirmation,
            Err(error) => {
                if !quiet {
                    output::say(&format!("{error}; regions are recorded without what runs have confirmed"));
                }
                continue;
            }
        };
        let Some(table) = Object::open(path).ok().and_then(|object| RegionTable::of(&object).ok()) else { continue };
        if let Some(known) = confirmation.of_binary(&table) {
            apply(profile, component, &known);
        }
    }
}

/// `known`: by the region's number in the object.
fn apply(profile: &mut Profile, component: ComponentId, known: &[Option<ConfirmedRegion>]) {
    let features = &profile.feature.features;
    for region in profile.feature.regions.iter_mut().filter(|region| region.component == component) {
        let Some(known) = usize::try_from(region.number).ok().and_then(|number| known.get(number)?.as_ref()) else {
            continue;
        };
        for (verdict, &feature) in region.verdicts.iter_mut().zip(&region.features) {
            let name = features.get(feature as usize).map(|feature| feature.name.as_str());
            *verdict = known.verdicts().find(|(known, _)| Some(*known) == name).map(|(_, verdict)| verdict);
        }
    }
}
