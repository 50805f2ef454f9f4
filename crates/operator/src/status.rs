//! Writes a job's status: only what changed, as a merge patch of the subresource, so that no other writer's change
//! can make it fail.

use api::{MPIJob, MPIJobStatus};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::owned::version;

/// Writes `new` over `old`, the status that the server is known to have; nothing if they are equal.
///
/// # Errors
/// If the server refuses it or cannot be reached.
pub(crate) async fn write_status(
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
    let jobs: Api<MPIJob> = Api::namespaced(context.client.clone(), namespace);
    // With the UID, so that the status of a job that was deleted never lands on a new one of its name.
    let patch = json!({ "metadata": { "uid": job.metadata.uid }, "status": change });
    let _permit = context.writes.acquire().await;
    let written = jobs
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::request("write the status"))?;
    context.vitals.metrics.status_written(job, old, new);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    context.memory.of(uid, |memory| {
        memory.written = Some((version(&written), written.status.clone().unwrap_or_default()));
        memory.written_at = Some(std::time::Instant::now());
        memory.counts_differ_since = None;
    });
    Ok(())
}

/// The merge patch (RFC 7396) from one object to another; lists are replaced as a whole.
fn difference(old: &Value, new: &Value) -> Option<Value> {
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
