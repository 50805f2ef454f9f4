//! The runtimes of TrainJobs, which supply what a job itself leaves open: the number of nodes.
//!
//! Source: `kubeflow/trainer` `pkg/apis/trainer/v1alpha1`: `spec.runtimeRef`, and a runtime's
//! `spec.mlPolicy.numNodes`.

use std::collections::BTreeMap;

use api::{ClusterTrainingRuntime, TrainingRuntime};
use futures::StreamExt;
use futures::stream;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::{Attempt, Error, Kind};

/// The number of runtimes read concurrently, and the maximum per list; a cluster has only a few.
const AT_ONCE: usize = 8;
const MOST_RUNTIMES: usize = 64;
/// The maximum number of names read of each kind.
const MOST_NAMES: u32 = 250;

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

/// Returns the runtimes that a job of this namespace can use, as they are written on a command line: those of the cluster by
/// name, those of the namespace as `trainingruntime/NAME`.
///
/// # Errors
/// The server's refusal to list.
pub async fn names(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let of_cluster: Api<ClusterTrainingRuntime> = Api::all(client.clone());
    let of_namespace: Api<TrainingRuntime> = Api::namespaced(client.clone(), namespace);
    let at_most = ListParams::default().limit(MOST_NAMES);
    let (of_cluster, of_namespace) =
        futures::join!(of_cluster.list_metadata(&at_most), of_namespace.list_metadata(&at_most));
    let refused = |what: &'static str| {
        move |error: kube::Error| Error::from_kube(error, Attempt { verb: "list", what, name: "", namespace })
    };
    let of_cluster = of_cluster.map_err(refused("ClusterTrainingRuntimes"))?.items;
    let of_namespace = of_namespace.map_err(refused("TrainingRuntimes"))?.items;
    let local = of_namespace.iter().map(|runtime| format!("trainingruntime/{}", runtime.name_any()));
    Ok(of_cluster.iter().map(ResourceExt::name_any).chain(local).collect())
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
