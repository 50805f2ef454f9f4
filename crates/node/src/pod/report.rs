//! Writes a pod's status, and removes a pod that has ended from the API.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use semantics::local_nodes::ANNOTATION_NODE_MODE;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{FIRST_RETRY, LAST_RETRY, PodRun};
use crate::status;

/// Attempts to write a status before it is left to the next change.
const MAX_STATUS_TRIES: u32 = 8;

impl PodRun {
    /// Sends a merge patch of the status. The answer is the whole pod, which the watch brings anyway: it is not read.
    async fn patch_status(&self, name: &str, patch: &Value) -> kube::Result<()> {
        let namespace = self.pod().metadata.namespace.clone().unwrap_or_default();
        let request = kube::core::Request::new(Pod::url_path(&(), Some(&namespace)))
            .patch_subresource("status", name, &PatchParams::default(), &Patch::Merge(patch))
            .map_err(kube::Error::BuildRequest)?;
        self.node.client.request(request).await.map(|IgnoredAny| ())
    }

    pub(super) async fn write_statuses(&self) {
        loop {
            self.dirty.notified().await;
            self.flush().await;
        }
    }

    /// Writes the status if it differs from the last one. Changes made meanwhile are part of the next write.
    pub(super) async fn flush(&self) {
        let mut written = self.written.lock().await;
        let mut pause = FIRST_RETRY;
        for _ in 0..MAX_STATUS_TRIES {
            let pod = self.pod();
            let status = {
                let mut record = self.record();
                let status = status::compute(&pod, &record, Timestamp::now());
                record.conditions = status.conditions.clone().unwrap_or_default();
                status
            };
            if written.as_ref() == Some(&status) || self.wish.borrow().gone {
                return;
            }
            // The annotation goes with the status: of its pods, a node may write nothing but the status
            // (NodeRestriction).
            let mode = json!({ANNOTATION_NODE_MODE: self.node.mode.kind.as_str()});
            let patch = json!({"metadata": {"uid": self.uid, "annotations": mode}, "status": status});
            let name = pod.metadata.name.clone().unwrap_or_default();
            match self.patch_status(&name, &patch).await {
                Ok(()) => {
                    *written = Some(status);
                    return;
                }
                // The pod is gone, or another pod has its name: there is no status to write.
                Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => return,
                Err(error) => tracing::warn!(%error, pod = name, "cannot write a pod's status"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_RETRY);
        }
    }
}

/// Removes a pod that has ended from the API, with grace period 0 and its UID as a precondition.
pub async fn delete(client: &kube::Client, pod: &Pod) {
    let (Some(name), Some(namespace)) = (&pod.metadata.name, &pod.metadata.namespace) else { return };
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut parameters = DeleteParams::default().grace_period(0);
    parameters.preconditions = Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None });
    let mut pause = FIRST_RETRY;
    for _ in 0..MAX_STATUS_TRIES {
        match api.delete(name, &parameters).await {
            Ok(_) => return,
            Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => return,
            Err(error) => tracing::warn!(%error, pod = name, "cannot delete a terminated pod"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_RETRY);
    }
}
