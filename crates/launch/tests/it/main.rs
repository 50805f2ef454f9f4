//! The agent as real processes on loopback: the registry of plain mode gives each agent a name, so no namespace is needed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect ends it")]

mod agents;
mod calls;
mod ends;
mod mpi;
mod trouble;
