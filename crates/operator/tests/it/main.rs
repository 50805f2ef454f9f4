//! The operator on the embedded cluster's API, without controllers and node: the tests play the pods, so every
//! moment of a job's life can be tested.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]
#![expect(clippy::panic, reason = "a test's own steps end it where they fail")]
#![expect(clippy::print_stderr, reason = "what a program logged is shown where its test fails")]

mod admission;
mod crashes;
mod failures;
mod gangs;
mod gate;
mod install;
mod kueue;
mod leader;
mod life;
mod metrics;
mod mistakes;
mod program;
mod progress;
mod progression;
mod restarts;
mod role;
mod rotation;
mod scale;
mod security;
mod stage;
mod state;
mod takeover;
mod together;
mod trainjobs;
mod upstream;
