//! The protocol between the node and its sandbox process: frames over a Unix stream socket, each a four-byte length
//! (big endian) and JSON. File descriptors travel with the frame that they belong to (`SCM_RIGHTS`).
//!
//! Values only. The node assigns each request an id; every answer repeats it.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::mode::{Mode, ModeChoice};

/// The longest frame that either side accepts, in bytes. The kernel's 2 MiB for `execve` bounds a pod's environment.
pub const MAX_FRAME_BYTES: usize = 8 << 20;
/// Descriptors in transit at once. A peer that exceeds this is broken.
pub const MAX_PENDING_DESCRIPTORS: usize = 1024;

/// A request of the node.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// Repeated in every answer to it.
    pub id: u64,
    /// The request itself.
    pub body: RequestBody,
}

/// The kinds of requests.
#[derive(Debug, Serialize, Deserialize)]
pub enum RequestBody {
    /// The first request, sent once: choose a mode and set up.
    Begin(Begin),
    /// Create a pod's namespaces and network. Answered by `PodReady` or `Failed`.
    CreatePod(PodSpec),
    /// Release what `CreatePod` created. Its containers must have ended. Answered by `Done`.
    RemovePod {
        /// The pod's uid.
        pod: String,
    },
    /// Start a container's first process. The descriptors of its [`Streams`] are sent along. Answered by `Started` or
    /// `Failed`, and after `Started` by `Exited`.
    Start(Box<ContainerSpec>),
    /// Run a process inside a running container. Descriptors and answers are as for `Start`.
    Exec(Box<ExecSpec>),
    /// Send a signal to the process that the request `target` started.
    Signal {
        /// The number of the `Start` or `Exec` request.
        target: u64,
        /// A signal number.
        signal: i32,
    },
    /// Probe from the pods' network, as a kubelet does from its node. Answered by `Checked`.
    Check(CheckSpec),
    /// Load rules for packets between pods. Answered by `Checked`.
    Filter(FilterSpec),
    /// Connect to a port of a pod's own loopback. A socket is sent along, over which the connection is returned.
    /// Answered by `Checked`.
    Connect(ConnectSpec),
    /// Listen in the pods' outer network. A socket is sent along, over which the listening socket is returned. Answered
    /// by `Checked`.
    Listen(ListenSpec),
    /// Measure the containers' usage. Answered by `Used`.
    Measure,
}

/// The standard streams of a process, and the descriptors sent with its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// No standard input; standard output and error are sent along.
    #[default]
    Outputs,
    /// Standard input, output and error are sent along.
    All,
    /// A new terminal. A socket is sent along, over which the terminal's other end is returned.
    Terminal,
}

/// The configuration of the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The requested mode.
    pub mode: ModeChoice,
    /// A directory of the node for files that live no longer than the sandbox, which empties it at its end.
    pub runtime: PathBuf,
    /// The name of the parent cgroup of all containers, unique to this node's state directory.
    pub cgroup: String,
    /// The machine's files that are hidden from containers.
    pub covered: Covered,
}

/// Parts of the machine's file system that are empty for containers. Absolute paths; missing ones are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// Folders of the cluster itself. Only the node's own mounts may lead there.
    pub secret: Vec<PathBuf>,
    /// People's folders and files. Visible only through a mount.
    pub personal: Vec<PathBuf>,
}

/// A pod's sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodSpec {
    /// The pod's uid.
    pub pod: String,
    /// Its hostname.
    pub hostname: String,
    /// Its address, assigned by the node.
    pub address: Ipv4Addr,
    /// Sysctls of the pod's own namespaces: name with dots, value.
    pub sysctls: Vec<(String, String)>,
    /// Directories to mount in memory (`emptyDir` of medium `Memory`), with the size limit in bytes, if any.
    pub memory_directories: Vec<(PathBuf, Option<u64>)>,
}

/// A container to start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// The pod's uid.
    pub pod: String,
    /// The container's name, for its cgroup.
    pub name: String,
    /// Command and arguments; the command is looked up on the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory; created if missing.
    pub working_directory: String,
    /// The user to run as.
    pub user: User,
    /// The restrictions to run under.
    pub security: Security,
    /// The mounts, parents before children. Ignored in plain mode.
    pub mounts: Vec<MountSpec>,
    /// Its resource limits.
    pub limits: Limits,
    /// Its standard streams.
    pub streams: Streams,
}

/// The user and groups of a process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct User {
    /// User id inside the pod.
    pub uid: u32,
    /// Group id inside the pod.
    pub gid: u32,
    /// Supplementary groups; only root mode can set them.
    pub groups: Vec<u32>,
}

