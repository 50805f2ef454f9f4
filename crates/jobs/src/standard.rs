//! The Pod Security Standard that a namespace enforces, so that a job that is built there meets it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::{Client, ResourceExt};

/// The label with the standard (<https://kubernetes.io/docs/concepts/security/pod-security-admission/>).
const LABEL_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The time limit of the request.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Whether the namespace is known to enforce `restricted`; `false` also if the caller may not read it. The
/// server decides in any case.
pub async fn is_restricted(client: &Client, namespace: &str) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let read = tokio::time::timeout(PATIENCE, namespaces.get_opt(namespace)).await;
    let found = read.ok().and_then(Result::ok).flatten();
    found.is_some_and(|found| {
        found.labels().get(LABEL_ENFORCE).is_some_and(|enforced| enforced == "restricted")
    })
}
