//! Which dependences of regions on features count where a profile is shown.

use std::path::Path;

use transect_analyze::keep_dependence;
use transect_profile_model::{Dependence, Profile};

use crate::failure::Failure;

/// Leaves in the profile the regions that depend on features by what was asked for or more strongly; without a wish, by what
/// was recorded.
///
/// # Errors
/// [`Failure::Usage`] if that was not recorded.
pub fn apply(profile: &mut Profile, asked: Option<Dependence>) -> Result<(), Failure> {
    let Some(session) = &mut profile.meta.feature else {
        return match asked {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(
                "--dependence chooses among feature regions, and this is no recording of features (--collect feature)"
                    .to_owned(),
            )),
        };
    };
    let recorded = session.dependence;
    let weakest = asked.unwrap_or(recorded);
    if weakest > recorded {
        return Err(Failure::Usage(format!(
            "regions were observed whose dependence is {} or stronger; record with --dependence {} for these",
            recorded.as_str(),
            weakest.as_str()
        )));
    }
    session.dependence = weakest;
    keep_dependence(&mut profile.feature, weakest);
    Ok(())
}

/// Reads a profile as [`apply`] leaves it without a wish.
///
/// # Errors
/// If the folder holds no profile that can be read.
pub fn read(folder: &Path) -> Result<Profile, Failure> {
    let mut profile = transect_profile_store::read(folder).map_err(Failure::Read)?;
    apply(&mut profile, None)?;
    Ok(profile)
}
