//! A stage for one test: an API server, people with tokens, and the service on it. `cargo xtask service` runs the same
//! tests on a real kube-apiserver, one for each test.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cluster::apiserver::auth::tokens::Keys;
use cluster::apiserver::auth::users::{self, Person, Users};
use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::kubelet::{
    ExecRequest, Kubelet, LogError, LogRequest, LogStream, NodeUsage, PodUsage, Process, StreamError, Used,
};
use cluster::apiserver::{ApiServer, Endpoint, bootstrap};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use conformance::real::Real;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use service::contract::training_client::TrainingClient;
use service::{Keep, Retention, Service, Settings, tls};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneService;

use crate::line::{Line, Trouble};
use crate::place::Place;
use crate::stores;

/// Names the folder with the programs of a real API server to use.
const REAL: &str = "ODH_REAL_BINARIES";
/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The namespaces: of jane and vera, of joe, of nobody.
pub const TEAM: &str = "team-cv";
pub const OTHER_TEAM: &str = "team-nlp";
pub const NOBODYS: &str = "team-ops";
/// The tokens.
pub const ADMIN: &str = "token-of-the-administrator";
pub const JANE: &str = "token-of-jane-who-edits";
pub const VERA: &str = "token-of-vera-who-views";
pub const JOE: &str = "token-of-joe-of-the-other-team";
pub const EXPIRED: &str = "token-that-has-expired";
/// The node of pods that have written something.
const NODE: &str = "node-0";

/// A service over gRPC.
pub type Channel = BoxCloneService<Request<tonic::body::Body>, Response<Incoming>, hyper::Error>;

/// The API server of a stage.
enum Server {
    Embedded(Arc<ApiServer>),
    Real(Box<Real>),
}

