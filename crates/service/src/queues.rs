//! Keeps the places of waiting jobs in Kueue's queues on the board: one watch of all Workloads, as the service's own
//! account, each reduced to what orders a queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::cache::{Cache, follow};
use jobs::queue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::row::count;

/// When to look again whether the cluster serves Workloads: first, and at the latest.
const SERVED_FIRST: Duration = Duration::from_secs(30);
const SERVED_LAST: Duration = Duration::from_secs(300);
/// How long changes are gathered before places are computed.
const GATHER: Duration = Duration::from_millis(200);

/// A Workload, reduced to what orders a queue.
#[derive(Clone, Debug)]
struct Workload(DynamicObject);

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let DynamicObject { metadata, data, .. } = DynamicObject::deserialize(deserializer)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            owner_references: metadata.owner_references,
            ..ObjectMeta::default()
        };
        let spec = &data["spec"];
        let data = json!({
            "spec": { "queueName": spec["queueName"], "priority": spec["priority"], "active": spec["active"] },
            "status": { "conditions": data["status"]["conditions"] },
        });
        Ok(Self(DynamicObject { types: None, metadata, data }))
    }
}

semantics::resource_as! {
    impl for Workload as DynamicObject {
        self => &self.0.metadata, &mut self.0.metadata
    }
}

/// Keeps the places up to date until `stop`. A cluster without Kueue is asked again now and then.
pub fn watch(client: &Client, board: &Arc<Board>, stop: &CancellationToken) {
    let (client, board, stop) = (client.clone(), board.clone(), stop.clone());
    tokio::spawn(async move {
        let Some(resource) = stop.run_until_cancelled(served(&client)).await else { return };
        let cache: Cache<Workload> = Cache::default();
        let changed = Arc::new(Notify::new());
        let heard = changed.clone();
        cache.on_change(&stop, move |_| heard.notify_one());
        let place = async {
            cache.filled().await;
            loop {
                changed.notified().await;
                tokio::time::sleep(GATHER).await;
                board.place(places(&cache));
            }
        };
        let workloads = Api::all_with(client, &resource);
        tokio::join!(follow(workloads, cache.clone(), stop.clone()), stop.run_until_cancelled(place));
    });
}

fn places(cache: &Cache<Workload>) -> HashMap<String, i32> {
    let workloads = cache.list();
    let found = queue::positions(workloads.iter().map(|workload| &workload.0));
    found.into_iter().map(|(uid, position)| (uid, count(position))).collect()
}

/// Returns once the cluster serves Workloads.
async fn served(client: &Client) -> ApiResource {
    let mut wait = SERVED_FIRST;
    loop {
        match queue::served_workloads(client).await {
            Ok(Some(resource)) => return resource,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot watch queues; trying again"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(SERVED_LAST);
    }
}
