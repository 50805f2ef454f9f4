//! The operator's settings, and what every pass works with.

use std::sync::Arc;
use std::time::Duration;

use api::MPIJob;
use kube::Client;
use kube::runtime::reflector::Store;
use tokio::sync::{Semaphore, watch};

use crate::capacity::SharedCapacity;
use crate::memory::Memory;
use crate::nodes::SharedNodes;
use crate::vitals::Vitals;
use crate::watch::Stores;

/// Writes in flight unless the settings say otherwise: past this a local API server gets no faster.
const DEFAULT_WRITES: usize = 64;
/// ... and this long for the first words about a job.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one namespace to look after; all if not given.
    pub namespace: Option<String>,
    /// What jobs are made with.
    pub plan: plan::Settings,
    /// The most writes to be in flight at once.
    pub writes: usize,
    /// What is said first of a job waits this long for what is said next: of one that starts faster, both are one write.
    pub first_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            plan: plan::Settings::default(),
            writes: DEFAULT_WRITES,
            first_wait: FIRST_WAIT,
        }
    }
}

/// What every pass works with.
pub(crate) struct Context {
    pub client: Client,
    pub settings: Settings,
    pub jobs: Store<MPIJob>,
    pub stores: Stores,
    /// Whether every watch has listed once.
    pub listed: watch::Receiver<bool>,
    pub memory: Arc<Memory>,
    pub capacity: SharedCapacity,
    pub nodes: SharedNodes,
    /// Who may write now.
    pub writes: Semaphore,
    /// Who may read logs now.
    pub logs: Semaphore,
    /// Who may make a key pair now.
    pub keys: Semaphore,
    pub vitals: Vitals,
}
