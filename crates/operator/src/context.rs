//! The operator's settings, and what every pass works with.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;
use plan::Pauses;
use tokio::sync::{Semaphore, watch};

use crate::capacity::SharedCapacity;
use crate::memory::Memory;
use crate::nodes::SharedNodes;
use crate::packed::Packed;
use crate::progress::Progress;
use crate::status::FirstWait;
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
    /// What is said first of a job waits this long for what is said next: of one that starts faster, both are one write. When
    /// many jobs begin at once, it waits up to five times as long.
    pub first_wait: Duration,
    /// Whether TrainJobs are reconciled too, unless Kubeflow Trainer runs in the cluster.
    pub trainjobs: bool,
    /// Where programs report their progress, if they can.
    pub progress: Option<Progress>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            plan: plan::Settings::default(),
            writes: DEFAULT_WRITES,
            first_wait: FIRST_WAIT,
            trainjobs: false,
            progress: None,
        }
    }
}

/// What passes over jobs of every kind work with.
#[derive(Clone)]
pub(crate) struct Shared {
    pub client: Client,
    pub settings: Settings,
    pub memory: Arc<Memory>,
    pub first_wait: FirstWait,
    pub nodes: Arc<SharedNodes>,
    /// When this process was paused.
    pub pauses: Arc<Mutex<Pauses>>,
    /// Who may write now.
    pub writes: Arc<Semaphore>,
    /// Who may read logs now.
    pub logs: Arc<Semaphore>,
    /// Who may make a key pair now.
    pub keys: Arc<Semaphore>,
    pub vitals: Vitals,
}

impl Shared {
    /// Returns when this process was paused so far.
    pub fn pauses(&self, now: Timestamp) -> Pauses {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.look(now);
        pauses.clone()
    }

    /// Looks out for pauses until dropped.
    pub async fn watch_pauses(&self) {
        let mut looks = tokio::time::interval(Pauses::INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.pauses.lock().unwrap_or_else(PoisonError::into_inner).look(Timestamp::now());
        }
    }

    /// Returns what jobs are made with now: the authorities of the endpoint for progress change with its certificate.
    pub fn plan_settings(&self) -> Cow<'_, plan::Settings> {
        match &self.settings.progress {
            Some(progress) => {
                let progress = Some(progress.endpoint());
                Cow::Owned(plan::Settings { progress, ..self.settings.plan.clone() })
            }
            None => Cow::Borrowed(&self.settings.plan),
        }
    }
}

/// What every pass over an MPIJob works with.
pub(crate) struct Context {
    pub shared: Shared,
    pub jobs: Store<Packed>,
    pub stores: Stores,
    /// Whether every watch has listed once.
    pub listed: watch::Receiver<bool>,
    pub capacity: SharedCapacity,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
