//! Mistakes in existing jobs: an annotation can be changed at any time, and without a webhook nobody refuses a
//! typing error. It does not fail a job that runs, has ended, or waits in a queue.

use api::{
    ANNOTATION_MAX_GANG_RESTARTS, ANNOTATION_STALL_TIMEOUT, CONDITION_INVALID, LABEL_QUEUE_NAME, MPIJob,
};
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, ended, job};

/// A duration without a unit.
fn mistake() -> Value {
    json!({ "metadata": { "annotations": { ANNOTATION_STALL_TIMEOUT: "600" } } })
}

fn correction() -> Value {
    json!({ "metadata": { "annotations": { ANNOTATION_STALL_TIMEOUT: "600s" } } })
}

/// A job as Kueue's webhook leaves it.
fn queued() -> Value {
    let mut queued = job("pi", 1, json!({ "suspend": true }));
    queued["metadata"]["labels"] = json!({ LABEL_QUEUE_NAME: "team-queue" });
    queued
}

async fn until_corrected(stage: &Stage) {
    let corrected = |job: &MPIJob| {
        let status = job.status.as_ref();
        status.is_some_and(|status| {
            plan::condition(status, CONDITION_INVALID).is_some_and(|invalid| invalid.status == "False")
        })
    };
    stage.until("pi", "was corrected", corrected).await;
}

/// Makes the mistake, and waits until the job reports it and is otherwise unchanged.
async fn err(stage: &Stage) {
    stage.change_job("pi", mistake()).await;
    let status = stage.until_true("pi", CONDITION_INVALID).await;
    let message = plan::condition(&status, CONDITION_INVALID).unwrap().message.as_deref().unwrap();
    assert!(message.contains(ANNOTATION_STALL_TIMEOUT), "{message}");
    assert!(!plan::is_true(&status, "Failed") && status.failure.is_none(), "{status:?}");
    stage.until_event("pi", "ValidationError").await;
}

#[tokio::test]
async fn a_mistake_while_a_job_starts_does_not_stop_it() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.start_worker("pi", 0).await;
    err(&stage).await;
    stage.bring_up("pi", 2).await;
    stage.change_job("pi", correction()).await;
    until_corrected(&stage).await;
    stage.complete_launcher("pi").await;
    stage.until_true("pi", "Succeeded").await;
}

#[tokio::test]
async fn a_running_job_with_a_mistake_is_supervised_as_before() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    let mut running = job("pi", 2, json!({}));
    running["metadata"]["annotations"] = json!({ ANNOTATION_MAX_GANG_RESTARTS: "1" });
    stage.submit(&running).await;
    stage.bring_up("pi", 2).await;
    err(&stage).await;
    let many = json!({ "metadata": { "annotations": { ANNOTATION_MAX_GANG_RESTARTS: "many" } } });
    stage.change_job("pi", many).await;
    let named = |job: &MPIJob| {
        let invalid = job.status.as_ref().and_then(|status| plan::condition(status, CONDITION_INVALID));
        let message = invalid.and_then(|invalid| invalid.message.as_deref());
        message.is_some_and(|message| message.contains("many"))
    };
    stage.until("pi", "named the second mistake", named).await;
    let status = stage.until_true("pi", "Running").await;
    assert_eq!(status.completion_time, None);
    // With the last valid value, the gang may be restarted once.
    stage.set_pod("pi-worker-1", ended("main", "Failed", 137)).await;
    stage.until_gone::<Job>("pi-launcher").await;
    // As the garbage collector does.
    let at_once = DeleteParams::default().grace_period(0);
    stage.api::<Pod>().delete("pi-launcher-pod", &at_once).await.unwrap();
    stage.until("pi-worker-1", "was made again", |pod: &Pod| plan::attempt_of(&pod.metadata) == 2).await;
    drop(operator);
    // Another operator does not know that value, and uses the default.
    let _operator = stage.operate();
    stage.bring_up("pi", 2).await;
    stage.set_pod("pi-worker-0", ended("main", "Failed", 137)).await;
    let status = stage.until_true("pi", "Failed").await;
    assert_eq!(status.failure.unwrap().reason, "WorkerLost");
    assert!(status.completion_time.is_some());
}

#[tokio::test]
async fn a_mistake_in_a_job_that_has_succeeded_changes_nothing() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "ttlSecondsAfterFinished": 3 }))).await;
    stage.start_worker("pi", 0).await;
    let launcher = stage.launcher_pod("pi", &[]).await;
    stage.set_pod(&launcher, crate::stage::running("main")).await;
    stage.until_true("pi", "Running").await;
    stage.set_pod(&launcher, ended("main", "Succeeded", 0)).await;
    stage.until_true("pi", "Succeeded").await;
    stage.change_job("pi", mistake()).await;
    stage.until_gone::<MPIJob>("pi").await;
    let reasons = stage.event_reasons("pi").await;
    assert!(!reasons.contains(&"ValidationError".to_owned()), "{reasons:?}");
}

