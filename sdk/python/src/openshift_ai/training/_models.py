"""The messages and methods of the training service. Generated from its contract by tools/generate.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


def _time(value: Any) -> Any:
    """The service leaves a time that is not known empty, or out."""
    return value or None


Time = Annotated[datetime | None, BeforeValidator(_time)]


class Message(BaseModel):
    """A message of the service; unknown fields are those of a newer one, and are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )


class Method(NamedTuple):
    """A method of the service, as REST has it."""

    verb: str
    path: str
    query: frozenset[str] = frozenset()
    is_stream: bool = False


class Admission(Message):
    """A write as an admission webhook saw it."""

    at: Time = None
    """When."""

    groups: list[str] = []
    """The user's groups."""

    name: str = ""
    """The object's name."""

    namespace: str = ""
    """The namespace."""

    program: str = ""
    """The program that wrote, as the API server knows it: the field manager."""

    reason: str = ""
    """The reason of a refusal, the fields that an update changes, or how many reports are missing."""

    request: str = ""
    """The object's annotation `training.opendatahub.io/request`."""

    resource: str = ""
    """The resource."""

    review: str = ""
    """The UID of the review."""

    status: int | None = None
    """The HTTP status of a refusal."""

    user: str = ""
    """The user."""

    verb: str = ""
    """The verb; `lost` if this is about reports that are missing before it."""


class AdviceRun(Message):
    """A run that advice rests on."""

    finished: Time = None
    """When it ended."""

    name: str = ""
    """The job's name."""

    started: Time = None
    """When it started to run."""

    uid: str = ""
    """Its UID. The history has the job after it was deleted, too."""


class Alert(Message):
    """The condition of a rule holds for a job or a quota."""

    kind: str = ""
    """The kind of what it holds for: a kind of jobs, or ResourceQuota."""

    message: str = ""
    """What holds, in a sentence."""

    name: str = ""
    """Its name."""

    namespace: str = ""
    """The namespace."""

    rule: str = ""
    """The rule's name."""

    since: Time = None
    """Since when the service has known that."""


class Artifact(Message):
    """A file, a folder or a volume of a job."""

    claim: str = ""
    """Of a volume: the PersistentVolumeClaim."""

    link: bool = False
    """Whether it is a symbolic link."""

    modified: Time = None
    """When it was changed."""

    name: str = ""
    """The name, for people: bytes that are not UTF-8 are replaced."""

    path: str = ""
    """What to send as `path`: absolute, with `%`, control characters and bytes that are not UTF-8 percent-
    encoded.
    """

    size: str = ""
    """The size of a file in bytes, in decimal; empty for everything else and for links."""

    source: str = ""
    """Of a volume: its kind."""

    type: str = ""
    """What it is. Of a link, what it leads to."""

    volume: str = ""
    """Of a volume: its name in the pod."""

    worker: int | None = None
    """Of a volume: the Worker whose pod mounts it; not given for the Launcher's."""


class AuditLine(Message):
    """A line of the audit log."""

    address: str = ""
    """The client's address."""

    at: Time = None
    """When."""

    channel: str = ""
    """Where it was seen."""

    hash: str = ""
    """Its hash."""

    namespace: str = ""
    """The namespace."""

    number: str = ""
    """Its number."""

    object: str = ""
    """The name of the job or other object."""

    program: str = ""
    """The program that was used, as it names itself: `odh/0.1.0`, `kubectl-create`, `openshift-ai-
    training/0.1.0`, `dashboard`. Empty if it is unknown, as for deletions that the service did not make.
    """

    reason: str = ""
    """The reason of a failure."""

    resource: str = ""
    """The resource."""

    stage: str = ""
    """`RequestReceived`: before it was carried out. `ResponseComplete`: afterwards."""

    status: int | None = None
    """The HTTP status of the result, if it is known."""

    verb: str = ""
    """The method, or Kubernetes' verb."""

    who: str = ""
    """The user."""


class AuditRecord(Message):
    """A line of the audit log as it was hashed."""

    line: str = ""
    """The number, the hash of the line before, the hash, and the entry, as one line of JSON."""


class AuditedOperation(Message):
    """All that was recorded of one request."""

    lines: list[AuditLine] = []
    """The lines, in order."""

    request: str = ""
    """The id of the request, which its answer had as `X-Request-Id`."""


class JobRef(Message):
    """Refers to a job of a namespace."""

    kind: str = ""
    """The kind."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""


class FieldFault(Message):
    """What is wrong with a field."""

    fault: str = ""
    """What is wrong."""

    fix: str = ""
    """What to write instead."""

    path: str = ""
    """The field's path."""


class Problem(Message):
    """An error (RFC 9457, `application/problem+json`)."""

    code: str = ""
    """The class of the error, stable."""

    detail: str = ""
    """What happened, for people."""

    fields: list[FieldFault] = []
    """What is wrong with which field."""

    hint: str = ""
    """What to do."""

    link: str = ""
    """Where to read more."""

    message: str = ""
    """The same as `detail`."""

    reason: str = ""
    """The reason, one CamelCase word, finer than the code."""

    status: int = 0
    """The HTTP status."""

    title: str = ""
    """The status' name."""

    type: str = ""
    """Identifies the kind of problem: `about:blank`."""


class BatchResult(Message):
    """What became of a job."""

    job: JobRef | None = None
    """The job."""

    outcome: str = ""
    """`done`, `unchanged`, `failed`, or `selected` in a dry run."""

    problem: Problem | None = None
    """Why it failed."""


class BatchJobsResponse(Message):
    """What became of each job."""

    failed: int = 0
    """The number of jobs that failed."""

    results: list[BatchResult] = []
    """The results, by name."""


class Progress(Message):
    """How far a training is."""

    percent: int = 0
    """From 0 to 100."""

    remaining_seconds: int | None = None
    """The estimated remaining seconds."""


class WorkerCounts(Message):
    """Workers by state."""

    failed: int = 0
    """Workers that failed."""

    of: int = 0
    """Workers requested."""

    pending: int = 0
    """Workers that do not run yet."""

    running: int = 0
    """Workers that run and are ready."""


class JobRow(Message):
    """A job in a list: everything that a table shows."""

    actions: list[str] = []
    """What can be done with it in its state; permissions are another question."""

    cause: str = ""
    """Why the job failed or cannot start, why it hangs, or why its success is doubtful, one CamelCase word,
    for example `OutOfMemory`.
    """

    created: Time = None
    """When the job was created."""

    deleting: bool = False
    """Whether it is being deleted."""

    ended: bool = False
    """Whether it has ended, so that nothing of it changes any more."""

    finished: Time = None
    """When it ended."""

    gpus: int = 0
    """The GPUs that all its pods request."""

    health: str = ""
    """How it is, for the colour and the shape of its state. `suspended`: by a person. `degraded`: it hangs, is
    tried again, or its success is doubtful. Show a word that you do not know without a colour.
    """

    kind: str = ""
    """The kind."""

    message: str = ""
    """Why it failed, what it waits for, when it is tried again, or what is doubtful, in a sentence of at most
    400 characters; empty if there is nothing to say but the state.
    """

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""

    owner: str = ""
    """The user or service account that created the job, if the cluster recorded it."""

    phase: str = ""
    """The phase."""

    phase_reason: str = ""
    """The reason for the phase, one CamelCase word, for example `Queued`, `Suspended`, `Initializing`.
    """

    progress: Progress | None = None
    """How far its training is, if it reports that."""

    queue: str = ""
    """Its Kueue or Volcano queue."""

    queue_position: int | None = None
    """Its place among the jobs that wait in its Kueue queue, from 1; not given if it does not wait, or its
    place is unknown.
    """

    running_since: Time = None
    """When its Launcher first ran since `started`; if its operator does not report that, `started`. Its run
    time counts from here. Empty while it is pending, and if it ended without having run.
    """

    started: Time = None
    """When it was first allowed to run, or last resumed."""

    state: str = ""
    """Its state for people: the phase with what is most worth knowing about it, such as `Pending (ImagePull)`,
    `Running (Stalled)`, `Retrying (OutOfMemory)`, `Succeeded (Collapsed)`, `Failed (RankExited)`,
    `Cancelled`, `Deleting`. Show it as it is.
    """

    uid: str = ""
    """The Kubernetes UID."""

    workers: WorkerCounts | None = None
    """The Workers by state."""


