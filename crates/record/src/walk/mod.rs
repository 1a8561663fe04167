//! The walk ("CrossWalk"): the search for the function that finally holds the time, from `main` down into the kernel,
//! while the program runs.

mod after_recording;
mod evidence;
mod frames;
mod groups;
mod joined_tree;
mod loss;
mod outcome;
mod sample_rate;
mod session;
mod settings;
mod state;
mod steps;
mod timers;
pub mod user_timing;
mod waits;
mod wake_sleepers;

pub use after_recording::{DEFAULT_THRESHOLD, WalkAfterRecording};
pub(crate) use evidence::{Evidence, Gatherer, NewStack, Sum, Times};
pub(crate) use frames::system_call_function;
pub(crate) use groups::Threads;
pub(crate) use sample_rate::Rate;
pub use sample_rate::SampleRate;
pub use session::{WalkOutcome, walk};
pub use settings::{WalkSettings, WalkSpace, WalkTarget};
pub use steps::WalkProgress;
