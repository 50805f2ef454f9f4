//! `odh training …`: each verb connects, calls `jobs`, prints.

mod create;
mod delete;
mod describe;
mod diagnose;
mod get;
mod logs;
mod top;
mod wait;
mod watch;

pub use create::{draft_from_files, missing_mpirun};
pub use wait::{Follow, ending, follow_to_end};

use crate::arguments::{Global, TrainingVerb};
use crate::console::Console;
use crate::failure::Failure;

/// Runs a verb; the exit code.
pub async fn run(console: &Console, global: &Global, verb: &TrainingVerb) -> Result<u8, Failure> {
    match verb {
        TrainingVerb::Create(create) => create::run(console, global, create).await,
        TrainingVerb::Get(get) => get::get(console, global, get).await,
        TrainingVerb::List(list) => get::list(console, global, list).await,
        TrainingVerb::Describe(describe) => describe::run(console, global, describe).await,
        TrainingVerb::Logs(logs) => logs::run(console, global, logs).await,
        TrainingVerb::Delete(delete) => delete::run(console, global, delete).await,
        TrainingVerb::Diagnose(asked) => diagnose::run(console, asked),
        TrainingVerb::Top(top) => top::run(console, global, top).await,
        TrainingVerb::Wait(wait) => wait::run(console, global, wait).await,
    }
}
