//! Compaction: limits how old a revision may be to be listed. kube-apiserver compacts etcd every five minutes
//! (`--etcd-compaction-interval`); here, too, a client that pages too slowly gets 410.
//!
//! Watches depend on the store's history instead, like upstream's on the watch cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ApiServer;

/// A revision can be listed for at least this long, and at most twice as long.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The oldest revision that can be listed.
#[derive(Debug, Default)]
pub struct Compaction(AtomicU64);

impl Compaction {
    /// Returns whether this revision is compacted.
    pub fn is_compacted(&self, revision: u64) -> bool {
        revision < self.0.load(Ordering::Relaxed)
    }

    fn compact_before(&self, revision: u64) {
        self.0.fetch_max(revision, Ordering::Relaxed);
    }
}

/// Compacts regularly until `stop`.
pub async fn run(server: Arc<ApiServer>, stop: CancellationToken) {
    let mut before = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        server.compaction.compact_before(before);
        before = server.store.revision();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identities;
    use crate::store::{Store, Volatile};

    #[tokio::test(start_paused = true)]
    async fn a_revision_is_over_after_one_to_two_intervals() {
        let store = Arc::new(Store::new(8, Box::new(Volatile)));
        let server = Arc::new(ApiServer::new(store.clone(), Identities::new("t")));
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(server.clone(), stop.clone()));
        let (resource, key) =
            (crate::store::Resource::new("", "configmaps"), crate::store::Key::new(None, "a"));
        let first = store.revision();
        store.create(&resource, key, serde_json::json!({"metadata": {"name": "a"}})).await.unwrap();
        tokio::time::sleep(INTERVAL + Duration::from_secs(1)).await;
        assert!(!server.compaction.is_compacted(first));
        tokio::time::sleep(INTERVAL).await;
        assert!(server.compaction.is_compacted(first) && !server.compaction.is_compacted(store.revision()));
        stop.cancel();
        task.await.unwrap();
    }
}
