//! The node: runs pods as local processes, with the semantics of a kubelet.
//!
//! It is an ordinary client of the API: it registers its nodes and watches the pods bound to them. Each pod has its own
//! task ([`pod`]), which runs containers through the [`sandbox`] process and reports their state ([`status`]). The node
//! never accesses the API server's store, and never touches the machine's own network or file system.

mod covered;
mod environment;
mod events;
mod gpus;
mod hosts;
mod images;
mod kubelet_api;
mod logs;
mod metrics;
mod mode;
mod pod;
mod policy;
mod power;
mod presets;
mod register;
mod services;
mod status;
mod streams;
mod tokens;
mod volumes;
mod watching;

pub mod sandbox;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::PodSpec;
use semantics::local_images::LocalImages;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::mode::{Mode, ModeChoice, ModeKind};
pub use self::presets::{Preset, PresetScope, PresetValue};
pub use self::register::RENEWAL as HEARTBEAT;
pub use self::sandbox::sandbox_main;
pub use self::status::LIMITS_NOT_ENFORCED;
pub use kubelet::{
    ConnectRequest, ExecRequest, Kubelet, LogError, LogRequest, LogStream, NodeUsage, Process, StreamError,
    StreamRequest,
};

use self::events::Events;
use self::hosts::{Hosts, Listed};
use self::logs::RunLog;
use self::sandbox::client::{Sandbox, SandboxError};
use self::sandbox::protocol::{Begin, User};
use self::streams::LiveContainers;
use controller_runtime::supervision::{Health, supervise};
use kubelet::{OWN_ADDRESS, OWN_PORT};

/// The user of containers that name none, if the caller is root and has no other id to offer. It must not belong to a
/// person on any machine, or the container would get that account's shell, home and lock (sshd refuses a locked
/// account).
const DEFAULT_UID: u32 = 65532;
/// The node's address in pods' status. The machine's real addresses are not exposed.
const HOST_IP: &str = "127.0.0.1";

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The directory for volumes, logs and the like. It must exist and be private to the caller.
    pub state: PathBuf,
    /// The directory that holds the files of volume claims.
    pub claims: PathBuf,
    /// Folders of the cluster that are hidden from pods.
    pub secret: Vec<PathBuf>,
    /// Maps image names to local environments.
    pub images: LocalImages,
    /// The number of nodes that the machine poses as. Each has an equal share of it.
    pub nodes: u32,
    /// Variables of containers, as if their image set them.
    pub presets: Vec<Preset>,
    /// Simulated GPUs per node.
    pub gpus: u32,
    /// Time between two heartbeats.
    pub heartbeat: std::time::Duration,
    /// How long the pods' name server repeats that a name does not exist. If zero, it always answers by the current state,
    /// and pods find each other by their hosts files, too.
    pub dns_negative_ttl: std::time::Duration,
    /// How pods are isolated.
    pub mode: ModeChoice,
    /// The command (argv) that runs this program into [`sandbox_main`].
    pub sandbox_program: Vec<OsString>,
    /// Records failures of the node's parts.
    pub health: Health,
}

