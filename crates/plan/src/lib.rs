//! Decides what to do about an MPIJob, as pure functions over wire types; [`trainjob`] does so for a TrainJob.
//!
//! [`defaulted`] → [`validate`] → [`plan`] → [`report`]. The input is the job as it was written, the observed state of
//! its children, and the time. The output is what to create, apply and delete, then the status to write and the events
//! to record. Nothing here reads a clock, the environment, the network or a random number, so the same input gives the
//! same output in the operator, in `--dry-run` and in a test.

mod action;
mod advice;
mod asked;
mod attempts;
mod capacity;
mod change;
mod conditions;
mod defaults;
mod duration;
mod estimate;
mod explanation;
mod failure;
mod fit;
mod immutable;
mod notice;
mod objects;
mod observed;
mod outlook;
mod owner;
mod pauses;
mod planning;
mod precheck;
mod progress;
mod report;
mod restart;
mod stall;
mod starter;
mod startup;
mod steps;
mod time;
pub mod trainjob;
mod validate;
mod world_check;

pub use semantics::kept;

pub use action::{Action, Advice, JobRef};
pub use advice::{advise, surprises, trainjob_surprises};
pub use asked::{Asked, AskedPods};
pub use attempts::attempt_of;
pub use capacity::{Capacity, gpus_of, reports_too_few_gpus};
pub use change::{Change, Child, ChildKind, JobChange, Patch, Target};
pub use conditions::{condition, is_true};
pub use defaults::defaulted;
pub use duration::parse_duration;
pub use estimate::{Basis, Estimate, Source};
pub use explanation::{
    Explanation, QueuePlace, Situation, Stage, Told, crashing, explain, leaving, leaving_after_resume,
    wants_gpus_counted,
};
pub use failure::{Place, agents_lines, is_agent_busy, is_agent_heard_out, place, read_place, wants_agent};
pub use fit::{Fit, fit};
pub use immutable::forbidden_changes;
pub use notice::{Applied, ApplyFailure, Notice, Report};
pub use objects::{Gang, PodGroup, deciding_classes};
pub use objects::{
    KeyPair, key_data, launcher_name, owner_reference, record_name, recorded, secret_name, worker_name,
};
pub use observed::{
    LauncherRun, LogSource, ObservedState, OutputRead, OutputSeen, Recorded, SecretSeen, accept, is_disrupted,
};
pub use outlook::Outlook;
pub use owner::owner;
pub use pauses::Pauses;
pub use planning::{Plan, lacks_launcher_pod, plan, waits_for_volumes};
pub use precheck::{Finding, Room, Weight, counts_as_running, noun, precheck, requested, wait};
pub use progress::{ProgressEndpoint, ReportingKind, progress_audience, progress_path};
pub use report::{reject, report};
pub use stall::Listening;
pub use starter::{STARTERS, is_starter, prepends_rank, starts_ranks, tags_ranks};
pub use steps::{Mover, Step, StepName, StepState, steps};
pub use validate::{
    Annotations, Avoidance, CleanPods, Fault, Implementation, Launch, LauncherCreation, MOST_WORKERS,
    Replica, ValidJob, WorkerFailure, is_ours, tolerate, validate,
};
pub use world_check::agents_to_ask;

/// The operator's settings that apply to every job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's DNS domain, appended to host names in the hostfile unless empty, e.g. `cluster.local`.
    pub cluster_domain: String,
    /// The transport of jobs without the annotation `training.opendatahub.io/launch`.
    pub default_launch: Launch,
    /// The image whose `odh-launch` an init container copies into pods of the `agent` transport.
    pub launch_image: String,
    /// The gang scheduler, if jobs are scheduled as gangs.
    pub gang: Option<Gang>,
    /// Where programs report their progress, if they can.
    pub progress: Option<ProgressEndpoint>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_domain: String::new(),
            default_launch: Launch::Ssh,
            launch_image: api::LAUNCH_IMAGE.to_owned(),
            gang: None,
            progress: None,
        }
    }
}
