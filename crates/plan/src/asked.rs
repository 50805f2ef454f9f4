//! What a job of any kind asks for, in the form in which [`precheck`](crate::precheck()) judges it before it exists. Pure.

use std::borrow::Cow;

use api::{LAUNCHER, MPIJob, WORKER};
use k8s_openapi::api::core::v1::PodSpec;

/// What a job asks for.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// The kind in the plural: `MPIJobs`.
    pub kinds: &'static str,
    /// The resource of the kind, as quotas on the number of objects name it: `mpijobs.kubeflow.org`.
    pub resource: String,
    /// Whether it counts against the namespace's maximum number of jobs that run at once.
    pub is_limited: bool,
    /// Whether it is created suspended.
    pub is_suspended: bool,
    /// Its queue, which holds it back.
    pub queue: Option<Cow<'a, str>>,
    /// Its pods. The groups of which a job can have less come last.
    pub groups: Vec<AskedPods<'a>>,
}

/// Equal pods of a job.
#[derive(Clone, Debug)]
pub struct AskedPods<'a> {
    /// What one of them is called: `Worker`, `Launcher`, `Master`, `node`.
    pub name: Cow<'a, str>,
    /// Their number.
    pub count: i64,
    /// Whether they have ended before the others are created.
    pub ends_first: bool,
    /// Their spec, if it is known.
    pub pod: Option<Cow<'a, PodSpec>>,
}

impl<'a> Asked<'a> {
    /// Returns what an MPIJob asks for.
    #[must_use]
    pub fn of(job: &'a MPIJob) -> Self {
        let group = |(key, name): (&str, &'static str)| {
            let spec = job.spec.mpi_replica_specs.get(key)?;
            let count = if key == LAUNCHER { 1 } else { i64::from(spec.replicas.unwrap_or(0)) };
            let pod = spec.template.spec.as_ref().map(Cow::Borrowed);
            Some(AskedPods { name: name.into(), count, ends_first: false, pod })
        };
        let queue = job.metadata.labels.as_ref().and_then(|labels| labels.get(api::LABEL_QUEUE_NAME));
        Self {
            kinds: "MPIJobs",
            resource: "mpijobs.kubeflow.org".to_owned(),
            is_limited: true,
            is_suspended: job.spec.run_policy.as_ref().and_then(|policy| policy.suspend) == Some(true),
            queue: queue.map(|queue| Cow::Borrowed(queue.as_str())),
            groups: [(LAUNCHER, "Launcher"), (WORKER, "Worker")].into_iter().filter_map(group).collect(),
        }
    }
}