/// The stage.
pub struct Stage {
    /// A client as the administrator.
    pub admin: Client,
    server: Server,
    address: SocketAddr,
    authority: String,
    roots: Arc<ClientConfig>,
    requests: Arc<Mutex<Vec<String>>>,
    trouble: watch::Sender<Trouble>,
    stop: CancellationToken,
    /// What the service is started with again.
    own: Client,
    nobody: Client,
    settings: Settings,
    pub keep: Keep,
    acceptor: TlsAcceptor,
    _folder: TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A response over REST.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(Settings { rate: 10_000, burst: 10_000, ..Settings::default() }).await
    }

    pub async fn with(settings: Settings) -> Self {
        let (acceptor, authority) = tls::for_this_machine().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let keep = stores::keep(&folder.path().join("kept")).await;
        Self::at(settings, keep, folder, acceptor, &authority).await
    }

    /// A service that believes proxies of an authority, and the certificate of a proxy with its key.
    pub async fn with_proxies() -> (Self, (CertificateDer<'static>, PrivateKeyDer<'static>)) {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let names = CertificateParams::new([name.to_owned()]).unwrap();
            (names.signed_by(&key, &authority).unwrap(), key)
        };
        let ((service, key), (proxy, proxy_key)) = (signed("localhost"), signed("proxy"));
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = tls::Files {
            certificate: file("tls.crt", service.pem()),
            key: file("tls.key", key.serialize_pem()),
            proxies: Some(file("proxies.crt", authority.pem())),
        };
        let acceptor = tls::from_files(files, CancellationToken::new()).unwrap();
        let proxy_key = PrivateKeyDer::try_from(proxy_key.serialize_der()).unwrap();
        let keep = stores::keep(&folder.path().join("kept")).await;
        let stage = Self::at(Settings::default(), keep, folder, acceptor, &authority.pem()).await;
        (stage, (proxy.der().clone(), proxy_key))
    }

    /// The same service for a client with a certificate.
    pub fn connecting_with(
        mut self,
        (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    ) -> Self {
        self.roots = client_config(&self.authority, Some((certificate, key)));
        self
    }

    /// A stage with its store in a place.
    pub async fn on(place: &Place) -> Self {
        let settings = Settings { rate: 10_000, burst: 10_000, ..Settings::default() };
        let keep =
            Keep { logs: Some(place.folder.path().join("logs")), ..Keep::in_database(place.settings()) };
        let (acceptor, authority) = tls::for_this_machine().unwrap();
        Self::at(settings, keep, tempfile::tempdir().unwrap(), acceptor, &authority).await
    }

    async fn at(
        settings: Settings,
        keep: Keep,
        folder: TempDir,
        acceptor: TlsAcceptor,
        authority: &str,
    ) -> Self {
        // What a test changes is seen by the next check.
        let settings = Settings { reading: Duration::ZERO, ..settings };
        // The tests' times are long ago.
        let age = Duration::from_secs(100 * 365 * 24 * 3600);
        let retention = Retention { history: age, usage: age, logs: age, ..Retention::default() };
        let keep = Keep { every: Duration::from_millis(50), retention, ..keep };
        let (server, admin, nobody) = match std::env::var_os(REAL) {
            Some(binaries) => real(binaries.as_ref()).await,
            None => embedded(&folder).await,
        };
        prepare(&admin, &server).await;
        let (requests, trouble) = (Arc::new(Mutex::new(Vec::new())), watch::Sender::default());
        let line =
            |inner, requests| Client::new(Line { inner, requests, trouble: trouble.subscribe() }, "default");
        let own = line(own(&server, &admin).await, Some(requests.clone()));
        let nobody = line(nobody, None);
        let stop = CancellationToken::new();
        let address = serve((&own, &nobody), &settings, &keep, &acceptor, &stop).await;
        let roots = client_config(authority, None);
        let authority = authority.to_owned();
        Self {
            admin,
            server,
            address,
            authority,
            roots,
            requests,
            trouble,
            stop,
            own,
            nobody,
            settings,
            keep,
            acceptor,
            _folder: folder,
        }
    }

    /// Stops the service and starts another with the same store.
    pub async fn restart(&mut self) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        self.address = self.serve(&self.stop).await;
    }

    /// Starts another replica with the same store, until the result is cancelled.
    pub async fn replica(&self) -> CancellationToken {
        let stop = self.stop.child_token();
        self.serve(&stop).await;
        stop
    }

    async fn serve(&self, stop: &CancellationToken) -> SocketAddr {
        serve((&self.own, &self.nobody), &self.settings, &self.keep, &self.acceptor, stop).await
    }

    /// Stops the service.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// From now on, something is the matter with the API server, as the service sees it.
    pub fn trouble(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }

    /// The requests that the service sent as its own account.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Opens a connection.
    pub async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        connect(self.address, &self.roots, protocol).await.unwrap()
    }

    /// Sends a request over HTTP/1.1 and returns the response as it begins.
    pub async fn open(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect(b"http/1.1").await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        send(self.address, &self.roots, request).await.unwrap()
    }

    /// Sends a request with a token and, if given, a body.
    pub async fn rest(&self, verb: &str, path: &str, token: &str, body: Option<Value>) -> Reply {
        self.send(request(verb, path, token, body)).await
    }

    /// Gets a path.
    pub async fn get(&self, path: &str, token: &str) -> Reply {
        self.rest("GET", path, token, None).await
    }

    /// Connects over gRPC.
    pub async fn channel(&self) -> Channel {
        channel(self.address, &self.roots).await
    }

    /// The origin of requests over gRPC.
    pub fn origin(&self) -> Uri {
        format!("https://localhost:{}", self.address.port()).parse().unwrap()
    }

    /// A gRPC client.
    pub async fn grpc(&self) -> TrainingClient<Channel> {
        TrainingClient::with_origin(self.channel().await, self.origin())
    }

    /// Installs a CRD of PyTorchJob; a service that starts then watches its jobs.
    pub async fn define_pytorchjob(&self) {
        let schema =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let definition = json!({ "metadata": { "name": "pytorchjobs.kubeflow.org" }, "spec": { "group": "kubeflow.org",
            "scope": "Namespaced", "names": { "kind": "PyTorchJob", "plural": "pytorchjobs" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] } });
        let crds: Api<CustomResourceDefinition> = Api::all(self.admin.clone());
        crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    }

    /// Creates a job of a kind that needs no checks, as the administrator, and waits until lists show it.
    pub async fn job(&self, namespace: &str, name: &str) {
        self.create(namespace, name, job(name)).await;
    }

    /// Such a job whose Workers have limits.
    pub async fn job_with(&self, namespace: &str, name: &str, limits: Value) {
        let mut manifest = job(name);
        let container = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0/resources/limits";
        *manifest.pointer_mut(container).unwrap() = limits;
        self.create(namespace, name, manifest).await;
    }

    async fn create(&self, namespace: &str, name: &str, manifest: Value) {
        let jobs: Api<DynamicObject> = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        jobs.create(&PostParams::default(), &object).await.unwrap();
        self.until_shown(namespace, name, |_| true).await;
    }

    /// Writes a job's status, as an operator does.
    pub async fn status(&self, namespace: &str, name: &str, status: Value) {
        let jobs = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        jobs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Annotates a job, as an operator does.
    pub async fn annotate(&self, namespace: &str, name: &str, annotation: &str, text: &str) {
        let jobs = ::jobs::Kind::MpiJob.api(&self.admin, namespace);
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: text } } }));
        jobs.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the administrator's list has the job in a state.
    pub async fn until_shown(&self, namespace: &str, name: &str, is: impl Fn(&Value) -> bool) {
        let path = format!("/api/v1/jobs?namespace={namespace}&limit=500");
        let shown = async {
            loop {
                let rows =
                    self.get(&path, ADMIN).await.json()["jobs"].as_array().cloned().unwrap_or_default();
                if rows.iter().any(|row| row["name"] == name && is(row)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.unwrap();
    }

    /// Creates a pod of a job that requests something and has not started.
    pub async fn pod_with(&self, namespace: &str, job: &str, role: &str, name: &str, limits: Value) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role });
        self.create_pod(namespace, name, labels, limits).await;
    }

    async fn create_pod(&self, namespace: &str, name: &str, labels: Value, limits: Value) {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "nodeName": NODE, "containers": [{ "name": "main", "image": "i",
                "resources": { "limits": limits } }] } });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    /// Waits until the output of so many containers of a job is archived.
    pub async fn until_archived(&self, job: &str, containers: usize) {
        let rows = self.get(&format!("/api/v1/jobs?q={job}"), ADMIN).await.json();
        let uid = rows["jobs"][0]["uid"].as_str().unwrap().to_owned();
        let store = history::Store::open(self.keep.database.clone()).await.unwrap();
        let archive = history::logs::Archive::in_memory(store);
        let archived = async {
            while history::logs::sources(&archive, &uid, None).await.unwrap().len() < containers {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, archived).await.unwrap();
    }

    /// Creates a pod of a job on the node that has the pods' output.
    pub async fn pod(&self, namespace: &str, job: &str, role: &str, name: &str) {
        let labels = json!({ api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role });
        self.labelled_pod(namespace, name, labels).await;
    }

    /// The same with other labels.
    pub async fn labelled_pod(&self, namespace: &str, name: &str, labels: Value) {
        self.create_pod(namespace, name, labels, json!({})).await;
        let state = json!({ "terminated": { "exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z" } });
        let status = json!({ "phase": "Succeeded", "containerStatuses": [{ "name": "main", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": state }] });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a running pod of a job, on a node that runs commands on this machine.
    pub async fn runs(
        &self,
        namespace: &str,
        job: &str,
        role: &str,
        name: &str,
        volumes: Value,
        mounts: Value,
    ) {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace,
                "labels": { api::LABEL_JOB_NAME: job, api::LABEL_JOB_ROLE: role } },
            "spec": { "nodeName": NODE, "volumes": volumes,
                "containers": [{ "name": "main", "image": "i", "volumeMounts": mounts }] } });
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        let status = json!({ "phase": "Running", "containerStatuses": [{ "name": "main", "image": "i", "imageID": "",
            "ready": true, "restartCount": 0, "state": state }] });
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        self.embedded().kubelets.register(NODE, Arc::new(Commands));
    }

    /// The embedded server, for what only its node can play.
    fn embedded(&self) -> &ApiServer {
        match &self.server {
            Server::Embedded(server) => server,
            Server::Real(_) => panic!("this test needs a node that writes output or measures pods"),
        }
    }

    /// Deletes a pod at once.
    pub async fn delete_pod(&self, namespace: &str, name: &str) {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let now = kube::api::DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.unwrap();
    }

    /// Lets a node answer for its pods.
    pub async fn node(&self, kubelet: Arc<dyn Kubelet>) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.admin.clone());
        let node = json!({ "metadata": { "name": NODE } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        self.embedded().kubelets.register(NODE, kubelet);
    }

    /// Says what pods have written: the pod, the second of the line, its text.
    pub fn output(&self, lines: Vec<(String, i64, String)>) {
        self.embedded().kubelets.register(NODE, Arc::new(Played { lines, pods: Vec::new() }));
    }

    /// Lets the pods write a line, and end, once `end` is cancelled. `opened` is cancelled when somebody reads their output.
    pub fn output_later(&self, line: &'static str, opened: CancellationToken, end: CancellationToken) {
        self.embedded().kubelets.register(NODE, Arc::new(Unfinished { line, opened, end }));
    }

    /// Says what pods use: the pod, billionths of a core, bytes.
    pub async fn uses(&self, namespace: &str, used: &[(&str, u64, u64)]) {
        let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        let mut pods = Vec::new();
        for (name, cpu_nanocores, memory_bytes) in used {
            let used = Used { cpu_nanocores: *cpu_nanocores, memory_bytes: *memory_bytes, ..Used::default() };
            pods.push(PodUsage {
                namespace: namespace.to_owned(),
                name: (*name).to_owned(),
                uid: api.get(name).await.unwrap().uid().unwrap(),
                containers: vec![("main".to_owned(), used)],
                traffic: None,
            });
        }
        self.node(Arc::new(Played { lines: Vec::new(), pods })).await;
    }

    /// A token of a service account that edits jobs of the team, for an audience.
    pub async fn account_token(&self, audiences: &[&str]) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), TEAM);
        if accounts.get_opt("pipeline").await.unwrap().is_none() {
            let account = json!({ "metadata": { "name": "pipeline" } });
            accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
            let subject = json!({ "kind": "ServiceAccount", "name": "pipeline", "namespace": TEAM });
            bind(&self.admin, TEAM, "pipeline", "kubeflow-mpijobs-edit", subject).await;
        }
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audiences.iter().map(|audience| (*audience).to_owned()).collect()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let made = accounts.create_token_request("pipeline", &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token.unwrap()
    }

    /// Deletes that account, and with it its tokens.
    pub async fn delete_account(&self) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), TEAM);
        accounts.delete("pipeline", &kube::api::DeleteParams::default()).await.unwrap();
    }

    /// Gives a person a role in a namespace.
    pub async fn allow(&self, namespace: &str, person: &str, role: &str) {
        let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person });
        bind(&self.admin, namespace, &format!("{person}-{}", role.replace(':', "-")), role, subject).await;
    }

    /// Creates a file's ClusterRole and its binding.
    pub async fn allow_everywhere(&self, file: &str) {
        create_all(&self.admin, file).await;
    }

    /// The UID of a pod.
    pub async fn uid_of_pod(&self, namespace: &str, name: &str) -> String {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.admin.clone(), namespace);
        pods.get(name).await.unwrap().uid().unwrap()
    }

    /// Creates a ClusterRole.
    pub async fn create_role(&self, name: &str, rights: Value) {
        let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(self.admin.clone());
        let role = json!({ "metadata": { "name": name }, "rules": [rights] });
        roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let namespace = json!({ "metadata": { "name": name } });
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    }

    /// Deletes a namespace, as its controller does once it is empty.
    pub async fn delete_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        namespaces.delete(name, &DeleteParams::default()).await.unwrap();
        let mut namespace = namespaces.get(name).await.unwrap();
        namespace.spec.as_mut().unwrap().finalizers = None;
        namespaces.replace_subresource("finalize", name, &PostParams::default(), &namespace).await.unwrap();
    }

    /// Takes a person's roles in the team away.
    pub async fn revoke(&self, person: &str) {
        let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
            Api::namespaced(self.admin.clone(), TEAM);
        for binding in bindings.list(&kube::api::ListParams::default()).await.unwrap() {
            if binding.subjects.iter().flatten().any(|subject| subject.name == person) {
                bindings.delete(&binding.name_any(), &kube::api::DeleteParams::default()).await.unwrap();
            }
        }
    }
}