#[tokio::test]
async fn a_queued_job_with_a_mistake_waits_until_it_is_corrected() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let mut invalid = queued();
    invalid["metadata"]["annotations"] = mistake()["metadata"]["annotations"].clone();
    stage.submit(&invalid).await;
    let waits = |job: &MPIJob| {
        let waiting = job.status.as_ref().and_then(|status| status.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason == "ValidationError")
    };
    let waiting: MPIJob = stage.until("pi", "waited", waits).await;
    let status = waiting.status.unwrap();
    assert!(status.conditions.is_empty(), "a queue reads none of this as the end: {status:?}");
    assert_eq!(status.phase_reason.as_deref(), Some("Queued"));
    assert_eq!(stage.names::<Job>().await, Vec::<String>::new());
    // The queue resumes it nevertheless.
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": false } } })).await;
    let initializing = |job: &MPIJob| {
        job.status.as_ref().and_then(|status| status.phase_reason.as_deref()) == Some("Initializing")
    };
    let waiting: MPIJob = stage.until("pi", "was let go", initializing).await;
    assert!(!plan::is_true(&waiting.status.unwrap(), "Failed"));
    stage.change_job("pi", correction()).await;
    stage.bring_up("pi", 1).await;
    let job: MPIJob = stage.api().get("pi").await.unwrap();
    assert_eq!(job.status.unwrap().waiting, None);
}

#[tokio::test]
async fn a_mistake_in_a_queued_job_that_was_begun_does_not_end_it() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&queued()).await;
    stage.until_true("pi", "Suspended").await;
    err(&stage).await;
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": false } } })).await;
    stage.bring_up("pi", 1).await;
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    let status = stage.until_true("pi", "Suspended").await;
    assert!(!plan::is_true(&status, "Failed"), "{status:?}");
}

/// A definition without bounds of numbers, as one of another version may be.
fn without_bounds(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, bound| {
                !(name == "maximum" && bound.is_number() || name == "format" && bound == "int32")
            });
            fields.values_mut().for_each(without_bounds);
        }
        Value::Array(items) => items.iter_mut().for_each(without_bounds),
        _ => {}
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_read_is_told_so_and_leaves_the_others_alone() {
    let stage = Stage::bare().await;
    let mut definition: Value = serde_json::from_str(api::MPIJOB_DEFINITION.json).unwrap();
    without_bounds(&mut definition);
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let definition = serde_json::from_value(definition).unwrap();
    crds.create(&PostParams::default(), &definition).await.unwrap();
    tokio::time::timeout(PATIENCE, await_condition(crds, "mpijobs.kubeflow.org", is_crd_established()))
        .await
        .unwrap()
        .unwrap();
    let jobs: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), &stage.namespace, &ApiResource::erase::<MPIJob>(&()));
    let too_large = json!({ "schedulingPolicy": { "minAvailable": 1_i64 << 40 } });
    let odd = job("odd", 1, too_large.clone());
    let odd: DynamicObject = serde_json::from_value(odd).unwrap();
    jobs.create(&PostParams::default(), &odd).await.unwrap();
    let _operator = stage.operate();
    stage.until_event("odd", "ValidationError").await;
    stage.submit(&job("well", 1, json!({}))).await;
    stage.bring_up("well", 1).await;
    // What is there of a job that can no longer be read is looked after as before.
    let change = Patch::Merge(json!({ "spec": { "runPolicy": too_large } }));
    jobs.patch("well", &PatchParams::default(), &change).await.unwrap();
    stage.until_event("well", "ValidationError").await;
    let correction = Patch::Merge(json!({ "spec": { "runPolicy": { "schedulingPolicy": null } } }));
    jobs.patch("odd", &PatchParams::default(), &correction).await.unwrap();
    stage.bring_up("odd", 1).await;
    jobs.delete("well", &DeleteParams::default()).await.unwrap();
    stage.until_gone::<MPIJob>("well").await;
    stage.complete_launcher("odd").await;
    stage.until_true("odd", "Succeeded").await;
}

#[tokio::test]
async fn a_secret_that_a_job_mounts_and_that_does_not_exist_is_what_it_waits_for() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let mut job = job("pi", 1, json!({}));
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = json!([
        { "name": "extra", "configMap": { "name": "not-needed", "optional": true } },
        { "name": "data", "secret": { "secretName": "not-there" } },
    ]);
    stage.submit(&job).await;
    stage.until::<Pod>("pi-worker-0", "came", |_| true).await;
    // All that a kubelet shows of it in the pod's status.
    let since = Time(Timestamp::now() - 30.seconds());
    let creating = json!({ "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": since }],
        "containerStatuses": [{ "name": "main", "state": { "waiting": { "reason": "ContainerCreating" } },
            "ready": false, "restartCount": 0, "image": "mpi", "imageID": "" }] });
    stage.set_pod("pi-worker-0", creating).await;
    let waits = |job: &MPIJob| job.status.as_ref().is_some_and(|status| status.waiting.is_some());
    let waiting: MPIJob = stage.until("pi", "says what it waits for", waits).await;
    let waiting = waiting.status.unwrap().waiting.unwrap();
    assert_eq!(waiting.reason, "MissingReference", "{waiting:?}");
    assert!(waiting.message.contains("\"not-there\""), "{waiting:?}");
    stage.until_event("pi", "MissingReference").await;
    stage.bring_up("pi", 1).await;
    let job: MPIJob = stage.api().get("pi").await.unwrap();
    assert_eq!(job.status.unwrap().waiting, None);
}
