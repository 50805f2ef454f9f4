//! Checks before a job is created whether the cluster would accept it: whether the caller is allowed, and whether
//! there are quota and resources.
//!
//! The input is a client, a namespace and jobs. The output is a refusal as an [`Error`] with the class of the exit
//! code, and what the job would wait for as [`plan::Finding`]s. Everything is read concurrently, within a time limit.
//! What the caller may not read, or what takes too long, is not judged; the server decides in any case.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{ANNOTATION_MAX_CONCURRENT_JOBS, MPIJob};
use diagnosis::Cause;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{LimitRange, Namespace, PersistentVolumeClaim, PodSpec, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use plan::{Asked, Estimate, Finding, Room, Weight};
use serde::Serialize;

use crate::availability::Snapshot;
use crate::cluster_queue::Labels;
use crate::kind::LABEL_QUEUE;
use crate::list::{self, Selection};
use crate::queue::{self, Found, LocalQueue};
use crate::refusal::whom_to_ask;
use crate::{Action, Advice, Attempt, Class, Error, JobRef, Kind, standard, view};

/// The time limit for all checks before a job is created; the requirement is 2 s.
pub const PATIENCE: Duration = Duration::from_millis(1500);

/// An action that the caller may or may not perform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// The verb as in RBAC.
    pub verb: String,
    /// The object of the action: `MPIJobs`, `pods/exec`.
    pub what: String,
    /// The commands that need it.
    pub purpose: &'static str,
    /// Whether the caller is allowed.
    pub allowed: bool,
}

/// The maximum number of existing claims that advice on a missing one names.
const MOST_CLAIMS_NAMED: u32 = 20;
/// The permissions that the commands need, and for what.
const NEEDED: [(&str, &str, &str, &str); 9] = [
    ("create", "", "", "create, retry, clone"),
    ("get", "", "", "get, describe, explain, wait"),
    ("list", "", "", "list, compare"),
    ("watch", "", "", "watch, wait"),
    ("patch", "", "", "suspend, resume"),
    ("delete", "", "", "delete"),
    ("get", "pods", "log", "logs"),
    ("create", "pods", "exec", "exec"),
    ("list", "events", "", "events, describe"),
];

/// Refuses jobs, or returns what they would wait for. A server that is too old for an access review, or does not
/// answer in time, is no reason to refuse.
///
/// # Errors
/// [`Error::Refused`] with class `NotAllowed`, `Quota` or `Invalid`.
pub async fn preflight(
    client: &Client,
    namespace: &str,
    jobs: &[MPIJob],
    patience: Duration,
) -> Result<Vec<Finding>, Error> {
    let room = async {
        let (right, room) = futures::join!(
            allowed(client, Kind::MpiJob.group(), Kind::MpiJob.plural(), "", "create", namespace),
            room(client, namespace, jobs.iter().any(names_priority))
        );
        if right? == Some(false) {
            return Err(lacks(client, "create", Kind::MpiJob, namespace).await);
        }
        Ok(room)
    };
    let Ok(room) = tokio::time::timeout(patience, room).await else { return Ok(Vec::new()) };
    let (mut room, _) = room?;
    let found =
        tokio::time::timeout(patience, Api::<Namespace>::all(client.clone()).get_opt(namespace)).await;
    let enforced = found.ok().and_then(Result::ok).flatten();
    let mut waits = Vec::new();
    for job in jobs {
        let queue = tokio::time::timeout(patience, queue_of(client, namespace, job)).await.ok().flatten();
        let mut judged = job.clone();
        if let (Some((LocalQueue::Unserved, _)), Some(labels)) = (&queue, &mut judged.metadata.labels) {
            // A label that no controller reads does not hold back the job.
            labels.remove(LABEL_QUEUE);
        }
        let mut found = plan::precheck(&Asked::of(&judged), namespace, &room, Timestamp::now());
        let asked = Asked::of(job);
        let references = tokio::time::timeout(patience, missing_references(client, namespace, &asked)).await;
        found.extend(references.unwrap_or_default());
        found.extend(enforced.as_ref().and_then(|namespace| standard::forbids(namespace, &asked)));
        if let Some(refused) = refusal(&found) {
            return Err(refused);
        }
        waits.extend(found);
        waits.extend(queue.and_then(|(_, finding)| finding));
        // For the next job of the same file, this one counts as existing.
        let mut counted = job.clone();
        counted.metadata.namespace = Some(namespace.to_owned());
        room.jobs.push(counted);
    }
    Ok(waits)
}