pub async fn connect(
    address: SocketAddr,
    roots: &ClientConfig,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, std::io::Error> {
    let mut config = roots.clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Connects over gRPC to a service at an address.
pub async fn channel(address: SocketAddr, roots: &ClientConfig) -> Channel {
    let stream = TokioIo::new(connect(address, roots, b"h2").await.unwrap());
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    BoxCloneService::new(tower::service_fn(move |request: Request<tonic::body::Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    }))
}

/// Sends a request to a service at an address and reads the whole response.
pub async fn send(
    address: SocketAddr,
    roots: &ClientConfig,
    request: Request<Full<Bytes>>,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(connect(address, roots, b"http/1.1").await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let (parts, body) = tokio::time::timeout(PATIENCE, sender.send_request(request)).await??.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await??.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, text })
}

/// Starts a service with the clients as its own account and without credentials.
async fn serve(
    (own, nobody): (&Client, &Client),
    settings: &Settings,
    keep: &Keep,
    acceptor: &TlsAcceptor,
    stop: &CancellationToken,
) -> SocketAddr {
    let service = Service::start(own, nobody, settings.clone(), keep, stop);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(service::serve(listener, acceptor.clone(), service.clone(), stop.clone()));
    tokio::time::timeout(PATIENCE, service.ready()).await.unwrap();
    address
}

