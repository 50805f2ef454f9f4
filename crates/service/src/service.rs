//! What every call shares.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::board::Board;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::watch::Watches;

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
    /// The interval of heartbeats in streams.
    pub heartbeat: Duration,
    /// How often an open stream's token and permissions are checked.
    pub recheck: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            audiences: Vec::new(),
            rate: 100,
            burst: 400,
            streams: 50,
            heartbeat: Duration::from_secs(15),
            recheck: Duration::from_secs(10),
        }
    }
}

/// The service.
pub struct Service {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) access: Access,
    pub(crate) limits: Arc<Limits>,
    pub(crate) metrics: Metrics,
    pub(crate) board: Arc<Board>,
    pub(crate) watches: Watches,
    /// Cancelled when the service stops: streams end.
    pub(crate) stop: CancellationToken,
}

impl Service {
    /// Creates it, and starts watching jobs. `own` is a client as the service's own account, `nobody` one without
    /// credentials, to which callers' tokens are added.
    pub fn start(own: &Client, nobody: &Client, settings: Settings, stop: &CancellationToken) -> Arc<Self> {
        let board = Arc::new(Board::default());
        let watches = Watches::start(own, &board, stop);
        Arc::new(Self {
            identity: Identity::new(own.clone(), nobody.clone(), settings.audiences.clone()),
            access: Access::new(own.clone()),
            limits: Arc::new(Limits::new(settings.rate, settings.burst, settings.streams)),
            metrics: Metrics::default(),
            watches,
            board,
            stop: stop.clone(),
            settings,
        })
    }

    /// Returns once every MPIJob is known: from then on lists are complete.
    pub async fn ready(&self) {
        self.watches.filled().await;
    }
}