class CancelJobResponse(Message):
    """The job that was cancelled."""

    job: JobRow | None = None
    """Its row; it has ended as soon as the operator has seen the request."""


class CostPart(Message):
    """A resource, and what it costs."""

    amount: str = ""
    """How much of it, in words."""

    per_hour: str = ""
    """The cost of an hour; empty without a price."""

    price: str = ""
    """The price of a core, a GiB or a GPU for an hour; empty if none is set."""

    resource: str = ""
    """`cpu`, `memory`, or the resource of a GPU."""


class CostEstimate(Message):
    """What a job costs while it runs, by the prices of the ConfigMap `prices` in the namespace `odh-training-
    prices`.
    """

    currency: str = ""
    """The currency, as the administrator wrote it."""

    message: str = ""
    """The same in words, with what it rests on."""

    parts: list[CostPart] = []
    """What it rests on: the resources that the job requests."""

    per_hour: str = ""
    """The cost of an hour, with four digits after the point."""


class Finding(Message):
    """Something that a check found."""

    advice: str = ""
    """What to do."""

    message: str = ""
    """What was found."""

    reason: str = ""
    """One CamelCase word."""

    weight: str = ""
    """`Refused`: the cluster would not accept the job. `Waits`: the job would wait."""


class Resources(Message):
    """Amounts of what jobs are usually short of."""

    cpu: str = ""
    """CPUs, as a quantity."""

    gpus: int = 0
    """GPUs of any vendor."""

    memory: str = ""
    """Memory, as a quantity."""


class UnknownPart(Message):
    """A part of a response that is unknown."""

    message: str = ""
    """The reason in words."""

    part: str = ""
    """The field that is not set."""

    reason: str = ""
    """Why. `NotAllowed`: the caller may not read it. `Late`: it was not read in time. `Unreadable`: it could
    not be read completely. `TurnedOff`: an administrator turned it off. `NotSelected`: the ClusterQueue
    does not select the namespace, so that Kueue admits nothing from there.
    """


class QueueRoom(Message):
    """The room in a queue."""

    ahead: int = 0
    """The number of Workloads that wait there and would come before a new job of normal priority."""

    cluster_queue: str = ""
    """Its ClusterQueue."""

    free: Resources | None = None
    """What the ClusterQueue's own quota has free, if the caller may read it and the ClusterQueue selects the
    namespace.
    """

    name: str = ""
    """The LocalQueue."""

    unknown: UnknownPart | None = None
    """Why `free` is unknown although the caller may read ClusterQueues."""


class WaitBasis(Message):
    """Something that an estimate rests on."""

    jobs: int = 0
    """The number of jobs."""

    source: str = ""
    """What it is: reports of progress, past jobs of the same users and shapes, all past jobs, deadlines, or
    the queue.
    """


class WaitEstimate(Message):
    """How long a job would wait."""

    basis: list[WaitBasis] = []
    """What it rests on."""

    high_seconds: int | None = None
    """The most, in seconds; not set if nothing supports an estimate."""

    low_seconds: int | None = None
    """The least, in seconds; not set if nothing supports an estimate."""

    message: str = ""
    """The estimate in words, with what it rests on."""


class CheckAvailabilityResponse(Message):
    """What the checks found."""

    available: bool = False
    """Whether the job could start now, as far as the caller may see."""

    cost: CostEstimate | None = None
    """What it would cost while it runs, if prices are set and the caller may read them."""

    findings: list[Finding] = []
    """What it would wait for, or why it would be refused."""

    free: Resources | None = None
    """What is free on the cluster's usable nodes, in total, if the caller may read them."""

    queue: QueueRoom | None = None
    """The room in its queue, if it has one."""

    requested: Resources | None = None
    """What all its pods request."""

    start: str = ""
    """When it could start: `Unknown` if neither nodes nor its queue can be read."""

    wait: WaitEstimate | None = None
    """How long it would wait, if it would."""


class NodeRoom(Message):
    """The room on a node."""

    name: str = ""
    """The node."""

    workers: int = 0
    """How many such Workers fit on it now."""


class CheckCapacityResponse(Message):
    """What would fit."""

    cost: CostEstimate | None = None
    """What they would cost while they run, if prices are set and the caller may read them."""

    findings: list[Finding] = []
    """What they would be refused for or wait for."""

    free: Resources | None = None
    """What is free on the usable nodes, in total, if the caller may read them and their pods."""

    nodes: list[NodeRoom] = []
    """Those nodes, the one with the most room first; at most 100."""

    nodes_with_room: int | None = None
    """The number of nodes that have room for such a Worker now."""

    queue: QueueRoom | None = None
    """The room in the queue, if one is named and can be read."""

    requested: Resources | None = None
    """What they request together."""

    start: str = ""
    """When all the Workers could start: `Never` if they do not fit on the present nodes even with nothing else
    running, `Refused` if the namespace's quotas or limits refuse them, `Unknown` if nodes or the queue
    cannot be read.
    """

    wait: WaitEstimate | None = None
    """How long they would wait, if they would; with what the estimate rests on."""

    workers_at_most: int | None = None
    """How many such Workers would fit on the nodes if nothing else ran."""

    workers_in_queue: int | None = None
    """How many such Workers the queue's own quota has room for, after all that wait in it."""

    workers_now: int | None = None
    """How many such Workers fit on the nodes now, if the caller may read them and their pods."""


class ClaimChoice(Message):
    """A PersistentVolumeClaim."""

    access_modes: list[str] = []
    """How it can be mounted: ReadWriteOnce by the pods of one node, ReadWriteMany by those of many."""

    name: str = ""
    """The name."""

    phase: str = ""
    """Its phase."""

    size: str = ""
    """Its size; what it requests if it is not bound yet."""


class ClaimChoices(Message):
    """Volume claims."""

    claims: list[ClaimChoice] = []
    """The claims."""

    more: bool = False
    """Whether there are others."""


class CloneJobResponse(Message):
    """The copy."""

    job: JobRow | None = None
    """Its row."""

    manifest: str = ""
    """Its manifest, YAML."""


class GpuSum(Message):
    """GPUs of one resource and model."""

    free: int = 0
    """Those on usable nodes that no pod holds. They may be on different nodes."""

    gpus: int = 0
    """Those of all nodes."""

    model: str = ""
    """The model; the name of the resource if no label of the nodes says it."""

    resource: str = ""
    """The resource."""


class ClusterGpus(Message):
    """The GPUs of a cluster."""

    sums: list[GpuSum] = []
    """The sums, by resource and model; empty if no node has GPUs."""


class Compared(Message):
    """A field in each column."""

    field: str = ""
    """A word, or a field's path."""

    same: bool = False
    """Whether all values are the same."""

    values: list[str] = []
    """Its value in each column; empty where a job has none."""


class CompareJobsResponse(Message):
    """A comparison in columns, one for each job."""

    columns: list[str] = []
    """The jobs' names."""

    differences: list[Compared] = []
    """Fields that differ."""

    metrics: list[Compared] = []
    """What their training programs reported last."""

    outcome: list[Compared] = []
    """How each ended."""


class Condition(Message):
    """A condition."""

    message: str = ""
    """What happened."""

    reason: str = ""
    """One CamelCase word."""

    since: Time = None
    """When the status last changed."""

    status: str = ""
    """`True`, `False` or `Unknown`."""

    type: str = ""
    """For example `Running`, `Failed`, `Stalled`."""


