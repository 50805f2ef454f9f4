//! The embedded cluster: a Kubernetes API, the controllers that a job needs, a scheduler, and a node that
//! runs pods as local processes, in one process.
//!
//! It is a Kubernetes API, not a second backend: what works on it works on any cluster, and it rejects what
//! it doesn't support with a Kubernetes `Status`. It contains nothing of MPI or MPIJobs.
//!
//! Data flow: a request arrives over TLS or from the in-process client; [`apiserver`] authenticates, decodes
//! and admits it; [`store`] commits it under the next resourceVersion; watchers see it. `controllers`,
//! `scheduler` and `node` are ordinary clients of the same API.

pub mod kubeconfig;

pub use apiserver::{store, tls};
pub use controller_runtime::supervision;
pub use objects::access;
pub use {apiserver, controllers, node};

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::Kubeconfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use apiserver::audit::{self, Audit};
use apiserver::auth::tokens::Keys;
use apiserver::auth::users::{self, Users};
use apiserver::auth::{self, Identities, UserInfo};
use apiserver::guests::{self, raise_descriptor_limit};
use apiserver::{ApiServer, Endpoint, SYSTEM_NAMESPACES};
use node::{Mode, ModeChoice, NodeHandle, NodeOptions, Preset};
use semantics::local_images::LocalImages;
use store::{Store, Volatile};
use supervision::{Health, supervise};

/// The file in the state directory with the administrator's token.
const TOKEN_FILE: &str = "admin.token";
/// The file in the state directory with the objects.
pub const STORE_FILE: &str = "store.redb";
/// The file in the state directory with the key that signs service account tokens.
const TOKEN_KEY: &str = "service-accounts.key";
/// The folder in the state directory with the certificates.
const CERTIFICATES: &str = "pki";
/// The folder in the state directory with the volumes of claims.
const VOLUMES: &str = "volumes";

/// The configuration of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state directory, for certificates, tokens, logs and volumes; created with mode 0700 if it doesn't
    /// exist.
    pub state: PathBuf,
    /// Further folders to hide from pods, like the state directory.
    pub secret: Vec<PathBuf>,
    /// The address of the API; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Image names and the local environments that they are mapped to.
    pub images: LocalImages,
    /// Variables of containers, as if their image set them: what the programs need that run here.
    pub presets: Vec<Preset>,
    /// The number of nodes that the machine is presented as.
    pub nodes: u32,
    /// The number of GPUs of each node; they are not backed by devices.
    pub gpus: u32,
    /// How long a node may send no heartbeat before it counts as lost; at least a second.
    pub node_grace: Duration,
    /// How long the pods' name server repeats that a name does not exist, as CoreDNS does for 30 s with kubeadm's settings.
    /// Zero, the default, always answers by the current state, and pods find each other by their hosts files, too.
    pub dns_negative_ttl: Duration,
    /// The isolation of pods.
    pub mode: ModeChoice,
    /// The start of the command line that runs this program into [`node::sandbox_main`]. If empty, the
    /// cluster has no node and only serves its API.
    pub sandbox_program: Vec<OsString>,
    /// Whether to run controllers and the scheduler; without them the cluster is only an API.
    pub controllers: bool,
    /// Whether to enable the admission plug-in ServiceAccount even without the controllers, which create the
    /// default account.
    pub service_accounts: bool,
    /// Whether to keep objects in the state directory across restarts; otherwise they live as long as the
    /// cluster.
    pub durable: bool,
    /// The audit log's path; `None` disables auditing.
    pub audit: Option<PathBuf>,
    /// The number of past events that each resource keeps. A watch from an earlier revision gets 410.
    pub watch_window: usize,
}

impl Options {
    /// Options of a cluster with one node, without GPUs, on a free port of loopback.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            secret: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            images: LocalImages::new(),
            presets: Vec::new(),
            nodes: 1,
            gpus: 0,
            node_grace: controllers::Options::default().node_grace,
            dns_negative_ttl: Duration::ZERO,
            mode: ModeChoice::Auto,
            sandbox_program: Vec::new(),
            controllers: true,
            service_accounts: false,
            durable: false,
            audit: None,
            watch_window: store::DEFAULT_WINDOW,
        }
    }
}

