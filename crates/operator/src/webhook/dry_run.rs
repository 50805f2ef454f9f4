//! A dry run of a job is one of its pods, too: the API server is asked whether it would accept them. What it only refuses for
//! now, such as a full quota, is no fault of the job.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use plan::{Change, Child, ObservedState, Settings};

use super::review::Request;

/// Returns what the API server refuses of the pods of a new job, each with the path of the field in the job.
pub(super) async fn refusals(client: &Client, request: &Request) -> Vec<String> {
    let Some(Ok(mut job)) = request.object.as_ref().filter(|job| plan::is_ours(job)).map(plan::validate)
    else {
        return Vec::new();
    };
    (job.suspended, job.namespace) = (false, request.namespace.clone());
    job.launcher_creation = plan::LauncherCreation::AtStartup;
    // One of the Workers, which are all alike, is enough.
    if let Some(workers) = &mut job.workers {
        workers.count = workers.count.min(1);
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), &request.namespace);
    let mut refused = Vec::new();
    for (role, mut pod) in pods_of(&job) {
        // The job has no UID yet.
        pod.metadata.owner_references = None;
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        if let Err(kube::Error::Api(status)) = pods.create(&parameters, &pod).await
            && status.is_invalid()
        {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let told: Vec<String> = causes
                .map(|cause| {
                    format!("spec.mpiReplicaSpecs[{role}].template.{}: {}", cause.field, cause.message)
                })
                .collect();
            let whole = || format!("spec.mpiReplicaSpecs[{role}].template: {}", status.message);
            refused.extend(if told.is_empty() { vec![whole()] } else { told });
        }
    }
    refused
}

/// One pod of each role.
fn pods_of(job: &plan::ValidJob) -> Vec<(&'static str, Pod)> {
    let plan = plan::plan(job, &ObservedState::default(), &Settings::default(), jiff::Timestamp::UNIX_EPOCH);
    let mut pods: Vec<(&'static str, Pod)> = Vec::new();
    for change in plan.changes.into_iter().flatten() {
        let found = match change {
            Change::Create(Child::Job(launcher)) => launcher.spec.map(|spec| {
                let mut metadata = spec.template.metadata.unwrap_or_default();
                metadata.generate_name = Some(format!("{}-", plan::launcher_name(&job.name)));
                (api::LAUNCHER, Pod { metadata, spec: spec.template.spec, status: None })
            }),
            Change::Create(Child::Pod(pod)) => Some((api::WORKER, *pod)),
            _ => None,
        };
        pods.extend(found.filter(|(role, _)| pods.iter().all(|(known, _)| known != role)));
    }
    pods
}
