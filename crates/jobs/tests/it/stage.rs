//! An API server for each test, whose lists come in short pages, as a server may choose.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream};
use cluster::apiserver::{ApiServer, Endpoint};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Request, Uri};
use jiff::Timestamp;
use jobs::Kind;
use jobs::submit::{self, DryRun};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

/// The namespace of a test.
pub const TEAM: &str = "team";
/// The node of the pods that have written something.
const NODE: &str = "node-0";
/// The number of objects in a page, whatever the request's limit.
const PAGE: u32 = 2;

/// An API with short pages that records the requests to it.
#[derive(Clone)]
struct Short {
    inner: Endpoint,
    lists: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<Body>> for Short {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = <Endpoint as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        if let Some(query) = uri.query().filter(|query| query.contains("limit=")) {
            self.lists.lock().unwrap().push(uri.to_string());
            *request.uri_mut() = shorter(uri.path(), query);
        }
        self.inner.call(request)
    }
}

fn shorter(path: &str, query: &str) -> Uri {
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some(("limit", _)) => format!("limit={PAGE}"),
        _ => part.to_owned(),
    });
    format!("{path}?{}", parts.collect::<Vec<_>>().join("&")).parse().unwrap()
}

/// An API whose watches of pods are never answered.
#[derive(Clone)]
struct WithoutPodWatches(Endpoint);

impl Service<Request<Body>> for WithoutPodWatches {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        if request.uri().path().ends_with("/pods") && query.split('&').any(|part| part == "watch=true") {
            return std::future::pending().boxed();
        }
        let mut endpoint = self.0.clone();
        async move { endpoint.call(request).await }.boxed()
    }
}

/// An API that removes each pod just before its output is read.
#[derive(Clone)]
struct WithoutOutput(Endpoint);

impl Service<Request<Body>> for WithoutOutput {
    type Response = <Endpoint as Service<Request<Body>>>::Response;
    type Error = <Endpoint as Service<Request<Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut endpoint = self.0.clone();
        let removed = request.uri().path().strip_suffix("/log").map(str::to_owned);
        async move {
            if let Some(pod) = removed {
                let removal = Request::delete(format!("{pod}?gracePeriodSeconds=0")).body(Body::empty());
                endpoint.call(removal.unwrap()).await?;
            }
            endpoint.call(request).await
        }
        .boxed()
    }
}

/// An API server with one namespace.
pub struct Stage {
    pub client: Client,
    server: Arc<ApiServer>,
    endpoint: Endpoint,
    lists: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub async fn new() -> Self {
        let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
        let server = Arc::new(ApiServer::new(store, Identities::new("token")));
        let lists = Arc::new(Mutex::new(Vec::new()));
        let endpoint = Endpoint::trusted(server.clone(), UserInfo::admin());
        let short = Short { inner: endpoint.clone(), lists: lists.clone() };
        let stage = Self { client: Client::new(short, TEAM), server, endpoint, lists };
        stage.create("v1", "Namespace", "namespaces", json!({ "metadata": { "name": TEAM } })).await;
        stage
    }

    /// An API that knows MPIJobs.
    pub async fn with_mpijobs() -> Self {
        let stage = Self::new().await;
        stage.define_mpijob().await;
        stage
    }

