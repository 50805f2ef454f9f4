//! Taking over from MPI Operator v2: a job that upstream's own program began (`testdata/upstream`, its recorded
//! objects) continues under this operator with the very same objects.

use std::path::Path;

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::stage::{Stage, job};

/// Creates upstream's objects of a job, with the UID of their owner here.
async fn begun_by_upstream(stage: &Stage, case: &str) -> (MPIJob, Vec<Value>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/upstream").join(case);
    let read = |file: &str| stage.here(&std::fs::read_to_string(folder.join(file)).unwrap());
    let input: Value = serde_saphyr::from_str(&read("input.yaml")).unwrap();
    let job = stage.submit(&input).await;
    // What upstream writes in its first pass.
    let created = json!({ "status": { "startTime": "2026-01-01T00:00:00Z", "conditions": [{
        "type": "Created", "status": "True", "reason": "MPIJobCreated", "message": "created",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    let jobs = stage.api::<MPIJob>();
    jobs.patch_status(&job.name_any(), &PatchParams::default(), &Patch::Merge(created)).await.unwrap();
    let mut objects = Vec::new();
    for text in read("objects.yaml").split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        for owner in object["metadata"]["ownerReferences"].as_array_mut().unwrap() {
            owner["uid"] = json!(job.uid().unwrap());
        }
        object["metadata"]["namespace"] = json!(stage.namespace);
        if object["kind"] == "Secret" {
            object["data"] = json!({ "ssh-privatekey": "a2V5", "ssh-publickey": "a2V5" });
        }
        if object["kind"] == "Job" {
            // The server chooses these.
            object["spec"].as_object_mut().unwrap().remove("selector");
            let labels =
                object.pointer_mut("/spec/template/metadata/labels").unwrap().as_object_mut().unwrap();
            labels.retain(|label, _| {
                !label.ends_with("controller-uid") && !label.ends_with("job-name")
                    || label.starts_with("training")
            });
        }
        create(stage, &object).await;
        objects.push(object);
    }
    (job, objects)
}

async fn create(stage: &Stage, object: &Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let objects: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), &stage.namespace, &resource);
    objects.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
}

/// The UIDs of all objects of a kind.
async fn uids<K>(stage: &Stage) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let listed = stage.api::<K>().list(&kube::api::ListParams::default()).await.unwrap();
    listed.items.iter().filter_map(ResourceExt::uid).collect()
}

async fn all_uids(stage: &Stage) -> [Vec<String>; 5] {
    [
        uids::<Service>(stage).await,
        uids::<ConfigMap>(stage).await,
        uids::<Secret>(stage).await,
        uids::<Pod>(stage).await,
        uids::<Job>(stage).await,
    ]
}

#[tokio::test]
async fn a_job_of_upstreams_goes_on_with_the_objects_that_it_has() {
    let stage = Stage::new().await;
    let (job, objects) = begun_by_upstream(&stage, "openmpi").await;
    assert!(objects.len() >= 5, "{}", objects.len());
    let before = all_uids(&stage).await;
    let operator = stage.operate();
    let (name, workers) = (job.name_any(), job.spec.mpi_replica_specs["Worker"].replicas.unwrap());
    stage.bring_up(&name, usize::try_from(workers).unwrap()).await;
    let mut after = all_uids(&stage).await;
    // The Launcher's pod, which the test created.
    let made = stage.api::<Pod>().get(&format!("{name}-launcher-pod")).await.unwrap().uid().unwrap();
    after[3].retain(|uid| *uid != made);
    assert_eq!(before, after, "nothing is made again");
    let labelled = |service: &Service| service.labels().contains_key(api::LABEL_JOB_NAME);
    stage.until::<Service>(&name, "was labelled", labelled).await;
    stage.complete_launcher(&name).await;
    stage.until_true(&name, "Succeeded").await;
    let secrets = operator
        .gate
        .requests()
        .into_iter()
        .filter(|request| request.contains("/secrets"))
        .collect::<Vec<_>>();
    assert!(secrets.iter().all(|request| request.starts_with("GET")), "its key stays: {secrets:?}");
}

/// What upstream v0.8.2 looks for (`pkg/controller/mpi_job_controller.go`): each object by its name, controlled by
/// the job, and Workers by three labels. It would create a missing object, and refuse one with another controller.
#[tokio::test]
async fn upstream_finds_all_that_it_looks_for_in_a_job_of_ours() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let job = stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    let owner = job.uid().unwrap();
    assert!(is_controlled(&stage.api::<Service>().get("pi").await.unwrap(), &owner));
    assert!(is_controlled(&stage.api::<ConfigMap>().get("pi-config").await.unwrap(), &owner));
    let secret = stage.api::<Secret>().get("pi-ssh").await.unwrap();
    assert!(is_controlled(&secret, &owner));
    let keys: Vec<String> = secret.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["ssh-privatekey", "ssh-publickey"]);
    assert!(is_controlled(&stage.api::<Job>().get("pi-launcher").await.unwrap(), &owner));
    let selected = "training.kubeflow.org/operator-name=mpi-operator,training.kubeflow.org/job-name=pi,\
                    training.kubeflow.org/job-role=worker";
    let workers = stage.api::<Pod>().list(&kube::api::ListParams::default().labels(selected)).await.unwrap();
    assert_eq!(
        workers.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["pi-worker-0", "pi-worker-1"]
    );
    assert!(workers.items.iter().all(|pod| is_controlled(pod, &owner)));
}

fn is_controlled<K: Resource>(object: &K, owner: &str) -> bool {
    object
        .owner_references()
        .iter()
        .any(|by| by.controller == Some(true) && by.uid == owner && by.kind == "MPIJob")
}

/// Upstream writes a whole status of its own type, and drops fields that it does not know.
#[tokio::test]
async fn a_job_goes_on_after_upstream_had_it_for_a_while() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    let before = all_uids(&stage).await;
    drop(operator);
    let gone = json!({ "status": { "observedGeneration": null, "phase": null, "phaseReason": null, "workers": null,
        "startup": null, "attempts": null, "failure": null } });
    let jobs = stage.api::<MPIJob>();
    jobs.patch_status("pi", &PatchParams::default(), &Patch::Merge(gone)).await.unwrap();
    let _operator = stage.operate();
    let told = |job: &MPIJob| job.status.as_ref().is_some_and(|status| status.phase.is_some());
    stage.until("pi", "said again where it stands", told).await;
    assert_eq!(all_uids(&stage).await, before, "nothing is made again");
    stage.complete_launcher("pi").await;
    let status = stage.until_true("pi", "Succeeded").await;
    assert!(!plan::is_true(&status, "Running") && status.completion_time.is_some());
}
