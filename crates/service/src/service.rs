//! What every call shares.

use std::sync::Arc;
use std::time::Duration;

use connections::Budget;
use controller_runtime::supervision::{Health, supervise};
use jobs::availability::Snapshot;
use jobs::{Kind, standard};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Right};
use crate::answers::Answers;
use crate::audit::Refusals;
use crate::board::Board;
use crate::body;
use crate::collector::Collector;
use crate::conditions::Conditions;
use crate::gpus::Gpus;
use crate::identity::{Caller, Identity};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::owners::Owners;
use crate::peaks::Peaks;
use crate::pods;
use crate::problem::Problem;
use crate::prometheus::Prometheus;
use crate::queues;
use crate::recorder::Recorder;
use crate::rooms::Rooms;
use crate::samples::{self, Samples};
use crate::searches::Searches;
use crate::session::Sessions;
use crate::store::{Keep, Kept};
use crate::tenants::Tenants;
use crate::upkeep;
use crate::watch::{Listeners, Watches};

/// The memory for forms, with the heads of their requests: of all addresses, and of each. Their senders are not known yet.
const FORMS_MEMORY: usize = 8 << 20;
const FORMS_MEMORY_OF_ADDRESS: usize = 1 << 20;

/// How long a part of a response may be read that is left out if it is late.
const PARTS: Duration = Duration::from_secs(5);

/// How the service is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The audiences of which a token must have one; empty for the API server's own. The API server must accept them
    /// too, because requests to it carry the same token.
    pub audiences: Vec<String>,
    /// Requests a second of one user, in the long run.
    pub rate: u32,
    /// Requests at once of one user.
    pub burst: u32,
    /// Open streams of one user.
    pub streams: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address at a time; a proxy may bring those of many people.
    pub connections_of_peer: usize,
    /// How long a connection may be open without a request of a known caller: as long as a browser takes to load a page, and
    /// a person to sign in.
    pub stranger: Duration,
    /// How long complete responses may wait for a client that reads nothing of any of them.
    pub unread: Duration,
    /// Whether to believe a proxy on this machine that passes on its users' tokens. Proxies with a client certificate
    /// of the authority that TLS is set up with are believed anyway.
    pub trusts_loopback: bool,
    /// Origins of pages that may change something by a session, besides the address that the browser asks.
    pub origins: Vec<Origin>,
    /// Origins of pages that may embed the dashboard's.
    pub frame_ancestors: Vec<Origin>,
    /// The interval of heartbeats in streams.
    pub heartbeat: Duration,
    /// How often the usage of running jobs' pods is sampled.
    pub sample: Duration,
    /// Whether nodes are asked for their pods' network traffic. That needs `get` on `nodes/proxy`, which a real kubelet must not
    /// grant for this: it stands for much more there.
    pub asks_nodes: bool,
    /// Where the network traffic and the GPUs of pods are looked up, and CPU and memory that were not sampled.
    pub prometheus: Option<Prometheus>,
    /// How long a reading of jobs, nodes, pods and quotas serves those who check a job or ask for capacity or GPUs. Creations read
    /// again.
    pub reading: Duration,
    /// Whether sums of the cluster's GPUs are shown to nobody. The service's account then needs no right to list nodes and queues.
    pub hides_gpu_sums: bool,
    /// How long a creation is repeated that the cluster's admission webhooks do not answer about. The longest call is
    /// longer by what a webhook may take.
    pub admission: Duration,
    /// How often an open stream's token and permissions are checked, and which sessions ended at another replica.
    pub recheck: Duration,
    /// How long a call may take until it is answered, or its stream begins.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            audiences: Vec::new(),
            rate: 100,
            burst: 400,
            streams: 50,
            connections: 4096,
            connections_of_peer: 2048,
            stranger: Duration::from_secs(60),
            unread: Duration::from_secs(30),
            trusts_loopback: false,
            origins: Vec::new(),
            frame_ancestors: Vec::new(),
            heartbeat: Duration::from_secs(15),
            sample: Duration::from_secs(15),
            asks_nodes: false,
            prometheus: None,
            reading: Duration::from_secs(2),
            hides_gpu_sums: false,
            admission: Duration::from_secs(12),
            recheck: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// How long each part of a response that is complete without it may be read: not for so long that the call itself is late.
    pub(crate) fn patience_with_parts(&self) -> Duration {
        PARTS.min(self.patience / 2)
    }
}

