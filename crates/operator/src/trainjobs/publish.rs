//! Publishes what a pass over a TrainJob reports: the record of a failed attempt, the events, the status, then what
//! happens to the job itself. Of the status only conditions and `jobsStatus` are written, never `trainerStatus`, which
//! has another writer; the write is guarded by the resourceVersion that the status was computed from.

use api::{TrainJob, TrainJobStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use plan::trainjob::TrainJobReport;
use serde_json::{Map, Value, json};

use super::{Context, EVENT_SOURCE};
use crate::apply::{change_job, keep_record};
use crate::error::Error;
use crate::events::{Subject, tell};
use crate::publish::difference;

/// Publishes a report on a job whose status at this resourceVersion was `old`.
///
/// # Errors
/// If the status or the job could not be written.
pub(super) async fn publish(
    context: &Context,
    job: &TrainJob,
    (old, version): (&TrainJobStatus, Option<String>),
    report: TrainJobReport,
    now: Timestamp,
) -> Result<(), Error> {
    let TrainJobReport { record, notices, status, then } = report;
    if let Some(record) = record {
        keep_record(context, &record).await;
    }
    tell(context, &Subject::new(job, EVENT_SOURCE), &notices, None, now).await;
    if let Some(change) = difference(&written(old)?, &written(&status)?) {
        let jobs: Api<TrainJob> =
            Api::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
        let patch = json!({
            "metadata": { "uid": job.uid(), "resourceVersion": version },
            "status": change,
        });
        let _permit = context.writes.acquire().await;
        let answer = jobs
            .patch_status(&job.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::request("write the TrainJob's status"))?;
        context.memories.of(&job.uid().unwrap_or_default(), |memory| memory.wrote(answer));
    }
    match then {
        Some(change) => change_job(context, job, change).await,
        None => Ok(()),
    }
}

/// The part of a status that is written here.
fn written(status: &TrainJobStatus) -> Result<Value, Error> {
    let TrainJobStatus { conditions, jobs_status, trainer_status: _ } = status;
    let mut written = Map::new();
    if !conditions.is_empty() {
        written.insert("conditions".to_owned(), serde_json::to_value(conditions)?);
    }
    if !jobs_status.is_empty() {
        written.insert("jobsStatus".to_owned(), serde_json::to_value(jobs_status)?);
    }
    Ok(Value::Object(written))
}
