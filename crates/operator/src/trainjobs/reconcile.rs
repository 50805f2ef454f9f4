//! One pass over a TrainJob: observe → validate → plan → apply → report → publish.

use std::sync::Arc;
use std::time::Duration;

use api::{TrainJob, TrainJobStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use plan::trainjob::{self, Refusal, TrainJobReport};
use tracing::Instrument;

use super::Context;
use super::observe::{FoundRuntime, observe, runtime};
use super::publish::publish;
use crate::apply::{Owner, carry_out};
use crate::error::{Class, Error, backoff};

/// A job is looked at this often though nothing was seen to change.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// How often a runtime is looked for that does not exist.
const RUNTIME_LOOK: Duration = Duration::from_secs(30);
/// After so many answers that the job is not there, only a change of it is worth another pass.
const GONE_FOR_GOOD: u32 = 5;

/// One pass, logged with the job's name.
///
/// # Errors
/// If anything could not be read or written; what could be was.
pub(super) async fn pass(job: Arc<TrainJob>, context: Arc<Context>) -> Result<Action, Error> {
    let (namespace, trainjob) = (job.namespace().unwrap_or_default(), job.name_any());
    let span = tracing::info_span!("pass", namespace, trainjob);
    async {
        let outcome = reconcile(&job, &context).await;
        if let Err(error) = &outcome {
            context.memories.of(&job.uid().unwrap_or_default(), |memory| error.log(&mut memory.failure));
        }
        outcome
    }
    .instrument(span)
    .await
}

async fn reconcile(job: &TrainJob, context: &Context) -> Result<Action, Error> {
    let uid = job.uid().unwrap_or_default();
    // What the job owns goes with it, by its owner references.
    if job.metadata.deletion_timestamp.is_some() || !trainjob::is_ours(job) {
        return Ok(Action::await_change());
    }
    // Before every watch has listed, a child that is there looks missing.
    if context.listed.clone().wait_for(|listed| *listed).await.is_err() {
        return Ok(Action::await_change());
    }
    context.memories.sweep(&context.jobs);
    context.memory.sweep(&context.jobs);
    let outcome = walk(context, job, Timestamp::now()).await;
    if outcome.is_ok() {
        context.memories.of(&uid, |memory| (memory.failures, memory.failure) = (0, None));
    }
    outcome
}

async fn walk(context: &Context, job: &TrainJob, now: Timestamp) -> Result<Action, Error> {
    let uid = job.uid().unwrap_or_default();
    let (status, version) = context.memories.of(&uid, |memory| memory.last(job));
    let job = &TrainJob { status: Some(status.clone()), ..job.clone() };
    let reference = match trainjob::runtime_ref(job) {
        Ok(reference) => reference,
        Err(refusal) => return refuse(context, job, (&status, version), &refusal, now).await,
    };
    let (runtime, snapshot) = match runtime(context, job, reference).await? {
        FoundRuntime::Snapshot(runtime) => (runtime, true),
        FoundRuntime::Current(runtime) => (runtime, false),
        FoundRuntime::Missing(message) => {
            if !has_ended(&status) {
                let report = trainjob::without_runtime(job, message, now);
                publish(context, job, (&status, version), report, now).await?;
            }
            return Ok(Action::requeue(RUNTIME_LOOK));
        }
    };
    let valid = match trainjob::validate(job, &runtime, &context.plan_settings()) {
        Ok(valid) => valid,
        Err(refusal) => return refuse(context, job, (&status, version), &refusal, now).await,
    };
    let seen = observe(context, &valid, snapshot, status.clone(), now).await;
    let plan = trainjob::plan(&valid, &seen, now);
    context.memories.of(&uid, |memory| memory.output.clone_from(&plan.output));
    let owner = Owner { namespace: &valid.namespace, name: &valid.name, uid: &valid.uid };
    let (applied, error) = carry_out(context, owner, plan.last_words.as_ref(), &plan.changes).await;
    let report = trainjob::report(&valid, &seen, &plan, &applied, now);
    publish(context, job, (&status, version), report, now).await?;
    match error {
        Some(error) => Err(error),
        None => Ok(Action::requeue(plan.wake_after.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN))),
    }
}

/// Whether a job succeeded, once it has ended.
pub(super) fn outcome(status: &TrainJobStatus) -> Option<bool> {
    let is_true = |type_: &str| status.conditions.iter().any(|it| it.type_ == type_ && it.status == "True");
    let (is_complete, has_failed) = (is_true("Complete"), is_true("Failed"));
    (is_complete || has_failed).then_some(is_complete)
}

fn has_ended(status: &TrainJobStatus) -> bool {
    outcome(status).is_some()
}

/// The status and the event of a job that cannot be run.
async fn refuse(
    context: &Context,
    job: &TrainJob,
    (status, version): (&TrainJobStatus, Option<String>),
    refusal: &Refusal,
    now: Timestamp,
) -> Result<Action, Error> {
    if !has_ended(status) {
        let report: TrainJobReport = trainjob::reject(job, refusal, now);
        publish(context, job, (status, version), report, now).await?;
    }
    Ok(Action::requeue(LOOK_AGAIN))
}

/// When to try again after a failed pass.
pub(super) fn after_failure(job: Arc<TrainJob>, error: &Error, context: Arc<Context>) -> Action {
    let failures = context.memories.of(&job.uid().unwrap_or_default(), |memory| {
        memory.failures = memory.failures.saturating_add(1);
        memory.failures
    });
    let class = error.class();
    if class == Class::Gone && failures > GONE_FOR_GOOD {
        return Action::await_change();
    }
    Action::requeue(backoff(class, failures))
}
