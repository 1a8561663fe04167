use std::fs::File;
use std::path::{Path, PathBuf};

use transect_profile_model::Profile;

use crate::StoreError;
use crate::folder::Target;
use crate::metadata::TableEntry;
use crate::read::{Opened, again_if_replaced, read_opened, relocate};
use crate::tables::SLICES;
use crate::write::{write_meta, write_tables};

/// A profile that is read to be replaced by what is made of it: with its addresses, and without its slices, which remain as they
/// are.
#[derive(Debug)]
pub struct Revision {
    /// What the folder holds, and is to hold.
    pub profile: Profile,
    dir: PathBuf,
    /// Device and inode of the folder.
    number: (u64, u64),
    slices: Option<(File, TableEntry)>,
}

impl Revision {
    /// Reads the profile in folder `dir`, and checks its slices.
    ///
    /// # Errors
    ///
    /// As [`read()`](crate::read()).
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        again_if_replaced(dir, || {
            let folder = Opened::open(dir)?;
            let (number, slices) = (folder.number()?, folder.checked_file(SLICES)?);
            let mut profile = read_opened(&folder, false)?;
            relocate(&folder, &mut profile.sched)?;
            Ok(Self { profile, dir: dir.to_owned(), number, slices })
        })
    }

    /// Puts [`Revision::profile`] in the place of what was read, in one step: a reader, and whoever is left behind by a crash,
    /// sees the one or the other. Numbers of waits must be what they were: slices refer to them.
    ///
    /// # Errors
    ///
    /// As [`write()`](crate::write()), and [`StoreError::Replaced`] if another profile stands there by now.
    pub fn replace(self) -> Result<(), StoreError> {
        let target = Target::resolve(&self.dir)?;
        let folder = target.temporary()?;
        let slices = self.slices.as_ref().map(|(file, entry)| (file, entry));
        let entries = write_tables(&self.dir, &self.profile, &folder, None, slices)?;
        write_meta(&self.dir, &self.profile, &folder, &self.profile.meta, entries)?;
        target.revise_by(&folder, self.number)
    }
}
