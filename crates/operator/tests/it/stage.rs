//! A stage for one test: an API of its own, an operator on it, and functions that play kubelets and the Job
//! controller. `cargo xtask upstream` runs the same tests on a real API server, each in a namespace of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use api::{MPIJob, MPIJobStatus};
use cluster::apiserver::auth::{Identities, UserInfo};
use cluster::apiserver::kubelet::{Kubelet, LogError, LogRequest, LogStream};
use cluster::apiserver::{ApiServer, Endpoint};
use cluster::store::{DEFAULT_WINDOW, Store, Volatile};
use cluster::{Cluster, Options};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Config, Resource, ResourceExt};
use plan::Gang;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::gate::{Gate, Gated, Server};

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The namespace of a test that needs only one.
const TEAM: &str = "team";

/// Names the kubeconfig of a real API server to use.
const REAL: &str = "ODH_REAL_KUBECONFIG";
/// Set if the real server has its controllers.
const REAL_CONTROLLERS: &str = "ODH_REAL_CONTROLLERS";
/// Counts the namespaces used on a real server.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// An API with the CRD of MPIJob and one namespace.
pub struct Stage {
    api: Server,
    /// The embedded one.
    server: Option<Arc<ApiServer>>,
    pub client: Client,
    pub namespace: String,
    /// Keeps the controllers running, if there are any.
    _cluster: Option<Arc<(Cluster, TempDir)>>,
}

/// A node that has only logs.
struct Scribe(Option<&'static str>);

impl Kubelet for Scribe {
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async move {
            assert!(request.tail_lines.is_some() && request.limit_bytes.is_some() && !request.follow);
            let Some(log) = self.0 else { return std::future::pending().await };
            Ok(futures::stream::iter([Ok(log.into())]).boxed())
        }
        .boxed()
    }
}

