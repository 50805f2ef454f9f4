//! Carries out a Job's plan: creates and deletes pods, writes the status, then removes finalizers. Does as much as
//! possible before it returns a failure, and decides nothing.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};

use super::decide::{Deletion, Plan};
use super::pods::{self, TRACKING_FINALIZER};
use super::template;
use crate::{Error, in_words, refusal};
use controller_runtime::cache::{Cache, Key};
use controller_runtime::packed::Packed;
use controller_runtime::record::{Note, Recorder};

/// Concurrent requests for one Job.
const CONCURRENCY: usize = 32;

/// The dependencies for carrying out a plan.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Stores the replies to writes.
    pub jobs: Cache<Packed<Job>>,
    /// Stores the replies to writes.
    pub pods: Cache<Pod>,
    /// Records Events.
    pub recorder: Recorder,
}

/// Carries out `plan` for `job`.
pub async fn apply(context: &Context, job: &Job, plan: Plan) -> Result<(), Error> {
    let deleted = delete_pods(context, job, &plan.delete).await;
    let created = create_pods(context, job, &plan.create).await;
    if let Some(mut status) = plan.status {
        // Correct the count: pods that could not be created or deleted have not changed.
        let uncreated = plan.create.len() - created.count;
        let undeleted = plan.delete.len() - deleted.count;
        if uncreated + undeleted > 0 {
            let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
            let active = status.active.unwrap_or(0) - number(uncreated) + number(undeleted);
            status.active = Some(active).filter(|n| *n > 0);
            status.terminating = status.terminating.map(|n| (n - number(undeleted)).max(0));
        }
        write_status(context, job, status).await?;
    }
    for note in plan.notes {
        context.recorder.note(job, note);
    }
    release_pods(context, &job.namespace().unwrap_or_default(), plan.release).await?;
    match deleted.error.or(created.error) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Done {
    count: usize,
    error: Option<Error>,
}

/// Creates pods in batches of 1, 2, 4, …, so that an error common to all is hit only once (upstream's slow start).
async fn create_pods(context: &Context, job: &Job, wanted: &[Option<i32>]) -> Done {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let mut done = Done::default();
    let mut rest = wanted;
    let mut batch = 1;
    while !rest.is_empty() && done.error.is_none() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        rest = later;
        batch = (batch * 2).min(CONCURRENCY);
        let results: Vec<_> = futures::stream::iter(now.to_vec())
            .map(|index| {
                let (api, pod) = (api.clone(), template::pod(job, index));
                async move { api.create(&PostParams::default(), &pod).await }
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        for result in results {
            match result {
                Ok(pod) => {
                    let message = format!("Created pod: {}", pod.name_any());
                    context.recorder.note(job, Note::normal("SuccessfulCreate", message));
                    context.pods.learn(pod);
                    done.count += 1;
                }
                Err(error) => {
                    context.recorder.note(
                        job,
                        Note::warning("FailedCreate", format!("Error creating: {}", in_words(&error))),
                    );
                    done.error = Some(Error::from(error));
                }
            }
        }
    }
    done
}

async fn delete_pods(context: &Context, job: &Job, deletions: &[Deletion]) -> Done {
    let namespace = job.namespace().unwrap_or_default();
    let pod_namespace = namespace.as_str();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), pod_namespace);
    let results: Vec<_> = futures::stream::iter(deletions.to_vec())
        .map(|deletion| {
            let api = api.clone();
            async move {
                if deletion.forget
                    && let Some(pod) = context.pods.get(&Key::new(pod_namespace, &deletion.name))
                    && let Err(error) = release(context, &api, &pod).await
                {
                    return (deletion.name, Err(error));
                }
                let precondition = Preconditions { uid: Some(deletion.uid), resource_version: None };
                let parameters = DeleteParams::default().preconditions(precondition);
                let reply = api.delete(&deletion.name, &parameters).await;
                (deletion.name, reply.map_err(Error::from))
            }
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let mut done = Done::default();
    for (name, result) in results {
        match result {
            Ok(reply) => {
                context.recorder.note(job, Note::normal("SuccessfulDelete", format!("Deleted pod: {name}")));
                if let Some(pod) = reply.left() {
                    context.pods.learn(pod);
                }
                done.count += 1;
            }
            // Gone already, or another pod has its name.
            Err(error) if matches!(error.code(), Some(404 | 409)) => done.count += 1,
            Err(error) => {
                context.recorder.note(job, Note::warning("FailedDelete", format!("Error deleting: {error}")));
                done.error = Some(error);
            }
        }
    }
    done
}

/// Writes the status if it differs, with the version that it was computed from.
async fn write_status(context: &Context, job: &Job, status: JobStatus) -> Result<(), Error> {
    if job.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let api: Api<Job> = Api::namespaced(context.client.clone(), &job.namespace().unwrap_or_default());
    let wanted = Job { status: Some(status), ..job.clone() };
    match api.replace_status(&job.name_any(), &PostParams::default(), &wanted).await {
        Ok(written) => {
            context.jobs.learn(Packed::of(written)?);
            Ok(())
        }
        // Deleted meanwhile; the watch will deliver that.
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the tracking finalizer from the named pods.
pub async fn release_pods(context: &Context, namespace: &str, names: Vec<String>) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let held = names.into_iter().filter_map(|name| context.pods.get(&Key::new(namespace, name)));
    let results: Vec<Result<(), Error>> = futures::stream::iter(held.collect::<Vec<Arc<Pod>>>())
        .map(|pod| {
            let api = api.clone();
            async move { release(context, &api, &pod).await }
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    results.into_iter().collect()
}

async fn release(context: &Context, api: &Api<Pod>, pod: &Pod) -> Result<(), Error> {
    let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
    let Some(position) = finalizers.iter().position(|f| f == TRACKING_FINALIZER) else { return Ok(()) };
    let path = format!("/metadata/finalizers/{position}");
    let operations = serde_json::json!([
        {"op": "test", "path": "/metadata/uid", "value": pods::uid(pod)},
        {"op": "test", "path": path, "value": TRACKING_FINALIZER},
        {"op": "remove", "path": path},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(operations).map_err(Error::Encode)?);
    match api.patch(&pod.name_any(), &PatchParams::default(), &patch).await {
        Ok(pod) => {
            // A pod that was waiting only for this is now gone; the watch will deliver that.
            if !(semantics::is_deleted(&pod) && pod.metadata.finalizers.iter().flatten().next().is_none()) {
                context.pods.learn(pod);
            }
            Ok(())
        }
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
