//! Keeps the board up to date: one watch for each kind of job, as the service's own account. A job is reduced to its
//! row as it is read, so that whole objects are never held.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use controller_runtime::cache::{Cache, Change, follow};
use jiff::Timestamp;
use jobs::Kind;
use jobs::view::{self, Reported};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::TypeMeta;
use serde::{Deserialize, Deserializer};
use tokio_util::sync::CancellationToken;

use crate::board::{Board, Entry};
use crate::recorder::Recorder;
use crate::samples::Samples;
use crate::seen::Seen;

/// When to look again whether the cluster serves a kind: first, and at the latest.
const SERVED_FIRST: Duration = Duration::from_secs(30);
const SERVED_LAST: Duration = Duration::from_secs(300);

/// A job, reduced to its row. Its kind is part of the type, because the items of a list do not say what they are.
#[derive(Clone, Debug)]
struct Reduced<const KIND: usize> {
    metadata: ObjectMeta,
    entry: Arc<Entry>,
    /// What its program reported last.
    reported: Option<Box<Reported>>,
    seen: Arc<Seen>,
}

type MpiJob = Reduced<{ Kind::MpiJob as usize }>;
type TrainJob = Reduced<{ Kind::TrainJob as usize }>;
type PyTorchJob = Reduced<{ Kind::PyTorchJob as usize }>;
type TfJob = Reduced<{ Kind::TfJob as usize }>;

impl<const KIND: usize> Reduced<KIND> {
    const JOBS: Kind = Kind::ALL[KIND];

    /// Reduces a job.
    fn of(object: &DynamicObject) -> Self {
        let full = &object.metadata;
        let metadata = ObjectMeta {
            name: full.name.clone(),
            namespace: full.namespace.clone(),
            uid: full.uid.clone(),
            resource_version: full.resource_version.clone(),
            ..ObjectMeta::default()
        };
        Self {
            metadata,
            entry: Arc::new(Entry::of(object)),
            seen: Arc::new(Seen::of(object)),
            reported: view::reported(object).map(Box::new),
        }
    }
}

/// The parts of a job that a row is computed from.
#[derive(Deserialize)]
struct Sent {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: serde_json::Value,
    #[serde(default)]
    status: serde_json::Value,
}

impl<'de, const KIND: usize> Deserialize<'de> for Reduced<KIND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Sent { metadata, spec, status } = Sent::deserialize(deserializer)?;
        let kind = Self::JOBS;
        let types = Some(TypeMeta { api_version: kind.api_version(), kind: kind.name().to_owned() });
        let data = serde_json::json!({ "spec": spec, "status": status });
        Ok(Self::of(&DynamicObject { types, metadata, data }))
    }
}

semantics::resource_as! {
    impl [const KIND: usize] for Reduced<KIND> as DynamicObject {
        self => &self.metadata, &mut self.metadata
    }
}

/// What changes of jobs are passed on to, besides the board.
#[derive(Clone)]
pub struct Listeners {
    /// Keeps states and attempts.
    pub recorder: Arc<Recorder>,
    /// Keeps what programs report while they run.
    pub samples: Arc<Samples>,
}

/// Whether the cluster serves each kind, as far as that is known. A kind that was served once counts as served.
#[derive(Clone, Debug, Default)]
pub struct Served(Arc<Mutex<[Option<bool>; Kind::ALL.len()]>>);

impl Served {
    /// Returns whether the cluster serves a kind; `None` if that is unknown.
    pub fn get(&self, kind: Kind) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize]
    }

    fn set(&self, kind: Kind, is_served: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize] = Some(is_served);
    }
}

/// The watches.
pub struct Watches {
    /// Which kinds the cluster serves.
    pub served: Served,
    mpi: Cache<MpiJob>,
    train: Cache<TrainJob>,
    pytorch: Cache<PyTorchJob>,
    tf: Cache<TfJob>,
}

impl Watches {
    /// Starts watching until `stop`.
    pub fn start(
        client: &Client,
        board: &Arc<Board>,
        listeners: &Listeners,
        stop: &CancellationToken,
    ) -> Self {
        let served = Served::default();
        Self {
            mpi: start(client, board, listeners, &served, stop),
            train: start(client, board, listeners, &served, stop),
            pytorch: start(client, board, listeners, &served, stop),
            tf: start(client, board, listeners, &served, stop),
            served,
        }
    }

    /// Returns once all MPIJobs are on the board.
    pub async fn filled(&self) {
        self.mpi.filled().await;
    }

    /// Takes in the reply to a write, so that its caller's next list shows it.
    pub fn learn(&self, object: &DynamicObject) {
        match Kind::of(object) {
            Kind::MpiJob => self.mpi.learn(Reduced::of(object)),
            Kind::TrainJob => self.train.learn(Reduced::of(object)),
            Kind::PyTorchJob => self.pytorch.learn(Reduced::of(object)),
            Kind::TfJob => self.tf.learn(Reduced::of(object)),
        }
    }
}

fn start<const KIND: usize>(
    client: &Client,
    board: &Arc<Board>,
    listeners: &Listeners,
    known: &Served,
    stop: &CancellationToken,
) -> Cache<Reduced<KIND>> {
    let cache: Cache<Reduced<KIND>> = Cache::default();
    let (board, heard) = (board.clone(), listeners.clone());
    cache.on_change(stop, move |change: &Change<Reduced<KIND>>| {
        match (&change.new, &change.old) {
            (Some(job), _) => {
                if let Some(reported) = &job.reported {
                    let is_first = change.old.as_ref().is_some_and(|before| before.reported.is_none());
                    heard.samples.report(&job.entry.row.uid, reported, is_first, Timestamp::now());
                }
                board.put(job.entry.clone());
            }
            (None, Some(job)) => board.remove(&job.entry.key()),
            (None, None) => {}
        }
        let seen = |job: &Option<Arc<Reduced<KIND>>>| job.as_ref().map(|job| job.seen.clone());
        heard.recorder.hear(seen(&change.old).as_ref(), seen(&change.new).as_ref());
    });
    let (filled, recorder) = (cache.clone(), listeners.recorder.clone());
    tokio::spawn(async move {
        filled.filled().await;
        recorder.filled(Reduced::<KIND>::JOBS);
    });
    let (followed, client, known, stop) = (cache.clone(), client.clone(), known.clone(), stop.clone());
    tokio::spawn(async move {
        let kind = Reduced::<KIND>::JOBS;
        if stop.run_until_cancelled(served(kind, &client, &known)).await.is_some() {
            follow(Api::all_with(client, &kind.resource()), followed, stop).await;
        }
    });
    cache
}

/// Returns once the cluster serves a kind.
async fn served(kind: Kind, client: &Client, known: &Served) {
    let api = kind.api_all(client);
    let mut wait = SERVED_FIRST;
    loop {
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return known.set(kind, true),
            Err(kube::Error::Api(status)) if status.code == 404 => known.set(kind, false),
            Err(error) => tracing::warn!(kind = kind.name(), %error, "cannot watch jobs; trying again"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(SERVED_LAST);
    }
}
