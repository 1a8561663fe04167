//! Stopping another process, loading the probe agent into it, writing its text.
