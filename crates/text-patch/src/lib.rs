//! Patching of code that other threads execute.
#![no_std]

#[allow(unsafe_code)]
pub mod arch;
pub mod batch;
#[allow(unsafe_code)]
pub mod fork;
pub mod form;
mod refusal;
pub mod serialize;
#[allow(unsafe_code)]
mod toggle;
mod window;
#[allow(unsafe_code)]
pub mod word;
#[allow(unsafe_code)]
pub mod writable;

pub use refusal::Refusal;
pub use toggle::{CallSite, SiteState, StoreKind, toggle_word};
pub use window::{WINDOW_CAPACITY, Window};
