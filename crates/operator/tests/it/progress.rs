//! Programs report the progress of their jobs: which callers may, what is written, and the answers, which are those of
//! Trainer's status server.

use std::sync::Arc;

use api::{LABEL_JOB_NAME, LABEL_TRAINJOB, MPIJob, TrainJob, TrainerStatus};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use operator::progress::ProgressServer;
use plan::{ReportingKind, progress_audience, progress_path};
use serde_json::{Value, json};

use crate::stage::{Stage, job};

/// An endpoint on a stage with a job, all of whose kinds have the name `digits`, and pods.
struct Endpoint {
    stage: Stage,
    server: Arc<ProgressServer>,
    kind: ReportingKind,
}

impl Endpoint {
    /// With four pods: one of the job, one of none, one that only has the job's label, and one of a job that is gone.
    async fn new() -> Self {
        let stage = Stage::with_controllers().await;
        operator::install_trainjob_crds(&stage.client).await.unwrap();
        stage.until::<ServiceAccount>("default", "came", |_| true).await;
        let job = serde_json::from_value(crate::trainjobs::trainjob("once")).unwrap();
        let made = stage.api::<TrainJob>().create(&PostParams::default(), &job).await.unwrap();
        let server = Arc::new(ProgressServer::new(stage.client.clone()));
        let endpoint = Self { stage, server, kind: ReportingKind::TrainJob };
        let owner = json!(made.controller_owner_ref(&()));
        endpoint.create_pod("ours", json!({ LABEL_TRAINJOB: "digits" }), owner).await;
        endpoint.create_pod("other", json!({}), Value::Null).await;
        endpoint.create_pod("labelled", json!({ LABEL_TRAINJOB: "digits" }), Value::Null).await;
        endpoint.create_pod("left", json!({ LABEL_TRAINJOB: "gone" }), Value::Null).await;
        endpoint
    }

    async fn create_pod(&self, name: &str, labels: Value, owner: Value) {
        let owners: Vec<Value> = Some(owner).into_iter().filter(|owner| !owner.is_null()).collect();
        let pod = json!({ "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
            "spec": { "containers": [{ "name": "node", "image": "mpi" }] } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.stage.api().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// A pod's token for the progress of a job.
    async fn token(&self, pod: &str, job: &str) -> String {
        let audience = progress_audience(self.kind, &self.stage.namespace, job);
        self.token_for(pod, vec![audience]).await
    }

    async fn token_for(&self, pod: &str, audiences: Vec<String>) -> String {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audiences),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.to_owned()),
                    uid: None,
                }),
                expiration_seconds: None,
            }),
            ..TokenRequest::default()
        };
        let accounts = self.stage.api::<ServiceAccount>();
        let made = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token.unwrap()
    }

    async fn post(&self, job: &str, token: &str, body: impl Into<String>) -> (StatusCode, Value) {
        let path = progress_path(self.kind, &self.stage.namespace, job);
        let request = Request::post(path).header("authorization", format!("Bearer {token}"));
        let body = Full::new(body.into().into_bytes().into());
        let answer = self.server.clone().answer(request.body::<Full<bytes::Bytes>>(body).unwrap()).await;
        let (code, body) = (answer.status(), answer.into_body().collect().await.unwrap().to_bytes());
        (code, serde_json::from_slice(&body).unwrap())
    }
}

fn report(percent: i32) -> String {
    json!({ "trainerStatus": { "progressPercentage": percent, "estimatedRemainingSeconds": 7,
        "metrics": [{ "name": "loss", "value": "0.25" }], "lastUpdatedTime": "2026-01-01T00:00:00Z" } })
    .to_string()
}

