//! The runtimes of TrainJobs, which supply what a job itself leaves open: the number of nodes.
//!
//! Source: `kubeflow/trainer` `pkg/apis/trainer/v1alpha1`: `spec.runtimeRef`, and a runtime's
//! `spec.mlPolicy.numNodes`.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::Value;

use crate::Kind;
use crate::view::Row;

/// The number of runtimes read concurrently, and the maximum per list; a cluster has only a few.
const AT_ONCE: usize = 8;
const MOST_RUNTIMES: usize = 64;

/// A TrainJob's runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeRef {
    /// The namespace of a TrainingRuntime; `None` for a ClusterTrainingRuntime.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Returns the runtime that determines the number of a TrainJob's nodes; `None` if the job itself does.
pub(crate) fn of(job: &DynamicObject) -> Option<RuntimeRef> {
    if job.data.pointer("/spec/trainer/numNodes").is_some() {
        return None;
    }
    let reference = job.data.pointer("/spec/runtimeRef")?;
    let name = reference["name"].as_str()?.to_owned();
    let namespaced = reference["kind"] == "TrainingRuntime";
    Some(RuntimeRef { namespace: job.metadata.namespace.clone().filter(|_| namespaced), name })
}

/// Fills in the node counts from the TrainJobs' runtimes; if a runtime may not be read, the default stays.
pub(crate) async fn fill_in(client: &Client, rows: &mut [Row]) {
    let mut wanted: Vec<RuntimeRef> = rows.iter().filter_map(|row| row.runtime.clone()).collect();
    wanted.sort();
    wanted.dedup();
    let reads = wanted.into_iter().take(MOST_RUNTIMES).map(|runtime| async move {
        let nodes = node_count(client, &runtime).await?;
        Some((runtime, nodes))
    });
    let found: BTreeMap<RuntimeRef, i32> =
        stream::iter(reads).buffer_unordered(AT_ONCE).filter_map(futures::future::ready).collect().await;
    for row in rows {
        let Some(nodes) = row.runtime.as_ref().and_then(|runtime| found.get(runtime)) else { continue };
        // Either all of them are ready, or none is known to be.
        row.workers_ready = if row.workers_ready > 0 { *nodes } else { 0 };
        row.workers = *nodes;
    }
}

async fn node_count(client: &Client, runtime: &RuntimeRef) -> Option<i32> {
    let (kind, plural) = match runtime.namespace {
        Some(_) => ("TrainingRuntime", "trainingruntimes"),
        None => ("ClusterTrainingRuntime", "clustertrainingruntimes"),
    };
    let resource =
        ApiResource { kind: kind.to_owned(), plural: plural.to_owned(), ..Kind::TrainJob.resource() };
    let api: Api<DynamicObject> = match &runtime.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let found = api.get(&runtime.name).await.ok()?;
    let nodes = found.data.pointer("/spec/mlPolicy/numNodes").and_then(Value::as_i64)?;
    i32::try_from(nodes).ok()
}
