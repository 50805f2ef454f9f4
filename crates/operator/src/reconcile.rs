//! One pass over a job: the walk. It reads as the steps are; each is a file or a function of `plan`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::MPIJob;
use jiff::Timestamp;
use kube::runtime::controller::Action;
use plan::{Outlook, Report, Urgency, ValidJob};

use crate::apply::{Applied, apply, begin_next_attempt, keep_record, remove};
use crate::context::Context;
use crate::error::{Class, Error, backoff};
use crate::events::tell;
use crate::launcher_log::add_last_words;
use crate::memory::{Held, WATCH_LAG};
use crate::observe::{newest_status, observe};
use crate::status::write_status;

/// Pod counts alone are written this long after the last write, and ride on whatever is written sooner.
const COUNTS_WAIT: Duration = Duration::from_secs(5);
/// ... and not before they have differed this long: a Launcher's pod that ends is followed by its Job's end, and by the
/// write that says so.
const COUNTS_SETTLE: Duration = Duration::from_secs(2);
/// A job whose log has to wait its turn comes back after this.
const COME_BACK: Duration = Duration::from_secs(1);
/// A job is looked at this often though nothing was seen to change.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Brings a job closer to what it should be.
///
/// # Errors
/// If anything could not be read or written; what could be was, and the status says what is known.
pub(crate) async fn reconcile(job: Arc<MPIJob>, context: Arc<Context>) -> Result<Action, Error> {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        // What the job owns goes with it, by its owner references.
        context.memory.forget(&uid);
        return Ok(Action::await_change());
    }
    if !plan::is_ours(&job) {
        return Ok(Action::await_change());
    }
    // Before every watch has listed, a child that is there looks missing.
    if context.listed.clone().wait_for(|listed| *listed).await.is_err() {
        return Ok(Action::await_change());
    }
    context.memory.sweep(&context.jobs);
    let now = Timestamp::now();
    let last = context.memory.of(&uid, |memory| memory.annotations.clone());
    let read = plan::tolerate(&job, &last);
    context.memory.of(&uid, |memory| memory.annotations = read.annotations());
    let outcome = walk(&context, &job, read, now).await;
    if outcome.is_ok() {
        context.memory.passed(&uid);
    }
    outcome
}

async fn walk(context: &Context, job: &MPIJob, read: ValidJob, now: Timestamp) -> Result<Action, Error> {
    let Some(mut seen) = observe(context, job, &read).await? else {
        return Ok(Action::requeue(COME_BACK));
    };
    if !read.faults.is_empty() && !plan::has_begun(&seen) {
        return refuse(context, job, plan::reject(job, &read.faults, now), now).await;
    }
    let valid = &plan::recall(read, &seen);
    let plan = plan::plan(valid, &seen, &context.settings.plan, now);
    add_last_words(context, &mut seen, &plan.outlook).await;
    let applied = apply(context, valid, &plan.changes).await;
    if plan.remove_job && applied.failures.is_empty() {
        remove(context, valid).await?;
        return Ok(Action::await_change());
    }
    let told = applied.told();
    let outlook = plan::after_failures(valid, &seen, plan.outlook, &told);
    let report = plan::report(valid, &seen, &outlook, &told, now);
    if seen.status.completion_time.is_none()
        && let Some(record) = plan::record(valid, &seen, &outlook, &report.status)
    {
        keep_record(context, valid, &record).await;
    }
    let later = publish(context, job, report, now).await?;
    if matches!(outlook, Outlook::Restarting(_)) {
        begin_next_attempt(context, valid).await?;
    }
    let has_ended = seen.status.completion_time.is_some();
    let action = finish(context, valid, &applied, [plan.wake_after, later])?;
    if has_ended && later.is_none() {
        context.memory.settle(&valid.uid);
    }
    Ok(action)
}

/// The status and the event of a job that cannot be run.
async fn refuse(context: &Context, job: &MPIJob, report: Report, now: Timestamp) -> Result<Action, Error> {
    publish(context, job, report, now).await?;
    Ok(Action::requeue(LOOK_AGAIN))
}

/// Records the events, then writes the status: in this order, as a pass cut off between the two tells again, which
/// changes nothing, where the other would leave something untold. Returns when to write what may wait.
async fn publish(
    context: &Context,
    job: &MPIJob,
    mut report: Report,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let (known, held) = context.memory.of(uid, |memory| (newest_status(memory, job), memory.held.take()));
    let since = held.as_ref().map_or_else(Instant::now, |held| held.since);
    report.notices.splice(0..0, held.into_iter().flat_map(|held| held.notices));
    let urgency = plan::urgency(&known, &report.status);
    let wait = context.settings.first_wait.saturating_sub(since.elapsed());
    if urgency == Urgency::Soon && !wait.is_zero() {
        let Report { status, notices } = report;
        context.memory.of(uid, |memory| memory.held = Some(Held { since, status, notices }));
        return Ok(Some(wait));
    }
    tell(context, job, &report.notices, known.start_time.as_ref(), now).await;
    let wait = match urgency {
        Urgency::Never => {
            context.memory.of(uid, |memory| memory.counts_differ_since = None);
            return Ok(None);
        }
        Urgency::Later => counts_wait(context, job),
        Urgency::Soon | Urgency::Now => Duration::ZERO,
    };
    if !wait.is_zero() {
        return Ok(Some(wait));
    }
    write_status(context, job, &known, &report.status).await.map(|()| None)
}

/// How long counts still have to wait.
fn counts_wait(context: &Context, job: &MPIJob) -> Duration {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let (written, differ) = context
        .memory
        .of(uid, |memory| (memory.written_at, *memory.counts_differ_since.get_or_insert_with(Instant::now)));
    let after_write = written.map_or(Duration::ZERO, |at| COUNTS_WAIT.saturating_sub(at.elapsed()));
    after_write.max(COUNTS_SETTLE.saturating_sub(differ.elapsed()))
}

fn finish(
    context: &Context,
    job: &ValidJob,
    applied: &Applied,
    waits: [Option<Duration>; 2],
) -> Result<Action, Error> {
    if let Some(error) = applied.error() {
        return Err(error);
    }
    // A child that no watch shows in time was lost: then it is made again.
    let unseen = context.memory.of(&job.uid, |memory| (!memory.created.is_empty()).then_some(WATCH_LAG));
    let wait = waits.into_iter().chain([unseen]).flatten().min();
    Ok(Action::requeue(wait.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)))
}

/// When to try again after a failed pass.
pub(crate) fn after_failure(job: Arc<MPIJob>, error: &Error, context: Arc<Context>) -> Action {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
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
