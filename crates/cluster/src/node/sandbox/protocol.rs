//! The words between the node and its sandbox process: frames of a four-byte length (big endian) and JSON over a Unix
//! stream socket; file descriptors travel beside the frame that they belong to (`SCM_RIGHTS`).
//!
//! Values only. Requests carry a number that the node chose; every answer repeats it.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::usage::Usage;
use crate::node::mode::{Mode, ModeChoice};

/// The longest frame either side accepts, in bytes. A pod's environment is bounded by the kernel's 2 MiB for `execve`.
pub const MAX_FRAME_BYTES: usize = 8 << 20;
/// Descriptors that may be on their way at once; more is a broken peer.
pub const MAX_PENDING_DESCRIPTORS: usize = 1024;

/// One request of the node.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// Repeated in every answer to it.
    pub id: u64,
    /// What is wanted.
    pub body: RequestBody,
}

/// What the node may ask.
#[derive(Debug, Serialize, Deserialize)]
pub enum RequestBody {
    /// The first request, once: choose a mode and set up.
    Begin(Begin),
    /// Make a pod's namespaces and its network. Answered by `PodReady` or `Failed`.
    CreatePod(PodSpec),
    /// Release what `CreatePod` made. Answered by `Done`. Its containers must have ended before.
    RemovePod {
        /// The pod's uid.
        pod: String,
    },
    /// Start a container's first process; the descriptors of its [`Streams`] come along. Answered by `Started` or
    /// `Failed`, and after `Started` by `Exited`.
    Start(Box<ContainerSpec>),
    /// Run a process inside a running container; descriptors come along and it is answered as `Start`.
    Exec(Box<ExecSpec>),
    /// Send a signal to the process that the request `target` started.
    Signal {
        /// The number of the `Start` or `Exec` request.
        target: u64,
        /// A signal number.
        signal: i32,
    },
    /// Connect from the pods' network, as a kubelet does from its node. Answered by `Checked`.
    Check(CheckSpec),
    /// Load rules for packets between pods. Answered by `Checked`.
    Filter(FilterSpec),
    /// Connect to a port of a pod's own loopback; a socket comes along, over which the connection is sent back.
    /// Answered by `Checked`.
    Connect(ConnectSpec),
    /// Listen in the pods' outer network; a socket comes along, over which the listening one is sent back. Answered by
    /// `Checked`.
    Listen(ListenSpec),
    /// Tell what containers use. Answered by `Used`.
    Measure,
}

/// What a process reads and writes, and which descriptors come along with its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// Nothing to read; standard output and error come along.
    #[default]
    Outputs,
    /// Standard input, output and error come along.
    All,
    /// A terminal of its own; a socket comes along, over which the terminal's other end is sent back.
    Terminal,
}

/// How the sandbox shall set itself up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The mode wanted.
    pub mode: ModeChoice,
    /// A directory of the node for what lives no longer than the sandbox: emptied by it at its end.
    pub runtime: PathBuf,
    /// The name of the cgroup under which containers are kept, unique to this node's state directory.
    pub cgroup: String,
    /// What containers do not see of the machine's files.
    pub covered: Covered,
}

/// Parts of the machine's file system that containers see empty. Absolute paths; one that is not there is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// Folders of the cluster itself: no mount leads there unless it is the node's own.
    pub secret: Vec<PathBuf>,
    /// Folders and files of people: seen only where a mount leads there.
    pub personal: Vec<PathBuf>,
}

/// A pod's sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodSpec {
    /// The pod's uid.
    pub pod: String,
    /// Its hostname.
    pub hostname: String,
    /// Its address; the sandbox gives out none itself.
    pub address: Ipv4Addr,
    /// Kernel parameters of the pod's own namespaces: name with dots, value.
    pub sysctls: Vec<(String, String)>,
    /// Directories to back by memory (`emptyDir` of medium `Memory`), with a size in bytes where limited.
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
    /// Where to start; made if missing.
    pub working_directory: String,
    /// As whom to run.
    pub user: User,
    /// What it may do.
    pub security: Security,
    /// What to mount, parents before children. In plain mode none is made.
    pub mounts: Vec<MountSpec>,
    /// What the container may use.
    pub limits: Limits,
    /// What it reads and writes.
    pub streams: Streams,
}

