//! Recording of features against programs that know what they do.

mod attached;
mod counts;
mod elsewhere;
mod forks;
mod program;
mod sampled_by_users;
mod watched_by_kernel;
