//! The kinds that the API serves, custom ones included, and their objects' metadata: one watch per kind, for the
//! garbage collector and the namespace controller.
//!
//! Kinds come from discovery, which runs at the start and whenever a CustomResourceDefinition changes. A kind that a
//! typed cache follows is not followed again. Keeps only the metadata of objects.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::discovery::{Scope, verbs};
use kube::{Client, Discovery, Resource};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Change, follow};
use super::queue::doubled;

/// First wait after a failed discovery; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Longest wait after a failed discovery.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// An object of any kind, reduced to its metadata (and an Event's last time). Labels, annotations and managed fields are left
/// out: who owns what does not depend on them, and there is one of these for each object of the cluster.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bare {
    /// `metadata`.
    #[serde(default, deserialize_with = "essential")]
    pub metadata: ObjectMeta,
    /// `lastTimestamp` of Events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<Time>,
}

fn essential<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let metadata = ObjectMeta::deserialize(from)?;
    Ok(ObjectMeta { labels: None, annotations: None, managed_fields: None, ..metadata })
}

semantics::resource_as! {
    impl for Bare as DynamicObject {
        self => &self.metadata, &mut self.metadata
    }
}

/// A kind whose objects can be listed, watched and deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Group, version, kind, plural.
    pub resource: ApiResource,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

impl Served {
    /// Returns the API of this kind in `namespace`, or for the whole cluster if the kind is not namespaced.
    pub fn api(&self, client: &Client, namespace: &str) -> Api<Bare> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    fn id(&self) -> (String, String) {
        (self.resource.group.clone(), self.resource.plural.clone())
    }
}

/// A change of an object's metadata.
pub struct MetaChange<'a> {
    /// The object's kind.
    pub served: &'a Arc<Served>,
    /// `None` if the object is new.
    pub old: Option<&'a ObjectMeta>,
    /// `None` if the object is gone.
    pub new: Option<&'a ObjectMeta>,
}

/// A listener of changes, until its token is cancelled.
type Listener = (CancellationToken, Arc<dyn Fn(&MetaChange) + Send + Sync>);
type OnRenewal = (CancellationToken, Arc<dyn Fn(&Kinds) + Send + Sync>);
/// Calls a listener for each existing object of a kind, as if it were new.
type Source = (CancellationToken, Arc<dyn Fn(&dyn Fn(&MetaChange)) + Send + Sync>);

/// The kinds currently served.
#[derive(Clone, Default)]
pub struct Kinds(Arc<Inner>);

#[derive(Default)]
struct Inner {
    served: RwLock<Vec<Arc<Served>>>,
    /// Group and plural of the kinds that typed caches follow.
    typed: RwLock<Vec<(String, String)>>,
    listeners: RwLock<Vec<Listener>>,
    renewed: RwLock<Vec<OnRenewal>>,
    sources: RwLock<Vec<Source>>,
    stale: Notify,
}

