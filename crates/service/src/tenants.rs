//! Keeps the store informed about which namespace has a name now: a name can be used again by others, and what an earlier
//! namespace of that name left is not theirs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::cache::{Cache, Key, follow};
use history::namespaces::{self, Namespace};
use history::{Error, Store};
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;
use crate::store::Kept;

/// How long an answer waits for the first list of namespaces.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The namespaces of the cluster.
pub struct Tenants {
    cache: Cache<v1::Namespace>,
    changed: Arc<Notify>,
    /// Whether the store knows them all.
    are_known: watch::Sender<bool>,
}

impl Tenants {
    /// Watches them until `stop`.
    pub fn watch(client: &Client, stop: &CancellationToken) -> Arc<Self> {
        let (cache, changed) = (Cache::default(), Arc::new(Notify::new()));
        let heard = changed.clone();
        cache.on_change(stop, move |_| heard.notify_one());
        tokio::spawn(follow(Api::all(client.clone()), cache.clone(), stop.clone()));
        Arc::new(Self { cache, changed, are_known: watch::Sender::new(false) })
    }

    /// Keeps the store informed until `stop`.
    pub async fn run(self: Arc<Self>, kept: Kept, every: Duration, stop: CancellationToken) {
        let work = async {
            let opened = kept.wait().await;
            self.cache.filled().await;
            let mut known = HashMap::new();
            loop {
                let stored = self.store(&opened.store, &mut known).await;
                kept.note(&stored);
                match stored {
                    Ok(()) => {
                        self.are_known.send_replace(true);
                        self.changed.notified().await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot record which namespaces are there; trying again");
                        tokio::time::sleep(every).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Stores what differs from what the store knows; `known` is that, empty at first.
    async fn store(&self, store: &Store, known: &mut HashMap<String, String>) -> Result<(), Error> {
        if known.is_empty() {
            let stored = namespaces::all(store).await?.into_iter();
            known.extend(stored.map(|namespace| (namespace.name, namespace.uid)));
        }
        let there: HashMap<String, Namespace> =
            self.cache.list().iter().map(|found| (found.name_any(), namespace(found))).collect();
        let is_gone = |(name, _): &(&String, &String)| !there.contains_key(*name);
        let gone: Vec<(String, String)> =
            known.iter().filter(is_gone).map(|(name, uid)| (name.clone(), uid.clone())).collect();
        for (name, uid) in gone {
            namespaces::forget(store, &name, &uid).await?;
            known.remove(&name);
        }
        for (name, namespace) in there {
            if known.get(&name) != Some(&namespace.uid) {
                namespaces::learn(store, &namespace).await?;
                known.insert(name, namespace.uid);
            }
        }
        Ok(())
    }

    /// Returns a namespace as it is known.
    pub async fn get(&self, namespace: &str) -> Option<Arc<v1::Namespace>> {
        // Only just after the start is there anything to wait for.
        let _ = tokio::time::timeout(PATIENCE, self.cache.filled()).await;
        self.cache.get(&Key::new("", namespace))
    }

    /// Returns once the store knows which namespaces are there.
    pub async fn known(&self) {
        // The sender is part of this, so it is not gone.
        let _ = self.are_known.subscribe().wait_for(|known| *known).await;
    }

    /// Refuses to go on before the store knows which namespaces are there.
    ///
    /// # Errors
    /// 503.
    pub fn require_known(&self) -> Result<(), Problem> {
        match *self.are_known.borrow() {
            true => Ok(()),
            false => Err(Problem::unavailable("the namespaces of the cluster are not read yet")),
        }
    }
}

fn namespace(found: &v1::Namespace) -> Namespace {
    let created = found.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Namespace {
        name: found.name_any(),
        uid: found.uid().unwrap_or_default(),
        created: created.unwrap_or(Timestamp::UNIX_EPOCH),
    }
}