/// A request over REST.
pub fn request(verb: &str, path: &str, token: &str, body: Option<Value>) -> Request<Full<Bytes>> {
    let mut request =
        Request::new(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()));
    *request.method_mut() = verb.parse::<Method>().unwrap();
    *request.uri_mut() = path.parse().unwrap();
    let headers = request.headers_mut();
    headers.insert("host", "localhost".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    if !token.is_empty() {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// The address and the body of a method's request over REST.
pub fn rest_of(method: &service::contract::Method, message: &Value) -> (String, Option<Value>) {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut path = method.path.to_owned();
    let mut query = Vec::new();
    let mut body = serde_json::Map::new();
    for (name, value) in message.as_object().unwrap() {
        let slot = format!("{{{name}}}");
        if path.contains(&slot) {
            path = path.replace(&slot, &encoded(value.as_str().unwrap()));
        } else if method.body {
            body.insert(name.clone(), value.clone());
        } else {
            for one in value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]) {
                let text = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
                query.push(format!("{name}={}", encoded(&text)));
            }
        }
    }
    (format!("{path}?{}", query.join("&")), method.body.then_some(Value::Object(body)))
}

/// A gRPC request with a token.
pub fn call<M>(token: &str, message: M) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// Sets prices, which only administrators may read.
pub async fn set_prices(stage: &Stage, prices: Value) {
    let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
    let namespace = json!({ "metadata": { "name": "odh-training-prices" } });
    // It may be there already.
    let _ = namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin.clone(), "odh-training-prices");
    let _ = maps.delete("prices", &DeleteParams::default()).await;
    let map = json!({ "metadata": { "name": "prices" }, "data": prices });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

