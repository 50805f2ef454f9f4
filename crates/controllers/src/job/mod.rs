//! The Job controller (`batch/v1`), as kube-controller-manager's: observe, decide (pure), apply.
//!
//! Input: changes of Jobs and of their pods from the shared caches. Output: pods, status and Events. Not supported:
//! `backoffLimitPerIndex` and `maxFailedIndexes` (an Event says so and the Job does not start), and adoption of pods
//! without a controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};

mod account;
mod apply;
mod backoff;
mod conditions;
mod decide;
mod indexes;
pub(crate) mod pods;
mod policies;
mod template;

#[cfg(test)]
mod tests;

pub use apply::Context;
pub use conditions::finished_condition;

use super::Error;
use super::cache::Key;
use super::queue::{Queue, work};
use controller_runtime::index::Index;
use controller_runtime::supervision::Scope;

/// Jobs processed concurrently.
const CONCURRENCY: usize = 16;

/// A Job: namespace and name, and the uid in its pods' owner references.
type Item = (Key, String);
/// Pods by their namespace and the uid of the Job that controls them.
type Pods = Index<Pod, (String, String)>;
type Backoffs = Mutex<HashMap<String, backoff::Backoff>>;

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    // Before the listeners that add to the queue, so that a step finds what it was queued for.
    let pods = Pods::new(&context.pods, &scope.stop, |pod| owner(pod).map(|(key, uid)| (key.namespace, uid)));
    let queue: Arc<Queue<Item>> = Arc::default();
    let to = queue.clone();
    context.jobs.on_change(&scope.stop, move |change| {
        if let Some(job) = change.latest() {
            to.add((Key::of(job.as_ref()), job.uid().unwrap_or_default()));
        }
    });
    let to = queue.clone();
    context.pods.on_change(&scope.stop, move |change| {
        if let Some(item) = change.latest().and_then(|pod| owner(pod)) {
            to.add(item);
        }
    });
    context.jobs.filled().await;
    context.pods.filled().await;
    for job in context.jobs.list() {
        queue.add((Key::of(job.as_ref()), job.uid().unwrap_or_default()));
    }
    // Pods whose Job was deleted while the controller was not running.
    for item in context.pods.list().iter().filter_map(|pod| owner(pod)) {
        queue.add(item);
    }
    let backoffs = Backoffs::default();
    work(queue, CONCURRENCY, scope, |item| step(&context, &pods, &backoffs, item)).await;
}

/// Returns the Job that controls a pod.
fn owner(pod: &Pod) -> Option<Item> {
    let owner = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true))?;
    let is_job = owner.kind == "Job" && owner.api_version.starts_with("batch/");
    is_job.then(|| (Key::new(pod.namespace().unwrap_or_default(), owner.name.clone()), owner.uid.clone()))
}

async fn step(
    context: &Context,
    pods: &Pods,
    backoffs: &Backoffs,
    item: Item,
) -> Result<Option<Duration>, Error> {
    let (key, uid) = item;
    let pods = pods.get(&(key.namespace.clone(), uid.clone()));
    let Some(job) = context.jobs.get(&key).filter(|job| job.meta().uid.as_ref() == Some(&uid)) else {
        lock(backoffs).remove(&uid);
        let names = pods.iter().filter(|pod| pods::is_tracked(pod)).map(|pod| pod.name_any()).collect();
        apply::release_pods(context, &key.namespace, names).await?;
        return Ok(None);
    };
    let job = job.whole()?;
    let backoff = lock(backoffs).get(&uid).copied();
    let plan =
        decide::decide(&decide::ObservedJob { job: &job, pods: &pods, backoff, now: Timestamp::now() });
    let (again, record) = (plan.again, plan.backoff);
    apply::apply(context, &job, plan).await?;
    // Store it only now, so that a failed step is decided again from the same record.
    lock(backoffs).insert(uid, record);
    Ok(again)
}

fn lock(backoffs: &Backoffs) -> std::sync::MutexGuard<'_, HashMap<String, backoff::Backoff>> {
    backoffs.lock().unwrap_or_else(PoisonError::into_inner)
}
