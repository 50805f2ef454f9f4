//! A TrainJob that can be run: everything that later steps read, resolved.

use std::time::Duration;

use jiff::Timestamp;

use super::job_set::{JobSet, Mpi, NODE, Replicated};
use super::runtime::Runtime;
use crate::objects::Gang;
use crate::progress::ProgressEndpoint;
use crate::validate::Launch;

/// A TrainJob that can be run, with its runtime resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidTrainJob {
    /// The job's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID; empty before the job is created.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Seconds that it may be active.
    pub active_deadline: Option<Duration>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How the Launcher reaches the nodes.
    pub launch: Launch,
    /// How long a scheduled pod may take to become ready.
    pub start_timeout: Duration,
    /// How long its Launcher may print nothing before the job counts as stalled.
    pub stall_timeout: Duration,
    /// Whether the job goes on when a node fails, and its Job retries it.
    pub tolerates_failures: bool,
    /// The parameters of MPI.
    pub mpi: Mpi,
    /// The Jobs, their pods ready to be created.
    pub job_set: JobSet,
    /// The gang scheduler, if the runtime asks for one.
    pub gang: Option<GangPolicy>,
    /// Where its program reports its progress, if it can.
    pub progress: Option<ProgressEndpoint>,
    /// The runtime.
    pub runtime: Runtime,
}

impl ValidTrainJob {
    /// The replicated job of its nodes, if the runtime has one.
    pub(super) fn nodes(&self) -> Option<&Replicated> {
        self.job_set.replicated.iter().find(|part| part.name == NODE)
    }
}

/// How the pods are scheduled as a gang.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPolicy {
    /// The scheduler.
    pub gang: Gang,
    /// Seconds that scheduling may take, for scheduler-plugins.
    pub timeout_seconds: i32,
    /// Mode and highest tier of the network topology, for Volcano.
    pub topology: Option<(Option<String>, Option<i64>)>,
}
