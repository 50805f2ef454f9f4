//! Twin replay: the same requests to the embedded cluster and to a real API server, and what differs in the answers.
//!
//! How data walks: [`generate`] makes a [`program::Program`] of a seed; [`replay`] runs it on a [`side::Side`], in a
//! namespace of its own; [`normal`] replaces what must differ (identities, times, resourceVersions) by what must not;
//! [`compare`] finds the differences and tells the known from the others; [`shrink`] makes a program small that shows
//! one; [`run`] does all this many times side by side. [`recorded`] keeps the real server's answers of some programs,
//! so that the embedded cluster can be held against them where there is no real server.
//!
//! A tool for tests; nothing of the product depends on it.

pub mod compare;
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
