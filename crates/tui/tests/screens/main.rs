//! The screens on invented profiles: what they show, that keys can't break them, and that their numbers are those of reports.

mod golden;
mod keys;
mod numbers;
mod session;
