//! The capacity of the cluster's nodes and the requests of its pods, read once for all the jobs that wait for
//! resources.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use plan::Capacity;
use tokio::sync::Mutex;

/// How long a reading is valid.
const FRESH: Duration = Duration::from_secs(30);
/// The longest time for reading, because passes wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The last reading of the cluster's capacity.
#[derive(Default)]
pub(crate) struct SharedCapacity {
    last: Mutex<Option<Reading>>,
}

struct Reading {
    at: Instant,
    found: Option<Arc<Capacity>>,
}

impl SharedCapacity {
    /// Returns the capacity, at most [`FRESH`] old. `None` if nodes or the pods of all namespaces may not be
    /// listed, or are too many to be read completely; that result is cached as well.
    pub(crate) async fn read(&self, client: &Client) -> Option<Arc<Capacity>> {
        let mut last = self.last.lock().await;
        if let Some(reading) = last.as_ref().filter(|reading| reading.at.elapsed() < FRESH) {
            return reading.found.clone();
        }
        let found =
            tokio::time::timeout(PATIENCE, paging::capacity(client)).await.ok().flatten().map(Arc::new);
        *last = Some(Reading { at: Instant::now(), found: found.clone() });
        found
    }
}
