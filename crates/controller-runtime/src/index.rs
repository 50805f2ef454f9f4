//! Finds the objects of a cache by something else than their names: the slices of a Service, the pods of a Job.
//!
//! As `cache.Indexer` of client-go. Without it, each change of one object walks through all of its namespace.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Resource;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, Key};

/// The objects of a cache by what `of` returned for them.
pub struct Index<K, T> {
    cache: Cache<K>,
    keys: Arc<RwLock<HashMap<T, BTreeSet<Key>>>>,
}

impl<K, T> Index<K, T>
where
    K: Resource + Clone + Send + Sync + 'static,
    T: Eq + Hash + Send + Sync + 'static,
{
    /// Follows a cache until `until` is cancelled. An object for which `of` returns `None` is not found.
    pub fn new(
        cache: &Cache<K>,
        until: &CancellationToken,
        of: impl Fn(&K) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let keys: Arc<RwLock<HashMap<T, BTreeSet<Key>>>> = Arc::default();
        let known = keys.clone();
        cache.on_change(until, move |change| {
            let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
            if let Some((object, under)) = change.old.as_ref().and_then(|old| Some((old, of(old)?)))
                && let Some(keys) = known.get_mut(&under)
            {
                keys.remove(&Key::of(object.as_ref()));
                if keys.is_empty() {
                    known.remove(&under);
                }
            }
            if let Some((object, under)) = change.new.as_ref().and_then(|new| Some((new, of(new)?))) {
                known.entry(under).or_default().insert(Key::of(object.as_ref()));
            }
        });
        Self { cache: cache.clone(), keys }
    }

    /// Returns the objects for which `of` returned this, ordered by namespace and name.
    pub fn get(&self, under: &T) -> Vec<Arc<K>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(under).cloned();
        keys.into_iter().flatten().filter_map(|key| self.cache.get(&key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, app: &str, version: u32) -> Pod {
        let labels = if app.is_empty() { json!({}) } else { json!({ "app": app }) };
        let metadata = json!({ "name": name, "namespace": "n", "uid": name, "labels": labels,
            "resourceVersion": version.to_string() });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn objects_are_found_as_they_are_now() {
        let cache: Cache<Pod> = Cache::default();
        cache.saw(pod("a", "web", 1));
        let index =
            Index::new(&cache, &CancellationToken::new(), |pod: &Pod| pod.labels().get("app").cloned());
        let named = |app: &str| -> Vec<String> {
            index.get(&app.to_owned()).iter().map(|pod| pod.name_any()).collect()
        };
        cache.learn(pod("c", "web", 2));
        cache.saw(pod("b", "", 3));
        assert_eq!((named("web"), named("other")), (vec!["a".to_owned(), "c".to_owned()], vec![]));
        cache.saw(pod("b", "web", 4));
        cache.saw(pod("a", "other", 5));
        cache.lost(pod("c", "web", 6));
        assert_eq!((named("web"), named("other")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        cache.replaced(vec![pod("d", "web", 7)], 7);
        assert_eq!((named("web"), named("other")), (vec!["d".to_owned()], vec![]));
        assert_eq!(index.keys.read().unwrap().len(), 1, "nothing is kept of what is gone");
    }
}
