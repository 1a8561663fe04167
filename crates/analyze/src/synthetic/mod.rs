//! Deterministic profiles for tests: made from call trees, so that their sums are consistent by construction.

mod call_tree;
mod feature;
mod image_server;
mod large;
mod latency;
mod region_run;
mod schedule;
mod simulation;
mod walk;

pub use call_tree::{Call, ProfileBuilder, ThreadSpec};
pub use feature::{feature_hostile, feature_listing, feature_packer, large_features};
pub use image_server::image_server;
pub use large::large;
pub use latency::{large_latency, latency_service};
pub use schedule::scheduled_compressor;
pub use simulation::{Do, Program, Recording, Script, Step};
pub use walk::{large_walk, walked_proxy};

use transect_profile_model::{Clock, Machine, Meta, Overhead, Profile, Timing};

/// A profile without rows, fully timed, of one second.
pub fn empty() -> Profile {
    Profile::new(Meta {
        command: vec!["/opt/app/bin/app".into()],
        collectors: vec!["flow".into()],
        timing: Timing::Full,
        overhead_estimate: 0.012,
        overhead: Some(Overhead { agent_ns: 34_000_000, start_ns: 50_000_000, share: 0.03, ..Overhead::default() }),
        wall_ns: 1_000_000_000,
        started_unix_ns: 1_700_000_000_000_000_000,
        exit_status: Some(0),
        ..Meta::new(
            Machine {
                hostname: "testhost".into(),
                kernel: "6.1.0-test".into(),
                cpu: "Test CPU @ 2.10GHz".into(),
                cpus: 4,
                memory_bytes: 8 << 30,
            },
            Clock { source: "tsc".into(), ticks_per_ns: 2.1, timed_call_ns: 31.0, counted_call_ns: 0.6 },
        )
    })
}
