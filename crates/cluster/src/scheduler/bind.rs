//! The scheduler's writes: a pod's binding, and the condition that says why it has none.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::controllers::Error;

/// Gives `pod` to `node` (`POST …/pods/<name>/binding`); the uid keeps a namesake from getting it.
pub async fn bind(client: &Client, pod: &Pod, node: &str) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: pod.namespace(),
            uid: pod.uid(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let _: Value = api.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
    Ok(())
}

/// Sets `PodScheduled=False`; None if the pod says so already or is gone.
pub async fn write_condition(
    client: &Client,
    pod: &Pod,
    reason: &str,
    why: &str,
) -> Result<Option<Pod>, Error> {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let known = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    if known.is_some_and(|c| c.reason.as_deref() == Some(reason) && c.message.as_deref() == Some(why)) {
        return Ok(None);
    }
    // The time is that of the transition to False, not of a new message.
    let since =
        known.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| Time(jiff::Timestamp::now()));
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": reason, "message": why,
        "lastProbeTime": null, "lastTransitionTime": since,
    }]}});
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(pod) => Ok(Some(pod)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
