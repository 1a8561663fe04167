//! Probes in another process: what `transect probe` and `transect latency` share.

mod adopt;
mod agent;
mod objects;
mod place;
mod plan;
mod saved;
mod session;
pub(crate) mod siblings;
mod switching;
#[allow(unsafe_code)]
mod watcher;

pub(crate) use adopt::restore_left;
pub(crate) use agent::HandlerPlaces;
pub(crate) use objects::{KnownMappings, load};
pub use objects::{LoadedObject, UnreadableObject};
pub(crate) use plan::plan;
pub use saved::SavedProbe;
pub use session::{Prepared, ProbeSession, RefusedFunction, SessionSite, SiteCounts, SiteId, SiteState};
pub use watcher::LoaderWatcher;
