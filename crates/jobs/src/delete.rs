//! Deletes a job and waits, for a limited time, until nothing of it is left.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PropagationPolicy};
use kube::{Client, ResourceExt};
use tokio::time::Instant;

use crate::{Attempt, Error, Kind, describe, list};

/// Pauses between two checks of what is left: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of remaining objects named.
const MAX_NAMED: usize = 8;

/// How to delete.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Delete the pods without a grace period.
    pub force: bool,
    /// How long to wait until everything is gone; `None` does not wait.
    pub wait: Option<Duration>,
}

/// Deletes the job.
///
/// # Errors
/// [`Error::NotFound`], the server's refusal, or [`Error::NotCleanedUp`] with what is left after the timeout.
pub async fn delete(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    manner: Manner,
) -> Result<(), Error> {
    let attempt = Attempt { verb: "delete", what: kind.names(), name, namespace };
    let mut parameters =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    if manner.force {
        parameters.grace_period_seconds = Some(0);
    }
    match kind.api(client, namespace).delete(name, &parameters).await {
        Ok(_) => {}
        Err(error) => match Error::from_kube(error, attempt) {
            Error::NotFound { .. } => return Err(list::not_found(client, Some(kind), namespace, name).await),
            other => return Err(other),
        },
    }
    if manner.force {
        force_pods(client, kind, namespace, name).await?;
    }
    match manner.wait {
        Some(wait) => until_gone(client, kind, namespace, name, wait).await,
        None => Ok(()),
    }
}

/// Deletes the pods one by one without a grace period, because a job's grace period does not apply to its pods.
async fn force_pods(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let attempt = Attempt { verb: "delete", what: "pods", name, namespace };
    for pod in describe::pods(client, kind, namespace, name).await? {
        match api.delete(&pod.name_any(), &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(Error::from_kube(error, attempt)),
        }
    }
    Ok(())
}

async fn until_gone(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    wait: Duration,
) -> Result<(), Error> {
    let ends = Instant::now() + wait;
    let mut pause = FIRST_PAUSE;
    loop {
        let left = what_is_left(client, kind, namespace, name).await?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() + pause > ends {
            return Err(Error::NotCleanedUp {
                kind,
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                left,
                after: wait,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn what_is_left(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Vec<String>, Error> {
    let attempt = Attempt { verb: "get", what: kind.names(), name, namespace };
    let job = kind
        .api(client, namespace)
        .get_metadata_opt(name)
        .await
        .map_err(|error| Error::from_kube(error, attempt))?;
    let mut left: Vec<String> = job.iter().map(|_| format!("{}/{name}", kind.word())).collect();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selected = ListParams::default().labels(&kind.pod_selector(name));
    // A user who may delete jobs but not list pods cannot wait for them; this is not a failure of the deletion.
    if let Ok(found) = pods.list_metadata(&selected).await {
        left.extend(found.items.iter().map(|pod| format!("pod/{}", pod.name_any())));
    }
    if left.len() > MAX_NAMED {
        let more = left.len() - MAX_NAMED;
        left.truncate(MAX_NAMED);
        left.push(format!("{more} more"));
    }
    Ok(left)
}
