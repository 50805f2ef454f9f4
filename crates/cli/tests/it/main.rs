//! The program `odh` as users and scripts run it: real processes, a real local cluster, real exit codes.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod endings;
mod golden;
mod kubectl;
mod many_logs;
mod odh;
mod proxies;
mod reports;
mod running;
mod shells;
mod table;
mod transcripts;
