//! A profile in the terminal: findings, cuts, the tree of calls, threads over time, and source lines.
//!
//! What is shown is computed by `transect-analyze` ([`Request`]) on a thread of its own and written as `transect-report` writes
//! it; nothing is summed up here. [`App`] is a pure state machine: events in, requests out. [`run`] is the only part that
//! touches the terminal.
#![forbid(unsafe_code)]

mod app;
mod draw;
mod request;
mod scope;
mod screen;
mod worker;

pub use app::{App, Event, Facts, Tab};
pub use draw::{Theme, draw};
pub use request::{Reply, Request, answer};
pub use screen::{End, TuiError, run};
pub use worker::Opened;
