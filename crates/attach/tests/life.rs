//! Attaching to real processes: what is done in them, and that nothing of it shows.

#[path = "life/first_steps.rs"]
mod first_steps;
#[path = "life/launching.rs"]
mod launching;
#[path = "life/program.rs"]
mod program;
#[path = "life/refusals.rs"]
mod refusals;
#[path = "life/transparency.rs"]
mod transparency;
