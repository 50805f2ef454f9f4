//! The definition: as committed, structural, and its rules judged by a CEL interpreter.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]

mod crd;
mod trainer;
