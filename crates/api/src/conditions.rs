//! Condition types, reasons and event reasons, which Kueue, dashboards and scripts read.
//!
//! Those that begin with `MPIJob`, and the types up to `Failed`, are upstream's (`kubeflow/mpi-operator`,
//! `pkg/controller/mpi_job_controller_status.go`); the others are ours and additive.

/// Condition: the operator has seen the job.
pub const CONDITION_CREATED: &str = "Created";
/// Condition: the Launcher and all Workers run.
pub const CONDITION_RUNNING: &str = "Running";
/// Condition: the whole gang is being restarted.
pub const CONDITION_RESTARTING: &str = "Restarting";
/// Condition: the job is suspended.
pub const CONDITION_SUSPENDED: &str = "Suspended";
/// Condition: the Launcher ended with exit code 0.
pub const CONDITION_SUCCEEDED: &str = "Succeeded";
/// Condition: the job ended without success.
pub const CONDITION_FAILED: &str = "Failed";
/// Condition: no output and no progress for the stall timeout. It never fails a job by itself.
pub const CONDITION_STALLED: &str = "Stalled";
/// Condition: ranks were seen on all the hosts that they were given (False: on too few).
pub const CONDITION_WORLD_VERIFIED: &str = "WorldVerified";
/// Condition: something in the job's spec or annotations became invalid after the job began; the job continues
/// without it.
pub const CONDITION_INVALID: &str = "Invalid";

/// Condition of a job and of a pod of the embedded cluster: limits or other guarantees of a pod are not enforced;
/// the message says which.
pub const CONDITION_LIMITS_NOT_ENFORCED: &str = "LimitsNotEnforced";

/// Reason of [`CONDITION_LIMITS_NOT_ENFORCED`]: the node runs pods without any isolation.
pub const REASON_PLAIN_MODE: &str = "PlainMode";
/// Reason of [`CONDITION_LIMITS_NOT_ENFORCED`]: the node may not use cgroups.
pub const REASON_NO_CGROUPS: &str = "CgroupsNotPermitted";
/// Reason of [`CONDITION_STALLED`] when True.
pub const REASON_NO_OUTPUT: &str = "NoOutput";
/// Reason of [`CONDITION_STALLED`] when False: the job printed again.
pub const REASON_OUTPUT_SEEN: &str = "OutputSeen";
/// Reason of [`CONDITION_STALLED`] when False: the job has ended.
pub const REASON_ENDED: &str = "JobEnded";
/// Reason of [`CONDITION_WORLD_VERIFIED`] when True: every rank named a host that the job was given.
pub const REASON_RANKS_SEEN: &str = "RanksSeen";
/// Reason of [`CONDITION_WORLD_VERIFIED`] when False: the ranks ran on fewer hosts than can hold them.
pub const REASON_COLLAPSED: &str = "Collapsed";
/// Reason of [`CONDITION_CREATED`], and of an event.
pub const REASON_CREATED: &str = "MPIJobCreated";
/// Reason of [`CONDITION_RUNNING`], and of an event.
pub const REASON_RUNNING: &str = "MPIJobRunning";
/// Reason of [`CONDITION_SUSPENDED`] when True, and of an event.
pub const REASON_SUSPENDED: &str = "MPIJobSuspended";
/// Reason of [`CONDITION_SUSPENDED`] when False, and of an event.
pub const REASON_RESUMED: &str = "MPIJobResumed";
/// Reason of an event about a job that succeeded though its Launcher printed a complaint of `mpirun` or MPI.
pub const REASON_LAUNCHER_WARNING: &str = "LauncherWarning";
/// Reason of [`CONDITION_SUCCEEDED`], and of an event.
pub const REASON_SUCCEEDED: &str = "MPIJobSucceeded";
/// Reason of [`CONDITION_FAILED`] if no better one is known, and of events about failed creations.
pub const REASON_FAILED: &str = "MPIJobFailed";
/// Reason of [`CONDITION_FAILED`] when a Worker was evicted, and of an event.
pub const REASON_EVICTED: &str = "MPIJobEvicted";
/// Reason of [`CONDITION_FAILED`], [`CONDITION_INVALID`], `status.waiting` and an event when the spec cannot run.
pub const REASON_VALIDATION: &str = "ValidationError";
/// Reason of [`CONDITION_INVALID`] when False: the mistake was corrected.
pub const REASON_CORRECTED: &str = "Corrected";
/// Reason of [`CONDITION_RESTARTING`], and of an event.
pub const REASON_RESTARTING: &str = "MPIJobRestarting";
/// Event reason: an object with a name that the job needs exists and has another owner.
pub const REASON_RESOURCE_EXISTS: &str = "ErrResourceExists";
/// Event reason: the restart policy of the replica spec overrides the Launcher template's.
pub const REASON_TEMPLATE_RESTART_POLICY: &str = "SetPodTemplateRestartPolicy";

/// `status.phaseReason`: suspended or waiting for a queue before the first start.
pub const PHASE_REASON_QUEUED: &str = "Queued";
/// `status.phaseReason`: `runPolicy.suspend` is set.
pub const PHASE_REASON_SUSPENDED: &str = "Suspended";
/// `status.phaseReason`: pods are being created, scheduled, pulled or started.
pub const PHASE_REASON_INITIALIZING: &str = "Initializing";
/// `status.phaseReason`: the gang is being restarted.
pub const PHASE_REASON_RESTARTING: &str = "Restarting";

/// `status.phaseReason` of a running job: its Launcher failed, and its Job starts it again.
pub const PHASE_REASON_RETRYING: &str = "Retrying";

/// `status.waiting.reason`, and the reason of an event: a job waits until what a deleted job of its name has left is gone.
pub const WAITING_FOR_DELETED_JOB: &str = "DeletedJobTerminating";

/// `source.component` of every event, as upstream.
pub const EVENT_SOURCE: &str = "mpi-job-controller";
/// The longest message of an event, in bytes (`k8s.io/kubernetes/pkg/apis/core/validation/events.go`).
pub const EVENT_MESSAGE_LIMIT_BYTES: usize = 1024;
