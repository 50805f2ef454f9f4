//! The CronJob controller (`batch/v1`), as kube-controller-manager's: observe, decide (pure), apply.
//!
//! Input: changes of CronJobs and of their Jobs from the shared caches, and the clock. Output: Jobs, status and Events.
//! A schedule without a time zone is in UTC.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{Resource, ResourceExt};

mod apply;
mod decide;
mod template;

#[cfg(test)]
mod tests;

pub use apply::Context;

use super::Error;
use super::cache::Key;
use super::queue::{Queue, work};
use controller_runtime::supervision::Scope;
use decide::{Memory, ObservedCronJob};
use template::{Item, owner};

/// CronJobs processed concurrently.
const CONCURRENCY: usize = 1;
/// The longest wait for a due time. A wait does not count the time in which the machine sleeps.
const WAIT_MAX: Duration = Duration::from_secs(60);

type Memories = Mutex<HashMap<String, Memory>>;

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<Item>> = Arc::default();
    let to = queue.clone();
    context.cron_jobs.on_change(&scope.stop, move |change| {
        if let Some(cron_job) = change.latest() {
            to.add((Key::of(cron_job.as_ref()), cron_job.uid().unwrap_or_default()));
        }
    });
    let to = queue.clone();
    context.jobs.on_change(&scope.stop, move |change| {
        if let Some(item) = change.latest().and_then(|job| owner(job.meta())) {
            to.add(item);
        }
    });
    context.cron_jobs.filled().await;
    context.jobs.filled().await;
    let memories = Memories::default();
    work(queue, CONCURRENCY, scope, |item| step(&context, &memories, item)).await;
}

async fn step(context: &Context, memories: &Memories, item: Item) -> Result<Option<Duration>, Error> {
    let (key, uid) = item;
    let known = context.cron_jobs.get(&key).filter(|found| found.meta().uid.as_ref() == Some(&uid));
    let Some(cron_job) = known else {
        lock(memories).remove(&uid);
        return Ok(None);
    };
    let jobs = context.jobs.list_in(&key.namespace).into_iter();
    let jobs = jobs.filter(|job| owner(job.meta()).is_some_and(|(_, of)| of == uid));
    let jobs = jobs.map(|job| job.whole().map(Arc::new)).collect::<Result<Vec<Arc<Job>>, Error>>()?;
    let memory = lock(memories).get(&uid).cloned().unwrap_or_default();
    let now = Timestamp::now();
    let plan = decide::decide(&ObservedCronJob { cron_job: &cron_job, jobs: &jobs, memory: &memory, now });
    let (again, memory) = (plan.again, plan.memory.clone());
    apply::apply(context, &cron_job, plan).await?;
    // Store it only now, so that a failed step is decided again from the same memory.
    lock(memories).insert(uid, memory);
    Ok(again.map(|wait| wait.min(WAIT_MAX)))
}

fn lock(memories: &Memories) -> std::sync::MutexGuard<'_, HashMap<String, Memory>> {
    memories.lock().unwrap_or_else(PoisonError::into_inner)
}
