//! The command's manners, as a user meets them: streams, statuses, files, messages.

mod architecture;
mod calibrate;
mod command;
mod debug_server;
mod disassembly;
mod forever;
mod help;
mod hostile;
mod influence;
mod latency;
mod latency_counts;
mod latency_metrics;
mod latency_plugins;
mod left_behind;
mod probing;
mod reading;
mod recording;
mod recording_of_all;
mod refusals;
mod robustness;
mod serving;
mod signals;
mod symbolizing;
mod usdt;
