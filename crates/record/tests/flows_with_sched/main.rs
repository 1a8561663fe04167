//! Flows recorded beside the scheduler collector: attributed time and criticality follow the clock that it publishes.

mod estimate;
mod program;
mod publisher;
mod scheduler;
mod timetable;
