//! What the API server itself puts into the store at its start: the default roles and bindings.
//!
//! Rule: `pkg/registry/rbac/rest/storage_rbac.go` (PostStartHook). Made at the first start, kept up at later ones.

use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::Value;

use super::rules;
use crate::access::index::Kind;
use crate::access::{GROUP, defaults};
use crate::store::{self, Key, Resource, Store};

/// Stores the default roles and bindings, or what is missing of them.
///
/// # Errors
/// When the store cannot make a write durable.
pub async fn roles(store: &Store) -> Result<(), store::Error> {
    let now = rules::timestamp(Timestamp::now());
    // All at once: a store on disk commits them together.
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
        Some(present) => match defaults::kept_up(&present.value, &wanted) {
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
        // Nobody is served yet; whoever wrote meanwhile wanted it so.
        Ok(_) | Err(store::Error::Exists | store::Error::Changed(_) | store::Error::Missing) => Ok(()),
        Err(error) => Err(error),
    }
}
