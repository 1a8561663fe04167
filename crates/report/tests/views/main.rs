//! The views as text, JSON and CSV.

mod csv;
mod json;
mod sample_criticality;
mod sample_rows;
mod terminal;