/// Starts the watches, and what records them in the store.
fn record(
    own: &Client,
    board: &Arc<Board>,
    samples: &Arc<Samples>,
    peaks: &Arc<Peaks>,
    tenants: &Arc<Tenants>,
    (kept, keep): (&Kept, &Keep),
    stop: &CancellationToken,
) -> (Watches, Arc<Collector>, Arc<Ledger>, Arc<Conditions>) {
    let (recorder, ledger) = (Arc::new(Recorder::default()), Arc::new(Ledger::default()));
    let collector = Collector::new(own.clone(), board.clone(), kept.clone(), stop.clone());
    let conditions = Conditions::new(own, board, &recorder);
    let evaluated = conditions.clone();
    let listeners = Listeners { recorder: recorder.clone(), samples: samples.clone() };
    let watches = Watches::start(own, board, &listeners, stop);
    queues::watch(own, board, stop);
    let (pods, output) = (ledger.clone(), collector.clone());
    let recorded = ledger.clone();
    pods::watch(own, stop, move |facts, gone| {
        pods.hear(facts, gone);
        output.hear(facts, gone);
    });
    let (health, stop, every) = (Health::default(), stop.clone(), keep.every);
    let (board, peaks, kept, keep) = (board.clone(), peaks.clone(), kept.clone(), keep.clone());
    let (tenants, owners) = (tenants.clone(), Arc::new(Owners::new(own)));
    tokio::spawn(async move {
        tokio::join!(
            supervise("namespaces", &health, &stop, |scope| tenants.clone().run(
                kept.clone(),
                every,
                scope.stop
            )),
            supervise("recorder", &health, &stop, |scope| recorder.clone().run(
                kept.clone(),
                every,
                scope.stop
            )),
            supervise("usage", &health, &stop, |scope| {
                ledger.clone().run(board.clone(), kept.clone(), every, scope.stop)
            }),
            supervise("peaks", &health, &stop, |scope| {
                peaks.clone().run(board.clone(), kept.clone(), every, scope.stop)
            }),
            supervise("notifications", &health, &stop, |scope| {
                upkeep::deliver(keep.clone(), kept.clone(), owners.clone(), scope.stop)
            }),
            supervise("conditions", &health, &stop, |scope| {
                evaluated.clone().run(tenants.clone(), kept.clone(), every, scope.stop)
            }),
            supervise("upkeep", &health, &stop, |scope| {
                upkeep::maintain(keep.clone(), kept.clone(), scope.stop)
            }),
        )
    });
    (watches, collector, recorded, conditions)
}

/// The service.
pub struct Service {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) access: Access,
    pub(crate) limits: Arc<Limits>,
    /// The memory for what callers send.
    pub(crate) memory: Arc<Budget>,
    /// The memory for what callers do not read.
    pub(crate) answers: Arc<Answers>,
    /// The refused calls that are counted.
    pub(crate) refusals: Arc<Refusals>,
    /// The memory for the forms of those who sign in.
    pub(crate) forms: Arc<Budget>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) metrics: Metrics,
    pub(crate) board: Arc<Board>,
    pub(crate) watches: Watches,
    pub(crate) samples: Arc<Samples>,
    pub(crate) searches: Searches,
    pub(crate) collector: Arc<Collector>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) conditions: Arc<Conditions>,
    pub(crate) tenants: Arc<Tenants>,
    rooms: Rooms,
    pub(crate) gpus: Gpus,
    pub(crate) kept: Kept,
    pub(crate) keep: Keep,
    /// Cancelled when the service stops: streams end.
    pub(crate) stop: CancellationToken,
}