/// A job.
pub fn job(name: &str) -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "train:1",
        "command": ["mpirun", "python", "train.py"],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }] } });
    json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": name, "labels": { "team": "vision" } },
        "spec": { "mpiReplicaSpecs": { "Launcher": { "replicas": 1, "template": template },
            "Worker": { "replicas": 2, "template": template } } } })
}

/// The embedded cluster's API, with clients as the administrator and without credentials.
async fn embedded(folder: &TempDir) -> (Server, Client, Client) {
    let file = folder.path().join(users::FILE);
    let later = Timestamp::now() + 1.hour();
    let person = |name: &str, token: &str, until| Person::new(name, Vec::new(), token, until);
    let people = [
        person("jane", JANE, later),
        person("vera", VERA, later),
        person("joe", JOE, later),
        person("gone", EXPIRED, Timestamp::now() - 1.hour()),
    ];
    users::save(&file, &people).unwrap();
    let identities = Identities::new(ADMIN).with_users(Users::new(file)).with_keys(Keys::fresh().unwrap());
    let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
    let server = Arc::new(ApiServer::new(store, identities));
    bootstrap::roles(server.store()).await.unwrap();
    let admin = Client::new(Endpoint::trusted(server.clone(), UserInfo::admin()), "default");
    let nobody = Client::new(Endpoint::with_credentials(server.clone()), "default");
    (Server::Embedded(server), admin, nobody)
}

