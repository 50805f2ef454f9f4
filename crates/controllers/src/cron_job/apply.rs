//! Carries out a CronJob's plan: deletes Jobs, creates the next one, writes the status. Decides nothing.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};

use super::decide::Plan;
use super::template;
use crate::{Error, in_words, refusal};
use controller_runtime::cache::Cache;
use controller_runtime::packed::Packed;
use controller_runtime::record::{Note, Recorder};

/// The dependencies for carrying out a plan.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Stores the replies to writes.
    pub cron_jobs: Cache<CronJob>,
    /// Stores the replies to writes.
    pub jobs: Cache<Packed<Job>>,
    /// Records Events.
    pub recorder: Recorder,
}

/// Carries out `plan` for `cron_job`.
pub async fn apply(context: &Context, cron_job: &CronJob, plan: Plan) -> Result<(), Error> {
    let Plan { prune, replace, start, mut status, notes, again: _, memory: _ } = plan;
    let mut pruned = Ok(());
    for job in prune {
        pruned = pruned.and(delete(context, cron_job, &job.object_ref(&())).await);
    }
    let started = match start {
        Some(time) => self::start(context, cron_job, &replace, time, &mut status).await,
        None => Ok(()),
    };
    for note in notes {
        context.recorder.note(cron_job, note);
    }
    // The API has no empty list.
    status.active.take_if(|active| active.is_empty());
    write_status(context, cron_job, status).await?;
    started.and(pruned)
}

/// Creates the Job of a scheduled time, in place of those in `replace`, and adds it to the status.
async fn start(
    context: &Context,
    cron_job: &CronJob,
    replace: &[ObjectReference],
    time: Timestamp,
    status: &mut CronJobStatus,
) -> Result<(), Error> {
    for reference in replace {
        delete(context, cron_job, reference).await?;
        status.active.iter_mut().for_each(|active| active.retain(|known| known.uid != reference.uid));
    }
    if let Some(job) = create(context, cron_job, time).await? {
        let resource_version = job.resource_version();
        let reference = ObjectReference { resource_version, ..job.object_ref(&()) };
        status.active.get_or_insert_default().push(reference);
        status.last_schedule_time = Some(Time(time));
    }
    Ok(())
}

/// Returns the new Job, or the one that an earlier step created before its status could be written. `None` if the Job
/// of that name belongs to somebody else.
async fn create(context: &Context, cron_job: &CronJob, time: Timestamp) -> Result<Option<Job>, Error> {
    let api = jobs(context, cron_job);
    let wanted = template::job(cron_job, time);
    match api.create(&PostParams::default(), &wanted).await {
        Ok(job) => {
            let message = format!("Created job {}", job.name_any());
            context.recorder.note(cron_job, Note::normal("SuccessfulCreate", message));
            context.jobs.learn(Packed::of(job.clone())?);
            Ok(Some(job))
        }
        Err(error) if refusal(&error) == Some(409) => {
            let found = api.get_opt(&wanted.name_any()).await?;
            Ok(found.filter(|job| {
                template::owner(&job.metadata).is_some_and(|(_, uid)| Some(uid) == cron_job.uid())
            }))
        }
        Err(error) => {
            let message = format!("Error creating job: {}", in_words(&error));
            context.recorder.note(cron_job, Note::warning("FailedCreate", message));
            Err(error.into())
        }
    }
}

async fn delete(context: &Context, cron_job: &CronJob, job: &ObjectReference) -> Result<(), Error> {
    let name = job.name.as_deref().unwrap_or_default();
    let precondition = Preconditions { uid: job.uid.clone(), resource_version: None };
    let parameters = DeleteParams::background().preconditions(precondition);
    match jobs(context, cron_job).delete(name, &parameters).await {
        Ok(reply) => {
            context.recorder.note(cron_job, Note::normal("SuccessfulDelete", format!("Deleted job {name}")));
            if let Some(job) = reply.left() {
                context.jobs.learn(Packed::of(job)?);
            }
            Ok(())
        }
        // Gone already, or another Job has its name.
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => Ok(()),
        Err(error) => {
            let message = format!("Deleted job: {}", in_words(&error));
            context.recorder.note(cron_job, Note::warning("FailedDelete", message));
            Err(error.into())
        }
    }
}

/// Writes the status if it differs, with the version that it was computed from.
async fn write_status(context: &Context, cron_job: &CronJob, status: CronJobStatus) -> Result<(), Error> {
    if cron_job.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let api: Api<CronJob> =
        Api::namespaced(context.client.clone(), &cron_job.namespace().unwrap_or_default());
    let wanted = CronJob { status: Some(status), ..cron_job.clone() };
    match api.replace_status(&cron_job.name_any(), &PostParams::default(), &wanted).await {
        Ok(written) => {
            context.cron_jobs.learn(written);
            Ok(())
        }
        // Deleted meanwhile; the watch will deliver that.
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn jobs(context: &Context, cron_job: &CronJob) -> Api<Job> {
    Api::namespaced(context.client.clone(), &cron_job.namespace().unwrap_or_default())
}
