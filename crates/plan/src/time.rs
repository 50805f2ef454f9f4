//! Arithmetic of times.

use std::time::Duration;

use jiff::Timestamp;

/// The time from one moment to another; zero if the second is earlier.
pub(crate) fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// Times in a status have whole seconds; a finer one would never equal what is read back.
pub(crate) fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
