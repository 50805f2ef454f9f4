//! The causes that a diagnosis can name, each with who must act, whether running the job again can help, when a Worker
//! fails for it, and its title, meaning, message and suggestion.
//!
//! This is the only source of these decisions and texts: restarts, conditions, events, the command line and
//! `docs/guides/troubleshooting.md` all use them. A message is a template: `{host|the worker}` is the captured host, or
//! the text after the bar if none was captured.

use serde::{Deserialize, Serialize};

/// The URL of the published guide; a cause's link is this and the cause's word in lower case.
const GUIDE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/guides/troubleshooting.md#");

/// The texts about one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts {
    /// A heading of a few words.
    pub title: &'static str,
    /// What has happened, for somebody new to it.
    pub meaning: &'static str,
    /// The template of the one-line message.
    pub message: &'static str,
    /// What to do about it.
    pub suggestion: &'static str,
}

/// Who must act on a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Actor {
    /// Nobody: it goes on by itself.
    Nobody,
    /// The author of the job.
    User,
    /// The administrator of the cluster or its queues.
    Administrator,
}

/// Whether running the same job again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The cluster is to blame, and not the job: the next attempt may succeed.
    Helps,
    /// The next run of the Launcher would fail in the same way: the user has to change something.
    Useless,
    /// The cause does not decide it: the Launcher's own retries apply, and no attempt is added to them.
    Undecided,
}

/// When a Worker fails for a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Its program never started.
    BeforeStart,
    /// Its program had started.
    AfterStart,
}

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident : $actor:ident, $retry:ident, $start:ident { title: $title:expr, meaning: $meaning:expr, message: $message:expr, suggestion: $suggestion:expr $(,)? })*) => {
        /// Why a job failed, hangs or cannot start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Cause {
            $(#[doc = $title] $name,)*
        }

        impl Cause {
            /// All causes, in the order of the guide.
            pub const ALL: &'static [Cause] = &[$(Cause::$name,)*];

            /// Returns who must act on it.
            #[must_use]
            pub const fn actor(self) -> Actor {
                match self { $(Cause::$name => Actor::$actor,)* }
            }

            /// Returns whether running the same job again can help.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Cause::$name => Retry::$retry,)* }
            }

            /// Returns when a Worker fails for this cause.
            #[must_use]
            pub const fn worker_fails(self) -> Moment {
                match self { $(Cause::$name => Moment::$start,)* }
            }

            /// The word used in status, events and JSON.
            pub const fn word(self) -> &'static str {
                match self { $(Cause::$name => stringify!($name),)* }
            }

            /// The texts of this cause.
            pub const fn texts(self) -> Texts {
                match self {
                    $(Cause::$name => Texts { title: $title, meaning: $meaning, message: $message, suggestion: $suggestion },)*
                }
            }
        }
    };
}