#[tokio::test]
async fn a_report_is_written_into_the_status_and_returned() {
    let endpoint = Endpoint::new().await;
    let token = endpoint.token("ours", "digits").await;
    let (code, answer) = endpoint.post("digits", &token, report(40)).await;
    assert_eq!((code, answer), (StatusCode::OK, serde_json::from_str(&report(40)).unwrap()));
    let job = endpoint.stage.api::<TrainJob>().get("digits").await.unwrap();
    let written = job.status.as_ref().and_then(|status| status.trainer_status.clone()).unwrap();
    assert_eq!((written.progress_percentage, written.metrics[0].value.as_str()), (Some(40), "0.25"));
    let managers = job.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    assert!(managers.into_iter().any(|manager| manager == "trainer-status"));
    // A later report takes the place of the former one: what it leaves out is gone.
    let less = json!({ "progressPercentage": 50, "lastUpdatedTime": "2026-01-01T00:00:01Z" });
    let (code, _) = endpoint.post("digits", &token, json!({ "trainerStatus": less }).to_string()).await;
    let job = endpoint.stage.api::<TrainJob>().get("digits").await.unwrap();
    let later = job.status.as_ref().and_then(|status| status.trainer_status.clone()).unwrap();
    assert_eq!((code, later.progress_percentage, later.metrics.len()), (StatusCode::OK, Some(50), 0));
    assert_eq!(later.estimated_remaining_seconds, None);
    // Nothing to write.
    assert_eq!(endpoint.post("digits", &token, "{}").await, (StatusCode::OK, json!({})));
    let after = endpoint.stage.api::<TrainJob>().get("digits").await.unwrap();
    assert_eq!(after.resource_version(), job.resource_version());
}

