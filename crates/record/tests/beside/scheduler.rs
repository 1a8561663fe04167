//! With the real collector.
