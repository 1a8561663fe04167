//! Programs of threads, run on paper: a simulator that writes down what the scheduler collector would have seen, and
//! that can run the same program with something changed. It knows nothing of the analysis.

mod machine;
mod program;
mod watch;

use transect_profile_model::Profile;

pub use program::{Do, Program, Script, Step};

/// Nanoseconds of one instant.
const INSTANT: i64 = 1_000;

/// What was seen of a run.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The profile.
    pub profile: Profile,
    /// How long the run took, ns.
    pub elapsed_ns: i64,
}
