//! Deletes Events an hour after their last occurrence, as an API server's `--event-ttl` does.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, Preconditions};

use super::cache::{Cache, Key, follow};
use super::kinds::Bare;
use super::queue::{Queue, work};
use super::{Error, refusal};
use controller_runtime::supervision::Scope;

/// How long an Event is kept after its last occurrence.
const TTL: Duration = Duration::from_secs(3600);
/// Concurrent deletions.
const CONCURRENCY: usize = 4;

/// Runs until the scope ends. Has its own watch of Events, limited to metadata and last time, because no other
/// controller reads Events.
pub async fn run(client: Client, scope: Scope) {
    let resource = ApiResource::erase::<Event>(&());
    let cache: Cache<Bare> = Cache::default();
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    cache.on_change(&scope.stop, move |change| {
        if let Some(event) = &change.new {
            to.add_after(Key::of(event.as_ref()), remaining(event, Timestamp::now()));
        }
    });
    tokio::join!(
        follow(Api::all_with(client.clone(), &resource), cache.clone(), scope.stop.clone()),
        work(queue, CONCURRENCY, scope, |key| step(&client, &resource, &cache, key)),
    );
}

/// Returns how much longer to keep the Event.
fn remaining(event: &Bare, now: Timestamp) -> Duration {
    let created = event.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let last = event.last_timestamp.as_ref().map(|t| t.0).max(created).unwrap_or(now);
    TTL.saturating_sub(Duration::try_from(now.duration_since(last)).unwrap_or_default())
}

async fn step(
    client: &Client,
    resource: &ApiResource,
    cache: &Cache<Bare>,
    key: Key,
) -> Result<Option<Duration>, Error> {
    let Some(event) = cache.get(&key) else { return Ok(None) };
    let left = remaining(&event, Timestamp::now());
    if !left.is_zero() {
        return Ok(Some(left));
    }
    let api: Api<Bare> = Api::namespaced_with(client.clone(), &key.namespace, resource);
    let precondition = Preconditions {
        uid: event.metadata.uid.clone(),
        resource_version: event.metadata.resource_version.clone(),
    };
    match api.delete(&key.name, &DeleteParams::default().preconditions(precondition)).await {
        Ok(_) => Ok(None),
        // It occurred again meanwhile, or is gone.
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_kept_for_an_hour_after_its_last_occurrence() {
        let event = |last: Option<&str>| -> Bare {
            serde_json::from_value(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
                "lastTimestamp": last}))
            .unwrap()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(remaining(&event(None), at(600)).as_secs(), 3000);
        assert_eq!(remaining(&event(Some("1970-01-01T00:10:00Z")), at(600)).as_secs(), 3600);
        assert_eq!(remaining(&event(None), at(3600)).as_secs(), 0);
    }
}