impl Kinds {
    /// Returns every served kind.
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.0.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the kind of this name in the group of `api_version`; the version is ignored.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Served>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.all().into_iter().find(|s| s.resource.kind == kind && s.resource.group == group)
    }

    /// Calls `listener` for each existing object of any kind, as if it were new, and for each change, until `until` is
    /// cancelled. A change that happens during this call may be delivered first. A panic of the listener cancels
    /// `until`.
    pub fn on_change(
        &self,
        until: &CancellationToken,
        listener: impl Fn(&MetaChange) + Send + Sync + 'static,
    ) {
        let listener = Arc::new(listener);
        add(&self.0.listeners, (until.clone(), listener.clone() as _));
        let sources = self.0.sources.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, replay) in sources {
            replay(&*listener);
        }
    }

    /// What a listener may keep of this: it is kept by this itself, and otherwise neither would ever be freed.
    fn weak(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    /// Calls `listener` after each further discovery, until `until` is cancelled.
    pub fn on_renewal(&self, until: &CancellationToken, listener: impl Fn(&Self) + Send + Sync + 'static) {
        add(&self.0.renewed, (until.clone(), Arc::new(listener)));
    }

    /// Delivers the changes of a typed cache, so that its kind is not followed again.
    pub fn share<K>(&self, cache: &Cache<K>, stop: &CancellationToken)
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let resource = ApiResource::erase::<K>(&());
        let namespaced = std::any::TypeId::of::<K::Scope>()
            == std::any::TypeId::of::<k8s_openapi::NamespaceResourceScope>();
        let served = Arc::new(Served { resource, namespaced });
        self.0.typed.write().unwrap_or_else(PoisonError::into_inner).push(served.id());
        self.listen(cache, &served, &stop.child_token());
    }

    /// Delivers the objects of a cache and its changes.
    fn listen<K: Resource + Clone + Send + Sync + 'static>(
        &self,
        cache: &Cache<K>,
        served: &Arc<Served>,
        until: &CancellationToken,
    ) {
        let (held, of) = (cache.clone(), served.clone());
        let replay = move |listener: &dyn Fn(&MetaChange)| {
            held.replay(|change| with_metadata(&of, change, listener));
        };
        add(&self.0.sources, (until.clone(), Arc::new(replay)));
        let (kinds, of) = (self.weak(), served.clone());
        cache.on_change(until, move |change| {
            if let Some(kinds) = kinds.upgrade() {
                Kinds(kinds).tell(&of, change);
            }
        });
    }

    fn tell<K: Resource>(&self, served: &Arc<Served>, change: &Change<K>) {
        let listeners = self.0.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        with_metadata(served, change, &|change| {
            for (until, listener) in &listeners {
                if !until.is_cancelled() && catch_unwind(AssertUnwindSafe(|| listener(change))).is_err() {
                    until.cancel();
                }
            }
        });
    }

    /// Keeps the kinds up to date, and follows each kind without a typed cache, until `stop`.
    pub async fn follow(self, client: Client, stop: CancellationToken) {
        let mut followed: BTreeMap<(String, String), CancellationToken> = BTreeMap::new();
        let mut failures = 0;
        loop {
            match discover(&client).await {
                Ok(served) => {
                    failures = 0;
                    self.adopt(&client, &stop, served, &mut followed);
                }
                Err(error) => {
                    tracing::debug!(%error, "discovery failed");
                    failures += 1;
                    let wait = doubled(RETRY_FIRST, failures, RETRY_MAX);
                    if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                        return;
                    }
                    continue;
                }
            }
            if stop.run_until_cancelled(self.0.stale.notified()).await.is_none() {
                return;
            }
        }
    }

    fn adopt(
        &self,
        client: &Client,
        stop: &CancellationToken,
        served: Vec<Served>,
        followed: &mut BTreeMap<(String, String), CancellationToken>,
    ) {
        let typed = self.0.typed.read().unwrap_or_else(PoisonError::into_inner).clone();
        let served: Vec<Arc<Served>> = served.into_iter().map(Arc::new).collect();
        *self.0.served.write().unwrap_or_else(PoisonError::into_inner) = served.clone();
        followed.retain(|id, token| {
            let stays = served.iter().any(|s| s.id() == *id);
            if !stays {
                token.cancel();
            }
            stays
        });
        for kind in served {
            let id = kind.id();
            // Skip Events: there are many, and they neither own nor are owned.
            if id.1 == "events" || typed.contains(&id) || followed.contains_key(&id) {
                continue;
            }
            let token = stop.child_token();
            tokio::spawn(self.clone().follow_kind(client.clone(), kind, token.clone()));
            followed.insert(id, token);
        }
        for (until, listener) in self.0.renewed.read().unwrap_or_else(PoisonError::into_inner).clone() {
            if !until.is_cancelled() && catch_unwind(AssertUnwindSafe(|| listener(self))).is_err() {
                until.cancel();
            }
        }
    }

    async fn follow_kind(self, client: Client, kind: Arc<Served>, stop: CancellationToken) {
        let cache: Cache<Bare> = Cache::default();
        let definitions = kind.resource.plural == "customresourcedefinitions";
        // Outlives `stop`, so that the last changes of the kind's objects are still delivered.
        let until = CancellationToken::new();
        if definitions {
            let kinds = self.weak();
            cache.on_change(&until, move |_| {
                if let Some(kinds) = kinds.upgrade() {
                    kinds.stale.notify_one();
                }
            });
        }
        self.listen(&cache, &kind, &until);
        follow(Api::all_with(client, &kind.resource), cache.clone(), stop).await;
        // The kind is no longer served, so its objects are gone.
        cache.replaced(Vec::new(), u64::MAX);
        until.cancel();
    }
}

/// Adds an entry to a list, and removes entries whose token is cancelled.
fn add<T>(list: &RwLock<Vec<(CancellationToken, T)>>, entry: (CancellationToken, T)) {
    let mut list = list.write().unwrap_or_else(PoisonError::into_inner);
    list.retain(|(until, _)| !until.is_cancelled());
    list.push(entry);
}

fn with_metadata<K: Resource>(served: &Arc<Served>, change: &Change<K>, tell: &dyn Fn(&MetaChange)) {
    let old = change.old.as_ref().map(|object| object.meta());
    let new = change.new.as_ref().map(|object| object.meta());
    tell(&MetaChange { served, old, new });
}

async fn discover(client: &Client) -> Result<Vec<Served>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut served = Vec::new();
    for group in discovery.groups_alphabetical() {
        for (resource, capabilities) in group.resources_by_stability() {
            let usable =
                [verbs::LIST, verbs::WATCH, verbs::DELETE].iter().all(|v| capabilities.supports_operation(v));
            if usable {
                served.push(Served { resource, namespaced: capabilities.scope == Scope::Namespaced });
            }
        }
    }
    Ok(served)
}