/// An operator on a stage.
pub struct Running {
    pub gate: Arc<Gate>,
    pub vitals: operator::Vitals,
    pub task: JoinHandle<Result<(), operator::Error>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The kubeconfig of the real server, if one is named; `controllers` must match the server's.
pub fn real_kubeconfig(controllers: bool) -> Option<PathBuf> {
    let kubeconfig = std::env::var_os(REAL)?;
    assert_eq!(std::env::var_os(REAL_CONTROLLERS).is_some(), controllers, "this test needs the other kind");
    Some(kubeconfig.into())
}

/// A client with the rights of a kubeconfig's user.
pub async fn client_of(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

impl Stage {
    pub async fn new() -> Self {
        if let Some(real) = Self::real(false).await {
            return real;
        }
        let stage = Self::bare().await;
        operator::install_crd(&stage.client).await.unwrap();
        stage
    }

    /// A namespace on the real server, if one is named; `controllers` must match the server's.
    async fn real(controllers: bool) -> Option<Self> {
        let client = client_of(&real_kubeconfig(controllers)?).await;
        operator::install_crd(&client).await.unwrap();
        let name = format!("stage-{}-{}", std::process::id(), TAKEN.fetch_add(1, Ordering::SeqCst));
        let api = Server::Real(client.clone());
        let stage = Self { api, server: None, client, namespace: String::new(), _cluster: None };
        Some(stage.in_namespace(&name).await)
    }

    /// Returns the authority of the API server's client certificate, if known.
    pub fn webhook_authority(&self) -> Option<String> {
        self.server.as_ref()?.webhook_authority()
    }

    /// Without the CRD.
    pub async fn bare() -> Self {
        let store = Arc::new(Store::new(DEFAULT_WINDOW, Box::new(Volatile)));
        let server = Arc::new(ApiServer::new(store, Identities::new("token")));
        let endpoint = Endpoint::trusted(server.clone(), UserInfo::admin());
        let client = Client::new(endpoint.clone(), TEAM);
        let (api, server) = (Server::Embedded(endpoint), Some(server));
        Self { api, server, client, namespace: String::new(), _cluster: None }.in_namespace(TEAM).await
    }

    /// With the embedded cluster's controllers: Jobs create their pods, and garbage collection works.
    pub async fn with_controllers() -> Self {
        match Self::real(true).await {
            Some(real) => real,
            None => Self::with_controllers_in(tempfile::tempdir().unwrap()).await,
        }
    }

    /// The same, with this token for the administrator.
    pub async fn with_controllers_and_token(token: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(state.path().join("cluster")).unwrap();
        std::fs::write(state.path().join("cluster/admin.token"), token).unwrap();
        Self::with_controllers_in(state).await
    }

    async fn with_controllers_in(state: TempDir) -> Self {
        let cluster = Cluster::start(Options::new(state.path().join("cluster"))).await.unwrap();
        let server = cluster.server().clone();
        let endpoint = Endpoint::trusted(server.clone(), UserInfo::admin());
        let client = cluster.client();
        operator::install_crd(&client).await.unwrap();
        let _cluster = Some(Arc::new((cluster, state)));
        let (api, server) = (Server::Embedded(endpoint), Some(server));
        Self { api, server, client, namespace: String::new(), _cluster }.in_namespace(TEAM).await
    }

    /// Returns the same API with a new namespace. On a real server, which is shared, its name begins with this
    /// one's.
    pub async fn in_namespace(&self, name: &str) -> Self {
        let shared = self.server.is_none() && !self.namespace.is_empty();
        let name = &if shared { format!("{}-{name}", self.namespace) } else { name.to_owned() };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        if self.server.is_none() {
            // Pods are refused without it; a controller may have created it. Without a token pods stay as they were
            // sent.
            let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), name);
            let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" },
                "automountServiceAccountToken": false });
            accounts.patch("default", &PatchParams::apply("stage"), &Patch::Apply(account)).await.unwrap();
        }
        let (api, server) = (self.api.clone(), self.server.clone());
        let (client, _cluster) = (self.client.clone(), self._cluster.clone());
        Self { api, server, client, namespace: name.to_owned(), _cluster }
    }

    /// Installs the CRD of a gang scheduler's PodGroups and returns their API.
    pub async fn install_pod_groups(&self, gang: &Gang) -> Api<DynamicObject> {
        let (group, version) = gang.api();
        let text = include_str!("../../testdata/upstream/podgroup-crd.yaml");
        let text = text.replace("GROUP", group).replace("VERSION", version);
        let crd: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        self.share(&crds, &crd).await;
        let name = crd.name_any();
        let served = await_condition(crds, &name, is_crd_established());
        tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
        let kind = GroupVersionKind::gvk(group, version, "PodGroup");
        let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Creates a cluster-scoped object, which another test may have created already on a real server.
    pub async fn share<K>(&self, objects: &Api<K>, object: &K)
    where
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        match objects.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() && self.server.is_none() => {}
            outcome => assert!(outcome.is_ok(), "{outcome:?}"),
        }
    }

    /// Converts a recorded text from the namespace `team` to this one.
    pub fn here(&self, text: &str) -> String {
        let space = &self.namespace;
        text.replace("namespace: team", &format!("namespace: {space}"))
            .replace(".team.svc", &format!(".{space}.svc"))
    }

    /// Returns the API for another user.
    pub fn endpoint_of(&self, user: UserInfo) -> Endpoint {
        Endpoint::trusted(self.server.clone().unwrap(), user)
    }

    /// Adds a node that returns the same log for every container, or `None` for a log that never comes.
    pub fn add_node(&self, name: &str, log: Option<&'static str>) {
        self.server.as_ref().unwrap().kubelets.register(name, Arc::new(Scribe(log)));
    }

    /// Starts an operator.
    pub fn operate(&self) -> Running {
        self.operate_behind(Gate::new(None))
    }

    pub fn operate_behind(&self, gate: Arc<Gate>) -> Running {
        self.operate_with(gate, plan::Settings::default())
    }

    /// Starts an operator that writes the first status of a job at once.
    pub fn operate_with(&self, gate: Arc<Gate>, plan: plan::Settings) -> Running {
        let first_wait = Duration::ZERO;
        self.operate_as(gate, operator::Settings { plan, first_wait, ..operator::Settings::default() })
    }

    /// Starts an operator that writes the first status of a job with the next one, however slow this machine is.
    pub fn operate_patiently(&self, gate: Arc<Gate>) -> Running {
        self.operate_as(gate, operator::Settings { first_wait: PATIENCE, ..operator::Settings::default() })
    }

    /// A client whose requests pass a gate.
    pub fn client_behind(&self, gate: &Arc<Gate>) -> Client {
        Client::new(Gated { inner: self.api.clone(), gate: gate.clone() }, TEAM)
    }

    /// Starts an operator that reconciles TrainJobs, too.
    pub fn operate_trainjobs(&self, gate: Arc<Gate>) -> Running {
        self.operate_as(gate, operator::Settings { trainjobs: true, ..operator::Settings::default() })
    }

    fn operate_as(&self, gate: Arc<Gate>, settings: operator::Settings) -> Running {
        let client = self.client_behind(&gate);
        // In a namespace of its own, an operator watches only that one.
        let namespace = (self.namespace != TEAM).then(|| self.namespace.clone());
        let settings = operator::Settings { namespace, ..settings };
        let vitals = operator::Vitals::default();
        let run = operator::operate(client, settings, vitals.clone(), std::future::pending());
        Running { gate, vitals, task: tokio::spawn(run) }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn submit(&self, job: &Value) -> MPIJob {
        let job = serde_json::from_value(job.clone()).unwrap();
        self.api::<MPIJob>().create(&PostParams::default(), &job).await.unwrap()
    }

    pub async fn change_job(&self, name: &str, patch: Value) {
        self.api::<MPIJob>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until an object is as wanted.
    pub async fn until<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let found = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_some_and(&wanted));
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => panic!("{name} never {what}: {:#?}", self.api::<K>().get_opt(name).await),
        }
    }

    /// Waits until an object is gone.
    pub async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let gone = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_none());
        tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{name} stayed")).unwrap();
    }

    /// Waits until there is no object of a kind that a job owns.
    pub async fn until_none<K>(&self)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        // Poll, because a Job's pod that is being created meanwhile is deleted only when the collector sees that
        // its owner is gone.
        let gone = async {
            loop {
                let listed = self.api::<K>().list(&ListParams::default()).await.unwrap();
                let mut owned = listed.items.iter().filter(|object| !object.owner_references().is_empty());
                let Some(object) = owned.next() else { return };
                self.until_gone::<K>(&object.name_any()).await;
            }
        };
        let kind = K::kind(&());
        tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{kind}s of the job stayed"));
    }

    pub async fn until_true(&self, job: &str, condition: &str) -> MPIJobStatus {
        let is_true =
            |job: &MPIJob| job.status.as_ref().is_some_and(|status| plan::is_true(status, condition));
        self.until(job, &format!("became {condition}"), is_true).await.status.unwrap()
    }

    /// Merges into a pod's status.
    pub async fn set_pod(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<Pod>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits for a Worker's pod and lets it run.
    pub async fn start_worker(&self, job: &str, index: usize) {
        let name = plan::worker_name(job, index);
        self.until::<Pod>(&name, "came", |_| true).await;
        self.set_pod(&name, running("main")).await;
    }

    /// Waits for the Launcher's Job and lets its pod run.
    pub async fn start_launcher(&self, job: &str) -> String {
        let launcher: Job = self.until(&plan::launcher_name(job), "came", |_| true).await;
        let name = format!("{}-pod", launcher.name_any());
        if self.api::<Pod>().get_opt(&name).await.unwrap().is_none() {
            let template = serde_json::to_value(&launcher.spec.as_ref().unwrap().template).unwrap();
            let mut pod = json!({ "metadata": template["metadata"], "spec": template["spec"] });
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["ownerReferences"] = json!([launcher.controller_owner_ref(&()).unwrap()]);
            let pod: Pod = serde_json::from_value(pod).unwrap();
            self.api().create(&PostParams::default(), &pod).await.unwrap();
        }
        self.set_pod(&name, running("main")).await;
        name
    }

    /// Waits until the Job controller has created a pod for the Launcher that is not among `known`.
    pub async fn launcher_pod(&self, job: &str, known: &[String]) -> String {
        let selected = format!("{}={job},{}=launcher", api::LABEL_JOB_NAME, api::LABEL_JOB_ROLE);
        self.pod_selected(&selected, known).await
    }

    /// Waits until a pod with these labels has been created that is not among `known`.
    pub async fn pod_selected(&self, selected: &str, known: &[String]) -> String {
        let pods = watcher(self.api::<Pod>(), watcher::Config::default().labels(selected)).applied_objects();
        let mut pods = std::pin::pin!(pods);
        let came = async {
            loop {
                let name = pods.next().await.unwrap().unwrap().name_any();
                if !known.contains(&name) {
                    return name;
                }
            }
        };
        tokio::time::timeout(PATIENCE, came).await.unwrap_or_else(|_| panic!("no pod came with {selected}"))
    }

    /// Completes the Launcher's Job with success.
    pub async fn complete_launcher(&self, job: &str) {
        let name = plan::launcher_name(job);
        self.set_pod(&format!("{name}-pod"), ended("main", "Succeeded", 0)).await;
        let now = "2026-01-01T00:00:00Z";
        self.set_job(&name, json!({ "succeeded": 1, "startTime": now, "completionTime": now, "conditions": [
            { "type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached" },
            { "type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods" },
        ] })).await;
    }

    pub async fn set_job(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<Job>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Starts all pods of a job and waits until the job runs.
    pub async fn bring_up(&self, job: &str, workers: usize) {
        for index in 0..workers {
            self.start_worker(job, index).await;
        }
        self.start_launcher(job).await;
        self.until_true(job, "Running").await;
    }

    /// Returns the reasons of a job's events, in alphabetical order.
    pub async fn event_reasons(&self, job: &str) -> Vec<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        let mine =
            events.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(job));
        let mut reasons: Vec<String> = mine.filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons
    }

    /// Waits until a job has an event with this reason.
    pub async fn until_event(&self, job: &str, reason: &str) {
        self.until_event_is(job, reason, |_| true).await;
    }

    /// Waits until a job's event with this reason is as wanted.
    pub async fn until_event_is(&self, job: &str, reason: &str, wanted: impl Fn(&Event) -> bool) {
        let events = watcher(self.api::<Event>(), watcher::Config::default()).applied_objects();
        let mut events = std::pin::pin!(events);
        let told = async {
            while let Some(event) = events.next().await {
                let event = event.unwrap();
                if event.involved_object.name.as_deref() == Some(job)
                    && event.reason.as_deref() == Some(reason)
                    && wanted(&event)
                {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("{job} had no event {reason}"));
    }

    pub async fn names<K>(&self) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let listed = self.api::<K>().list(&ListParams::default()).await.unwrap();
        let mut names: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }
}

