//! Foreign text made harmless.

pub use transect_profile_export::escape;
pub(crate) use transect_profile_export::is_hazard;
