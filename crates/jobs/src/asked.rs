//! Reads from a job of any kind what it asks for, so that it can be judged before it exists. What a TrainJob leaves open is in its
//! runtime.

use std::borrow::Cow;

use api::{ClusterTrainingRuntime, TrainJob, TrainingRuntime, TrainingRuntimeSpec};
use diagnosis::Cause;
use k8s_openapi::api::core::v1::PodSpec;
use kube::Client;
use kube::api::{Api, DynamicObject};
use plan::trainjob::{self, Runtime};
use plan::{Asked, AskedPods, Finding, Weight};

use crate::Kind;
use crate::kind::LABEL_QUEUE;
use crate::submit::Draft;

/// What a job asks for, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// What it asks for.
    pub asked: Asked<'a>,
    /// Whether that is all: a runtime that the caller may not read is unknown.
    pub is_known: bool,
    /// Why it would be refused, whatever is free.
    pub refused: Option<Finding>,
}

impl<'a> Request<'a> {
    /// An MPIJob's, which says all itself.
    #[must_use]
    pub fn of(job: &'a api::MPIJob) -> Self {
        Self { asked: Asked::of(job), is_known: true, refused: None }
    }
}

/// Returns what a job that is not created yet asks for.
pub async fn request<'d>(client: &Client, namespace: &str, draft: &'d Draft) -> Request<'d> {
    if draft.kind == Kind::MpiJob {
        return Request::of(&draft.job);
    }
    let Ok(object) = serde_json::from_value::<DynamicObject>(draft.object.clone()) else {
        return Request::default();
    };
    let asked = Asked {
        kinds: draft.kind.names(),
        resource: format!("{}.{}", draft.kind.plural(), draft.kind.group()),
        // The webhook counts MPIJobs.
        is_limited: false,
        is_suspended: draft.kind.suspended(&object),
        queue: object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(LABEL_QUEUE))
            .cloned()
            .map(Cow::Owned),
        groups: Vec::new(),
    };
    match draft.kind.replicas_field() {
        Some(field) => {
            let groups = draft.kind.working_roles().iter();
            let groups = groups.filter_map(|role| replicas(draft.kind, &object, field, role)).collect();
            Request { asked: Asked { groups, ..asked }, is_known: true, refused: None }
        }
        None => of_trainjob(client, namespace, draft, asked).await,
    }
}

fn replicas(kind: Kind, job: &DynamicObject, field: &str, role: &'static str) -> Option<AskedPods<'static>> {
    let spec = job.data.pointer(&format!("/spec/{field}/{role}"))?;
    let pod =
        spec.pointer("/template/spec").and_then(|pod| serde_json::from_value::<PodSpec>(pod.clone()).ok());
    let count = i64::from(kind.replicas(job, role));
    Some(AskedPods { name: role.into(), count, ends_first: false, pod: pod.map(Cow::Owned) })
}

async fn of_trainjob<'d>(client: &Client, namespace: &str, draft: &Draft, asked: Asked<'d>) -> Request<'d> {
    let unknown = |asked: Asked<'d>| Request { asked, is_known: false, refused: None };
    let Ok(job) = serde_json::from_value::<TrainJob>(draft.object.clone()) else { return unknown(asked) };
    // Another kind of runtime is another project's.
    let Ok((kind, name)) = trainjob::runtime_ref(&job) else { return unknown(asked) };
    match runtime(client, namespace, kind, name).await {
        Ok(Some(runtime)) => {
            let groups = trainjob::asked(&job, &runtime);
            Request { asked: Asked { groups, ..asked }, is_known: true, refused: None }
        }
        Ok(None) => {
            let message = format!("the {kind} \"{name}\" does not exist, so the TrainJob would be refused");
            let refused = Finding {
                weight: Weight::Refused,
                reason: Cause::MissingReference,
                wait: None,
                message,
                advice: "use an existing runtime, or ask an administrator of the cluster to create it".into(),
            };
            Request { asked, is_known: false, refused: Some(refused) }
        }
        Err(_) => unknown(asked),
    }
}

/// Reads a runtime.
async fn runtime(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<Option<Runtime>, kube::Error> {
    let of = |spec: TrainingRuntimeSpec| Runtime {
        kind: kind.to_owned(),
        name: name.to_owned(),
        labels: std::collections::BTreeMap::new(),
        spec,
    };
    if kind == "TrainingRuntime" {
        let api: Api<TrainingRuntime> = Api::namespaced(client.clone(), namespace);
        return Ok(api.get_opt(name).await?.map(|found| of(found.spec)));
    }
    let api: Api<ClusterTrainingRuntime> = Api::all(client.clone());
    Ok(api.get_opt(name).await?.map(|found| of(found.spec.runtime)))
}
