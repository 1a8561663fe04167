//! What libbpf-cargo generates from the programs: their maps, and the types that they share with user space.
#![allow(unsafe_code, missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/sched_criticality.skel.rs"));

/// The programs' object file.
pub(crate) fn object() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/sched_criticality.o"))
}
