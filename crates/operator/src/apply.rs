//! Carries out a plan. Its changes are made one group after another, those of a group at once, never more than the
//! operator's bound in flight. A failure is a value: it ends neither the group nor the pass, only the groups after it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use api::ANNOTATION_ATTEMPT;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, Patch as KubePatch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Resource, ResourceExt};
use plan::kept::{Job, Pod};
use plan::{
    Applied, ApplyFailure, Change, Child, ChildKind, JobChange, KeyPair, LogSource, Patch, Plan, PodGroup,
    SecretSeen, Target, ValidJob,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::context::{Context, Shared};
use crate::error::{Class, Error, classify};
use crate::keys::new_key_pair;
use crate::launcher_log;
use crate::memory::{Deletion, Made, WATCH_LAG};
use crate::observe::secret_state;
use crate::owned::{is_controlled_by, is_left_behind};
use crate::pod_groups;
use crate::slim::Slim;

/// The job that changes are made for.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Carries out a plan. Returns what came of it, and the pass's error if there was any failure.
pub(crate) async fn apply(context: &Context, job: &ValidJob, plan: &Plan) -> (Applied, Option<Error>) {
    let owner = Owner { namespace: &job.namespace, name: &job.name, uid: &job.uid };
    carry_out(context, owner, plan.last_words.as_ref(), &plan.changes).await
}

/// Reads the last words of a job that fails, and makes changes. Returns what came of it, and the pass's error if there was
/// any failure.
pub(crate) async fn carry_out(
    context: &Shared,
    job: Owner<'_>,
    last_words: Option<&LogSource>,
    changes: &[Vec<Change>],
) -> (Applied, Option<Error>) {
    let last_words = match last_words {
        Some(source) => Some(launcher_log::read(context, source.clone(), false).await),
        None => None,
    };
    let failures = make_all(context, job, changes).await;
    let error = error(&failures);
    let failures = failures.into_iter().map(|(failure, _)| failure).collect();
    (Applied { failures, last_words }, error)
}

async fn make_all(context: &Shared, job: Owner<'_>, changes: &[Vec<Change>]) -> Vec<(ApplyFailure, Class)> {
    let mut failures = Vec::new();
    for group in changes {
        // No more than may be in flight anyway: each that waits would hold a request's worth of memory.
        let mut waiting = group.iter();
        let first = waiting.by_ref().take(context.settings.writes.max(1));
        let mut writes: FuturesUnordered<_> = first.map(|change| write(context, job, change)).collect();
        while let Some(outcome) = writes.next().await {
            failures.extend(outcome.err());
            writes.extend(waiting.next().map(|change| write(context, job, change)));
        }
        if !failures.is_empty() {
            break;
        }
    }
    failures
}

/// What these failures mean for the pass.
fn error(failures: &[(ApplyFailure, Class)]) -> Option<Error> {
    let (first, _) = failures.first()?;
    let is_refusal = |class: &Class| matches!(class, Class::Refused | Class::Invalid);
    let refused = failures.iter().any(|(_, class)| is_refusal(class));
    Some(Error::Apply {
        count: failures.len(),
        first: format!("{} {}: {}", first.kind.as_str(), first.name, first.message),
        class: if refused { Class::Refused } else { Class::Retry },
    })
}

/// Creates the record of a failed attempt. It is for people: a job ends as well without it, so a failure is only logged.
pub(crate) async fn keep_record(context: &Shared, record: &ConfigMap) {
    let namespace = record.metadata.namespace.as_deref().unwrap_or_default();
    let records: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let _permit = context.writes.acquire().await;
    match records.create(&PostParams::default(), record).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => {
            tracing::warn!(record = record.name_any(), %error, "cannot save the record of a failure");
        }
    }
}

