//! What a completion found, component by component.

use std::path::PathBuf;

use transect_binary_info::Fetched;
use transect_profile_model::ComponentId;

/// Addresses of a component that have something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedCount {
    /// That have the name of a function.
    pub functions: usize,
    /// That have a source line.
    pub lines: usize,
}

/// What became of one component's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The component.
    pub component: ComponentId,
    /// Different addresses that were kept of it.
    pub addresses: usize,
    /// Of them, before.
    pub before: NamedCount,
    /// Of them, now.
    pub after: NamedCount,
    /// Files that told names or lines.
    pub from: Vec<PathBuf>,
    /// What was not there, if not every address has a function and a line now.
    pub missing: Option<Missing>,
}

impl Completed {
    /// Whether the profile knows more than before.
    pub fn is_more(&self) -> bool {
        self.after != self.before
    }
}

/// Why addresses of a component lack names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The component was recorded without a build-id: no file can be told to be the one that ran.
    NoBuildId,
    /// There is no debug information of its build.
    NoFile {
        /// The build-id.
        build_id: String,
        /// A file at the recorded path that is another build.
        other_build: Option<PathBuf>,
        /// Whether a server was asked.
        fetched: Fetched,
    },
    /// There is, and it does not cover all addresses: parts were compiled without it.
    NotDescribed,
}

/// What became of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Components of which addresses were kept, in the order of their rows.
    pub components: Vec<Completed>,
}

impl Completion {
    /// Whether the profile knows more than before.
    pub fn is_more(&self) -> bool {
        self.components.iter().any(Completed::is_more)
    }
}
