//! The command's manners, as a user meets them: streams, statuses, files, messages.

mod architecture;
mod calibrate;
mod command;
mod help;
mod latency;
mod probing;
mod reading;
mod recording;
mod refusals;