/// Changes the job itself.
///
/// # Errors
/// If the server refuses it or cannot be reached.
pub(crate) async fn change_job<K>(context: &Shared, job: &K, change: JobChange) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let namespace = job.namespace().unwrap_or_default();
    let jobs: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    match change {
        JobChange::BeginAttemptAfter(number) => begin_attempt_after(context, &jobs, job, number).await,
        JobChange::Delete => {
            let _permit = context.writes.acquire().await;
            let deleted = delete_in(&jobs, &job.name_any(), job.uid(), false).await;
            deleted.map_err(Error::request("remove the job at the end of its ttlSecondsAfterFinished"))
        }
    }
}

/// Increments the job's attempt, if it still is this: the job is read for that, and the patch is guarded by the
/// resourceVersion that was read.
async fn begin_attempt_after<K>(context: &Shared, jobs: &Api<K>, job: &K, number: u32) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = job.name_any();
    let found = jobs.get_opt(&name).await.map_err(Error::request("read the job's attempt"))?;
    let Some(found) = found else { return Ok(()) };
    if found.uid() != job.uid() || plan::attempt_of(found.meta()) != number {
        return Ok(());
    }
    let body = json!({ "metadata": {
        "uid": job.uid(),
        "resourceVersion": found.resource_version(),
        "annotations": { ANNOTATION_ATTEMPT: number.saturating_add(1).to_string() },
    } });
    let _permit = context.writes.acquire().await;
    let begun = jobs.patch(&name, &PatchParams::default(), &KubePatch::Merge(&body)).await;
    begun.map(|_| ()).map_err(Error::request("begin the job's next attempt"))
}

/// Why one write failed: a request, or a stranger's object in the way.
enum Failed {
    Request(kube::Error),
    Foreign,
    /// An object of a deleted job of the same name, which the garbage collector removes.
    LeftBehind,
    Key(Error),
}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

async fn write(context: &Shared, job: Owner<'_>, change: &Change) -> Result<(), (ApplyFailure, Class)> {
    let (kind, name) = match change {
        Change::Create(child) => (child.kind(), child.name()),
        Change::Patch(patch) => (patch.kind, patch.name.as_str()),
        Change::Delete(target) => (target.kind, target.name.as_str()),
    };
    make(context, job, change).await.map_err(|failed| {
        let (message, class, foreign) = match failed {
            Failed::Request(kube::Error::Api(status)) => {
                let error = kube::Error::Api(status.clone());
                (status.message, classify(&error), false)
            }
            Failed::Request(error) => (error.to_string(), classify(&error), false),
            Failed::Foreign => ("an object of this name has another owner".to_owned(), Class::Refused, true),
            Failed::LeftBehind => ("an object of a deleted job has this name".to_owned(), Class::Retry, true),
            Failed::Key(error) => (error.to_string(), error.class(), false),
        };
        let creating = matches!(change, Change::Create(_));
        let invalid = class == Class::Invalid;
        if foreign {
            context.memory.of(job.uid, |memory| memory.strangers.insert((kind, name.to_owned())));
        }
        (ApplyFailure { kind, name: name.to_owned(), foreign, creating, invalid, message }, class)
    })
}

/// Makes a change; a Secret's keys are made before the change takes one of the places of writes.
async fn make(context: &Shared, job: Owner<'_>, change: &Change) -> Result<(), Failed> {
    let with_keys = match change {
        Change::Create(Child::Secret(secret)) => {
            let data = Some(plan::key_data(&new_key(context).await?));
            Some(Change::Create(Child::Secret(Box::new(Secret { data, ..(**secret).clone() }))))
        }
        Change::Patch(patch) if patch.kind == ChildKind::Secret => {
            let body = json!({ "data": plan::key_data(&new_key(context).await?) });
            Some(Change::Patch(Patch { body, ..patch.clone() }))
        }
        Change::Create(_) | Change::Patch(_) | Change::Delete(_) => None,
    };
    // Closed only by dropping the context, which this holds.
    let _permit = context.writes.acquire().await;
    match with_keys.as_ref().unwrap_or(change) {
        Change::Create(child) => create(context, job, child).await,
        Change::Patch(patch) => patch_child(context, job, patch).await,
        Change::Delete(target) => delete_child(context, job, target).await,
    }
}

