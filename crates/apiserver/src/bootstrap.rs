//! The objects that the API server itself creates at startup: the default roles and bindings.
//!
//! Rule: `pkg/registry/rbac/rest/storage_rbac.go` (PostStartHook). Created at the first start, reconciled at
//! later ones.

use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::Value;

use crate::store::{self, Key, Resource, Store};
use objects::access::index::Kind;
use objects::access::{GROUP, defaults};

/// Creates the default roles and bindings, or reconciles them.
///
/// # Errors
/// If the store cannot persist a write.
pub async fn roles(store: &Store) -> Result<(), store::Error> {
    let now = objects::timestamp(Timestamp::now());
    // Concurrently, so that a store on disk commits them together.
    try_join_all(defaults::objects().into_iter().map(|(kind, object)| keep(store, kind, object, &now)))
        .await?;
    Ok(())
}

async fn keep(store: &Store, kind: Kind, mut wanted: Value, now: &str) -> Result<(), store::Error> {
    let plural = match kind {
        Kind::ClusterRole => "clusterroles",
        Kind::Role => "roles",
        Kind::ClusterRoleBinding => "clusterrolebindings",
        Kind::RoleBinding => "rolebindings",
    };
    let resource = Resource::new(GROUP, plural);
    let text = |field: &str| wanted["metadata"][field].as_str().map(str::to_owned);
    let key = Key::new(text("namespace").as_deref(), &text("name").unwrap_or_default());
    let written = match store.get(&resource, &key) {
        Some(present) => match defaults::kept_up(&present.value(), &wanted) {
            Some(next) => store.replace(&resource, &key, present.revision, next).await,
            None => Ok(present),
        },
        None => {
            wanted["metadata"]["uid"] = uuid::Uuid::new_v4().to_string().into();
            wanted["metadata"]["creationTimestamp"] = now.into();
            store.create(&resource, key, wanted).await
        }
    };
    match written {
        // No client is served yet. If another write came first, its result is kept.
        Ok(_) | Err(store::Error::Exists | store::Error::Changed(_) | store::Error::Missing) => Ok(()),
        Err(error) => Err(error),
    }
}
