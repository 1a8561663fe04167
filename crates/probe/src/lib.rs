//! What runs at a probe: trampolines, handlers, frames.
#![no_std]