class ConfigMapChoices(Message):
    """ConfigMaps."""

    more: bool = False
    """Whether there are others."""

    names: list[str] = []
    """The names."""


class RequestAdvice(Message):
    """A request for a resource, and what was used of it."""

    message: str = ""
    """The same as a sentence."""

    peak: str = ""
    """The most that a pod used; empty if it is unknown."""

    requested: str = ""
    """What each pod requests; empty if nothing."""

    suggested: str = ""
    """What to request instead; empty if the request is right, or too little is known."""

    verdict: str = ""
    """How the request compares with what was used. `Unknown`: fewer than three runs were sampled."""


class RoleAdvice(Message):
    """Advice about the requests of a role's pods."""

    cpu: RequestAdvice | None = None
    """About CPU. The highest use is the mean of a minute."""

    mean_cpu: str = ""
    """The mean CPU of a pod, as a quantity; empty if it is unknown."""

    memory: RequestAdvice | None = None
    """About memory. The highest use is that of one sample."""

    role: str = ""
    """The role."""

    samples: str = ""
    """The number of samples, each of one pod."""


class ProgramAdvice(Message):
    """Advice about the requests of a program."""

    image: str = ""
    """Its image."""

    kind: str = ""
    """The kind of its jobs."""

    namespace: str = ""
    """The namespace."""

    program: str = ""
    """What identifies the program."""

    roles: list[RoleAdvice] = []
    """The advice, role by role. Pods with several containers are not judged."""

    runs: list[AdviceRun] = []
    """The runs that succeeded and were sampled, the newest first: 20 at most. The requests that are judged are
    those of the newest, or, in a dry run, those of the job itself.
    """


class CreateJobResponse(Message):
    """The created job, or what would be created."""

    advice: ProgramAdvice | None = None
    """In a dry run, what former runs of the same program used, if there are any and the caller may list jobs
    of the kind.
    """

    availability: CheckAvailabilityResponse | None = None
    """In a dry run, when it could start: as CheckAvailability returns it."""

    dry_run: bool = False
    """Whether nothing was created."""

    job: JobRow | None = None
    """Its row."""

    manifest: str = ""
    """Its manifest as the cluster accepted it, YAML."""

    waits: list[Finding] = []
    """What the job waits for, or would."""

    warnings: list[str] = []
    """What to improve, one sentence each."""


class DeleteJobResponse(Message):
    """The deletion was accepted."""

    job: JobRef | None = None
    """The job."""


class DeleteNotificationRuleResponse(Message):
    """The rule was deleted."""

    deleted: bool = False
    """Whether it was there."""


class DeleteTemplateResponse(Message):
    """The deleted template."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""


class Delivery(Message):
    """A notification on its way."""

    created: Time = None
    """When it was created."""

    error: str = ""
    """Why the last try failed."""

    id: str = ""
    """Its id, the `webhook-id` of each try."""

    job_uid: str = ""
    """The UID of the job, or of the quota."""

    rule: str = ""
    """The rule's name."""

    state: str = ""
    """`pending`, `delivered`, or `dead` after the last try."""

    status: int | None = None
    """The status of the last try's answer."""

    tries: int = 0
    """The number of tries so far."""


class Event(Message):
    """An event."""

    at: Time = None
    """When it last occurred."""

    count: int = 0
    """How often."""

    message: str = ""
    """What happened."""

    object: str = ""
    """What it is about, as `pod/NAME`."""

    reason: str = ""
    """One CamelCase word."""

    type: str = ""
    """`Normal` or `Warning`."""


class ExportJobResponse(Message):
    """The exported job."""

    format: str = ""
    """The format."""

    text: str = ""
    """The text."""


class Failure(Message):
    """Why a job failed."""

    actor: str = ""
    """Who can remove the cause."""

    cause: str = ""
    """The cause, one CamelCase word."""

    evidence: list[str] = []
    """The lines and events that this rests on."""

    exit_code: int | None = None
    """The container's exit code."""

    link: str = ""
    """Where to read more."""

    message: str = ""
    """What happened."""

    pod: str = ""
    """The pod that failed first."""

    suggestion: str = ""
    """What to do about it."""

    worker: int | None = None
    """The Worker's index, if it was a Worker."""


class Fix(Message):
    """A change to a copy of a job: CloneJob takes `path=value` in `set`."""

    kind: str = ""
    """What it changes."""

    now: str = ""
    """The job's value."""

    path: str = ""
    """The path of the setting."""

    proposed: str = ""
    """The proposed value; empty if only a person can know it, such as the right name of an image."""

    role: str = ""
    """The role that it changes, such as `Worker`; empty if it changes the job."""


class FromTemplate(Message):
    """A job from a template."""

    job_name: str = ""
    """The job's name."""

    name: str = ""
    """The template."""

    namespace: str = ""
    """Its namespace. If not given, that of the request, then the shared ones."""

    parameters: dict[str, str] = {}
    """The values of its parameters, by name."""

    set: list[str] = []
    """Further changes, as `PATH=VALUE`."""

    version: int | None = None
    """Its version; the newest if not given."""


class GpuModel(Message):
    """GPUs of a model."""

    asked: int | None = None
    """Those that pods without a node ask for."""

    free: int | None = None
    """Those on usable nodes that no pod holds."""

    gpus: int = 0
    """Those of all nodes."""

    model: str = ""
    """The model; empty for what pods ask for without naming one."""

    used: int | None = None
    """Those that pods hold, if the caller may see all pods."""


class GpuNode(Message):
    """A node with GPUs."""

    gpus: int = 0
    """Its GPUs."""

    model: str = ""
    """The model of its GPUs; the name of the resource if no label says it."""

    name: str = ""
    """The name."""

    usable: bool = False
    """Whether it is ready and accepts pods."""

    used: int | None = None
    """Those that pods hold, if the caller may see all pods."""


class HardwareResource(Message):
    """A resource of a hardware profile. The amounts are Kubernetes quantities."""

    initial: str = ""
    """The amount to begin with."""

    maximum: str = ""
    """The most; empty if there is no limit."""

    minimum: str = ""
    """The least."""

    resource: str = ""
    """The resource."""

    title: str = ""
    """Its name for people."""

    type: str = ""
    """What kind of resource it is; empty for others."""


class JobToleration(Message):
    """A taint that is tolerated."""

    effect: str = ""
    """The taint's effect; every effect if not given."""

    key: str = ""
    """The taint's key; every key if not given."""

    operator: str = ""
    """Whether the value matters; `Exists` if not given."""

    toleration_seconds: int | None = None
    """How long a taint that evicts is tolerated, in seconds."""

    value: str = ""
    """The taint's value."""


