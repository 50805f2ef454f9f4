//! Pod Security: with the launch agent, the additions to a job's pods are admitted in a namespace that enforces
//! *restricted*. A job that is not admitted reports why.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::{Stage, job};

/// A stage whose namespace enforces Pod Security *restricted*.
async fn restricted() -> Stage {
    let stage = Stage::new().await;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let level = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    namespaces.patch(&stage.namespace, &PatchParams::default(), &Patch::Merge(level)).await.unwrap();
    stage
}

/// A job with the agent whose own containers are each admitted.
fn holding() -> Value {
    let mut holding = job("pi", 1, json!({}));
    holding["metadata"]["annotations"] = json!({ "training.opendatahub.io/launch": "agent" });
    for role in ["Launcher", "Worker"] {
        let container = &mut holding["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0];
        container["command"] = Value::Null;
        container["securityContext"] = json!({ "runAsNonRoot": true, "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" } });
    }
    holding
}

#[tokio::test]
async fn pods_of_the_agent_hold_under_pod_security_restricted_with_any_user() {
    let stage = restricted().await;
    let _operator = stage.operate();
    stage.submit(&holding()).await;
    let worker: Pod = stage.until("pi-worker-0", "was admitted", |_| true).await;
    let spec = worker.spec.unwrap();
    let install = &spec.init_containers.unwrap()[0];
    let context = install.security_context.as_ref().unwrap();
    assert_eq!(
        (context.run_as_non_root, context.run_as_user),
        (Some(true), None),
        "the image's user, or the cluster's"
    );
    // The Launcher's template is checked as its pod would be, because no controller creates one here.
    let launcher: Job = stage.until("pi-launcher", "came", |_| true).await;
    let template = launcher.spec.unwrap().template;
    let mut metadata = template.metadata.unwrap();
    metadata.name = Some("pi-launcher-pod".to_owned());
    metadata.owner_references = None;
    let pod = Pod { metadata, spec: template.spec, status: None };
    stage.api::<Pod>().create(&kube::api::PostParams::default(), &pod).await.unwrap();
}

#[tokio::test]
async fn a_job_refused_by_pod_security_reports_why() {
    let stage = restricted().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.until_event("pi", "MPIJobFailed").await;
    assert_eq!(stage.names::<Pod>().await, Vec::<String>::new());
}
