//! TrainJobs on the embedded cluster's API: their life, their crash points and their end, and what becomes of them where
//! Kubeflow Trainer runs. The tests play the Job controller and the kubelets.

use std::sync::Arc;

use api::{ClusterTrainingRuntime, LABEL_TRAINJOB, TrainJob, TrainJobStatus};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use operator::Vitals;
use operator::webhook::{Admission, Reporter, on_loopback};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::admission::Log;
use crate::crashes::{CrashStory, all, strip, survives, until_nothing_is_left};
use crate::gate::Gate;
use crate::stage::{Running, Stage, ended, running};

/// A runtime as Trainer ships them: nodes first, the Launcher when they are ready.
pub fn runtime(name: &str) -> ClusterTrainingRuntime {
    let pod = json!({ "spec": { "containers": [{ "name": "node", "image": "mpi", "command": ["run"] }] } });
    let runtime = json!({
        "metadata": { "name": name },
        "spec": {
            "mlPolicy": { "numNodes": 1, "mpi": { "runLauncherAsNode": false } },
            "template": { "spec": {
                "successPolicy": { "operator": "All", "targetReplicatedJobs": ["launcher"] },
                "failurePolicy": { "maxRestarts": if name == "again" { 1 } else { 0 } },
                "replicatedJobs": [
                    { "name": "node", "template": { "spec": { "template": pod } } },
                    {
                        "name": "launcher",
                        "dependsOn": [{ "name": "node", "status": "Ready" }],
                        "template": {
                            "metadata": { "labels": { api::LABEL_ANCESTOR: "trainer" } },
                            "spec": { "backoffLimit": 0, "template": pod },
                        },
                    },
                ],
            } },
        },
    });
    serde_json::from_value(runtime).unwrap()
}

pub fn trainjob(runtime: &str) -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": "digits" },
        "spec": {
            "runtimeRef": { "name": runtime, "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org" },
            "trainer": { "numNodes": 2 },
        },
    })
}

/// A stage with the definitions and the runtimes.
async fn stage() -> Stage {
    prepared(Stage::new().await).await
}

async fn prepared(stage: Stage) -> Stage {
    operator::install_trainjob_crds(&stage.client).await.unwrap();
    let runtimes: Api<ClusterTrainingRuntime> = Api::all(stage.client.clone());
    for name in ["once", "again"] {
        stage.share(&runtimes, &runtime(name)).await;
    }
    stage
}

async fn submit(stage: &Stage, job: &Value) {
    let job = serde_json::from_value(job.clone()).unwrap();
    stage.api::<TrainJob>().create(&PostParams::default(), &job).await.unwrap();
}

