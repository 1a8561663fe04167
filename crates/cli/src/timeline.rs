//! Waits and slices of a recording of the scheduler: written from where the recorder put them aside.

use std::path::Path;

use transect_profile_model::Profile;
use transect_profile_store::LongTables;
use transect_record::RecordError;
use transect_record::sched::Timeline;

use crate::failure::Failure;
use crate::progress::Progress;

/// Writes a profile, with its timeline if there is one.
pub fn write(folder: &Path, profile: &Profile, timeline: Option<&mut Timeline>) -> Result<(), Failure> {
    let _progress = Progress::start(format!("writing {}", folder.display()));
    keep(folder, profile, timeline)
}

/// The same, and says nothing of it.
pub fn keep(folder: &Path, profile: &Profile, timeline: Option<&mut Timeline>) -> Result<(), Failure> {
    let written = match timeline {
        None => transect_profile_store::write(folder, profile),
        Some(timeline) => {
            let (waits, slices) = timeline.tables();
            let long = LongTables { waits: Box::new(waits), slices: Box::new(slices) };
            transect_profile_store::write_streamed(folder, profile, long)
        }
    };
    written.map_err(Failure::Keep)
}

/// Puts what a report needs of the timeline into the profile: slices are for pages only.
pub fn load(profile: &mut Profile, timeline: Option<&mut Timeline>, with_slices: bool) -> Result<(), Failure> {
    if let Some(timeline) = timeline {
        let loaded = timeline.load_into(&mut profile.sched, with_slices);
        loaded.map_err(|source| {
            Failure::Record(RecordError::System { what: "read the timeline that was put aside", source })
        })?;
    }
    // As a reader of the folder has it.
    profile.sched.forget_addresses();
    Ok(())
}
