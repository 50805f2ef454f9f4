//! One watch per kind, shared by every controller and the scheduler.
//!
//! Objects arrive from a list followed by a watch, and from the replies to our own writes ([`Cache::learn`]). They are
//! read as shared pointers and delivered to listeners as [`Change`]s. A write's reply enters the cache at once, so a
//! controller that reads the cache sees at least its own writes, and needs no bookkeeping of expected creations.
//!
//! Relies on two facts: resourceVersions of one kind are numbers that grow with every commit, and a watch delivers them
//! in order (KEP-5504 makes them comparable). A listener must not call back into its own cache.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// First wait after a failed list or watch; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Longest wait between two attempts to list or watch.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The number of objects in a page of a list.
const PAGE: u32 = 500;
/// How long the server may keep one watch open, in seconds (kube refuses 295 and more).
const WATCH_SECONDS: u32 = 290;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// Creates a key from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A change of one object: its states before and after. At least one of them is present.
#[derive(Debug)]
pub struct Change<K> {
    /// `None` if the cache did not have the object.
    pub old: Option<Arc<K>>,
    /// `None` if the object is gone.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// Returns the newest known state; for an object that is gone, its last one.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

type Hear<K> = dyn Fn(&Change<K>) + Send + Sync;

struct Listener<K> {
    /// Stops delivery to the listener.
    until: CancellationToken,
    hear: Box<Hear<K>>,
}

/// The objects of one kind, as last seen.
pub struct Cache<K>(Arc<Inner<K>>);

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Debug for Cache<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cache")
    }
}

struct Inner<K> {
    contents: RwLock<Contents<K>>,
    /// Locked while a change is applied and delivered, so that listeners receive changes in order.
    order: Mutex<()>,
    listeners: RwLock<Vec<Listener<K>>>,
    filled: watch::Sender<bool>,
}

struct Contents<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The version that the watch has reached. Everything up to it has been delivered.
    reached: u64,
}

/// Returns the version of an object as a number; 0 if it has none.
fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// An object without `managedFields`, which no controller reads and which take more memory than the rest. It is a copy,
/// because its vectors are then as long as they need to be: decoded, one container has room for four.
fn slim<K: Resource + Clone>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object.clone()
}

impl<K: Resource> Default for Cache<K> {
    fn default() -> Self {
        Self(Arc::new(Inner {
            contents: RwLock::new(Contents { objects: BTreeMap::new(), reached: 0 }),
            order: Mutex::new(()),
            listeners: RwLock::new(Vec::new()),
            filled: watch::Sender::new(false),
        }))
    }
}

