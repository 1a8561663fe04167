//! The `NAME.transect` folder.
