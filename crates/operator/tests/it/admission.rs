//! Admission on the embedded cluster's API: what the webhook refuses, fills in, warns about, counts and logs.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use api::{ANNOTATION_MAX_CONCURRENT_JOBS, MPIJob};
use futures::future::{BoxFuture, join_all};
use http::Request;
use http_body_util::BodyExt;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use operator::Vitals;
use operator::certificates::load_or_make;
use operator::webhook::{
    Admission, KUEUE_ACCOUNTS, Reporter, Sink, Unrecorded, WEBHOOK_NAME, Webhook, WebhookAddress,
    on_loopback, put_in_place, trust,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::stage::{PATIENCE, Stage, job};

/// Returns a stage whose API server calls the webhook.
async fn guarded() -> (Stage, Vitals) {
    let (stage, vitals) = (Stage::new().await, Vitals::default());
    stage.in_namespace("kube-system").await;
    let (callers, stop) = (stage.webhook_authority(), CancellationToken::new());
    let served = on_loopback(
        &stage.client,
        &stage.client,
        "kube-system",
        callers.as_deref(),
        true,
        None,
        (vitals.clone(), stop),
    );
    served.await.unwrap();
    (stage, vitals)
}

async fn limit(stage: &Stage, jobs: &str) {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let patch = json!({ "metadata": { "annotations": { ANNOTATION_MAX_CONCURRENT_JOBS: jobs } } });
    namespaces.patch(&stage.namespace, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn create(stage: &Stage, job: &Value) -> Result<MPIJob, Box<kube::core::Status>> {
    let job = serde_json::from_value(job.clone()).unwrap();
    match stage.api::<MPIJob>().create(&PostParams::default(), &job).await {
        Ok(job) => Ok(job),
        Err(kube::Error::Api(status)) => Err(status),
        Err(other) => panic!("{other}"),
    }
}

/// Returns a job with faults that the CRD's rules accept.
fn faulty(name: &str) -> Value {
    let mut faulty = job(name, 1, json!({}));
    faulty["metadata"]["annotations"] =
        json!({ api::ANNOTATION_LAUNCH: "pigeon", api::ANNOTATION_START_TIMEOUT: "soon" });
    faulty
}

/// Returns the address of this stage's webhook.
async fn address(stage: &Stage) -> String {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let configuration = configurations.get(WEBHOOK_NAME).await.unwrap();
    let url = configuration.webhooks.unwrap().remove(0).client_config.url.unwrap();
    url.strip_prefix("https://").unwrap().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn silent_connections_do_not_stop_admission() {
    let (stage, _) = guarded().await;
    let address = address(&stage).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    create(&stage, &job("pi", 1, json!({}))).await.unwrap();
}

#[tokio::test]
async fn an_invalid_job_is_refused_with_every_fault() {
    let (stage, vitals) = guarded().await;
    let refused = create(&stage, &faulty("pi")).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{refused:?}");
    for part in
        ["create.mpijobs.training.opendatahub.io", api::ANNOTATION_LAUNCH, api::ANNOTATION_START_TIMEOUT]
    {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    create(&stage, &job("pi", 1, json!({}))).await.unwrap();
    let patch = json!({ "metadata": { "annotations": { api::ANNOTATION_LAUNCH: "pigeon" } } });
    let jobs = stage.api::<MPIJob>();
    let refused = jobs.patch("pi", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap_err();
    assert!(refused.to_string().contains("pigeon"), "{refused}");
    let shown = vitals.metrics.show(operator::Format::Text).unwrap();
    assert!(
        shown.contains("admission_reviews_total{operation=\"CREATE\",decision=\"refused\"} 1"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_job_of_too_many_parts_is_refused_with_the_limit() {
    let (stage, _) = guarded().await;
    let mut large = job("pi", 1, json!({}));
    let variable = |number: usize| json!({ "name": format!("E{number}"), "value": "y" });
    container_of(&mut large)["env"] = (0..4_000).map(variable).collect();
    create(&stage, &large).await.unwrap();
    container_of(&mut large)["env"] = (0..31_000).map(variable).collect();
    large["metadata"]["name"] = json!("larger");
    let refused = create(&stage, &large).await.unwrap_err();
    assert_eq!(refused.code, 422, "{}", refused.message);
    assert!(refused.message.contains("more than 30000 objects and lists"), "{}", refused.message);
    // What is there, and too large to be checked with its former state, can be changed and deleted.
    stage.change_job("pi", json!({ "metadata": { "labels": { "looked-at": "yes" } } })).await;
    stage.api::<MPIJob>().delete("pi", &DeleteParams::default()).await.unwrap();
}

fn container_of(job: &mut Value) -> &mut Value {
    &mut job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
}

#[tokio::test]
async fn an_invalid_job_from_before_the_webhook_can_still_be_touched_and_deleted() {
    let stage = Stage::new().await;
    create(&stage, &faulty("pi")).await.unwrap();
    let (vitals, stop) = (Vitals::default(), CancellationToken::new());
    on_loopback(&stage.client, &stage.client, "kube-system", None, false, None, (vitals, stop))
        .await
        .unwrap();
    let patch = json!({ "metadata": { "labels": { "looked-at": "yes" } } });
    stage.change_job("pi", patch).await;
    let patch = json!({ "metadata": { "annotations": { "example.com/looked-at": "yes" } } });
    stage.change_job("pi", patch).await;
    stage.api::<MPIJob>().delete("pi", &DeleteParams::default()).await.unwrap();
}

/// A controller with Go's types gets a job and updates it to add a label: quantities are rewritten, empty fields
/// are dropped or filled in.
#[tokio::test]
async fn a_typed_client_may_update_a_job_that_it_has_read() {
    let (stage, _) = guarded().await;
    let mut written = job("pi", 2, json!({}));
    for role in ["Launcher", "Worker"] {
        let template = &mut written["spec"]["mpiReplicaSpecs"][role]["template"];
        template["metadata"] = json!({ "labels": {} });
        let container = &mut template["spec"]["containers"][0];
        container["resources"] = json!({ "limits": { "cpu": 1, "memory": "1024Mi" } });
        container["env"] = json!([{ "name": "EMPTY", "value": "" }]);
        let containers = template["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({ "name": "side", "image": "i" }));
    }
    let path = format!("/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs", stage.namespace);
    let send = |method: &str, path: &str, body: &Value| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).unwrap();
        let client = stage.client.clone();
        async move { client.request::<Value>(request).await }
    };
    let mut read = send("POST", &path, &written).await.unwrap();
    read["metadata"]["labels"] = json!({ "seen": "yes" });
    for role in ["Launcher", "Worker"] {
        let template = &mut read["spec"]["mpiReplicaSpecs"][role]["template"];
        template["metadata"] = json!({ "creationTimestamp": null });
        let containers = template["spec"]["containers"].as_array_mut().unwrap();
        containers[0]["resources"] = json!({ "limits": { "cpu": "1", "memory": "1Gi" } });
        containers[0]["env"] = json!([{ "name": "EMPTY" }]);
        containers[1]["resources"] = json!({});
    }
    let mut updated = send("PUT", &format!("{path}/pi"), &read).await.unwrap();
    assert_eq!(updated["metadata"]["labels"]["seen"], "yes");
    let limits = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources/limits";
    updated.pointer_mut(limits).unwrap()["memory"] = json!("2Gi");
    let refused = send("PUT", &format!("{path}/pi"), &updated).await.unwrap_err().to_string();
    assert!(refused.contains("Worker].template.spec.containers: cannot be changed"), "{refused}");
}

#[tokio::test]
async fn the_webhook_fills_in_defaults() {
    let (stage, _) = guarded().await;
    let mut job = job("pi", 2, json!({}));
    job["metadata"]["annotations"] = json!({ api::ANNOTATION_OWNER: "ceo" });
    let stored = create(&stage, &job).await.unwrap();
    let launcher = &stored.spec.mpi_replica_specs["Launcher"];
    assert_eq!((launcher.replicas, launcher.restart_policy.as_deref()), (Some(1), Some("OnFailure")));
    assert_eq!(stored.spec.mpi_replica_specs["Worker"].restart_policy.as_deref(), Some("Never"));
    assert_eq!(stored, plan::defaulted(&stored), "nothing is left to fill in");
    assert_eq!(plan::owner(&stored.metadata), Some("kubernetes-admin"), "the user who created it");
}

#[tokio::test]
async fn a_dry_run_refuses_what_the_server_would_refuse_of_the_pods() {
    let (stage, _) = guarded().await;
    let mut job = job("pi", 2, json!({}));
    let amounts = json!({ "limits": { "memory": "1Gi" }, "requests": { "memory": "2Gi" } });
    let container = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0";
    job.pointer_mut(container).unwrap()["resources"] = amounts;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let tried = async |job: &Value| {
        let job = serde_json::from_value(job.clone()).unwrap();
        stage.api::<MPIJob>().create(&dry, &job).await
    };
    let Err(kube::Error::Api(refused)) = tried(&job).await else { panic!("the dry run found no fault") };
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{refused:?}");
    let field = "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].resources.requests";
    assert_eq!(
        refused.message.matches(field).count(),
        1,
        "of two Workers that are alike: {}",
        refused.message
    );
    assert!(!refused.message.contains("[Launcher]"), "{}", refused.message);
    job.pointer_mut(container).unwrap()["resources"]["limits"]["memory"] = json!("2Gi");
    tried(&job).await.unwrap();
    assert!(stage.names::<MPIJob>().await.is_empty(), "nothing was created");
}

#[tokio::test]
async fn settings_that_work_differently_than_expected_cause_warnings() {
    let (stage, _) = guarded().await;
    let mut job = job("pi", 2, json!({}));
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"] =
        json!(["mpirun", "-np", "9", "pi"]);
    let request = Request::post(format!("/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs", stage.namespace))
        .header("content-type", "application/json")
        .body(kube::client::Body::from(job.to_string().into_bytes()))
        .unwrap();
    let answer = stage.client.send(request).await.unwrap();
    assert_eq!(answer.status(), 201);
    let warnings: Vec<&str> =
        answer.headers().get_all("warning").iter().map(|warning| warning.to_str().unwrap()).collect();
    for said in ["mpirun requests 9 ranks", "may be a different image", "resources.limits"] {
        assert!(warnings.iter().any(|warning| warning.contains(said)), "{said}: {warnings:?}");
    }
}

#[tokio::test]
async fn no_more_jobs_run_at_once_than_the_namespace_allows() {
    let (stage, _) = guarded().await;
    limit(&stage, "3").await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let trial = serde_json::from_value(job("trial", 1, json!({}))).unwrap();
    stage.api::<MPIJob>().create(&dry, &trial).await.unwrap();
    let jobs: Vec<Value> = (0..12).map(|n| job(&format!("pi-{n}"), 1, json!({}))).collect();
    let outcomes = join_all(jobs.iter().map(|job| create(&stage, job))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    for refused in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(refused.code, 403, "{refused:?}");
        assert!(refused.message.ends_with("Quota exceeded: 3/3 jobs running"), "{}", refused.message);
    }
    // A suspended job takes no place, and cannot be resumed while there is none.
    create(&stage, &job("held", 1, json!({ "suspend": true }))).await.unwrap();
    let resume = Patch::Merge(json!({ "spec": { "runPolicy": { "suspend": false } } }));
    let jobs = stage.api::<MPIJob>();
    let refused = jobs.patch("held", &PatchParams::default(), &resume).await.unwrap_err();
    assert!(refused.to_string().contains("Quota exceeded: 3/3 jobs running"), "{refused}");
    // A job that has ended frees its place.
    let ran =
        outcomes.iter().find_map(|outcome| outcome.as_ref().ok()).unwrap().metadata.name.clone().unwrap();
    let ended = json!({ "status": { "completionTime": "2026-01-01T00:00:00Z", "conditions": [
        { "type": "Succeeded", "status": "True" }] } });
    jobs.patch_status(&ran, &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    jobs.patch("held", &PatchParams::default(), &resume).await.unwrap();
}

/// Returns a request of Kueue's own account to resume a job. It has all rights here: what it may do is decided by Kueue's
/// installation.
fn resume_by_kueue(stage: &Stage, name: &str) -> Request<Vec<u8>> {
    let path = format!("/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs/{name}", stage.namespace);
    Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .header("impersonate-user", KUEUE_ACCOUNTS[0])
        .header("impersonate-group", "system:masters")
        .body(json!({ "spec": { "runPolicy": { "suspend": false } } }).to_string().into_bytes())
        .unwrap()
}

#[tokio::test]
async fn a_job_that_kueue_resumes_is_not_refused_and_counts() {
    let (stage, _) = guarded().await;
    limit(&stage, "1").await;
    create(&stage, &job("first", 1, json!({}))).await.unwrap();
    let mut queued = job("queued", 1, json!({ "suspend": true }));
    queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
    create(&stage, &queued).await.unwrap();
    stage.client.request::<Value>(resume_by_kueue(&stage, "queued")).await.unwrap();
    let refused = create(&stage, &job("next", 1, json!({}))).await.unwrap_err();
    assert!(refused.message.ends_with("Quota exceeded: 2/1 jobs running"), "{}", refused.message);
}

#[tokio::test]
async fn a_person_who_resumes_a_job_of_a_queue_is_held_to_the_limit() {
    let (stage, _) = guarded().await;
    limit(&stage, "1").await;
    let mut queued = job("queued", 1, json!({ "suspend": true }));
    queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "anything" });
    create(&stage, &queued).await.unwrap();
    create(&stage, &job("first", 1, json!({}))).await.unwrap();
    let resume = Patch::Merge(json!({ "spec": { "runPolicy": { "suspend": false } } }));
    let jobs = stage.api::<MPIJob>();
    let refused = jobs.patch("queued", &PatchParams::default(), &resume).await.unwrap_err().to_string();
    for part in ["Quota exceeded: 1/1 jobs running", "--kueue-accounts"] {
        assert!(refused.contains(part), "{refused}");
    }
    let ended = json!({ "status": { "completionTime": "2026-01-01T00:00:00Z", "conditions": [
        { "type": "Succeeded", "status": "True" }] } });
    jobs.patch_status("first", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    jobs.patch("queued", &PatchParams::default(), &resume).await.unwrap();
    let refused = create(&stage, &job("next", 1, json!({}))).await.unwrap_err();
    assert!(refused.message.ends_with("Quota exceeded: 1/1 jobs running"), "{}", refused.message);
}

/// Returns whether a webhook admits a creation.
async fn admits(webhook: &Arc<Webhook>, namespace: &str, name: &str) -> bool {
    let request = json!({ "uid": name, "operation": "CREATE", "namespace": namespace, "name": name,
        "userInfo": { "username": "ada" }, "object": job(name, 1, json!({})) });
    let review =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    let request =
        Request::post("/validate").body(kube::client::Body::from(review.to_string().into_bytes())).unwrap();
    let answer = webhook.clone().answer(request).await;
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["response"]["allowed"] == true
}

#[tokio::test]
async fn a_job_that_is_admitted_and_never_stored_keeps_no_place_from_others() {
    let (stage, _) = guarded().await;
    limit(&stage, "1").await;
    let forged = Arc::new(Webhook::new(stage.client.clone(), "kube-system", Vitals::default()));
    assert!(admits(&forged, &stage.namespace, "ghost").await);
    create(&stage, &job("pi", 1, json!({}))).await.unwrap();
    // That job is stored.
    let refused = create(&stage, &job("second", 1, json!({}))).await.unwrap_err();
    assert!(refused.message.ends_with("Quota exceeded: 1/1 jobs running"), "{}", refused.message);
}

#[tokio::test]
async fn reviews_that_come_at_once_share_a_list_of_jobs() {
    let stage = Stage::new().await;
    stage.in_namespace("kube-system").await;
    limit(&stage, "8").await;
    let gate = Gate::new(None);
    let webhook = Arc::new(Webhook::new(stage.client_behind(&gate), "kube-system", Vitals::default()));
    let names: Vec<String> = (0..8).map(|number| format!("pi-{number}")).collect();
    let admitted = join_all(names.iter().map(|name| admits(&webhook, &stage.namespace, name))).await;
    assert_eq!(admitted, [true; 8]);
    let lists = gate.lists_of(&format!("/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs", stage.namespace));
    assert!((1..=3).contains(&lists), "{lists} lists for 8 reviews");
}

/// Two replicas are asked at the same time, before any job that they admit is stored.
#[tokio::test]
async fn two_webhooks_do_not_both_give_the_last_place_away() {
    let stage = Stage::new().await;
    stage.in_namespace("kube-system").await;
    limit(&stage, "5").await;
    let replica = || Arc::new(Webhook::new(stage.client.clone(), "kube-system", Vitals::default()));
    let replicas = [replica(), replica()];
    let ask = async |number: usize| {
        let name = format!("pi-{number}");
        let allowed = admits(&replicas[number % 2], &stage.namespace, &name).await;
        if allowed {
            create(&stage, &job(&name, 1, json!({}))).await.unwrap();
        }
        allowed
    };
    let allowed = join_all((0..16).map(ask)).await;
    assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 5);
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "kube-system");
    assert_eq!(leases.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_request_is_logged_for_audit() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
    // For the whole process: a thread's own subscriber misses call sites that another thread's test logged first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (stage, _) = guarded().await;
    let stage = stage.in_namespace("audited").await;
    create(&stage, &faulty("bad")).await.unwrap_err();
    create(&stage, &job("pi", 1, json!({}))).await.unwrap();
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.api::<MPIJob>().delete("pi", &DeleteParams::default()).await.unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let audit: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["target"] == "audit" && line["namespace"] == "audited")
        .collect();
    let told: Vec<(&str, &str, bool, &str)> = audit
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap();
            assert_eq!((text("user"), text("namespace")), ("kubernetes-admin", "audited"), "{line}");
            assert_eq!(line["caller_authenticated"], stage.webhook_authority().is_some(), "{line}");
            (text("operation"), text("job"), line["allowed"] == true, text("fields"))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("CREATE", "bad", false, ""),
            ("CREATE", "pi", true, ""),
            ("UPDATE", "pi", true, "spec.runPolicy.suspend"),
            ("DELETE", "pi", true, ""),
        ]
    );
}

#[tokio::test]
async fn replicas_share_a_certificate_and_renew_it_in_time() {
    let stage = Stage::new().await;
    let names = ["mpi-operator.team.svc".to_owned()];
    let now = Timestamp::now();
    let load = async |now: Timestamp| load_or_make(&stage.client, "team", "tls", &names, now).await.unwrap();
    let (first, second) = tokio::join!(load(now), load(now));
    assert_eq!(first.authorities, second.authorities, "the first one decides");
    let renewed = load(now + (300 * 24).hours()).await;
    assert!(
        renewed.authorities.contains(first.authorities.trim()) && renewed.authorities != first.authorities
    );
    let secret = stage.api::<Secret>().get("tls").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));

    let address = WebhookAddress::Service { namespace: "team".to_owned(), name: "mpi-operator".to_owned() };
    put_in_place(&stage.client, &address, "", true).await.unwrap();
    trust(&stage.client, &renewed.authorities, true).await.unwrap();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(stage.client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let before = validating.get(WEBHOOK_NAME).await.unwrap();
    let bundles = before.webhooks.iter().flatten().map(|hook| hook.client_config.ca_bundle.clone());
    let mutating = mutating.get(WEBHOOK_NAME).await.unwrap().webhooks.unwrap();
    for bundle in bundles.chain([mutating[0].client_config.ca_bundle.clone()]) {
        assert_eq!(bundle.unwrap().0, renewed.authorities.as_bytes());
    }
    trust(&stage.client, &renewed.authorities, true).await.unwrap();
    let after = validating.get(WEBHOOK_NAME).await.unwrap();
    assert_eq!(
        before.metadata.resource_version, after.metadata.resource_version,
        "nothing was to be written"
    );
}

/// Keeps reports, after it was away once.
#[derive(Default)]
pub struct Log {
    was_away: AtomicBool,
    reports: Mutex<Vec<Admission>>,
    moved: Notify,
}

impl Log {
    /// One that is never away.
    pub fn present() -> Self {
        Self { was_away: AtomicBool::new(true), ..Self::default() }
    }

    /// Waits for this many reports.
    pub async fn reported(&self, count: usize) -> Vec<Admission> {
        while self.reports.lock().unwrap().len() < count {
            tokio::time::timeout(PATIENCE, self.moved.notified()).await.unwrap();
        }
        self.reports.lock().unwrap().clone()
    }
}

impl Sink for Log {
    fn record(&self, admissions: Vec<Admission>) -> BoxFuture<'_, Result<Vec<String>, Unrecorded>> {
        Box::pin(async move {
            if !self.was_away.swap(true, Ordering::SeqCst) {
                return Err(Unrecorded::Failed("the service is away".to_owned()));
            }
            self.reports.lock().unwrap().extend(admissions);
            self.moved.notify_one();
            Ok(Vec::new())
        })
    }
}

#[tokio::test]
async fn each_write_is_reported_with_its_user_also_after_the_audit_log_was_away() {
    let stage = Stage::new().await;
    stage.in_namespace("kube-system").await;
    let (log, stop) = (Arc::new(Log::default()), CancellationToken::new());
    let (reporter, reporting) = Reporter::new(log.clone(), stop.clone());
    tokio::spawn(reporting);
    let (client, parts) = (&stage.client, (Vitals::default(), stop));
    on_loopback(client, client, "kube-system", None, false, Some(reporter), parts).await.unwrap();
    let mut job = job("pi", 1, json!({}));
    job["metadata"]["annotations"] = json!({ api::ANNOTATION_REQUEST: "request-1" });
    create(&stage, &job).await.unwrap();
    let jobs = stage.api::<MPIJob>();
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let suspend = Patch::Merge(json!({ "spec": { "runPolicy": { "suspend": true } } }));
    jobs.patch("pi", &dry, &suspend).await.unwrap();
    let labels = Patch::Merge(json!({ "metadata": { "labels": { "team": "vision" } } }));
    jobs.patch("pi", &PatchParams::default(), &labels).await.unwrap();
    jobs.patch("pi", &PatchParams::default(), &suspend).await.unwrap();
    let cancel = Patch::Merge(json!({ "metadata": { "annotations": { api::ANNOTATION_CANCEL: "true" } } }));
    jobs.patch("pi", &PatchParams::default(), &cancel).await.unwrap();
    let other = Patch::Merge(json!({ "metadata": { "annotations": { api::ANNOTATION_OWNER: "boss" } } }));
    let refused = jobs.patch("pi", &PatchParams::default(), &other).await.unwrap_err().to_string();
    assert!(refused.contains("the owner of a job cannot be changed"), "{refused}");
    create(&stage, &faulty("bad")).await.unwrap_err();
    jobs.delete("pi", &DeleteParams::default()).await.unwrap();
    let reports = log.reported(6).await;
    let seen: Vec<_> = reports
        .iter()
        .map(|report| (report.verb.as_str(), report.name.as_str(), report.request.as_str(), report.status))
        .collect();
    let expected = [
        ("create", "pi", "request-1", None),
        ("update", "pi", "request-1", None),
        ("update", "pi", "request-1", None),
        ("update", "pi", "request-1", Some(422)),
        ("create", "bad", "", Some(422)),
        ("delete", "pi", "", None),
    ];
    assert_eq!(seen, expected);
    let changed: Vec<&str> = reports[1..3].iter().map(|report| report.reason.as_str()).collect();
    assert_eq!(changed, ["spec.runPolicy.suspend", "metadata.annotations[training.opendatahub.io/cancel]"]);
    assert!(reports.iter().all(|report| !report.user.is_empty() && report.resource == "mpijobs"));
}
