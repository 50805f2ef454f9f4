//! Twin replay: sends the same requests to the embedded cluster and to a real API server, and compares the answers.
//!
//! [`generate`] derives a [`program::Program`] from a seed. [`replay`] runs it on a [`side::Side`], in its own
//! namespace. [`normal`] replaces values that always differ (identities, times, resourceVersions) by comparable ones.
//! [`compare`] finds the differences and separates known from unknown ones. [`shrink`] reduces a program that shows a
//! difference. [`run`] does all this for many programs concurrently. [`recorded`] stores the real server's answers to
//! some programs, so that the embedded cluster can be compared with them without a real server.
//!
//! A tool for tests; the product does not depend on it.

pub mod compare;
pub mod difference;
pub mod generate;
pub mod known;
pub mod normal;
pub mod program;
pub mod random;
pub mod real;
pub mod recorded;
pub mod replay;
pub mod run;
pub mod shrink;
pub mod side;
