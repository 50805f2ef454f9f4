//! Kubernetes' statuses and events, as written by [`super::super::facts`] or printed by `kubectl describe` and
//! `kubectl get events`.

use super::super::cause::Cause;
use super::super::facts::GPU_COUNTS;
use super::launch::{CRLF_ADVICE, FORMAT_ADVICE};
use super::weight::{EXIT, REASON, ROOT, STATUS, SYMPTOM};
use super::{Rule, Speaker, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        "status-oom",
        Cause::OutOfMemory,
        STATUS,
        "OOMKilled",
        r"^pod (?P<host>\S+): container \S+ terminated: OOMKilled, exit code (?P<code>\d+)(?:, memory limit(?P<name> \(.+\)))?$",
        "pod train-worker-1: container mpi terminated: OOMKilled, exit code 137, memory limit (16 GB)",
    )
    .by(Speaker::Cluster)
    .says("exit code {code|137} (OOMKilled) – memory limit{name| of the container} exceeded"),
    rule(
        "status-oom-counted",
        Cause::OutOfMemory,
        STATUS - 1,
        "out-of-memory kill",
        r"^pod (?P<host>\S+): container \S+: (?P<count>\d+) out-of-memory kills?\b(?:, memory limit(?P<name> \(.+\)))?",
        "pod train-worker-1: container mpi: 1 out-of-memory kills, memory limit (16 GB)",
    )
    .by(Speaker::Cluster)
    .says("A process on {host|a Worker} was killed because the memory limit{name| of the container} was exceeded"),
    rule(
        "status-evicted",
        Cause::Evicted,
        STATUS + 2,
        "Evicted",
        r"^pod (?P<host>\S+): (?:Failed: |condition \S+ )?(?:Evicted|TerminationByKubelet|EvictionByEvictionAPI): ?(?P<reason>.*)",
        "pod train-worker-1: Failed: Evicted: The node was low on resource: memory.",
    )
    .by(Speaker::Cluster),
    rule(
        "status-evicted-api",
        Cause::Evicted,
        STATUS + 2,
        "condition DisruptionTarget ",
        r"^pod (?P<host>\S+): condition DisruptionTarget (?:TerminationByKubelet|EvictionByEvictionAPI): ?(?P<reason>.*)",
        "pod train-worker-1: condition DisruptionTarget EvictionByEvictionAPI: Eviction API: evicting",
    )
    .by(Speaker::Cluster),
    rule(
        "status-preempted",
        Cause::Preempted,
        STATUS + 3,
        "reempt",
        r"^pod (?P<host>\S+): (?:condition DisruptionTarget PreemptionByScheduler|Failed: Preempting|Failed: Preempted|event Preempted): ?(?:Preempted by (?:a )?pod [0-9a-f-]{36}\b.*|(?P<reason>.*))",
        "pod train-worker-1: condition DisruptionTarget PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod",
    )
    .by(Speaker::Cluster),
    rule(
        "workload-preempted",
        Cause::Preempted,
        STATUS + 3,
        "Preempted to accommodate a workload",
        r"(?P<reason>Preempted to accommodate a workload.*)",
        "event Preempted: Preempted to accommodate a workload (UID: 3f5) due to prioritization in the ClusterQueue",
    )
    .by(Speaker::Cluster)
    .says("The job was preempted: {reason|}"),
    rule(
        "status-node-lost",
        Cause::NodeLost,
        STATUS + 1,
        "Ready=",
        r"^node (?P<name>\S+) of pod (?P<host>\S+): Ready=(?:Unknown|False)(?:: (?P<reason>.*))?",
        "node gpu-7 of pod train-worker-1: Ready=Unknown: Kubelet stopped posting node status.",
    )
    .by(Speaker::Cluster)
    .says("Node {name|}, on which {host|a Worker} ran, was lost: {reason|it does not report}"),
    rule(
        "status-node-lost-pod",
        Cause::NodeLost,
        STATUS + 1,
        ": Failed: |condition DisruptionTarget |event NodeNotReady",
        r"^pod (?P<host>\S+): (?:Failed: NodeLost|Failed: NodeShutdown|Failed: Terminated: Pod was terminated in response to imminent node shutdown|condition DisruptionTarget (?:DeletionByTaintManager|DeletionByPodGC)|event NodeNotReady): ?(?P<reason>.*)",
        "pod train-worker-1: condition DisruptionTarget DeletionByTaintManager: Taint manager: deleting due to NoExecute taint",
    )
    .by(Speaker::Cluster),
    rule(
        "status-deleted",
        Cause::WorkerLost,
        STATUS - 5,
        ": deleted",
        r"^pod (?P<host>\S+): deleted$",
        "pod train-worker-1: deleted",
    )
    .by(Speaker::Cluster)
    .says("The pod {host|of a Worker} was deleted while the job was running"),
    // Images
    rule(
        "image-authentication",
        Cause::ImagePull,
        ROOT + 3,
        "image \"",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling|ErrImagePull:.*) image "(?P<image>[^"]+)".*(?:unauthorized|authentication required|no basic auth credentials|unauthenticated|access.* denied|denied: |403 Forbidden|401 Unauthorized)"#,
        "pod train-worker-1: event Failed: Failed to pull image \"registry.example/team/train:1\": rpc error: code = Unknown desc = unauthorized: authentication required",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': authentication required"),
    rule(
        "image-not-found",
        Cause::ImagePull,
        ROOT + 2,
        "image \"",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling) image "(?P<image>[^"]+)".*(?:not found|manifest unknown|does not exist)"#,
        "pod train-worker-1: event Failed: Failed to pull image \"registry.example/team/train:2\": rpc error: code = NotFound desc = failed to resolve reference: not found",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': no such image or tag"),
    rule(
        "image-rate-limit",
        Cause::ImagePull,
        ROOT + 4,
        "image \"",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling) image "(?P<image>[^"]+)".*(?:toomanyrequests|429 Too Many Requests|pull rate limit|QPS exceeded)"#,
        "pod train-worker-1: event Failed: Failed to pull image \"train:1\": 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': the registry's rate limit is reached")
    .advice("Log in to the registry with a pull secret, or mirror the image into a registry of your own."),
    rule(
        "image-registry-down",
        Cause::ImagePull,
        ROOT + 3,
        "image \"",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling) image "(?P<image>[^"]+)".*(?P<reason>no such host|i/o timeout|connection refused|TLS handshake timeout|x509: [^"]*|context deadline exceeded)"#,
        "pod train-worker-1: event Failed: Failed to pull image \"registry.example/train:1\": dial tcp: lookup registry.example: no such host",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': the registry cannot be reached ({reason|})")
    .advice("Check the registry's name in the image, and that the node can reach it (DNS, proxy, certificates)."),
    rule(
        "image-no-space",
        Cause::ImagePull,
        ROOT + 4,
        "no space left on device",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling) image "(?P<image>[^"]+)".*no space left on device"#,
        "pod train-worker-1: event Failed: Failed to pull image \"train:1\": write /var/lib/containers/x: no space left on device",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': the node's disk is full"),
    rule(
        "image-platform",
        Cause::ImagePull,
        ROOT + 4,
        "no match for platform|no matching manifest|does not match the specified platform|image operating system",
        r#"(?:^pod (?P<host>\S+): )?.*image "(?P<image>[^"]+)".*(?:no match for platform|no matching manifest for (?P<reason>[\w/]+)|does not match the specified platform)"#,
        "pod train-worker-1: event Failed: Failed to pull image \"registry.example/train:1\": no match for platform in manifest: not found",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': it is not built for the architecture of the node")
    .advice("Build the image for the architecture of the nodes, which is mostly amd64: docker build --platform linux/amd64, or several platforms with docker buildx."),
    rule(
        "image-failed",
        Cause::ImagePull,
        ROOT,
        "image \"",
        r#"(?:^pod (?P<host>\S+): )?.*(?:Failed to pull|Back-off pulling) image "(?P<image>[^"]+)"(?:: (?P<reason>.*))?"#,
        "pod train-worker-1: container mpi waiting: ImagePullBackOff: Back-off pulling image \"registry.example/train:1\"",
    )
    .by(Speaker::Cluster),
    rule(
        "image-name",
        Cause::ImagePull,
        ROOT,
        "InvalidImageName",
        r#"^pod (?P<host>\S+): container \S+ waiting: InvalidImageName(?:: Failed to apply default image tag "(?P<image>[^"]+)".*)?"#,
        "pod train-worker-1: container mpi waiting: InvalidImageName: Failed to apply default image tag \"Train:1\": couldn't parse image name",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': this is not a valid image name"),
    rule(
        "image-never-pull",
        Cause::ImagePull,
        ROOT,
        "ErrImageNeverPull",
        r#"^pod (?P<host>\S+): container \S+ waiting: ErrImageNeverPull(?:: Container image "(?P<image>[^"]+)".*)?"#,
        "pod train-worker-1: container mpi waiting: ErrImageNeverPull: Container image \"train:1\" is not present with pull policy of Never",
    )
    .by(Speaker::Cluster)
    .says("Failed to pull image '{image|}': it is not on the node, and its pull policy is Never"),
    // Any other write on a node
    rule(
        "node-no-space",
        Cause::StorageUnusable,
        ROOT + 3,
        "no space left on device",
        r"(?:^pod (?P<host>\S+): )?.*[Nn]o space left on device",
        "pod train-worker-1: event FailedMount: MountVolume.SetUp failed for volume \"ssh-auth\" : open /var/lib/kubelet/pods/1/id_rsa: no space left on device",
    )
    .by(Speaker::Cluster)
    .says("The disk of the node of {host|the pod} is full")
    .advice(
        "Free some space on the node's disk, or run the job on another node; on your own machine, that is the disk that holds the local cluster's directory. Then run the job again.",
    ),
    // Starting containers
    rule(
        "start-format",
        Cause::ExecutableNotPermitted,
        ROOT + 1,
        "exec format error",
        r#"(?:^pod (?P<host>\S+): )?.*exec:? "?(?P<path>/[^"\s:]+)"?:.*exec format error"#,
        "pod train-worker-1: container mpi terminated: StartError, exit code 128: failed to create containerd task: exec /usr/sbin/sshd: exec format error: unknown",
    )
    .by(Speaker::Cluster)
    .says("{path|The program} of {host|the pod} cannot run on its node: it is built for another architecture, or it is a script whose first line names no interpreter")
    .advice(FORMAT_ADVICE),
    rule(
        "start-no-program",
        Cause::ExecutableNotFound,
        ROOT,
        "executable file not found in $PATH",
        r#"(?:^pod (?P<host>\S+): )?.*exec: "(?P<path>[^"]+)": executable file not found in \$PATH"#,
        "pod train-worker-1: container mpi terminated: StartError, exit code 128: failed to create containerd task: exec: \"/opt/train\": executable file not found in $PATH: unknown",
    )
    .by(Speaker::Cluster)
    .says("The image of {host|the pod} has no {path|program of the given name}"),
    rule(
        "start-no-file",
        Cause::ExecutableNotFound,
        ROOT - 1,
        ": no such file or directory",
        r#"(?:^pod (?P<host>\S+): )?.*exec: "(?P<path>[^"]+)": stat \S+: no such file or directory"#,
        "pod train-worker-1: container mpi waiting: RunContainerError: exec: \"/opt/train\": stat /opt/train: no such file or directory",
    )
    .by(Speaker::Cluster)
    .says("The image of {host|the pod} has no {path|program of the given name}"),
    rule(
        "start-no-command",
        Cause::ExecutableNotFound,
        ROOT + 1,
        "no command specified",
        r"^pod (?P<host>\S+): container (?P<name>\S+) .*no command specified",
        "pod train-launcher-x: container mpi terminated: StartError, exit code 128: no command specified",
    )
    .by(Speaker::Cluster)
    .says("Container {name|} of {host|the pod} has no command: neither the job nor the image gives one")
    .advice("Give the job a command: a TrainJob in spec.trainer.command, an MPIJob in the template of the Launcher."),
    // The runtime has found the file, and the kernel has not found the interpreter that its first line names.
    rule(
        "start-no-interpreter",
        Cause::ExecutableNotFound,
        ROOT - 1,
        ": no such file or directory",
        r#"(?:^pod (?P<host>\S+): )?.*exec:? "?(?P<path>/[^"\s:]+)"?: no such file or directory"#,
        "pod train-launcher-x: container mpi terminated: StartError, exit code 128: exec: \"/scripts/run.sh\": no such file or directory",
    )
    .by(Speaker::Cluster)
    .says("{path|The program} of {host|the pod} exists, but the interpreter that its first line names does not: mostly, the file has Windows line ends (CRLF)")
    .advice(CRLF_ADVICE),
    rule(
        "start-no-program-crun",
        Cause::ExecutableNotFound,
        ROOT,
        "executable file `",
        r"(?:^pod (?P<host>\S+): )?.*executable file `(?P<path>[^`]+)` not found",
        "pod train-worker-1: container mpi waiting: CreateContainerError: container create failed: executable file `/opt/train` not found: No such file or directory",
    )
    .by(Speaker::Cluster)
    .says("The image of {host|the pod} has no {path|program of the given name}"),
    rule(
        "start-no-sshd",
        Cause::ExecutableNotFound,
        ROOT + 1,
        "sshd",
        r#"(?:^pod (?P<host>\S+): )?.*(?:exec: "(?P<path>(?:[^"]*/)?sshd)": (?:executable file not found in \$PATH|stat \S+: no such file or directory)|executable file `(?:[^`]*/)?sshd` not found)"#,
        "pod train-worker-1: container mpi terminated: StartError, exit code 128: exec: \"/usr/sbin/sshd\": stat /usr/sbin/sshd: no such file or directory: unknown",
    )
    .by(Speaker::Cluster)
    .says("The image of {host|the pod} has no SSH server ({path|sshd}), which the job starts in its Workers")
    .advice("Use the launch agent, which needs no SSH server in the image (annotation training.opendatahub.io/launch: agent), or an image with one."),
    rule(
        "start-no-permission",
        Cause::ExecutableNotPermitted,
        ROOT,
        ": permission denied",
        r#"(?:^pod (?P<host>\S+): )?.*exec: "(?P<path>[^"]+)": permission denied"#,
        "pod train-worker-1: container mpi terminated: StartError, exit code 128: exec: \"/train.sh\": permission denied: unknown",
    )
    .by(Speaker::Cluster),
    rule(
        "start-no-privileges",
        Cause::AdmissionRefused,
        ROOT - 6,
        "waiting: CreateContainerConfigError",
        r"^pod (?P<host>\S+): container \S+ waiting: CreateContainerConfigError: (?P<reason>\S.*)",
        "pod train-worker-1: container mpi waiting: CreateContainerConfigError: this node does not run privileged containers; remove securityContext.privileged",
    )
    .by(Speaker::Cluster)
    .says("The node refuses to start a container of {host|the pod}: {reason|}")
    .advice("Correct the pod template as the message says; the container does not start before that."),
    rule(
        "init-container-ended",
        Cause::InitContainerFailed,
        SYMPTOM + 2,
        ": init container ",
        r"^pod (?P<host>\S+): init container (?P<name>\S+) ended with exit code (?P<code>\d+)",
        "pod train-worker-1: init container fetch ended with exit code 3, terminated: Error",
    )
    .by(Speaker::Cluster),
    rule(
        "crash-loop",
        Cause::CrashLoop,
        SYMPTOM,
        "CrashLoopBackOff",
        r"^pod (?P<host>\S+): container (?P<name>\S+) waiting: CrashLoopBackOff",
        "pod train-worker-1: container mpi waiting: CrashLoopBackOff: back-off 40s restarting failed container",
    )
    .by(Speaker::Cluster)
    .says("Container {name|} of {host|a pod} crashes again and again"),
    // What sshd prints when it ends at its start
    rule(
        "sshd-no-host-keys",
        Cause::CrashLoop,
        ROOT,
        "no hostkeys available",
        r"^(?:sshd: )?no hostkeys available -- exiting",
        "sshd: no hostkeys available -- exiting.",
    )
    .says("The SSH server of a Worker has no host keys")
    .advice("Create them in the image with ssh-keygen -A, or use the launch agent, which needs no SSH server (annotation training.opendatahub.io/launch: agent)."),
    rule(
        "sshd-not-permitted",
        Cause::CrashLoop,
        ROOT - 1,
        "Missing privilege separation directory|Bind to port ",
        r"^(?:error: )?(?P<reason>Missing privilege separation directory: \S+|Bind to port \d+ on \S+ failed: Permission denied)",
        "Missing privilege separation directory: /run/sshd",
    )
    .says("The SSH server of a Worker cannot start: {reason|}")
    .advice("Let sshd run as root, or with a configuration whose port and directories its user may use; the launch agent needs neither (annotation training.opendatahub.io/launch: agent)."),
    rule(
        "worker-container-ended",
        Cause::WorkerLost,
        EXIT + 5,
        " terminated: ",
        r"^worker (?P<host>\S+): container (?P<name>\S+) ended with exit code (?P<code>\d+)",
        "worker train-worker-1: container mpi ended with exit code 1, terminated: Error",
    )
    .by(Speaker::Cluster)
    .says("Container {name|} of {host|a Worker} ended with exit code {code|}"),
    rule(
        "container-killed",
        Cause::RankKilled,
        SYMPTOM,
        "exit code 137",
        r"^pod (?P<host>\S+): container \S+ terminated: Error, exit code 137$",
        "pod train-worker-1: container mpi terminated: Error, exit code 137",
    )
    .by(Speaker::Cluster)
    .says("The container of {host|a Worker} was killed by signal 9"),
    // Scheduling
    rule(
        "gpus-insufficient",
        Cause::Unschedulable,
        ROOT + 1,
        GPU_COUNTS,
        r"(?P<reason>Insufficient GPUs: requested \d+, available \d+)",
        "job train: Insufficient GPUs: requested 32, available 24",
    )
    .by(Speaker::Cluster)
    .says("{reason|}"),
    rule(
        "request-too-large",
        Cause::Unschedulable,
        ROOT + 2,
        "Preemption is not helpful",
        r"^pod (?P<host>\S+): .*?0/\d+ nodes are available: (?P<reason>\d+ Insufficient [a-z0-9./-]+?(?:, \d+ Insufficient [a-z0-9./-]+?)*)\. .*preemption: 0/\d+ nodes are available: \d+ Preemption is not helpful for scheduling\.$",
        "pod train-worker-0: condition PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )
    .by(Speaker::Cluster)
    .says("No node is large enough for {host|a pod}, even when nothing else runs: {reason|}")
    .advice("Request less per Worker and use more Workers, or add larger nodes."),
    rule(
        "unschedulable",
        Cause::Unschedulable,
        ROOT,
        " nodes are available",
        r"(?:^pod (?P<host>\S+): )?.*?(?P<reason>0/\d+ nodes are available: .*?\.)(?: preemption:.*)?(?:$| )",
        "pod train-worker-3: condition PodScheduled Unschedulable: 0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {gpu: true}. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
    )
    .by(Speaker::Cluster),
    rule(
        "gang-not-ready",
        Cause::Unschedulable,
        SYMPTOM,
        "in gang unschedulable",
        r"(?P<reason>\d+/\d+ tasks in gang unschedulable: .*)",
        "event Unschedulable: 4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable",
    )
    .by(Speaker::Cluster),
    rule(
        "kueue-quota",
        Cause::QuotaExceeded,
        ROOT,
        "insufficient ",
        r"(?P<reason>couldn't assign flavors to pod set .*: insufficient (?:unused )?quota .*)",
        "condition QuotaReserved Pending: couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor default, 8 more needed",
    )
    .by(Speaker::Cluster)
    .says("Quota exceeded: {reason|}"),
    rule(
        "resource-quota",
        Cause::QuotaExceeded,
        ROOT + 2,
        "exceeded quota: ",
        r"exceeded quota: (?P<reason>.*)",
        "event FailedCreate: Error creating: pods \"train-worker-1\" is forbidden: exceeded quota: compute, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=20, limited: requests.nvidia.com/gpu=24",
    )
    .by(Speaker::Cluster),
    rule(
        "resource-quota-missing",
        Cause::QuotaExceeded,
        ROOT + 1,
        "failed quota: ",
        r"failed quota: (?P<reason>.*must specify .*)",
        "event FailedCreate: Error creating: pods \"train-worker-1\" is forbidden: failed quota: compute: must specify limits.cpu for: mpi",
    )
    .by(Speaker::Cluster)
    .says("The namespace's quota demands more of the pod template: {reason|}")
    .advice("Set resources.limits of every container of the Launcher and the Workers, as far as the quota counts them; requests are the same unless they are set."),
    rule(
        "job-quota",
        Cause::QuotaExceeded,
        ROOT + 2,
        "Quota exceeded: ",
        r"Quota exceeded: (?P<reason>\d+/\d+ jobs running)",
        "Quota exceeded: 5/5 jobs running",
    )
    .by(Speaker::Cluster),
    // References
    rule(
        "mount-missing",
        Cause::MissingReference,
        ROOT,
        " not found",
        r#"(?:^pod (?P<host>\S+): )?.*MountVolume\.SetUp failed for volume "(?P<path>[^"]+)" ?: (?:references non-existent \S+ key: (?P<count>\S+)|(?P<name>(?:secret|configmap) "[^"]+") not found)"#,
        "pod train-worker-1: event FailedMount: MountVolume.SetUp failed for volume \"keys\" : secret \"train-ssh\" not found",
    )
    .by(Speaker::Cluster)
    .says("The {name|object} that volume {path|} of the pod refers to does not exist"),
    rule(
        "env-missing",
        Cause::MissingReference,
        ROOT,
        " not found",
        r#"(?:^pod (?P<host>\S+): )?.*(?:CreateContainerConfigError|Failed): (?:Error: )?(?P<name>(?:secret|configmap) "[^"]+") not found"#,
        "pod train-worker-1: container mpi waiting: CreateContainerConfigError: secret \"tokens\" not found",
    )
    .by(Speaker::Cluster)
    .says("The {name|object} that the container's environment refers to does not exist"),
    rule(
        "env-key-missing",
        Cause::MissingReference,
        ROOT,
        "couldn't find key ",
        r"couldn't find key (?P<path>\S+) in (?P<name>(?:Secret|ConfigMap) \S+)",
        "pod train-worker-1: container mpi waiting: CreateContainerConfigError: couldn't find key token in Secret team/tokens",
    )
    .by(Speaker::Cluster)
    .says("{name|The object} has no key {path|of the given name}"),
    rule(
        "claim-missing",
        Cause::MissingReference,
        ROOT + 2,
        "persistentvolumeclaim \"",
        r#"(?P<name>persistentvolumeclaim "[^"]+") not found"#,
        "pod train-worker-1: condition PodScheduled Unschedulable: persistentvolumeclaim \"datasets\" not found",
    )
    .by(Speaker::Cluster)
    .says("The {name|claim} does not exist")
    .advice(
        "Correct its name among the job's volumes, or create it in the namespace: a manifest of kind PersistentVolumeClaim with this name, spec.accessModes [ReadWriteMany] (ReadWriteOnce if all pods run on one node) and spec.resources.requests.storage.",
    ),
    rule(
        "service-account-missing",
        Cause::MissingReference,
        ROOT + 2,
        "serviceaccount \"",
        r#"(?P<name>serviceaccount "[^"]+") not found"#,
        "event FailedCreate: Error creating: pods \"train-launcher-\" is forbidden: error looking up service account team/trainer: serviceaccount \"trainer\" not found",
    )
    .by(Speaker::Cluster)
    .says("The {name|service account} does not exist"),
    // Admission
    rule(
        "pod-security",
        Cause::AdmissionRefused,
        ROOT + 1,
        "violates PodSecurity",
        r#"(?P<reason>violates PodSecurity "[^"]+": .*)"#,
        "event FailedCreate: Error creating: pods \"train-worker-1\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
    )
    .by(Speaker::Cluster),
    rule(
        "security-context-constraint",
        Cause::AdmissionRefused,
        ROOT + 1,
        "security context constraint",
        r"(?P<reason>unable to validate against any security context constraint: .*)",
        "event FailedCreate: Error creating: pods \"train-worker-1\" is forbidden: unable to validate against any security context constraint: [provider restricted-v2: .spec.securityContext.runAsUser: Invalid value: 0]",
    )
    .by(Speaker::Cluster),
    rule(
        "admission-webhook",
        Cause::AdmissionRefused,
        ROOT,
        "admission webhook \"",
        r#"admission webhook "(?P<name>[^"]+)" denied the request: (?P<reason>.*)"#,
        "event FailedCreate: Error creating: admission webhook \"policy.example\" denied the request: image is not signed",
    )
    .by(Speaker::Cluster),
    rule(
        "priority-class-missing",
        Cause::MissingReference,
        ROOT + 2,
        "no PriorityClass with name ",
        r"no PriorityClass with name (?P<name>\S+) was found",
        "event FailedCreate: pods \"train-worker-0\" is forbidden: no PriorityClass with name urgent was found",
    )
    .by(Speaker::Cluster)
    .says("The priority class {name|of the pods} does not exist")
    .advice(
        "Use an existing priority class, or none; an administrator of the cluster can create one.",
    ),
    // What no other rule knows
    rule(
        "pods-refused",
        Cause::AdmissionRefused,
        REASON,
        " is forbidden: | is invalid: ",
        r#"^event \S+: .*?\b(?:[Pp]ods?|[Jj]ob(?:\.batch|s\.batch)?) "(?P<host>[^"]+)" is (?:forbidden|invalid): (?P<reason>.*)"#,
        "event FailedCreate: worker pod created failed: pods \"train-worker-0\" is forbidden: pod rejected: node selector conflicts with the namespace's",
    )
    .by(Speaker::Cluster)
    .says("The API server refuses the job's pods: {reason|}")
    .advice("Correct what the message names in the pod template; if it names a policy, ask an administrator of the cluster."),
    // Deadlines and readiness
    rule(
        "deadline",
        Cause::Timeout,
        REASON,
        "DeadlineExceeded",
        r"^(?:job \S+|pod (?P<host>\S+)): (?:Failed: |condition \S+ )?DeadlineExceeded\b:? ?(?P<reason>.*)",
        "job train-launcher: condition Failed DeadlineExceeded: Job was active longer than specified deadline",
    )
    .by(Speaker::Cluster)
    .says("The time limit of the job was reached (activeDeadlineSeconds)"),
];