class HardwareProfileChoice(Message):
    """A HardwareProfile (infrastructure.opendatahub.io)."""

    description: str = ""
    """What it is for."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """Its namespace."""

    node_selector: dict[str, str] = {}
    """Labels that nodes must have."""

    queue: str = ""
    """The LocalQueue of jobs with this profile."""

    resources: list[HardwareResource] = []
    """The resources of each pod."""

    title: str = ""
    """The name for people; the name if it has none."""

    tolerations: list[JobToleration] = []
    """Taints that are tolerated."""

    workload_priority_class: str = ""
    """The WorkloadPriorityClass of jobs with this profile."""


class HardwareProfileChoices(Message):
    """Hardware profiles."""

    more: bool = False
    """Whether there are others."""

    profiles: list[HardwareProfileChoice] = []
    """The profiles."""


class KindSupport(Message):
    """Whether the cluster has a kind of job."""

    kind: str = ""
    """The kind."""

    state: str = ""
    """`Unknown`: the cluster has not answered yet. A kind that is installed later is found within 5 minutes.
    """


class Permission(Message):
    """Whether the caller may do something."""

    allowed: bool = False
    """Whether it is allowed."""

    resource: str = ""
    """The object: `MPIJobs`, `pods/log`."""

    verb: str = ""
    """The verb."""


class Identity(Message):
    """The caller."""

    groups: list[str] = []
    """The groups."""

    kinds: list[KindSupport] = []
    """Each kind of job, and whether the cluster has it."""

    permissions: list[Permission] = []
    """What the caller may do in the namespace."""

    sends_email: bool = False
    """Whether notification rules may have an e-mail address: whether the service has an SMTP server."""

    user: str = ""
    """The user name."""


class ImageChoices(Message):
    """Images used before."""

    images: list[str] = []
    """The images of the Workers of the newest jobs, each once, the newest first; at most 20."""


class JobAttempt(Message):
    """An attempt to run a job, and how it ended."""

    actor: str = ""
    """Who can remove the cause."""

    cause: str = ""
    """The cause, one CamelCase word."""

    evidence: list[str] = []
    """What the cause rests on."""

    exit_code: int | None = None
    """The exit code that made it fail."""

    finished: Time = None
    """When it ended."""

    message: str = ""
    """What happened."""

    number: int = 0
    """Its number, from 1."""

    phase: str = ""
    """`Succeeded` or `Failed`; empty while it runs."""

    started: Time = None
    """When it started."""

    worker: str = ""
    """The Worker that failed first."""


class Pod(Message):
    """A pod."""

    created: Time = None
    """When it was created."""

    exit_code: int | None = None
    """The exit code of its first container, once it has ended."""

    gpus: int = 0
    """The GPUs that it requests, of any vendor."""

    health: str = ""
    """How it is. `blocked`: it cannot start until something changes. `gone`: it is about to be removed.
    """

    index: int | None = None
    """The Worker's index."""

    name: str = ""
    """The name."""

    node: str = ""
    """Its node."""

    ready: bool = False
    """Whether it is ready."""

    restarts: int = 0
    """The restarts of its containers."""

    role: str = ""
    """`Launcher` or `Worker`, or the role that its kind has."""

    state: str = ""
    """As kubectl shows it, for example `Running`, `Completed`, `Unschedulable`."""

    waits_for: str = ""
    """What it waits for."""


class JobStep(Message):
    """A step that a job takes."""

    actor: str = ""
    """Who acts next, if the job is at this step. `User` and `Administrator` must act; the others do."""

    finished: Time = None
    """When it was over, if that is known."""

    message: str = ""
    """What the job waits for, or where it failed, if it is at this step."""

    name: str = ""
    """`Queue`: a queue or a suspension lets it go. `Nodes`: its pods are created and get nodes. `Start`:
    images are pulled, and Workers become ready. `Launch`: the Launcher connects to the Workers. `Train`:
    the program runs.
    """

    state: str = ""
    """`Done`, `Active`: the job is at it, and it goes on by itself. `Blocked`: the job is at it, and someone
    must act. `Failed`: the job failed there. `Waiting`: still to come. `Skipped`: the job ended before it.
    """

    workers_done: int | None = None
    """The Workers that have this step behind them, if the job is at it and they can be counted."""


class Waiting(Message):
    """What a job waits for."""

    actor: str = ""
    """Who must act."""

    cause: str = ""
    """What keeps it from going on, one CamelCase word; empty if it goes on by itself."""

    evidence: list[str] = []
    """What this rests on."""

    link: str = ""
    """Where to read more."""

    message: str = ""
    """What it waits for, for people."""

    since: Time = None
    """Since when."""

    stage: str = ""
    """The stage."""

    suggestion: str = ""
    """What to do about it."""


class JobWorker(Message):
    """A Worker that a job has or should have."""

    health: str = ""
    """How it is."""

    index: int = 0
    """Its index."""

    pod: str = ""
    """The name of its pod; empty if it has none."""

    state: str = ""
    """The state of its pod, or why it failed if its pod is gone."""


class Job(Message):
    """A job."""

    attempt_list: list[JobAttempt] = []
    """Its attempts with their causes, the last one last; at most ten."""

    attempts: int = 0
    """The number of attempts so far, if its kind counts them."""

    conditions: list[Condition] = []
    """Its conditions."""

    failure: Failure | None = None
    """Why it failed."""

    fixes: list[Fix] = []
    """The changes to a copy of the job that may remove the cause of its failure or its waiting, the best one
    first.
    """

    last_lines: list[str] = []
    """The last lines that the failed or hanging rank or Launcher printed, the oldest first, without those of
    mpirun; empty if there are none, or they cannot be read.
    """

    manifest: str = ""
    """The object as the cluster has it, as YAML."""

    pods: list[Pod] = []
    """Its pods: the Launcher's first, then Workers by index."""

    row: JobRow | None = None
    """Its row."""

    steps: list[JobStep] = []
    """The steps of its way, in order: all of them, whether it has taken them or not."""

    unread: list[str] = []
    """What could not be read, and why."""

    waiting: Waiting | None = None
    """What it waits for, if it has not ended and does not simply run."""

    warnings: list[str] = []
    """What may be wrong with it although it runs or succeeded, one sentence each: an image that the embedded
    cluster does not know, in whose place the machine's own programs run.
    """

    worker_list: list[JobWorker] = []
    """Every Worker that it has or should have, by index, whether it has a pod or not."""


class JobCounts(Message):
    """Jobs that run or wait, counted."""

    gpus: int = 0
    """The GPUs of running jobs."""

    gpus_asked: int = 0
    """The GPUs of pending jobs."""

    pending: int = 0
    """Pending jobs."""

    running: int = 0
    """Running jobs."""


class JobFailures(Message):
    """What failures do to a job."""

    max_gang_restarts: int | None = None
    """The most restarts of all pods after an infrastructure failure."""

    stall_timeout: str = ""
    """How long the job may be silent before it counts as stalled."""

    start_timeout: str = ""
    """How long a Worker may take to be ready."""

    worker_failure: str = ""
    """What a failed Worker does: end the job, restart all pods, or be replaced."""


class JobState(Message):
    """A state that a job entered."""

    at: Time = None
    """When."""

    attempt: int = 0
    """The number of the attempt; 0 if its kind counts none."""

    cause: str = ""
    """Why the job failed or could not start."""

    message: str = ""
    """What happened."""

    phase: str = ""
    """The phase."""

    phase_reason: str = ""
    """The reason for the phase."""

    workers: WorkerCounts | None = None
    """The Workers by state."""


class JobHistory(Message):
    """What became of a job."""

    attempts: list[JobAttempt] = []
    """Its attempts, if its kind counts them."""

    cause: str = ""
    """Why the job failed or could not start."""

    continue_: str = Field(default="", alias="continue")
    """Send this for further states; empty after the last."""

    created: Time = None
    """When it was created."""

    deleted: Time = None
    """When it was deleted."""

    finished: Time = None
    """When it ended."""

    kind: str = ""
    """The kind."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""

    owner: str = ""
    """The user or service account that created the job, if the cluster recorded it."""

    phase: str = ""
    """Its last known phase."""

    phase_reason: str = ""
    """The reason for it."""

    started: Time = None
    """When it was first allowed to run, or last resumed."""

    states: list[JobState] = []
    """Its states, oldest first."""

    uid: str = ""
    """The Kubernetes UID."""

    uids: list[str] = []
    """The UIDs of all jobs of this name, newest first."""


class MeasuredSeries(Message):
    """A quantity of a pod over time."""

    gpu: str = ""
    """The GPU, by its number on its node; a part of a GPU (MIG) as `0/3`. Empty for the network."""

    name: str = ""
    """What was measured. The network's unit is KiB a second."""

    seconds: list[int] = []
    """The time of each point, in seconds after the first."""

    source: str = ""
    """`prometheus`, or `node`: the node itself."""

    start: Time = None
    """The time of the first point."""

    values: list[int] = []
    """The number at each point."""


