//! Renders the views of a profile for people and programs: terminal tables, JSON, CSV and one self-contained HTML page.
//!
//! Every renderer takes the rows that `transect-analyze` computed and writes them; none computes a number of its own
//! beyond percentages and units.
#![forbid(unsafe_code)]