async fn change(stage: &Stage, patch: Value) {
    stage.api::<TrainJob>().patch("digits", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn is(status: &TrainJobStatus, type_: &str) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

async fn until(stage: &Stage, what: &str, wanted: impl Fn(&TrainJobStatus) -> bool) -> TrainJobStatus {
    let wanted = |job: &TrainJob| job.status.as_ref().is_some_and(&wanted);
    stage.until::<TrainJob>("digits", what, wanted).await.status.unwrap()
}

/// Plays the Job controller and the kubelets: waits for a Job and lets its pods run.
async fn start(stage: &Stage, name: &str, pods: usize) {
    let job: Job = stage.until(name, "came", |job: &Job| job.metadata.deletion_timestamp.is_none()).await;
    let attempt = job.labels()[api::LABEL_RESTART_ATTEMPT].clone();
    let template = serde_json::to_value(&job.spec.as_ref().unwrap().template).unwrap();
    for index in 0..pods {
        let mut pod = json!({ "metadata": template["metadata"], "spec": template["spec"] });
        let pod_name = format!("{name}-{index}-{attempt}");
        pod["metadata"]["name"] = json!(pod_name);
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = json!(name);
        pod["metadata"]["labels"][api::LABEL_COMPLETION_INDEX] = json!(index.to_string());
        pod["metadata"]["ownerReferences"] = json!([job.controller_owner_ref(&()).unwrap()]);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        if stage.api::<Pod>().get_opt(&pod_name).await.unwrap().is_none() {
            stage.api().create(&PostParams::default(), &pod).await.unwrap();
        }
        stage.set_pod(&pod_name, running("node")).await;
    }
    stage.set_job(name, json!({ "active": pods, "ready": pods })).await;
}

/// Plays the garbage collector for the pods of a Job that is gone.
async fn collect(stage: &Stage, job: &str) {
    stage.until_gone::<Job>(job).await;
    for pod in stage.names::<Pod>().await.iter().filter(|pod| pod.starts_with(job)) {
        stage.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

async fn bring_up(stage: &Stage) {
    start(stage, "digits-node-0", 2).await;
    start(stage, "digits-launcher-0", 1).await;
}

async fn succeed(stage: &Stage) {
    let now = "2026-01-01T00:00:00Z";
    stage
        .set_job(
            "digits-launcher-0",
            json!({ "active": 0, "ready": 0, "succeeded": 1, "startTime": now, "completionTime": now,
            "conditions": [
                { "type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached" },
                { "type": "Complete", "status": "True", "reason": "CompletionsReached" },
            ] }),
        )
        .await;
    until(stage, "completed", |status| is(status, "Complete")).await;
    stage.until_gone::<Job>("digits-node-0").await;
}

async fn fail_launcher(stage: &Stage, pod: &str) {
    stage.set_pod(pod, ended("node", "Failed", 3)).await;
    let condition = |type_: &str| {
        json!({ "type": type_, "status": "True", "reason": "BackoffLimitExceeded",
        "message": "no more retries", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let status = json!({ "active": 0, "ready": 0, "failed": 1, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("FailureTarget"), condition("Failed")] });
    stage.set_job("digits-launcher-0", status).await;
}

/// What a test does to a TrainJob while an operator works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// It succeeds.
    Success,
    /// Its Launcher fails.
    Failure,
    /// Its Launcher fails, all Jobs are made again, and it succeeds.
    Restart,
    /// It is suspended while it runs, resumed with what a queue sets, and succeeds.
    SuspendAndResume,
    /// It is deleted as soon as its Service exists.
    Delete,
}

async fn act(story: Story, stage: &Stage) {
    submit(stage, &trainjob(if story == Story::Restart { "again" } else { "once" })).await;
    if story == Story::Delete {
        return delete(stage).await;
    }
    bring_up(stage).await;
    match story {
        Story::Success => succeed(stage).await,
        Story::Failure => {
            fail_launcher(stage, "digits-launcher-0-0-0").await;
            until(stage, "failed", |status| is(status, "Failed")).await;
            stage.until_gone::<Job>("digits-node-0").await;
        }
        Story::Restart => {
            fail_launcher(stage, "digits-launcher-0-0-0").await;
            stage.until::<ConfigMap>("digits-attempt-1", "was written", |_| true).await;
            let second = |job: &Job| job.labels()[api::LABEL_RESTART_ATTEMPT] == "1";
            collect_former(stage, "digits-node-0").await;
            collect_former(stage, "digits-launcher-0").await;
            stage.until("digits-node-0", "was made again", second).await;
            bring_up(stage).await;
            succeed(stage).await;
        }
        Story::SuspendAndResume => {
            change(stage, json!({ "spec": { "suspend": true } })).await;
            until(stage, "was suspended", |status| is(status, "Suspended")).await;
            collect(stage, "digits-node-0").await;
            collect(stage, "digits-launcher-0").await;
            until(stage, "was idle", |status| status.jobs_status.iter().all(|job| job.active == 0)).await;
            let pod = json!({ "template": { "spec": { "template": { "spec": { "nodeSelector": { "zone": "a" } } } } }, "name": "node" });
            let patch = json!([{ "manager": "kueue.x-k8s.io/manager",
                "trainingRuntimeSpec": { "template": { "spec": { "replicatedJobs": [pod] } } } }]);
            change(stage, json!({ "spec": { "suspend": false, "runtimePatches": patch } })).await;
            bring_up(stage).await;
            succeed(stage).await;
        }
        Story::Delete => {}
    }
}

async fn delete(stage: &Stage) {
    stage.until::<Service>("digits", "came", |_| true).await;
    stage.api::<TrainJob>().delete("digits", &DeleteParams::background()).await.unwrap();
    stage.until_gone::<TrainJob>("digits").await;
    until_nothing_is_left(stage).await;
}

/// Waits until the first attempt's Job is gone, and collects its pods.
async fn collect_former(stage: &Stage, job: &str) {
    let gone = kube::runtime::wait::await_condition(stage.api::<Job>(), job, |job: Option<&Job>| {
        job.is_none_or(|job| job.labels()[api::LABEL_RESTART_ATTEMPT] != "0")
    });
    tokio::time::timeout(crate::stage::PATIENCE, gone).await.unwrap().unwrap();
    let of_first = |pod: &&String| pod.starts_with(job) && pod.ends_with("-0");
    for pod in stage.names::<Pod>().await.iter().filter(of_first) {
        stage.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

/// Every object but pods, which the test itself made, without what differs from run to run.
async fn snapshot(stage: &Stage) -> Value {
    let job = stage.api::<TrainJob>().get_opt("digits").await.unwrap();
    let mut events = stage.event_reasons("digits").await;
    events.dedup();
    if job.is_none() {
        // The events of a deleted job depend on how far it had come.
        events.clear();
    }
    let mut snapshot = json!({
        "status": job.as_ref().map(|job| &job.status),
        "services": all::<Service>(stage).await,
        "configMaps": all::<ConfigMap>(stage).await,
        "secrets": all::<Secret>(stage).await,
        "jobs": all::<Job>(stage).await,
        "events": events,
    });
    strip(&mut snapshot);
    let mut text = snapshot.to_string().replace(&stage.namespace, "team");
    if let Some(uid) = job.and_then(|job| job.uid()) {
        text = text.replace(&uid, "uid");
    }
    serde_json::from_str(&text).unwrap()
}

impl CrashStory for Story {
    fn least_writes(self) -> usize {
        if self == Story::Delete { 1 } else { 8 }
    }

    async fn stage(self) -> Stage {
        // Garbage collection needs controllers.
        if self == Story::Delete { prepared(Stage::with_controllers().await).await } else { stage().await }
    }

    fn operate(self, stage: &Stage, gate: Arc<Gate>) -> Running {
        stage.operate_trainjobs(gate)
    }

    async fn act(self, stage: &Stage) {
        act(self, stage).await;
    }

    async fn settles(self, stage: &Stage) -> bool {
        if self == Story::Delete {
            until_nothing_is_left(stage).await;
        }
        self == Story::Delete
    }

    async fn snapshot(self, stage: &Stage) -> Value {
        snapshot(stage).await
    }
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_trainjob_that_succeeds_changes_nothing() {
    survives(Story::Success).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_trainjob_that_fails_changes_nothing() {
    survives(Story::Failure).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_trainjob_that_restarts_changes_nothing() {
    survives(Story::Restart).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_trainjob_suspended_and_resumed_changes_nothing() {
    survives(Story::SuspendAndResume).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_trainjob_that_is_deleted_leaves_nothing() {
    survives(Story::Delete).await;
}

#[tokio::test]
async fn a_trainjob_tells_how_it_is_and_keeps_what_others_wrote() {
    let stage = stage().await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    submit(&stage, &trainjob("once")).await;
    start(&stage, "digits-node-0", 2).await;
    let nodes =
        |status: &TrainJobStatus| status.jobs_status.iter().any(|it| it.name == "node" && it.ready == 1);
    let status = until(&stage, "had nodes", nodes).await;
    assert_eq!(status.conditions, [], "the SDK takes this for running");
    let progress = json!({ "status": { "trainerStatus": { "progressPercentage": 40, "lastUpdatedTime": "2026-01-01T00:00:00Z" } } });
    let jobs = stage.api::<TrainJob>();
    jobs.patch_status("digits", &PatchParams::default(), &Patch::Merge(progress)).await.unwrap();
    start(&stage, "digits-launcher-0", 1).await;
    stage.add_node("n1", None);
    fail_launcher(&stage, "digits-launcher-0-0-0").await;
    let status = until(&stage, "failed", |status| is(status, "Failed")).await;
    let failed = &status.conditions[0];
    assert_eq!(failed.reason, "FailedJobs");
    assert!(failed.message.contains("first failed job: digits-launcher-0"), "{}", failed.message);
    assert!(failed.message.contains("exit code 3"), "{}", failed.message);
    assert_eq!(status.trainer_status.unwrap().progress_percentage, Some(40));
}

#[tokio::test]
async fn a_changed_or_deleted_runtime_does_not_change_a_job() {
    let stage = stage().await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    let mut held = trainjob("once");
    held["spec"]["suspend"] = json!(true);
    submit(&stage, &held).await;
    let snapshot: ConfigMap = stage.until("digits-runtime-snapshot", "came", |_| true).await;
    let owner = &snapshot.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("TrainJob", Some(true)));
    let written: Value = serde_json::from_str(&snapshot.data.unwrap()["runtime"]).unwrap();
    let name = &written["metadata"]["name"];
    assert_eq!((&written["kind"], name), (&json!("ClusterTrainingRuntime"), &json!("once")));
    let runtimes: Api<ClusterTrainingRuntime> = Api::all(stage.client.clone());
    runtimes.delete("once", &DeleteParams::default()).await.unwrap();
    let mut other = runtime("once");
    let jobs = &mut other.spec.runtime.template.spec.replicated_jobs;
    jobs[0].template.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0].image =
        Some("other".to_owned());
    runtimes.create(&PostParams::default(), &other).await.unwrap();
    change(&stage, json!({ "spec": { "suspend": false } })).await;
    let nodes: Job = stage.until("digits-node-0", "came", |_| true).await;
    let image = nodes.spec.unwrap().template.spec.unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("mpi"));
}

#[tokio::test]
async fn a_deleted_trainjob_leaves_nothing() {
    let stage = prepared(Stage::with_controllers().await).await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    submit(&stage, &trainjob("once")).await;
    stage.until::<Job>("digits-node-0", "came", |_| true).await;
    stage.api::<TrainJob>().delete("digits", &DeleteParams::background()).await.unwrap();
    stage.until_gone::<TrainJob>("digits").await;
    until_nothing_is_left(&stage).await;
}

/// Plays the garbage collector: deletes the objects of a kind that have this owner.
async fn collect_of<K>(stage: &Stage, owner: &str)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let objects = stage.api::<K>();
    for object in objects.list(&ListParams::default()).await.unwrap().items {
        if object.owner_references().iter().any(|it| it.uid == owner) {
            objects.delete(&object.name_any(), &DeleteParams::background().grace_period(0)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_trainjob_that_is_deleted_and_created_again_waits_for_what_the_first_one_left_and_runs() {
    let stage = stage().await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    submit(&stage, &trainjob("once")).await;
    bring_up(&stage).await;
    let jobs = stage.api::<TrainJob>();
    let first = jobs.get("digits").await.unwrap().uid().unwrap();
    // Nothing collects garbage here: what the first job owns stays until the test removes it.
    jobs.delete("digits", &DeleteParams::background()).await.unwrap();
    stage.until_gone::<TrainJob>("digits").await;
    submit(&stage, &trainjob("once")).await;
    stage.until_event("digits", "TrainJobResourcesCreationFailed").await;
    // A node of the first job fails as it ends, which says nothing about the second.
    stage.set_pod("digits-node-0-1-0", ended("node", "Failed", 143)).await;
    collect_of::<ConfigMap>(&stage, &first).await;
    collect_of::<Secret>(&stage, &first).await;
    collect_of::<Service>(&stage, &first).await;
    for pod in stage.names::<Pod>().await {
        stage.api::<Pod>().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    let left = |job: &Job| job.owner_references().iter().all(|owner| owner.uid != first);
    collect_of::<Job>(&stage, &first).await;
    for (name, pods) in [("digits-node-0", 2), ("digits-launcher-0", 1)] {
        stage.until::<Job>(name, "was made again", left).await;
        start(&stage, name, pods).await;
    }
    let runs =
        |status: &TrainJobStatus| status.jobs_status.iter().any(|it| it.name == "launcher" && it.ready == 1);
    let status = until(&stage, "ran", runs).await;
    assert!(!is(&status, "Failed"), "{status:?}");
}

#[tokio::test]
async fn a_trainjob_of_another_manager_is_left_alone() {
    let stage = stage().await;
    let operator = stage.operate_trainjobs(Gate::new(None));
    let mut remote = trainjob("once");
    remote["metadata"]["name"] = json!("remote");
    remote["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
    submit(&stage, &remote).await;
    submit(&stage, &trainjob("once")).await;
    stage.until::<Job>("digits-node-0", "came", |_| true).await;
    assert_eq!(stage.api::<TrainJob>().get("remote").await.unwrap().status, None);
    let touched = operator.gate.requests().into_iter().any(|request| request.contains("remote"));
    assert!(!touched, "it was not even read");
}

#[tokio::test]
async fn where_trainer_runs_trainjobs_are_left_to_it() {
    let stage = stage().await;
    let labels = json!({ "app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager" });
    let deployment = json!({ "metadata": { "name": "trainer", "labels": labels }, "spec": {
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "manager", "image": "i" }] } },
    } });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    stage.api().create(&PostParams::default(), &deployment).await.unwrap();
    submit(&stage, &trainjob("once")).await;
    let operator = stage.operate_trainjobs(Gate::new(None));
    stage.until_event("trainer", "TrainJobsLeftToTrainer").await;
    let mpi_job = crate::stage::job("pi", 1, json!({}));
    stage.submit(&mpi_job).await;
    stage.bring_up("pi", 1).await;
    assert_eq!(stage.api::<TrainJob>().get("digits").await.unwrap().status, None);
    let touched = operator.gate.requests().into_iter().any(|request| request.contains("digits"));
    assert!(!touched, "it was not even read");
}

/// A stage whose API server calls the webhook.
async fn guarded() -> Stage {
    let stage = stage().await;
    stage.in_namespace("kube-system").await;
    let (callers, parts) = (stage.webhook_authority(), (Vitals::default(), CancellationToken::new()));
    let served =
        on_loopback(&stage.client, &stage.client, "kube-system", callers.as_deref(), true, None, parts);
    served.await.unwrap();
    stage
}

async fn refused(stage: &Stage, job: &Value) -> String {
    let job = serde_json::from_value(job.clone()).unwrap();
    let outcome = stage.api::<TrainJob>().create(&PostParams::default(), &job).await;
    outcome.unwrap_err().to_string()
}

#[tokio::test]
async fn a_trainjob_that_cannot_run_is_refused_with_every_fault() {
    let stage = guarded().await;
    assert!(refused(&stage, &trainjob("nothing")).await.contains("\"nothing\" does not exist"));
    let mut faulty = trainjob("once");
    faulty["spec"]["trainer"]["env"] = json!([{ "name": "OMPI_MCA_plm_rsh_args", "value": "-v" }]);
    faulty["spec"]["initializer"] = json!({ "dataset": {} });
    faulty["metadata"]["annotations"] = json!({ api::ANNOTATION_LAUNCH: "pigeon" });
    let message = refused(&stage, &faulty).await;
    for part in ["reserved envs", "must have dataset-initializer job", "pigeon"] {
        assert!(message.contains(part), "{message}");
    }
    let mut long = trainjob("once");
    long["metadata"]["name"] = json!("n".repeat(45));
    let message = refused(&stage, &long).await;
    assert!(message.contains("metadata.name") && message.contains("at most 63 are allowed"), "{message}");
    long["metadata"]["name"] = json!("n".repeat(44));
    submit(&stage, &long).await;
    let mut empty = runtime("empty");
    empty.spec.runtime.template.spec.replicated_jobs[1].replicas = Some(2);
    let runtimes: Api<ClusterTrainingRuntime> = Api::all(stage.client.clone());
    let error = runtimes.create(&PostParams::default(), &empty).await.unwrap_err().to_string();
    assert!(error.contains("always must be 1"), "{error}");
}

#[tokio::test]
async fn a_trainjob_is_its_creators_and_each_write_of_it_is_reported() {
    let stage = stage().await;
    stage.in_namespace("kube-system").await;
    let (log, stop) = (Arc::new(Log::present()), CancellationToken::new());
    let (reporter, reporting) = Reporter::new(log.clone(), stop.clone());
    tokio::spawn(reporting);
    let (client, parts) = (&stage.client, (Vitals::default(), stop));
    on_loopback(client, client, "kube-system", None, true, Some(reporter), parts).await.unwrap();
    let mut claimed = trainjob("once");
    claimed["metadata"]["annotations"] = json!({ api::ANNOTATION_OWNER: "boss" });
    submit(&stage, &claimed).await;
    let jobs = stage.api::<TrainJob>();
    let stored = jobs.get("digits").await.unwrap();
    assert_eq!(plan::owner(&stored.metadata), Some("kubernetes-admin"), "the user who created it");
    let other = Patch::Merge(json!({ "metadata": { "annotations": { api::ANNOTATION_OWNER: "boss" } } }));
    let refused = jobs.patch("digits", &PatchParams::default(), &other).await.unwrap_err().to_string();
    assert!(refused.contains("the owner of a job cannot be changed"), "{refused}");
    change(&stage, json!({ "spec": { "suspend": true } })).await;
    change(&stage, json!({ "metadata": { "annotations": { api::ANNOTATION_METRICS_PORT: "9000" } } })).await;
    jobs.delete("digits", &DeleteParams::default()).await.unwrap();
    let reports = log.reported(5).await;
    let seen: Vec<_> = reports.iter().map(|report| (report.verb.as_str(), report.status)).collect();
    let expected =
        [("create", None), ("update", Some(422)), ("update", None), ("update", None), ("delete", None)];
    assert_eq!(seen, expected);
    let changed: Vec<&str> = reports[2..4].iter().map(|report| report.reason.as_str()).collect();
    assert_eq!(changed, ["spec.suspend", "metadata.annotations[trainer.opendatahub.io/metrics-port]"]);
    let is_told = |report: &Admission| {
        (report.resource.as_str(), report.name.as_str()) == ("trainjobs", "digits") && !report.user.is_empty()
    };
    assert!(reports.iter().all(is_told), "{reports:?}");
}

#[tokio::test]
async fn a_queue_writes_a_trainjob_back_whole_and_patches_get_their_time() {
    let stage = guarded().await;
    let mut held = trainjob("once");
    held["spec"]["suspend"] = json!(true);
    held["spec"]["trainer"]["resourcesPerNode"] = json!({ "limits": { "cpu": 1 } });
    held["spec"]["runtimePatches"] = json!([{ "manager": "kueue.x-k8s.io/manager" }]);
    submit(&stage, &held).await;
    let jobs = stage.api::<TrainJob>();
    let mut job = jobs.get("digits").await.unwrap();
    assert!(job.spec.runtime_patches[0].time.is_some());
    job.spec.suspend = Some(false);
    let limits = &mut job.spec.trainer.as_mut().unwrap().resources_per_node.as_mut().unwrap().limits;
    limits
        .as_mut()
        .unwrap()
        .insert("cpu".to_owned(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()));
    let mut job = jobs.replace("digits", &PostParams::default(), &job).await.unwrap();
    job.spec.trainer.as_mut().unwrap().num_nodes = Some(5);
    let error = jobs.replace("digits", &PostParams::default(), &job).await.unwrap_err().to_string();
    assert!(error.contains("numNodes"), "{error}");
}

#[tokio::test]
async fn a_trainjob_of_another_framework_fails_with_a_clear_word() {
    let stage = stage().await;
    let mut torch = runtime("torch");
    torch.spec.runtime.ml_policy = serde_json::from_value(json!({ "torch": {} })).unwrap();
    let runtimes: Api<ClusterTrainingRuntime> = Api::all(stage.client.clone());
    stage.share(&runtimes, &torch).await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    submit(&stage, &trainjob("torch")).await;
    let status = until(&stage, "failed", |status| is(status, "Failed")).await;
    assert_eq!(status.conditions[0].reason, "TrainingRuntimeNotSupported");
    assert!(status.conditions[0].message.contains("PyTorch"), "{}", status.conditions[0].message);
    let listed = stage.names::<Job>().await;
    assert_eq!(listed, [""; 0], "nothing is made with the label {LABEL_TRAINJOB}");
}
