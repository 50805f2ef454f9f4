//! What the API server must ask a node: the one thing that does not go through stored objects.
//!
//! Nodes register here by name ([`Kubelets::register`]); the API server only asks.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Which lines of a container's log are wanted (`v1.PodLogOptions`).
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
    /// Only this many of the last lines.
    pub tail_lines: Option<u64>,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Whether the container's previous instance is meant.
    pub previous: bool,
    /// No more than this many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The pod or container is not known on this node, or there is no previous instance.
    #[error("{0}")]
    NotFound(String),
    /// The container has not started yet; the text says why.
    #[error("{0}")]
    NotReady(String),
    /// The log could not be read.
    #[error("the container's log cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The text of a log, as it comes.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Whose streams are wanted, and which.
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
    /// Whether the process is to have a terminal.
    pub tty: bool,
}

/// A process to run beside a container's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// Where, and with which streams.
    pub stream: StreamRequest,
    /// Command and arguments; not empty.
    pub command: Vec<String>,
}

/// A connection into a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The pod's UID.
    pub uid: String,
    /// TCP port on the pod's loopback.
    pub port: u16,
}

/// Why there is no process or connection.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The container does not run on this node.
    #[error("{0}")]
    NotFound(String),
    /// A bound is reached.
    #[error("{0}")]
    Busy(String),
    /// It could not be started or connected; the text is for a person.
    #[error("{0}")]
    Start(String),
}

/// Tells a terminal its columns and rows.
pub type Resize = Box<dyn Fn(u16, u16) + Send + Sync>;

/// A process with which a client talks. Dropping it closes its streams, and its terminal hangs up; the process may run
/// on until it notices, or its container ends.
pub struct Process {
    /// Takes its input; dropping it ends the input.
    pub stdin: Option<mpsc::Sender<Bytes>>,
    /// Its standard output, or all that its terminal shows.
    pub stdout: Option<BoxStream<'static, Bytes>>,
    /// Its standard error.
    pub stderr: Option<BoxStream<'static, Bytes>>,
    /// Where it has a terminal.
    pub resize: Option<Resize>,
    /// Comes when it has ended, with its exit code; without one where it is not the client's to know (attach).
    pub ended: BoxFuture<'static, Option<i32>>,
}

/// Processor and memory in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time in nanoseconds, since the node or container began.
    pub cpu_total_nanos: u64,
    /// Thousand-millionths of a processor, over the window.
    pub cpu_nanocores: u64,
    /// Working set in bytes.
    pub memory_bytes: u64,
}

/// What a node and its pods use.
#[derive(Debug, Clone)]
pub struct NodeUsage {
    /// When it was found out.
    pub time: Timestamp,
    /// Over how long rates were taken.
    pub window: Duration,
    /// All of the node.
    pub node: Used,
    /// Its pods that run.
    pub pods: Vec<PodUsage>,
}

/// What a pod uses.
#[derive(Debug, Clone)]
pub struct PodUsage {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its containers that run.
    pub containers: Vec<(String, Used)>,
    /// Bytes received and sent, where it has a network of its own.
    pub traffic: Option<(u64, u64)>,
}

/// A node, as the API server knows it. One that only keeps logs leaves the rest as it is: refused.
pub trait Kubelet: Send + Sync {
    /// A container's log.
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>>;

    /// Runs a command in a container.
    fn exec(&self, _request: ExecRequest) -> BoxFuture<'static, Result<Process, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// Takes part in what a container's own process reads and writes.
    fn attach(&self, _request: StreamRequest) -> BoxFuture<'_, Result<Process, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// Connects to a port of a pod.
    fn connect(&self, _request: ConnectRequest) -> BoxFuture<'_, Result<TcpStream, StreamError>> {
        Box::pin(ready(Err(StreamError::none())))
    }

    /// What the node of this name and its pods use now.
    fn usage(&self, _node: &str) -> BoxFuture<'_, Option<NodeUsage>> {
        Box::pin(ready(None))
    }

    /// Comes when the pod of this UID has no sandbox (any more).
    fn pod_ended(&self, _uid: &str) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

impl StreamError {
    fn none() -> Self {
        Self::NotFound("this node runs no containers that could be talked to".to_owned())
    }
}

/// The nodes that can be asked.
#[derive(Default)]
pub struct Kubelets {
    by_node: RwLock<HashMap<String, Arc<dyn Kubelet>>>,
}

impl Kubelets {
    /// From now on the node of this name is asked by way of `kubelet`.
    pub fn register(&self, node: &str, kubelet: Arc<dyn Kubelet>) {
        self.by_node.write().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), kubelet);
    }

    /// The node of this name.
    pub fn get(&self, node: &str) -> Option<Arc<dyn Kubelet>> {
        self.by_node.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }
}