/// Checks that no job of this name exists.
///
/// # Errors
/// [`Error::Refused`] with class `Conflict` if one does.
pub async fn free_name(client: &Client, kind: Kind, namespace: &str, name: &str) -> Result<(), Error> {
    let taken =
        !name.is_empty() && matches!(kind.api(client, namespace).get_metadata_opt(name).await, Ok(Some(_)));
    if !taken {
        return Ok(());
    }
    Err(Error::Refused {
        class: Class::Conflict,
        reason: "AlreadyExists".to_owned(),
        message: format!("{} \"{name}\" already exists in namespace \"{namespace}\"", kind.name()),
        advice: Some(
            Advice::from("choose another name, or delete it").with(Action::Delete(kind.job(namespace, name))),
        ),
        faults: Vec::new(),
    })
}

/// Reads what [`availability`](crate::availability::availability) judges a job by, in at most `patience`. What the caller may
/// not read, or is not read in time, is left out. Without a namespace (an empty one), only what belongs to the cluster is
/// read.
pub async fn snapshot(client: &Client, namespace: &str, patience: Duration) -> Snapshot {
    let everywhere = async |kind, plural| match queue::read_all(client, None, kind, plural).await {
        Found::Hidden if !namespace.is_empty() => {
            queue::read_all(client, Some(namespace), kind, plural).await
        }
        found => found,
    };
    let reads = async {
        futures::join!(
            room(client, namespace, true),
            everywhere("LocalQueue", "localqueues"),
            queue::read_all(client, None, "ClusterQueue", "clusterqueues"),
            everywhere("Workload", "workloads"),
        )
    };
    let Ok(((room, labels), local, cluster, workloads)) = tokio::time::timeout(patience, reads).await else {
        return Snapshot::default();
    };
    let all = |found: Found| match found {
        Found::All(objects) => objects,
        Found::Unserved | Found::Hidden => Vec::new(),
    };
    let local_queues = match local {
        Found::Unserved => None,
        found => Some(all(found)),
    };
    Snapshot { room, labels, local_queues, cluster_queues: all(cluster), workloads: all(workloads) }
}

/// Returns the error for all findings that refuse a job: the first one's, with what the others say. `None` if none does.
#[must_use]
pub fn refusal(findings: &[Finding]) -> Option<Error> {
    let mut refusals = findings.iter().filter(|finding| finding.weight == Weight::Refused);
    let first = refusals.next()?;
    let mut message = first.message.clone();
    for other in refusals.filter(|other| other.message != first.message) {
        message.push_str("; also ");
        message.push_str(&other.message);
    }
    Some(Error::Refused {
        class: if first.reason == Cause::QuotaExceeded { Class::Quota } else { Class::Invalid },
        reason: first.reason.word().to_owned(),
        message,
        advice: Some(first.advice.clone().with(Action::SkipPreflight)),
        faults: Vec::new(),
    })
}

/// Whether the caller may perform the action; `None` if the server does not say.
///
/// # Errors
/// [`Error::Unreachable`] or [`Error::Untrusted`] if the server cannot be reached.
async fn allowed(
    client: &Client,
    group: &str,
    resource: &str,
    subresource: &str,
    verb: &str,
    namespace: &str,
) -> Result<Option<bool>, Error> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: some(group),
                resource: some(resource),
                subresource: some(subresource),
                verb: some(verb),
                namespace: some(namespace),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    match api.create(&PostParams::default(), &review).await {
        Ok(review) => Ok(review.status.map(|status| status.allowed)),
        Err(error) => match Error::from_kube(error, Attempt { verb, what: resource, name: "", namespace }) {
            error @ (Error::Unreachable { .. } | Error::Untrusted { .. }) => Err(error),
            _ => Ok(None),
        },
    }
}

/// Creates the error for a missing permission, with the user name that the cluster sees.
async fn lacks(client: &Client, verb: &str, kind: Kind, namespace: &str) -> Error {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let me = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok();
    let user = me.and_then(|me| me.status?.user_info?.username).unwrap_or_else(|| "you".to_owned());
    Error::Refused {
        class: Class::NotAllowed,
        reason: "Forbidden".to_owned(),
        message: format!(
            "User '{user}' lacks '{verb}' permission for {} in namespace '{namespace}'",
            kind.names()
        ),
        advice: Some(whom_to_ask(verb, kind.names(), namespace).into()),
        faults: Vec::new(),
    }
}