class PodSeries(Message):
    """What a pod used."""

    cpu_millis: list[int] = []
    """The CPU at each point, in thousandths of a core."""

    index: int | None = None
    """The Worker's index."""

    measured: list[MeasuredSeries] = []
    """Its network traffic, its GPUs and their power. Each series has times of its own."""

    memory_mib: list[int] = []
    """The memory at each point, in MiB."""

    name: str = ""
    """The pod."""

    role: str = ""
    """`Launcher` or `Worker`."""

    seconds: list[int] = []
    """The time of each point, in seconds after the first."""

    start: Time = None
    """The time of the first point."""


class MetricPoint(Message):
    """A metric's number at a moment."""

    seconds: float = 0.0
    """The time, in seconds after the first point."""

    step: int | None = None
    """The step of the training, or else its epoch, if the line names one."""

    value: float = 0.0
    """The number."""


class MetricSeries(Message):
    """A metric of the training."""

    first_not_finite: Time = None
    """When the first of them was printed."""

    name: str = ""
    """Its name; `progress` is in percent."""

    not_finite: int = 0
    """How many values are NaN or infinite. They are no points, because JSON has no such numbers."""

    points: list[MetricPoint] = []
    """The points, in the order of time."""

    seconds: list[int] = []
    """The time of each point, in whole seconds after the first: for clients that do not know `points`.
    """

    source: str = ""
    """`report`: the program reports it. `output`: the program prints it. `both`: it reports and prints it.
    `pattern`: a pattern found it in the output.
    """

    start: Time = None
    """The time of the first point."""

    values: list[str] = []
    """The number at each point, as text: for clients that do not know `points`."""


class JobMetrics(Message):
    """A job's metrics over time. A long series has fewer points, evenly spaced over its whole time."""

    notes: list[str] = []
    """What has no source, and why."""

    pods: list[PodSeries] = []
    """What its pods used while it ran."""

    training: list[MetricSeries] = []
    """What its program reported and printed, and what patterns found, by name. A name is one series."""


class JobVolume(Message):
    """A volume of a job, and where it is mounted: one of `claim`, `secret` and `configMap`, else space that
    lives as long as the pod.
    """

    claim: str = ""
    """A PersistentVolumeClaim, for data and checkpoints."""

    config_map: str = ""
    """A ConfigMap as files."""

    in_memory: bool = False
    """Whether the pod's space is memory rather than disk, as for `/dev/shm`."""

    path: str = ""
    """Where it is mounted."""

    read_only: bool = False
    """Whether the claim is mounted without the right to write."""

    secret: str = ""
    """A Secret as files."""

    size: str = ""
    """The most that the pod's space may hold."""

    sub_path: str = ""
    """The folder in the claim's volume; its root if not given."""


class JobPlacement(Message):
    """Where pods are placed, in Kubernetes' terms."""

    affinity: str = ""
    """Rules about nodes and other pods, as `affinity` of a pod: YAML or JSON."""

    node_selector: dict[str, str] = {}
    """Labels that nodes must have."""

    scheduler: str = ""
    """The scheduler's name."""

    tolerations: list[JobToleration] = []
    """Taints that are tolerated."""

    topology_spread: str = ""
    """How the pods are spread, as `topologySpreadConstraints` of a pod: YAML or JSON."""


class JobVariable(Message):
    """A variable whose value is a key of a Secret or of a ConfigMap."""

    config_map: str = ""
    """The ConfigMap."""

    key: str = ""
    """The key."""

    name: str = ""
    """Its name."""

    secret: str = ""
    """The Secret."""


class JobPart(Message):
    """What is different for the Workers or for the Launcher."""

    annotations: dict[str, str] = {}
    """Annotations of the pods."""

    env: dict[str, str] = {}
    """Variables in addition to the job's; one of the same name replaces the job's."""

    image: str = ""
    """The image; the job's if not given."""

    labels: dict[str, str] = {}
    """Labels of the pods."""

    limits: dict[str, str] = {}
    """What a pod may use at most, by resource; any vendor's GPUs among them. Each GPU of a Worker gets a rank.
    """

    mounts: list[JobVolume] = []
    """Volumes in addition to the job's."""

    requests: dict[str, str] = {}
    """What the scheduler reserves, by resource; as much as `limits` if not given."""

    restart_policy: str = ""
    """When a container that has ended is started again; never if not given."""

    scheduling: JobPlacement | None = None
    """Where the pods are placed; as the job's if not given."""

    variables: list[JobVariable] = []
    """Variables whose values are in Secrets and ConfigMaps."""


class JobsEvent(Message):
    """An event of the stream."""

    complete: bool = False
    """Whether this is the last part of a snapshot."""

    deleted: list[JobRef] = []
    """Jobs that are gone, or match no longer."""

    first: bool = False
    """Whether this is the first part of a snapshot."""

    id: str = ""
    """Continues the stream after this event when it is sent as `lastEventId`; empty in parts of a snapshot
    before its last.
    """

    jobs: list[JobRow] = []
    """Jobs in their new state."""

    type: str = ""
    """`snapshot`: `jobs` are among those that match; forget all others once `complete`. `change`: `jobs` were
    created or changed, `deleted` are gone or match no longer. `heartbeat`: nothing changed.
    """


class ListAdviceResponse(Message):
    """Advice about requests."""

    basis: str = ""
    """What the advice rests on."""

    programs: list[ProgramAdvice] = []
    """The programs, those with a request that should change first."""

    truncated: bool = False
    """Whether there are more programs than those."""


class UnknownAlerts(Message):
    """A rule that could not be evaluated."""

    namespace: str = ""
    """The namespace."""

    rule: str = ""
    """The rule's name."""


class ListAlertsResponse(Message):
    """What holds now."""

    alerts: list[Alert] = []
    """At most 500 alerts, the newest first."""

    total: int = 0
    """How many there are."""

    unknown: list[UnknownAlerts] = []
    """Rules of which is unknown what holds now, because they could not be evaluated in the last two minutes.
    Their alerts, if there are any, are those of the last evaluation.
    """


class ListArtifactsResponse(Message):
    """What is in a folder: folders first, then by name."""

    artifacts: list[Artifact] = []
    """The files and folders, 2,000 at most; or the volumes."""

    path: str = ""
    """The folder."""

    pod: str = ""
    """The pod that was asked."""

    truncated: bool = False
    """Whether there are more than those."""


class ListAuditResponse(Message):
    """A page of operations."""

    continue_: str = Field(default="", alias="continue")
    """Send this for the next page; empty after the last page."""

    operations: list[AuditedOperation] = []
    """The operations."""


class PriorityClassChoice(Message):
    """A PriorityClass."""

    name: str = ""
    """The name."""

    standard: bool = False
    """Whether pods without a class get it."""

    value: int = 0
    """The priority; higher ones come first."""


class PriorityClassChoices(Message):
    """Priority classes."""

    classes: list[PriorityClassChoice] = []
    """The classes."""

    more: bool = False
    """Whether there are others."""


class QueueChoice(Message):
    """A LocalQueue."""

    cluster_queue: str = ""
    """Its ClusterQueue."""

    free: Resources | None = None
    """What the ClusterQueue's own quota has free, if the caller may read ClusterQueues and it selects the
    namespace.
    """

    name: str = ""
    """The name."""

    pending: int | None = None
    """The number of Workloads that wait in it, if Kueue reports it."""

    stopped: bool = False
    """Whether it is stopped or not active, so that it admits nothing."""

    unknown: UnknownPart | None = None
    """Why `free` is unknown although the caller may read ClusterQueues."""


class QueueChoices(Message):
    """LocalQueues."""

    more: bool = False
    """Whether there are others."""

    queues: list[QueueChoice] = []
    """The queues."""


