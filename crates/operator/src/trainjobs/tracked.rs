//! TrainJobs whose programs are asked for their progress, and the pods that may run these.

use std::sync::Arc;

use api::{LABEL_COMPLETION_INDEX, LABEL_JOB_INDEX, TrainJob};
use kube::ResourceExt;
use plan::ReportingKind;
use plan::kept::Pod;

use super::Context;
use super::reconcile::outcome;
use crate::owned::is_controlled_by;
use crate::progress::Target;
use crate::progression::{Tracked, is_tracked};

/// The jobs that ask for it and are not suspended.
pub(super) fn tracked(context: &Context) -> Vec<Tracked> {
    let jobs = context.jobs.state().into_iter();
    let ours = jobs.filter(|job| is_tracked(job.annotations()) && plan::trainjob::is_ours(job));
    let active = ours.filter(|job| job.spec.suspend != Some(true));
    active.filter_map(|job| of(context, &job)).collect()
}

fn of(context: &Context, job: &TrainJob) -> Option<Tracked> {
    let (namespace, name, uid) = (job.namespace()?, job.name_any(), job.uid()?);
    let status = job.status.clone().unwrap_or_default();
    Some(Tracked {
        outcome: outcome(&status),
        reported: status.trainer_status,
        annotations: job.annotations().clone(),
        pods: pods(context, &namespace, &name, &uid),
        target: Target { kind: ReportingKind::TrainJob, namespace, name },
        uid,
    })
}

/// The first pod of each replicated job, in the order of their names, as Trainer looks for them: the Launcher's before that of
/// the nodes.
fn pods(context: &Context, namespace: &str, name: &str, uid: &str) -> Vec<Arc<Pod>> {
    let stores = &context.stores;
    let jobs = stores.jobs.state().into_iter().filter(|job| is_controlled_by(&**job, uid));
    let owners: Vec<String> = jobs.filter_map(|job| job.uid()).collect();
    let mut pods = stores.pods_of_jobs.pods_of(namespace, name, &stores.pods);
    pods.retain(|pod| {
        let is_zero = |label| pod.labels().get(label).is_some_and(|index| index == "0");
        let is_first = is_zero(LABEL_JOB_INDEX) && is_zero(LABEL_COMPLETION_INDEX);
        is_first && owners.iter().any(|owner| is_controlled_by(&**pod, owner))
    });
    pods
}
