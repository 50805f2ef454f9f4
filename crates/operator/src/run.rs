//! Starts the operator and keeps it running until it is told to stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use api::MPIJob;
use futures::StreamExt;
use kube::api::{Api, ListParams};
use kube::runtime::controller::{self, Action};
use kube::{Client, runtime};
use tokio::sync::{Semaphore, watch};
use tracing::Instrument;

use crate::capacity::SharedCapacity;
use crate::context::{Context, Settings, Shared};
use crate::error::{Class, Error};
use crate::events;
use crate::health::Health;
use crate::memory::Memory;
use crate::metrics::Counted;
use crate::packed::Packed;
use crate::pod_groups;
use crate::progression;
use crate::reconcile::{after_failure, reconcile};
use crate::status::FirstWait;
use crate::trainjobs;
use crate::vitals::Vitals;
use crate::watch::controller;

/// Passes at once. A pass holds all pods that it is about to create, so more of them than writes only hold memory.
const JOBS_AT_ONCE: u16 = 64;
/// Jobs whose logs are read at once: a kubelet that does not answer holds each of them up for seconds, and never all jobs.
const LOGS_AT_ONCE: usize = 96;

/// Key pairs made at once.
const KEYS_AT_ONCE: usize = 2;

/// Runs until `shutdown` resolves, then lets the passes under way end; nobody looks at how it does.
///
/// # Errors
/// If the cluster does not know MPIJobs, or cannot be reached at the start.
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    operate(client, settings, Vitals::default(), shutdown).await
}

/// Runs as [`run`] does, and shows how it does in `vitals`.
///
/// # Errors
/// As [`run`].
pub async fn operate(
    client: Client,
    settings: Settings,
    vitals: Vitals,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    let namespace = client.default_namespace().to_owned();
    let client = Client::new(Counted { inner: client, metrics: vitals.metrics.clone() }, namespace);
    check_crd(&client, settings.namespace.as_deref()).await?;
    if let Some(gang) = &settings.plan.gang {
        pod_groups::check(&client, gang).await?;
    }
    let memory = Arc::new(Memory::default());
    let (namespace, gang) = (settings.namespace.as_deref(), settings.plan.gang.as_ref());
    let (controller, stores, mut unreadable) = controller(&client, namespace, gang, &memory, &vitals.health);
    let jobs = controller.store();
    vitals.metrics.watch_jobs(jobs.clone());
    let (now_listed, listed) = watch::channel(false);
    let shared = Shared {
        client,
        memory,
        first_wait: FirstWait::new(settings.first_wait),
        nodes: Arc::default(),
        pauses: Arc::default(),
        writes: Arc::new(Semaphore::new(settings.writes.max(1))),
        logs: Arc::new(Semaphore::new(LOGS_AT_ONCE)),
        keys: Arc::new(Semaphore::new(KEYS_AT_ONCE)),
        settings,
        vitals,
    };
    let context = Arc::new(Context { shared, jobs, stores, listed, capacity: SharedCapacity::default() });
    let passes = controller
        .with_config(controller::Config::default().concurrency(JOBS_AT_ONCE))
        .graceful_shutdown_on(shutdown)
        .run(pass, after_failure, context.clone())
        .for_each(|outcome| {
            look_at(outcome.err(), &context.vitals.health);
            std::future::ready(())
        });
    let all_listed = async {
        // Waited for here and nowhere else: of several who wait for one store, kube wakes only the last
        // (kube-runtime `utils/delayed_init.rs` keeps one waker).
        context.stores.ready().await;
        now_listed.send_replace(true);
        context.vitals.health.set_ready(true);
        std::future::pending().await
    };
    let trainjobs = async {
        // A failure there must not end MPIJobs.
        if context.settings.trainjobs
            && let Err(error) = trainjobs::operate(&context.shared).await
        {
            tracing::warn!(%error, "TrainJobs are not reconciled");
        }
        std::future::pending().await
    };
    tokio::select! {
        () = passes => {}
        () = all_listed => {}
        () = trainjobs => {}
        () = context.watch_pauses() => {}
        () = events::tell_of_unreadable(&context, &mut unreadable, api::EVENT_SOURCE) => {}
        () = progression::track(&context.shared, || progression::mpijobs(&context)) => {}
    }
    context.vitals.health.set_ready(false);
    Ok(())
}

/// One pass over a job, timed, under a trace of its own that every line logged in it carries.
async fn pass(job: Arc<Packed>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = job.rest.metadata.namespace.clone().unwrap_or_default();
    let name = job.rest.metadata.name.clone().unwrap_or_default();
    let span = tracing::info_span!("pass", trace = trace_id(), namespace, job = name);
    let vitals = context.vitals.clone();
    vitals.health.began(&namespace, &name);
    let _ended = Ended { health: vitals.health.clone(), namespace, name };
    let since = Instant::now();
    let uid = job.rest.metadata.uid.clone().unwrap_or_default();
    let outcome = async {
        let outcome = match job.whole() {
            Ok(job) => reconcile(&job, &context).await,
            Err(error) => Err(error.into()),
        };
        match &outcome {
            Ok(_) => tracing::debug!(milliseconds = since.elapsed().as_millis(), "reconciliation ended"),
            Err(error) => context.memory.of(&uid, |memory| error.log(&mut memory.failure)),
        }
        outcome
    };
    let outcome = outcome.instrument(span).await;
    vitals.metrics.pass_ended(since.elapsed(), outcome.is_ok());
    outcome
}

/// Says that a pass has ended, however it did.
struct Ended {
    health: Arc<Health>,
    namespace: String,
    name: String,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.health.ended(&self.namespace, &self.name);
    }
}

/// 16 random bytes, as a W3C trace-id is written.
fn trace_id() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness the lines of passes are told apart by the job's name only.
    let _ = getrandom::fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Failed passes were logged where they failed; a job that is gone gets no pass.
fn look_at(error: Option<controller::Error<Error, runtime::watcher::Error>>, health: &Health) {
    match error {
        None | Some(controller::Error::ReconcilerFailed(..)) => {}
        Some(controller::Error::ObjectNotFound(job)) => {
            health.gone(job.namespace.as_deref().unwrap_or_default(), &job.name);
        }
        Some(error) => tracing::warn!(%error, "controller error"),
    }
}

/// Without the definition every watch would fail for ever; better to say so.
async fn check_crd(client: &Client, namespace: Option<&str>) -> Result<(), Error> {
    let jobs: Api<MPIJob> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = jobs.list_metadata(&ListParams::default().limit(1)).await;
    let error = listed.map_err(Error::request("list MPIJobs")).err();
    match error {
        Some(error) if error.class() == Class::Gone => Err(Error::CrdMissing),
        Some(error) => Err(error),
        None => Ok(()),
    }
}