class RuntimeChoice(Message):
    """A runtime."""

    framework: str = ""
    """The framework, as the runtime's policy calls it; empty if it names none."""

    images: list[str] = []
    """The images of its containers, each once."""

    kind: str = ""
    """The kind."""

    mpi: str = ""
    """The implementation of MPI, if the framework is MPI."""

    nodes: int | None = None
    """The number of nodes of jobs that do not set it."""

    reference: str = ""
    """How `runtime` of a specification names it."""


class RuntimeChoices(Message):
    """Runtimes of TrainJobs."""

    more: bool = False
    """Whether there are others."""

    runtimes: list[RuntimeChoice] = []
    """The runtimes."""


class SecretChoice(Message):
    """A Secret."""

    image_pull: bool = False
    """Whether it is a credential for pulling images (kubernetes.io/dockerconfigjson)."""

    name: str = ""
    """The name."""


class SecretChoices(Message):
    """Secrets."""

    more: bool = False
    """Whether there are others."""

    secrets: list[SecretChoice] = []
    """The Secrets."""


class ListChoicesResponse(Message):
    """What a form can offer. Each part has at most 500 items, by name; `more` says that there are others. A
    part that is unknown is not set, and `unknown` has its name in JSON and the reason. A part whose API the
    cluster does not serve is empty.
    """

    claims: ClaimChoices | None = None
    """The PersistentVolumeClaims of the namespace that are not being deleted."""

    config_maps: ConfigMapChoices | None = None
    """The ConfigMaps of the namespace, without templates and those of the cluster itself."""

    hardware_profiles: HardwareProfileChoices | None = None
    """The hardware profiles of Open Data Hub that are enabled: those of the namespace and, as far as the
    caller may read them, of the namespaces opendatahub and redhat-ods-applications.
    """

    images: ImageChoices | None = None
    """Images of the namespace's jobs that the caller may list."""

    priority_classes: PriorityClassChoices | None = None
    """The cluster's priority classes, without those that are reserved for the system."""

    queues: QueueChoices | None = None
    """Kueue's LocalQueues of the namespace."""

    runtimes: RuntimeChoices | None = None
    """The runtimes of TrainJobs, those of the cluster first."""

    secrets: SecretChoices | None = None
    """The Secrets of the namespace that are of the types Opaque and kubernetes.io/dockerconfigjson."""

    unknown: list[UnknownPart] = []
    """What is unknown, and why."""


class ListDeliveriesResponse(Message):
    """A page of deliveries."""

    continue_: str = Field(default="", alias="continue")
    """Send this for the next page; empty after the last page."""

    deliveries: list[Delivery] = []
    """The deliveries."""


class ListEventsResponse(Message):
    """Events, oldest first."""

    events: list[Event] = []
    """The events."""


class QuotaSum(Message):
    """GPUs of one resource in the own quota of a ClusterQueue, without what it could borrow from its cohort."""

    free: int = 0
    """What of it is not reserved."""

    gpus: int = 0
    """The quota, over all flavors. Other LocalQueues of the ClusterQueue share it."""

    resource: str = ""
    """The resource."""


class QueueGpus(Message):
    """The GPUs in the quota of a LocalQueue."""

    name: str = ""
    """The name."""

    stopped: bool = False
    """Whether it admits nothing: it or its ClusterQueue is stopped, there is no such ClusterQueue, or that
    does not select the namespace.
    """

    sums: list[QuotaSum] = []
    """The GPUs, by resource. Resources that the quota does not name are left out: no job gets them in this
    queue. Empty if `unknown` is set.
    """

    unknown: UnknownPart | None = None
    """Why `sums` is unknown."""


class QuotaGpus(Message):
    """The GPUs in the quotas of a namespace's LocalQueues."""

    queues: list[QueueGpus] = []
    """The LocalQueues, by name; empty if the namespace has none, or the cluster has no Kueue."""


class ListGpusResponse(Message):
    """Sums of GPUs."""

    cluster: ClusterGpus | None = None
    """The GPUs of the cluster's nodes. Not set if they are unknown: then `unknown` has the part `cluster`.
    """

    queues: QuotaGpus | None = None
    """The GPUs in the quotas of the namespace's LocalQueues. Not set if they are unknown: then `unknown` has
    the part `queues`.
    """

    unknown: list[UnknownPart] = []
    """What is unknown, and why."""


class MetricSummary(Message):
    """What is known of a metric of a job: of the numbers that its program printed, or else of those that it
    reported. A value that is not given is unknown.
    """

    highest: float | None = None
    """The highest value."""

    last: float | None = None
    """The last value."""

    lowest: float | None = None
    """The lowest value."""

    name: str = ""
    """The metric's name."""

    not_finite: int = 0
    """How many values are NaN or infinite: they are none of these."""

    uid: str = ""
    """The Kubernetes UID of the job."""


class ListJobsResponse(Message):
    """A page of jobs."""

    continue_: str = Field(default="", alias="continue")
    """Send this for the next page; empty after the last page."""

    jobs: list[JobRow] = []
    """The jobs."""

    metrics: list[MetricSummary] = []
    """What is known of the metrics of these jobs' training, by job and name, if it was asked for. A metric of
    which nothing is known is missing.
    """

    notes: list[str] = []
    """Which metrics are missing, and why."""

    total: int | None = None
    """The number of jobs that match, if it was asked for."""


class NamespaceSummary(Message):
    """A namespace as a caller sees it."""

    jobs: int | None = None
    """The number of jobs of these kinds; not set where the request is about their creation."""

    kinds: list[str] = []
    """The kinds of jobs that the caller may list, or create, there."""

    name: str = ""
    """The name."""


class ListNamespacesResponse(Message):
    """Namespaces, by name."""

    namespaces: list[NamespaceSummary] = []
    """The namespaces."""

    partial: bool = False
    """Whether namespaces without jobs may be missing: there are more than could be checked one by one, or they
    could not be read.
    """


class NotificationRule(Message):
    """A rule about who is notified of what."""

    causes: list[str] = []
    """The causes that it is about; all if empty."""

    created: Time = None
    """When it was created."""

    disabled_because: str = ""
    """Why the service has taken it out of force."""

    email: str = ""
    """Where e-mails go."""

    enabled: bool = False
    """Whether it is in force."""

    job: str = ""
    """The name of that job."""

    job_uid: str = ""
    """The UID of the only job that it is about; empty for all jobs of the namespace."""

    kind: str = ""
    """The kind of the only job that it is about, if the service still knows that job."""

    kinds: list[str] = []
    """The kinds of jobs that it is about: those that the owner may list."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""

    owner: str = ""
    """Who chose its destination. The rule acts with the rights of this user."""

    phases: list[str] = []
    """The phases that it is about; all if empty."""

    quota_percent: int | None = None
    """Its condition, if it is about a quota: a ResourceQuota of the namespace is used to at least so many
    percent.
    """

    reasons: list[str] = []
    """The reasons that it is about; all if empty."""

    runs_longer_than: str = ""
    """Its condition, if it is about run times: a job has run for longer than this."""

    secret: str = ""
    """The key that signs webhooks, only in the answer that created it."""

    stalled: bool = False
    """Its condition, if it is about silence: a job is stalled."""

    url: str = ""
    """Where webhooks go; only the origin and the last letters for those who may not change the rule."""


class ListNotificationRulesResponse(Message):
    """Rules, by name."""

    rules: list[NotificationRule] = []
    """The rules."""


class RelatedJob(Message):
    """A job, and where it came from."""

    how: str = ""
    """How it came from that one; empty for an original."""

    job: JobRow | None = None
    """Its row."""

    origin: str = ""
    """The name of the job that it repeats or was copied from; empty for an original."""


class ListRelatedJobsResponse(Message):
    """Related jobs, the oldest first."""

    jobs: list[RelatedJob] = []
    """The jobs."""


class TemplateParameter(Message):
    """A parameter of a template."""

    allowed: list[str] = []
    """The values to choose from; any of the type if empty."""

    default: str = ""
    """The value if none is given; without one, a value is required."""

    description: str = ""
    """What it is for."""

    name: str = ""
    """The name."""

    sets: list[str] = []
    """The fields that it sets, by path."""

    type: str = ""
    """The type of its values; a text if not given."""


class Template(Message):
    """A template: a manifest from which jobs are created."""

    description: str = ""
    """What it is for."""

    hides_shared: bool = False
    """Whether it hides a shared template of its name, as far as the caller may read those. The shared one is
    found in its own namespace.
    """

    kind: str = ""
    """The kind of job that it creates."""

    manifest: str = ""
    """The manifest, YAML; empty in lists."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace."""

    parameters: list[TemplateParameter] = []
    """What a user of it may choose."""

    shared: bool = False
    """Whether it is one that the organisation shares."""

    version: int = 0
    """The number of this version, from 1."""

    versions: list[int] = []
    """The numbers of all versions that are kept, the oldest first."""


