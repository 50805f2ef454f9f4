//! One pass over a job: the walk. It reads as the steps are; each is a file or a function of `plan`.

use std::sync::Arc;
use std::time::Duration;

use api::MPIJob;
use jiff::Timestamp;
use kube::runtime::controller::Action;
use plan::{Fault, Outlook, Plan, ValidJob};

use crate::apply::apply;
use crate::context::Context;
use crate::error::{Class, Error, backoff};
use crate::memory::WATCH_LAG;
use crate::observe::{Observed, observe};
use crate::packed::Packed;
use crate::publish::publish;

/// A job is looked at this often though nothing was seen to change.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Brings a job closer to what it should be.
///
/// # Errors
/// If anything could not be read or written; what could be was, and the status says what is known.
pub(crate) async fn reconcile(job: &MPIJob, context: &Context) -> Result<Action, Error> {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        // What the job owns goes with it, by its owner references.
        context.memory.forget(&uid);
        return Ok(Action::await_change());
    }
    if !plan::is_ours(job) {
        return Ok(Action::await_change());
    }
    // Before every watch has listed, a child that is there looks missing.
    if context.listed.clone().wait_for(|listed| *listed).await.is_err() {
        return Ok(Action::await_change());
    }
    context.memory.sweep(&context.jobs);
    let now = Timestamp::now();
    let last = context.memory.of(&uid, |memory| memory.annotations.clone());
    let read = plan::tolerate(job, &last);
    context.memory.of(&uid, |memory| memory.annotations = read.annotations());
    let outcome = walk(context, job, read, now).await;
    if outcome.is_ok() {
        context.memory.passed(&uid);
    }
    outcome
}

async fn walk(context: &Context, job: &MPIJob, read: ValidJob, now: Timestamp) -> Result<Action, Error> {
    let Observed { seen, known, wait } = observe(context, job, &read, now).await?;
    context.memory.remember(job, &read, &seen, known);
    if let Some(wait) = wait {
        return Ok(Action::requeue(wait));
    }
    let valid = match plan::accept(read, &seen) {
        Ok(valid) => valid,
        Err(faults) => return refuse(context, job, &faults, now).await,
    };
    let plan = plan::plan(&valid, &seen, &context.plan_settings(), now);
    context.memory.of(&valid.uid, |memory| memory.known.attempt.output.clone_from(&plan.output));
    let (applied, error) = apply(context, &valid, &plan).await;
    let report = plan::report(&valid, &seen, &plan, &applied, now);
    let put_off = publish(context, job, report, now).await?;
    if let Some(error) = error {
        return Err(error);
    }
    let next = next_pass(context, &valid, &plan, put_off);
    if seen.status.completion_time.is_some() && put_off.is_none() {
        context.memory.settle(&valid.uid);
    }
    Ok(next)
}

/// The status and the event of a job that cannot be run.
async fn refuse(context: &Context, job: &MPIJob, faults: &[Fault], now: Timestamp) -> Result<Action, Error> {
    publish(context, job, plan::reject(job, faults, now), now).await?;
    Ok(Action::requeue(LOOK_AGAIN))
}

/// When to look at the job again.
fn next_pass(context: &Context, job: &ValidJob, plan: &Plan, put_off: Option<Duration>) -> Action {
    if plan.outlook == Outlook::Expired {
        return Action::await_change();
    }
    // A child that no watch shows in time was lost, and a delete that none shows as well: then it is made or sent again.
    let has_unseen = context.memory.of(&job.uid, |memory| memory.known.awaits_watch());
    let unseen = has_unseen.then_some(WATCH_LAG);
    let wait = [plan.wake_after, put_off, unseen].into_iter().flatten().min();
    Action::requeue(wait.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN))
}

/// When to try again after a failed pass.
pub(crate) fn after_failure(job: Arc<Packed>, error: &Error, context: Arc<Context>) -> Action {
    let uid = job.rest.metadata.uid.as_deref().unwrap_or_default();
    let failures = context.memory.of(uid, |memory| {
        memory.failures = memory.failures.saturating_add(1);
        memory.failures
    });
    let class = error.class();
    if class == Class::Gone && failures > GONE_FOR_GOOD {
        context.memory.forget(uid);
        return Action::await_change();
    }
    Action::requeue(backoff(class, failures))
}

/// After so many answers that the job is not there, only a change of it is worth another pass.
const GONE_FOR_GOOD: u32 = 5;
