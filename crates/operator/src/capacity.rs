//! The capacity of the cluster's nodes and the requests of its pods, read once for all the jobs that wait for
//! resources.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use plan::Capacity;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

/// How long a reading is valid.
const FRESH: Duration = Duration::from_secs(30);
/// The longest time for reading, because passes wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The page size of a list.
const PAGE: u32 = 500;
/// The most pages read of one list.
const MOST_PAGES: usize = 200;
/// Pods that have not ended.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

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
        let found = tokio::time::timeout(PATIENCE, list(client)).await.ok().flatten().map(Arc::new);
        *last = Some(Reading { at: Instant::now(), found: found.clone() });
        found
    }
}

async fn list(client: &Client) -> Option<Capacity> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::all(client.clone()));
    let (mut offered, mut held) = (Capacity::default(), Capacity::default());
    let (nodes, pods) = futures::join!(
        pages(&nodes, ListParams::default(), |nodes| offered.add_nodes(nodes)),
        pages(&pods, ListParams::default().fields(NOT_ENDED), |pods| held.add_pods(&pods)),
    );
    (nodes.ok()? && pods.ok()?).then(|| offered.with(held))
}

/// Passes each page of a list to `keep`. Returns whether the list was complete.
async fn pages<K>(
    api: &Api<K>,
    selection: ListParams,
    mut keep: impl FnMut(Vec<K>),
) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut parameters = selection.limit(PAGE);
    for _ in 0..MOST_PAGES {
        let page = api.list(&parameters).await?;
        keep(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(true),
        }
    }
    Ok(false)
}