/// Returns the caller's permissions for jobs of a kind in a namespace.
///
/// # Errors
/// [`Error::Refused`] if the server does not support access reviews.
pub async fn rights(client: &Client, kind: Kind, namespace: &str) -> Result<Vec<Right>, Error> {
    let asked = NEEDED.map(|(verb, resource, subresource, purpose)| async move {
        let (group, plural) =
            if resource.is_empty() { (kind.group(), kind.plural()) } else { ("", resource) };
        let Some(allowed) = allowed(client, group, plural, subresource, verb, namespace).await? else {
            return Ok(None);
        };
        let what = match (resource, subresource) {
            ("", _) => kind.names().to_owned(),
            (resource, "") => resource.to_owned(),
            (resource, subresource) => format!("{resource}/{subresource}"),
        };
        Ok(Some(Right { verb: verb.to_owned(), what, purpose, allowed }))
    });
    let answers: Result<Vec<Option<Right>>, Error> =
        futures::future::join_all(asked).await.into_iter().collect();
    let found: Option<Vec<Right>> = answers?.into_iter().collect();
    found.ok_or_else(|| Error::Client("the cluster does not report your permissions".to_owned()))
}

/// Returns the room, and the labels of the namespace if they can be read. Priority classes are read only if they are asked for.
async fn room(client: &Client, namespace: &str, with_priorities: bool) -> (Room, Option<Labels>) {
    let priorities =
        async { if with_priorities { read::<PriorityClass>(Api::all(client.clone())).await } else { None } };
    let in_namespace = async {
        if namespace.is_empty() {
            return (None, None, None);
        }
        futures::join!(
            read::<ResourceQuota>(Api::namespaced(client.clone(), namespace)),
            read::<LimitRange>(Api::namespaced(client.clone(), namespace)),
            described(client, namespace),
        )
    };
    let ((quotas, limits, namespace), jobs, capacity, priorities) =
        futures::join!(in_namespace, jobs(client, namespace), paging::capacity(client), priorities,);
    let preempts = |class: &PriorityClass| class.preemption_policy.as_deref() != Some("Never");
    let priorities = priorities.unwrap_or_default().into_iter().filter(preempts);
    let now = Timestamp::now();
    let remaining = jobs
        .iter()
        .filter_map(|job| Some((job.metadata.uid.clone()?, view::reported(job)?.remaining_seconds(now)?)));
    let room = Room {
        quotas: quotas.unwrap_or_default(),
        limits: limits.unwrap_or_default(),
        most_jobs: namespace.as_ref().and_then(most_jobs),
        remaining_seconds: remaining.collect(),
        jobs: jobs.iter().map(view::in_our_words).collect(),
        capacity,
        preempting: priorities.filter_map(|class| Some((class.name_any(), class.value?))).collect(),
    };
    (room, namespace.map(|namespace| namespace.labels.unwrap_or_default()))
}

fn names_priority(job: &MPIJob) -> bool {
    let pods = job.spec.mpi_replica_specs.values().filter_map(|replica| replica.template.spec.as_ref());
    pods.into_iter().any(|pod| pod.priority_class_name.is_some())
}

async fn read<K>(api: Api<K>) -> Option<Vec<K>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    Some(api.list(&ListParams::default()).await.ok()?.items)
}

async fn described(client: &Client, namespace: &str) -> Option<ObjectMeta> {
    let api: Api<Namespace> = Api::all(client.clone());
    Some(api.get_metadata(namespace).await.ok()?.metadata)
}

fn most_jobs(namespace: &ObjectMeta) -> Option<usize> {
    namespace.annotations.as_ref()?.get(ANNOTATION_MAX_CONCURRENT_JOBS)?.trim().parse().ok()
}

/// Every visible MPIJob, of all namespaces if possible, because those jobs hold nodes too.
async fn jobs(client: &Client, namespace: &str) -> Vec<DynamicObject> {
    let of = |namespace: Option<&str>| Selection {
        kind: Some(Kind::MpiJob),
        namespace: namespace.map(str::to_owned),
        labels: None,
    };
    let found = match list::list(client, &of(None)).await {
        Err(_) if !namespace.is_empty() => list::list(client, &of(Some(namespace))).await,
        found => found,
    };
    found.unwrap_or_default()
}