impl<K: Resource + Clone> Cache<K> {
    /// Returns the object with this key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns every object, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// Returns every object of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read()
            .objects
            .range(Key::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Calls `listener` for each cached object, as if it were new, and then for every change, in order, until `until`
    /// is cancelled. The listener must be quick: add a key to a queue, wake a task. If it panics, `until` is cancelled,
    /// because the listener missed a change and must start again.
    pub fn on_change(
        &self,
        until: &CancellationToken,
        listener: impl Fn(&Change<K>) + Send + Sync + 'static,
    ) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.present(&listener);
        let mut listeners = self.0.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| !listener.until.is_cancelled());
        listeners.push(Listener { until: until.clone(), hear: Box::new(listener) });
    }

    /// Calls `listener` for each cached object, as if it were new.
    pub(crate) fn replay(&self, listener: impl Fn(&Change<K>)) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.present(listener);
    }

    fn present(&self, listener: impl Fn(&Change<K>)) {
        for object in self.list() {
            listener(&Change { old: None, new: Some(object) });
        }
    }

    /// Returns when the first list is in the cache.
    pub async fn filled(&self) {
        // The sender lives as long as the cache, so this cannot fail.
        let _ = self.0.filled.subscribe().wait_for(|filled| *filled).await;
    }

    /// Stores the reply to one of our writes, unless the watch is already past it.
    pub fn learn(&self, object: K) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        let new_version = version(&object);
        let key = Key::of(&object);
        let contents = self.read();
        let known = contents.objects.get(&key).map_or(0, |o| version(o.as_ref()));
        let stale = new_version <= contents.reached || new_version <= known;
        drop(contents);
        if !stale {
            self.put(key, object);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Contents<K>> {
        self.0.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Contents<K>> {
        self.0.contents.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Key, object: K) {
        let new = Arc::new(slim(object));
        let old = self.write().objects.insert(key, new.clone());
        self.tell(&Change { old, new: Some(new) });
    }

    fn tell(&self, change: &Change<K>) {
        for listener in self.0.listeners.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if listener.until.is_cancelled() {
                continue;
            }
            // The other listeners still receive the change.
            if catch_unwind(AssertUnwindSafe(|| (listener.hear)(change))).is_err() {
                listener.until.cancel();
            }
        }
    }

    /// Applies an added or modified object from the watch.
    pub(crate) fn saw(&self, object: K) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        let at = version(&object);
        let key = Key::of(&object);
        let mut contents = self.write();
        contents.reached = contents.reached.max(at);
        // The reply to our own write may have been stored before.
        let known = contents.objects.get(&key).is_some_and(|o| version(o.as_ref()) >= at && at > 0);
        drop(contents);
        if !known {
            self.put(key, object);
        }
    }

    /// Applies a deletion from the watch.
    pub(crate) fn lost(&self, object: K) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        let at = version(&object);
        let key = Key::of(&object);
        let mut contents = self.write();
        contents.reached = contents.reached.max(at);
        // Another object of this name, created after the deletion, may be cached already.
        let newer = contents.objects.get(&key).is_some_and(|o| version(o.as_ref()) > at && at > 0);
        let old = if newer { None } else { contents.objects.remove(&key) };
        drop(contents);
        if let Some(old) = old {
            // The event's last state is that of the cached object only if the uid is the same.
            let last = if old.meta().uid == object.meta().uid { Arc::new(slim(object)) } else { old };
            self.tell(&Change { old: Some(last), new: None });
        }
    }

    /// Replaces the content by a full list taken at version `at`.
    pub(crate) fn replaced(&self, objects: Vec<K>, at: u64) {
        let _order = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        let mut contents = self.write();
        contents.reached = contents.reached.max(at);
        let mut fresh: BTreeMap<Key, Arc<K>> =
            objects.into_iter().map(|o| (Key::of(&o), Arc::new(o))).collect();
        for (key, object) in &contents.objects {
            // Learned from a write after the list was taken.
            if version(object.as_ref()) > at {
                fresh.insert(key.clone(), object.clone());
            }
        }
        let before = std::mem::replace(&mut contents.objects, fresh.clone());
        drop(contents);
        for (key, new) in &fresh {
            let old = before.get(key).cloned();
            if old.as_ref().is_none_or(|o| version(o.as_ref()) != version(new.as_ref())) {
                self.tell(&Change { old, new: Some(new.clone()) });
            }
        }
        for (key, old) in before {
            if !fresh.contains_key(&key) {
                self.tell(&Change { old: Some(old), new: None });
            }
        }
        self.0.filled.send_replace(true);
    }
}

/// Keeps `cache` in step with `api` until `stop`. Lists once, then watches. Lists again only if the server no longer
/// has the required history (410).
pub async fn follow<K>(api: Api<K>, cache: Cache<K>, stop: CancellationToken)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    follow_selected(api, None, cache, stop).await;
}

