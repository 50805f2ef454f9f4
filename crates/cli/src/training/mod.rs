//! `odh training …`: each verb connects, calls `jobs`, prints.

mod apply;
mod bundle;
mod cancel;
mod compare;
mod copy;
mod create;
mod delete;
mod describe;
mod diagnose;
mod drafts;
mod events;
mod exec;
mod explain;
mod export;
mod forward;
mod get;
mod logs;
mod notifications;
mod preflight;
mod reports;
mod rerun;
mod rows;
mod runtimes;
mod several;
mod suspension;
mod sync;
mod templates;
mod top;
mod wait;
mod watch;

#[cfg(feature = "local")]
pub use create::warn_of_programs;
#[cfg(feature = "local")]
pub use drafts::draft_from_files;
pub use wait::{Follow, ending, follow_to_end};

use crate::arguments::{Global, TrainingVerb};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::{self, Interruption};

/// Runs a verb; returns the exit code.
pub async fn run(console: &Console, global: &Global, verb: &TrainingVerb) -> Result<u8, Failure> {
    match verb {
        TrainingVerb::Create(create) => create::run(console, global, create).await,
        TrainingVerb::Apply(apply) => unless_interrupted(console, apply::run(console, global, apply)).await,
        TrainingVerb::Diff(diff) => apply::diff(console, global, diff).await,
        TrainingVerb::Get(get) => unless_interrupted(console, get::get(console, global, get)).await,
        TrainingVerb::List(list) => unless_interrupted(console, get::list(console, global, list)).await,
        TrainingVerb::Describe(describe) => describe::run(console, global, describe).await,
        TrainingVerb::Logs(logs) => unless_interrupted(console, logs::run(console, global, logs)).await,
        // While the command asks for confirmation, the signal itself must end the process.
        TrainingVerb::Delete(delete) if delete.yes => {
            unless_interrupted(console, delete::run(console, global, delete)).await
        }
        TrainingVerb::Delete(delete) => delete::run(console, global, delete).await,
        TrainingVerb::Diagnose(asked) => diagnose::run(console, asked),
        TrainingVerb::Top(top) => top::run(console, global, top).await,
        TrainingVerb::Wait(wait) => wait::run(console, global, wait).await,
        TrainingVerb::Explain(explain) => explain::run(console, global, explain).await,
        TrainingVerb::Events(events) => {
            unless_interrupted(console, events::run(console, global, events)).await
        }
        TrainingVerb::Suspend(suspend) => {
            suspension::run(console, global, &suspend.several, suspend.output, true).await
        }
        TrainingVerb::Resume(resume) => {
            suspension::run(console, global, &resume.several, resume.output, false).await
        }
        TrainingVerb::Cancel(cancel) => cancel::cancel(console, global, cancel).await,
        TrainingVerb::Scale(scale) => cancel::scale(console, global, scale).await,
        TrainingVerb::Retry(retry) => rerun::retry(console, global, retry).await,
        TrainingVerb::Clone(clone) => rerun::clone(console, global, clone).await,
        TrainingVerb::Compare(compare) => compare::run(console, global, compare).await,
        TrainingVerb::Export(export) => export::run(console, global, export).await,
        TrainingVerb::Exec(exec) => exec::run(console, global, exec).await,
        TrainingVerb::Cp(copy) => copy::run(console, global, copy).await,
        TrainingVerb::PortForward(forward) => forward::run(console, global, forward).await,
        TrainingVerb::Runtimes(asked) => runtimes::run(console, global, asked).await,
        TrainingVerb::Templates { verb } => templates::run(console, global, verb).await,
        TrainingVerb::SupportBundle(bundle) => bundle::run(console, global, bundle).await,
        TrainingVerb::Preflight(preflight) => preflight::run(console, global, preflight).await,
        TrainingVerb::Usage(usage) => reports::usage(console, global, usage).await,
        TrainingVerb::Capacity(capacity) => reports::capacity(console, global, capacity).await,
        TrainingVerb::Advice(advice) => reports::advice(console, global, advice).await,
        TrainingVerb::Audit(audit) => reports::audit(console, global, audit).await,
        TrainingVerb::Notifications { verb } => notifications::run(console, global, verb).await,
    }
}

/// Runs a command that a user may interrupt at any time. The signal ends the process as usual; with JSON output, it is
/// also reported in JSON.
async fn unless_interrupted(
    console: &Console,
    verb: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    if !console.output.is_for_programs() {
        return verb.await;
    }
    let mut interruption = Interruption::listen();
    tokio::select! {
        ended = verb => ended,
        () = interruption.came() => Err(interrupt::failure(
            "interrupted",
            "requests already sent still take effect; see the result with: odh training list",
        )),
    }
}
