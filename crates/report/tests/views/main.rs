//! The views as text, JSON and CSV.

mod csv;
mod json;
mod sample_criticality;
mod sample_cut;
mod sample_feature;
mod sample_rows;
mod sample_walk;
mod terminal;