/// As [`follow`], but only for objects that match a label selector.
pub async fn follow_selected<K>(api: Api<K>, labels: Option<&str>, cache: Cache<K>, stop: CancellationToken)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let work = async {
        let mut wait = RETRY_FIRST;
        loop {
            match list_then_watch(&api, labels, &cache).await {
                Ok(()) => wait = RETRY_FIRST,
                Err(error) => {
                    tracing::debug!(url = api.resource_url(), %error, "watch broke; listing again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Returns `Ok` when the server no longer has the history since our version. An error ends the watch, too.
async fn list_then_watch<K>(api: &Api<K>, labels: Option<&str>, cache: &Cache<K>) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let labels = labels.map(str::to_owned);
    let mut page = ListParams { label_selector: labels.clone(), limit: Some(PAGE), ..ListParams::default() };
    let mut objects = Vec::new();
    let mut at = loop {
        let list = api.list(&page).await?;
        objects.extend(list.items.into_iter().map(slim));
        page.continue_token = list.metadata.continue_.filter(|next| !next.is_empty());
        if page.continue_token.is_none() {
            // All pages are of the version of the first.
            break list.metadata.resource_version.unwrap_or_else(|| "0".into());
        }
    };
    cache.replaced(objects, at.parse().unwrap_or(0));
    let params = WatchParams { label_selector: labels, ..WatchParams::default().timeout(WATCH_SECONDS) };
    loop {
        let mut events = api.watch(&params, &at).await?.boxed();
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    at = object.resource_version().unwrap_or(at);
                    cache.saw(object);
                }
                WatchEvent::Deleted(object) => {
                    at = object.resource_version().unwrap_or(at);
                    cache.lost(object);
                }
                WatchEvent::Bookmark(mark) => at = mark.metadata.resource_version,
                WatchEvent::Error(status) if status.code == 410 => return Ok(()),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn map(name: &str, at: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("n".into()),
                resource_version: Some(at.to_string()),
                uid: Some(format!("{name}-uid")),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    /// Returns names and versions of the cached objects.
    fn held(cache: &Cache<ConfigMap>) -> Vec<String> {
        cache.list().iter().map(|o| format!("{}@{}", o.name_any(), o.resource_version().unwrap())).collect()
    }

    #[test]
    fn own_writes_are_seen_at_once_and_never_go_back() {
        let cache = Cache::default();
        cache.replaced(vec![map("a", 3)], 5);
        cache.learn(map("b", 7));
        assert_eq!(held(&cache), ["a@3", "b@7"]);
        cache.saw(map("b", 6));
        assert_eq!(held(&cache), ["a@3", "b@7"], "an older state from the watch does not undo ours");
        cache.saw(map("b", 8));
        cache.learn(map("b", 7));
        assert_eq!(held(&cache), ["a@3", "b@8"]);
    }

    #[test]
    fn a_late_reply_does_not_restore_a_deleted_object() {
        let cache = Cache::default();
        cache.replaced(vec![], 5);
        cache.saw(map("b", 7));
        cache.lost(map("b", 9));
        cache.learn(map("b", 7));
        assert_eq!(held(&cache), Vec::<String>::new());
    }

    #[test]
    fn a_new_list_keeps_what_was_written_after_it() {
        let cache = Cache::default();
        cache.replaced(vec![map("a", 3)], 5);
        cache.learn(map("b", 9));
        cache.replaced(vec![map("c", 6)], 8);
        assert_eq!(held(&cache), ["b@9", "c@6"]);
    }

    #[test]
    fn listeners_receive_each_change_once() {
        let cache = Cache::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = heard.clone();
        cache.on_change(&CancellationToken::new(), move |change: &Change<ConfigMap>| {
            to.lock().unwrap().push((
                change.old.as_ref().map(|o| version(o.as_ref())),
                change.new.as_ref().map(|o| version(o.as_ref())),
            ));
        });
        cache.replaced(vec![map("a", 3)], 5);
        cache.replaced(vec![map("a", 3)], 6);
        cache.learn(map("a", 7));
        cache.saw(map("a", 7));
        cache.lost(map("a", 8));
        assert_eq!(*heard.lock().unwrap(), [(None, Some(3)), (Some(3), Some(7)), (Some(8), None)]);
    }

    #[test]
    fn a_listener_receives_existing_objects_and_its_panic_stops_only_itself() {
        let cache = Cache::default();
        cache.replaced(vec![map("a", 3)], 5);
        let (bad, good) = (CancellationToken::new(), CancellationToken::new());
        cache.on_change(&bad, |change: &Change<ConfigMap>| {
            assert!(change.latest().is_some_and(|map| map.name_any() == "a"), "unheard of");
        });
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = heard.clone();
        cache.on_change(&good, move |change: &Change<ConfigMap>| {
            to.lock().unwrap().push(change.latest().unwrap().name_any());
        });
        cache.saw(map("b", 6));
        assert!(bad.is_cancelled() && !good.is_cancelled());
        good.cancel();
        cache.saw(map("c", 7));
        assert_eq!(*heard.lock().unwrap(), ["a", "b"]);
    }
}
