//! Patching of code that other threads execute.
#![no_std]

mod window;

pub use window::{WINDOW_CAPACITY, Window};