#[tokio::test]
async fn only_a_pod_of_the_job_with_a_token_for_it_may_report() {
    let endpoint = Endpoint::new().await;
    let (ours, other) = (endpoint.token("ours", "digits").await, endpoint.token("other", "digits").await);
    let labelled = endpoint.token("labelled", "digits").await;
    let for_the_server = endpoint.token_for("ours", Vec::new()).await;
    let for_another_job = endpoint.token("ours", "other").await;
    for token in ["", "nonsense", &other, &labelled, &for_the_server, &for_another_job] {
        let (code, answer) = endpoint.post("digits", token, report(40)).await;
        assert_eq!((code, &answer["message"]), (StatusCode::FORBIDDEN, &json!("Forbidden")), "{token}");
    }
    assert_eq!(endpoint.stage.api::<TrainJob>().get("digits").await.unwrap().status, None);
    assert_eq!(endpoint.post("digits", &ours, report(40)).await.0, StatusCode::OK);
    // With its pod the token ends; a fresh server has no decision about it.
    endpoint.stage.api::<Pod>().delete("ours", &DeleteParams::default().grace_period(0)).await.unwrap();
    let server = Arc::new(ProgressServer::new(endpoint.stage.client.clone()));
    let endpoint = Endpoint { server, ..endpoint };
    assert_eq!(endpoint.post("digits", &ours, report(41)).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_wrong_report_is_answered_as_trainer_answers_it() {
    let endpoint = Endpoint::new().await;
    let token = endpoint.token("ours", "digits").await;
    let invalid = (StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge");
    let table = [
        ("not JSON".to_owned(), invalid, "Invalid payload"),
        (report(101), invalid, "progressPercentage"),
        (" ".repeat(1 << 16) + &report(40), too_large, "Payload too large"),
    ];
    for (body, (code, reason), words) in table {
        let (found, answer) = endpoint.post("digits", &token, body).await;
        assert_eq!((found, &answer["reason"]), (code, &json!(reason)), "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
        assert_eq!((&answer["status"], &answer["code"]), (&json!("Failure"), &json!(code.as_u16())));
    }
    let token = endpoint.token("left", "gone").await;
    let (code, answer) = endpoint.post("gone", &token, report(40)).await;
    assert_eq!((code, &answer["message"]), (StatusCode::NOT_FOUND, &json!("Train job not found")));
}

/// What is in the status of the MPIJob.
async fn written(stage: &Stage) -> Option<TrainerStatus> {
    stage.api::<MPIJob>().get("digits").await.unwrap().status?.trainer_status
}

#[tokio::test]
async fn the_pods_of_an_mpijob_report_and_pods_that_only_have_its_labels_do_not() {
    let stage = Stage::with_controllers().await;
    stage.until::<ServiceAccount>("default", "came", |_| true).await;
    let mpijob = stage.submit(&job("digits", 1, json!({}))).await;
    let labels = json!({ LABEL_JOB_NAME: "digits" });
    let launcher = json!({ "metadata": { "name": "digits-launcher", "ownerReferences": [mpijob.controller_owner_ref(&())] },
        "spec": { "template": { "metadata": { "labels": { LABEL_JOB_NAME: "digits", api::LABEL_JOB_ROLE: "launcher" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "mpi" }] } } } });
    let launcher: Job = serde_json::from_value(launcher).unwrap();
    stage.api().create(&PostParams::default(), &launcher).await.unwrap();
    let stranger = json!({ "metadata": { "name": "stranger" }, "spec": launcher.spec });
    let stranger: Job = serde_json::from_value(stranger).unwrap();
    stage.api().create(&PostParams::default(), &stranger).await.unwrap();
    let launcher = stage.pod_selected("batch.kubernetes.io/job-name=digits-launcher", &[]).await;
    let of_stranger = stage.pod_selected("batch.kubernetes.io/job-name=stranger", &[]).await;
    let server = Arc::new(ProgressServer::new(stage.client.clone()));
    let endpoint = Endpoint { stage, server, kind: ReportingKind::MpiJob };
    let owner = json!(mpijob.controller_owner_ref(&()));
    endpoint.create_pod("digits-worker-0", labels.clone(), owner.clone()).await;
    endpoint.create_pod("labelled", labels, Value::Null).await;
    endpoint.create_pod("owned", json!({}), owner).await;
    for pod in ["labelled", "owned", &of_stranger] {
        let (code, _) = endpoint.post("digits", &endpoint.token(pod, "digits").await, report(40)).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{pod}");
    }
    assert_eq!(written(&endpoint.stage).await, None);
    for (pod, percent) in [("digits-worker-0", 40), (&launcher, 50)] {
        let (code, answer) =
            endpoint.post("digits", &endpoint.token(pod, "digits").await, report(percent)).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(written(&endpoint.stage).await.unwrap().progress_percentage, Some(percent));
    }
    // A token for one kind of job is none for another of the same name.
    let token = endpoint.token("digits-worker-0", "digits").await;
    let endpoint = Endpoint { kind: ReportingKind::TrainJob, ..endpoint };
    assert_eq!(endpoint.post("digits", &token, report(60)).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_operators_status_of_an_mpijob_leaves_the_reported_progress_alone() {
    let stage = Stage::with_controllers().await;
    stage.until::<ServiceAccount>("default", "came", |_| true).await;
    let _operator = stage.operate_patiently(crate::gate::Gate::new(None));
    stage.submit(&job("digits", 1, json!({}))).await;
    // The first status is held back, and must not take away what is reported meanwhile.
    stage.until::<Pod>("digits-worker-0", "came", |_| true).await;
    let server = Arc::new(ProgressServer::new(stage.client.clone()));
    let endpoint = Endpoint { stage, server, kind: ReportingKind::MpiJob };
    let token = endpoint.token("digits-worker-0", "digits").await;
    assert_eq!(endpoint.post("digits", &token, report(40)).await.0, StatusCode::OK);
    let stage = &endpoint.stage;
    stage.start_worker("digits", 0).await;
    let launcher = stage.launcher_pod("digits", &[]).await;
    stage.set_pod(&launcher, crate::stage::running("main")).await;
    let status = stage.until_true("digits", "Running").await;
    assert_eq!(status.trainer_status.unwrap().progress_percentage, Some(40));
    stage.set_pod(&launcher, crate::stage::ended("main", "Succeeded", 0)).await;
    let status = stage.until_true("digits", "Succeeded").await;
    assert_eq!(status.trainer_status.unwrap().progress_percentage, Some(40));
}