/// The restrictions of a container's processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// Whether programs may gain privileges (set-user-ID) on `execve`.
    pub may_gain_privileges: bool,
    /// Numbers (`linux/capability.h`) of the capabilities that its root can have. All others are dropped permanently.
    pub capabilities: Vec<u32>,
    /// Whether everything but its own volumes is read-only.
    pub read_only_root: bool,
}

/// One mount of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountSpec {
    /// A file or directory of the machine.
    pub source: PathBuf,
    /// An absolute path in the container; created if missing, but never on the machine's own file system.
    pub target: PathBuf,
    /// A path below the source to mount in its place; empty for the source itself. It is created if missing. Symbolic
    /// links on it are followed only within the source.
    pub below: PathBuf,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether the node created the source. Such a source may be in a [hidden](Covered::secret) folder.
    pub own: bool,
}

/// Resource limits of a container; `None` means no limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU in thousandths.
    pub cpu_millis: Option<u64>,
}

impl Limits {
    /// Returns whether there is anything to enforce.
    pub fn any(&self) -> bool {
        self.memory_bytes.is_some() || self.cpu_millis.is_some()
    }
}

/// A process to run beside a container's first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecSpec {
    /// The number of the `Start` request of the container.
    pub container: u64,
    /// Command and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub working_directory: String,
    /// The user to run as.
    pub user: User,
    /// The restrictions to run under: those of the container.
    pub security: Security,
    /// Its standard streams.
    pub streams: Streams,
}

/// A connection to a port of a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConnectSpec {
    /// The pod's uid.
    pub pod: String,
    /// The address to connect to from outside the pod, as a kubelet's probe does. `None` means the pod's own loopback,
    /// first IPv4, then IPv6.
    pub address: Option<Ipv4Addr>,
    /// TCP port.
    pub port: u16,
    /// Timeout in milliseconds.
    pub timeout_millis: u64,
}

/// A port to listen on, on every address of the pods' outer network.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ListenSpec {
    /// The port.
    pub port: u16,
    /// TCP if true, otherwise UDP.
    pub stream: bool,
}

/// A ruleset to load into the pods' outer network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilterSpec {
    /// `nft`.
    pub program: PathBuf,
    /// The file with the ruleset.
    pub rules: PathBuf,
}

/// A TCP or HTTP probe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckSpec {
    /// A pod's address, or loopback in plain mode.
    pub address: Ipv4Addr,
    /// TCP port.
    pub port: u16,
    /// Timeout in milliseconds.
    pub timeout_millis: u64,
    /// The HTTP request; `None` if connecting is enough.
    pub http: Option<HttpGet>,
}

/// An HTTP GET. Succeeds for statuses 200–399, as for a kubelet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpGet {
    /// Path and query.
    pub path: String,
    /// The `Host` header.
    pub host: String,
    /// Other headers.
    pub headers: Vec<(String, String)>,
}

/// An answer of the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The request's id.
    pub id: u64,
    /// The answer itself.
    pub body: AnswerBody,
}

/// The kinds of answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum AnswerBody {
    /// To `Begin`.
    Began(Mode),
    /// To `CreatePod`.
    PodReady,
    /// To `RemovePod`.
    Done,
    /// The program runs: its `execve` has succeeded.
    Started,
    /// The process has ended.
    Exited(Exit),
    /// To `Check`, `Filter`, `Connect` and `Listen`.
    Checked(Result<(), String>),
    /// To `Measure`.
    Used(Usage),
    /// The request failed.
    Failed(Failure),
}

/// The usage of all containers and pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Usage of each container.
    pub containers: Vec<ContainerUsage>,
    /// Traffic of each pod; empty if pods share the machine's network.
    pub pods: Vec<PodTraffic>,
}

/// The usage of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUsage {
    /// The number of its `Start` request.
    pub process: u64,
    /// CPU time so far, in nanoseconds.
    pub cpu_nanos: u64,
    /// Memory in bytes: the cgroup's working set, or else the processes' proportional set size.
    pub memory_bytes: u64,
    /// Number of processes.
    pub processes: u64,
}

/// The network traffic of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTraffic {
    /// The pod's uid.
    pub pod: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Why a request failed.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason, for a person.
    pub message: String,
    /// Whether the cause is the command itself (not found, not executable).
    pub command: bool,
}

impl Failure {
    /// Creates a failure whose cause is not the command itself.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), command: false }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, or 128 + signal.
    pub code: i32,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// Whether the kernel killed a process of the container for exceeding its memory limit.
    pub out_of_memory: bool,
}
