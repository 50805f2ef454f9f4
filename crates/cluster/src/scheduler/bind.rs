//! The scheduler's writes: a pod's binding, the condition that says why it has none, and the going of one that makes room.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::act::Nomination;
use super::place::nominated_node;
use super::preempt::BY_SCHEDULER;
use crate::controllers::Error;
use crate::controllers::volumes::decide::SELECTED_NODE;

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

/// Sets `PodScheduled=False` and the node that is cleared for the pod; None if the pod says so already or is gone.
pub async fn write_condition(
    client: &Client,
    pod: &Pod,
    reason: &str,
    why: &str,
    nomination: &Nomination,
) -> Result<Option<Pod>, Error> {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let known = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    let nominated = nominated_node(pod);
    let same_node = match nomination {
        Nomination::Keep => true,
        Nomination::None => nominated.is_none(),
        Nomination::Node(node) => nominated == Some(node),
    };
    let same = |c: &PodCondition| c.reason.as_deref() == Some(reason) && c.message.as_deref() == Some(why);
    if known.is_some_and(same) && same_node {
        return Ok(None);
    }
    // The time is that of the transition to False, not of a new message.
    let since =
        known.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| Time(jiff::Timestamp::now()));
    let mut patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": reason, "message": why,
        "lastProbeTime": null, "lastTransitionTime": since,
    }]}});
    if !same_node {
        patch["status"]["nominatedNodeName"] = match nomination {
            Nomination::Node(node) => json!(node),
            Nomination::Keep | Nomination::None => Value::Null,
        };
    }
    patched(client, pod, patch).await
}

/// Has a pod leave its node for a more important one: the condition `DisruptionTarget`, then a graceful deletion.
/// Returns its states; none if it is gone already.
pub async fn push_aside(client: &Client, victim: &Pod) -> Result<Vec<Pod>, Error> {
    let patch = json!({"metadata": {"uid": victim.uid()}, "status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER,
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastProbeTime": null, "lastTransitionTime": Time(jiff::Timestamp::now()),
    }]}});
    let mut states: Vec<Pod> = patched(client, victim, patch).await?.into_iter().collect();
    let api: Api<Pod> = Api::namespaced(client.clone(), &victim.namespace().unwrap_or_default());
    let only = Preconditions { uid: victim.uid(), resource_version: None };
    match api.delete(&victim.name_any(), &DeleteParams::default().preconditions(only)).await {
        Ok(answer) => states.extend(answer.left()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(states)
}

/// Tells a claim which node the first pod that uses it will run on.
pub async fn select_node(
    client: &Client,
    claim: &PersistentVolumeClaim,
    node: &str,
) -> Result<PersistentVolumeClaim, Error> {
    let api: Api<PersistentVolumeClaim> =
        Api::namespaced(client.clone(), &claim.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({"metadata": {"uid": claim.uid(), "annotations": {SELECTED_NODE: node}}}));
    Ok(api.patch(&claim.name_any(), &PatchParams::default(), &patch).await?)
}

/// None: the pod is gone.
async fn patched(client: &Client, pod: &Pod, patch: Value) -> Result<Option<Pod>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(pod) => Ok(Some(pod)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