/// The same of a real server. It does not know tokens that have expired.
async fn real(binaries: &std::path::Path) -> (Server, Client, Client) {
    let people = [("jane", JANE), ("vera", VERA), ("joe", JOE)];
    let real = Real::start_with(binaries, ADMIN, &people).await.unwrap();
    let (admin, nobody) = (client_of(&real, ADMIN).await, client_of(&real, "").await);
    (Server::Real(Box::new(real)), admin, nobody)
}

/// A client of a real server with a token, or without credentials.
async fn client_of(real: &Real, token: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(&real.kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let token = (!token.is_empty()).then(|| token.to_owned().into());
    config.auth_info = AuthInfo { token, ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

/// A client as the service's own account.
async fn own(server: &Server, admin: &Client) -> Client {
    match server {
        Server::Embedded(server) => {
            let account = UserInfo::account("mpi-operator", "training-service");
            Client::new(Endpoint::trusted(server.clone(), account), "default")
        }
        Server::Real(real) => {
            let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "mpi-operator");
            let (params, request) = (PostParams::default(), TokenRequest::default());
            let made = accounts.create_token_request("training-service", &params, &request).await.unwrap();
            client_of(real, &made.status.unwrap().token.unwrap()).await
        }
    }
}

async fn prepare(admin: &Client, server: &Server) {
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    crds.create(&PostParams::default(), &api::mpijob_crd()).await.unwrap();
    let served = await_condition(crds, "mpijobs.kubeflow.org", is_crd_established());
    tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in ["mpi-operator", TEAM, OTHER_TEAM, NOBODYS] {
        let namespace = json!({ "metadata": { "name": name } });
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        if let Server::Real(_) = server {
            // Pods are refused without it, and no controller creates it there.
            let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), name);
            let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
            let account = serde_json::from_value(account).unwrap();
            accounts.create(&PostParams::default(), &account).await.unwrap();
        }
    }
    for file in [
        include_str!("../../../../deploy/base/user-roles.yaml"),
        include_str!("../../../../deploy/service/service-account.yaml"),
        include_str!("../../../../deploy/service/role.yaml"),
    ] {
        create_all(admin, file).await;
    }
    for (namespace, person, word) in
        [(TEAM, "jane", "edit"), (TEAM, "vera", "view"), (OTHER_TEAM, "joe", "edit")]
    {
        for role in [format!("kubeflow-mpijobs-{word}"), format!("system:aggregate-to-{word}")] {
            let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person });
            bind(admin, namespace, &format!("{person}-{}", role.replace(':', "-")), &role, subject).await;
        }
    }
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" });
    bind(admin, TEAM, "jane-views", "system:aggregate-to-view", subject).await;
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe" });
    bind(admin, OTHER_TEAM, "joe-views", "system:aggregate-to-view", subject).await;
}

