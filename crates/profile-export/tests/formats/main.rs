//! Each export is opened with a reader that this project did not write.
//!
//! A check whose reader is not installed prints `NOT RUN: …`; with `TRANSECT_REQUIRE_TOOLS=1` it fails.

mod any_name;
mod chrome;
mod collapsed;
mod csv;
mod disk_full;
mod feature;
mod firefox;
mod foreign_tool;
mod pprof;
mod sample_profile;
mod schedule;
mod speedscope;
mod walk;
