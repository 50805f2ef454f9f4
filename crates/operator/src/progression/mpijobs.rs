//! MPIJobs whose programs are asked for their progress, and the pods that may run these.

use std::sync::Arc;

use api::{CONDITION_FAILED, CONDITION_SUCCEEDED, MPIJob, MPIJobStatus};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use plan::kept::Pod;
use plan::{ReportingKind, is_true, launcher_name, worker_name};

use super::{Tracked, is_tracked};
use crate::context::Context;
use crate::owned::is_controlled_by;
use crate::packed::Packed;
use crate::progress::Target;

/// The jobs that ask for it and are not suspended.
pub(crate) fn tracked(context: &Context) -> Vec<Tracked> {
    let jobs = context.jobs.state().into_iter();
    let ours = jobs.filter(|job| is_tracked(job.annotations()) && plan::is_ours(&job.rest));
    let suspended =
        |job: &Packed| job.rest.spec.run_policy.as_ref().is_some_and(|it| it.suspend == Some(true));
    ours.filter(|job| !suspended(job)).filter_map(|job| of(context, &job.rest)).collect()
}

fn of(context: &Context, job: &MPIJob) -> Option<Tracked> {
    let (namespace, name, uid) = (job.namespace()?, job.name_any(), job.uid()?);
    let status = job.status.clone().unwrap_or_default();
    Some(Tracked {
        outcome: outcome(&status),
        reported: status.trainer_status,
        annotations: job.annotations().clone(),
        pods: pods(context, &namespace, &name, &uid),
        target: Target { kind: ReportingKind::MpiJob, namespace, name },
        uid,
    })
}

/// Whether the job succeeded, once it has ended.
fn outcome(status: &MPIJobStatus) -> Option<bool> {
    status.completion_time.as_ref()?;
    let has_succeeded = is_true(status, CONDITION_SUCCEEDED);
    (has_succeeded || is_true(status, CONDITION_FAILED)).then_some(has_succeeded)
}

/// The Launcher's pods, and the first Worker, whose rank is the one that reports.
fn pods(context: &Context, namespace: &str, name: &str, uid: &str) -> Vec<Arc<Pod>> {
    let stores = &context.stores;
    let launcher = stores.jobs.get(&ObjectRef::new(&launcher_name(name)).within(namespace));
    let launcher = launcher.filter(|launcher| is_controlled_by(&**launcher, uid)).and_then(|it| it.uid());
    let first_worker = worker_name(name, 0);
    let mut pods = stores.pods_of_jobs.pods_of(namespace, name, &stores.pods);
    pods.retain(|pod| {
        let is_launcher = launcher.as_deref().is_some_and(|launcher| is_controlled_by(&**pod, launcher));
        is_launcher || (pod.name_any() == first_worker && is_controlled_by(&**pod, uid))
    });
    pods.sort_by_key(|pod| pod.name_any() == first_worker);
    pods
}