    /// A client of a user who may do no more than every user of Kubernetes: ask what it may do.
    pub async fn client_of_a_stranger(&self) -> Client {
        let (version, name) = ("rbac.authorization.k8s.io/v1", "system:basic-user");
        let asks = json!({ "verbs": ["create"], "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectreviews"] });
        let role = json!({ "metadata": { "name": name }, "rules": [asks] });
        self.create(version, "ClusterRole", "clusterroles", role).await;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({ "metadata": { "name": name },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
            "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:authenticated" }] });
        self.create(version, "ClusterRoleBinding", "clusterrolebindings", binding).await;
        Client::new(Endpoint::trusted(self.server.clone(), UserInfo::known("jane", &[])), TEAM)
    }

    /// Creates the jobs of a manifest with the library.
    pub async fn submit(&self, manifest: &str) -> Vec<DynamicObject> {
        let drafts = submit::read(manifest.as_bytes(), "job.yaml").unwrap();
        submit::create(&self.client, TEAM, &drafts, DryRun::No).await.unwrap()
    }

    /// Writes a job's status, as an operator does.
    pub async fn status(&self, job: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let jobs = Kind::MpiJob.api(&self.client, TEAM);
        jobs.patch_status(job, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a job's pod on the node that has the pods' output.
    pub async fn pod(&self, job: &str, role: &str, name: &str, phase: &str, state: Value) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role });
        self.pod_labelled(labels, name, phase, state).await;
    }

    /// Creates a pod as the Training Operator does, which has written something and ended.
    pub async fn replica(&self, job: &str, replica: &str, index: usize) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_REPLICA_TYPE: replica,
            api::LABEL_REPLICA_INDEX: index.to_string() });
        let name = format!("{job}-{replica}-{index}");
        self.pod_labelled(labels, &name, "Succeeded", terminated(0)).await;
    }

    async fn pod_labelled(&self, labels: Value, name: &str, phase: &str, state: Value) {
        let ready = if phase == "Running" { "True" } else { "False" };
        let scheduled =
            json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status = json!({ "phase": phase, "conditions": [scheduled, { "type": "Ready", "status": ready }],
            "containerStatuses": [{ "name": "main", "image": "i", "imageID": "", "ready": ready == "True",
                "restartCount": 0, "state": state }] });
        let pod = json!({ "metadata": { "name": name, "namespace": TEAM, "labels": labels },
            "spec": { "nodeName": NODE, "containers": [{ "name": "main", "image": "i" }] }, "status": status });
        self.create("v1", "Pod", "pods", pod).await;
    }

    /// Says what pods have written: the pod, the second of the line, its text.
    pub fn output(&self, lines: &'static [(&'static str, i64, &'static str)]) {
        self.server.kubelets.register(NODE, Arc::new(Written(lines)));
    }

    /// Says that every pod has written this many lines, each tagged with its rank, every second one alike.
    pub fn tagged_output(&self, lines: usize) {
        self.server.kubelets.register(NODE, Arc::new(Tagged(lines)));
    }

    /// A client that learns of pods only when it lists them.
    pub fn client_without_pod_watches(&self) -> Client {
        Client::new(WithoutPodWatches(self.endpoint.clone()), TEAM)
    }

    /// A client that sees each pod removed just before it reads the pod's output.
    pub fn client_without_output(&self) -> Client {
        Client::new(WithoutOutput(self.endpoint.clone()), TEAM)
    }

    /// Installs the CRD of MPIJob; it is served at once.
    pub async fn define_mpijob(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    }

    /// The recorded list requests for this path, including further pages.
    pub fn lists_of(&self, path: &str) -> Vec<String> {
        let of_path = |list: &&String| list.starts_with(&format!("{path}?"));
        self.lists.lock().unwrap().iter().filter(of_path).cloned().collect()
    }

    /// Installs the CRD of a kind; it is served at once.
    pub async fn define(&self, version: &str, kind: &str, plural: &str, scope: &str) {
        let (group, version) = version.split_once('/').unwrap();
        let definition = json!({ "metadata": { "name": format!("{plural}.{group}") }, "spec": {
            "group": group, "scope": scope, "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": version, "served": true, "storage": true, "subresources": { "status": {} }, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
        let (version, plural) = ("apiextensions.k8s.io/v1", "customresourcedefinitions");
        self.create(version, "CustomResourceDefinition", plural, definition).await;
    }

    /// Creates an object, with its status.
    pub async fn create(&self, version: &str, kind: &str, plural: &str, object: Value) -> DynamicObject {
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: number.to_owned(),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut whole = object.clone();
        (whole["apiVersion"], whole["kind"]) = (json!(version), json!(kind));
        let status = whole.as_object_mut().unwrap().remove("status");
        let whole: DynamicObject = serde_json::from_value(whole).unwrap();
        let made = api.create(&PostParams::default(), &whole).await.unwrap();
        let Some(status) = status else { return made };
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(made.metadata.name.as_deref().unwrap(), &PatchParams::default(), &patch)
            .await
            .unwrap()
    }
}

/// The manifest of a job.
pub fn manifest(name: &str, workers: i32) -> String {
    let template =
        "{spec: {containers: [{name: main, image: 'train:1', command: [mpirun, python, train.py]}]}}";
    format!(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {{name: {name}, labels: {{team: nlp}}}}\nspec:\n  mpiReplicaSpecs:\n    Launcher: {{replicas: 1, template: {template}}}\n    Worker: {{replicas: {workers}, template: {template}}}\n"
    )
}

/// The state of a container that runs.
pub fn running() -> Value {
    json!({ "running": { "startedAt": "2026-01-01T00:00:01Z" } })
}

/// The state of a container that has ended.
pub fn terminated(code: i32) -> Value {
    json!({ "terminated": { "exitCode": code, "finishedAt": "2026-01-01T00:00:30Z" } })
}

/// A node that has its pods' output, and nothing else.
struct Written(&'static [(&'static str, i64, &'static str)]);

impl Kubelet for Written {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let lines: Vec<&(&str, i64, &str)> = self.0.iter().filter(|(pod, ..)| *pod == request.pod).collect();
        let tail = request.tail_lines.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
        let at = |second: &i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let written: String = lines[lines.len().saturating_sub(tail)..]
            .iter()
            .filter(|(_, second, _)| request.since.is_none_or(|since| at(second) >= since))
            .map(|(_, second, text)| match request.timestamps {
                true => format!("{:.9} {text}\n", at(second)),
                false => format!("{text}\n"),
            })
            .collect();
        async move { Ok(futures::stream::iter([Ok(written.into())]).boxed()) }.boxed()
    }
}

/// A node whose pods have written many lines.
struct Tagged(usize);

impl Kubelet for Tagged {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let rank = request.pod.rsplit('-').next().unwrap_or_default().to_owned();
        let line = |number: usize| {
            let at = Timestamp::from_millisecond(1_767_225_600_000 + i64::try_from(number).unwrap()).unwrap();
            let own = if number.is_multiple_of(2) { String::new() } else { format!(" of rank {rank}") };
            format!(
                "{at:.9} [1,{rank}]<stdout>:2026-01-01 00:00:00,123 - train - INFO - step {number}: loss 0.25{own}\n"
            )
        };
        let written: String = (0..self.0).map(line).collect();
        async move { Ok(futures::stream::iter([Ok(written.into())]).boxed()) }.boxed()
    }
}
