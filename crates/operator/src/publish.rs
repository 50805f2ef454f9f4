//! Publishes what a pass reports, in the report's order. Of a status only what changed is written, as a merge patch of the
//! subresource, so that no other writer's change can make it fail.

use std::time::Duration;

use api::{MPIJob, MPIJobStatus};
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use plan::Report;
use serde_json::{Map, Value, json};

use crate::apply::{change_job, keep_record};
use crate::context::Context;
use crate::error::Error;
use crate::events::{Subject, tell};
use crate::slim::Slim;
use crate::status::Write;

/// Publishes a report: the record of a failed attempt, the events, the status, then what happens to the job itself. A
/// pass that is cut off between the events and the status records the same events again, which only counts them, where
/// the other order would lose them. Returns when to come back for a status that may wait.
///
/// # Errors
/// If the status or the job could not be written.
pub(crate) async fn publish(
    context: &Context,
    job: &MPIJob,
    report: Report,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let Report { record, notices, status, then } = report;
    if let Some(record) = record {
        keep_record(context, &record).await;
    }
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let first_wait = &context.first_wait;
    let due = context.memory.of(uid, |memory| memory.status.due(job, &status, notices, first_wait));
    tell(context, &Subject::of(job), &due.notices, due.known.start_time.as_ref(), now).await;
    let wait = match due.write {
        Write::Now => {
            write_status(context, job, &due.known, &status).await?;
            None
        }
        Write::After(wait) => Some(wait),
        Write::Never => None,
    };
    if let Some(change) = then {
        change_job(context, job, change).await?;
    }
    Ok(wait)
}

/// Writes `new` over `old`, the status that the server is known to have; nothing if they are equal.
///
/// # Errors
/// If the server refuses it or cannot be reached.
async fn write_status(
    context: &Context,
    job: &MPIJob,
    old: &MPIJobStatus,
    new: &MPIJobStatus,
) -> Result<(), Error> {
    let Some(change) = difference(&serde_json::to_value(old)?, &serde_json::to_value(new)?) else {
        return Ok(());
    };
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let jobs: Api<Slim<MPIJob>> = Api::namespaced(context.client.clone(), namespace);
    // With the UID, so that the status of a job that was deleted never lands on a new one of its name.
    let patch = json!({ "metadata": { "uid": job.metadata.uid }, "status": change });
    let _permit = context.writes.acquire().await;
    let Slim(written) = jobs
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::request("write the status"))?;
    context.vitals.metrics.status_written(job, old, new);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    context.memory.of(uid, |memory| memory.status.wrote(written));
    Ok(())
}

/// The merge patch (RFC 7396) from one object to another; lists are replaced as a whole.
pub(crate) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut change = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) => change.extend(difference(before, value).map(|value| (key.clone(), value))),
            None => change.extend([(key.clone(), value.clone())]),
        }
    }
    change.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    (!change.is_empty()).then_some(Value::Object(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_holds_what_changed_and_nulls_what_went() {
        let old = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1], "f": true });
        let new = json!({ "a": 1, "b": { "c": 3 }, "e": [1, 2], "g": {} });
        let change = difference(&old, &new).unwrap();
        assert_eq!(change, json!({ "b": { "c": 3, "d": null }, "e": [1, 2], "f": null, "g": {} }));
        assert_eq!(difference(&new, &new), None);
    }
}
