//! CustomResourceDefinitions: a new one is served at once; deleting one deletes its objects.
//!
//! Rules: apiextensions-apiserver `pkg/controller/{status,establish,finalizer}`. [`super::rules`] knows what
//! a definition means; this module updates the catalog and the stored conditions.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::ApiServer;
use super::catalog::Catalog;
use crate::store::{self, Key, Record, Resource, Start};

/// Keeps a definition until its objects are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The number of attempts to write a definition's status in case of conflicts.
const MAX_ATTEMPTS: usize = 16;
/// The interval of checks whether the objects of a deleted definition are gone.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(5);

fn definitions() -> Resource {
    Resource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Updates the catalog and the conditions after a definition was written.
///
/// # Errors
/// If the definition's status cannot be written.
pub async fn follow(server: &Arc<ApiServer>, record: &Arc<Record>) -> Result<(), store::Error> {
    let name = record.key.as_str().to_owned();
    if !record.value()["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    match objects::kinds_of_crd(&record.value()) {
        Ok(kinds) => server.change_catalog(|catalog| catalog.with(&name, kinds.clone())),
        // Validation rejects such a definition before it is stored.
        Err(faults) => tracing::error!(definition = name, ?faults, "a stored definition is at fault"),
    }
    write_status(server, &name).await
}

/// Serves the stored definitions, and resumes the cleanup of those being deleted.
///
/// # Errors
/// If the status of one cannot be written.
pub async fn restore(server: &Arc<ApiServer>) -> Result<(), store::Error> {
    for record in server.store.list(&definitions(), None).records {
        if record.value()["metadata"]["deletionTimestamp"].is_null() {
            follow(server, &record).await?;
            continue;
        }
        // It is served until its objects are gone, so that clients can read them and remove their finalizers.
        if let Ok(kinds) = objects::kinds_of_crd(&record.value()) {
            server.change_catalog(|catalog| catalog.with(record.key.as_str(), kinds.clone()));
        }
        tokio::spawn(clean_up(server.clone(), record.key.as_str().to_owned()));
    }
    Ok(())
}

/// Sets the conditions and names of a served definition (`Established`, `NamesAccepted`).
async fn write_status(server: &Arc<ApiServer>, name: &str) -> Result<(), store::Error> {
    let (resource, key) = (definitions(), Key::new(None, name));
    for _ in 0..MAX_ATTEMPTS {
        let Some(record) = server.store.get(&resource, &key) else { return Ok(()) };
        let mut next = record.to_value();
        next["status"] = objects::established_status(&record.value(), &objects::timestamp(Timestamp::now()));
        if next == *record.value() {
            return Ok(());
        }
        match server.store.replace(&resource, &key, record.revision, next).await {
            Err(store::Error::Changed(_)) => {}
            Err(store::Error::Missing) => return Ok(()),
            result => return result.map(|_| ()),
        }
    }
    Ok(())
}

/// Deletes the objects of a deleted definition, then the definition. Returns when that is done.
pub async fn clean_up(server: Arc<ApiServer>, name: String) {
    let Some(plural) = name.split('.').next().map(str::to_owned) else { return };
    let group = name.get(plural.len() + 1..).unwrap_or_default().to_owned();
    let resource = Resource::new(&group, &plural);
    loop {
        let Ok(mut watch) = server.store.watch(&resource, Start::Now) else { return };
        for record in server.store.list(&resource, None).records {
            remove_object(&server, &resource, &record).await;
        }
        if server.store.count(&resource) == 0 {
            break;
        }
        // Wakes up at the next change or after the interval. A closed channel means that the server is
        // stopping.
        if let Ok(None) = tokio::time::timeout(CLEANUP_INTERVAL, watch.events.recv()).await {
            return;
        }
    }
    server.change_catalog(|catalog: &Catalog| catalog.without(&name));
    release(&server, &name).await;
}

async fn remove_object(server: &Arc<ApiServer>, resource: &Resource, record: &Arc<Record>) {
    let has_finalizers =
        record.value()["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let mut next = record.to_value();
    let result = if !has_finalizers {
        server.store.remove(resource, &record.key, record.revision, next).await
    } else if next["metadata"]["deletionTimestamp"].is_null() {
        next["metadata"]["deletionTimestamp"] = objects::timestamp(Timestamp::now()).into();
        next["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        server.store.replace(resource, &record.key, record.revision, next).await
    } else {
        return;
    };
    super::admission::quota::changed(server, record.value()["metadata"]["namespace"].as_str());
    if let Err(error) = result {
        tracing::debug!(object = record.key.as_str(), %error, "an object of a deleted definition changed meanwhile");
    }
}

async fn release(server: &Arc<ApiServer>, name: &str) {
    let (resource, key) = (definitions(), Key::new(None, name));
    for _ in 0..MAX_ATTEMPTS {
        let Some(record) = server.store.get(&resource, &key) else { return };
        let mut next = record.to_value();
        let mut finalizers = next["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        let is_last = finalizers.is_empty();
        next["metadata"]["finalizers"] = finalizers.into();
        let result = if is_last {
            server.store.remove(&resource, &key, record.revision, next).await
        } else {
            server.store.replace(&resource, &key, record.revision, next).await
        };
        match result {
            Err(store::Error::Changed(_)) => {}
            Err(error) => return tracing::warn!(definition = name, %error, "a deleted definition stays"),
            Ok(_) => return,
        }
    }
}
