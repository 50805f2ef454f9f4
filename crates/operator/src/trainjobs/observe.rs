//! Reads what a TrainJob has: its runtime, by its snapshot or by name, and its children, from the watches' stores.

use std::sync::Arc;

use api::{ClusterTrainingRuntime, TrainJob, TrainJobStatus, TrainingRuntime, TrainingRuntimeSpec};
use diagnosis::failed_run;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use plan::LauncherRun;
use plan::trainjob::{
    Runtime, SeenTrainJob, ValidTrainJob, authority_name, hostfile_name, snapshot_name, snapshot_text,
};

use super::Context;
use crate::error::Error;
use crate::launcher_log::{look, read_run};
use crate::observe::lost_nodes_of;
use crate::owned::is_controlled_by;

/// A job's runtime.
pub(super) enum FoundRuntime {
    /// The job's snapshot of it.
    Snapshot(Box<Runtime>),
    /// The runtime itself: the job has no snapshot yet.
    Current(Box<Runtime>),
    /// There is none; says why.
    Missing(String),
}

/// Reads the runtime of a job. The server is asked for a snapshot that no watch shows: one that Trainer made has no label.
///
/// # Errors
/// If a request fails.
pub(super) async fn runtime(
    context: &Context,
    job: &TrainJob,
    (kind, name): (&str, &str),
) -> Result<FoundRuntime, Error> {
    let (namespace, job_name) = (job.namespace().unwrap_or_default(), job.name_any());
    let snapshot = snapshot_name(&job_name);
    let shown = context.stores.config_maps.get(&ObjectRef::new(&snapshot).within(&namespace));
    let found = match shown {
        Some(shown) => Some((*shown).clone()),
        None => {
            let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
            maps.get_opt(&snapshot).await.map_err(Error::request("read the snapshot of the runtime"))?
        }
    };
    if let Some(map) = found {
        return Ok(of_snapshot(&map, job, (kind, name)));
    }
    let what = || Error::request(format!("read {kind} {name:?}"));
    let current = if kind == "TrainingRuntime" {
        let runtimes: Api<TrainingRuntime> = Api::namespaced(context.client.clone(), &namespace);
        let found = runtimes.get_opt(name).await.map_err(what())?;
        found.map(|it| as_runtime(kind, it.metadata, it.spec))
    } else {
        let runtimes: Api<ClusterTrainingRuntime> = Api::all(context.client.clone());
        let found = runtimes.get_opt(name).await.map_err(what())?;
        found.map(|it| as_runtime(kind, it.metadata, it.spec.runtime))
    };
    Ok(current.map_or_else(
        || FoundRuntime::Missing(format!("{kind} {name:?} does not exist")),
        |runtime| FoundRuntime::Current(Box::new(runtime)),
    ))
}

pub(crate) fn as_runtime(kind: &str, metadata: ObjectMeta, spec: TrainingRuntimeSpec) -> Runtime {
    Runtime {
        kind: kind.to_owned(),
        name: metadata.name.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        spec,
    }
}

fn of_snapshot(map: &ConfigMap, job: &TrainJob, (kind, name): (&str, &str)) -> FoundRuntime {
    if !is_controlled_by(map, &job.uid().unwrap_or_default()) {
        let message = format!("the snapshot ConfigMap {:?} exists and has another owner", map.name_any());
        return FoundRuntime::Missing(message);
    }
    let parsed = snapshot_text(map).and_then(|text| serde_saphyr::from_str(text).ok());
    match parsed.as_ref().and_then(Runtime::of) {
        Some(runtime) if (runtime.kind.as_str(), runtime.name.as_str()) == (kind, name) => {
            FoundRuntime::Snapshot(Box::new(runtime))
        }
        Some(runtime) => FoundRuntime::Missing(format!(
            "the snapshot {:?} is of {} {:?}, not of {kind} {name:?}",
            map.name_any(),
            runtime.kind,
            runtime.name
        )),
        None => FoundRuntime::Missing(format!("the snapshot {:?} is not a runtime", map.name_any())),
    }
}

/// Observes a job's children.
pub(super) async fn observe(
    context: &Context,
    job: &ValidTrainJob,
    snapshot: bool,
    status: TrainJobStatus,
    now: Timestamp,
) -> SeenTrainJob {
    let stores = &context.stores;
    let jobs = stores.jobs.state().into_iter().filter(|child| {
        child.namespace().as_deref() == Some(job.namespace.as_str()) && is_controlled_by(&**child, &job.uid)
    });
    let mut seen = SeenTrainJob {
        status,
        snapshot,
        service: named(&stores.services, job, &job.job_set.subdomain),
        hostfile: named(&stores.config_maps, job, &hostfile_name(&job.name)),
        authority: named(&stores.config_maps, job, &authority_name(&job.name)),
        jobs: jobs.collect(),
        pods: stores.pods_of_jobs.pods_of(&job.namespace, &job.name, &stores.pods),
        pauses: context.pauses(now),
        ..SeenTrainJob::default()
    };
    if seen.finished().is_none() {
        let pods: Vec<_> = seen.pods.clone();
        seen.lost_nodes = lost_nodes_of(context, pods.iter().map(|pod| &**pod)).await;
        seen.launcher_failed = failed_launcher(context, job, &seen).await;
        listen(context, job, &mut seen, now).await;
    }
    seen
}

