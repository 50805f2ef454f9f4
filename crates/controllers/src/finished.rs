//! Deletes finished Jobs `ttlSecondsAfterFinished` after their end.
//!
//! Rule: `pkg/controller/ttlafterfinished` of Kubernetes 1.36: the Job is read live, then deleted by its uid in the
//! foreground.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Client, ResourceExt};

use super::cache::{Cache, Key};
use super::job::finished_condition;
use super::queue::{Queue, work};
use super::{Error, refusal};
use controller_runtime::packed::Packed;
use controller_runtime::supervision::Scope;

/// Jobs processed concurrently.
const CONCURRENCY: usize = 4;

/// Runs until the scope ends.
pub async fn run(client: Client, jobs: Cache<Packed<Job>>, scope: Scope) {
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    jobs.on_change(&scope.stop, move |change| {
        // One that cannot be decoded is for the step to report.
        let ends =
            |job: &Packed<Job>| job.whole().map_or(true, |job| remaining(&job, Timestamp::now()).is_some());
        if let Some(job) = change.new.as_ref().filter(|job| ends(job)) {
            to.add(Key::of(job.as_ref()));
        }
    });
    work(queue, CONCURRENCY, scope, |key| step(&client, &jobs, key)).await;
}

/// Returns how much longer to keep the Job; `None` if forever, or if it is being deleted.
fn remaining(job: &Job, now: Timestamp) -> Option<Duration> {
    let ttl = u64::try_from(job.spec.as_ref()?.ttl_seconds_after_finished?).ok()?;
    let ended = finished_condition(job)?.last_transition_time.as_ref()?.0;
    let passed = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
    job.metadata.deletion_timestamp.is_none().then(|| Duration::from_secs(ttl).saturating_sub(passed))
}

async fn step(client: &Client, jobs: &Cache<Packed<Job>>, key: Key) -> Result<Option<Duration>, Error> {
    let Some(seen) = jobs.get(&key) else { return Ok(None) };
    match remaining(&seen.whole()?, Timestamp::now()) {
        None => return Ok(None),
        Some(left) if !left.is_zero() => return Ok(Some(left)),
        Some(_) => {}
    }
    let api: Api<Job> = Api::namespaced(client.clone(), &key.namespace);
    let Some(live) = api.get_opt(&key.name).await? else { return Ok(None) };
    match remaining(&live, Timestamp::now()) {
        None => return Ok(None),
        // The TTL was raised meanwhile.
        Some(left) if !left.is_zero() => return Ok(Some(left)),
        Some(_) => {}
    }
    let precondition = Preconditions { uid: live.uid(), resource_version: None };
    match api.delete(&key.name, &DeleteParams::foreground().preconditions(precondition)).await {
        Ok(_) => Ok(None),
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_finished_job_is_kept_for_its_ttl() {
        let job = |ttl: serde_json::Value, condition: &str| -> Job {
            serde_json::from_value(
                json!({"metadata": {}, "spec": {"template": {}, "ttlSecondsAfterFinished": ttl},
                "status": {"conditions": [{"type": condition, "status": "True",
                    "lastTransitionTime": "1970-01-01T00:01:40Z"}]}}),
            )
            .unwrap()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let seconds = |job: &Job, now| remaining(job, at(now)).map(|left| left.as_secs());
        assert_eq!(seconds(&job(json!(30), "Complete"), 110), Some(20));
        assert_eq!(seconds(&job(json!(30), "Failed"), 500), Some(0));
        assert_eq!(seconds(&job(json!(0), "Complete"), 100), Some(0));
        assert_eq!(seconds(&job(json!(30), "Suspended"), 500), None);
        assert_eq!(seconds(&job(json!(null), "Complete"), 500), None);
    }
}