class ListTemplatesResponse(Message):
    """A page of templates, by name."""

    continue_: str = Field(default="", alias="continue")
    """Send this for the next page; empty after the last page."""

    templates: list[Template] = []
    """The newest version of each, without its manifest."""


class UsedAmount(Message):
    """How much of a resource was used. The numbers are decimal texts, because they are exact."""

    amount_seconds: str = ""
    """Cores, bytes or GPUs times seconds."""

    cost: str = ""
    """What it costs, with four digits after the point; empty without a price."""

    hours: str = ""
    """Cores, GiB or GPUs times hours, rounded to four digits."""

    resource: str = ""
    """`cpu`, `memory`, or the resource of a GPU."""


class Usage(Message):
    """A sum of what jobs used."""

    amounts: list[UsedAmount] = []
    """The amounts by resource."""

    cost: str = ""
    """What they cost, with four digits after the point; empty if none of them has a price."""

    job: str = ""
    """The job's name, if summed by job."""

    namespace: str = ""
    """The namespace."""

    uid: str = ""
    """Its UID."""

    user: str = ""
    """The user, if summed by user; empty if the cluster recorded none."""


class ListUsageResponse(Message):
    """What jobs used."""

    cost: str = ""
    """What all sums cost together, with four digits after the point; empty if nothing has a price."""

    cost_basis: str = ""
    """What the costs rest on, or what is wrong with the prices; empty if none are set."""

    csv: str = ""
    """The same as a table, if CSV was asked for."""

    currency: str = ""
    """The currency of the costs; empty if no prices are set, or the caller may not read them."""

    from_: Time = Field(default=None, alias="from")
    """The first second of the period."""

    until: Time = None
    """Its end, which does not belong to it."""

    usage: list[Usage] = []
    """The sums."""


class LogOrigin(Message):
    """The source of a line."""

    cursor: str = ""
    """Where to go on after it in the output of its pod."""

    pod: str = ""
    """The pod."""

    rank: int | None = None
    """The rank."""


class LogItem(Message):
    """A line, or a note about the reading."""

    also: list[LogOrigin] = []
    """Where else the same line was written, if lines are folded."""

    at: str = ""
    """When the line was written."""

    cursor: str = ""
    """Where to go on after this line in the output of its pod. It is opaque. Empty if lines before it are
    still held back.
    """

    evidence: bool = False
    """Whether the line is evidence for the cause of the job's failure."""

    level: str = ""
    """The line's level, if it is marked with one."""

    pod: str = ""
    """The pod."""

    rank: int | None = None
    """The rank that wrote it, if the MPI launcher tagged it."""

    text: str = ""
    """The line, what is waited for, what is missing, or the note."""

    type: str = ""
    """`line`, `waiting` (there is nothing to read yet), `missing` (lines are missing here) or `note`."""


class NamespaceJobs(Message):
    """The jobs of a namespace."""

    jobs: JobCounts | None = None
    """Its jobs."""

    namespace: str = ""
    """The namespace."""


class QuotaResource(Message):
    """A resource of a quota."""

    hard: str = ""
    """The most, as a quantity."""

    percent: int = 0
    """The part that is used, in percent."""

    quota: str = ""
    """The ResourceQuota."""

    resource: str = ""
    """The resource."""

    used: str = ""
    """What is used, as a quantity."""


class NamespaceQuota(Message):
    """How full a namespace's quotas are."""

    message: str = ""
    """The same in words."""

    namespace: str = ""
    """The namespace."""

    percent: int = 0
    """The part of the fullest resource that is used, in percent."""

    resources: list[QuotaResource] = []
    """The resources, the fullest first."""


class QueueResource(Message):
    """A resource of a ClusterQueue, over all its flavors."""

    borrowed: str = ""
    """The part of that which is borrowed from the cohort."""

    nominal: str = ""
    """Its own quota, as a quantity."""

    resource: str = ""
    """The resource."""

    used: str = ""
    """What admitted Workloads use."""


class Queue(Message):
    """A queue of Kueue."""

    admitted: int = 0
    """Workloads that are admitted."""

    cluster_queue: str = ""
    """The ClusterQueue of a LocalQueue."""

    cohort: str = ""
    """The cohort from which a ClusterQueue may borrow."""

    name: str = ""
    """The name."""

    namespace: str = ""
    """The namespace; empty for a ClusterQueue."""

    pending: int = 0
    """Workloads that wait."""

    resources: list[QueueResource] = []
    """The resources of a ClusterQueue."""

    stopped: bool = False
    """Whether it admits nothing."""


class UserJobs(Message):
    """The jobs of a user in a namespace."""

    jobs: JobCounts | None = None
    """The jobs."""

    namespace: str = ""
    """The namespace."""

    user: str = ""
    """The user; empty if the cluster has not recorded who created them."""


class Overview(Message):
    """The cluster in numbers."""

    models: list[GpuModel] = []
    """GPUs by model."""

    namespaces: list[NamespaceJobs] = []
    """Namespaces with jobs that run or wait, by name."""

    nodes: list[GpuNode] = []
    """Nodes with GPUs, by name."""

    queues: list[Queue] = []
    """Kueue's ClusterQueues, then LocalQueues."""

    quotas: list[NamespaceQuota] = []
    """Namespaces with a quota, the fullest first."""

    unread: list[str] = []
    """What the caller may not read; it is not counted."""

    users: list[UserJobs] = []
    """Users with jobs that run or wait, by name."""


class Reader(Message):
    """A pod through which the files of a job that has ended are read."""

    idle_seconds: int = 0
    """After how many seconds without a request it ends."""

    pod: str = ""
    """The pod."""

    ready: bool = False
    """Whether files can be listed and read by now; until then, ask again."""

    waits_for: str = ""
    """What the pod waits for, if it is not ready."""


class RecordAdmissionsResponse(Message):
    """Admissions were recorded."""

    pending: list[str] = []
    """The reviews that are not recorded yet: a request of the same user that is still under way may have made
    these writes. Send them again a moment later.
    """


class ResumeJobResponse(Message):
    """The resumed job."""

    changed: bool = False
    """Whether it was suspended before."""

    job: JobRow | None = None
    """Its row."""


class RetryJobResponse(Message):
    """The other job."""

    job: JobRow | None = None
    """Its row."""

    manifest: str = ""
    """Its manifest, YAML."""


class SignIn(Message):
    """An address that signs a browser in."""

    expires: Time = None
    """When it expires."""

    path: str = ""
    """Its path at this service. The first visitor is signed in as the caller."""


class SuspendJobResponse(Message):
    """The suspended job."""

    changed: bool = False
    """Whether it was not suspended before."""

    job: JobRow | None = None
    """Its row."""


