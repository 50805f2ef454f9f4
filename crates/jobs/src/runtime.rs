//! The runtimes of TrainJobs, which supply what a job itself leaves open: the framework, the image, the number of nodes.
//!
//! Source: `kubeflow/trainer` `pkg/apis/trainer/v1alpha1`: `spec.runtimeRef`, and a runtime's `spec.mlPolicy` and
//! `spec.template`.

use std::collections::BTreeMap;

use api::{ClusterTrainingRuntime, TrainingRuntime};
use futures::StreamExt;
use futures::stream;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use paging::MOST_PAGES;
use serde::Serialize;
use serde_json::Value;

use crate::build::{LOCAL, Mpi, fault};
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
    reference(job)
}

/// Returns the runtime that a TrainJob names, as it is written on a command line.
#[must_use]
pub fn named(job: &DynamicObject) -> Option<String> {
    reference(job).map(|runtime| written(&runtime.name, runtime.namespace.is_some()))
}

/// A runtime as it is written on a command line: those of a namespace with their kind.
fn written(name: &str, is_namespaced: bool) -> String {
    if is_namespaced { format!("{LOCAL}{name}") } else { name.to_owned() }
}

/// Returns the runtime that a TrainJob names.
fn reference(job: &DynamicObject) -> Option<RuntimeRef> {
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

/// Returns the runtime of a TrainJob as far as it may be read; `None` if it does not exist.
pub(crate) async fn used(client: &Client, job: &DynamicObject) -> Option<Runtime> {
    let RuntimeRef { namespace, name } = reference(job)?;
    let kind = if namespace.is_some() { "TrainingRuntime" } else { "ClusterTrainingRuntime" };
    let found = api(client, namespace.as_deref()).get(&name).await.ok()?;
    Some(in_short(kind, &found))
}

/// Returns the implementation of MPI that a runtime sets, whose options a command needs that starts the ranks; `None` if
/// it sets none. `written` names it as a command line does.
///
/// # Errors
/// [`Error::Invalid`] with the runtimes that exist if this one does not, or the server's refusal.
pub async fn implementation(client: &Client, namespace: &str, written: &str) -> Result<Option<Mpi>, Error> {
    let local = written.strip_prefix(LOCAL);
    let (kind, name) = match local {
        Some(name) => ("TrainingRuntime", name),
        None => ("ClusterTrainingRuntime", written),
    };
    match api(client, local.map(|_| namespace)).get_opt(name).await {
        Ok(Some(found)) => {
            let name = in_short(kind, &found).mpi_implementation;
            let known = [Mpi::OpenMpi, Mpi::Intel, Mpi::Mpich];
            Ok(known.into_iter().find(|mpi| name.as_deref() == Some(mpi.name())))
        }
        Ok(None) => Err(missing(client, namespace, kind, name).await),
        Err(error) => {
            Err(Error::from_kube(error, Attempt { verb: "get", what: "the runtime", name, namespace }))
        }
    }
}

/// The error about a runtime that does not exist; it names those that do.
async fn missing(client: &Client, namespace: &str, kind: &str, name: &str) -> Error {
    let message = format!("{kind} \"{name}\" does not exist");
    let advice = match names(client, namespace).await {
        Ok(names) if !names.is_empty() => format!("use one of {}", names.join(", ")),
        Ok(_) => "there is none; an administrator installs the runtimes".to_owned(),
        Err(_) => String::new(),
    };
    Error::Invalid { faults: vec![fault("runtime", message, &advice)] }
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
    let local = of_namespace.iter().map(|runtime| written(&runtime.name_any(), true));
    Ok(of_cluster.iter().map(ResourceExt::name_any).chain(local).collect())
}

/// What people choose a runtime by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// The kind: `ClusterTrainingRuntime`, or `TrainingRuntime` if only jobs of its namespace can use it.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How a command line refers to it: `openmpi`, or `trainingruntime/own`.
    pub reference: String,
    /// The framework, as the runtime's policy calls it: `mpi`, `torch`; `None` if it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The implementation of MPI, e.g. `OpenMPI`, if the framework is MPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_implementation: Option<String>,
    /// Whether the Launcher is one of the nodes, so that what a job asks for on its nodes reaches all of them.
    pub launcher_is_node: bool,
    /// The number of nodes of jobs that do not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// The images of its containers, each once; a job may set another.
    pub images: Vec<String>,
}

