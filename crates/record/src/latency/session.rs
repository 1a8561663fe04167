//! One measurement from start or attach to profile.

use super::{LatencyOutcome, LatencySettings};
use crate::RecordError;

/// See [`super::record`].
pub fn run(_settings: &LatencySettings) -> Result<LatencyOutcome, RecordError> {
    Err(RecordError::system("measure latency")(std::io::Error::from(std::io::ErrorKind::Unsupported)))
}