/// What the job's pods refer to and could not be created, or would wait for, without: priority classes and volume claims.
/// What may not be read counts as existing.
pub async fn missing_references(client: &Client, namespace: &str, asked: &Asked<'_>) -> Vec<Finding> {
    let pods: Vec<&PodSpec> = asked.groups.iter().filter_map(|group| group.pod.as_deref()).collect();
    let classes = pods.iter().filter_map(|pod| pod.priority_class_name.clone());
    let classes: BTreeSet<String> = classes.filter(|name| !name.is_empty()).collect();
    let volumes = pods.iter().flat_map(|pod| pod.volumes.iter().flatten());
    let claims =
        volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
    let claims: BTreeSet<String> = claims.collect();
    let mut found = Vec::new();
    let known: Api<PriorityClass> = Api::all(client.clone());
    for name in classes {
        if matches!(known.get_opt(&name).await, Ok(None)) {
            found.push(Finding {
                weight: Weight::Refused,
                reason: Cause::MissingReference,
                wait: None,
                message: format!(
                    "the priority class \"{name}\" does not exist, so the job's pods would be refused"
                ),
                advice:
                    "use an existing priority class, or none; an administrator of the cluster can create one"
                        .into(),
            });
        }
    }
    let known: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    for name in claims {
        if matches!(known.get_opt(&name).await, Ok(None)) {
            found.push(Finding {
                weight: Weight::Waits,
                reason: Cause::MissingReference,
                wait: None,
                message: format!(
                    "the volume claim \"{name}\" does not exist in namespace \"{namespace}\": the job's pods would wait for it"
                ),
                advice: on_missing_claim(&known).await.into(),
            });
        }
    }
    found
}

/// What to do about a volume claim that does not exist: the claims that do, and how to create one.
async fn on_missing_claim(known: &Api<PersistentVolumeClaim>) -> String {
    let listed = known.list_metadata(&ListParams::default().limit(MOST_CLAIMS_NAMED)).await;
    let names: Vec<String> =
        listed.map(|list| list.items.iter().map(ResourceExt::name_any).collect()).unwrap_or_default();
    let others = match names.is_empty() {
        true => "correct its name".to_owned(),
        false => format!("use one of the claims of the namespace ({})", names.join(", ")),
    };
    format!(
        "{others}, or create it: a manifest of kind PersistentVolumeClaim with this name, spec.accessModes [ReadWriteMany] \
         (ReadWriteOnce if all pods run on one node) and spec.resources.requests.storage"
    )
}

/// Reads the queue that the job names, with a finding about it; `None` if the job names none, or the queue may not be
/// read.
async fn queue_of(client: &Client, namespace: &str, job: &MPIJob) -> Option<(LocalQueue, Option<Finding>)> {
    let name = job.metadata.labels.as_ref()?.get(LABEL_QUEUE)?;
    let found = queue::local_queue(client, namespace, name).await?;
    let finding = match &found {
        LocalQueue::Found(queue) => {
            let job = Kind::MpiJob.job(namespace, job.metadata.name.as_deref().unwrap_or_default());
            waiting(name, queue, job)
        }
        LocalQueue::Missing => Some(queue::missing(name, namespace, None)),
        LocalQueue::Unserved => Some(Finding {
            weight: Weight::Waits,
            reason: Cause::QuotaExceeded,
            wait: None,
            message: format!("the cluster has no Kueue: the queue \"{name}\" has no effect"),
            advice: "omit the queue, or ask an administrator to install Kueue".into(),
        }),
    };
    Some((found, finding))
}

fn waiting(name: &str, queue: &DynamicObject, job: JobRef) -> Option<Finding> {
    let number =
        |field: &str| queue.data.pointer(&format!("/status/{field}")).and_then(serde_json::Value::as_i64);
    let pending = number("pendingWorkloads").filter(|pending| *pending > 0)?;
    let admitted = number("admittedWorkloads").unwrap_or(0);
    Some(Finding {
        weight: Weight::Waits,
        reason: Cause::QuotaExceeded,
        wait: Some(Estimate::Unknown),
        message: format!(
            "workloads in the queue \"{name}\": {pending} waiting, {admitted} running. Estimated wait time: unknown (the queue does not say how long its workloads take)"
        ),
        advice: Advice::from("once the job is created, see its place in the queue")
            .with(Action::Explain(job)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_everything_that_refuses_the_job() {
        let finding = |weight, message: &str| Finding {
            weight,
            reason: Cause::QuotaExceeded,
            message: message.to_owned(),
            wait: None,
            advice: "ask for less".into(),
        };
        assert!(refusal(&[finding(Weight::Waits, "no node is free")]).is_none());
        let all = [
            finding(Weight::Refused, "8 GPUs exceed quota \"team\""),
            finding(Weight::Refused, "64Gi of memory exceed quota \"team\""),
            finding(Weight::Waits, "no node is free"),
        ];
        let Some(Error::Refused { class: Class::Quota, message, .. }) = refusal(&all) else {
            panic!("not refused")
        };
        assert_eq!(message, "8 GPUs exceed quota \"team\"; also 64Gi of memory exceed quota \"team\"");
    }
}