/// A job with this many Workers and this run policy.
pub fn job(name: &str, workers: usize, policy: Value) -> Value {
    let template =
        json!({ "spec": { "containers": [{ "name": "main", "image": "mpi", "command": ["run"] }] } });
    json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": name, "annotations": {} },
        "spec": { "runPolicy": policy, "mpiReplicaSpecs": {
            "Launcher": { "template": template }, "Worker": { "replicas": workers, "template": template },
        } },
    })
}

fn condition(type_: &str) -> Value {
    json!({ "type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

/// The status of a pod that runs and is ready.
pub fn running(container: &str) -> Value {
    let state = json!({ "running": { "startedAt": Time(jiff::Timestamp::now()) } });
    json!({ "phase": "Running", "conditions": [condition("PodScheduled"), condition("Ready")],
        "containerStatuses": [{ "name": container, "state": state, "ready": true, "restartCount": 0, "image": "mpi", "imageID": "" }] })
}

/// The status of a pod that no node has enough GPUs for.
pub fn without_gpus() -> Value {
    json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu." }] })
}

/// The status of a pod whose container failed and was restarted.
pub fn restarted(container: &str, exit_code: i32) -> Value {
    let mut status = running(container);
    let ended = ended(container, "Failed", exit_code);
    status["containerStatuses"][0]["lastState"] = ended["containerStatuses"][0]["state"].clone();
    status["containerStatuses"][0]["restartCount"] = json!(1);
    status
}

/// The status of a pod that has ended.
pub fn ended(container: &str, phase: &str, exit_code: i32) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    let state = json!({ "terminated": { "exitCode": exit_code, "reason": reason,
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z" } });
    json!({ "phase": phase, "conditions": [condition("PodScheduled")],
        "containerStatuses": [{ "name": container, "state": state, "ready": false, "restartCount": 0, "image": "mpi", "imageID": "" }] })
}