LIST_ADVICE = Method("GET", "/api/v1/advice", query=frozenset({"namespace"}))
"""Lists advice about requests."""
LIST_ALERTS = Method("GET", "/api/v1/alerts", query=frozenset({"namespace"}))
"""Lists what holds now of the conditions of notification rules."""
LIST_AUDIT = Method(
    "GET",
    "/api/v1/audit",
    query=frozenset({"continue", "limit", "namespace", "newestFirst", "object", "since", "until", "who"}),
)
"""Lists what was done, oldest first."""
RECORD_ADMISSIONS = Method("POST", "/api/v1/audit/admissions")
"""Records what an admission webhook saw, in the audit log."""
EXPORT_AUDIT = Method("GET", "/api/v1/audit/export", query=frozenset({"after", "through"}), is_stream=True)
"""Exports the lines of the audit log in order, each exactly as it was hashed."""
CHECK_CAPACITY = Method(
    "GET",
    "/api/v1/capacity",
    query=frozenset({"cpu", "gpuResource", "gpus", "memory", "namespace", "queue", "workers"}),
)
"""Returns what would fit into the cluster."""
LIST_JOBS = Method(
    "GET",
    "/api/v1/jobs",
    query=frozenset(
        {
            "continue",
            "fields",
            "kind",
            "labels",
            "limit",
            "metrics",
            "names",
            "namespace",
            "owner",
            "phase",
            "q",
            "since",
            "sort",
            "total",
            "until",
        }
    ),
)
"""Lists jobs."""
GET_IDENTITY = Method("GET", "/api/v1/me", query=frozenset({"kind", "namespace"}))
"""Returns who the caller is, and what the caller may do with jobs in a namespace."""
LIST_NAMESPACES = Method("GET", "/api/v1/namespaces", query=frozenset({"kind", "verb"}))
"""Lists the namespaces in which the caller may list, or create, jobs of a kind, by name."""
CHECK_AVAILABILITY = Method("POST", "/api/v1/namespaces/{namespace}/availability")
"""Checks whether a job could be created and start now."""
BATCH_JOBS = Method("POST", "/api/v1/namespaces/{namespace}/batch", query=frozenset({"dryRun"}))
"""Deletes, suspends or resumes several jobs of a namespace."""
LIST_CHOICES = Method("GET", "/api/v1/namespaces/{namespace}/choices")
"""Lists what a form can offer for a job in a namespace."""
COMPARE_JOBS = Method("POST", "/api/v1/namespaces/{namespace}/compare")
"""Compares jobs of a namespace."""
LIST_DELIVERIES = Method(
    "GET", "/api/v1/namespaces/{namespace}/deliveries", query=frozenset({"continue", "limit", "state"})
)
"""Lists the deliveries of a namespace's rules, newest first."""
LIST_GPUS = Method("GET", "/api/v1/namespaces/{namespace}/gpus")
"""Sums GPUs, for everybody who may create jobs of any kind in the namespace."""
CREATE_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs", query=frozenset({"dryRun"}))
"""Creates a job from a manifest of any supported kind, from a template, or from a specification."""
DELETE_JOB = Method("DELETE", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}", query=frozenset({"force"}))
"""Deletes a job and everything that belongs to it."""
GET_JOB = Method("GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}")
"""Gets a job with its pods and conditions, the steps of its way, what it waits for or why it failed, who must
act, and the changes that may help.
"""
LIST_ARTIFACTS = Method(
    "GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/artifacts", query=frozenset({"path", "worker"})
)
"""Lists a folder of a volume that a running pod of the job mounts; without a path, those volumes."""
READ_ARTIFACT = Method(
    "GET",
    "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/artifacts/content",
    query=frozenset({"limit", "offset", "path", "worker"}),
)
"""Reads a file of a volume that a running pod of the job mounts, up to 10 GiB."""
CANCEL_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/cancel")
"""Ends an MPIJob for good; its record and its output stay, and its failure is Cancelled."""
CLONE_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/clone", query=frozenset({"dryRun"}))
"""Runs a copy of a job, with changes."""
LIST_EVENTS = Method("GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/events")
"""Lists the events of a job and its pods, oldest first."""
EXPORT_JOB = Method("GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/export", query=frozenset({"format"}))
"""Exports a job as what creates it again."""
GET_HISTORY = Method(
    "GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/history", query=frozenset({"continue", "limit", "uid"})
)
"""Returns what became of a job."""
READ_LOGS = Method(
    "GET",
    "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/logs",
    query=frozenset(
        {
            "agents",
            "all",
            "container",
            "context",
            "cursor",
            "exclude",
            "fold",
            "follow",
            "grep",
            "level",
            "previous",
            "rank",
            "sinceSeconds",
            "split",
            "state",
            "tail",
            "worker",
        }
    ),
    is_stream=True,
)
"""Reads the output of a job's pods, line by line, merged by time."""
GET_METRICS = Method("GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/metrics", query=frozenset({"pattern"}))
"""Returns a job's metrics over time."""
START_READER = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/reader")
"""Starts a small pod that mounts the job's claims, read-only, so that its files can be listed and read after
its own pods have ended; or says how far that pod is.
"""
LIST_RELATED_JOBS = Method("GET", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/related")
"""Lists the jobs that repeat the same job or were copied from it, directly or from one another, the job
included, the oldest first.
"""
RESUME_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/resume")
"""Resumes a suspended job from the beginning."""
RETRY_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/retry", query=frozenset({"dryRun"}))
"""Runs an ended job again, as another job."""
SUSPEND_JOB = Method("POST", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/suspend")
"""Suspends a job."""
LIST_NOTIFICATION_RULES = Method("GET", "/api/v1/namespaces/{namespace}/notifications")
"""Lists the rules of a namespace about who is notified of what."""
DELETE_NOTIFICATION_RULE = Method("DELETE", "/api/v1/namespaces/{namespace}/notifications/{name}")
"""Deletes a rule and its deliveries."""
GET_NOTIFICATION_RULE = Method("GET", "/api/v1/namespaces/{namespace}/notifications/{name}")
"""Gets a rule."""
PUT_NOTIFICATION_RULE = Method("PUT", "/api/v1/namespaces/{namespace}/notifications/{name}")
"""Creates or replaces a rule."""
TEST_NOTIFICATION_RULE = Method("POST", "/api/v1/namespaces/{namespace}/notifications/{name}/test")
"""Sends a test delivery by a rule, with the phase `Test`."""
RENDER_JOB = Method("POST", "/api/v1/namespaces/{namespace}/render")
"""Writes the manifest that fields make, and reads the fields out of a manifest; both change nothing and ask
for no permission.
"""
LIST_TEMPLATES = Method("GET", "/api/v1/namespaces/{namespace}/templates", query=frozenset({"continue", "limit"}))
"""Lists the templates of a namespace, and those that the organisation shares, page by page and without their
manifests.
"""
DELETE_TEMPLATE = Method("DELETE", "/api/v1/namespaces/{namespace}/templates/{name}")
"""Deletes a template with all its versions."""
GET_TEMPLATE = Method("GET", "/api/v1/namespaces/{namespace}/templates/{name}", query=frozenset({"version"}))
"""Gets a template of a namespace or, if it has none of that name, a shared one."""
SAVE_TEMPLATE = Method("PUT", "/api/v1/namespaces/{namespace}/templates/{name}")
"""Saves a template."""
GET_OVERVIEW = Method("GET", "/api/v1/overview", query=frozenset({"namespace"}))
"""Returns the cluster in numbers."""
CREATE_SIGN_IN = Method("POST", "/api/v1/signin")
"""Makes an address that signs a browser in as the caller."""
WATCH_JOBS = Method(
    "GET",
    "/api/v1/stream",
    query=frozenset({"kind", "labels", "lastEventId", "names", "namespace", "owner", "phase", "q"}),
    is_stream=True,
)
"""Streams changes of jobs."""
LIST_USAGE = Method("GET", "/api/v1/usage", query=frozenset({"by", "format", "namespace", "since", "until", "user"}))
"""Sums what jobs used in a period, exact to the second."""