/// Creates the objects of a file.
async fn create_all(admin: &Client, file: &str) {
    for text in file.split("\n---\n") {
        let object: DynamicObject = serde_saphyr::from_str(text).unwrap();
        let types = object.types.clone().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let objects: Api<DynamicObject> = match types.kind.as_str() {
            "ServiceAccount" => Api::namespaced_with(admin.clone(), "mpi-operator", &resource),
            _ => Api::all_with(admin.clone(), &resource),
        };
        objects.create(&PostParams::default(), &object).await.unwrap();
    }
}

async fn bind(admin: &Client, namespace: &str, name: &str, role: &str, subject: Value) {
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(admin.clone(), namespace);
    let binding = json!({ "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject] });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

/// Trusts an authority, in PEM, and shows a certificate of its own if it is given one.
pub fn client_config(
    authority: &str,
    own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    Arc::new(match own {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    })
}

/// A node that has its pods' output and usage, and nothing else.
struct Played {
    lines: Vec<(String, i64, String)>,
    pods: Vec<PodUsage>,
}

impl Kubelet for Played {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        let pods = self.pods.clone();
        let (time, window, node) = (Timestamp::now(), Duration::from_secs(15), Used::default());
        async move { Some(NodeUsage { time, window, node, pods }) }.boxed()
    }

    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let lines: Vec<&(String, i64, String)> =
            self.lines.iter().filter(|(pod, ..)| *pod == request.pod).collect();
        let tail = request.tail_lines.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
        let at = |second: &i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let written: String = lines[lines.len().saturating_sub(tail)..]
            .iter()
            .map(|(_, second, text)| match request.timestamps {
                true => format!("{:.9} {text}\n", at(second)),
                false => format!("{text}\n"),
            })
            .collect();
        async move { Ok(futures::stream::iter([Ok(written.into())]).boxed()) }.boxed()
    }
}

/// A node that runs the commands of `exec` on this machine.
struct Commands;

impl Kubelet for Commands {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        async { None }.boxed()
    }

    fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async { Err(LogError::NotFound("no log".to_owned())) }.boxed()
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'static, Result<Process, StreamError>> {
        async move {
            let mut command = tokio::process::Command::new(&request.command[0]);
            command
                .args(&request.command[1..])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| StreamError::Start(error.to_string()))?;
            let stdout = tokio_util::io::ReaderStream::new(child.stdout.take().unwrap());
            let stdout = stdout.filter_map(|chunk| async { chunk.ok() }).boxed();
            let ended = async move { child.wait().await.ok().and_then(|status| status.code()) }.boxed();
            Ok(Process { stdin: None, stdout: Some(stdout), stderr: None, resize: None, ended })
        }
        .boxed()
    }
}

/// A node whose pods write one line and end when a test says so.
struct Unfinished {
    line: &'static str,
    opened: CancellationToken,
    end: CancellationToken,
}

impl Kubelet for Unfinished {
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        async { None }.boxed()
    }

    fn logs(&self, _request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        let (line, end) = (self.line, self.end.clone());
        let rest = async move {
            end.cancelled().await;
            Ok(if line.is_empty() { String::new() } else { format!("2026-01-01T00:00:01Z {line}\n") }.into())
        };
        self.opened.cancel();
        async { Ok(futures::stream::once(rest).boxed()) }.boxed()
    }
}