/// Makes a key pair: milliseconds of arithmetic, many in a debug build. It must not run on a thread that others wait for, and
/// only on few at once, because each has a heap of its own.
async fn new_key(context: &Shared) -> Result<KeyPair, Failed> {
    let _turn = context.keys.acquire().await;
    let made = tokio::task::spawn_blocking(new_key_pair).await;
    made.map_err(|error| Error::Key(error.to_string())).flatten().map_err(Failed::Key)
}

async fn create(context: &Shared, job: Owner<'_>, child: &Child) -> Result<(), Failed> {
    let client = &context.client;
    let made = match child {
        Child::Service(object) => Made::Service(Box::new(create_one(client, job, &**object).await?)),
        Child::ConfigMap(object) => Made::ConfigMap(Box::new(create_one(client, job, &**object).await?)),
        Child::Pod(object) => Made::Pod(Arc::new(create_one(client, job, &**object).await?)),
        Child::Job(object) => Made::Job(Box::new(create_one(client, job, &**object).await?)),
        Child::NetworkPolicy(object) => {
            let _: NetworkPolicy = create_one(client, job, &**object).await?;
            context.memory.of(job.uid, |memory| memory.network_policy_present = true);
            return Ok(());
        }
        Child::PodGroup(object) => {
            create_pod_group(context, job, object).await?;
            Made::PodGroup(object.clone())
        }
        Child::Secret(object) => {
            let secret: Secret = create_one(client, job, &**object).await?;
            let present = secret_state(&secret) == SecretSeen::Present;
            context.memory.of(job.uid, |memory| memory.known.secret_present = present);
            return Ok(());
        }
    };
    let entry = (child.kind(), child.name().to_owned());
    context.memory.of(job.uid, |memory| {
        memory.strangers.remove(&entry);
        memory.known.created.insert(entry, (Instant::now(), made));
    });
    Ok(())
}

/// Creates an object, and reads of the answer what `A` keeps of it. One that is there already is as good if the job
/// controls it: an earlier pass made it, and its answer was lost or the watch lags.
async fn create_one<K, A>(client: &Client, job: Owner<'_>, object: &K) -> Result<A, Failed>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Serialize,
    A: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    A: Clone + Debug + DeserializeOwned,
{
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let path = K::url_path(&(), Some(job.namespace));
    let request =
        Request::new(path).create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    match client.request::<Slim<A>>(request).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let children: Api<Slim<A>> = Api::namespaced(client.clone(), job.namespace);
            let Slim(existing) = children.get(&object.name_any()).await?;
            if is_controlled_by(&existing, job.uid) { Ok(existing) } else { Err(in_the_way(&existing, job)) }
        }
        outcome => Ok(outcome?.0),
    }
}

/// Why an object that the job does not control keeps it from having one of this name.
fn in_the_way<K: Resource>(existing: &K, job: Owner<'_>) -> Failed {
    let is_left = ["MPIJob", "TrainJob"].iter().any(|kind| is_left_behind(existing, kind, job.name, job.uid));
    if is_left { Failed::LeftBehind } else { Failed::Foreign }
}

/// Creates the PodGroup, as [`create_one`] does.
async fn create_pod_group(context: &Shared, job: Owner<'_>, group: &PodGroup) -> Result<(), Failed> {
    let groups = pod_groups::like(&context.client, group, job.namespace);
    match groups.create(&PostParams::default(), &pod_groups::sent(group)?).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let existing = groups.get(job.name).await?;
            if is_controlled_by(&existing, job.uid) { Ok(()) } else { Err(in_the_way(&existing, job)) }
        }
        outcome => Ok(outcome.map(|_| ())?),
    }
}