/// Why a cluster failed to start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state directory cannot be used.
    #[error("cannot use the state directory {path}: {source}")]
    State {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The address is in use, or isn't one of this machine's.
    #[error("cannot serve the API at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
    /// The stored objects cannot be read.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// A stored CustomResourceDefinition cannot be served.
    #[error("cannot serve the definitions in the store: {0}")]
    Definitions(#[from] store::Error),
    /// The certificates cannot be read or generated.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The audit log cannot be opened.
    #[error("cannot open the audit log: {0}")]
    Audit(#[source] io::Error),
    /// The key of service account tokens cannot be read or generated.
    #[error(transparent)]
    TokenKey(#[from] auth::tokens::KeyError),
    /// The default roles could not be stored.
    #[error("cannot store the default roles: {0}")]
    Roles(#[source] store::Error),
    /// There is no randomness for the token.
    #[error("cannot get random numbers from the operating system: {0}")]
    Random(getrandom::Error),
    /// The kubeconfig could not be generated.
    #[error("cannot create the kubeconfig: {0}")]
    Kubeconfig(#[from] serde_json::Error),
    /// The node failed to start.
    #[error(transparent)]
    Node(#[from] node::NodeError),
    /// The cluster's own objects could not be created.
    #[error("cannot create the cluster's initial objects: {0}")]
    Client(#[from] kube::Error),
}

/// A running cluster. [`Cluster::stop`] stops it and waits; dropping it stops it without waiting.
pub struct Cluster {
    server: Arc<ApiServer>,
    client: kube::Client,
    address: SocketAddr,
    kubeconfig: Kubeconfig,
    stop: CancellationToken,
    tasks: TaskTracker,
    node: Option<NodeHandle>,
    health: Health,
}

impl Cluster {
    /// Starts a cluster. Returns when its API is served.
    ///
    /// # Errors
    /// See [`Error`]; nothing is left running then.
    pub async fn start(options: Options) -> Result<Self, Error> {
        make_private(&options.state)
            .map_err(|source| Error::State { path: options.state.clone(), source })?;
        let certificates = options.state.join(CERTIFICATES);
        make_private(&certificates).map_err(|source| Error::State { path: certificates.clone(), source })?;
        let token = load_or_make_token(&options.state.join(TOKEN_FILE))?;
        let identity = tls::load_or_make(&certificates, options.listen.ip())?;
        let unusable = |source| Error::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let kubeconfig = kubeconfig::kubeconfig(address, &identity.ca_pem, &token)?;

        let store = Arc::new(open_store(&options)?);
        let identities = Identities::new(&token)
            .with_users(Users::new(options.state.join(users::FILE)))
            .with_keys(Keys::load_or_make(&options.state.join(TOKEN_KEY))?);
        let audit = options.audit.as_deref().map(|path| Audit::begin(path, audit::LARGEST_BYTES)).transpose();
        let audit = audit.map_err(Error::Audit)?;
        let server = ApiServer::new(store, identities).with_audit(audit);
        let admits_accounts = options.controllers || options.service_accounts;
        let server = Arc::new(if admits_accounts { server.with_service_accounts() } else { server });
        apiserver::restore(&server).await?;
        let client = client_of(&server, UserInfo::admin());
        make_system_namespaces(&client).await?;
        make_system_priorities(&client).await?;
        apiserver::bootstrap::roles(server.store()).await.map_err(Error::Roles)?;
        apiserver::services::keep_own(&server, address.port()).await?;
        let health = Health::default();
        let mut node = start_node(&options, &server, &health).await?;
        if node.is_some() {
            make_storage_class(&client).await?;
        }

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let endpoint = Endpoint::with_credentials(server.clone());
        // Only now, because the sandbox, and with it every pod, must keep the limit that this process started
        // with.
        let slots = guests::slots(raise_descriptor_limit());
        // Pods connect to a listener of their own, with the same authentication.
        for listener in
            [Some(listener), node.as_mut().and_then(NodeHandle::take_api_listener)].into_iter().flatten()
        {
            let (acceptor, endpoint, slots) = (identity.acceptor.clone(), endpoint.clone(), slots.clone());
            tasks.spawn(apiserver::listen::listen(listener, acceptor, endpoint, slots, stop.clone()));
        }
        keep_own_books(&tasks, &server, &health, &stop);
        if options.controllers {
            let known = controllers::Options {
                root_ca: Some(identity.ca_pem.clone()),
                node_grace: options.node_grace,
                volumes: node.as_ref().and_then(|_| std::path::absolute(options.state.join(VOLUMES)).ok()),
                health: health.clone(),
            };
            let server = server.clone();
            let clients = controllers::Clients::new(move |user| client_of(&server, user));
            tasks.spawn(controllers::run(clients, known, stop.clone()));
        }
        Ok(Self { server, client, address, kubeconfig, stop, tasks, node, health })
    }

    /// Returns an in-process client as the administrator. Its requests are processed like all others.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns an in-process client as another user, subject to authorization.
    pub fn client_of(&self, user: UserInfo) -> kube::Client {
        client_of(&self.server, user)
    }

    /// Returns an in-process client whose requests are authenticated by the credentials that they carry.
    pub fn client_of_credentials(&self) -> kube::Client {
        kube::Client::new(Endpoint::with_credentials(self.server.clone()), "default")
    }

    /// Returns the address of the API.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> Kubeconfig {
        self.kubeconfig.clone()
    }

    /// Returns how pods are isolated, and why not better; `None` without a node.
    pub fn mode(&self) -> Option<Mode> {
        self.node.as_ref().map(NodeHandle::mode)
    }

    /// Replaces the images that are mapped to local environments. Containers that run keep what they were started with.
    pub fn map_images(&self, images: LocalImages) {
        if let Some(node) = &self.node {
            node.map_images(images);
        }
    }

    /// Presents the machine as this many nodes with this many simulated GPUs each from now on. Running pods keep the
    /// GPUs that they have.
    ///
    /// # Errors
    /// If a pod runs on a node that would be removed, in which case nothing changes, or if the API refuses a change, which
    /// the next call completes.
    pub async fn resize(&self, nodes: u32, gpus: u32) -> Result<(), ResizeError> {
        let Some(node) = &self.node else { return Ok(()) };
        let staying = node::names(nodes);
        let pods: Api<Pod> = Api::all(self.client());
        for pod in pods.list(&ListParams::default()).await? {
            let on = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let leaves = on.filter(|on| node.names().contains(on) && !staying.contains(on));
            if let Some(node) = leaves.filter(|_| !semantics::has_ended(&pod)) {
                return Err(ResizeError::Busy { node, pod: pod.name_any() });
            }
        }
        node.resize(nodes, gpus).await?;
        Ok(know_nodes(&self.server, node).await?)
    }

    /// Listens for connections of pods in their own network; returns the address at which they find it there. `None` if
    /// pods have no such network: they then share this machine's.
    pub async fn listen_for_pods(&self, port: u16) -> Option<(SocketAddr, TcpListener)> {
        self.node.as_ref()?.listen_for_pods(port).await
    }

    /// Returns the failures so far of parts that were restarted.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Returns the API server; nodes register with it, and tests compact its store ([`Store::compact`]).
    pub fn server(&self) -> &Arc<ApiServer> {
        &self.server
    }

    /// Stops the cluster. Returns when nothing of it is running.
    pub async fn stop(mut self) {
        if let Some(node) = self.node.take() {
            node.stop().await;
        }
        self.server.kubelets.clear();
        self.stop.cancel();
        self.server.store().close();
        self.server.sessions.stop();
        self.server.sessions.ended().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server.kubelets.clear();
        self.stop.cancel();
        self.server.store().close();
        self.server.sessions.stop();
    }
}

fn client_of(server: &Arc<ApiServer>, user: UserInfo) -> kube::Client {
    kube::Client::new(Endpoint::trusted(server.clone(), user), "default")
}

/// Runs the API server's own maintenance of the store.
fn keep_own_books(tasks: &TaskTracker, server: &Arc<ApiServer>, health: &Health, stop: &CancellationToken) {
    let (server, health, stop) = (server.clone(), health.clone(), stop.clone());
    tasks.spawn(async move {
        let (h, s) = (&health, &stop);
        tokio::join!(
            supervise("expiry", h, s, |scope| apiserver::expiry::run(server.store().clone(), scope.stop)),
            supervise("compaction", h, s, |scope| apiserver::compaction::run(server.clone(), scope.stop)),
            supervise("resource-quota", h, s, |scope| {
                apiserver::admission::quota::run(server.clone(), scope.stop)
            }),
        );
    });
}

/// Why the number of nodes cannot change.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// A pod runs on a node that would be removed.
    #[error("pod {pod} runs on {node}")]
    Busy {
        /// The node.
        node: String,
        /// One of its pods.
        pod: String,
    },
    /// The API refused a change.
    #[error(transparent)]
    Refused(#[from] kube::Error),
}

async fn start_node(
    options: &Options,
    server: &Arc<ApiServer>,
    health: &Health,
) -> Result<Option<NodeHandle>, Error> {
    if options.sandbox_program.is_empty() {
        return Ok(None);
    }
    let wanted = NodeOptions {
        state: options.state.clone(),
        claims: options.state.join(VOLUMES),
        secret: options.secret.iter().chain([&options.state]).cloned().collect(),
        images: options.images.clone(),
        presets: options.presets.clone(),
        nodes: options.nodes,
        gpus: options.gpus,
        // Four heartbeats per grace period, like a kubelet.
        heartbeat: node::HEARTBEAT.min(options.node_grace / 4),
        dns_negative_ttl: options.dns_negative_ttl,
        mode: options.mode,
        sandbox_program: options.sandbox_program.clone(),
        health: health.clone(),
    };
    // All nodes of this process share one client. Its user has no node's name: NodeRestriction limits a named
    // node to its own objects, so `system:node:node-0` could not write those of other nodes.
    let nodes = UserInfo::known("system:embedded-nodes", &[access::NODES]);
    let node = node::run(client_of(server, nodes), wanted).await?;
    if let Err(error) = know_nodes(server, &node).await {
        tracing::warn!(%error, "cannot remove the nodes of an earlier start");
    }
    Ok(Some(node))
}

/// Makes the nodes known to the API server, and removes all that the machine no longer poses as.
async fn know_nodes(server: &Arc<ApiServer>, node: &NodeHandle) -> Result<(), kube::Error> {
    let names = node.names();
    for name in &names {
        server.kubelets.register(name, node.kubelet());
    }
    let removed = remove_former_nodes(&client_of(server, UserInfo::admin()), &names).await;
    server.kubelets.keep(&names);
    removed
}

/// Removes the nodes of a time when this cluster had more of them, and the pods on them: no process will ever report
/// their end.
async fn remove_former_nodes(client: &kube::Client, known: &[String]) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let ours = ListParams::default().labels(semantics::local_nodes::ANNOTATION_NODE_MODE);
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
    for node in nodes.list_metadata(&ours).await?.items {
        let name = node.name_any();
        if known.contains(&name) {
            continue;
        }
        for pod in pods.list_metadata(&ListParams::default().fields(&format!("spec.nodeName={name}"))).await?
        {
            let namespaced: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            gone_anyway(namespaced.delete(&pod.name_any(), &at_once).await)?;
        }
        gone_anyway(nodes.delete(&name, &DeleteParams::default()).await)?;
        tracing::info!(node = name, "removed a node that this cluster no longer has");
    }
    Ok(())
}

/// Treats an object that is already gone as deleted.
fn gone_anyway<T>(deleted: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

fn open_store(options: &Options) -> Result<Store, Error> {
    if !options.durable {
        return Ok(Store::new(options.watch_window, Box::new(Volatile)));
    }
    let path = options.state.join(STORE_FILE);
    let store = Store::open(options.watch_window, &path)?;
    // It contains Secrets.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|source| Error::State { path, source })?;
    Ok(store)
}

/// Creates a directory that only its owner can access, or restricts an existing one.
fn make_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

fn load_or_make_token(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::State { path: path.to_owned(), source }),
    }
    let token = auth::new_token().map_err(Error::Random)?;
    tls::write(path, &token)?;
    Ok(token)
}

/// Creates the default StorageClass, whose volumes are directories in the state directory, created on first
/// use.
async fn make_storage_class(client: &kube::Client) -> Result<(), Error> {
    let class = serde_json::from_value(controllers::default_class())?;
    let classes = kube::Api::<k8s_openapi::api::storage::v1::StorageClass>::all(client.clone());
    match classes.create(&PostParams::default(), &class).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        result => result.map(drop).map_err(Error::Client),
    }
}

async fn make_system_namespaces(client: &kube::Client) -> Result<(), Error> {
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    for name in SYSTEM_NAMESPACES {
        let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
        namespace.metadata.name = Some(name.into());
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            result => {
                result?;
            }
        }
    }
    Ok(())
}

/// The built-in PriorityClasses (`pkg/apis/scheduling`, SystemPriorityClasses): name, value, description.
const SYSTEM_PRIORITIES: [(&str, i32, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

async fn make_system_priorities(client: &kube::Client) -> Result<(), Error> {
    let classes = kube::Api::<k8s_openapi::api::scheduling::v1::PriorityClass>::all(client.clone());
    for (name, value, description) in SYSTEM_PRIORITIES {
        let mut class = k8s_openapi::api::scheduling::v1::PriorityClass {
            value: Some(value),
            description: Some(description.into()),
            ..Default::default()
        };
        class.metadata.name = Some(name.into());
        match classes.create(&PostParams::default(), &class).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            result => {
                result?;
            }
        }
    }
    Ok(())
}