causes! {
    HostUnresolvable: User, Undecided, AfterStart {
        title: "A host name does not resolve",
        meaning: "The Launcher asked for a Worker's address and the cluster's DNS did not know the name: the Worker's pod does not exist (yet), the headless Service is missing, or the hostfile holds a wrong name.",
        message: "The name {host|of a host} cannot be resolved",
        suggestion: "Check that the Worker's pod exists and is running, that the job's headless Service is there, and that the hostfile names the Workers as the job does; if the Worker came up late, give it more time (annotation training.opendatahub.io/start-timeout).",
    }
    ConnectionRefused: User, Undecided, AfterStart {
        title: "A Worker refuses the connection",
        meaning: "The Worker's address is known, but nobody listens on the port: sshd or the launch agent is not running in the Worker, not running yet, or listens on another port. A NetworkPolicy that rejects looks the same.",
        message: "{host|A Worker} refuses the connection on port {port|of its launch service}",
        suggestion: "Look at the Worker's log and command: sshd (or the launch agent) must run there and listen on the port that the Launcher uses; check that the Worker is ready before the Launcher starts, and check NetworkPolicies.",
    }
    ConnectionTimeout: Administrator, Undecided, AfterStart {
        title: "A Worker does not answer",
        meaning: "The Launcher's packets to the Worker are lost: a NetworkPolicy or firewall drops them, or the Worker's node is gone.",
        message: "MPI communication failure – check NetworkPolicies: no answer from {host|a Worker} on port {port|of its launch service}",
        suggestion: "Allow traffic between all pods of the job, in both directions and on all ports, in the namespace's NetworkPolicies; check that the Worker's node is Ready.",
    }
    AuthenticationFailed: User, Undecided, AfterStart {
        title: "A Worker rejects the key",
        meaning: "The Worker was reached but did not accept the Launcher's key: the two pods have different keys, the key file's mode is too open, or the user has no entry in the password file.",
        message: "{host|A Worker} rejects the Launcher's key",
        suggestion: "Use the job's own key Secret in all pods, with mode 0600 and owned by the user that runs; do not mount keys of another job. Where the user id is arbitrary (OpenShift), use the launch agent (annotation training.opendatahub.io/launch: agent).",
    }
    HostKeyMismatch: User, Undecided, AfterStart {
        title: "A Worker's host key is not the known one",
        meaning: "ssh knows another host key for this name, or knows none and must not ask: typically an image with a stale known_hosts file, or pods of an earlier run under the same name.",
        message: "The host key of {host|a Worker} is not the one that ssh knows",
        suggestion: "Remove the stale known_hosts entry from the image, or set StrictHostKeyChecking no and UserKnownHostsFile /dev/null in the Launcher's ssh configuration.",
    }
    LaunchProgramMissing: User, Useless, AfterStart {
        title: "The Launcher lacks the program that starts remote processes",
        meaning: "mpirun was told to start its daemons with a program (ssh, or the launch agent) that is not in the Launcher's image, or mpirun itself is not there.",
        message: "The Launcher cannot find {path|the program that reaches the Workers}",
        suggestion: "Install the OpenSSH client and MPI in the Launcher's image, or use the launch agent (annotation training.opendatahub.io/launch: agent); if a path is configured (plm_rsh_agent, plm_ssh_agent, -launcher-exec), correct it.",
    }
    DaemonMissing: User, Undecided, AfterStart {
        title: "The Worker lacks MPI's daemon",
        meaning: "The Worker was reached, but the MPI daemon (orted, prted, hydra_pmi_proxy, hydra_bstrap_proxy) is not where the Launcher expects it: the Worker's image has no MPI, another one, or the same one elsewhere.",
        message: "{host|A Worker} has no {path|MPI daemon} where the Launcher expects it",
        suggestion: "Use the same image for Launcher and Workers, or install the same MPI at the same path in both; or tell mpirun where it is (--prefix).",
    }
    DaemonLost: Administrator, Helps, AfterStart {
        title: "MPI's daemon on a Worker died",
        meaning: "The daemon on a Worker ended or its connection broke while the job was starting or running, for a reason that it could not report: killed, out of memory, too few cores to bind to, or the network.",
        message: "The MPI daemon on {host|a Worker} is lost",
        suggestion: "Look at that Worker's pod: its last state, restarts, events and node; if processes are bound to cores (--bind-to core), ask for at least as many CPUs as there are slots.",
    }
    WorkerLost: Administrator, Helps, AfterStart {
        title: "A Worker vanished",
        meaning: "A connection to a Worker that had worked broke: its process, its pod or its node ended.",
        message: "{host|A Worker} was lost while the job was running",
        suggestion: "Look at that Worker's pod and node: restarts, eviction, out of memory, node condition. What other Workers print after that is the consequence.",
    }
    ExecutableNotFound: User, Useless, BeforeStart {
        title: "The program does not exist on a Worker",
        meaning: "The program (or the script given to the interpreter) is not at that path in the Worker's container, or is missing on one Worker only.",
        message: "{path|The program} does not exist on {host|a Worker}",
        suggestion: "Correct the path in the Launcher's command, or put the program into the image or volume of every Worker; mpirun takes an option that it does not know for the program's name, so look at the spelling of options, too.",
    }
    ExecutableNotPermitted: User, Useless, BeforeStart {
        title: "The program may not be executed",
        meaning: "The file is there but cannot be run: it lacks the executable bit, lies on a volume mounted noexec, or is built for another architecture (an image for arm64 on a node with amd64).",
        message: "{path|The program} may not be executed on {host|a Worker}",
        suggestion: "chmod +x the file (in a ConfigMap volume: defaultMode 0755), start scripts through their interpreter (python train.py), and check the architecture and the volume's mount options.",
    }
    LibraryMissing: User, Useless, AfterStart {
        title: "A library is missing on a Worker",
        meaning: "The program was started and the loader, or Python, could not find a library that it needs.",
        message: "{path|The program} needs {name|a library}, which is not there",
        suggestion: "Install the library in the image of every Worker, or pass its folder on: mpirun -x LD_LIBRARY_PATH; for Python, install the module into the environment that the job uses.",
    }
    NotEnoughSlots: User, Useless, AfterStart {
        title: "More processes than slots",
        meaning: "mpirun was asked for more processes than the hostfile's slots (or, when binding, the cores) allow.",
        message: "Not enough slots for {count|the} processes",
        suggestion: "Ask for at most Worker.replicas × slotsPerWorker processes (-np), or raise replicas or slotsPerWorker (with CPUs to match); to share cores on purpose, use --oversubscribe or --map-by :OVERSUBSCRIBE.",
    }
    RootRefused: User, Useless, AfterStart {
        title: "mpirun refuses to run as root",
        meaning: "Open MPI does not run as user 0 unless it is told twice that this is meant.",
        message: "mpirun refuses to run as root",
        suggestion: "Run the Launcher as another user (securityContext.runAsUser), which restricted clusters demand anyway; or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.",
    }
    RankKilled: User, Undecided, AfterStart {
        title: "A rank was killed",
        meaning: "A process of the job received signal 9. Nobody but the kernel (out of memory), the kubelet or an administrator sends it; the text alone cannot tell them apart.",
        message: "{who|A rank} on {host|a Worker} was killed by signal 9",
        suggestion: "See whether the Worker's container was OOMKilled; if so, increase memory allocation or reduce batch size. Otherwise look for an eviction, a preemption or somebody's kill.",
    }
    OutOfMemory: User, Undecided, AfterStart {
        title: "A Worker ran out of memory",
        meaning: "The container reached its memory limit and the kernel killed it, or a process could not allocate what it asked for.",
        message: "{host|A Worker} ran out of memory",
        suggestion: "Increase memory allocation: raise resources.limits.memory of the Worker. Reduce batch size, the number of data-loading processes, or the slots per Worker.",
    }
    RankAborted: User, Undecided, AfterStart {
        title: "A rank called MPI_Abort",
        meaning: "The program itself ended the job with MPI_Abort: by its own error handling, or, under mpi4py, because of an exception that nobody caught.",
        message: "{who|A rank} called MPI_Abort with error code {code|unknown}",
        suggestion: "Read what that rank printed before the abort: the reason is in the program or its input.",
    }
    RankExited: User, Undecided, AfterStart {
        title: "A rank exited with an error",
        meaning: "A process of the job ended with an exit code other than 0, such as by an exception or because it could not connect to another rank; the Launcher then ended the others. mpirun of Open MPI 4 does not say which if it ended before mpirun knew that all others had begun.",
        message: "{who|A rank} exited with code {code|other than 0}",
        suggestion: "Read what that rank printed before it ended: the reason is in the program, its arguments or its input.",
    }
    RankCrashed: User, Undecided, AfterStart {
        title: "A rank crashed",
        meaning: "A process of the job was ended by a signal that means a fault in the program or a library: segmentation fault, abort, illegal instruction, bus error.",
        message: "{who|A rank} on {host|a Worker} crashed with signal {signal|unknown}",
        suggestion: "Look at the stack that was printed, and run that rank under a debugger or with a core file; after an image change, check that program and libraries match. A bus error (signal 7) often means that /dev/shm is too small.",
    }
    MpiError: User, Undecided, AfterStart {
        title: "An MPI call failed",
        meaning: "MPI itself reported an error in a call of the program, such as a message longer than the receiver's buffer.",
        message: "An MPI call failed on {host|a Worker}: {name|see the evidence}",
        suggestion: "Look at that call in the program: counts, types, ranks and communicators of both sides must match. If the error is internal, look for what other ranks printed before.",
    }
    PeerUnreachable: Administrator, Undecided, AfterStart {
        title: "Workers cannot reach one another",
        meaning: "The daemons are up, but ranks on different Workers cannot open connections to each other.",
        message: "MPI communication failure – check NetworkPolicies: {host|a Worker} cannot reach {peer|another Worker}",
        suggestion: "Allow all traffic between the pods of the job in the namespace's NetworkPolicies; exclude the job's ports from a service mesh; if interfaces are selected (btl_tcp_if_include, UCX_NET_DEVICES, NCCL_SOCKET_IFNAME), choose one that all Workers share.",
    }
    CallbackBlocked: Administrator, Undecided, AfterStart {
        title: "Workers cannot call back to the Launcher",
        meaning: "The Launcher reached the Worker and started its daemon there, but the daemon's own connection back to the Launcher is dropped or rejected.",
        message: "MPI communication failure – check NetworkPolicies: {host|a Worker} cannot connect back to {peer|the Launcher}",
        suggestion: "Allow traffic from the Workers to the Launcher on all ports in the namespace's NetworkPolicies: MPI's daemons and rendezvous listen there on ports chosen at run time.",
    }
    PythonException: User, Undecided, AfterStart {
        title: "A Python exception stopped one rank, and the others wait for it",
        meaning: "A rank ended with an exception that nothing caught. Python then waits in MPI_Finalize for the other ranks, and they wait for a message from this rank: the job would hang until somebody ends it.",
        message: "{who|A rank} raised {name|an exception}{path|}, and nothing has been printed since: the other ranks are waiting for it",
        suggestion: "Correct the program where the traceback says. Start it with python -m mpi4py (python -m mpi4py train.py): an uncaught exception then ends the whole job at once, and its exit code is reported.",
    }
    SilentHang: User, Undecided, AfterStart {
        title: "The job is silent",
        meaning: "Nothing has been printed for a while, and no error that names a cause. Connections whose packets are dropped look like this, and so does a deadlock; a program that computes without printing does, too: silence alone does not fail a job.",
        message: "No output for {seconds|some} s: the job hangs, or works without printing",
        suggestion: "See whether the ranks use the CPU: then they work, or wait for one another in MPI, as when one of them leaves out a collective call or a message is never sent. Have the program print its progress. If the job has hung since its ranks started to talk, look at the network: NetworkPolicies between the Workers and back to the Launcher (MPI communication failure – check NetworkPolicies).",
    }
    Timeout: User, Undecided, BeforeStart {
        title: "The time limit was reached",
        meaning: "A limit that somebody set ended the job: mpirun --timeout, MPIEXEC_TIMEOUT, activeDeadlineSeconds, or a collective operation's time limit.",
        message: "The time limit of {seconds|the job} was reached",
        suggestion: "Raise the limit if the job was making progress; otherwise look at what it was waiting for.",
    }
    Terminated: User, Undecided, AfterStart {
        title: "The job was ended from outside",
        meaning: "The Launcher or a rank received SIGTERM or SIGINT: the job was deleted, suspended, preempted, interrupted, or stopped by a time limit outside of MPI.",
        message: "The job was ended from outside ({signal|SIGTERM})",
        suggestion: "If nobody stopped it on purpose, look at the events of the Launcher's pod: deletion, eviction, preemption, deadline.",
    }
    WrongMpi: User, Undecided, AfterStart {
        title: "The program is linked to another MPI",
        meaning: "Every process believes to be rank 0 of 1: the program was built with another MPI than the one whose mpirun starts it, so the processes do not find each other. The run may end with exit code 0 and a wrong result.",
        message: "Every process is rank 0 of 1: the program does not belong to this mpirun",
        suggestion: "Use mpirun and the program from the same MPI: check ldd PROGRAM | grep mpi, and the MPI that mpi4py or Horovod was built with; rebuild it, or set mpiImplementation to match.",
    }
    MpiMismatch: User, Useless, AfterStart {
        title: "The image has another MPI than the job declares",
        meaning: "The mpirun in the Launcher's image does not belong to the MPI that mpiImplementation names. The options that were written for the declared MPI, its hostfile and its settings mean nothing to the other: Open MPI's mpirun refuses -prepend-rank, and that of MPICH and Intel MPI refuses --tag-output and -x.",
        message: "The image's MPI is not the one that the job declares",
        suggestion: "Set mpiImplementation to the MPI of the image, with the options of that MPI in the command, or use an image with the declared MPI.",
    }
    VersionMismatch: User, Useless, AfterStart {
        title: "Versions do not match",
        meaning: "Two parts that must be of the same or of compatible versions are not: mpirun and the program's MPI library, Launcher and Worker images, the C library, or the CUDA driver.",
        message: "Versions do not match: {name|two parts of the job are of different versions}",
        suggestion: "Use one image for Launcher and Workers, and build the program against the MPI that starts it; do not mix LD_LIBRARY_PATH of two installations.",
    }
    BadHostfile: User, Useless, AfterStart {
        title: "The hostfile cannot be used",
        meaning: "The list of hosts is missing, unreadable, or written for another MPI.",
        message: "The hostfile {path|given to mpirun} cannot be used",
        suggestion: "Use the hostfile that the job provides (/etc/mpi/hostfile), or correct the path and syntax: Open MPI wants `host slots=N`, MPICH and Intel MPI want `host:N`.",
    }
    BadOption: User, Useless, AfterStart {
        title: "An option is wrong",
        meaning: "mpirun does not know an option, a parameter or a component that it was given, or two of them contradict each other.",
        message: "mpirun cannot use {name|an option that it was given}",
        suggestion: "Correct the Launcher's command or its OMPI_MCA_…, PRTE_MCA_…, HYDRA_… variables; options differ between Open MPI 4, Open MPI 5, MPICH and Intel MPI.",
    }
    BadInterface: User, Useless, AfterStart {
        title: "The network interface does not exist",
        meaning: "MPI, UCX, NCCL or Gloo was told to use an interface or device that the pod does not have.",
        message: "There is no network interface {name|of the given name} on {host|the pods}",
        suggestion: "Set btl_tcp_if_include, oob_tcp_if_include, -iface, UCX_NET_DEVICES, NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME to an interface that every pod has (mostly eth0), or leave them out.",
    }
    SharedMemoryTooSmall: User, Undecided, AfterStart {
        title: "/dev/shm is too small",
        meaning: "Processes of one Worker exchange data through /dev/shm, which a container gets at 64 MiB unless asked otherwise.",
        message: "/dev/shm on {host|a Worker} is too small",
        suggestion: "Mount an emptyDir with medium: Memory at /dev/shm (it counts against the memory limit), or use fewer data-loading processes or slots per Worker.",
    }
    StorageUnusable: User, Undecided, AfterStart {
        title: "A directory is full or cannot be written",
        meaning: "A file or a temporary directory could not be written: the volume is full, or its permissions do not allow it.",
        message: "{path|A directory} on {host|a Worker} is full or cannot be written",
        suggestion: "Enlarge the volume or the ephemeral-storage limit, delete old checkpoints, or set TMPDIR to a directory that the job's user may write.",
    }
    GpuOutOfMemory: User, Undecided, AfterStart {
        title: "A GPU ran out of memory",
        meaning: "The model, its activations and its optimizer do not fit into the GPU's memory.",
        message: "CUDA out of memory on {whom|a rank}",
        suggestion: "Reduce batch size; use gradient accumulation or checkpointing, mixed precision or sharding, or GPUs with more memory. See that no other process uses the GPU.",
    }
    ImagePull: User, Undecided, BeforeStart {
        title: "An image cannot be pulled",
        meaning: "The kubelet cannot get the container's image: wrong name or tag, no right to pull it, or a registry that does not answer.",
        message: "Failed to pull image '{image|unknown}': {reason|see the evidence}",
        suggestion: "Correct the image's name and tag; for a private registry, add a pull secret to the namespace's service account or the pod's imagePullSecrets.",
    }
    Unschedulable: Administrator, Undecided, BeforeStart {
        title: "Pods cannot be scheduled",
        meaning: "No node has what a pod asks for: too few free GPUs, CPUs or memory, or none that the pod's selectors and tolerations allow.",
        message: "No node can take {host|the pod}: {reason|see the evidence}",
        suggestion: "Ask for less, wait for other jobs to end, or add nodes; check nodeSelector, affinity, tolerations and the resource's name.",
    }
    QuotaExceeded: Administrator, Undecided, BeforeStart {
        title: "A quota is exhausted",
        meaning: "The namespace or its queue may not use as much as the job asks for.",
        message: "Quota exceeded: {reason|see the evidence}",
        suggestion: "Ask for less, delete or suspend other jobs in the namespace, or ask an administrator for more quota.",
    }
    Evicted: User, Helps, AfterStart {
        title: "A pod was evicted",
        meaning: "The node was short of memory or disk, or was drained, and the kubelet or an administrator removed the pod.",
        message: "{host|A pod} was evicted: {reason|see the evidence}",
        suggestion: "If the node was short of memory or disk, as the reason says, let the pods use less of it, or set their requests (memory, ephemeral-storage) to what they use, so that they go to a node that has it; if the node was drained, nothing is wrong with the job. Then run it again: a program that writes checkpoints goes on from the last one. If nodes stay short, an administrator has to free or enlarge them.",
    }
    Preempted: Administrator, Helps, AfterStart {
        title: "A pod was preempted",
        meaning: "A pod or workload of higher priority took the place.",
        message: "{host|A pod} was preempted: {reason|a pod of higher priority took its place}",
        suggestion: "Use a higher priority class; a program that writes checkpoints can be run again and goes on from the last one.",
    }
    NodeLost: Administrator, Helps, AfterStart {
        title: "A node was lost",
        meaning: "The node on which a Worker ran no longer reports to the control plane: it is down, restarting, or cut off.",
        message: "The node of {host|a Worker} was lost: {reason|it does not report}",
        suggestion: "Look at the node, and run the job again: it goes elsewhere, and a program that writes checkpoints goes on from the last one.",
    }
    CrashLoop: User, Undecided, AfterStart {
        title: "A container crashes again and again",
        meaning: "A container ends soon after each start; the kubelet waits longer and longer before the next.",
        message: "A container of {host|a pod} crashes again and again",
        suggestion: "Read the log of its previous run, which says why it ended, and correct that.",
    }
    InitContainerFailed: User, Undecided, BeforeStart {
        title: "An init container fails",
        meaning: "A container that prepares the pod, such as one that fetches data, ended with an error, so that the pod's own containers were never started.",
        message: "The init container {name|} of {host|a pod} failed with exit code {code|unknown}",
        suggestion: "Read the output of that init container and correct what it reports: the pod's own containers start only once it has ended with 0.",
    }
    MissingReference: User, Undecided, BeforeStart {
        title: "Something that the pod refers to does not exist",
        meaning: "A Secret, ConfigMap, volume claim or service account named in the pod template is not in the namespace, or lacks the key.",
        message: "{name|Something that the pod refers to} does not exist",
        suggestion: "Create it in the job's namespace, or correct its name in the pod template.",
    }
    AdmissionRefused: User, Undecided, BeforeStart {
        title: "The API server or a policy refuses the pods",
        meaning: "Pod Security, a security context constraint (OpenShift), an admission webhook or the API server's own validation does not let the pods be created.",
        message: "A policy refuses the job's pods: {reason|see the evidence}",
        suggestion: "Adjust the pod template to the policy (runAsNonRoot, no privileged containers, no host paths, drop all capabilities); the launch agent needs no privileges.",
    }
    Cancelled: Nobody, Useless, AfterStart {
        title: "The job was cancelled",
        meaning: "A person has cancelled the job: its Workers were deleted, and its record and the Launcher's output stay.",
        message: "The job was cancelled",
        suggestion: "Nothing has to be done; to run it again, retry the job.",
    }
    Unknown: User, Undecided, AfterStart {
        title: "The cause is not known",
        meaning: "The job failed, and nothing that is known of it names a reason that can be relied on.",
        message: "The job failed; the cause is not known",
        suggestion: "Read the last lines of the Launcher's and the Workers' logs, and the events of their pods.",
    }
}

impl Cause {
    /// Returns the cause with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.word() == word)
    }

    /// Returns the link to its section of the troubleshooting guide.
    pub fn link(self) -> String {
        format!("{GUIDE}{}", self.word().to_lowercase())
    }
}