async fn patch_child(context: &Shared, job: Owner<'_>, patch: &Patch) -> Result<(), Failed> {
    let (client, namespace) = (&context.client, job.namespace);
    match patch.kind {
        ChildKind::Service => patch_one::<Service>(client, namespace, patch).await?,
        ChildKind::ConfigMap => patch_one::<ConfigMap>(client, namespace, patch).await?,
        ChildKind::Secret => {
            patch_one::<Secret>(client, namespace, patch).await?;
            context.memory.of(job.uid, |memory| memory.known.secret_present = true);
        }
        ChildKind::Pod => patch_one::<Pod>(client, namespace, patch).await?,
        ChildKind::Job => patch_one::<Job>(client, namespace, patch).await?,
        ChildKind::NetworkPolicy => patch_one::<NetworkPolicy>(client, namespace, patch).await?,
        ChildKind::PodGroup => {
            if let Some(gang) = &context.settings.plan.gang {
                let groups = pod_groups::in_namespace(client, gang, namespace);
                groups.patch(&patch.name, &PatchParams::default(), &KubePatch::Merge(&patch.body)).await?;
            }
        }
    }
    Ok(())
}

async fn patch_one<K>(client: &Client, namespace: &str, patch: &Patch) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let children: Api<Slim<K>> = Api::namespaced(client.clone(), namespace);
    let (params, body) = (PatchParams::default(), KubePatch::Merge(&patch.body));
    if patch.of_status {
        children.patch_status(&patch.name, &params, &body).await?;
    } else {
        children.patch(&patch.name, &params, &body).await?;
    }
    Ok(())
}

async fn delete_child(context: &Shared, job: Owner<'_>, target: &Target) -> Result<(), Failed> {
    let (client, namespace) = (&context.client, job.namespace);
    if is_deleted_already(context, job, target) {
        return Ok(());
    }
    match target.kind {
        ChildKind::Service => delete_one::<Service>(client, namespace, target).await?,
        ChildKind::ConfigMap => delete_one::<ConfigMap>(client, namespace, target).await?,
        ChildKind::Secret => delete_one::<Secret>(client, namespace, target).await?,
        ChildKind::Pod => delete_one::<Pod>(client, namespace, target).await?,
        ChildKind::Job => delete_one::<Job>(client, namespace, target).await?,
        ChildKind::NetworkPolicy => delete_one::<NetworkPolicy>(client, namespace, target).await?,
        ChildKind::PodGroup => {
            if let Some(gang) = &context.settings.plan.gang {
                let groups = pod_groups::in_namespace(client, gang, namespace);
                delete_in(&groups, &target.name, target.uid.clone(), target.at_once).await?;
            }
        }
    }
    context.memory.of(job.uid, |memory| {
        memory.known.created.remove(&(target.kind, target.name.clone()));
        if let Some(uid) = target.uid.clone().filter(|_| target.kind == ChildKind::Pod) {
            memory.known.deleted.retain(|_, deletion| deletion.at.elapsed() < WATCH_LAG);
            memory.known.deleted.insert(uid, Deletion { at: Instant::now(), at_once: target.at_once });
        }
    });
    Ok(())
}

/// Whether an earlier pass has deleted a pod that the watch still shows as it was. Where many jobs lose Workers at once, the
/// watch lags behind the next pass, and without this every other delete would be a repetition.
fn is_deleted_already(context: &Shared, job: Owner<'_>, target: &Target) -> bool {
    let Some(uid) = target.uid.as_deref().filter(|_| target.kind == ChildKind::Pod) else { return false };
    context
        .memory
        .of(job.uid, |memory| memory.known.deleted.get(uid).is_some_and(|deletion| deletion.covers(target)))
}

/// Deletes the very object that was seen. Gone already, or replaced by another, is as good.
async fn delete_one<K>(client: &Client, namespace: &str, target: &Target) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let children: Api<K> = Api::namespaced(client.clone(), namespace);
    delete_in(&children, &target.name, target.uid.clone(), target.at_once).await
}

async fn delete_in<K>(
    children: &Api<K>,
    name: &str,
    uid: Option<String>,
    at_once: bool,
) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
    let grace_period_seconds = at_once.then_some(0);
    let params = DeleteParams { preconditions, grace_period_seconds, ..DeleteParams::background() };
    match children.delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