/// Returns the runtimes that a job of this namespace can use: those of the cluster, then those of the namespace, each by
/// name.
///
/// # Errors
/// The server's refusal to list, or that it does not know TrainJobs.
pub async fn runtimes(client: &Client, namespace: &str) -> Result<Vec<Runtime>, Error> {
    let read = async |kind: &str, what: &'static str, of: Option<&str>| {
        let mut found: Vec<Runtime> = Vec::new();
        let keep = |page: Vec<DynamicObject>| found.extend(page.iter().map(|it| in_short(kind, it)));
        let complete = paging::each(&api(client, of), ListParams::default(), MOST_PAGES, keep).await;
        complete.map_err(|error| {
            // The kind is as absent as TrainJobs are.
            let is_unserved = matches!(&error, kube::Error::Api(status) if status.code == 404);
            let what = if is_unserved { Kind::TrainJob.names() } else { what };
            Error::from_kube(error, Attempt { verb: "list", what, name: "", namespace })
        })?;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok::<_, Error>(found)
    };
    let (of_cluster, of_namespace) = futures::join!(
        read("ClusterTrainingRuntime", "ClusterTrainingRuntimes", None),
        read("TrainingRuntime", "TrainingRuntimes", Some(namespace))
    );
    let mut found = of_cluster?;
    found.extend(of_namespace?);
    Ok(found)
}

fn in_short(kind: &str, runtime: &DynamicObject) -> Runtime {
    let policy = runtime.data.pointer("/spec/mlPolicy").and_then(Value::as_object);
    let framework = policy.and_then(|policy| policy.keys().find(|key| *key != "numNodes").cloned());
    let text = |path: &str| runtime.data.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let parts = runtime.data.pointer("/spec/template/spec/replicatedJobs").and_then(Value::as_array);
    let containers = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.pointer("/template/spec/template/spec/containers").and_then(Value::as_array));
    let mut images = Vec::new();
    for image in containers.flatten().filter_map(|container| container["image"].as_str()) {
        if !images.iter().any(|known| known == image) {
            images.push(image.to_owned());
        }
    }
    let name = runtime.name_any();
    let namespace = runtime.metadata.namespace.clone();
    Runtime {
        kind: kind.to_owned(),
        reference: written(&name, namespace.is_some()),
        name,
        namespace,
        mpi_implementation: text("/spec/mlPolicy/mpi/mpiImplementation"),
        launcher_is_node: runtime.data.pointer("/spec/mlPolicy/mpi/runLauncherAsNode")
            == Some(&Value::Bool(true)),
        framework,
        nodes: nodes(runtime),
        images,
    }
}

fn nodes(runtime: &DynamicObject) -> Option<i32> {
    let nodes = runtime.data.pointer("/spec/mlPolicy/numNodes").and_then(Value::as_i64)?;
    i32::try_from(nodes).ok()
}

/// The runtimes of a namespace, or those of the cluster.
fn api(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let (kind, plural) = match namespace {
        Some(_) => ("TrainingRuntime", "trainingruntimes"),
        None => ("ClusterTrainingRuntime", "clustertrainingruntimes"),
    };
    let resource =
        ApiResource { kind: kind.to_owned(), plural: plural.to_owned(), ..Kind::TrainJob.resource() };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn node_count(client: &Client, runtime: &RuntimeRef) -> Option<i32> {
    let found = api(client, runtime.namespace.as_deref()).get(&runtime.name).await.ok()?;
    nodes(&found)
}
