//! The scheduler's writes: bindings, the condition `PodScheduled`, and the deletion of preempted pods.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::place::nominated_node;
use super::preempt::BY_SCHEDULER;
use crate::volumes::decide::SELECTED_NODE;
use controller_runtime::Error;

/// What to write to a pod's `nominatedNodeName`.
#[derive(Clone, Debug, PartialEq)]
pub enum Nomination {
    /// Leave it as it is.
    Keep,
    /// Clear it: no node is being cleared for the pod.
    None,
    /// Set it: this node is being cleared for the pod.
    Node(String),
}

/// Binds `pod` to `node` (`POST …/pods/<name>/binding`). The uid prevents binding another pod of this name.
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

/// Writes `PodScheduled=False` and the nominated node. Returns `None` if nothing changes or the pod is gone.
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
    // The transition time changes with the status, not with the message.
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

/// Preempts a pod: sets the condition `DisruptionTarget`, then deletes the pod gracefully. Returns the pod's new
/// states; empty if it is already gone.
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

/// Annotates a claim with the node on which the first pod that uses it will run.
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

/// Patches a pod's status. Returns `None` if the pod is gone.
async fn patched(client: &Client, pod: &Pod, patch: Value) -> Result<Option<Pod>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(pod) => Ok(Some(pod)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
