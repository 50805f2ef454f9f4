//! Keeps the store informed about which namespace has a name now: a name can be used again by others, and what an earlier
//! namespace of that name left is not theirs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// The number of changes of the cache, and how many of them the store knows.
    changes: Arc<AtomicU64>,
    stored_changes: AtomicU64,
    /// The UID of each namespace, by name, as the store knows it.
    stored: Mutex<HashMap<String, String>>,
}

impl Tenants {
    /// Watches them until `stop`.
    pub fn watch(client: &Client, stop: &CancellationToken) -> Arc<Self> {
        let tenants = Arc::new(Self::of(Cache::default(), stop));
        tokio::spawn(follow(Api::all(client.clone()), tenants.cache.clone(), stop.clone()));
        tenants
    }

    fn of(cache: Cache<v1::Namespace>, stop: &CancellationToken) -> Self {
        let (changed, changes) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
        let (heard, counted) = (changed.clone(), changes.clone());
        cache.on_change(stop, move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            heard.notify_one();
        });
        Self {
            cache,
            changed,
            are_known: watch::Sender::new(false),
            changes,
            stored_changes: AtomicU64::new(0),
            stored: Mutex::default(),
        }
    }

    /// Keeps the store informed until `stop`.
    pub async fn run(self: Arc<Self>, kept: Kept, every: Duration, stop: CancellationToken) {
        let work = async {
            let opened = kept.wait().await;
            self.cache.filled().await;
            let mut known = HashMap::new();
            loop {
                let changes = self.changes.load(Ordering::SeqCst);
                let stored = self.store(&opened.store, &mut known).await;
                kept.note(&stored);
                match stored {
                    Ok(()) => {
                        self.note_stored(&known, changes);
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

    /// Returns the names of all namespaces; `None` while they are not read yet.
    pub async fn names(&self) -> Option<Vec<String>> {
        tokio::time::timeout(PATIENCE, self.cache.filled()).await.ok()?;
        Some(self.cache.list().iter().map(|found| found.name_any()).collect())
    }

    /// Returns once the store knows which namespaces are there.
    pub async fn known(&self) {
        // The sender is part of this, so it is not gone.
        let _ = self.are_known.subscribe().wait_for(|known| *known).await;
    }

    /// Refuses to go on before the store knows which namespaces are there, and while it takes a namespace for the former one of
    /// its name.
    ///
    /// # Errors
    /// 503.
    pub fn require_known(&self) -> Result<(), Problem> {
        if !*self.are_known.borrow() {
            return Err(Problem::unavailable("the namespaces of the cluster are not read yet"));
        }
        if self.changes.load(Ordering::SeqCst) == self.stored_changes.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = |found: &Arc<v1::Namespace>| {
            stored.get(&found.name_any()).is_some_and(|uid| Some(uid) != found.metadata.uid.as_ref())
        };
        match self.cache.list().iter().any(is_another) {
            true => Err(Problem::unavailable("a namespace was created again, which is not recorded yet")),
            false => Ok(()),
        }
    }

    /// Notes what the store knows, from when there had been so many changes.
    fn note_stored(&self, known: &HashMap<String, String>, changes: u64) {
        known.clone_into(&mut self.stored.lock().unwrap_or_else(PoisonError::into_inner));
        self.stored_changes.store(changes, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_read_while_the_store_takes_a_namespace_for_the_former_one_of_its_name() {
        let seen = |name: &str, uid: &str, version: u32| -> v1::Namespace {
            let metadata = json!({ "name": name, "uid": uid, "resourceVersion": version.to_string() });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let stored = |all: &[(&str, &str)]| -> HashMap<String, String> {
            all.iter().map(|(name, uid)| ((*name).to_owned(), (*uid).to_owned())).collect()
        };
        let tenants = Tenants::of(Cache::default(), &CancellationToken::new());
        assert!(tenants.require_known().is_err(), "nothing is known yet");
        tenants.cache.learn(seen("team", "1", 1));
        tenants.note_stored(&stored(&[("team", "1")]), 1);
        tenants.are_known.send_replace(true);
        assert!(tenants.require_known().is_ok());
        tenants.cache.learn(seen("other", "2", 2));
        assert!(tenants.require_known().is_ok(), "the store has nothing of a name that is new");
        tenants.cache.learn(seen("team", "3", 3));
        assert!(tenants.require_known().is_err());
        tenants.note_stored(&stored(&[("team", "3"), ("other", "2")]), 3);
        assert!(tenants.require_known().is_ok());
    }
}
