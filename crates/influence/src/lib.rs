//! How much time each option of a program costs, alone and together with others.
//!
//! A feature model spans the [`Space`] of configurations; some of them are chosen ([`sampling`]), each is run several
//! times in shuffled order ([`campaign`]), and the times are explained by terms ([`explain`]): one for the program
//! without options, one per feature, one per interaction. Where the program's feature regions were recorded, the time
//! under each set of features is explained by the features of that set alone, so that the configurations needed follow
//! the largest set, not the number of features; otherwise the whole run time is explained.
//!
//! Nothing here prints, and what runs the program is the caller's ([`Measure`]).

#![deny(unsafe_code)]

mod average;
pub mod campaign;
mod candidates;
mod column;
mod command;
mod compare;
mod configuration;
mod error;
mod explain;
mod least_squares;
mod measurement;
mod noise;
mod outliers;
mod page;
mod parts;
mod picture;
mod plan;
mod possible;
mod prediction;
mod propagation;
mod region_times;
mod result;
pub mod sampling;
mod selection;
mod space;
mod table;
mod terms;

pub use command::CommandTemplate;
pub use compare::{Comparison, Difference, compare, comparison_text};
pub use configuration::Configuration;
pub use error::InfluenceError;
pub use explain::{Observations, explain};
pub use measurement::{Measure, Measurement, QuietRun, RunError, WallClock};
pub use page::page;
pub use plan::{Plan, PlanSettings, Sampling, plan};
pub use region_times::set_times;
pub use result::{FailedConfiguration, Form, HeldOut, Influence, Method, SetInfluence, Term};
pub use space::Space;
pub use table::{csv, text};
