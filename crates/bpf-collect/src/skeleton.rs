//! What libbpf-cargo generates from the programs: their maps, and the types that they share with user space.
#![allow(unsafe_code, missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/sched_criticality.skel.rs"));
