//! What the library does on a cluster, tested against the embedded cluster's API; no controller changes the jobs.
//!
//! `lifecycle`, `following` and `admission` are its specification: what a caller, such as a service, can do with a job
//! and which errors it must expect.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]

mod stage;
mod table;

mod lifecycle;

mod following;

mod admission;

mod progress;
mod reading;
