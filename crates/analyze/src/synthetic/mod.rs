//! Deterministic profiles for tests: made from call trees, so that their sums are consistent by construction.

mod call_tree;
mod image_server;
mod large;
mod latency;
mod schedule;
mod simulation;

pub use call_tree::{Call, ProfileBuilder, ThreadSpec};
pub use image_server::image_server;
pub use large::large;
pub use latency::{large_latency, latency_service};
pub use schedule::scheduled_compressor;
pub use simulation::{Do, Program, Recording, Script, Step};

use transect_profile_model::{Clock, Machine, Meta, Profile, SCHEMA_VERSION, Timing};

/// A profile without rows, fully timed, of one second.
pub fn empty() -> Profile {
    Profile {
        meta: Meta {
            schema: SCHEMA_VERSION,
            command: vec!["/opt/app/bin/app".into()],
            machine: Machine {
                hostname: "testhost".into(),
                kernel: "6.1.0-test".into(),
                cpu: "Test CPU @ 2.10GHz".into(),
                cpus: 4,
                memory_bytes: 8 << 30,
            },
            clock: Clock { source: "tsc".into(), ticks_per_ns: 2.1, timed_call_ns: 31.0, counted_call_ns: 0.6 },
            collectors: vec!["flow".into()],
            timing: Timing::Full,
            overhead_estimate: 0.012,
            wall_ns: 1_000_000_000,
            started_unix_ns: 1_700_000_000_000_000_000,
            exit_status: Some(0),
            latency: None,
            criticality: None,
        },
        components: Vec::new(),
        processes: Vec::new(),
        threads: Vec::new(),
        flows: Vec::new(),
        waits: Vec::new(),
        locks: Vec::new(),
        trace: Vec::new(),
        latency: Vec::new(),
        latency_slices: Vec::new(),
        sched: Default::default(),
        loss: Vec::new(),
    }
}
