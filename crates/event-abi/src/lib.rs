//! Memory layouts shared between the agent inside a program and the recorder outside of it.
//!
//! Everything here is `repr(C)`, free of pointers and padding surprises, and asserted at compile time; an all-zero
//! byte image is a valid value of every type, because the memory comes from a sparse file.
#![no_std]
#![forbid(unsafe_code)]

pub mod api_table;
pub mod arena;
pub mod context;
pub mod flow_image;
pub mod frame;
pub mod plan;
pub mod probe_arena;
pub mod process;
pub mod published;
pub mod region_arena;
pub mod static_plan;
pub mod thread;
