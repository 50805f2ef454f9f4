//! Starts the operator and keeps it running until it is told to stop.

use std::future::Future;
use std::sync::Arc;

use api::MPIJob;
use futures::StreamExt;
use kube::api::{Api, ListParams};
use kube::runtime::controller;
use kube::runtime::reflector::Store;
use kube::{Client, runtime};
use tokio::sync::Semaphore;

use crate::error::{Class, Error};
use crate::memory::Memory;
use crate::reconcile::{after_failure, reconcile};
use crate::watch::{Stores, controller};

/// Writes in flight unless the settings say otherwise: past this a local API server gets no faster.
const DEFAULT_WRITES: usize = 64;
/// Jobs looked at at once.
const JOBS_AT_ONCE: u16 = 32;

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one namespace to look after; all if not given.
    pub namespace: Option<String>,
    /// What jobs are made with.
    pub plan: plan::Settings,
    /// The most writes to be in flight at once.
    pub writes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { namespace: None, plan: plan::Settings::default(), writes: DEFAULT_WRITES }
    }
}

/// What every pass works with.
pub(crate) struct Context {
    pub client: Client,
    pub settings: Settings,
    pub jobs: Store<MPIJob>,
    pub stores: Stores,
    pub memory: Arc<Memory>,
    pub writes: Semaphore,
}

/// Runs until `shutdown` resolves, then lets the passes under way end.
///
/// # Errors
/// If the cluster does not know MPIJobs, or cannot be reached at the start.
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    check_crd(&client, settings.namespace.as_deref()).await?;
    let memory = Arc::new(Memory::default());
    let (controller, stores) = controller(&client, settings.namespace.as_deref(), &memory);
    let jobs = controller.store();
    let writes = Semaphore::new(settings.writes.max(1));
    let context = Arc::new(Context { client, settings, jobs, stores, memory, writes });
    controller
        .with_config(controller::Config::default().concurrency(JOBS_AT_ONCE))
        .graceful_shutdown_on(shutdown)
        .run(reconcile, after_failure, context)
        .for_each(|outcome| {
            log(outcome.err());
            std::future::ready(())
        })
        .await;
    Ok(())
}

/// Failed passes were logged where they failed; a job that is gone is no news.
fn log(error: Option<controller::Error<Error, runtime::watcher::Error>>) {
    match error {
        None | Some(controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)) => {}
        Some(error) => tracing::warn!(%error, "the controller met an error"),
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