/// As whom a process runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct User {
    /// User id inside the pod.
    pub uid: u32,
    /// Group id inside the pod.
    pub gid: u32,
    /// Supplementary groups; only root mode can set them.
    pub groups: Vec<u32>,
}

/// What a container's processes may do, and what runs beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// Whether programs may gain privileges (set-user-ID) on `execve`.
    pub may_gain_privileges: bool,
    /// Numbers of the capabilities within reach of its root, from `linux/capability.h`; all others are gone for good.
    pub capabilities: Vec<u32>,
    /// Whether everything but its own volumes is read-only.
    pub read_only_root: bool,
}

/// One mount of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountSpec {
    /// A file or directory outside.
    pub source: PathBuf,
    /// An absolute path inside; made if missing, never on the machine's own file system.
    pub target: PathBuf,
    /// A path below the source to mount in its place; empty for the source itself. It is made if missing, and followed
    /// through links only as far as they stay below the source.
    pub below: PathBuf,
    /// Whether writing is refused.
    pub read_only: bool,
    /// Whether the node made the source: it may then be in a folder that is [covered](Covered::secret).
    pub own: bool,
}

/// What a container may use; `None` is no limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes.
    pub memory_bytes: Option<u64>,
    /// Thousandths of a processor.
    pub cpu_millis: Option<u64>,
}

impl Limits {
    /// Whether there is anything to enforce.
    pub fn any(&self) -> bool {
        self.memory_bytes.is_some() || self.cpu_millis.is_some()
    }
}

/// A process to run beside a container's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecSpec {
    /// The number of the `Start` request of the container.
    pub container: u64,
    /// Command and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where to start.
    pub working_directory: String,
    /// As whom.
    pub user: User,
    /// What it may do: as the container.
    pub security: Security,
    /// What it reads and writes.
    pub streams: Streams,
}

/// A port of a pod to connect to, as seen from inside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConnectSpec {
    /// The pod's uid.
    pub pod: String,
    /// Where from outside the pod, as a kubelet's probe connects; `None` is the pod's own loopback, of IPv4 or else of
    /// IPv6.
    pub address: Option<Ipv4Addr>,
    /// TCP port.
    pub port: u16,
    /// How long at most, in milliseconds.
    pub timeout_millis: u64,
}

/// A port of every address of the pods' outer network.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ListenSpec {
    /// The port.
    pub port: u16,
    /// TCP, or else UDP.
    pub stream: bool,
}

/// A ruleset to load into the pods' outer network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilterSpec {
    /// `nft`.
    pub program: PathBuf,
    /// The file that holds the ruleset.
    pub rules: PathBuf,
}

/// A connection to try.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckSpec {
    /// A pod's address, or loopback in plain mode.
    pub address: Ipv4Addr,
    /// TCP port.
    pub port: u16,
    /// How long at most, in milliseconds.
    pub timeout_millis: u64,
    /// `None`: connecting is enough.
    pub http: Option<HttpGet>,
}

/// An HTTP GET; statuses 200–399 are well, as for a kubelet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpGet {
    /// Path and query.
    pub path: String,
    /// The `Host` header.
    pub host: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
}

/// One answer of the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The request's number.
    pub id: u64,
    /// What happened.
    pub body: AnswerBody,
}

/// What the sandbox may answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum AnswerBody {
    /// To `Begin`.
    Began(Mode),
    /// To `CreatePod`.
    PodReady,
    /// To `RemovePod`.
    Done,
    /// The program runs (its `execve` has succeeded).
    Started,
    /// The process ended.
    Exited(Exit),
    /// To `Check`, `Filter`, `Connect` and `Listen`.
    Checked(Result<(), String>),
    /// To `Measure`.
    Used(Usage),
    /// The request could not be carried out.
    Failed(Failure),
}

/// Why something could not be done.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What was wrong, for a person.
    pub message: String,
    /// Whether the cause is the command itself (not found, not executable).
    pub command: bool,
}

impl Failure {
    /// A failure of the machine or of the pod's description.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), command: false }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, or 128 + signal.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the kernel killed a process of the container for want of memory under its limit.
    pub out_of_memory: bool,
}
