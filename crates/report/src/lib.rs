//! Renders the views of a profile for people and programs: terminal tables, Markdown, JSON, CSV, flame graphs and one self-contained HTML page.
//!
//! Every renderer takes the rows that `transect-analyze` computed, as a [`Content`]; no number is computed here beyond
//! percentages, means and units.
#![forbid(unsafe_code)]

mod content;
pub mod csv;
mod error;
pub mod flame;
pub mod html;
pub mod json;
mod pack;
mod sources;
pub mod terminal;
pub mod timeline;

pub use content::{Content, Rows};
pub use error::ReportError;
pub use sources::Sources;
