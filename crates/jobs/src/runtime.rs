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

/// Returns the number of nodes that each of these runtimes sets, as far as they may be read.
pub(crate) async fn node_counts(client: &Client, mut wanted: Vec<RuntimeRef>) -> BTreeMap<RuntimeRef, i32> {
    wanted.sort();
    wanted.dedup();
    let reads = wanted.into_iter().take(MOST_RUNTIMES).map(|runtime| async move {
        let nodes = node_count(client, &runtime).await?;
        Some((runtime, nodes))
    });
    stream::iter(reads).buffer_unordered(AT_ONCE).filter_map(futures::future::ready).collect().await
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
