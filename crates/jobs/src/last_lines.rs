//! The last lines that the rank or the Launcher printed which failed or hangs: from its pod's log, or once that is gone,
//! from the record of the attempt.
//!
//! What cannot be read is no error here: the explanation that these lines belong to counts without them.

use api::{Failure, Phase};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DynamicObject, LogParams};
use kube::{Client, ResourceExt};

use crate::part::{is_launcher, speaking_container};
use crate::{Kind, view};

/// The number of lines shown beside an explanation.
pub const MOST_LINES: usize = 10;
/// The number of lines read from the end of a log; reports of mpirun among them are not shown.
const TAIL_LINES: i64 = 120;
/// The maximum number of bytes read.
const TAIL_BYTES: i64 = 64 * 1024;
/// The key of a record with the end of the Launcher's output.
const RECORDED_LOG: &str = "launcher.log";

/// Returns the last lines of a job that failed or hangs, at most `most`, the oldest first.
pub async fn last_lines(client: &Client, job: &DynamicObject, pods: &[Pod], most: usize) -> Vec<String> {
    let namespace = job.namespace().unwrap_or_default();
    let record = || recorded(client, job, plan::attempt_of(&job.metadata));
    let log = match speaker(job, pods) {
        // A container that was restarted has the log of another run than the one that failed; the record has that one.
        Some(pod) if has_failed(job) && was_restarted(pod) => match record().await {
            Some(log) => Some(log),
            None => speech(client, &namespace, pod, has_failed_before(pod)).await,
        },
        Some(pod) => tail(client, &namespace, pod).await,
        None => None,
    };
    let log = match log.filter(|log| !log.trim().is_empty()) {
        Some(log) => Some(log),
        None => record().await,
    };
    diagnosis::last_words(log.as_deref().unwrap_or_default(), None, most)
}

/// The pod whose output tells: the one that failed, else the newest Launcher.
fn speaker<'p>(job: &DynamicObject, pods: &'p [Pod]) -> Option<&'p Pod> {
    let failed = view::status(job).failure.and_then(|failure| failure.pod);
    let named = failed.and_then(|name| pods.iter().find(|pod| pod.name_any() == name));
    let launchers = pods.iter().filter(|pod| is_launcher(pod));
    let newest = launchers.max_by_key(|pod| pod.creation_timestamp());
    named.or(newest).or_else(|| pods.iter().find(|pod| semantics::phase(pod) == "Failed"))
}

fn has_failed(job: &DynamicObject) -> bool {
    view::row(job).phase == Phase::Failed
}

/// Whether a container of the pod was started again.
pub(crate) fn was_restarted(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().any(|status| status.restart_count > 0)
}

/// Whether the run that failed is the one before the last restart.
fn has_failed_before(pod: &Pod) -> bool {
    diagnosis::failed_run(&plan::kept::Pod::from(pod.clone())).is_some_and(|run| run.previous)
}

/// The end of the log of the container of a pod that has something to say; `None` if it has none or it may not be read.
pub(crate) async fn tail(client: &Client, namespace: &str, pod: &Pod) -> Option<String> {
    speech(client, namespace, pod, false).await
}

async fn speech(client: &Client, namespace: &str, pod: &Pod, previous: bool) -> Option<String> {
    read(client, namespace, pod, speaking_container(pod)?, previous).await
}

/// The end of the log of a run of a container; `None` if it may not be read.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    pod: &Pod,
    container: String,
    previous: bool,
) -> Option<String> {
    let wanted = LogParams {
        container: Some(container),
        previous,
        tail_lines: Some(TAIL_LINES),
        limit_bytes: Some(TAIL_BYTES),
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.logs(&pod.name_any(), &wanted).await.ok()
}

/// The end of the Launcher's output as the record of an attempt has it; `None` if there is none.
pub(crate) async fn recorded(client: &Client, job: &DynamicObject, attempt: u32) -> Option<String> {
    record(client, job, attempt).await?.data?.remove(RECORDED_LOG)
}

/// The failure in the record of the job's last attempt; `None` if there is none.
pub(crate) async fn recorded_failure(client: &Client, job: &DynamicObject) -> Option<Failure> {
    let record = record(client, job, plan::attempt_of(&job.metadata)).await?;
    plan::recorded(&record).map(|recorded| recorded.failure)
}

async fn record(client: &Client, job: &DynamicObject, attempt: u32) -> Option<ConfigMap> {
    if !matches!(Kind::of(job), Kind::MpiJob | Kind::TrainJob) {
        return None;
    }
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), &job.namespace().unwrap_or_default());
    let record = records.get_opt(&plan::record_name(&job.name_any(), attempt)).await.ok()??;
    let uid = job.metadata.uid.as_deref();
    // A record of an earlier job of the same name may still be waiting to be deleted.
    let is_own = record.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid);
    is_own.then_some(record)
}