/// Adds what the running Launcher prints, where something rests on it.
async fn listen(context: &Context, job: &ValidTrainJob, seen: &mut SeenTrainJob, now: Timestamp) {
    (seen.output, seen.unreadable) =
        context.memories.of(&job.uid, |memory| (memory.output.clone(), memory.unreadable));
    if !seen.listening(job).wants_look(now) {
        return;
    }
    let Some(source) = seen.launcher_log() else { return };
    // Closed only by dropping the context, which this holds.
    let _turn = context.logs.acquire().await;
    seen.output_read = look(context, &seen.listening(job), &source, now).await;
    seen.unreadable = seen.output_read.is_none().then_some(now);
    context.memories.of(&job.uid, |memory| memory.unreadable = seen.unreadable);
}

/// The child of this name, if the job controls it.
fn named<K>(store: &Store<K>, job: &ValidTrainJob, name: &str) -> Option<K>
where
    K: kube::Resource<DynamicType = ()> + Clone,
{
    let child: Arc<K> = store.get(&ObjectRef::new(name).within(&job.namespace))?;
    is_controlled_by(&*child, &job.uid).then(|| (*child).clone())
}

/// The Launcher's last failed run in this attempt, with the end of its log, read once for each run.
async fn failed_launcher(context: &Context, job: &ValidTrainJob, seen: &SeenTrainJob) -> Option<LauncherRun> {
    let noted = seen.jobs.iter().filter_map(|job| context.memories.failed_launcher(&job.uid()?)).next_back();
    let pod = seen.failed_launcher_pod().cloned().or(noted)?;
    let failed = failed_run(&pod);
    let (container, number) = failed
        .as_ref()
        .map_or_else(Default::default, |run| (run.container.clone(), run.restarts - i32::from(run.previous)));
    let id = (pod.uid().unwrap_or_default(), container, number);
    let known = context.memories.of(&job.uid, |memory| memory.run.clone());
    // A pod that is being deleted may no longer show which of its runs failed.
    if let Some((_, run)) = known.filter(|(known, _)| *known == id || failed.is_none() && known.0 == id.0) {
        return Some(LauncherRun { pod, ..run });
    }
    let run = match failed.filter(|_| seen.lost_node(&pod).is_none()) {
        Some(failed) => {
            // Closed only by dropping the context, which this holds.
            let _turn = context.logs.acquire().await;
            read_run(context, pod, &failed, true).await
        }
        None => LauncherRun { pod, ..LauncherRun::default() },
    };
    context.memories.of(&job.uid, |memory| memory.run = Some((id, run.clone())));
    Some(run)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(owner: &str, data: Value) -> Result<String, String> {
        let job = json!({ "metadata": { "name": "digits", "uid": "1a2b" }, "spec": { "runtimeRef": { "name": "mpi" } } });
        let owner = json!([{ "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "digits",
            "uid": owner, "controller": true }]);
        let map = json!({ "metadata": { "name": "digits-runtime-snapshot", "ownerReferences": owner }, "data": data });
        let (map, job) = (serde_json::from_value(map).unwrap(), serde_json::from_value(job).unwrap());
        match of_snapshot(&map, &job, ("ClusterTrainingRuntime", "mpi")) {
            FoundRuntime::Snapshot(runtime) => Ok(runtime.name),
            FoundRuntime::Missing(why) => Err(why),
            FoundRuntime::Current(_) => panic!("it was a snapshot"),
        }
    }

    #[test]
    fn a_snapshot_counts_only_if_it_is_the_jobs_and_of_its_runtime() {
        let text = |kind: &str, name: &str| {
            format!("kind: {kind}\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{}}}}}}\n")
        };
        let ours = json!({ "runtime": text("ClusterTrainingRuntime", "mpi") });
        assert_eq!(read("1a2b", ours.clone()).as_deref(), Ok("mpi"));
        for (owner, data, words) in [
            ("another", ours, "another owner"),
            ("1a2b", json!({}), "is not a runtime"),
            ("1a2b", json!({ "runtime": "{" }), "is not a runtime"),
            (
                "1a2b",
                json!({ "runtime": text("ClusterTrainingRuntime", "other") }),
                "not of ClusterTrainingRuntime",
            ),
            ("1a2b", json!({ "runtime": text("TrainingRuntime", "mpi") }), "not of ClusterTrainingRuntime"),
        ] {
            let why = read(owner, data.clone()).unwrap_err();
            assert!(why.contains(words), "{data}: {why}");
        }
    }
}
