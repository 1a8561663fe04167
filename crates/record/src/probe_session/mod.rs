//! Probes in another process: what `transect probe` and `transect latency` share.

mod adopt;
mod agent;
#[allow(unsafe_code)]
mod guard;
mod leaving;
mod objects;
mod place;
mod plan;
mod saved;
mod services;
mod session;
pub(crate) mod shadow_frames;
pub(crate) mod siblings;
mod skip_reason;
mod switching;
#[allow(unsafe_code)]
mod watcher;
mod writer;

pub(crate) use agent::HandlerPlaces;
pub(crate) use guard::{Guard, LaunchGuard, NAME as GUARD_NAME, open_cleaned};
pub use leaving::MemoryKept;
pub(crate) use leaving::{clean_child, contains, our_code};
pub(crate) use objects::{KnownMappings, load};
pub use objects::{LoadedObject, UnreadableObject};
pub(crate) use plan::{Plans, Purpose, plan};
pub use saved::SavedProbe;
#[cfg(feature = "fuzzing")]
pub use session::fuzz as fuzz_adopt;
pub use session::{Prepared, ProbeSession, RefusedFunction, SessionSite, SiteCounts, SiteId, SiteState};
pub use skip_reason::SkipReason;
pub(crate) use skip_reason::skip_reason;
pub use watcher::LoaderWatcher;