impl Service {
    /// Creates it, and starts watching jobs. `own` is a client as the service's own account, `nobody` one without
    /// credentials, to which callers' tokens are added. `keep` is what outlives the jobs.
    pub fn start(
        own: &Client,
        nobody: &Client,
        settings: Settings,
        keep: &Keep,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let board = Arc::new(Board::default());
        let (kept, samples) = (Kept::start(keep, stop), Arc::new(Samples::default()));
        let peaks = Arc::new(Peaks::default());
        let tenants = Tenants::watch(own, stop);
        let (watches, collector, ledger, conditions) =
            record(own, &board, &samples, &peaks, &tenants, (&kept, keep), stop);
        let (how, into) = ((settings.sample, settings.asks_nodes), (samples.clone(), peaks));
        let sampling = samples::sample(own.clone(), board.clone(), into, how, stop.clone());
        tokio::spawn(sampling);
        let sessions = Arc::new(Sessions::new(kept.clone()));
        tokio::spawn(sessions.clone().follow(settings.recheck, stop.clone()));
        Arc::new(Self {
            identity: Identity::new(own.clone(), nobody.clone(), settings.audiences.clone()),
            access: Access::new(own.clone()),
            sessions,
            limits: Arc::new(Limits::new(settings.rate, settings.burst, settings.streams)),
            memory: Budget::new(body::MEMORY, body::MEMORY_OF_CALLER),
            answers: Arc::default(),
            refusals: Arc::default(),
            forms: Budget::new(FORMS_MEMORY, FORMS_MEMORY_OF_ADDRESS),
            metrics: Metrics::default(),
            watches,
            samples,
            searches: Searches::default(),
            collector,
            ledger,
            conditions,
            tenants,
            rooms: Rooms::default(),
            gpus: Gpus::new((!settings.hides_gpu_sums).then(|| own.clone()), settings.patience_with_parts()),
            kept,
            keep: keep.clone(),
            board,
            stop: stop.clone(),
            settings,
        })
    }

    /// Returns what jobs of the namespace are checked against, as far as the caller may read it.
    ///
    /// # Errors
    /// 503 if the cluster does not say what that is.
    pub(crate) async fn reading(&self, caller: &Caller, namespace: &str) -> Result<Arc<Snapshot>, Problem> {
        self.rooms.of(&self.access, caller, namespace, self.settings.reading).await
    }

    /// Whether the pods of a job of this kind must meet the Pod Security Standard `restricted` in a namespace. Answered
    /// to those who may create such a job there, whether they may read the namespace or not.
    ///
    /// # Errors
    /// 503 if the cluster does not say what the caller may do.
    pub(crate) async fn restricts(
        &self,
        caller: &Caller,
        kind: Kind,
        namespace: &str,
    ) -> Result<bool, Problem> {
        // A TrainJob's pods are its runtime's.
        if kind == Kind::TrainJob || namespace.is_empty() {
            return Ok(false);
        }
        if !self.access.may(caller, Right::on_jobs("create", kind, namespace)).await? {
            return Ok(false);
        }
        let found = self.tenants.get(namespace).await;
        Ok(found.is_some_and(|found| standard::enforces_restricted(&found)))
    }

    /// Returns once the store is open, or it is known that it cannot be opened now.
    pub async fn store_tried(&self) {
        self.kept.tried().await;
    }

    /// Returns the error of a store that a later release has written, once that is known; never returns otherwise. Such a
    /// service keeps nothing: it should not run.
    pub async fn store_too_new(&self) -> history::Error {
        self.kept.too_new().await
    }

    /// Returns once every MPIJob is known: from then on lists are complete. Also waits until the store is open and knows the
    /// namespaces, or it is known that it cannot be opened now.
    pub async fn ready(&self) {
        self.watches.filled().await;
        self.kept.tried().await;
        if self.kept.opened().is_ok() {
            self.tenants.known().await;
        }
    }
}
