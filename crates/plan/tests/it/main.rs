//! The walk from a job to its objects, status and events, as golden folders; validation, as a table.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]
#![expect(clippy::panic, reason = "a test's own steps end it where they fail")]

mod allocations;
mod golden;
mod progress;
mod scene;
mod trainjobs;
mod upstream;
mod validation;
