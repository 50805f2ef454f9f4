//! What is read of a cluster, on the embedded one's API.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]

mod reading;
mod stage;
