//! The API server's interface to nodes, for requests that cannot be served from the store.
//!
//! Nodes register by name ([`Kubelets::register`]).

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The cluster IP of the API itself, as in every cluster the first of the range.
pub const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The API's port at that address.
pub const OWN_PORT: u16 = 443;

/// Selects lines of a container's log (`v1.PodLogOptions`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// Whether the stream stays open while the container runs.
    pub follow: bool,
    /// Return at most this many of the last lines.
    pub tail_lines: Option<u64>,
    /// Return only lines from this time on.
    pub since: Option<Timestamp>,
    /// Whether to prefix each line with its time.
    pub timestamps: bool,
    /// Whether to read the log of the container's previous instance.
    pub previous: bool,
    /// Return at most this many bytes.
    pub limit_bytes: Option<u64>,
}

/// An error while reading a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// This node doesn't know the pod or container, or there is no previous instance.
    #[error("{0}")]
    NotFound(String),
    /// The container hasn't started yet; the text says why.
    #[error("{0}")]
    NotReady(String),
    /// The log could not be read.
    #[error("the container's log cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The text of a log, as a stream.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Identifies a container and selects its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRequest {
    /// The pod's UID.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// Whether the client will write.
    pub stdin: bool,
    /// Whether the client reads standard output.
    pub stdout: bool,
    /// Whether the client reads standard error.
    pub stderr: bool,
    /// Whether to allocate a terminal.
    pub tty: bool,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The container and the streams.
    pub stream: StreamRequest,
    /// Command and arguments; not empty.
    pub command: Vec<String>,
}

/// A TCP connection to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The pod's UID.
    pub uid: String,
    /// TCP port on the pod's loopback.
    pub port: u16,
}

/// An error while starting a process or a connection.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The container isn't running on this node.
    #[error("{0}")]
    NotFound(String),
    /// A limit is reached.
    #[error("{0}")]
    Busy(String),
    /// Starting or connecting failed; the text is for people.
    #[error("{0}")]
    Start(String),
}

/// Sets a terminal's columns and rows.
pub type Resize = Box<dyn Fn(u16, u16) + Send + Sync>;

/// A process that a client is connected to. Dropping it closes its streams and hangs up its terminal; the
/// process may run until it notices, or until its container ends.
pub struct Process {
    /// Standard input; dropping the sender closes it.
    pub stdin: Option<mpsc::Sender<Bytes>>,
    /// Standard output, or the terminal's output.
    pub stdout: Option<BoxStream<'static, Bytes>>,
    /// Its standard error.
    pub stderr: Option<BoxStream<'static, Bytes>>,
    /// Resizes the terminal, if there is one.
    pub resize: Option<Resize>,
    /// Resolves to the exit code when the process ends; to `None` if the client isn't given it (attach).
    pub ended: BoxFuture<'static, Option<i32>>,
}

/// CPU and memory usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time in nanoseconds, since the node or container started.
    pub cpu_total_nanos: u64,
    /// CPU usage in billionths of a core, averaged over the window.
    pub cpu_nanocores: u64,
    /// Working set in bytes.
    pub memory_bytes: u64,
}

/// The usage of a node and its pods.
#[derive(Debug, Clone)]
pub struct NodeUsage {
    /// When it was measured.
    pub time: Timestamp,
    /// The window of the rates.
    pub window: Duration,
    /// The usage of the node as a whole.
    pub node: Used,
    /// The running pods.
    pub pods: Vec<PodUsage>,
}

/// The usage of a pod.
#[derive(Debug, Clone)]
pub struct PodUsage {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The running containers by name.
    pub containers: Vec<(String, Used)>,
    /// Bytes received and sent, if the pod has a network of its own.
    pub traffic: Option<(u64, u64)>,
}

/// A node, as seen by the API server. By default, all methods but `logs` are unsupported.
pub trait Kubelet: Send + Sync {
    /// Reads a container's log.
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>>;

    /// Runs a command in a container.
    fn exec(&self, _request: ExecRequest) -> BoxFuture<'static, Result<Process, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// Attaches to the streams of a container's main process.
    fn attach(&self, _request: StreamRequest) -> BoxFuture<'_, Result<Process, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// Connects to a port of a pod.
    fn connect(&self, _request: ConnectRequest) -> BoxFuture<'_, Result<TcpStream, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// Returns the present usage of the node of this name and its pods.
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        Box::pin(ready(None))
    }

    /// Resolves when the pod with this UID has no sandbox.
    fn pod_ended(&self, _uid: &str) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

impl StreamError {
    fn none() -> Self {
        Self::NotFound("this node runs no containers that could be talked to".to_owned())
    }
}

/// The registered nodes.
#[derive(Default)]
pub struct Kubelets {
    by_node: RwLock<HashMap<String, Arc<dyn Kubelet>>>,
}

impl Kubelets {
    /// Registers `kubelet` for the node of this name, replacing an earlier one.
    pub fn register(&self, node: &str, kubelet: Arc<dyn Kubelet>) {
        self.by_node.write().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), kubelet);
    }

    /// Removes the nodes of other names than these.
    pub fn keep(&self, names: &[String]) {
        self.by_node.write().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(name));
    }

    /// Removes all nodes. They have clients of the API server, so a server that keeps them is never dropped.
    pub fn clear(&self) {
        self.by_node.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the node of this name.
    pub fn get(&self, node: &str) -> Option<Arc<dyn Kubelet>> {
        self.by_node.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }
}
