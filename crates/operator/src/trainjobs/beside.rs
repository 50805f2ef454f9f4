//! Finds out whether Kubeflow Trainer runs in the cluster: by its Deployment, its webhook, or its lease, whichever an
//! installation still has. What cannot be read counts as a sign of Trainer, because two controllers of one job do harm
//! and none does not.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use plan::Notice;

use super::EVENT_SOURCE;
use crate::context::Shared;
use crate::events::{Subject, tell as tell_events};

/// The labels of Trainer's Deployment.
const DEPLOYMENT: &str = "app.kubernetes.io/name=trainer,app.kubernetes.io/component=manager";
/// The name of its webhook for TrainJobs.
const WEBHOOK: &str = "validator.trainjob.trainer.kubeflow.org";
/// The name of its lease.
const LEASE: &str = "trainer.kubeflow.org";
/// A lease that was not renewed for so many of its durations belongs to no running Trainer.
const STALE_AFTER: u32 = 4;
/// At most so many webhook configurations are looked at.
const MOST_CONFIGURATIONS: u32 = 500;

/// Whether Trainer runs.
pub(super) enum Beside {
    /// It does not.
    Nobody,
    /// It does, or may.
    Trainer(Found),
}

/// What shows that Trainer runs.
pub(super) struct Found {
    /// The object that shows it, if it could be read.
    reference: Option<ObjectReference>,
    /// The same in words.
    words: String,
}

/// Looks for Trainer.
pub(super) async fn look(client: &Client) -> Beside {
    match find(client).await {
        Ok(None) => Beside::Nobody,
        Ok(Some(found)) => Beside::Trainer(found),
        Err(error) => {
            let words = format!("the operator cannot find out whether Kubeflow Trainer runs: {error}");
            Beside::Trainer(Found { reference: None, words })
        }
    }
}

/// Whether Trainer runs, or may.
pub(crate) async fn is_trainer_here(client: &Client) -> bool {
    matches!(look(client).await, Beside::Trainer(_))
}

async fn find(client: &Client) -> Result<Option<Found>, kube::Error> {
    let deployments: Api<Deployment> = Api::all(client.clone());
    let listed = deployments.list(&ListParams::default().labels(DEPLOYMENT)).await?;
    let runs = |it: &&Deployment| it.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1) > 0;
    if let Some(deployment) = listed.items.iter().find(runs) {
        return Ok(Some(found(deployment)));
    }
    let leases: Api<Lease> = Api::all(client.clone());
    let listed = leases.list(&ListParams::default().fields(&format!("metadata.name={LEASE}"))).await?;
    if let Some(lease) = listed.items.iter().find(|lease| is_held(lease, Timestamp::now())) {
        return Ok(Some(found(lease)));
    }
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let listed = configurations.list(&ListParams::default().limit(MOST_CONFIGURATIONS)).await?;
    let is_trainers = |it: &&ValidatingWebhookConfiguration| {
        it.webhooks.iter().flatten().any(|webhook| webhook.name == WEBHOOK)
    };
    Ok(listed.items.iter().find(is_trainers).map(found))
}

fn found<K: Resource<DynamicType = ()>>(object: &K) -> Found {
    let reference = object.object_ref(&());
    let name = reference.name.clone().unwrap_or_default();
    let place = reference.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
    let words = format!("Kubeflow Trainer runs here, as its {} {place}{name} shows", K::kind(&()));
    Found { reference: Some(reference), words }
}

/// Whether somebody has renewed the lease lately.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(15);
    let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let age = Duration::try_from(now.duration_since(renewed)).unwrap_or_default();
    age < Duration::from_secs(seconds).saturating_mul(STALE_AFTER)
}

/// Says in the log, and by an event about what was found, that TrainJobs are left to Trainer.
pub(super) async fn tell(shared: &Shared, found: &Found) {
    let message = format!("{}; TrainJobs are left to it, and only MPIJobs are reconciled", found.words);
    tracing::warn!("{message}");
    if let Some(reference) = &found.reference {
        let subject = Subject { reference: reference.clone(), source: EVENT_SOURCE };
        let notice = Notice { warning: false, reason: "TrainJobsLeftToTrainer".to_owned(), message };
        tell_events(shared, &subject, &[notice], None, Timestamp::now()).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_that_nobody_renews_is_no_sign_of_trainer() {
        let lease = |renewed: &str| -> Lease {
            let spec = json!({ "leaseDurationSeconds": 15, "renewTime": renewed });
            serde_json::from_value(json!({ "metadata": { "name": LEASE }, "spec": spec })).unwrap()
        };
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        assert!(is_held(&lease("2026-01-01T00:09:50.000000Z"), now));
        assert!(!is_held(&lease("2026-01-01T00:08:00.000000Z"), now));
        assert!(!is_held(&Lease::default(), now));
    }
}
