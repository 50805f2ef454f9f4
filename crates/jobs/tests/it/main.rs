//! Reading from a cluster, tested against the embedded cluster's API.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]

mod progress;
mod reading;
mod stage;
