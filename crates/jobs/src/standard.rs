//! The Pod Security Standard that a namespace enforces: a job that is built there meets it, and one that would not is found
//! before it waits for pods that are refused.

use std::time::Duration;

use diagnosis::Cause;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::{Client, ResourceExt};
use objects::pod_security::{self, Policy};
use plan::{Asked, Finding, Weight};
use serde_json::json;

/// The label with the standard (<https://kubernetes.io/docs/concepts/security/pod-security-admission/>).
const LABEL_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The time limit of the request.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The annotation of namespaces in which OpenShift's SecurityContextConstraints complete the pods before they are judged.
const ANNOTATION_SCC: &str = "openshift.io/sa.scc.uid-range";

/// Whether the namespace is known to enforce `restricted`; `false` also if the caller may not read it. The
/// server decides in any case.
pub async fn is_restricted(client: &Client, namespace: &str) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let read = tokio::time::timeout(PATIENCE, namespaces.get_opt(namespace)).await;
    read.ok().and_then(Result::ok).flatten().is_some_and(|found| enforces_restricted(&found))
}

/// Whether a namespace enforces `restricted`.
#[must_use]
pub fn enforces_restricted(namespace: &Namespace) -> bool {
    namespace.labels().get(LABEL_ENFORCE).is_some_and(|enforced| enforced == "restricted")
}

/// Returns what a namespace's Pod Security Standard would forbid in a job's pods, as the operator creates them from their
/// templates. Not judged on OpenShift, which completes pods before.
#[must_use]
pub fn forbids(namespace: &Namespace, asked: &Asked<'_>) -> Option<Finding> {
    if namespace.annotations().contains_key(ANNOTATION_SCC) {
        return None;
    }
    let enforced = Policy::of(&json!(namespace.labels())).0.enforce;
    asked.groups.iter().find_map(|group| {
        let pod = json!({ "metadata": {}, "spec": group.pod.as_deref()? });
        let details = pod_security::details(&pod_security::violations(enforced, &pod));
        (!details.is_empty()).then(|| Finding {
            weight: Weight::Waits,
            reason: Cause::AdmissionRefused,
            wait: None,
            message: format!(
                "namespace \"{}\" enforces the Pod Security Standard \"{enforced}\", which refuses pods like the job's {}: \
                 {details}",
                namespace.name_any(),
                group.name
            ),
            advice: "set the security contexts that the standard requires".into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use serde_json::Value;

    use super::*;
    use crate::build::{Request, build};

    fn namespace(metadata: Value) -> Namespace {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn job(restricted: bool) -> MPIJob {
        let command = vec!["train".to_owned()];
        let request =
            Request { name: "a".into(), image: "x:1".into(), workers: 2, command, ..Request::default() };
        build(&Request { restricted, ..request }).unwrap()
    }

    #[test]
    fn pods_that_the_namespace_would_refuse_are_found_with_what_is_missing() {
        let labels = json!({ LABEL_ENFORCE: "restricted" });
        let strict = namespace(json!({ "name": "strict", "labels": labels }));
        let found = forbids(&strict, &Asked::of(&job(false))).unwrap();
        assert_eq!((found.weight, found.reason), (Weight::Waits, Cause::AdmissionRefused));
        assert!(found.message.contains("runAsNonRoot"), "{}", found.message);
        assert_eq!(forbids(&strict, &Asked::of(&job(true))), None);
        assert_eq!(forbids(&namespace(json!({ "name": "open" })), &Asked::of(&job(false))), None);
        let completed =
            json!({ "name": "openshift", "labels": labels, "annotations": { ANNOTATION_SCC: "1/2" } });
        assert_eq!(forbids(&namespace(completed), &Asked::of(&job(false))), None);
    }
}
