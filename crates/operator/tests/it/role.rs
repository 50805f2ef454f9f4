//! The permissions that `deploy/` grants the operator are those that it uses. The operator runs here under its
//! service account, bound as there, and each request is recorded: a missing permission is refused, and an unused
//! one fails the test.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use api::MPIJob;
use cluster::apiserver::Endpoint;
use cluster::apiserver::auth::UserInfo;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, Service as CoreService};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use operator::Vitals;
use operator::certificates::load_or_make;
use operator::lease::{LEASE_DURATION, Lease};
use operator::monitor::{Access, Reviewer, answer_metrics};
use operator::webhook::{Webhook, WebhookAddress, put_in_place, trust};
use plan::Gang;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::{BoxError, Service};

use crate::gangs::until as until_group;
use crate::stage::{Stage, ended, job, running};

/// The namespace and the service account of `deploy/`.
const HOME: &str = "mpi-operator";
/// Granted for a check by the server itself (OwnerReferencesPermissionEnforcement), never requested.
const NEVER_ASKED: (&str, &str, &str) = ("update", "kubeflow.org", "mpijobs/finalizers");

/// A verb, a group and a resource.
type Permission = (String, String, String);

/// The API with the operator's service account, and a record of its requests.
#[derive(Clone)]
struct Recorded {
    inner: Endpoint,
    calls: Arc<Mutex<BTreeSet<Permission>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<Body>> for Recorded {
    type Response = Response<cluster::apiserver::Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut inner, refused) = (self.inner.clone(), self.refused.clone());
        let line = format!("{} {}", request.method(), request.uri());
        self.calls.lock().unwrap().extend(name_call(&request));
        async move {
            let answer = inner.call(request).await?;
            if answer.status() == 403 {
                refused.lock().unwrap().push(line);
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// `None` for discovery, which everybody may read.
fn name_call(request: &Request<Body>) -> Option<Permission> {
    let parts: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", _, _] => return None,
        ["apis", group, _, rest @ ..] => (*group, rest),
        other => panic!("no resource: {other:?}"),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
    let verb = match (request.method().as_str(), rest.len()) {
        ("GET", _) if watches => "watch",
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", 2) => "delete",
        other => panic!("{other:?}"),
    };
    let resource = match rest {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [] => panic!("no resource"),
    };
    Some((verb.to_owned(), group.to_owned(), resource))
}

/// The documents of a part's `role.yaml` in `deploy/`.
fn deployed(part: &str) -> Vec<Value> {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let path = format!("{deploy}/{part}/role.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect()
}

/// Returns what they grant.
fn granted(documents: &[Value]) -> BTreeSet<Permission> {
    let mut granted = BTreeSet::new();
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    for rule in documents.iter().filter_map(|document| document["rules"].as_array()).flatten() {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    granted.insert((verb, group.clone(), resource.clone()));
                }
            }
        }
    }
    granted
}

/// Creates one of the documents, in the namespace if it is namespaced.
async fn create(stage: &Stage, document: &Value, namespace: &str) {
    let object: DynamicObject = serde_json::from_value(document.clone()).unwrap();
    let kind = document["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind));
    let objects: Api<DynamicObject> = if kind.starts_with("Cluster") {
        Api::all_with(stage.client.clone(), &resource)
    } else {
        Api::namespaced_with(stage.client.clone(), namespace, &resource)
    };
    objects.create(&PostParams::default(), &object).await.unwrap();
}

/// The operator's account on a stage.
struct Account {
    client: Client,
    recorded: Recorded,
}

impl Account {
    fn new(stage: &Stage) -> Self {
        let inner = stage.endpoint_of(UserInfo::account(HOME, HOME));
        let recorded = Recorded { inner, calls: Arc::default(), refused: Arc::default() };
        Self { client: Client::new(recorded.clone(), "default"), recorded }
    }

    fn operate(&self, namespace: Option<&str>) -> JoinHandle<Result<(), operator::Error>> {
        self.operate_with(namespace, None)
    }

    fn operate_with(
        &self,
        namespace: Option<&str>,
        gang: Option<Gang>,
    ) -> JoinHandle<Result<(), operator::Error>> {
        let plan = plan::Settings { gang, ..plan::Settings::default() };
        let namespace = namespace.map(str::to_owned);
        let settings = operator::Settings { namespace, plan, ..operator::Settings::default() };
        let run = operator::operate(self.client.clone(), settings, Vitals::default(), std::future::pending());
        tokio::spawn(run)
    }

    fn operate_trainjobs(&self) -> JoinHandle<Result<(), operator::Error>> {
        let settings = operator::Settings { trainjobs: true, ..operator::Settings::default() };
        let run = operator::operate(self.client.clone(), settings, Vitals::default(), std::future::pending());
        tokio::spawn(run)
    }

    fn refused(&self) -> Vec<String> {
        self.recorded.refused.lock().unwrap().clone()
    }
}

/// Starts every pod of a job of one Worker; returns the Launcher's.
async fn start(stage: &Stage, name: &str) -> String {
    stage.start_worker(name, 0).await;
    let launcher = stage.launcher_pod(name, &[]).await;
    stage.set_pod(&launcher, running("main")).await;
    stage.until_true(name, "Running").await;
    launcher
}

/// A job that another process has begun, with an incomplete Secret and a NetworkPolicy.
async fn begin_elsewhere(stage: &Stage) {
    let begun = stage.submit(&isolated("begun")).await;
    let created = json!({ "status": { "conditions": [{ "type": "Created", "status": "True" }] } });
    stage
        .api::<MPIJob>()
        .patch_status("begun", &PatchParams::default(), &Patch::Merge(created))
        .await
        .unwrap();
    let secret = json!({ "metadata": { "name": "begun-ssh", "ownerReferences": [begun.controller_owner_ref(&()).unwrap()] },
        "stringData": { "ssh-publickey": "" } });
    let secret = serde_json::from_value(secret).unwrap();
    stage.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let policy = json!({ "metadata": { "name": "begun", "ownerReferences": [begun.controller_owner_ref(&()).unwrap()] },
        "spec": { "podSelector": {} } });
    let policy = serde_json::from_value(policy).unwrap();
    stage.api::<NetworkPolicy>().create(&PostParams::default(), &policy).await.unwrap();
}

/// Returns a job that requests a NetworkPolicy.
fn isolated(name: &str) -> Value {
    let mut isolated = job(name, 1, json!({}));
    isolated["metadata"]["annotations"] = json!({ api::ANNOTATION_NETWORK_POLICY: "isolated" });
    isolated
}

/// Everything that can happen to a job.
async fn live(stage: &Stage) {
    // Taken over, isolated, scaled down, its Service repaired.
    start(stage, "begun").await;
    stage.submit(&isolated("alone")).await;
    stage.until::<NetworkPolicy>("alone", "came", |_| true).await;
    stage
        .change_job("begun", json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": 2 } } } }))
        .await;
    stage.start_worker("begun", 1).await;
    stage
        .change_job("begun", json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": 1 } } } }))
        .await;
    stage.until_gone::<Pod>("begun-worker-1").await;
    let bent = json!({ "spec": { "publishNotReadyAddresses": true } });
    stage.api::<CoreService>().patch("begun", &PatchParams::default(), &Patch::Merge(bent)).await.unwrap();
    stage
        .until::<CoreService>("begun", "was mended", |service| {
            service.spec.as_ref().unwrap().publish_not_ready_addresses != Some(true)
        })
        .await;
    // A foreign object has a name that the job needs, which is reported more than once.
    let stranger = json!({ "metadata": { "name": "taken" }, "spec": { "clusterIP": "None" } });
    let stranger = serde_json::from_value(stranger).unwrap();
    stage.api::<CoreService>().create(&PostParams::default(), &stranger).await.unwrap();
    stage.submit(&job("taken", 1, json!({}))).await;
    stage.until_event_is("taken", "ErrResourceExists", |event| event.count.unwrap_or(0) > 1).await;
    stage.api::<MPIJob>().delete("taken", &DeleteParams::default()).await.unwrap();
    // A Worker is lost.
    stage.api::<Pod>().delete("begun-worker-0", &DeleteParams::default()).await.unwrap();
    stage.until_true("begun", "Failed").await;
    // The Launcher fails, and its log says why.
    stage.submit(&job("fails", 1, json!({ "backoffLimit": 0 }))).await;
    let launcher = start(stage, "fails").await;
    stage.set_pod(&launcher, ended("main", "Failed", 1)).await;
    stage.until_true("fails", "Failed").await;
    // Its Worker's node is lost, and the gang is restarted.
    let node = json!({ "metadata": { "name": "lost" },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let mut again = job("again", 1, json!({}));
    again["metadata"]["annotations"] = json!({ api::ANNOTATION_MAX_GANG_RESTARTS: "1" });
    again["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeName"] = json!("lost");
    stage.submit(&again).await;
    start(stage, "again").await;
    let mut silent = running("main");
    silent["conditions"][1]["status"] = json!("False");
    stage.set_pod("again-worker-0", silent).await;
    stage
        .until::<Job>("again-launcher", "was created again", |job| plan::attempt_of(&job.metadata) == 2)
        .await;
    // It waits for GPUs, which are counted.
    let mut waits = job("waits", 1, json!({}));
    waits["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "nvidia.com/gpu": 8 } });
    stage.submit(&waits).await;
    stage.until::<Pod>("waits-worker-0", "came", |_| true).await;
    stage.set_pod("waits-worker-0", crate::stage::without_gpus()).await;
    let numbers = "Insufficient GPUs: requested 8, available 0";
    let said = |job: &MPIJob| {
        let waiting = job.status.as_ref().and_then(|status| status.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.message == numbers)
    };
    stage.until("waits", "said what it waits for", said).await;
    // Suspended and resumed.
    stage.submit(&job("held", 1, json!({}))).await;
    let launcher = start(stage, "held").await;
    stage.change_job("held", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.until_true("held", "Suspended").await;
    stage.until_gone::<Pod>(&launcher).await;
    stage.change_job("held", json!({ "spec": { "runPolicy": { "suspend": false } } })).await;
    let resumed = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(false);
    stage.until("held-launcher", "was resumed", resumed).await;
    // Removed after its time.
    stage.submit(&job("ends", 1, json!({ "ttlSecondsAfterFinished": 1 }))).await;
    let launcher = start(stage, "ends").await;
    stage.set_pod(&launcher, ended("main", "Succeeded", 0)).await;
    stage.until_gone::<MPIJob>("ends").await;
}

/// What the program does besides its passes.
async fn serve(stage: &Stage, client: &Client) {
    let lease = Lease::new(client.clone(), HOME, LEASE_DURATION).unwrap();
    lease.acquire().await;
    lease.release().await;
    let address = WebhookAddress::Service { namespace: HOME.to_owned(), name: HOME.to_owned() };
    put_in_place(&stage.client, &address, "", false).await.unwrap();
    let now = jiff::Timestamp::now();
    let names = ["mpi-operator.mpi-operator.svc".to_owned()];
    for days in [0, 300] {
        let later = now + jiff::SignedDuration::from_hours(24 * days);
        let kept = load_or_make(client, HOME, "mpi-operator-webhook-tls", &names, later).await.unwrap();
        trust(client, &kept.authorities, false).await.unwrap();
    }
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(stage.client.clone());
    let limit = json!({ "metadata": { "annotations": { api::ANNOTATION_MAX_CONCURRENT_JOBS: "100" } } });
    namespaces.patch(&stage.namespace, &PatchParams::default(), &Patch::Merge(limit)).await.unwrap();
    let webhook = Arc::new(Webhook::new(client.clone(), HOME, Vitals::default()));
    for name in ["one", "two"] {
        let request = json!({ "uid": name, "operation": "CREATE", "namespace": stage.namespace, "name": name,
            "object": job(name, 1, json!({})) });
        let request = Request::post("/validate")
            .body(Body::from(json!({ "request": request }).to_string().into_bytes()));
        let answer = webhook.clone().answer(request.unwrap()).await;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("\"allowed\":true"), "{body:?}");
    }
    let access = Arc::new(Access::Reviewed(Box::new(Reviewer::new(client.clone()))));
    let request = Request::get("/metrics").header("authorization", "Bearer token").body(()).unwrap();
    assert_eq!(answer_metrics(Vitals::default(), access, request).await.status(), 200);
}

#[tokio::test]
async fn the_role_is_what_is_asked_for() {
    let stage = Stage::with_controllers_and_token("token").await;
    stage.add_node("node", Some("mpirun was unable to launch the specified application\n"));
    stage.in_namespace(HOME).await;
    let documents = deployed("base");
    for document in &documents {
        create(&stage, document, HOME).await;
    }
    begin_elsewhere(&stage).await;
    let account = Account::new(&stage);
    let operator = account.operate(None);
    live(&stage).await;
    serve(&stage, &account.client).await;
    operator.abort();
    assert_eq!(account.refused(), Vec::<String>::new(), "the role grants too little");
    let mut granted = granted(&documents);
    let (verb, group, resource) = NEVER_ASKED;
    assert!(granted.remove(&(verb.to_owned(), group.to_owned(), resource.to_owned())));
    let asked = account.recorded.calls.lock().unwrap().clone();
    let unused: Vec<&Permission> = granted.difference(&asked).collect();
    assert!(unused.is_empty(), "the role grants what was never asked for: {unused:#?}");
    let beyond: Vec<&Permission> = asked.difference(&granted).collect();
    assert!(beyond.is_empty(), "asked for and granted by another role only: {beyond:#?}");
    for verb in ["list", "watch"] {
        assert!(
            !asked.contains(&(verb.to_owned(), String::new(), "secrets".to_owned())),
            "Secrets are never listed"
        );
    }
    assert!(
        granted
            .iter()
            .all(|(verb, group, resource)| ![verb, group, resource].iter().any(|word| word.contains('*')))
    );
}

#[tokio::test]
async fn in_one_namespace_a_role_there_is_enough() {
    let stage = Stage::new().await;
    let role = &deployed("base")[0];
    create(&stage, role, "").await;
    let binding = json!({ "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": HOME }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": HOME },
        "subjects": [{ "kind": "ServiceAccount", "name": HOME, "namespace": HOME }] });
    create(&stage, &binding, &stage.namespace).await;
    let account = Account::new(&stage);
    let operator = account.operate(Some(&stage.namespace));
    stage.submit(&job("pi", 1, json!({ "cleanPodPolicy": "All" }))).await;
    stage.bring_up("pi", 1).await;
    stage.complete_launcher("pi").await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    assert_eq!(account.refused(), Vec::<String>::new());
    operator.abort();
    // Beyond that namespace it may not even read.
    let refused = account.operate(None).await.unwrap().unwrap_err();
    assert_eq!(refused.class(), operator::Class::Refused, "{refused}");
}

/// The life of a gang: taken over from another process, grown, suspended, and with pods of a priority.
async fn live_in_a_gang(stage: &Stage, groups: &Api<DynamicObject>) {
    start(stage, "begun").await;
    let grown = json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": 2 } } } });
    stage.change_job("begun", grown).await;
    until_group(groups, "begun", "grew", |spec| spec.is_some_and(|spec| spec["minMember"] == 3)).await;
    stage.change_job("begun", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    until_group(groups, "begun", "went", |spec| spec.is_none()).await;
    let class = serde_json::from_value(json!({ "metadata": { "name": "urgent" }, "value": 7 })).unwrap();
    let classes: Api<PriorityClass> = Api::all(stage.client.clone());
    classes.create(&PostParams::default(), &class).await.unwrap();
    let mut urgent = job("urgent", 2, json!({ "schedulingPolicy": { "minAvailable": 2 } }));
    urgent["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = json!("urgent");
    stage.submit(&urgent).await;
    stage.until::<Pod>("urgent-worker-1", "came", |_| true).await;
}

#[tokio::test]
async fn the_roles_of_gangs_are_what_is_asked_for() {
    for (part, gang) in [
        ("components/volcano", Gang::Volcano),
        ("components/scheduler-plugins", Gang::SchedulerPlugins("scheduler".to_owned())),
    ] {
        let stage = Stage::with_controllers_and_token("token").await;
        stage.in_namespace(HOME).await;
        let documents = deployed(part);
        for document in deployed("base").iter().chain(&documents) {
            create(&stage, document, HOME).await;
        }
        let groups = stage.install_pod_groups(&gang).await;
        begin_elsewhere(&stage).await;
        let account = Account::new(&stage);
        let operator = account.operate_with(None, Some(gang));
        live_in_a_gang(&stage, &groups).await;
        operator.abort();
        assert_eq!(account.refused(), Vec::<String>::new(), "{part} grants too little");
        let asked = account.recorded.calls.lock().unwrap().clone();
        let of_gangs =
            |(_, _, resource): &Permission| ["podgroups", "priorityclasses"].contains(&resource.as_str());
        let asked: BTreeSet<Permission> = asked.into_iter().filter(of_gangs).collect();
        assert_eq!(asked, granted(&documents), "{part}: asked for, and granted");
    }
}

/// Waits for a pod of a TrainJob's Launcher that is not among `known`, and ends it.
async fn end_launcher(stage: &Stage, job: &str, known: &mut Vec<String>, phase: &str, exit_code: i32) {
    let selected = format!("{}={job},{}=launcher", api::LABEL_TRAINJOB, api::LABEL_REPLICATED_JOB);
    let pod = stage.pod_selected(&selected, known).await;
    stage.set_pod(&pod, ended("node", phase, exit_code)).await;
    known.push(pod);
}

/// TrainJobs of both kinds of runtimes: one is restarted, and its Jobs are deleted after its time.
async fn live_as_trainjobs(stage: &Stage) {
    let mut cluster_wide = crate::trainjobs::runtime("again");
    cluster_wide.spec.runtime.template.spec.ttl_seconds_after_finished = Some(0);
    let spec = serde_json::to_value(&cluster_wide.spec.runtime).unwrap();
    let local = serde_json::from_value(json!({ "metadata": { "name": "local" }, "spec": spec })).unwrap();
    let runtimes: Api<api::ClusterTrainingRuntime> = Api::all(stage.client.clone());
    runtimes.create(&PostParams::default(), &cluster_wide).await.unwrap();
    stage.api::<api::TrainingRuntime>().create(&PostParams::default(), &local).await.unwrap();
    for (name, kind) in [("again", "ClusterTrainingRuntime"), ("local", "TrainingRuntime")] {
        let mut job = crate::trainjobs::trainjob(name);
        job["metadata"]["name"] = json!(name);
        job["spec"]["runtimeRef"]["kind"] = json!(kind);
        // Its Job is complete at once.
        job["spec"]["trainer"]["numNodes"] = json!(0);
        let job = serde_json::from_value(job).unwrap();
        stage.api::<api::TrainJob>().create(&PostParams::default(), &job).await.unwrap();
    }
    let mut known = Vec::new();
    end_launcher(stage, "again", &mut known, "Failed", 1).await;
    end_launcher(stage, "again", &mut known, "Succeeded", 0).await;
    stage.until_gone::<Job>("again-launcher-0").await;
    stage.until_gone::<CoreService>("again").await;
    end_launcher(stage, "local", &mut known, "Failed", 1).await;
    end_launcher(stage, "local", &mut known, "Succeeded", 0).await;
    stage.until_gone::<CoreService>("local").await;
}

#[tokio::test]
async fn the_role_of_trainjobs_is_what_is_asked_for() {
    let stage = Stage::with_controllers_and_token("token").await;
    operator::install_trainjob_crds(&stage.client).await.unwrap();
    stage.in_namespace(HOME).await;
    let (base, documents) = (deployed("base"), deployed("components/trainjob"));
    for document in base.iter().chain(&documents) {
        create(&stage, document, HOME).await;
    }
    let account = Account::new(&stage);
    let operator = account.operate_trainjobs();
    live_as_trainjobs(&stage).await;
    operator.abort();
    assert_eq!(account.refused(), Vec::<String>::new(), "components/trainjob grants too little");
    let (base, mut granted) = (granted(&base), granted(&documents));
    let never = ("update", "trainer.kubeflow.org", "trainjobs/finalizers");
    assert!(granted.remove(&(never.0.to_owned(), never.1.to_owned(), never.2.to_owned())));
    let asked = account.recorded.calls.lock().unwrap().clone();
    let asked: BTreeSet<&Permission> = asked.difference(&base).collect();
    let granted: BTreeSet<&Permission> = granted.difference(&base).collect();
    assert_eq!(asked, granted, "asked for, and granted");
}