/// Why a node could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its directory cannot be used.
    #[error("the node's directory {path}: {source}")]
    State {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its sandbox process does not start, or the requested mode is not possible.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The API refused its registration.
    #[error("cannot register the node: {0}")]
    Register(#[from] kube::Error),
}

/// A running node. [`NodeHandle::stop`] ends it and waits; dropping it ends it without waiting.
pub struct NodeHandle {
    node: Arc<LocalNode>,
    api: Option<TcpListener>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl NodeHandle {
    /// Returns how pods are isolated, and why not more strictly.
    pub fn mode(&self) -> Mode {
        self.node.mode.clone()
    }

    /// Returns the names under which the node is registered.
    pub fn names(&self) -> Vec<String> {
        self.node.shape().names.clone()
    }

    /// Poses as this many nodes with this many simulated GPUs each from now on, and returns when they are registered.
    /// Pods on nodes that are no longer there run on until they are deleted; nothing of them is reported any more
    /// after that.
    ///
    /// # Errors
    /// If the API refuses a registration. The next call registers what is missing.
    pub async fn resize(&self, nodes: u32, gpus: u32) -> Result<(), kube::Error> {
        let shape = Arc::new(register::Shape::new(nodes, gpus));
        // A node that comes back is a new one, with power.
        lock(&self.node.dark).keep(&shape.names);
        *lock(&self.node.shape) = shape;
        register::register(&self.node).await
    }

    /// Returns the listener for API connections from the pods' own network. Only the first call returns it, and only if
    /// pods have such a network.
    pub fn take_api_listener(&mut self) -> Option<TcpListener> {
        self.api.take()
    }

    /// Listens for connections of pods in their own network, at the API's address there and this port. Returns `None` if
    /// pods have no such network, or the port is taken there.
    pub async fn listen_for_pods(&self, port: u16) -> Option<(SocketAddr, TcpListener)> {
        let node = &self.node;
        let opening = services::listen_for_pods(&node.sandbox, port);
        let listener = opened(node.mode.kind.isolates(), opening, "pods cannot reach a server").await?;
        Some((SocketAddr::from((OWN_ADDRESS, port)), listener))
    }

    /// Replaces the images that are mapped. Containers that run keep what they were started with.
    pub fn map_images(&self, images: LocalImages) {
        *lock(&self.node.images) = Arc::new(absolute(images));
    }

    /// Returns the kubelet API: logs, exec, attach, port forwarding and usage.
    pub fn kubelet(&self) -> Arc<dyn Kubelet> {
        Arc::clone(&self.node) as Arc<dyn Kubelet>
    }

    /// Ends the processes of all pods and returns when none is left. The API is not updated, because it ends too.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.node.sandbox.end().await;
        self.tasks.wait().await;
        let runtime = self.node.runtime.clone();
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(runtime)).await;
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The logs of the last runs, oldest first, by pod uid and container name.
type Logs = HashMap<(String, String), Vec<Arc<RunLog>>>;

/// The state that all pods of the node share.
pub struct LocalNode {
    client: kube::Client,
    sandbox: Sandbox,
    mode: Mode,
    /// The nodes as which the machine poses now.
    shape: Mutex<Arc<register::Shape>>,
    heartbeat: std::time::Duration,
    dns_negative_ttl: std::time::Duration,
    /// Nodes without power.
    dark: Mutex<power::Dark>,
    devices: Mutex<gpus::Devices>,
    /// Notified when a node has power again and its heartbeat is due.
    pulse: tokio::sync::Notify,
    images: Mutex<Arc<LocalImages>>,
    presets: Vec<Preset>,
    /// Folders hidden from pods, with symbolic links resolved.
    secret: Vec<PathBuf>,
    /// The folder of the directories behind claims.
    claims: PathBuf,
    runtime: PathBuf,
    log_folder: PathBuf,
    hosts: Mutex<Hosts>,
    /// Whether pods have a name server.
    serves_names: bool,
    /// Whether the API can be reached from pods.
    serves_api: bool,
    events: Events,
    health: Health,
    logs: Mutex<Logs>,
    /// The containers that run now.
    live: LiveContainers,
    /// The number of processes that run beside containers for clients.
    processes: AtomicUsize,
    /// The pods that have a sandbox, by uid. The token is cancelled when the sandbox is removed.
    sandboxes: Mutex<HashMap<String, CancellationToken>>,
    /// Earlier usage samples of containers.
    sampled: metrics::Sampled,
    /// A reference to this node, for tasks that outlive the call that starts them.
    own: Weak<LocalNode>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the names of the nodes as which a machine poses that poses as this many, at least one.
pub fn names(nodes: u32) -> Vec<String> {
    (0..nodes.max(1)).map(|number| format!("node-{number}")).collect()
}

/// Marks a folder as the top of unrelated directory trees, so that ext4 places the directories created in it far apart
/// (chattr(1), attribute `T`).
///
/// Without a journal, as on many virtual machines, ext4 does not reuse an inode for 60 s after its deletion, and longer
/// until the deletion is on disk. Each creation in the same block group passes over all such inodes
/// (`fs/ext4/ialloc.c`, `recently_deleted`). Where pods come and go, that takes longer than all else. File systems
/// without this attribute refuse it, and need nothing.
fn spread_out(folder: &Path) {
    use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, open};
    let marked = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|folder| ioctl_setflags(&folder, ioctl_getflags(&folder)? | IFlags::TOPDIR));
    if let Err(error) = marked {
        tracing::debug!(%error, folder = %folder.display(), "the file system cannot spread out directories");
    }
}

fn absolute(images: LocalImages) -> LocalImages {
    let absolute = |folder: PathBuf| std::path::absolute(&folder).unwrap_or(folder);
    images.into_iter().map(|(name, folder)| (name, absolute(folder))).collect()
}

/// Starts the node: its sandbox, its registration and its watch. Returns when the node is registered.
///
/// # Errors
/// See [`NodeError`]. Nothing is left running then.
pub async fn run(client: kube::Client, options: NodeOptions) -> Result<NodeHandle, NodeError> {
    let runtime = options.state.join("run");
    let unusable = |source| NodeError::State { path: runtime.clone(), source };
    for folder in ["hosts", "pods", "registry"] {
        std::fs::create_dir_all(runtime.join(folder)).map_err(unusable)?;
    }
    let runtime = runtime.canonicalize().map_err(unusable)?;
    let log_folder = options.state.join("logs");
    std::fs::create_dir_all(&log_folder)
        .map_err(|source| NodeError::State { path: log_folder.clone(), source })?;
    spread_out(&runtime.join("pods"));
    spread_out(&log_folder);
    let cgroup =
        format!("odh-{}", &format!("{:x}", Sha256::digest(runtime.as_os_str().as_encoded_bytes()))[..12]);
    let secret: Vec<PathBuf> =
        options.secret.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let images = absolute(options.images);
    let claims = std::path::absolute(&options.claims).unwrap_or_else(|_| options.claims.clone());
    let covered = covered::covered(&covered::Machine::look(), secret.clone(), &images);
    let begin = Begin { mode: options.mode, runtime: runtime.clone(), cgroup, covered };
    let (sandbox, mode) = Sandbox::begin(&options.sandbox_program, begin).await?;
    // Without a name server, pods are still found through hosts files.
    let isolates = mode.kind.isolates();
    let sockets = opened(isolates, services::listen(&sandbox), "pods have no name server").await;
    let api =
        opened(isolates, services::listen_for_pods(&sandbox, OWN_PORT), "pods cannot reach the API").await;
    let listed = match &sockets {
        Some(_) if !options.dns_negative_ttl.is_zero() => Listed::Own,
        _ => Listed::Namespace,
    };
    let tasks = TaskTracker::new();
    let (events, writer) = Events::new(client.clone());
    let node = Arc::new_cyclic(|own| LocalNode {
        client,
        sandbox,
        mode,
        shape: Mutex::new(Arc::new(register::Shape::new(options.nodes, options.gpus))),
        heartbeat: options.heartbeat,
        dns_negative_ttl: options.dns_negative_ttl,
        dark: Mutex::default(),
        devices: Mutex::default(),
        pulse: tokio::sync::Notify::new(),
        images: Mutex::new(Arc::new(images)),
        presets: options.presets,
        secret,
        claims,
        hosts: Mutex::new(Hosts::new(runtime.join("hosts"), listed)),
        serves_names: sockets.is_some(),
        serves_api: api.is_some(),
        log_folder,
        runtime,
        events,
        health: options.health.clone(),
        logs: Mutex::default(),
        live: LiveContainers::default(),
        processes: AtomicUsize::new(0),
        sandboxes: Mutex::default(),
        sampled: metrics::Sampled::default(),
        own: own.clone(),
    });
    let stop = CancellationToken::new();
    if let Err(error) = register::register(&node).await {
        node.sandbox.end().await;
        return Err(error.into());
    }
    start_parts(&node, writer, sockets, &tasks, &stop);
    Ok(NodeHandle { node, api, stop, tasks })
}

/// Starts the tasks that run as long as the node.
fn start_parts(
    node: &Arc<LocalNode>,
    writer: events::Writer,
    sockets: Option<services::dns::Sockets>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let sockets = sockets.map(Arc::new);
    let (pods, all, followed) = (tasks.clone(), stop.clone(), watching::Followed::default());
    let parts: [(&'static str, Part); 6] = [
        ("node: events", Box::new(move |_, _| Box::pin(writer.clone().write_all()))),
        ("node: heartbeat", Box::new(|node, _| Box::pin(register::heartbeat(node)))),
        ("node: network policies", Box::new(|node, stop| Box::pin(policy::enforce(node, stop)))),
        ("node: services", Box::new(move |node, stop| Box::pin(services::keep(node, sockets.clone(), stop)))),
        ("node: metrics", Box::new(|node, _| Box::pin(metrics::sample(node)))),
        (
            "node: pods",
            Box::new(move |node, _| {
                Box::pin(watching::follow_pods(node, pods.clone(), all.clone(), followed.clone()))
            }),
        ),
    ];
    for (name, part) in parts {
        let (node, stop) = (Arc::clone(node), stop.clone());
        tasks.spawn(async move {
            supervise(name, &node.health, &stop, |scope| {
                let work = part(Arc::clone(&node), scope.stop.clone());
                async move {
                    let _: Option<()> = scope.stop.run_until_cancelled(work).await;
                }
            })
            .await;
        });
    }
}

/// A task that runs as long as the node, until its token is cancelled.
type Part = Box<dyn Fn(Arc<LocalNode>, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// Awaits something to open in the pods' own network. Returns `None` if pods have no such network or opening fails;
/// pods then run without it.
async fn opened<T, E: std::fmt::Display>(
    isolates: bool,
    opening: impl Future<Output = Result<T, E>>,
    lack: &str,
) -> Option<T> {
    if !isolates {
        return None;
    }
    opening.await.map_err(|why| tracing::warn!(%why, "{lack}")).ok()
}

impl LocalNode {
    /// Returns the nodes as which the machine poses now.
    fn shape(&self) -> Arc<register::Shape> {
        Arc::clone(&lock(&self.shape))
    }

    /// Returns the user of a container that names none.
    fn default_user(&self) -> User {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        match self.mode.kind {
            ModeKind::Rootless if uid == 0 => User { uid: DEFAULT_UID, gid: DEFAULT_UID, groups: Vec::new() },
            _ => User { uid, gid, groups: Vec::new() },
        }
    }

    /// Returns the group that owns the pod's volumes, if this node may change owners.
    fn owner_group(&self, spec: &PodSpec) -> Option<u32> {
        let group = spec.security_context.as_ref().and_then(|context| context.fs_group);
        group.and_then(|group| u32::try_from(group).ok()).filter(|_| self.mode.kind == ModeKind::Root)
    }
}
