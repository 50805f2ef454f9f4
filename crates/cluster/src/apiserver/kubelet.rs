//! What the API server must ask a node: the one thing that does not go through stored objects.
//!
//! Nodes register here by name ([`Kubelets::register`]); the API server only asks.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;

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

/// A node, as the API server knows it.
pub trait Kubelet: Send + Sync {
    /// A container's log.
    fn logs(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>>;
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
